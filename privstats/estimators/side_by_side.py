"""Fits that run side by side: the queries that several fits send at the same stage are answered in one pass over rows.

Such a fit is a Python generator. The generator yields lists of queries, each with its mechanism, receives the list of
the releases, and returns the result of the fit.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, TypeVar

from privstats.gate.questions import Ask, Question
from privstats.privacy.release import Release

T = TypeVar("T")
Queries = Generator[Sequence[tuple[Question, Any]], list[Release], T]


def side_by_side(ask: Ask, fits: Sequence[Queries[T]]) -> list[T]:
    """Return the results of several fits, whose queries at the same stage are answered in one pass over the rows.

    Parameters
    ----------
    ask : Ask
        Function that sends queries to the data and returns noisy releases.
    fits : sequence of Queries
        The fits: generators that yield the queries of one stage at a time (see the module's docstring).

    Returns
    -------
    list
        The result of each fit.
    """
    results: dict[int, T] = {}
    releases: dict[int, list[Release]] = {}
    while len(results) < len(fits):
        sent = {}
        for k, fit in enumerate(fits):
            if k not in results:
                try:
                    sent[k] = fit.send(releases[k]) if k in releases else next(fit)
                except StopIteration as end:
                    results[k] = end.value
        pairs = [pair for some in sent.values() for pair in some]
        answers = iter(ask.together(pairs) if pairs else [])
        releases = {k: [next(answers) for _ in some] for k, some in sent.items()}
    return [results[k] for k in range(len(fits))]
