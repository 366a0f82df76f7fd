"""The API: connecting, batches, reading views in every form, their changes and past, listeners, errors."""

# ruff: noqa: D102 (the name of a test says what it tests)

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from everfresh import Code, Delta, EverfreshError
from everfresh.database import Database
from everfresh.delta.bags import expand, net, subtract
from everfresh.testing.engine.suite_base import SuiteBase, refused
from everfresh.testing.oracle import assert_rows, assert_same


class ApiSuite(SuiteBase):
    """What a user calls."""

    # -- life ------------------------------------------------------------------------------------------------

    def test_a_context_manager_closes(self) -> None:
        with self.connect() as db:
            db.sql("CREATE TABLE t (a BIGINT)")
        with refused(Code.CLOSED, "closed"):
            db.sql("SELECT * FROM t")

    def test_a_closed_database_refuses_everything(self) -> None:
        db = self.connect()
        db.sql("CREATE TABLE t (a BIGINT); CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
        view = db.view("v")
        db.close()
        db.close()
        calls: list[Callable[[], Any]] = [
            lambda: db.apply(t=[(1,)]),
            lambda: db.view("v"),
            lambda: db.epoch,
            lambda: db.tables,
            lambda: db.views,
            lambda: view.to_arrow(),
            lambda: view.changes(),
            lambda: view.verify(),
            lambda: view.explain(),
            lambda: view.on_change(print),
            lambda: db.statistics(),
        ]
        for call in calls:
            with refused(Code.CLOSED):
                call()
        assert "closed" in repr(db)

    def test_the_representation_says_what_is_inside(self, shop: Database) -> None:
        text = repr(shop)
        assert "1 table" in text
        assert "2 views" in text
        assert f"epoch {shop.epoch}" in text

    def test_the_catalog(self, shop: Database) -> None:
        assert list(shop.tables) == ["items"]
        assert set(shop.views) == {"totals", "cheap"}
        table = shop.tables["items"]
        assert table.key == ("id",)
        assert [(c.name, str(c.type)) for c in table.columns] == [
            ("id", "BIGINT"),
            ("name", "VARCHAR"),
            ("qty", "INTEGER"),
            ("price", "DECIMAL(9,2)"),
        ]
        assert [(c.name, str(c.type)) for c in shop.view("totals").columns] == [
            ("name", "VARCHAR"),
            ("n", "BIGINT"),
            ("q", "HUGEINT"),
            ("p", "DOUBLE"),
        ]
        assert shop.view("TOTALS").name == "totals"
        assert_rows(shop.table("Items"), *[tuple(r.values()) for r in shop.tables["items"].to_pylist()])

    def test_statistics_know_the_sizes(self, shop: Database) -> None:
        known = shop.statistics()
        assert known["epoch"] == shop.epoch
        assert set(known["tables"]) == {"items"}
        assert set(known["views"]) == {"totals", "cheap"}

    def test_unknown_names_list_what_there_is(self, shop: Database) -> None:
        with refused(Code.NOT_FOUND, "nope", "totals"):
            shop.view("nope")
        with refused(Code.NOT_FOUND, "items", "view"):
            shop.view("items")
        with refused(Code.NOT_FOUND, "nope", "items"):
            shop.table("nope")
        with refused(Code.NOT_FOUND, "totals", "table"):
            shop.apply(totals=[(1,)])
        with refused(Code.NOT_FOUND, "nope", "items"):
            shop.sql("SELECT * FROM nope")
        with refused(Code.NOT_FOUND, "nope", "qty"):
            shop.sql("SELECT nope FROM items")
        with refused(Code.NOT_FOUND, "nope"):
            shop.sql("SELECT nope(qty) FROM items")
        view = shop.view("cheap")
        shop.sql("DROP VIEW cheap")
        with refused(Code.NOT_FOUND, "cheap"):
            view.to_arrow()

    def test_arguments_that_do_not_fit(self, db: Database) -> None:
        db.sql("CREATE TABLE t (a BIGINT)")
        before = db.epoch
        calls: list[tuple[str, Any]] = [
            (Code.ARGUMENT, lambda: db.apply([("t", [])])),  # type: ignore[arg-type]
            (Code.ARGUMENT, lambda: db.apply(t=None)),
            (Code.ARGUMENT, lambda: db.apply(t=7)),
            (Code.ARGUMENT, lambda: db.apply({"t": [(1,)]}, key=5)),  # type: ignore[arg-type]
        ]
        for code, call in calls:
            with refused(code):
                call()
        assert db.epoch == before

    # -- batches ---------------------------------------------------------------------------------------------

    def test_every_change_is_one_epoch(self, db: Database) -> None:
        assert db.epoch == 0
        assert db.sql("CREATE TABLE t (a BIGINT)") == 1
        assert db.sql("CREATE MATERIALIZED VIEW v AS SELECT a FROM t") == 2
        assert db.apply(t=[(1,)]) == 3
        assert db.apply({"t": [(2,)]}) == 4
        assert db.sql("INSERT INTO t VALUES (3)") == 5
        assert db.apply({"t": []}) == 6
        assert db.apply({}) == 7
        assert db.sql("CREATE TABLE IF NOT EXISTS t (b BIGINT)") == 7
        with pytest.raises(EverfreshError):
            db.apply(t=[("x",)])
        assert db.epoch == 7
        assert db.apply(t=[(4,)]) == 8
        assert_rows(db.view("v"), (1,), (2,), (3,), (4,))

    def test_a_delta_inserts_deletes_and_updates(self, shop: Database) -> None:
        shop.apply(
            items=Delta(
                inserts=[{"id": 5, "name": "ink", "qty": 1, "price": Decimal("2.00")}],
                deletes=[{"id": 3}],
                updates=[{"id": 2, "name": "pen"}, {"id": 4, "name": "ink"}],
            )
        )
        assert_rows(shop.view("totals"), ("ink", 3, 10, 3.25), ("pen", 1, 3, 5.5))
        assert_rows(shop.view("cheap"), (1, Decimal("9.00")), (5, Decimal("4.00")))
        shop.apply(items=Delta(deletes=[(1, "ink", 2, "4.50")]))
        assert_rows(shop.view("totals"), ("ink", 2, 8, 2.0), ("pen", 1, 3, 5.5))

    def test_a_batch_is_judged_by_its_net_effect(self, db: Database) -> None:
        db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT); CREATE TABLE bag (v BIGINT)")
        db.sql("CREATE MATERIALIZED VIEW s AS SELECT SUM(v) AS s, COUNT(*) AS n FROM t")
        db.apply(t=[(1, 10), (2, 20)], bag=[(1,), (1,)])
        db.apply(t=Delta(deletes=[(1, 10)], inserts=[(1, 10)]))
        assert db.view("s").changes(db.epoch - 1).num_rows == 0
        db.apply(t=Delta(deletes=[(1, 10)], inserts=[(1, 11)]))
        assert_rows(db.view("s"), (31, 2))
        db.apply(
            t=Delta(deletes=[(3, 5)], inserts=[(3, 5), (3, 6)]), bag=Delta(deletes=[(7,)], inserts=[(7,)])
        )
        assert_rows(db.view("s"), (37, 3))
        assert_rows(db.table("bag"), (1,), (1,))

    def test_a_batch_over_several_tables_is_atomic(self, db: Database) -> None:
        db.sql("CREATE TABLE a (x BIGINT); CREATE TABLE b (k BIGINT PRIMARY KEY, x BIGINT)")
        db.sql("CREATE MATERIALIZED VIEW va AS SELECT SUM(x) AS s FROM a")
        db.sql("CREATE MATERIALIZED VIEW vb AS SELECT SUM(x) AS s FROM b")
        epoch = db.apply(a=[(1,), (2,)], b=[(1, 10)])
        with refused(Code.DUPLICATE_KEY, "b", "row 1"):
            db.apply(a=[(100,)], b=[(2, 20), (1, 30)])
        assert db.epoch == epoch
        assert_rows(db.view("va"), (3,))
        assert_rows(db.view("vb"), (10,))
        assert db.apply({"b": [(2, 20)]}, a=[(4,)]) == epoch + 1
        assert_rows(db.view("va"), (7,))
        assert_rows(db.view("vb"), (30,))

    def test_a_batch_key_is_applied_once(self, db: Database) -> None:
        db.sql("CREATE TABLE t (a BIGINT); CREATE MATERIALIZED VIEW v AS SELECT SUM(a) AS s FROM t")
        first = db.apply({"t": [(1,)]}, key="load-1")
        second = db.apply({"t": [(2,)]}, key="load-2")
        calls: list[int] = []
        db.view("v").on_change(lambda change: calls.append(change.num_rows))
        assert db.apply({"t": [(1,)]}, key="load-1") == first
        assert db.apply(t=[(99,)], key="load-2") == second
        assert db.epoch == second
        assert calls == []
        assert_rows(db.view("v"), (3,))
        with pytest.raises(EverfreshError):
            db.apply({"t": [("x",)]}, key="load-3")
        assert db.apply({"t": [(3,)]}, key="load-3") == second + 1
        assert_rows(db.view("v"), (6,))

    # -- reading ---------------------------------------------------------------------------------------------

    def test_a_view_reads_in_every_form(self, shop: Database) -> None:
        import duckdb
        import pandas
        import polars

        view = shop.view("totals")
        table = view.to_arrow()
        assert [str(t) for t in table.schema.types] == ["string", "int64", "decimal128(38, 0)", "double"]
        assert len(view) == table.num_rows == 3
        assert_same(table, pa.table(view), "the stream")
        polars_frame = view.to_polars()
        assert isinstance(polars_frame, polars.DataFrame)
        assert_same(table, polars_frame.to_arrow().cast(table.schema), "Polars")
        assert_same(table, polars.DataFrame(view).to_arrow().cast(table.schema), "Polars, by itself")
        frame = view.to_pandas()
        assert isinstance(frame, pandas.DataFrame)
        assert dict(zip(frame["name"], frame["q"], strict=True))["ink"] == Decimal(5)
        found = duckdb.sql("SELECT name, n FROM view WHERE name = 'ink'").fetchall()
        assert found == [("ink", 2)]
        assert_rows(view, ("ink", 2, 5, 5.0), ("pen", 1, None, 1.25), (None, 1, 7, None))

    def test_a_result_reads_like_a_view(self, shop: Database) -> None:
        result: Any = shop.sql("SELECT name, n FROM totals WHERE name IS NOT NULL ORDER BY name")
        assert result.to_pylist() == [{"name": "ink", "n": 2}, {"name": "pen", "n": 1}]
        assert list(result.to_pandas()["n"]) == [2, 1]
        assert result.to_polars().rows() == [("ink", 2), ("pen", 1)]
        assert pa.table(result).column("n").to_pylist() == [2, 1]
        assert "ink" in repr(result)

    def test_views_and_results_print_as_tables(self, shop: Database) -> None:
        for shown in (repr(shop.view("cheap")), shop.view("cheap")._repr_html_(), repr(shop.table("items"))):
            assert "price" in shown or "twice" in shown
            assert "DECIMAL" in shown
        assert "9.00" in shop.view("cheap")._repr_html_()
        assert "9.00" not in repr(shop.view("cheap"))
        assert "<table" in shop.view("cheap")._repr_html_()
        assert "HUGEINT" in repr(shop.view("totals")) or "DECIMAL(38,0)" in repr(shop.view("totals"))

    def test_explain_in_three_forms(self, shop: Database) -> None:
        view = shop.view("totals")
        text = view.explain()
        assert "totals" in text
        assert "incremental" in text
        document = json.loads(view.explain("json"))
        assert document["view"] == "totals"
        assert view.explain("dot").lstrip().startswith("digraph")
        with refused(Code.ARGUMENT, "svg"):
            view.explain("svg")
        assert shop.explain("totals") == text

    def test_verify_finds_nothing_when_all_is_right(self, shop: Database) -> None:
        for view in shop.views.values():
            found = view.verify()
            assert found.num_rows == 0
            assert found.column_names == [*(c.name for c in view.columns), "_weight"]

    # -- changes and the past --------------------------------------------------------------------------------

    def test_changes_add_up(self, shop: Database) -> None:
        view = shop.view("totals")
        epochs = {shop.epoch: view.to_arrow()}
        steps = [
            Delta(inserts=[(5, "pen", 2, "2.75")]),
            Delta(deletes=[{"id": 1}, {"id": 2}]),
            Delta(),
            Delta(updates=[{"id": 3, "name": "ink"}]),
            Delta(inserts=[(1, "ink", 2, "4.50")]),
        ]
        for step in steps:
            shop.apply(items=step)
            epochs[shop.epoch] = view.to_arrow()
        start = min(epochs)
        for epoch, rows in epochs.items():
            assert_same(rows, view.to_arrow(at=epoch), f"at {epoch}")
        change = view.changes(since=start)
        assert change.column_names == [*epochs[start].column_names, "_weight", "_epoch"]
        assert set(change.column("_epoch").to_pylist()) == {start + 1, start + 2, start + 4, start + 5}
        assert_same(
            epochs[start], subtract(view.to_arrow(), change.drop_columns(["_epoch"])), "before the changes"
        )
        everything = view.changes()
        assert_same(view.to_arrow(), expand(net(everything.drop_columns(["_epoch"]))), "all changes")
        assert view.changes(since=shop.epoch).num_rows == 0
        assert (
            view.changes(since=start).filter(pa.compute.equal(change.column("_epoch"), start + 3)).num_rows
            == 0
        )

    def test_the_past_ends_where_history_does(self) -> None:
        with self.connect(options=self.options(history=3)) as db:
            db.sql("CREATE TABLE t (a BIGINT); CREATE MATERIALIZED VIEW v AS SELECT SUM(a) AS s FROM t")
            for a in range(6):
                db.apply(t=[(a,)])
            view = db.view("v")
            assert db.epoch == 8
            assert_rows(view, (15,))
            assert view.to_arrow(at=5).to_pylist() == [{"s": Decimal(3)}]
            assert len(view.changes(since=5)) == 6
            assert set(view.changes().column("_epoch").to_pylist()) == {6, 7, 8}
            for epoch in (4, -1, 9):
                with refused(Code.HISTORY, str(epoch)):
                    view.changes(since=epoch)
                with refused(Code.HISTORY, str(epoch)):
                    view.to_arrow(at=epoch)

    def test_a_view_has_no_past_before_it_was_created(self, shop: Database) -> None:
        view = shop.view("totals")
        assert view.to_arrow(at=2).num_rows == 0
        with refused(Code.HISTORY, "1"):
            view.to_arrow(at=1)
        assert_same(
            view.to_arrow(), expand(net(view.changes(since=0).drop_columns(["_epoch"]))), "from the start"
        )
        shop.sql("CREATE MATERIALIZED VIEW late AS SELECT name FROM items")
        late = shop.view("late")
        shop.apply(items=Delta(deletes=[{"id": 1}]))
        change = late.changes(since=0)
        assert_same(late.to_arrow(), expand(net(change.drop_columns(["_epoch"]))), "first rows and change")
        assert set(change.column("_epoch").to_pylist()) == {5, 6}

    # -- listeners -------------------------------------------------------------------------------------------

    def test_listeners_hear_each_change_once(self, shop: Database, caplog: pytest.LogCaptureFixture) -> None:
        heard: list[pa.Table] = []

        def failing(change: pa.Table) -> None:
            raise RuntimeError("a listener's own mistake")

        stop_failing = shop.view("cheap").on_change(failing)
        stop = shop.view("cheap").on_change(heard.append)
        with caplog.at_level("ERROR", logger="everfresh"):
            epoch = shop.apply(items=[(5, "ink", 1, "1.00")])
        assert "cheap" in caplog.text
        stop_failing()
        assert shop.epoch == epoch
        assert [t.to_pylist() for t in heard] == [
            [{"id": 5, "twice": Decimal("2.00"), "_weight": 1, "_epoch": epoch}]
        ]
        shop.apply(items=[(6, "ink", 1, "100.00")])
        assert len(heard) == 1, "a batch that does not change the view is not told"
        with pytest.raises(EverfreshError):
            shop.apply(items=[(6, "ink", 1, "1.00")])
        assert len(heard) == 1, "a refused batch is not told"
        shop.sql("UPDATE items SET price = 2 WHERE id = 5")
        assert sorted(heard[1].column("_weight").to_pylist()) == [-1, 1]
        stop()
        stop()
        shop.apply(items=Delta(deletes=[{"id": 5}]))
        assert len(heard) == 2

    def test_a_listener_may_read_the_database(self, shop: Database) -> None:
        seen: list[Any] = []
        shop.view("totals").on_change(
            lambda change: seen.append((shop.epoch, shop.view("totals").to_arrow()))
        )
        epoch = shop.apply(items=[(9, "cup", 1, "1.00")])
        assert seen[0][0] == epoch
        assert "cup" in seen[0][1].column("name").to_pylist()

    def test_threads_take_turns(self, db: Database) -> None:
        db.sql(
            "CREATE TABLE t (a BIGINT); CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n, SUM(a) AS s "
            "FROM t"
        )
        problems: list[BaseException] = []

        def work(start: int) -> None:
            try:
                for i in range(3):
                    db.apply(t=[(start + i,)])
                    db.view("v").to_arrow()
            except BaseException as problem:
                problems.append(problem)

        threads = [threading.Thread(target=work, args=(100 * i,)) for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert problems == []
        assert db.epoch == 11
        assert_rows(db.view("v"), (9, 909))

    def test_following_a_view(self, shop: Database) -> None:
        totals, epoch = shop.view("totals"), shop.epoch
        follower, earlier = totals.follow(), totals.follow(since=epoch - 1)
        first = next(earlier)
        assert_same(totals.changes(since=epoch - 1), first, "the change before")
        assert earlier.epoch == epoch
        seen: list[pa.Table] = []
        thread = threading.Thread(target=lambda: seen.extend(follower))
        thread.start()
        shop.apply(items=[(10, "ink", 1, "1.00")])
        shop.sql("CREATE TABLE other (a BIGINT); INSERT INTO other VALUES (1)")
        shop.apply(items=Delta(deletes=[{"id": 10}]))
        last = shop.epoch
        assert_same(pa.concat_tables([next(earlier), next(earlier)]), totals.changes(since=epoch), "later")
        assert earlier.epoch == last
        while follower.epoch < last:
            time.sleep(0.01)
        follower.close()
        thread.join()
        assert_same(pa.concat_tables(seen), totals.changes(since=epoch), "in a thread")
        assert [set(change.column("_epoch").to_pylist()) for change in seen] == [{epoch + 1}, {last}]
        assert list(follower) == []
        with refused(Code.HISTORY, "not committed"):
            totals.follow(since=last + 1)

    def test_following_in_a_coroutine(self, shop: Database) -> None:
        epoch = shop.epoch

        async def followed() -> list[int]:
            found: list[int] = []
            with shop.view("totals").follow() as follower:
                await asyncio.to_thread(shop.apply, {"items": [(10, "ink", 1, "1.00")]})
                async for change in follower:
                    found.append(change.column("_epoch")[0].as_py())
                    if len(found) == 2:
                        break
                    await asyncio.to_thread(shop.apply, {"items": [(11, "pen", 1, "1.00")]})
            with pytest.raises(StopAsyncIteration):
                await anext(follower)
            return found

        assert asyncio.run(followed()) == [epoch + 1, epoch + 2]
