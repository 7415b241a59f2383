"""Tables in formats of other programs: Markdown, LaTeX, HTML, CSV and great_tables."""

from __future__ import annotations

import csv
import html
import io
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from privstats.results.text import RULE, WIDTH, TextTable, filled, shown_once

GAP = 1  # smallest number of spaces between two columns of a plain-text table
MANY = 5  # largest number of columns of a LaTeX table in normal font size; wider tables have a small font
DENSE = r"\footnotesize\setlength{\tabcolsep}{3pt}"
KEPT = 40  # largest number of characters in a LaTeX cell; longer text becomes a note below the table
GREEK = {"eps": r"\varepsilon", "delta": r"\delta", "mu": r"\mu", "rho": r"\rho"}
EQUATION = re.compile(r"\b(eps|delta|mu|rho) = (\d[\d.]*)(?:e([-+]\d+))?")
MINUS = re.compile(r"(?<![\w.)\]])-(?=[\d.]|inf\b)")
ESCAPES = {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"$\sim$",
    "|": r"\textbar{}",
    "<": r"$<$",
    ">": r"$>$",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
}
MARKUP = re.compile(r"[\\`*|$]|<(?=[A-Za-z/!?])|&(?=#?\w+;)|(?<![^\W_])_|_(?![^\W_])")
STYLE = """\
table.privstats{color:inherit;font-size:inherit}
.privstats{border-collapse:collapse;border:0;font-variant-numeric:tabular-nums;line-height:1.4;margin:.8em 0}
.privstats caption{caption-side:top;text-align:left;color:inherit;padding:0 0 .5em}
.privstats dl{display:grid;grid-template-columns:max-content 1fr;gap:.1em 1.2em;margin:.4em 0 0;font-size:.9em}
.privstats dt{opacity:.7;font-weight:normal}
.privstats dd{margin:0}
.privstats tr{background:none!important}
.privstats th,.privstats td{border:0;padding:.2em .6em;text-align:right;font-weight:normal;white-space:nowrap}
.privstats .label{text-align:left}
.privstats thead th,.privstats thead td{font-weight:bold}
.privstats thead tr,.privstats tbody{border:0 solid currentColor;border-bottom-width:1px}
.privstats thead tr{border-top-width:2px}
.privstats tbody:last-of-type{border-bottom-width:2px}
.privstats tfoot td{text-align:left;white-space:normal;font-size:.9em;max-width:0;padding-top:.5em}
.privstats p{margin:0 0 .3em}"""


@dataclass(frozen=True)
class Sheet:
    """A table of text cells with a title, and with lines of text above and below the table.

    Parameters
    ----------
    title, about : str
        Title and subject of the table, such as "Private linear regression" and the formula.
    heads : tuple of str
        Headings of all columns.
    body, foot : tuple of tuple of str
        Rows of cells above and below a horizontal line. Every row has all its labels, also labels that are the same as
        in the row above.
    above, below : tuple of (str, str)
        Labels and contents of the lines above and below the table; a label may be empty.
    labels : int
        Number of columns of row labels, at the left of the table.
    key : str
        Key in the label of the LaTeX table, ``tab:key``.
    """

    title: str
    about: str
    heads: tuple[str, ...]
    body: tuple[tuple[str, ...], ...]
    foot: tuple[tuple[str, ...], ...] = ()
    above: tuple[tuple[str, str], ...] = ()
    below: tuple[tuple[str, str], ...] = ()
    labels: int = 1
    key: str = "fit"

    @property
    def caption(self) -> str:
        """Title and subject of the table in one line."""
        return ": ".join(part for part in (self.title, self.about) if part)

    def panels(self, width: int = WIDTH) -> Iterator[Sheet]:
        """Yield tables of about `width` characters, each with the row labels and some of the other columns.

        The two limits of an interval are in the same table. The column "noise" is never separated from the column
        before it.
        """
        cells = [self.heads, *self.body, *self.foot]
        widths = [max(len(row[j]) for row in cells) + GAP for j in range(len(self.heads))]
        room = width - sum(min(size, KEPT) for size in widths[: self.labels])
        together: list[list[int]] = []
        for j in range(self.labels, len(self.heads)):
            if together and (self.heads[j - 1].startswith("[") or self.heads[j] == "noise"):
                together[-1].append(j)
            else:
                together.append([j])
        chosen: list[int] = []
        for some in together:
            if chosen and sum(widths[k] for k in (*chosen, *some)) > room:
                yield self._columns(chosen)
                chosen = []
            chosen += some
        yield self._columns(chosen)

    def _columns(self, chosen: Sequence[int]) -> Sheet:
        """Return a table of the row labels and the columns with indices `chosen`, without lines above and below it.

        Rows of the body are left out if they have no text in the chosen columns. Label columns without text are left
        out, too, except the first.
        """
        body = [row for row in self.body if any(row[j] for j in chosen)]
        labels = [j for j in range(self.labels) if j == 0 or any(row[j] for row in body)]

        def picked(rows: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
            return tuple(tuple(row[j] for j in (*labels, *chosen)) for row in rows)

        (heads,) = picked((self.heads,))
        return Sheet(self.title, self.about, heads, picked(body), picked(self.foot), labels=len(labels))

    @property
    def _rows(self) -> tuple[tuple[str, ...], ...]:
        """The rows of the body of the table, without repeated labels.

        Leading labels that are the same as in the row above are empty; the last label of a row is never left out.
        """
        labels = shown_once([row[: self.labels] for row in self.body])
        return tuple((*label, *row[self.labels :]) for label, row in zip(labels, self.body, strict=True))

    # ---------------------------------------------------------------- Markdown

    def as_markdown(self) -> str:
        """Return the table in GitHub's Markdown, preceded by the caption if there is one."""
        heads = tuple(_markdown(head) for head in self.heads)
        dashes = ["-" * max(len(head) + 1, 3) for head in heads]
        rule = [f":{dash}" if j < self.labels else f"{dash}:" for j, dash in enumerate(dashes)]
        rows = [f"|{'|'.join(rule)}|", *(_piped(map(_markdown, row)) for row in (*self._rows, *self.foot))]
        caption = f"**{_markdown(self.caption)}**" if self.caption else ""
        parts = (caption, _listed(self.above), "\n".join((_piped(heads), *rows)), _listed(self.below))
        return "\n\n".join(part for part in parts if part)

    # ---------------------------------------------------------------- LaTeX

    def as_latex(self) -> str:
        """Return the table as LaTeX code with a caption and a label; the code needs only the LaTeX package booktabs."""
        short, long = self._shortened()
        fits = len(self.caption) <= WIDTH
        notes = [*(() if fits else (("Formula", self.about),)), *self.above, *self.below, *long]
        paragraphs = "\n".join(f"{_latex(_noted(label, text))}\\par" for label, text in notes)
        start = r"\footnotesize\raggedright" + "\n" if len(notes) > 1 else r"\footnotesize "
        tables = "\\par\\medskip\n".join(part._tabular() for part in short.panels())
        lines = (
            rf"\begin{{table}}[htbp]\centering{DENSE if len(self.heads) > MANY else ''}",
            rf"\caption{{{_latex(self.caption if fits else self.title)}}}\label{{tab:{self.key}}}",
            tables + (r"\par\smallskip" if notes else ""),
            f"{{{start}{paragraphs}}}" if notes else "",
            r"\end{table}",
        )
        return "\n".join(line for line in lines if line)

    def _shortened(self) -> tuple[Sheet, tuple[tuple[str, str], ...]]:
        """Return the table with letters in place of long cells, and pairs of a letter and the text that it replaces."""
        long: dict[str, str] = {}

        def short(row: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(
                cell if len(cell) <= KEPT else long.setdefault(cell, f"({_letters(len(long))})") for cell in row
            )

        heads, body, foot = short(self.heads), tuple(map(short, self.body)), tuple(map(short, self.foot))
        sheet = Sheet(self.title, self.about, heads, body, foot, labels=self.labels)
        return sheet, tuple((letters, cell) for cell, letters in long.items())

    def _tabular(self) -> str:
        columns = "l" * self.labels + "r" * (len(self.heads) - self.labels)
        foot = [r"\midrule", *map(_latex_row, self.foot)] if self.foot else []
        rows = [_latex_row(self.heads), r"\midrule", *map(_latex_row, self._rows), *foot]
        return "\n".join((rf"\begin{{tabular}}{{{columns}}}\toprule", *rows, r"\bottomrule\end{tabular}"))

    # ---------------------------------------------------------------- HTML

    def as_html(self) -> str:
        """Return the table in HTML, together with a style sheet for pages with a light or a dark background."""
        facts = "".join(f"<dt>{_html(label)}</dt><dd>{_html(text)}</dd>" for label, text in self.above)
        below = "".join(f"<p>{_html(_noted(label, text))}</p>" for label, text in self.below)
        parts = (
            f"<style>\n{STYLE}\n</style>",
            '<table class="privstats">',
            f"<caption><strong>{_html(self.caption)}</strong>{f'<dl>{facts}</dl>' if facts else ''}</caption>",
            f"<thead>\n{self._html_row(self.heads, 'col', len(self.heads))}\n</thead>",
            *(
                "\n".join(("<tbody>", *(self._html_row(row, "row", self.labels) for row in rows), "</tbody>"))
                for rows in (self._rows, self.foot)
                if rows
            ),
            f'<tfoot>\n<tr><td colspan="{len(self.heads)}">{below}</td></tr>\n</tfoot>' if below else "",
            "</table>",
        )
        return "\n".join(part for part in parts if part)

    def _html_row(self, row: tuple[str, ...], scope: str, headers: int) -> str:
        """Return a table row in HTML, in which the nonempty cells among the first `headers` cells are header cells.

        The HTML attribute `scope` of the header cells, "col" or "row", says whether these cells head a column or a row.
        """
        cells = []
        for j, cell in enumerate(row):
            place = ' class="label"' if j < self.labels else ""
            tag, of = ("th", f' scope="{scope}"') if j < headers and cell else ("td", "")
            cells.append(f"<{tag}{of}{place}>{_html(cell)}</{tag}>")
        return f"<tr>{''.join(cells)}</tr>"

    # ---------------------------------------------------------------- CSV, great_tables

    def as_csv(self) -> str:
        """Return the column headings and the rows as CSV text, without the lines above and below the table."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows((self.heads, *self.body, *self.foot))
        return text.getvalue()

    def as_gt(self) -> Any:
        """Return the table as an object of the package great_tables.

        Raises
        ------
        ImportError
            If great_tables is not installed.
        """
        try:
            from great_tables import GT
        except ImportError as error:
            raise ImportError("great_tables is not installed; write pip install 'privstats[gt]'") from error
        import pandas as pd

        names = [f"column {j}" for j in range(len(self.heads))]
        frame = pd.DataFrame([*self._rows, *self.foot], columns=names)
        table = GT(frame).cols_label(dict(zip(names, self.heads, strict=True)))
        table = table.cols_align("left", names[: self.labels]).cols_align("right", names[self.labels :])
        table = table.tab_header(self.title, self.about or None)
        for label, text in (*self.above, *self.below):
            table = table.tab_source_note(_noted(label, text))
        return table


def _noted(label: str, text: str) -> str:
    """Return the text of a line above or below the table, preceded by the label of the line, if any."""
    start = "" if not label else f"{label} " if label[-1] in ")]" else f"{label}: "
    return start + "; ".join(text.split("\n"))


def _piped(cells: Any) -> str:
    return f"| {' | '.join(cells)} |"


def _listed(lines: Sequence[tuple[str, str]]) -> str:
    """Return the lines above or below a table in Markdown: labelled lines as a list, other lines as paragraphs."""
    texts = [(bool(label), ("- " if label else "") + _markdown(_noted(label, text))) for label, text in lines]
    joined = ""
    for k, (item, text) in enumerate(texts):
        joined += ("" if not k else "\n" if item and texts[k - 1][0] else "\n\n") + text
    return joined


def _markdown(text: str) -> str:
    """Return the text in one line, with a backslash before each character that is markup in Markdown or its tables."""
    return MARKUP.sub(r"\\\g<0>", " ".join(text.splitlines()))


def _html(text: str) -> str:
    return html.escape("; ".join(text.split("\n")), quote=False)


def _latex_row(row: tuple[str, ...]) -> str:
    return " & ".join(_latex_cell(cell) for cell in row) + r" \\"


def _latex_cell(cell: str) -> str:
    """Return a cell of a table in LaTeX.

    A leading bracket or star is put in braces, because LaTeX would read it as an argument of the preceding line break.
    """
    text = _latex(cell)
    return f"{{{text[0]}}}{text[1:]}" if text[:1] in ("[", "*") else text


def _latex(text: str) -> str:
    """Return the text as LaTeX code, in which minus signs of numbers and equations such as eps = 1 are in math mode."""
    parts, last = [], 0
    for found in EQUATION.finditer(text):
        parts += [_escaped(text[last : found.start()]), _equation(*found.groups())]
        last = found.end()
    return "".join((*parts, _escaped(text[last:])))


def _escaped(text: str) -> str:
    pieces = MINUS.split(" ".join(text.splitlines()) if "\n" in text else text)
    return "$-$".join("".join(ESCAPES.get(letter, letter) for letter in piece) for piece in pieces)


def _equation(name: str, digits: str, exponent: str | None) -> str:
    if exponent is None:
        return f"${GREEK[name]} = {digits.rstrip('.')}${'.' * digits.endswith('.')}"
    times = "" if digits == "1" else rf"{digits} \times "
    return f"${GREEK[name]} = {times}10^{{{int(exponent)}}}$"


def _letters(k: int) -> str:
    """Return the name with index k = 0, 1, ... in the sequence of names a, b, ..., z, aa, ab, ..."""
    return (_letters(k // 26 - 1) if k >= 26 else "") + chr(ord("a") + k % 26)


class Tabular(ABC):
    """Base class of tables that print as text and are available in Markdown, LaTeX, HTML, CSV and great_tables."""

    @abstractmethod
    def as_text(self) -> str:
        """Return the table as plain text in lines of at most 80 characters."""

    @abstractmethod
    def _sheet(self) -> Sheet: ...

    def as_markdown(self) -> str:
        """Return the table as Markdown."""
        return self._sheet().as_markdown()

    def as_latex(self) -> str:
        """Return a LaTeX table with a caption; the table needs the LaTeX package booktabs."""
        return self._sheet().as_latex()

    def as_html(self) -> str:
        """Return the table in HTML, together with its style sheet."""
        return self._sheet().as_html()

    def as_csv(self) -> str:
        """Return the table as CSV text with rounded numbers; labels that are the same in several rows are repeated."""
        return self._sheet().as_csv()

    def as_gt(self) -> Any:
        """Return the table as an object of the package great_tables.

        Raises
        ------
        ImportError
            If great_tables is not installed; ``pip install 'privstats[gt]'`` installs it.
        """
        return self._sheet().as_gt()

    def _repr_html_(self) -> str:
        return self.as_html()

    def __str__(self) -> str:
        return self.as_text()

    __repr__ = __str__


@dataclass(frozen=True, eq=False, repr=False)
class Listing(Tabular):
    """A table with a title, and with sentences below it.

    Parameters
    ----------
    title : str
        Title, such as "Linear hypotheses".
    table : TextTable
        Rows of numbers with their labels.
    legend : tuple of str
        Sentences below the table.
    """

    title: str
    table: TextTable
    legend: tuple[str, ...] = ()

    def as_text(self) -> str:
        """Return the table as plain text in lines of at most 80 characters."""
        lines = [line for text in self.legend for line in filled(text)]
        return "\n".join((*filled(self.title), RULE, *self.table.as_text(), RULE, *lines))

    def _sheet(self) -> Sheet:
        table = replace(self.table, labels=self.table.repeated())
        below = tuple(("", text) for text in self.legend)
        return Sheet(
            self.title, "", table.head(), tuple(table.rows()), below=below, labels=len(table.heads), key="table"
        )
