"""Figures that the thesis printed, to stand beside measured ones: another machine, and a stream of 10 GB."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

MARK = "published: other machine, 10 GB"


@cache
def _figures() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((resources.files(__package__) / "published.json").read_text("utf-8"))
    return found


def _part(start: str) -> Mapping[str, Mapping[str, Any]]:
    found: Mapping[str, Mapping[str, Any]] = next(
        part for name, part in _figures().items() if name.startswith(start)
    )
    return found


def by_batch_size(query: str, system: str = "DBToaster") -> Mapping[str, float | None]:
    """Table A.1: tuples per second by batch size, and `single`; empty for a query that is not in it.

    >>> by_batch_size("tpch_q06")["10000"], by_batch_size("tpch_q15", "PostgreSQL, IVM")["1"]
    (116931875, None)
    >>> by_batch_size("finance_psp")
    {}
    """
    found: Mapping[str, float | None] = _part("Table A.1").get(query, {}).get(system, {})
    return found


def single_tuple(query: str) -> Mapping[str, float]:
    """Figure 4.3: view refreshes per second of each system, one tuple at a time.

    >>> single_tuple("finance_vwap")["DBTOASTER"]
    1934.8
    """
    return _part("Figure 4.3").get(query, {})
