"""Rows of tables as bytes: keys that order as their values do, and rows of typed columns.

>>> from everfresh.types import BIGINT, VARCHAR, Column, TableSchema
>>> codec = RowCodec(TableSchema("t", (Column("k", BIGINT), Column("v", VARCHAR)), ("k",)))
>>> codec.decode(*codec.encode((-3, "ink")))
(-3, 'ink')
"""

from __future__ import annotations

from everfresh.kv.encoding.rows import RowCodec

__all__ = ["RowCodec"]
