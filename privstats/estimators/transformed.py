"""Queries about rows with a transformed response, for starting coefficients that are computed by least squares.

Starting coefficients need only be near the minimiser of the loss. The least-squares coefficients for ``log(y + 1/2)``,
or for a clipped response, are close enough. The queries are the queries of the module `beginning`, with transformed
responses in place of the responses.
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
    """Function that sends queries about rows with a transformed response.

    Parameters
    ----------
    ask : Ask
        Function that sends queries to the data and returns noisy releases.
    transform : Transform
        Transformation of the responses in a block of rows.
    """

    ask: Ask
    transform: Transform

    def _about(self, question: Question) -> Question:
        return replace(question, of=OfTransformed(question.of, self.transform))

    def __call__(self, question: Question, *, by: Any) -> Release:
        """Send a query about rows with a transformed response; return its release by the noise mechanism `by`."""
        return self.ask(self._about(question), by=by)

    def together(self, pairs: Iterable[tuple[Question, Any]]) -> list[Release]:
        """Send several queries to the data in one pass over the rows; return their releases.

        The argument `pairs` contains pairs (query, mechanism). The queries are about rows with a transformed response.
        """
        return self.ask.together([(self._about(question), by) for question, by in pairs])

    def law(self, question: Question, *, by: Any) -> Any:
        """Return the distribution of the noise that the mechanism `by` would add to the answer to a query."""
        return self.ask.law(question, by=by)

    def choose(self, name: str, lengths: Mapping[str, float]) -> str:
        """Return the name of the algorithm (branch) with the smallest expected interval length; see `Ask.choose`.

        `lengths` maps the name of each algorithm to its expected interval length; `name` is the name of the choice in
        error messages.
        """
        return self.ask.choose(name, lengths)

    def decide(self, label: str, wanted: bool) -> bool:
        """Return whether to send the optional query with the label `label`.

        In a fit, the result is `wanted`. Before the fit, the estimator is run on synthetic rows; in these runs the
        result does not depend on `wanted`, but is True in some runs and False in others.
        """
        return self.ask.decide(label, wanted)

    def through(self, design: Any) -> None:
        """Use `design`, another map from rows to numbers, in all later queries."""
        self.ask.through(design)

    def close(self) -> None:
        """Accept no more queries of the data from the estimator."""
        self.ask.close()


@dataclass(frozen=True, eq=False)
class TransformedBox(PublicBox):
    """Public information about a design whose response is transformed.

    Parameters
    ----------
    half : float
        Half-range of the transformed response, in units of the linear predictor.
    linear : bool
        Whether the transformed response is on the scale of the linear predictor. If so, the offset is subtracted from
        the transformed response.
    """

    half: float = 1.0
    linear: bool = True

    @property
    def offset(self) -> tuple[float, ...]:
        return tuple(one / self.half for one in super().offset) if self.linear else ()
