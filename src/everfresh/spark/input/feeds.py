"""What must be known of a change feed in a DataFrame before its rows are sent to the workers."""

from __future__ import annotations

from everfresh.delta import SparkRows
from everfresh.delta.feeds import CHANGE_TYPE, COMMIT_VERSION, find_feed, unpaired
from everfresh.spark.session.failures import translated
from everfresh.spark.sql.text import name as quoted
from everfresh.types import TableSchema


def check_pairs_in(rows: SparkRows, schema: TableSchema, what: str) -> None:
    """`everfresh.delta.feeds.check_pairs` of a DataFrame: by Spark, since no task sees all of it."""
    from pyspark.sql import functions as F

    if find_feed([name for name, _ in rows.names], schema) is None:
        return
    given = {name: F.col(quoted(column)) for name, column in rows.names}
    kind = given[CHANGE_TYPE]
    balance = F.sum((kind == "update_postimage").cast("int") - (kind == "update_preimage").cast("int"))
    versions = (
        [given[COMMIT_VERSION]] if COMMIT_VERSION in given and COMMIT_VERSION not in schema.names else []
    )
    with translated():
        bad = (
            rows.df.groupBy(*versions).agg(balance.alias("balance")).filter("balance <> 0").limit(1).collect()
        )
    if bad:
        raise unpaired(schema, what)
