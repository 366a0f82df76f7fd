"""`Delta`: the changes of one table in a batch, as a caller writes them.

Invariant: a `Delta` only holds what it was given; nothing is read, copied or checked before it is applied.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from everfresh.errors import Code, EverfreshError

Operation = Literal["insert", "delete", "update", "change"]
"""What is done with rows; "change" is what the rows of a change feed say (`everfresh.delta.feeds`)."""


@dataclass(frozen=True, eq=False)
class Delta:
    """Changes of one table: rows to insert, to delete and to update.

    >>> import everfresh as ef                                                          # doctest: +SKIP
    >>> db.apply(orders=ef.Delta(                                                       # doctest: +SKIP
    ...     inserts=[{"o_orderkey": 4, "o_custkey": 7, "o_totalprice": "19.90"}],
    ...     deletes=[{"o_orderkey": 1}],
    ...     updates=[{"o_orderkey": 2, "o_totalprice": "25.00"}],
    ... ))

    Each of the three takes anything that a table takes: a pyarrow Table, a pandas, Polars or Spark DataFrame,
    a DuckDB relation, a list of dicts or tuples, a dict of columns, a path to Parquet or CSV.

    - *inserts* are rows; a column that is left out is NULL.
    - *deletes* are full rows, each of which removes one equal row (NULL equals NULL); where the table has a
      primary key, the key columns alone are enough.
    - *updates* name their row by the primary key and hold the columns to change, any of them; every row of
      one `updates` has the same columns.

    Within a batch deletes apply before inserts, and the batch is judged by its net effect: deleting a row and
    inserting it again changes nothing, and a key may be deleted and inserted anew. A batch that is refused
    changes nothing.
    """

    inserts: Any = None
    deletes: Any = None
    updates: Any = None

    @staticmethod
    def of(value: Any) -> Delta:
        """`value` itself if it is a `Delta`, otherwise a `Delta` with `value` as its inserts.

        >>> Delta.of([{"a": 1}]).inserts
        [{'a': 1}]
        """
        if isinstance(value, Delta):
            return value
        if value is None:
            raise EverfreshError(
                Code.ARGUMENT, "None is not rows", hint="give rows, or leave the table out of the batch"
            )
        return Delta(inserts=value)

    def parts(self) -> Iterator[tuple[Operation, Any]]:
        """What was given, with its operation, in the order in which it applies.

        >>> list(Delta(inserts=[(1,)], deletes=[(2,)]).parts())
        [('delete', [(2,)]), ('insert', [(1,)])]
        """
        if self.deletes is not None:
            yield "delete", self.deletes
        if self.updates is not None:
            yield "update", self.updates
        if self.inserts is not None:
            yield "insert", self.inserts
