"""One table of texts in the formats of documents: Markdown, LaTeX, HTML and CSV."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from html import escape
from textwrap import wrap

Row = tuple[str, ...]
LONGEST_CELL = 80  # characters of a cell of LaTeX, whose columns do not wrap
ESCAPED = {
    "\\": r"\textbackslash{}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    **{"~": r"$\sim$", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$", "|": "$|$"},
}
BUDGETS = {"eps": r"\varepsilon", "delta": r"\delta", "mu": r"\mu", "rho": r"\rho"}
STYLE = """\
.privstats{border-collapse:collapse;font-variant-numeric:tabular-nums;border-top:2px solid;border-bottom:2px solid}
.privstats caption{text-align:left;font-weight:600;padding:.4em .6em}
.privstats th,.privstats td{padding:.2em .6em;text-align:right;white-space:nowrap;border:0;background:none}
.privstats th[scope=row],.privstats thead th:first-child{text-align:left;font-weight:400}
.privstats tbody{border-top:1px solid}
.privstats tfoot{border-top:1px solid;font-size:smaller}
.privstats tfoot td{text-align:left;white-space:normal;max-width:50em}"""


@dataclass(frozen=True)
class TextGrid:
    """A table of texts.

    Parameters
    ----------
    caption : str
    head : tuple of str
        Of all columns.
    blocks : tuple of tuple of tuple of str
        Rows, in blocks between which a line is drawn.
    foot : tuple of str
        Paragraphs below the table.
    names : int
        How many columns, from the first on, are names; the others are numbers.
    before : tuple of str
        Paragraphs that stand above a table in Markdown, and in the foot otherwise.
    label : str
        By which LaTeX refers to the table.
    """

    caption: str
    head: Row
    blocks: tuple[tuple[Row, ...], ...]
    foot: tuple[str, ...] = ()
    names: int = 1
    before: tuple[str, ...] = ()
    label: str = "tab:fit"

    @property
    def rows(self) -> list[Row]:
        """All rows."""
        return [row for block in self.blocks for row in block]

    def as_markdown(self) -> str:
        """Return a table of pipes, with what stands before it and below it."""
        lines = [f":{'-' * (len(head) + 1)}" for head in self.head[: self.names]]
        lines += [f"{'-' * (len(head) + 1)}:" for head in self.head[self.names :]]
        table = [_piped(self.head), f"|{'|'.join(lines)}|", *map(_piped, self.rows)]
        title = [f"**{self.caption}**"] if self.caption else []
        return "\n\n".join((*title, *self.before, "\n".join(table), *self.foot))

    def as_latex(self) -> str:
        """Return one captioned table, for a document that uses the package booktabs."""
        columns = "l" * self.names + "r" * (len(self.head) - self.names)
        lines = [
            r"\begin{table}[htbp]\centering",
            rf"\caption{{{tex(self.caption)}}}\label{{{self.label}}}",
            rf"\begin{{tabular}}{{{columns}}}\toprule",
            _tex_row(self.head),
        ]
        for block in self.blocks:
            lines += [r"\midrule", *(_tex_row(row) for whole in block for row in _short(whole))]
        foot = (*self.before, *self.foot)
        lines.append(r"\bottomrule\end{tabular}" + (r"\par\smallskip" if foot else ""))
        if foot:
            left = r"\raggedright" if len(foot) > 1 else ""
            lines.append(rf"{{\footnotesize{left} " + r"\par ".join(map(tex, foot)) + r"\par}")
        return "\n".join((*lines, r"\end{table}"))

    def as_html(self) -> str:
        """Return one table with its style, which asks for nothing from elsewhere."""
        head = "".join(f'<th scope="col">{escape(text)}</th>' for text in self.head)
        bodies = ["".join(self._html_row(row) for row in block) for block in self.blocks]
        foot = [f'<tr><td colspan="{len(self.head)}">{escape(text)}</td></tr>' for text in (*self.before, *self.foot)]
        return "\n".join(
            (
                f'<table class="privstats"><style>{STYLE}</style>',
                f"<caption>{escape(self.caption)}</caption>",
                f"<thead><tr>{head}</tr></thead>",
                *(f"<tbody>{body}</tbody>" for body in bodies),
                *([f"<tfoot>{''.join(foot)}</tfoot>"] if foot else []),
                "</table>",
            )
        )

    def _html_row(self, row: Row) -> str:
        names = "".join(f'<th scope="row">{escape(text)}</th>' for text in row[: self.names])
        return f"<tr>{names}{''.join(f'<td>{escape(text)}</td>' for text in row[self.names :])}</tr>"

    def as_csv(self) -> str:
        """Return head and rows; what stands around the table is left out."""
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([self.head, *self.rows])
        return out.getvalue()


def _piped(row: Row) -> str:
    """Return a row of Markdown, in which a bar does not end a cell, and no mark begins a style."""
    cells = (re.sub(r"([|*_`])", r"\\\1", cell) if re.search(r"[|*`]", cell) else cell for cell in row)
    return f"| {' | '.join(cells)} |"


def _short(row: Row) -> list[Row]:
    """Return a row, in several if its name is longer than a cell may be."""
    first, *others = wrap(row[0], LONGEST_CELL, break_on_hyphens=False) or [""]
    return [(first, *row[1:]), *((rest, *("" for _ in row[1:])) for rest in others)]


def _tex_row(row: Row) -> str:
    cells = (f"{{[}}{tex(cell[1:])}" if cell.startswith("[") else tex(cell) for cell in row)  # else an option of \\
    return rf"{' & '.join(cells)} \\"


def tex(text: str) -> str:
    r"""Return a text for LaTeX: what has a meaning there is escaped, minus signs and budgets are set in math.

    Examples
    --------
    >>> print(tex("a_1: mu = 0.5, -3"))
    a\_1: $\mu = 0.5$, $-$3
    """
    parts = re.split(r"\b((?:eps|delta|mu|rho) = [\d.e+-]*\d)", text)
    return "".join(_budget(part) if k % 2 else _escaped(part) for k, part in enumerate(parts))


def _budget(text: str) -> str:
    name, _, value = text.partition(" = ")
    mantissa, _, power = value.partition("e")
    number = (
        mantissa
        if not power
        else f"10^{{{int(power)}}}"
        if mantissa == "1"
        else rf"{mantissa} \cdot 10^{{{int(power)}}}"
    )
    return f"${BUDGETS[name]} = {number}$"


def _escaped(text: str) -> str:
    escaped = "".join(ESCAPED.get(letter, letter) for letter in text)
    return re.sub(r"(?<![\w.)])-(?=[\d.])", "$-$", escaped)
