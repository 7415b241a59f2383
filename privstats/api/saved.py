"""The function `load`, which reads plans, studies and fits from files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from types import MappingProxyType
from typing import Any

from privstats.errors import OptionError, quote
from privstats.results.files import SAVED, path_of, read_content
from privstats.results.record import FORMAT
from privstats.results.results import Results
from privstats.results.study import STUDY_FORMAT, study_results_of
from privstats.workflow.saved import PLAN_FORMAT, plan_of
from privstats.workflow.study import STUDY_PLAN_FORMAT, study_of

# functions that build a saved object from the content of a file, one for each file format
READERS: Mapping[str, Callable[[Mapping[str, Any], str], Any]] = MappingProxyType(
    {
        PLAN_FORMAT: plan_of,
        STUDY_PLAN_FORMAT: study_of,
        FORMAT: lambda content, name: Results.from_dict(content),
        STUDY_FORMAT: lambda content, name: study_results_of(content),
    }
)


def load(path: str | PathLike[str]) -> Any:
    """Return the object that a method `save` wrote to a file: a plan, a study (several plans), or fits.

    Nothing in a file is executed. A plan is computed again from the call in the file, and the digest of the new plan is
    compared with the digest in the file.

    Parameters
    ----------
    path : str or PathLike
        Path of the file.

    Returns
    -------
    Plan, Study, Results or StudyResults

    Raises
    ------
    OptionError
        If the file does not exist, is incomplete, or was written in the file format of another version, or if a plan
        computed from the file has a digest other than the digest in the file.

    Examples
    --------
    >>> import tempfile, privstats as ps
    >>> plan = ps.plan("mean", "age", 10_000, eps=0.5, domain={"age": (0, 100)})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     plan.save(f"{folder}/age.plan.json")
    ...     ps.load(f"{folder}/age.plan.json").digest == plan.digest
    True
    """
    content, name = read_content(path), path_of(path).name
    wanted = content.get("format")
    kinds = {kind.partition(",")[0]: kind for kind in READERS}
    kind = kinds.get(wanted.partition(",")[0]) if isinstance(wanted, str) else None
    if kind is None:
        raise OptionError(f"{quote(name)} is not a plan, study or fit of privstats; give a file that {SAVED}")
    if kind != wanted:
        raise OptionError(f"{quote(name)} has {quote(wanted)}, and this version reads {quote(kind)}; save it again")
    return READERS[kind](content, name)
