"""Casts of whole vectors, where NumPy does them exactly as the scalar ones; None for the rest.

Invariant: where `cast_array` gives an array, its values are those of `casts.cast_value`; where that would
raise on a row, it raises too.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from everfresh.expr.column import Array, canonical_floats, dtype_of
from everfresh.expr.library import checked
from everfresh.expr.library.casts import EXACT_IN, family
from everfresh.expr.library.civil import DAY_US
from everfresh.types import BIGINT, SqlType


def _exact_to_exact(values: Array, source: SqlType, to: SqlType) -> Array:
    shift = to.scale - source.scale
    if shift == 0:
        return checked.within(values, to)
    if shift < 0:
        return checked.within(checked.half_away(values, 10**-shift), to)
    factor = np.array([10**shift], dtype=np.int64 if shift <= 18 else object)
    return checked.multiply(values, factor, to)


def _exact_to_float(values: Array, source: SqlType, to: SqlType) -> Array | None:
    one = dtype_of(to).type
    if values.dtype == object:
        return values.astype(np.float64) if to.name == "DOUBLE" and source.scale == 0 else None
    if source.scale == 0:
        return values.astype(one)
    unit = 10**source.scale
    power = one(float(unit))
    near = values.astype(one) / power
    exact = np.abs(values) <= EXACT_IN[to.name]
    if exact.all():
        return canonical_floats(near)
    size = np.abs(values)
    far = (size // unit).astype(one) + (size % unit).astype(one) / power
    return canonical_floats(np.where(exact, near, np.where(values < 0, -far, far)))


def _float_to_exact(values: Array, source: SqlType, to: SqlType) -> Array | None:
    if to.is_wide:
        return None
    doubles = values.astype(np.float64)
    if not np.isfinite(doubles).all():
        raise checked.outside()
    if to.is_integer:
        whole = np.rint(doubles)
        limit = float(-to.bounds[0])
        if not ((whole >= -limit) & (whole < limit)).all():
            raise checked.outside()
        return whole.astype(np.int64)
    scaled, limit = doubles * float(10**to.scale), float(10**to.precision)
    floor = np.floor(np.abs(scaled))
    size = floor + (np.abs(scaled) - floor >= 0.5)
    if not (size < limit).all():
        raise checked.outside()
    return np.where(scaled < 0, -size, size).astype(np.int64)


def _float_to_float(values: Array, source: SqlType, to: SqlType) -> Array:
    with np.errstate(over="ignore"):
        out = values.astype(dtype_of(to))
    if (np.isinf(out) & ~np.isinf(values)).any():
        raise checked.outside()
    return canonical_floats(out)


_CASTS: dict[tuple[str, str], Callable[[Array, SqlType, SqlType], Array | None]] = {
    ("EXACT", "EXACT"): _exact_to_exact,
    ("EXACT", "FLOAT"): _exact_to_float,
    ("EXACT", "BOOLEAN"): lambda values, source, to: (values != 0).astype(np.bool_),
    ("FLOAT", "EXACT"): _float_to_exact,
    ("FLOAT", "FLOAT"): _float_to_float,
    ("FLOAT", "BOOLEAN"): lambda values, source, to: values != 0,
    ("BOOLEAN", "EXACT"): lambda values, source, to: checked.multiply(
        values.astype(np.int64), np.array([10**to.scale], dtype=object if to.scale > 18 else np.int64), to
    ),
    ("BOOLEAN", "FLOAT"): lambda values, source, to: values.astype(dtype_of(to)),
    ("DATE", "TIMESTAMP"): lambda values, source, to: checked.multiply(values, np.array([DAY_US]), BIGINT),
    ("TIMESTAMP", "DATE"): lambda values, source, to: values // DAY_US,
}


def cast_array(values: Array, source: SqlType, to: SqlType) -> Array | None:
    """The values cast, none of them NULL; None if the scalar cast must do it."""
    cast = _CASTS.get((family(source), family(to)))
    return None if cast is None else cast(values, source, to)
