"""A view against its recomputation, both as DataFrames: what differs is found by Spark, and judged on the
driver.

Rows are grouped by the columns that compare exactly; in each group the sorted lists of the float columns
must agree within a relative tolerance. Groups that do not are collected and matched one by one
(`everfresh.delta.bags.difference`): few, unless the view is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from everfresh.delta.bags import WEIGHT, difference
from everfresh.spark.sql.forms import from_held
from everfresh.spark.sql.text import name as quoted
from everfresh.types import Column, arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TOLERANCE = 1e-9


def differences(expected: DataFrame, actual: DataFrame, columns: Sequence[Column]) -> pa.Table:
    """The rows in which a view differs from what it should be, with `_weight`: positive ones are missing."""
    from pyspark.sql import functions as F

    exact = [quoted(c.name) for c in columns if not c.type.is_float]
    floats = [quoted(c.name) for c in columns if c.type.is_float]
    values = F.struct(*[F.col(name) for name in floats]) if floats else F.struct(F.lit(1).alias("one"))
    sides = expected.withColumn("_side", F.lit(0)).unionByName(actual.withColumn("_side", F.lit(1)))
    lists = [
        F.sort_array(F.collect_list(F.when(F.col("_side") == side, values))).alias(f"_{side}")
        for side in (0, 1)
    ]
    grouped = sides.groupBy(*[F.col(name) for name in exact]).agg(*lists)
    wrong = grouped.where(~_agree(F.col("_0"), F.col("_1"), floats))
    tagged = F.concat(
        *[
            F.transform(
                F.col(f"_{side}"),
                lambda row, side=side: F.struct(F.lit(side).alias("side"), row.alias("row")),
            )
            for side in (0, 1)
        ]
    )
    rows = wrong.select(*[F.col(n) for n in exact], F.explode(tagged).alias("_one"))
    table = rows.select(
        *[
            (F.col(f"_one.row.{quoted(c.name)}") if c.type.is_float else F.col(quoted(c.name))).alias(c.name)
            for c in columns
        ],
        F.col("_one.side").alias("_side"),
    ).toArrow()
    schema = arrow_schema(tuple(columns))
    first, second = (
        from_held(table.filter(pc.equal(table.column("_side"), side)).drop_columns(["_side"]), columns).cast(
            schema
        )
        for side in (0, 1)
    )
    return difference(first, second, _TOLERANCE)


def _agree(a: Any, b: Any, floats: list[str]) -> Any:
    """Whether two sorted lists of structs have the same length and floats that are near each other."""
    from pyspark.sql import functions as F

    def near(x: Any, y: Any) -> Any:
        result = F.lit(True)
        for name in floats:
            u, v = x[name.strip("`")], y[name.strip("`")]
            close = F.abs(u - v) <= F.lit(_TOLERANCE) * F.greatest(F.abs(u), F.abs(v))
            result = result & F.coalesce(u.eqNullSafe(v) | close, F.lit(False))
        return result

    pairs = F.zip_with(a, b, lambda x, y: F.when(x.isNull() | y.isNull(), F.lit(False)).otherwise(near(x, y)))
    return (F.size(a) == F.size(b)) & F.forall(pairs, lambda good: good)


def net_change(new: DataFrame, old: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """What turns the rows of `old` into those of `new`, as bags: rows with `_weight`, none of them zero."""
    from pyspark.sql import functions as F

    names = [F.col(quoted(c.name)) for c in columns]
    signed = (
        new.toDF(*[c.name for c in columns])
        .withColumn(WEIGHT, F.lit(1))
        .union(old.withColumn(WEIGHT, F.lit(-1)))
    )
    return signed.groupBy(*names).agg(F.sum(WEIGHT).alias(WEIGHT)).where(F.col(WEIGHT) != 0)
