"""Text files give the same bits as a frame with the same cells; a malformed line is a row without values."""

import gzip
import io
import itertools
import os
import pickle

import numpy as np
import pandas as pd
import pytest

import privstats as ps
from privstats.errors import OptionError, SourceChangedError
from privstats.formula.domain import Domain
from privstats.formula.values import admitted
from privstats.gate import lines
from privstats.gate.lines import TextLines, cells_of, columns_of, lines_of, text_lines
from privstats.gate.sources import source_of
from privstats.workflow.fit import number_of_units
from tests.architecture.leaks import CANARIES, N, planted, refusal, reveals, spill
from tests.every import CALLS

VERBS = ("lm suffstats", "logit objpert", "median", "mean by group", "hist of levels")


def data_of():
    data = planted().sample(frac=1.0, random_state=2, ignore_index=True)
    data["who"] = [f"person {k}" for k in np.random.default_rng(3).integers(0, 25, len(data))]
    data.loc[5, "x"] = np.nan
    return data


def written(data, path, **how):
    data.to_csv(path, index=False, **how)
    return path


def bits(fit):
    return [(release.name, release.value.tobytes()) for release in fit.releases]


def whole(path):
    """Return all rows of a file, as lists of cells."""
    frames = list(source_of(path).batches())
    return [row for frame in frames for row in frame.to_numpy(dtype=object).tolist()]


# Files give the bits of a frame

WAYS = {
    "a.csv": {},
    "a.CSV": {"quoting": 1},
    "a.csv.gz": {},
    "a.tsv": {"sep": "\t", "lineterminator": "\r\n", "encoding": "utf-8-sig"},
}


@pytest.mark.parametrize("name", WAYS)
def test_a_file_of_text_releases_the_bits_of_a_frame(name, tmp_path):
    path = written(data_of(), tmp_path / name, **WAYS[name])
    for verb in VERBS if name == "a.csv" else VERBS[:1]:
        assert bits(CALLS[verb](str(path), rng=1)) == bits(CALLS[verb](data_of(), rng=1)), verb
    units = {"unit": "who", "rows_per_unit": 2, "rng": 1}
    assert bits(CALLS["lm suffstats"](path, **units)) == bits(CALLS["lm suffstats"](data_of(), **units))


def test_no_package_of_arrow_is_needed(monkeypatch, tmp_path):
    path = written(data_of(), tmp_path / "a.csv")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    CALLS["mean"](path, rng=1)


def test_cells_are_admitted_one_by_one_as_they_are_declared():
    """A cell has the value that its column's declaration gives it, whatever the other cells of the column are."""
    cases = [
        ((0, 2000), "3.5", 3.5), ((0, 2000), " 3.5 ", 3.5), ((0, 2000), "1e3", 1000.0), ((0, 2000), "1e400", 2000.0),
        ((0, 2000), "true", 1.0), ((0, 2000), "NA", None), ((0, 2000), None, None), ((0, 2000), "3,5", None),
        ((0, 2000), "nan", None), (("2020-01-01", "2020-12-31"), "2020-01-11", 10.0),
        (("2020-01-01", "2020-12-31"), "11.1.2020", None), ([1, 2], "1", 0), ([1, 2], "01", 0), ([1, 2], "2.0", 1),
        ([1, 2], "3", None), (["a", "NA"], "NA", 1), (["a", "b"], " a", None), (["01", "1"], "1", 1),
        (bool, "True", 1), (bool, "0", 0), (bool, "false", 0), (bool, "yes", None), (bool, None, None),
    ]  # fmt: skip
    for declared, cell, meant in cases:
        column = pd.Series([cell, "x", None], dtype=object)
        values, legal = admitted(Domain({"c": declared})["c"], column)
        found = getattr(values, "codes", values)[0] if legal[0] else None
        assert found == meant, (declared, cell)


def test_an_empty_cell_is_missing_and_names_no_unit(tmp_path):
    (tmp_path / "a.csv").write_text('who,y\nann,1\n,2\n"",3\nbob,""\n')
    assert whole(tmp_path / "a.csv") == [["ann", "1"], [None, "2"], [None, "3"], ["bob", None]]
    assert number_of_units(source_of(tmp_path / "a.csv"), "who") == 2


def test_the_formula_alone_says_how_an_undeclared_column_is_declared(tmp_path):
    texts = written(data_of().assign(y="none"), tmp_path / "a.csv")
    known = {"x": (0, 100), "g": ["a", "b"]}
    ps.dp_lm("y ~ x", written(data_of(), tmp_path / "b.csv"), eps=1000, domain=known, rng=1)
    assert ps.dp_lm("y ~ x", texts, eps=1000, domain=known, rng=1).params.isna().all()
    with pytest.raises(ps.DomainError, match="'g' has no declared levels"):
        ps.dp_lm("x ~ C(g)", texts, eps=1, domain={"x": (0, 100)})


# Lines

LINES = {
    b"a,b,c": ["a", "b", "c"],
    b",,": ["", "", ""],
    b"": [""],
    b'"a, b",c': ["a, b", "c"],
    b'"a, b",,"c"': ["a, b", "", "c"],
    b'"say ""a""",c': ['say "a"', "c"],
    b'5"tall,c': ['5"tall', "c"],
    "Zoë,b,c".encode(): ["Zoë", "b", "c"],
    b'a,"b': None,
    b'a,"b"c,d': None,
    b'"': None,
    b"a,\xff": None,
    b"a,\xc3": None,
    b"a,\0": None,
    b"a,\rb": None,
    b'"a\rb",c': None,
    b'"' + b"a" * 200_000 + b'",c': None,
}


@pytest.mark.parametrize("line", LINES, ids=lambda line: repr(line[:12]))
def test_a_line_is_read_by_itself(line):
    assert cells_of(line, ",") == LINES[line]
    around = [b"1,2,3", line, b"4,5,6"]
    expected = LINES[line] if LINES[line] is not None and len(LINES[line]) == 3 else [""] * 3
    assert [*zip(*columns_of(around, ",", 3), strict=True)] == [("1", "2", "3"), tuple(expected), ("4", "5", "6")]


def odd_line(rng, most=30):
    """Return a random line of bytes, in which separators, quotes and line ends are frequent."""
    letters = np.frombuffer(b',,,,,"""""ab1.\t\r\0\xff\xc3\xab ', np.uint8)
    return bytes(rng.choice(letters, rng.integers(0, most)))


def test_a_line_that_is_replaced_by_any_bytes_changes_one_row_at_most(tmp_path):
    rng, path = np.random.default_rng(5), tmp_path / "a.csv"
    for _ in range(40):
        rows = [b"x,y,z"] + [odd_line(rng) if rng.uniform() < 0.3 else b'1,"2",3' for _ in range(20)] + [b"7,8,9"]
        path.write_bytes(b"\n".join(rows) + b"\n" * int(rng.integers(0, 2)))
        before, k = whole(path), int(rng.integers(1, 21))
        assert len(before) == source_of(path).n == 21
        rows[k] = odd_line(rng)
        path.write_bytes(b"\n".join(rows))
        after = whole(path)
        assert len(after) == source_of(path).n == 21
        assert after[: k - 1] == before[: k - 1]
        assert after[k:] == before[k:]
        by_itself = cells_of(rows[k].removesuffix(b"\r"), ",")
        fits = by_itself is not None and len(by_itself) == 3
        assert after[k - 1] == [cell or None for cell in (by_itself if fits else [""] * 3)]


@pytest.mark.parametrize("longest", [1, 2, 3, 7, 64])
def test_lines_do_not_depend_on_how_the_file_is_cut(monkeypatch, longest):
    rng = np.random.default_rng(longest)
    monkeypatch.setattr(lines, "LONGEST", longest)
    for _ in range(200):
        text = bytes(rng.choice(np.frombuffer(b"ab\n\r", np.uint8), rng.integers(0, 40)))
        found = [line for some in lines_of(io.BytesIO(text)) for line in some]
        expected = text.split(b"\n")[: None if not text.endswith(b"\n") and text else -1]
        expected = [one.removesuffix(b"\r") if len(one) <= longest else lines.BROKEN for one in expected]
        assert found == expected


def test_of_a_file_only_some_lines_are_in_memory(monkeypatch, tmp_path):
    monkeypatch.setattr(lines, "LONGEST", 1000)
    path = written(data_of(), tmp_path / "a.csv")
    source = text_lines(str(path))
    sizes = [len(frame) for frame in source.batches(["x"])]
    assert sum(sizes) == len(data_of())
    assert max(sizes) < 20


# Failures

BROKEN = {
    "an open quote": b'"%b,%b\n',
    "a quote that another line closes": b'"%b,%b\n5"\n',
    "too many fields": b"%b,%b,1,1,1,1,1,1,1,1,1\n",
    "too few": b"%b;%b\n",
    "no UTF-8": b"%b,%b,\xff\xfe\n",
    "zero bytes": b"%b\0%b\n",
    "a long field": b'"%b' + b"7" * 140_000 + b'"%b\n',
    "a long line": b"%b,%b" + b"9" * (1 << 21) + b"\n",
    "nothing": b"\n",
}


@pytest.mark.parametrize("line", BROKEN.values(), ids=BROKEN)
def test_a_broken_line_is_an_absent_row_and_shows_nothing(line, tmp_path, capfd):
    shown = line % (str(CANARIES[0]).encode(), CANARIES[1].encode()) if b"%" in line else line
    path, data = written(data_of(), tmp_path / "a.csv"), data_of()
    top, *rows = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([top, *rows[:30], shown, *rows[30:]]))
    absent = pd.DataFrame({name: [None] for name in data}, index=range(shown.count(b"\n")), dtype=object)
    same = pd.concat([data[:30].astype(object), absent, data[30:].astype(object)], ignore_index=True)
    fit = CALLS["mean by group"](path, rng=1)
    assert bits(fit) == bits(CALLS["mean by group"](same, rng=1))
    assert fit.nobs == len(same)
    assert not reveals(repr(source_of(path)) + fit.summary().as_text() + str(pickle.dumps(fit)))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "first",
    [b"", b"\n", b'x,"y\n', "x,y\n1,2".encode("utf-16"), b"x,y\r1,918273.6455\r2,canary-level", b"x\0y\n", b"\xff,y\n"],
)
def test_a_first_line_that_names_no_columns_is_refused_and_not_shown(first, tmp_path):
    (tmp_path / "a.csv").write_bytes(first)
    error = refusal(lambda: CALLS["lm suffstats"](tmp_path / "a.csv"), OptionError)
    assert "column names in its first line" in str(error)
    assert not any(reveals(text) for text in spill(error))


def test_what_is_no_file_is_refused_and_so_are_columns_that_are_not_there_or_twice(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "broken.csv.gz").write_bytes(b"x,y\n1,2\n")
    for name in ("folder.csv", "pipe.csv", "nothing.csv", "broken.csv.gz"):
        with pytest.raises(OptionError, match="data is not the path of a file with column names"):
            ps.dp_mean("y", tmp_path / name, eps=1, domain={"y": (0, 1)})
    (tmp_path / "twice.csv").write_text("x,x,y\n1,2,3\n")
    with pytest.raises(ps.FormulaError, match="more than one column 'x'"):
        ps.dp_mean("x", tmp_path / "twice.csv", eps=1, domain={"x": (0, 1)})
    with pytest.raises(ps.FormulaError, match="no column 'z'"):
        ps.dp_mean("z", tmp_path / "twice.csv", eps=1, domain={"z": (0, 1)})
    ps.dp_mean("y", tmp_path / "twice.csv", eps=1, domain={"y": (0, 1)}, neighbors="add_remove")


CHANGES = {
    "rewritten": lambda file: written(data_of().assign(y=0.0), file),
    "touched": lambda file: os.utime(file, ns=(1, 1)),
    "cut off": lambda file: file.write_bytes(file.read_bytes()[:-100]),
    "gone": lambda file: file.unlink(),
    "another file": lambda file: os.replace(written(data_of(), file.with_name("b.csv")), file),
}


@pytest.mark.parametrize("limit", [None, 1e6])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_file_that_changes_between_passes_ends_the_fit_and_tells_nothing(monkeypatch, tmp_path, change, limit):
    path, calls, steady = written(data_of(), tmp_path / "a.csv"), itertools.count(), TextLines.steady

    def changed_then_steady(self):
        if next(calls) == 6:  # earlier calls belong to the count of rows and to the first passes
            change(path)
        return steady(self)

    monkeypatch.setattr(TextLines, "steady", changed_then_steady)
    ledger = ps.Ledger(ps.PureDP(1.0))
    error = refusal(
        lambda: CALLS["lm newton"](path, eps=1.0, mech="newton", ledger=ledger, memory_limit=limit), ps.PrivacyError
    )
    assert "in each pass; leave files as they are" in str(error)
    assert not any(reveals(text) for text in spill(error))
    assert len(ledger.entries) == 1


def test_a_compressed_file_that_is_broken_inside_tells_nothing(tmp_path, capfd):
    raw = bytearray(gzip.compress(written(data_of(), tmp_path / "a.csv").read_bytes() * 1000, 0))
    raw[-100_000:-90_000] = b"\xff" * 10_000
    (tmp_path / "a.csv.gz").write_bytes(raw)
    for neighbors in ("replace", "add_remove"):
        error = refusal(
            lambda neighbors=neighbors: CALLS["mean"](tmp_path / "a.csv.gz", neighbors=neighbors), ps.PrivacyError
        )
        assert "could not be" in str(error)
        assert not any(reveals(text) for text in spill(error))
    assert capfd.readouterr() == ("", "")


def test_lines_are_read_once_where_memory_is_given(monkeypatch, tmp_path):
    path, passes, read = written(data_of(), tmp_path / "a.csv"), [], lines.columns_of
    monkeypatch.setattr(lines, "columns_of", lambda *args: passes.append(1) or read(*args))
    released = []
    for limit in (None, 1e6):
        passes.clear()
        released.append(bits(CALLS["lm newton"](path, eps=1.0, mech="newton", memory_limit=limit, rng=1)))
        assert (len(passes) == 1) == (limit is not None)
    assert released[0] == released[1]


def test_a_file_that_changes_before_the_first_pass_is_noticed(tmp_path):
    source = source_of(written(data_of(), tmp_path / "a.csv"))
    assert source.n == N
    os.utime(tmp_path / "a.csv", ns=(1, 1))
    with pytest.raises(SourceChangedError):
        next(iter(source.batches()))
