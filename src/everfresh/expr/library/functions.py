"""The table of scalar functions: one row per function, contributed by the modules of each subject.

`+ - * / // % neg` (arithmetic), `= <> < <= > >= is_distinct is_not_distinct in greatest least` (compare),
`and or not is_null coalesce` and the 0/1 helpers of lowering (logic), `abs sign round floor ceil trunc sqrt
ln ...` (numeric), strings, dates. Invariant: names are unique; the text form and `everfresh.expr.build` know
functions by these names only.
"""

from __future__ import annotations

from everfresh.expr.library import (
    angles,
    arithmetic,
    calendar,
    compare,
    dates,
    integers,
    jsons,
    lists,
    logic,
    moments,
    numeric,
    products,
    quantiles,
    regex,
    strings,
    structs,
    text_parts,
    time_bucket,
    trying,
)
from everfresh.expr.library.collections import entries, lambdas, more_lists
from everfresh.expr.library.signature import Function, Signature
from everfresh.expr.library.texts import distances, encodings, formats, patterns
from everfresh.expr.library.times import makers
from everfresh.expr.library.times import texts as time_texts

_ROWS = (
    *arithmetic.ROWS, *compare.ROWS, *logic.ROWS, *numeric.ROWS, *strings.ROWS, *dates.ROWS,
    *time_bucket.ROWS, *calendar.ROWS, *integers.ROWS, *angles.ROWS, *regex.ROWS,
    *text_parts.ROWS, *trying.ROWS, *lists.ROWS, *structs.ROWS,
    *moments.ROWS, *jsons.ROWS, *products.ROWS, *encodings.ROWS, *distances.ROWS,
    *formats.ROWS, *patterns.ROWS, *time_texts.ROWS, *makers.ROWS, *lambdas.ROWS, *more_lists.ROWS,
    *entries.ROWS, *quantiles.ROWS,
)  # fmt: skip

FUNCTIONS: dict[str, Function] = {row.name: row for row in _ROWS}
assert len(FUNCTIONS) == len(_ROWS)

__all__ = ["FUNCTIONS", "Function", "Signature"]
