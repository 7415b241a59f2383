"""The domain: bounds and levels of columns, which the user declares and which are never computed from the data."""

from __future__ import annotations

import ast
import difflib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from privstats.errors import DomainError, FormulaError, OptionError, quote
from privstats.formula.declarations import UNKNOWN, Dates, DeclaredGrid, Estimated, Known, Levels, Numbers, declared
from privstats.formula.domain_text import domain_lines
from privstats.formula.expression import bounds_of, columns, parse, spelling
from privstats.formula.hints import Hint, hint_of
from privstats.formula.interval import EVERYTHING, Interval
from privstats.formula.kinds import misfits, types_by_column
from privstats.formula.scale import Scale
from privstats.mechanisms.random import NoiseSource
from privstats.numerics.law import Rng


class Domain(Mapping[str, Known]):
    """Declared bounds and levels of columns, or of expressions written as in a formula.

    Parameters
    ----------
    columns : mapping
        Bounds or levels of each column by its name: ``(low, high)``, a tuple of two numbers or of two dates; a list of
        levels, a `pandas.CategoricalDtype` or an Enum class with the levels as its values; ``bool`` for False and True;
        or `Levels` or `Dates` with options. A name may be an expression, as in ``{"np.log(y)": (8, 14)}``. Write a
        CategoricalDtype from public knowledge: the CategoricalDtype of a column made by ``astype("category")`` lists
        the levels that occur in the data, which are confidential.
    complete : bool or iterable of str
        Columns declared to have no missing values (True: all columns). If all columns of a formula are complete and its
        expressions are finite, a fit without `subset` and `weights` uses every row, and counts rows without noise if
        the number of rows is public. A value that is missing nevertheless is replaced by the middle of the range or by
        the first level.

    Raises
    ------
    DomainError
        If a declaration is malformed; the message names the column.

    Examples
    --------
    >>> Domain({"age": (0, 100), "region": ["N", "S"], "since": ("2020-01-01", "2024-12-31")}, complete=["age"])
    Domain of 3 columns
      age     0 to 100                  complete
      region  levels 'N', 'S'
      since   2020-01-01 to 2024-12-31
    >>> Domain({"size": pd.CategoricalDtype(["small", "large"], ordered=True)})
    Domain of 1 column
      size  levels 'small' < 'large'
    """

    def __init__(self, columns: Mapping[str, Any], complete: bool | Iterable[str] = ()) -> None:
        if not isinstance(columns, Mapping):
            raise DomainError(
                f"the domain is {quote(columns)}; write a dict of bounds and levels, as {{'age': (0, 100), "
                "'sex': ['f', 'm']}"
            )
        self._columns = {_name(name): _declared(name, known) for name, known in columns.items()}
        self._spelt = {spelling(name): name for name in self._columns}
        if isinstance(complete, bool):
            complete = self._columns if complete else ()
        elif isinstance(complete, str):
            complete = (complete,)
        self.complete = frozenset(map(_name, complete))
        self.hints: Mapping[str, Hint] = {}

    def __getitem__(self, name: str) -> Known:
        return self._columns[name if name in self._columns else self._spelt[spelling(name)]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Domain) and self._parts == other._parts

    @property
    def _parts(self) -> tuple[Any, ...]:
        return self._columns, self.complete, self.hints

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __repr__(self) -> str:
        lines = domain_lines(self._columns, self.complete, self.hints)
        return "\n".join((f"Domain of {len(self)} column{'s' * (len(self) != 1)}", *lines))

    def hint(
        self, column: str, mean: float | None = None, sd: float | None = None, shares: Mapping[Any, float] | None = None
    ) -> Domain:
        """Return a domain with a hint about the distribution of a column, for forecasts of confidence interval widths.

        Hints have no other effect: a fit, its cost and the digest (hash) of its plan do not depend on hints. A wrong
        hint makes the forecast widths wrong. Write hints from public knowledge, such as a codebook or an earlier
        publication. If the outcome and numeric predictors of a regression have hints, forecasts assume that these
        predictors explain a quarter of the variance of the outcome.

        Parameters
        ----------
        column : str
            A declared column, or an expression in declared columns, written as in the formula. An expression must be
            the response, such as "I(visits > 0)", or be computed from a single numeric column that has no other hint,
            such as "np.log(income)". A second hint about a column replaces the first hint.
        mean, sd : float, optional
            Mean and standard deviation of a numeric column, which may be a column of weights. By default the mean is
            the middle of the bounds, and the standard deviation is about 7% of the distance between the bounds, or
            less for a mean near a bound or a column declared by a `Scale`.
        shares : mapping of level to float, optional
            Share of the rows at each level of a column, or at 0 and 1 for a column with the bounds 0 and 1. Levels
            without a given share have equal shares of the remaining rows.

        Returns
        -------
        Domain

        Raises
        ------
        DomainError
            If `column` is not declared, or the hint contradicts its declaration.

        Examples
        --------
        >>> domain = Domain({"age": (18, 100), "died": [0, 1], "g": ["a", "b", "c"]})
        >>> domain.hint("age", mean=47, sd=17).hint("died", shares={1: 0.02})
        Domain of 3 columns
          age   18 to 100
                hint: mean 47, sd 17
          died  levels 0, 1
                hint: shares {1: 0.02}
          g     levels 'a', 'b', 'c'
        """
        name, known = self._hinted(column)
        return self._with_hints({**self.hints, name: hint_of(name, known, mean, sd, shares)})

    def _hinted(self, column: str) -> tuple[str, Known]:
        """Return the name under which a hint (see `hint`) about a column is stored, and the column's bounds or levels.

        `column` is a declared column, or an expression in declared columns.
        """
        if isinstance(column, str) and column in self:
            return (column if column in self._columns else self._spelt[spelling(column)]), self[column]
        if isinstance(column, str) and (known := self._of_expression(column)) is not None:
            return spelling(column), known
        near = difflib.get_close_matches(str(column), self, 1)
        cure = f"did you mean {near[0]!r}?" if near else "declare it first, as in Domain({'age': (0, 100)})"
        raise DomainError(f"the domain does not declare {quote(column)}; {cure}")

    def _of_expression(self, code: str) -> Known | None:
        """Return finite bounds on the values of an expression, computed from the declarations of its columns.

        The result is None if the bounds are not finite, if the text is not an expression that formulas allow, or if
        the expression contains an undeclared column.
        """
        with suppress(FormulaError):
            node = parse(code)
            within = bounds_of(node, {name: self[name].meaning for name in columns(node) if name in self})
            return Numbers(within.lo, within.hi) if within.is_finite else None
        return None

    def without_hints(self) -> Domain:
        """Return the domain without hints (assumed distributions, used in forecasts); hints have no effect on fits."""
        return self._with_hints({}) if self.hints else self

    def _with_hints(self, hints: Mapping[str, Hint]) -> Domain:
        """Return a domain with the same declared bounds and levels, and with the given hints about distributions."""
        domain = Domain(self._columns, self.complete)
        domain.hints = hints
        return domain

    def known(self, name: str) -> Interval | Levels:
        """Return the declared bounds or levels of a column; the whole real line if the column is not declared."""
        return self.get(name, UNKNOWN).meaning

    def bounds(self, name: str) -> Interval:
        """Return the declared interval of a column or expression; the whole real line if no interval is declared."""
        known = self.known(name)
        return known if isinstance(known, Interval) else EVERYTHING

    def is_complete(self, name: str) -> bool:
        """Return whether a column is declared to have no missing values."""
        return name in self and name in self.complete

    def extended(self, columns: Mapping[str, Any]) -> Domain:
        """Return the domain with further declared columns; the complete columns and the hints stay the same."""
        return Domain({**self._columns, **columns}, self.complete)._with_hints(self.hints)

    def scaled(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the columns in `names` that are declared by a centre and a scale in place of bounds."""
        return tuple(name for name in names if isinstance(self.get(name), Scale))

    @property
    def typical(self) -> Domain:
        """Copy of the domain, without hints, in which bounds replace each declared centre and scale (`Scale`).

        The bounds are centre +- sqrt(3) * scale: the uniform distribution between the bounds has this centre as its
        mean and this scale as its standard deviation.
        """
        return Domain({name: known.typical for name, known in self._columns.items()}, self.complete)

    def draw(self, names: Sequence[str], n: int, rng: Rng) -> pd.DataFrame:
        """Return `n` synthetic rows of the columns `names`, drawn with the generator `rng`; no data are read.

        Numbers and dates are uniform between their bounds (for a `Scale`: within centre +- sqrt(3) * scale; for an
        undeclared column: between 0.5 and 2). The levels of a categorical column are about equally frequent.
        """
        return pd.DataFrame({name: self.get(name, UNKNOWN).draw(n, rng) for name in names}, index=range(n))

    def synthetic(self, n: int, seed: int = 1) -> pd.DataFrame:
        """Return synthetic rows, drawn within the declared bounds and levels, to try scripts before the data are used.

        Numbers and dates are uniform within their bounds (for a `Scale`: within centre +- sqrt(3) * scale). Numbers
        with a declared grid, such as ``range(18, 66)``, are rounded to the grid. Levels are about equally frequent,
        columns are independent, and no value is missing. If ``np.log(y)`` is declared and y is not, y is uniform
        between 0.5 and 2, whatever the bounds of ``np.log(y)``. You must add the columns that no declaration mentions,
        such as a column of persons that a fit uses as `unit`.

        Parameters
        ----------
        n : int
            Number of rows.
        seed : int
            The same seed gives the same rows.

        Returns
        -------
        DataFrame

        Raises
        ------
        OptionError
            If `n` or `seed` is not a nonnegative whole number.

        Examples
        --------
        >>> domain = Domain({"age": range(18, 66), "region": ["N", "S"], "since": ("2020-01-01", "2024-12-31")})
        >>> domain.synthetic(2, seed=3).dtypes.astype(str).to_dict()["age"]
        'int64'
        >>> set(domain.synthetic(1000, seed=3)["region"]) == {"N", "S"}
        True
        """
        for name, value in (("n", n), ("seed", seed)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise OptionError(f"{name} is {quote(value)}; give a whole number from 0 on, such as {name}=1000")
        rows = self.draw(self._columns_read(), n, NoiseSource(seed).generator("made-up rows", 0))
        for name, known in self.items():
            if name in rows and isinstance(known, DeclaredGrid):
                rows[name] = _on_grid(rows[name], known)
        return rows.infer_objects()

    def _columns_read(self) -> tuple[str, ...]:
        """Return the names of the declared columns and of the columns in declared expressions."""
        return tuple(dict.fromkeys(column for name in self for column in _columns_of(name)))

    def to_json(self) -> str:
        """Return the domain as JSON text, which the method `from_json` reads."""
        columns = {name: known.to_json() for name, known in self._columns.items()}
        hints = {"hints": {name: hint.to_json() for name, hint in self.hints.items()}} if self.hints else {}
        return json.dumps({"columns": columns, "complete": sorted(self.complete), **hints})

    @classmethod
    def from_json(cls, text: str | Path) -> Domain:
        """Return the domain from JSON text that `to_json` wrote, or from a file with this text.

        Parameters
        ----------
        text : str or path
            JSON text, which begins with ``{``, or the path of a file that contains JSON text.

        Raises
        ------
        DomainError
            If the JSON text is not in the format of `to_json`, or the file cannot be read.
        """
        from privstats.formula.codebook import json_of

        read = json_of(text)
        try:
            columns = {name: _from_json(known) for name, known in read["columns"].items()}
            complete = read.get("complete", ())
            hints = {name: _hint_from_json(hint) for name, hint in read.get("hints", {}).items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, DomainError):
                raise
            columns = None
        if columns is None:
            raise DomainError(
                'a domain in JSON reads {"columns": {"age": {"bounds": [0, 100]}, "region": {"levels": ["N", "S"]}}}'
            )
        domain = cls(columns, complete)
        for name, hint in hints.items():
            domain = domain.hint(name, **hint)
        return domain

    @classmethod
    def from_schema(cls, schema: Mapping[str, Any] | str | Path) -> Domain:
        """Return the domain that a Frictionless Table Schema declares.

        Parameters
        ----------
        schema : dict, str or path
            The schema, its JSON text, or a file with this text. A field with ``minimum`` and ``maximum`` declares
            bounds (whole numbers for an integer, dates for a date). A field with ``enum`` or ``categories`` declares
            levels. A boolean field declares the two levels False and True. ``required`` declares that no value is
            missing. A field with incomplete information, such as only one bound, is ignored. The codes listed in
            ``missingValues`` are removed from the levels; for a column with bounds, a code that would count as a
            value, such as -99 in a numeric column, raises an error. The schema must be written from public knowledge,
            not inferred from the data.

        Returns
        -------
        Domain

        Raises
        ------
        DomainError
            If `schema` is not a Table Schema, or a field cannot be read; the error names the field.

        Examples
        --------
        >>> age = {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 100, "required": True}}
        >>> region = {"name": "region", "type": "string", "constraints": {"enum": ["N", "S"]}}
        >>> Domain.from_schema({"fields": [age, region]})
        Domain of 2 columns
          age     0 to 100         complete
          region  levels 'N', 'S'
        """
        from privstats.formula.codebook import of_schema

        return cls(*of_schema(schema))

    @classmethod
    def from_codebook(cls, codebook: str | Path | pd.DataFrame) -> Domain:
        """Return the domain that a codebook (a data dictionary with one line for each column) declares.

        Parameters
        ----------
        codebook : path or DataFrame
            A CSV file or a DataFrame with the heading ``column`` (or ``name``) and any of ``min``, ``max`` (or ``low``,
            ``high``: numbers, or dates as 2020-01-31), ``levels`` (separated by ``|`` or ``;``), ``type`` (or
            ``kind``: "boolean", "integer", "string", or "ordered" for levels in order) and ``complete`` (or
            ``required``: "yes"). Levels that are all whole numbers are read as numbers, unless the type is "string".
            The codebook must be written from public knowledge, not computed from the data.

        Returns
        -------
        Domain

        Raises
        ------
        DomainError
            If a line cannot be read; the error gives the number of the line, where line 1 has the headings.

        Examples
        --------
        >>> book = {"column": ["age", "region"], "min": [0, None], "max": [100, None], "levels": [None, "N|S"]}
        >>> Domain.from_codebook(pd.DataFrame(book))
        Domain of 2 columns
          age     0 to 100
          region  levels 'N', 'S'
        """
        from privstats.formula.codebook import of_codebook

        return cls(*of_codebook(codebook))

    @classmethod
    def from_model(cls, model: Any) -> Domain:
        """Return the domain that a data model declares: a pydantic class, or a pandera schema.

        Parameters
        ----------
        model : type or DataFrameSchema
            A pydantic model, or a DataFrameModel or DataFrameSchema of pandera. In a pydantic model, a field with both
            bounds (``Field(ge=0, le=100)``, or ``gt``, ``lt``) declares bounds, a field of type ``Literal`` or Enum
            declares levels, and a field of type ``bool`` declares the two levels False and True; a field that is not
            ``Optional`` has no missing values. In a pandera schema, the check ``in_range`` (or ``ge`` with ``le``)
            declares bounds, and the check ``isin`` or a categorical type declares levels; a column that is not
            ``nullable`` has no missing values. A field with incomplete information, such as only one bound, is ignored.
            An exclusive bound on whole numbers is replaced by the nearest whole number that satisfies the bound;
            another exclusive bound is treated as inclusive. The model must be written from public knowledge, not
            inferred from the data.

        Returns
        -------
        Domain

        Raises
        ------
        DomainError
            If `model` is neither a pydantic model nor a pandera schema, or a field cannot be read; the error names the
            field.

        Examples
        --------
        >>> from typing import Literal
        >>> from pydantic import BaseModel, Field  # doctest: +SKIP
        >>> class Person(BaseModel):  # doctest: +SKIP
        ...     age: int = Field(ge=0, le=100)
        ...     region: Literal["N", "S"] | None
        >>> Domain.from_model(Person)  # doctest: +SKIP
        Domain of 2 columns
          age     0 to 100         complete
          region  levels 'N', 'S'
        """
        from privstats.formula.data_models import of_model

        return cls(*of_model(model))

    def check(self, schema: pd.DataFrame | Mapping[str, Any]) -> list[str]:
        """List missing, misspelt and wrongly declared columns, given the names and types of the data's columns.

        No cell is read. Names and types of columns count as public (PRIVACY.md).

        Parameters
        ----------
        schema : DataFrame, table or mapping
            The data (a frame of pandas or polars, or a table of pyarrow), or the type of each column by its name, such
            as ``data.dtypes``.

        Returns
        -------
        list of str
            A sentence for each declaration without a column, for each declaration that does not fit the type of its
            column, and for each column without a declaration; an empty list if there is no such problem.

        Examples
        --------
        >>> domain = Domain({"age": (0, 100), "np.log(wage)": (0, 8), "g": ["N", "S"]})
        >>> for words in domain.check({"Age": "int64", "wage": "float64", "g": "int64"}):
        ...     print(words)
        there is no column 'age'; did you mean 'Age'?
        column 'g' has numbers, and is declared as levels 'N', 'S'; write domain={'g': (low, high)}, or its levels as
        numbers: [1, 2]
        >>> Domain({"age": (0, 100)}).check(pd.DataFrame({"age": [33]}))
        []
        """
        types = types_by_column(schema)
        if types is None:
            raise DomainError(f"the schema is {quote(schema)}; give a DataFrame, or its types as data.dtypes")
        return misfits(self, {name: _columns_of(name) for name in self}, types)


def as_domain(domain: Domain | Mapping[str, Any] | None) -> Domain:
    """Return the argument `domain` as a `Domain`; None gives an empty domain."""
    return domain if isinstance(domain, Domain) else Domain({} if domain is None else domain)


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise DomainError(f"a column of the domain is called {quote(name)}; write column names as texts")
    return name


def _columns_of(name: str) -> tuple[str, ...]:
    """Return the names of the columns to which a name in a domain refers.

    A function call, such as np.log(y), refers to the columns in its arguments, and Q('any name') to the quoted name. A
    name of any other form refers to the column of the same name.
    """
    try:
        node = parse(name)
    except FormulaError:
        return (name,)
    match node:
        case ast.Name(id=column):
            return (column,)
        case ast.Call():
            return tuple(columns(node))
    return (name,)


def _on_grid(values: pd.Series, known: DeclaredGrid) -> pd.Series:
    """Return numbers rounded to a declared grid of values, within the bounds; as integers if the step is an integer."""
    first, last = np.ceil(known.lo / known.step), np.floor(known.hi / known.step)
    near = np.clip(np.rint(values / known.step), first, last) * known.step
    return near.astype(int) if known.step.is_integer() else near


def _declared(name: str, known: Any) -> Known:
    called = f"domain['{name}']"
    try:
        return declared(known, called)
    except DomainError as error:
        problem = str(error)
    raise DomainError(problem if problem.startswith(called) else f"{called}: {problem}")


def _hint_from_json(hint: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments of `Domain.hint` for a hint in the JSON form of `Hint.to_json`."""
    shares = {"shares": dict(hint["shares"])} if "shares" in hint else {}
    return {name: hint[name] for name in ("mean", "sd") if name in hint} | shares


def _from_json(known: Mapping[str, Any]) -> Known:
    if "levels" in known:
        return Levels(tuple(known["levels"]), bool(known.get("ordered", False)))
    if "dates" in known:
        return Dates(*known["dates"])
    if "scale" in known:
        return Scale(*known["scale"])
    within = declared(tuple(known["bounds"]), "bounds")
    if known.get("estimated") and isinstance(within, Numbers):
        return Estimated(within.lo, within.hi)
    if "step" in known and isinstance(within, Numbers):
        return DeclaredGrid(within.lo, within.hi, float(known["step"]))
    return within
