"""The gate: charges are made before it is opened; it projects, sums, lets the mechanism speak, forgets."""

from __future__ import annotations

import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np

from privstats.errors import PrivacyError
from privstats.older.gate.questions import Question
from privstats.older.gate.rows import MemoryRows
from privstats.older.numerics.exact import Gathered, Total
from privstats.older.privacy.events import Event
from privstats.older.privacy.release import Release, Sensitivity
from privstats.older.privacy.together import Angle, Cell

T = TypeVar("T")

_ONE_AT_A_TIME = threading.RLock()  # warning filters belong to the process: two open gates would mix them up


class Speaker(Protocol):
    """A calibrated mechanism, as the gate knows it."""

    @property
    def name(self) -> str: ...
    @property
    def norm(self) -> str: ...
    @property
    def event(self) -> Event: ...

    def release(self, name: str, exact: Total | Gathered, sensitivity: Sensitivity, chance: Any) -> Release: ...


@dataclass(frozen=True)
class Turn:
    """One planned question: what is asked, who answers, at what share of the budget, about which rows.

    The rows make it cheaper beside others: by the angle between two of them, or because they are those of one cell.
    """

    name: str
    kind: str
    mechanism: str
    share: float = field(compare=False)  # the plan decides it, not the one who asks
    angle: Angle | Cell | None = None


class Conversation(ABC):
    """The one verb an estimator has: `ask`. It sees releases and nothing else."""

    def __init__(self, rows: MemoryRows, chance: Callable[[int], Any]) -> None:
        self._rows = rows
        self._chance = chance
        self._asked = 0
        self._families: list[object] = []
        self.releases: tuple[Release, ...] = ()

    def ask(
        self, questions: Question | Sequence[Question], *, by: str | Sequence[str], share: float | Sequence[float] = 1.0
    ) -> tuple[Release, ...]:
        """Ask one or several questions in one pass over the data.

        Parameters
        ----------
        questions : Question or sequence of Question
            What is asked.
        by : str or sequence of str
            Name of the mechanism that answers; one for all, or one each.
        share : float or sequence of float
            Relative share of the budget (of eps, or of mu^2); one for each, or one a question.

        Returns
        -------
        tuple of Release
            One a question.
        """
        several = (questions,) if isinstance(questions, Question) else tuple(questions)
        names = (by,) * len(several) if isinstance(by, str) else tuple(by)
        shares = (share,) * len(several) if isinstance(share, int | float) else tuple(share)
        speakers = [
            self._turn(question, Turn(question.name, question.kind, name, float(part), self._about(question)))
            for question, name, part in zip(several, names, shares, strict=True)
        ]
        answers = sealed(lambda: self._answer(several, speakers))
        self.releases += answers
        return answers

    def _about(self, question: Question) -> Angle | Cell | None:
        """Return what makes the question cheaper together with others: it is about the same, or about other rows."""
        if question.part is not None:
            return Cell(self._family(question.part.cells), question.part.index)
        curve = question.curve(self._rows.neighbors)
        return None if curve is None else Angle(self._family(curve[0]), curve[1])

    def _family(self, rows: object) -> int:
        """Return the number of a row function; questions are about the same rows if it is one object."""
        if not any(rows is known for known in self._families):
            self._families.append(rows)
        return next(k for k, known in enumerate(self._families) if known is rows)

    @abstractmethod
    def _turn(self, question: Question, turn: Turn) -> Speaker:
        """Return the mechanism that may answer this turn, or refuse."""

    def _answer(self, questions: Sequence[Question], speakers: Sequence[Speaker]) -> tuple[Release, ...]:
        answers = []
        for question, speaker, exact in zip(questions, speakers, self._rows.sum(questions), strict=True):
            sensitivity = question.sensitivity(speaker.norm, self._rows.neighbors)
            answers.append(speaker.release(question.name, exact, sensitivity, self._chance(self._asked)))
            self._asked += 1
        return tuple(answers)


class Gate(Conversation):
    """The real conversation: only what was planned, in the planned order, by the calibrated mechanisms."""

    def __init__(
        self,
        rows: MemoryRows,
        plan: Sequence[tuple[Turn, Speaker]],
        chance: Callable[[int], Any],
    ) -> None:
        super().__init__(rows, chance)
        self._plan = list(plan)

    def _turn(self, question: Question, turn: Turn) -> Speaker:
        if not self._plan or self._plan[0][0] != turn:
            raise PrivacyError(f"the question '{turn.name}' was not planned here, so it was not paid for")
        return self._plan.pop(0)[1]


def sealed(work: Callable[[], T]) -> T:
    """Run work on rows; of a failure or a warning nothing is told but that there was one failure.

    Raises
    ------
    PrivacyError
        If `work` fails. It is raised after the handler is left, so that no context, traceback or frame of
        the failure hangs on it.
    """
    try:
        with _ONE_AT_A_TIME, np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return work()
    except Exception:
        pass
    del work
    raise PrivacyError("a question failed inside the gate; why is not told, because it could depend on the rows")
