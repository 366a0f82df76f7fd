"""A change feed has the net effect of the history that it tells, however it is cut and in whatever order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import everfresh as ef
from everfresh.testing.engine.suite_feeds import TABLE, VIEW, History, feed
from everfresh.testing.oracle import assert_rows

sizes = st.lists(st.integers(0, 12), min_size=1, max_size=5)


@given(seed=st.integers(0, 10**6), sizes=sizes, keys=st.integers(1, 8), preimages=st.booleans())
def test_a_feed_equals_its_history(seed: int, sizes: list[int], keys: int, preimages: bool) -> None:
    history = History(seed, keys)
    with ef.connect(engine="local") as db:
        db.sql(f"{TABLE}; {VIEW}")
        for size in sizes:
            db.apply(t=feed(*history.changes(size, preimages)))
            assert_rows(db.table("t"), *((k, g, x) for k, (g, x) in history.rows.items()))
        assert db.view("v").verify().num_rows == 0


@given(seed=st.integers(0, 10**6), size=st.integers(1, 12), keys=st.integers(1, 8))
def test_with_both_images_no_order_is_needed(seed: int, size: int, keys: int) -> None:
    history = History(seed, keys)
    with ef.connect(engine="local") as db:
        db.sql(f"{TABLE}; {VIEW}")
        for _ in range(2):
            changes = feed(*history.changes(size)).drop_columns(["_commit_version", "_commit_timestamp"])
            db.apply(t=changes)
            assert_rows(db.table("t"), *((k, g, x) for k, (g, x) in history.rows.items()))


@pytest.mark.parametrize("preimages", [True, False])
def test_the_order_of_versions_decides(preimages: bool) -> None:
    """The same changes in another order leave another row: the property above cannot hold by accident."""
    left = []
    for versions in ((1, 2), (2, 1)):
        with ef.connect(engine="local") as db:
            db.sql(TABLE)
            db.apply(t=[(1, "a", 0)])
            changes = [(1, g, n, "update_postimage", n) for g, n in zip("bc", versions, strict=True)]
            if preimages:
                ordered = ["a", *(c[1] for c in sorted(changes, key=lambda c: c[4]))]
                changes += [(1, ordered[n - 1], n - 1, "update_preimage", n) for n in (1, 2)]
            db.apply(t=feed(*changes))
            left.append(db.table("t").to_pylist()[0]["g"])
    assert left == ["c", "b"]
