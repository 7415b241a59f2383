"""Rows whose response is another function of their cells: the start of a loss is least squares of a transform.

A start need not be good, only near, as is least squares of ``log(y + 1/2)``, or of a response that is clipped at a few
scales. It is the same conversation (`beginning`) about these rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from privstats.estimators.frame import PublicBox
from privstats.gate.questions import Ask, Question
from privstats.losses.psi import OfTransformed, Transform
from privstats.privacy.release import Release


@dataclass(frozen=True, eq=False)
class TransformedAsk:
    """The same conversation about rows whose response is transformed.

    Parameters
    ----------
    ask : Ask
    transform : Transform
        Of the block's response.
    """

    ask: Ask
    transform: Transform

    def _about(self, question: Question) -> Question:
        return replace(question, of=OfTransformed(question.of, self.transform))

    def __call__(self, question: Question, *, by: Any) -> Release:
        """Ask a question of a mechanism; return its release."""
        return self.ask(self._about(question), by=by)

    def together(self, pairs: Iterable[tuple[Question, Any]]) -> list[Release]:
        """Ask several questions in one pass."""
        return self.ask.together([(self._about(question), by) for question, by in pairs])

    def law(self, question: Question, *, by: Any) -> Any:
        """Return the law of the noise of a planned question."""
        return self.ask.law(question, by=by)

    def choose(self, name: str, lengths: Mapping[str, float]) -> str:
        """Return the branch with the smallest length."""
        return self.ask.choose(name, lengths)

    def decide(self, label: str, wanted: bool) -> bool:
        """Return whether to ask the optional question of this label."""
        return self.ask.decide(label, wanted)

    def through(self, design: Any) -> None:
        """Look at the same rows through another design."""
        self.ask.through(design)

    def close(self) -> None:
        """Ask no more."""
        self.ask.close()


@dataclass(frozen=True, eq=False)
class TransformedBox(PublicBox):
    """What is public of a design's rows whose response is transformed.

    Parameters
    ----------
    half : float
        What the transformed response's 1 is, in units of the response's linear predictor.
    linear : bool
        Whether the transformed response is about the linear predictor, so that an offset is subtracted from it.
    """

    half: float = 1.0
    linear: bool = True

    @property
    def offset(self) -> tuple[float, ...]:
        return tuple(one / self.half for one in super().offset) if self.linear else ()
