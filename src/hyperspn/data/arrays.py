"""Arrow's arrays as arrays of numbers, and back."""

from __future__ import annotations

import re

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from math import nan
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from numpy.typing import NDArray

from .spelling import Spelling

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
FALSE, TRUE = ("false", "f", "no", "n", "0"), ("true", "t", "yes", "y", "1")


def numbers_of(values: pa.ChunkedArray, spelling: Spelling | None = None) -> NDArray[np.float64]:
    """Values of any type as numbers, (rows,); NaN for what is missing or none."""
    import pyarrow as pa

    if pa.types.is_dictionary(values.type):
        return on_levels(lambda levels: numbers_of(levels, spelling), values)
    if pa.types.is_string(values.type):
        return to_numpy((spelling or Spelling()).parse(values))
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    if pa.types.is_float32(values.type) or pa.types.is_float16(values.type) or pa.types.is_decimal(values.type):
        values = values.cast(pa.string())  # 1.1 and not 1.10000002384, 478.71 and not 478.71000000000004
    return to_numpy(values.cast(pa.float64(), safe=False))


def truths_of(values: pa.ChunkedArray) -> NDArray[np.float64]:
    """Booleans and their usual spellings as 0 and 1, (rows,); NaN for all else."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_boolean(values.type):
        return numbers_of(values)
    if pa.types.is_dictionary(values.type):
        return on_levels(truths_of, values)
    if not pa.types.is_string(values.type):
        numbers = numbers_of(values)
        return np.where(np.isin(numbers, (0, 1)), numbers, nan)
    places = pc.index_in(pc.utf8_lower(values), value_set=pa.array([*FALSE, *TRUE]))
    return np.floor(to_numpy(pc.cast(places, pa.float64())) / len(FALSE))


def arrow_type(name: str) -> pa.DataType:
    """The Arrow type of a name like ``timestamp[us, tz=UTC]``."""
    import pyarrow as pa

    zoned = re.fullmatch(r"timestamp\[(\w+), tz=(.+)\]", name)
    if zoned:
        return pa.timestamp(*zoned.groups())
    decimal = re.fullmatch(r"(decimal\d+)\((\d+), (-?\d+)\)", name)
    if decimal:
        return getattr(pa, decimal[1])(int(decimal[2]), int(decimal[3]))
    return pa.type_for_alias(name)


def to_numpy(values: Any) -> NDArray[np.float64]:
    """An array that may be changed."""
    import pyarrow as pa

    array = values.to_numpy() if isinstance(values, pa.ChunkedArray) else values.to_numpy(zero_copy_only=False)
    return np.require(array, requirements="W")


def is_text(values: pa.ChunkedArray) -> bool:
    """Whether these are strings, or the codes of strings."""
    import pyarrow as pa

    return pa.types.is_string(values.type) or pa.types.is_dictionary(values.type)


def levels_of(values: pa.ChunkedArray) -> tuple[pa.Array, NDArray[np.int32]]:
    """The different strings or booleans of a column, and the number of each value among them, (rows,); -1 if missing."""
    import pyarrow as pa

    levels, places = _dictionary_of(values)
    used = np.bincount(places + 1, minlength=len(levels) + 1)[1:] > 0
    if used.all():
        return levels, places
    return levels.filter(pa.array(used)), np.append(np.cumsum(used) - 1, -1).astype(np.int32)[places]


def on_levels(function: Callable[[pa.Array], NDArray[np.float64]], values: pa.ChunkedArray) -> NDArray[np.float64]:
    """What a function makes of strings: it is called once with all that differ."""
    levels, places = _dictionary_of(values)
    return np.append(function(levels), nan)[places]


def _dictionary_of(values: pa.ChunkedArray) -> tuple[pa.Array, NDArray[np.int32]]:
    """As `levels_of`, but with levels that a part of a column may not have."""
    import pyarrow as pa

    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    chunks = values.unify_dictionaries().chunks
    if not chunks:
        return pa.array([], values.type.value_type), np.empty(0, np.int32)
    places = [np.asarray(chunk.indices.fill_null(-1)) for chunk in chunks]
    return chunks[-1].dictionary, places[0] if len(places) == 1 else np.concatenate(places)


def check_finite(name: str, numbers: NDArray[np.float64]) -> None:
    infinite = np.isinf(numbers)
    if infinite.any():
        raise ValueError(
            f"expected finite numbers in column {name!r}, found an infinite one in row {infinite.argmax() + 1}: "
            "drop or fix the column"
        )


def in_threads(function: Callable[..., T], *columns: Iterable[Any]) -> list[T]:
    """What a function makes of each column, as many at a time as Arrow has threads."""
    import pyarrow as pa

    with ThreadPoolExecutor(pa.cpu_count()) as pool:
        return list(pool.map(function, *columns))


def without_nan(values: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_floating(values.type):
        return values
    return pc.if_else(pc.is_nan(values), None, values)


def cast(values: pa.Array, name: str) -> pa.Array:
    """Values in the type of the table, where it can hold them."""
    import pyarrow as pa

    try:
        return values.cast(arrow_type(name)) if name else values
    except pa.ArrowInvalid:
        return values


def spread(values: pa.Array, known: NDArray[np.bool_]) -> pa.Array:
    """The known values in their rows, null elsewhere."""
    import pyarrow as pa

    return values.take(pa.array(np.cumsum(known) - 1, mask=~known))
