"""Studies: several plans that are charged together, run on the same data, and can be saved in one file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

from privstats.boundary import door
from privstats.errors import BudgetError, ChargedInterrupt, OptionError, PrivstatsError, quote
from privstats.privacy.account import COUNTED, Account
from privstats.privacy.composition import together
from privstats.privacy.ledger import ledger_for
from privstats.privacy.ledger_prepaid import Charge, Prepaid, check_together
from privstats.privacy.promise import Promise
from privstats.results.entry import entry
from privstats.results.files import as_text, write_text
from privstats.results.header import implied
from privstats.results.study import StudyResults
from privstats.results.text import RULE, labelled
from privstats.version import VERSION
from privstats.workflow.digest import digest
from privstats.workflow.plan import Plan
from privstats.workflow.protected import Protected
from privstats.workflow.saved import fit_on, marked, plan_of, planned_anew, planned_on, written_plan

SPENT = "; what the study was charged for it stays spent"
STUDY_PLAN_FORMAT = "privstats study, version 1"


@dataclass(frozen=True, eq=False, repr=False)
class Study:
    """Several plans to be run on the same data and charged in one transaction, which charges all plans or no plan.

    Parameters
    ----------
    plans : list of Plan
        Plans in the order in which they are run.

    Raises
    ------
    OptionError
        If the list is empty, or contains something other than plans.

    Examples
    --------
    >>> import privstats as ps
    >>> domain = ps.Domain({"age": (0, 100), "wage": (0, 50)})
    >>> study = ps.Study([ps.plan("mean", name, 10_000, eps=0.5, domain=domain) for name in domain])
    >>> study.guarantee
    PureDP(eps=1)
    >>> fits = study.run(domain.synthetic(10_000), ledger=ps.Ledger(ps.PureDP(1)))
    >>> fits.calls, len(fits)
    (('dp_mean age', 'dp_mean wage'), 2)
    """

    plans: tuple[Plan, ...]

    def __init__(self, plans: Sequence[Plan]) -> None:
        several = tuple(plans) if isinstance(plans, Sequence) else ()
        if not several or not all(isinstance(plan, Plan) for plan in several):
            raise OptionError("a study is a list of plans; write ps.Study([plan1, plan2])")
        object.__setattr__(self, "plans", several)

    def __dir__(self) -> list[str]:
        return ["digest", "guarantee", "plans", "run", "save", "to_json"]

    def __len__(self) -> int:
        return len(self.plans)

    def __iter__(self) -> Iterator[Plan]:
        return iter(self.plans)

    def __getitem__(self, place: int) -> Plan:
        return self.plans[place]

    @property
    def digest(self) -> str:
        """Hash of the digests of all plans, in the order of the study."""
        return digest([plan.digest for plan in self.plans])

    @property
    def guarantee(self) -> Promise | None:
        """The joint privacy guarantee of all plans.

        The guarantee is None if the plans have different neighbouring relations. Such plans may still be charged to one
        ledger: a ledger under "replace" also accepts plans under "add_remove" with the same privacy unit.
        """
        promises = [plan.guarantee for plan in self.plans]
        for one in promises:
            if all(isinstance(p, COUNTED[type(one)]) and p.neighbors == one.neighbors for p in promises):
                return one.spent_on([p for plan in self.plans for _, p in plan.charge], together)
        return None

    def to_json(self) -> str:
        """Return the study as JSON text: its plans, each in the form of `Plan.to_json`, and the digest of the study.

        Raises
        ------
        OptionError
            If one of the plans cannot be written as JSON (see `Plan.to_json`).
        """
        plans = [written_plan(plan) for plan in self.plans]
        content = {"format": STUDY_PLAN_FORMAT, "privstats": VERSION, "plans": plans, "digest": self.digest}
        return as_text(content)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the study to a JSON file, which `load` reads.

        Parameters
        ----------
        path : str or PathLike
            Path of the file.

        Raises
        ------
        OptionError
            If the study cannot be written as JSON (see `to_json`), or the file cannot be written.
        """
        write_text(path, self.to_json())

    @entry
    def run(self, data: Any, *, ledger: Account | None = None, rng: Any = None) -> StudyResults:
        """Carry out all plans on data, in order; all plans are charged before any row is read, or no plan is charged.

        Parameters
        ----------
        data : DataFrame, path, Protected or other data that the functions accept
            The rows. If the number of rows is public, it must equal the number in the plans.
        ledger : Ledger, optional
            Ledger that is charged with all plans in one transaction.
        rng : None, int or numpy.random.Generator
            Source of the noise; None is the random source of the operating system.

        Returns
        -------
        StudyResults
            The fits in the order of the plans. Access to a fit that failed raises an error with the reason; the budget
            that was charged for this fit stays spent.

        Raises
        ------
        OptionError
            If a plan, computed again for these data, has another digest (hash) than in the study; nothing is charged.
        BudgetError
            If the plans together cost more than the remaining budget of the ledger; nothing is charged.
        """
        return _run(self, data, ledger, rng)

    def __repr__(self) -> str:
        return f"<Study of {len(self)} plans: {', '.join(map(_call, self.plans))}>"

    def __str__(self) -> str:
        return f"\n{RULE}\n".join([self.head, *map(str, self.plans)])

    @property
    def head(self) -> str:
        """First lines of the printed study: title, joint guarantee of all plans, and digest."""
        total = self.guarantee
        known = "" if total is None else f"{total}{implied(total)}"
        lines = [
            f"Study of {len(self)} plans; all of them are charged, or none.",
            *labelled("Together", known or "plans with different neighbours, which the ledger counts together"),
            *labelled("Digest", self.digest),
        ]
        return "\n".join(lines)


def _run(study: Study, data: Any, ledger: Account | None, rng: Any) -> StudyResults:
    account: Account | None = data.ledger if isinstance(data, Protected) else ledger
    if isinstance(data, Protected) and ledger is not None:
        raise OptionError("protected data have their own ledger; leave ledger= out")
    if account is not None and not isinstance(account, Account):
        raise BudgetError(f"ledger is {quote(account)}; {ledger_for(account)}")
    if account is not None:
        with planned_anew("study"):
            # too small a budget is an error before the data are read
            check_together(account, [charge_of(plan) for plan in study])
    there = [planned_on(plan, data, ledger) for plan in study]
    if account is not None:
        with planned_anew("study"):
            paid = Prepaid(account, [charge_of(plan) for plan in there])
        data, ledger = (replace(data, ledger=paid), None) if isinstance(data, Protected) else (data, paid)
    fits: list[Any] = []
    failed = []
    for later, plan, planned in zip(reversed(range(len(study))), study, there, strict=True):
        try:
            fit = door(fit_on)(plan, data, ledger, rng)
            fits.append(replace(marked(plan, planned, fit), account=fit.account if account is None else account))
            failed.append("")
        except PrivstatsError as error:
            fits.append(None)
            failed.append(f"{error}{'' if account is None else SPENT}")
        except KeyboardInterrupt:
            raise ChargedInterrupt from None
        if account is not None:
            paid.give_up(later)
    return StudyResults(tuple(map(_call, study)), tuple(fits), tuple(failed), study.digest)


def charge_of(plan: Plan) -> Charge:
    """Return a plan's ledger entry: its queries with their guarantees, its function and formula, and its method."""
    return plan.charge, _call(plan), plan.choice.mech


def _call(plan: Plan) -> str:
    return f"dp_{plan.specification.verb} {plan.specification.model.formula}"


def study_of(content: Mapping[str, Any], name: str) -> Study:
    """Return the study in a saved file; each plan is computed again from its arguments in the file (`plan_of`).

    Raises
    ------
    OptionError
        If the content is not a study, a plan cannot be made, or the digest (hash) of the study or of a plan differs
        from the digest in the file.
    """
    plans = content.get("plans")
    if not isinstance(plans, list) or not plans or not all(isinstance(plan, dict) for plan in plans):
        raise OptionError(f"{quote(name)} has no plans; save the study again")
    study = Study([plan_of(plan, name) for plan in plans])
    if study.digest != content.get("digest"):
        raise OptionError(f"{quote(name)} was changed since it was saved: its digest differs; save the study again")
    return study
