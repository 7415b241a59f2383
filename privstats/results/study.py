"""The results of a study: the fits of several plans, in the order of the plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, overload

from privstats.errors import OptionError, PrivacyError
from privstats.results.files import as_line, write_text
from privstats.results.results import Results
from privstats.results.text import RULE

STUDY_FORMAT = "privstats study results, version 1"


@dataclass(frozen=True, eq=False, repr=False)
class StudyResults(Sequence[Results]):
    """The results of a study (several planned fits), in the order of the plans; printing shows the summary of each fit.

    Attributes
    ----------
    calls : tuple of str
        Function and formula of each plan, such as "dp_lm y ~ x".
    digest : str
        Hash of the plans of the study.
    failed : tuple of str
        For each plan, the reason why there is no fit although the budget was charged; an empty text if there is a fit.
    """

    calls: tuple[str, ...]
    fits: tuple[Results | None, ...]
    failed: tuple[str, ...]
    digest: str

    @overload
    def __getitem__(self, place: int) -> Results: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Results]: ...
    def __getitem__(self, place: int | slice) -> Results | Sequence[Results]:
        if isinstance(place, slice):
            return [self[k] for k in range(*place.indices(len(self)))]
        fit = self.fits[place]
        if fit is None:
            raise PrivacyError(self.failed[place])
        return fit

    def __len__(self) -> int:
        return len(self.fits)

    def save(self, path: str | PathLike[str]) -> None:
        """Write all fits to one JSON file, which `load` reads.

        Parameters
        ----------
        path : str or PathLike
            Path of the file; an existing file is replaced when the new file is complete.

        Raises
        ------
        OptionError
            If the file cannot be written.
        """
        fits = [None if fit is None else fit.to_dict() for fit in self.fits]
        content = {"format": STUDY_FORMAT, "digest": self.digest, "calls": list(self.calls)}
        write_text(path, as_line({**content, "failed": list(self.failed), "fits": fits}))

    def __dir__(self) -> list[str]:
        return ["calls", "count", "digest", "failed", "fits", "index", "save"]

    def __repr__(self) -> str:
        return f"<StudyResults: {', '.join(self.calls)}>"

    def __str__(self) -> str:
        return f"\n{RULE}\n".join(
            f"Not given    {call}: {why}" if fit is None else str(fit.summary())
            for call, fit, why in zip(self.calls, self.fits, self.failed, strict=True)
        )


def study_results_of(content: Mapping[str, Any]) -> StudyResults:
    """Return the results of a study from the content of a file that `StudyResults.save` wrote.

    Raises
    ------
    OptionError
        If the content is not the results of a study.
    """
    found: list[Any] = [content.get(name) for name in ("calls", "failed", "fits")]
    if not all(isinstance(each, list) for each in found) or len({len(each) for each in found}) > 1:
        raise OptionError("the file does not hold the fits of a study; save them again, as fits.save does")
    calls, failed, fits = found
    read = tuple(None if fit is None else Results.from_dict(fit) for fit in fits)
    return StudyResults(tuple(map(str, calls)), read, tuple(map(str, failed)), str(content.get("digest")))
