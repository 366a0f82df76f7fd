"""Measurements of filling run, in this process and in one of their own, and have numbers for each view."""

from __future__ import annotations

import json

import pytest

from everfresh.bench.parts import fill_views
from everfresh.bench.parts.process import python


@pytest.mark.parametrize("name", list(fill_views.GROUPS))
def test_a_group_is_measured(name: str) -> None:
    for how in ("after", "before"):
        found = fill_views._measure_group(how, name, 300)
        assert found.keys() == {"seconds", "MB", "one row"}
        assert found["seconds"] > 0


def test_a_process_of_its_own_answers_in_json() -> None:
    said = python("-m", fill_views.__name__, "group", "after", "next event", "300")
    assert json.loads(said.splitlines()[-1])["seconds"] > 0


def test_tables_of_tpcds_have_their_keys() -> None:
    columns = [("ss_sold_date_sk", "BIGINT"), ("ss_item_sk", "BIGINT"), ("ss_ticket_number", "BIGINT")]
    made = fill_views.create_table("store_sales", columns)
    assert made.endswith("PRIMARY KEY (ss_item_sk, ss_ticket_number))")
    assert fill_views.create_table("reason", [("r_reason_sk", "INTEGER")]).count("NOT NULL") == 1


def test_the_limit_is_ten_times_duckdb_or_two_seconds() -> None:
    assert fill_views.Fill("Q1", 0.5, 0.8, 0.01).limit == 2.0
    assert fill_views.Fill("Q1", 0.5, 0.8, 0.3).limit == 3.0
    assert fill_views.Fill("Q1", 0.5, 0.75).fill == 0.25
