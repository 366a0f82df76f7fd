"""Plans and refusals of whole queries, word for word."""

from __future__ import annotations

import plan_check
import pytest
from golden import PLANS, REFUSALS, plan_of, read, refusal_of
from small_tables import CATALOG
from sql_support import bind_one


@pytest.mark.parametrize(("statement", "plan"), read(PLANS))
def test_plan(statement: str, plan: str) -> None:
    assert plan_of(statement) == plan
    plan_check.check(bind_one(statement, CATALOG).plan)


@pytest.mark.parametrize(("statement", "refusal"), read(REFUSALS))
def test_refusal(statement: str, refusal: str) -> None:
    assert refusal_of(statement) == refusal
