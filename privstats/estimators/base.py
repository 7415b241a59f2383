"""What an estimator is given: a way to ask, public facts, and the name of the noise it may use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from privstats.gate.questions import Question
from privstats.inference.answer import Answer
from privstats.privacy.neighbors import Neighbors
from privstats.privacy.release import Release


@dataclass(frozen=True)
class Facts:
    """What everybody may know of a fit before any row is read.

    Parameters
    ----------
    n : int, optional
        Number of rows offered; None where neighbours differ in it.
    columns : int
        Predictors, without the intercept.
    intercept : bool
        Whether the model has one.
    complete : bool
        Whether every row is declared to have all its values, and counts as one.
    weighted : bool
        Whether rows weigh differently, so that their total weight is not their number.
    neighbors : Neighbors
        The promise's relation.
    inference : bool
        Whether intervals are wanted.
    """

    n: int | None
    columns: int
    intercept: bool
    complete: bool
    neighbors: Neighbors
    weighted: bool = False
    inference: bool = True

    @property
    def count_is_public(self) -> bool:
        """Whether the number of rows used is known without asking."""
        return self.complete and self.n is not None


class Ask(Protocol):
    """The one verb: put questions, get releases."""

    def __call__(
        self, questions: Question | Sequence[Question], *, by: str | Sequence[str], share: float | Sequence[float] = 1.0
    ) -> tuple[Release, ...]: ...


class Estimator(Protocol):
    """A function of `ask`."""

    def __call__(self, ask: Ask, facts: Facts, noise: str) -> Answer: ...
