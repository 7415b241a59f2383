"""The printed summary: what was promised, how it was kept, what was learnt."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tabulate import tabulate

from privstats.older.results.tidy import exponentials

if TYPE_CHECKING:
    from privstats.older.results.results import Results


WRITTEN = ("Subset", "Weights", "Offset")
WIDEST = 100  # characters of a fact, from which on it is wrapped
EXPONENTIALS = "exp(coef) and its interval are exponentials; std err, z and P>|z| are those of the coefficient."
COVARIANCES = {
    "nonrobust": "nonrobust (constant error variance)",
    "family": "nonrobust (the family's variance)",
    "kernel": "kernel (the density at the quantile may differ between rows)",
    "HC": "HC (the error variance may differ between rows)",
}


@dataclass(frozen=True)
class Summary:
    """A summary in parts; prints as text.

    Parameters
    ----------
    title : str
    facts : tuple of (str, str)
        What the fit was, line by line.
    header : tuple of str
        Columns of the coefficient table.
    rows : tuple of tuple of str
        One a coefficient.
    notes : tuple of str
        What the reader must know.
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]

    def as_text(self) -> str:
        """Return the summary as plain text."""
        table = self._coefficients("simple")
        facts = tabulate(self.facts, tablefmt="plain", disable_numparse=True, maxcolwidths=[None, WIDEST])
        rule = "=" * max(len(line) for line in (*table.splitlines(), *facts.splitlines()))
        parts = (self.title.center(len(rule)).rstrip(), rule, facts, rule, table, rule, *_numbered(self.notes))
        return "\n".join(parts)

    def as_markdown(self) -> str:
        """Return the summary as Markdown."""
        facts = tabulate(self.facts, ("", ""), tablefmt="github", disable_numparse=True)
        return "\n\n".join((f"**{self.title}**", facts, self._coefficients("github"), "\n".join(_numbered(self.notes))))

    def as_html(self) -> str:
        """Return the summary as HTML."""
        facts = tabulate(self.facts, tablefmt="html", disable_numparse=True)
        notes = tabulate([[note] for note in _numbered(self.notes)], tablefmt="html", disable_numparse=True)
        title = tabulate([[self.title]], tablefmt="html", disable_numparse=True)
        return "\n".join((title, facts, self._coefficients("html"), notes))

    def as_latex(self) -> str:
        """Return the summary as LaTeX tables."""
        facts = tabulate(self.facts, tablefmt="latex", disable_numparse=True)
        notes = tabulate([[note] for note in _numbered(self.notes)], tablefmt="latex", disable_numparse=True)
        return "\n".join((facts, self._coefficients("latex"), notes))

    def _coefficients(self, style: str) -> str:
        align = ("left", *("right" for _ in self.header[1:]))
        return tabulate(self.rows, self.header, tablefmt=style, disable_numparse=True, colalign=align)

    def _repr_html_(self) -> str:
        return self.as_html()

    def __str__(self) -> str:
        return self.as_text()

    __repr__ = __str__


def summarise(results: Results, alpha: float, exp: bool = False) -> Summary:
    """Return the summary of a fit."""
    interval = results.conf_int(alpha, exp)
    head = "coef" if results.cov_type else "estimate"
    columns = {
        f"exp({head})" if exp else head: (exponentials(results.params) if exp else results.params).map(_number),
        "std err": results.bse.map(_number),
        "z": results.tvalues.map(lambda z: _fixed(z, 2)),
        "P>|z|": results.pvalues.map(lambda p: "<0.001" if p < 0.001 else _fixed(p, 3)),
        f"[{alpha / 2:.3g}": interval[0].map(_number),
        f"{1 - alpha / 2:.3g}]": interval[1].map(_number),
        "privacy": [_share(share, se) for share, se in zip(results.privacy_share, results.bse, strict=True)],
    }
    errors = "std err and intervals include the privacy noise; 'privacy' is its share of the squared std err."
    if not results.cov_type and interval.isna().all(axis=None):  # nothing but estimates: a mode, a geometric median
        columns, errors = {"estimate": columns["estimate"]}, ""
    return Summary(
        title=results.title,
        facts=_facts(results),
        header=("", *columns),
        rows=tuple(zip(results.design.names, *columns.values(), strict=True)),
        notes=(
            *((errors,) if errors else ()),
            *((EXPONENTIALS,) if exp else ()),
            *results.answer.notes,
            *(("seeded: not private. Whoever knows the seed can take the noise off again.",) if results.seeded else ()),
        ),
    )


def _facts(results: Results) -> tuple[tuple[str, str], ...]:
    used = f"{results.answer.n:.0f} used (released, noisy)"
    rows = used if results.n is None else f"{results.n} offered (public), {used}"
    if math.isnan(results.answer.n):
        rows = "private" if results.n is None else f"{results.n} offered (public)"
    elif results.n == results.answer.n:
        rows = f"{results.n} (public)"
    budget = ", ".join(f"{name}: {results.guarantee.spent(events).budget}" for name, events in results.paid.items())
    facts = results.facts
    diagnostics = ", ".join(f"{name} = {facts[name]:.3g}" for name in ("kappa", "snr", "sigma") if name in facts)
    return (
        ("Formula", results.formula),
        ("Rows", rows),
        *((name, text) for name, text in zip(WRITTEN, results.design.written, strict=True) if text),
        ("Mechanism", _mechanism(results)),
        ("Guarantee", _guarantee(results)),
        ("Budget", budget),
        ("Bounds", f"bought privately: {', '.join(results.bought)}" if results.bought else "declared by the user"),
        *((("Covariance", COVARIANCES[_covariance(results)]),) if results.cov_type else ()),
        *((("Diagnostics", diagnostics),) if diagnostics else ()),
    )


def _guarantee(results: Results) -> str:
    promise = results.guarantee
    if not any(release.chain for release in results.releases):
        return str(promise)
    return (
        f"{promise.budget} for the target density; the sampler's distance is measured, not proved ({promise.neighbors})"
    )


def _covariance(results: Results) -> str:
    """Return what errors are assumed to be, as `COVARIANCES` has it."""
    linked = getattr(results.design, "family", None) is not None
    return "family" if linked and results.cov_type == "nonrobust" else str(results.cov_type)


def _mechanism(results: Results) -> str:
    chosen = " (by mech=auto)" if results.chosen else ""
    return f"{results.mech}{chosen}" + (f", noise {results.noise}" if results.noise != results.mech else "")


def _number(value: Any) -> str:
    if not isinstance(value, float):  # a level
        return str(value)
    return "NaN" if math.isnan(value) else f"{value:.4g}"


def _share(share: float, se: float) -> str:
    """Return the part of a variance that is due to privacy; it may be private where the standard error is not."""
    return f"{share:.0%}" if not math.isnan(share) else "NaN" if math.isnan(se) else "unknown"


def _fixed(value: Any, digits: int) -> str:
    return "NaN" if math.isnan(value) else f"{value:.{digits}f}"


def _numbered(notes: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"[{number}] {note}" for number, note in enumerate(notes, start=1))
