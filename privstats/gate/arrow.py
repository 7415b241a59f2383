"""Conversion of Apache Arrow arrays to columns, and of Arrow record batches to pandas DataFrames.

Each cell is converted by itself, according to the Arrow type of its column. The result equals the conversion of pandas
cells of the corresponding type to the last bit, so that every source of the same rows gives the same results. pyarrow
is imported only when Arrow data are given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privstats.formula.block import CHUNK
from privstats.formula.cells import is_numeric

# a longer record batch is split into pieces of this number of rows, which is a multiple of a block's number of rows
BATCH_ROWS = 16 * CHUNK
FEW_ROWS = 4 * CHUNK  # a record batch with fewer rows than this number is joined with the next batch
DIGITS_A_BIT = 0.30103  # decimal digits per bit, log10 of 2


# Functions that convert Arrow arrays to columns


def column(array: Any) -> NDArray[Any] | pd.Categorical:
    """Convert an Arrow array to an array or Categorical with the same cells as a pandas column of the same type.

    Numbers and truth values stay numbers, decimals become the nearest floats, dates and times are in UTC, and strings
    become categories with a code for each row. No value raises an error. Missing values result from

    - nulls;
    - strings that are not valid UTF-8;
    - all cells of types that are not converted, such as times without a date, durations, lists and structures;
    - all cells of a decimal type whose scale exceeds, in absolute value, the largest precision for its bit width (38
      digits for 128 bits).
    """
    import pyarrow as pa

    kind, is_a = array.type, pa.types
    if isinstance(array, pa.ExtensionArray):
        return column(array.storage)
    if is_a.is_run_end_encoded(kind) or (is_a.is_dictionary(kind) and not _is_text(kind.value_type)):
        return column(_plain(array))
    if is_a.is_dictionary(kind):
        return _texts(array)
    if _is_text(kind):
        return _texts(array.cast(pa.large_binary()).dictionary_encode())
    if is_a.is_decimal(kind) and abs(kind.scale) < DIGITS_A_BIT * (kind.bit_width - 1):
        # Decimals are cast via text, because Arrow's direct cast to floats does not round to nearest. Arrow cannot
        # cast decimals of a larger scale to text; their cells become missing values in the last branch below.
        array = array.cast(pa.string()).cast(pa.float64())
    elif is_a.is_boolean(kind) and array.null_count:  # with nulls, to_numpy would return objects
        array = array.cast(pa.uint8())
    elif is_a.is_date(kind):
        array = array.cast(pa.timestamp("s" if is_a.is_date32(kind) else "ms"))
    elif not any(
        known(kind) for known in (is_a.is_integer, is_a.is_floating, is_a.is_boolean, is_a.is_timestamp, _is_bytes)
    ):
        return np.full(len(array), None, dtype=object)
    cells: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return cells


def _is_text(kind: Any) -> bool:
    from pyarrow import types as is_a

    return bool(is_a.is_string(kind) or is_a.is_large_string(kind) or is_a.is_string_view(kind))


def _is_bytes(kind: Any) -> bool:
    from pyarrow import types as is_a

    binary = (is_a.is_binary, is_a.is_large_binary, is_a.is_binary_view, is_a.is_fixed_size_binary)
    return any(known(kind) for known in binary)


def _texts(coded: Any) -> pd.Categorical:
    """Return a dictionary-encoded Arrow array of strings as a pandas Categorical."""
    import pyarrow as pa

    values = coded.dictionary.cast(pa.large_binary())
    places = coded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    if len(values) > len(places):  # drop values of a large dictionary that do not occur in this array
        used, places = np.unique(places, return_inverse=True)
        values = values.take(pa.array(used, mask=used < 0))
    texts = [_decoded(value) for value in values.to_pylist()]
    code = {text: k for k, text in enumerate(dict.fromkeys(text for text in texts if text is not None))}
    codes = np.array([*(-1 if text is None else code[text] for text in texts), -1])[places]
    return pd.Categorical.from_codes(codes, pd.Index(list(code), dtype=object))


def _decoded(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _plain(array: Any) -> Any:
    """Return an Arrow array without dictionary or run-end encoding.

    Strings and bytes get 64-bit offsets, because 32-bit offsets would limit the total length of the cells when arrays
    are joined. Arrays with run-end encoding keep their offsets.
    """
    import pyarrow as pa
    from pyarrow.compute import run_end_decode

    if pa.types.is_run_end_encoded(array.type):
        return run_end_decode(array)
    wide = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
    if not pa.types.is_dictionary(array.type):
        return array.cast(wide.get(array.type, array.type))
    if _is_text(array.type.value_type):  # cast to bytes, so that invalid UTF-8 raises no error
        return array.dictionary.cast(pa.large_binary()).take(array.indices).view(pa.large_string())
    return _plain(array.dictionary).take(array.indices)


def frame_of(names: Iterable[str], arrays: Sequence[Any]) -> pd.DataFrame:
    """Return Arrow arrays as a DataFrame with the given column names, which may repeat."""
    n = len(arrays[0]) if arrays else 0
    frame = pd.DataFrame(dict(enumerate(map(column, arrays))), index=range(n), copy=False)
    frame.columns = pd.Index(list(names), dtype=object)
    return frame


@dataclass(frozen=True, eq=False)
class ByName:
    """A table whose columns are read by name, as from a DataFrame; a `ByName` is built faster than a DataFrame.

    Parameters
    ----------
    named : mapping of str to (ndarray or Series)
        Columns of numbers or truth values as arrays, and all other columns as Series.
    rows : int
        Number of rows.
    """

    named: Mapping[str, Any]
    rows: int

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, name: str) -> Any:
        return self.named[name]


Rows = pd.DataFrame | ByName


def by_name(names: Sequence[str], arrays: Sequence[Any]) -> Rows:
    """Return Arrow arrays as a table whose columns are read by name.

    With at most `FEW_ROWS` rows the table is a DataFrame, which can be joined with other DataFrames; with more rows the
    table is a `ByName`, which is built faster.
    """
    if not arrays or len(arrays[0]) <= FEW_ROWS:
        return frame_of(names, arrays)
    found = dict(zip(names, map(column, arrays), strict=True))
    return ByName({name: one if is_numeric(one) else pd.Series(one) for name, one in found.items()}, len(arrays[0]))


# Functions that convert Arrow record batches to DataFrames


def is_stream(data: Any) -> bool:
    """Return whether an object exports an Arrow C stream and is not a DataFrame."""
    return hasattr(type(data), "__arrow_c_stream__") and not isinstance(data, pd.DataFrame)


def streamed(made: Iterable[Any]) -> Iterator[Any]:
    """Yield the items that a user's reader function returned: Arrow streams as DataFrames, other items unchanged."""
    for one in [made] if is_stream(made) else made:
        if is_stream(one):
            from pyarrow import RecordBatchReader

            yield from frames_of(RecordBatchReader.from_stream(one))
        else:
            yield one


def frames_of(batches: Iterable[Any]) -> Iterator[pd.DataFrame]:
    """Yield Arrow record batches as DataFrames; `whole_batches` first joins small batches and splits large batches."""
    for batch in whole_batches(batches):
        yield frame_of(batch.schema.names, batch.columns)


def whole_batches(batches: Iterable[Any]) -> Iterator[Any]:
    """Regroup Arrow record batches of one schema into batches of about `FEW_ROWS` to `BATCH_ROWS` rows."""
    waiting: list[Any] = []
    for batch in batches:
        for start in range(0, batch.num_rows, BATCH_ROWS):
            waiting.append(batch.slice(start, BATCH_ROWS))
            if sum(one.num_rows for one in waiting) >= FEW_ROWS:
                yield _together(waiting)
                waiting = []
    if waiting:
        yield _together(waiting)


def _together(batches: list[Any]) -> Any:
    import pyarrow as pa

    if len(batches) == 1:
        return batches[0]
    columns = zip(*(map(_plain, batch.columns) for batch in batches), strict=True)
    if not (arrays := [pa.concat_arrays(parts) for parts in columns]):
        return pa.RecordBatch.from_struct_array(pa.nulls(sum(batch.num_rows for batch in batches), pa.struct([])))
    return pa.RecordBatch.from_arrays(arrays, names=batches[0].schema.names)
