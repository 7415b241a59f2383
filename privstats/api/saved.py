"""`load`: what was saved as a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from types import MappingProxyType
from typing import Any

from privstats.errors import OptionError, quote
from privstats.results.files import path_of, read_content
from privstats.results.record import FORMAT
from privstats.results.results import Results
from privstats.workflow.saved import PLAN_FORMAT, plan_of

READERS: Mapping[str, Callable[[Mapping[str, Any], str], Any]] = MappingProxyType(  # by kind of file
    {
        PLAN_FORMAT: plan_of,
        FORMAT: lambda content, name: Results.from_dict(content),
    }
)


def load(path: str | PathLike[str]) -> Any:
    """Return what `save` wrote to a file: a plan, or a fit.

    Nothing in a file is executed. A plan is made again from its call, and its digest is computed anew.

    Parameters
    ----------
    path : str or PathLike

    Returns
    -------
    Plan or Results

    Raises
    ------
    OptionError
        If there is no such file, or it is not what `save` writes: of another version, incomplete, or changed so that a
        plan has another digest.

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
        raise OptionError(
            f"{quote(name)} is no plan and no fit of privstats; give a file that plan.save or fit.save wrote"
        )
    if kind != wanted:
        raise OptionError(f"{quote(name)} has {quote(wanted)}, and this version reads {quote(kind)}; save it anew")
    return READERS[kind](content, name)
