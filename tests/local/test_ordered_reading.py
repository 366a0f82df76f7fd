"""Extremes, first rows and thresholds from ordered indexes: the same as their slow twins, and only what is
needed.

Catches: an index that is not told of a change, of a rollback or of renumbered strings; an extreme as it was
before a change that the index has already; a threshold passed by entries of count zero; a value that cannot
be computed; an index that is used and still looks at everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil, floor
from random import Random
from typing import Any

import pytest
from program_support import apply, check, contents, nets

from everfresh.errors import Code, EverfreshError
from everfresh.expr import Vector
from everfresh.local.batch import linked_programs as wiring
from everfresh.local.interpret import interpreter as joined
from everfresh.local.order import extremes
from everfresh.local.order import range_join as ranges
from everfresh.local.relations import intervals
from everfresh.local.relations import top_rows as toprows
from everfresh.local.relations import view_reader as reading
from everfresh.local.state import LocalState
from everfresh.local.store.codec import Codec
from everfresh.local.store.entries import Before, EntryStore
from everfresh.local.store.reclaim import renumber
from everfresh.program import Intervals, Side

TABLES = [
    "duckdb|CREATE TABLE t (g VARCHAR, s VARCHAR, x INTEGER, d DOUBLE)",
    "duckdb|CREATE TABLE u (s VARCHAR, x BIGINT NOT NULL)",
]
QUERIES = {
    "ends": "SELECT g, min(s) AS a, max(s) AS b, min(x) AS c, max(d) AS e FROM t GROUP BY g",
    "ends_of_all": "SELECT min(s) AS a, max(x) AS b, min(d) AS c FROM t",
    "the_last": "SELECT s, x FROM t WHERE s = (SELECT max(s) FROM t)",
    "firsts": "SELECT g, arg_min(s, x) AS a, arg_max(x, d) AS b, first(s ORDER BY x DESC NULLS FIRST, d) AS f"
    ", last(d ORDER BY s NULLS FIRST) AS l, any_value(x ORDER BY d DESC) AS v FROM t GROUP BY g",
    "quantiles": "SELECT g, median(x) AS m, quantile_cont(d, 0.3) AS c, quantile_disc(s, 0.7) AS q,"
    " median(s) AS t, median(x) FILTER (WHERE x > 2) AS f FROM t GROUP BY g",
    "quantiles_again": "SELECT g, quantile_disc(x, 0.9) AS m, count(*) AS n FROM t GROUP BY g"
    " HAVING median(d) < 7",
    "quantiles_of_all": "SELECT median(d) AS m, quantile_disc(x, 0.25) AS q, arg_max(d, s) AS f FROM t",
    "above_median": "SELECT g, x FROM t WHERE x > (SELECT median(x) FROM t)",
    "first_of_each": "SELECT s, (SELECT arg_max(t.d, t.x) FROM t WHERE t.s = u.s) AS a FROM u",
    "top": "SELECT s, x FROM t ORDER BY s DESC NULLS FIRST, x LIMIT 3 OFFSET 1",
    "top_groups": "SELECT g, count(*) AS n, sum(x) AS a FROM t GROUP BY g ORDER BY a DESC, n LIMIT 2",
    "top_of_top": "SELECT max(x) AS a FROM (SELECT x FROM t ORDER BY d, s DESC, x LIMIT 4) q",
    "above": "SELECT g, sum(x) AS a FROM t GROUP BY g HAVING sum(x) > (SELECT 0.4 * sum(x) FROM t)",
    "above_average": "SELECT count(*) AS n, sum(x) AS a FROM t WHERE x > (SELECT avg(x) FROM t)",
    "not_above": "SELECT x, count(*) AS n FROM t WHERE s <= (SELECT max(s) FROM u) GROUP BY x",
    "below_count": "SELECT t.g, u.x FROM t, u WHERE t.s = u.s AND t.x < (SELECT count(*) FROM u)",
    "not_a_number": "SELECT count(*) AS n FROM t WHERE d >= (SELECT max(d) - 1 FROM t WHERE x > 1)",
    "below": "SELECT t.g, count(*) AS n, sum(u.x) AS a FROM t, u WHERE u.x < t.x GROUP BY t.g",
    "below_each": "SELECT u.x, sum(t.x) AS a FROM t, u WHERE t.x - u.x > 1 OR u.x - t.x >= 2 GROUP BY u.x",
    "within": "SELECT a.g, sum(a.x * b.x) AS p, sum(a.x - b.x) AS d FROM t a, t b"
    " WHERE a.g = b.g AND a.x > b.x GROUP BY a.g",
    "next_strings": "SELECT t.g, count(*) AS n FROM t, u WHERE t.s BETWEEN u.s AND 'c' GROUP BY t.g",
    "doubles": "SELECT t.g, sum(o.d) AS a FROM t, t o WHERE t.g = o.g AND o.x < t.x AND o.d < 9 GROUP BY t.g",
    "other": "SELECT count(*) AS n, sum(t.x) AS a FROM t, u WHERE t.x <> u.x AND t.x < u.x + 2",
    "weighted": "SELECT sum(a.x * a.x) AS v, count(*) AS n FROM u a WHERE 0.25 * (SELECT sum(x * x) FROM u) >"
    " (SELECT sum(b.x * b.x) FROM u b WHERE b.x > a.x)",
    "signed": "SELECT s, x FROM u a WHERE (SELECT 0.5 * sum(x) FROM u) >="
    " (SELECT sum(b.x) FROM u b WHERE a.x > b.x)",
    "rank": "SELECT s, x FROM u a WHERE (SELECT count(*) FROM u b WHERE b.x >= a.x) < 4",
    "the_least": "SELECT s FROM u a WHERE NOT EXISTS (SELECT 1 FROM u b WHERE b.x < a.x)",
    "running": "SELECT x, count(*) AS n FROM u a WHERE 5 <= (SELECT sum(b.x * b.x) FROM u b WHERE b.x <= a.x)"
    " GROUP BY x",
    "two": "SELECT a.s, sum(a.x - b.x) AS v FROM u a, u b WHERE (SELECT count(*) FROM u) >"
    " (SELECT 3 * count(*) FROM u c WHERE c.x > a.x) AND (SELECT count(*) FROM u d WHERE d.x < b.x) > 2"
    " GROUP BY a.s",
    "no_row": "SELECT x FROM t WHERE x >= (SELECT sum(x) AS a FROM u HAVING sum(x) > 3)",
}
DDL = [*TABLES, *(f"duckdb|CREATE MATERIALIZED VIEW {name} AS {query}" for name, query in QUERIES.items())]
INTERVALS = {"weighted", "signed", "rank", "the_least", "running", "two"}
ORDERED = {"not_above", "above", "above_average", "below_count", "not_a_number", "no_row"}


def made(ddl: list[str]) -> LocalState:
    state = LocalState()
    for entry in ddl:
        state.execute(*state.catalog.replay(entry), 1)
    return state


class Scan:
    """The slow twin of everything that is read in order: by looking at every entry of a slice."""

    def __init__(self, side: Side, store: EntryStore, before: Before = extremes.NOTHING) -> None:
        self.side, self.store, self.before, self.visited = side, store, before, 0
        self.groups = store.columns[: len(store.columns) - side.beyond]
        self.codec = Codec(self.groups, store.codec.interner)

    def at(self, words: Any) -> Vector:
        """The value for each column of `words`."""
        value = self.store.columns[-1].type
        return Vector.from_pylist([self.one(words[:, [i]]) for i in range(words.shape[1])], value)

    def one(self, words: Any) -> Any:
        """The value for one."""
        names = tuple(c.name for c in self.groups)
        slots = self.store.slice(names).probe(words)[1] if names else self.store.slots()
        counts = self.store.entries(slots, self.before).n.tolist()
        columns = self.store.columns[len(self.groups) :]
        keys = zip(*(self.store.cells(c, slots).vector.to_pylist() for c in columns), strict=True)
        rows = [key for key, n in zip(keys, counts, strict=True) for _ in range(n)]
        for i, (up, first) in reversed(list(enumerate(self.side.order or [(True, False)]))):
            known = [row for row in rows if row[i] is not None]
            known.sort(key=lambda row, i=i: (row[i] != row[i], row[i]), reverse=not up)  # type: ignore[misc]
            missing = [row for row in rows if row[i] is None]
            rows = [*missing, *known] if first else [*known, *missing]
        if self.side.how in ("min", "max"):
            rows = [row for row in rows if row[0] is not None]
        n, f = len(rows), self.side.fraction
        at = {
            "max": n - 1,
            "disc": max(ceil(n * f) - 1, 0),
            "low": floor((n - 1) * f),
            "high": ceil((n - 1) * f),
        }
        return rows[at.get(self.side.how, 0)][-1] if rows else None


@contextmanager
def slow() -> Iterator[None]:
    """The slow twins: scans, recomputed partitions, statements over all entries."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "in_order", Scan)
        patch.setattr(toprows, "top_of", lambda relation: None)
        patch.setattr(wiring, "between", lambda *_: None)
        patch.setattr(joined, "ranged", lambda *_: None)
        patch.setattr(wiring, "_FEW", 1 << 60)
        patch.setattr(intervals, "limit_of", lambda _: None)
        yield


def row(random: Random, table: str) -> tuple[Any, ...]:
    text = random.choice([None, "", *(f"{random.choice('abäz')}{random.randrange(40)}" for _ in range(3))])
    if table == "u":
        return text, random.randrange(-2, 5)
    number = random.choice([None, random.randrange(-3, 9), random.randrange(-3, 9)])
    double = random.choice([None, -0.0, 0.0, 1.5, float("nan"), float("inf"), random.random()])
    return random.choice([None, "p", "q"]), text, number, double


def batches(seed: int, count: int) -> Iterator[dict[str, tuple[list[Any], list[Any]]]]:
    random = Random(seed)
    live: dict[str, list[Any]] = {"t": [], "u": []}
    for number in range(count):
        batch = {}
        for table in random.sample(["t", "u"], random.randrange(1, 3)):
            often = 1 if number == count - 3 else 0.3
            go = [r for r in live[table] if random.random() < often]
            come = [row(random, table) for _ in range(random.randrange(9))]
            come += random.sample(come, min(len(come), 2))
            live[table] = [r for r in live[table] if not any(r is g for g in go)] + come
            batch[table] = come, go
        yield batch


def maps(state: LocalState) -> dict[str, Any]:
    return {name: contents(store) for name, store in state.stores().items()}


def published(changes: dict[str, Any]) -> dict[str, list[str]]:
    found = {name: sorted(map(repr, change.to_pylist())) for name, change in changes.items()}
    return {name: rows for name, rows in found.items() if rows}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("long", [0, 3])
def test_fast_equals_slow(seed: int, long: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extremes, "_LONG", long)
    monkeypatch.setattr(ranges, "LONG", long - 1)
    monkeypatch.setattr(wiring, "_FEW", long)
    fast = made(DDL)
    with slow():
        twin = made(DDL)
    for number, batch in enumerate(batches(seed, 14)):
        if number % 3 == 1:  # a batch that is taken back
            with pytest.raises(RuntimeError), fast.changing(nets(fast, batch)):
                raise RuntimeError
        changed = apply(fast, batch)
        with slow():
            expected = apply(twin, batch)
            assert published(changed) == published(expected)
            assert maps(fast) == maps(twin)
        fast.reclaim(now=True)
        if number % 5 == 4:
            renumber(fast.interner, fast.holders())
        if number == 8:
            fast = LocalState.from_sections(DDL, fast.created, fast.to_sections())
    check(fast)


def statements(state: LocalState) -> list[Any]:
    views = state.catalog.views.values()
    return [s for v in views for t in v.compiled.program.triggers for s in t.statements]


def test_indexes_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extremes, "_LONG", 0)
    state = made(DDL)
    for batch in batches(1, 6):
        apply(state, batch)
    kinds = {key[0] for store in state.stores().values() for key in store._followers}
    assert kinds == {"ends", "top", "band", "first"}
    whole = {s.target.split("#")[0] for s in statements(state) if s.strategy == "re-evaluated"}
    assert whole == {"two"}  # every group of the one side changes with the other
    views = state.catalog.views.values()
    found = {v.name for v in views if any(isinstance(r, Intervals) for r in v.compiled.program.relations)}
    assert found == INTERVALS
    reasons = " ".join(s.reason for s in statements(state))
    assert "reads ranges of" in reasons
    assert "adds up ranges of" in reasons
    crossed = {
        view.name
        for view in state.catalog.views.values()
        for trigger in view.compiled.program.triggers
        for statement in trigger.statements
        if "between the old and the new" in statement.reason
    }
    assert crossed >= ORDERED


def test_followers_stay_with_strings_and_go_with_their_numbers() -> None:
    state = made(DDL)
    apply(state, {"t": ([("p", f"s{i}", i, 0.5) for i in range(50)], [])})
    assert any(store._followers for store in state.stores().values())
    apply(state, {"t": ([], [("p", f"s{i}", i, 0.5) for i in range(1, 50)])})
    before = len(state.interner)
    state.reclaim(now=True)
    assert len(state.interner) < before
    assert any(store._followers for store in state.stores().values())
    apply(state, {"t": ([("p", "b", 3, 0.5)], [])})
    check(state)
    renumber(state.interner, state.holders())
    assert not any(store._followers for store in state.stores().values())
    apply(state, {"t": ([("p", "a", 3, 0.5)], [])})
    assert any(store._followers for store in state.stores().values())
    check(state)


def rows(count: int) -> list[tuple[Any, ...]]:
    """Every value once in a group of its own, and all in one."""
    own = [(f"g{i}", f"s{i:04}", i % 7 + 10, float(i)) for i in range(count)]
    return [*own, *(("one", f"z{i:04}", i % 7 + 10, float(i)) for i in range(count))]


VISITED = {name for name in QUERIES if name != "below_count"} - INTERVALS


@pytest.mark.parametrize("name", sorted(VISITED))
def test_what_is_visited_does_not_grow(name: str) -> None:
    """A batch into long slices; the least, the greatest and the first rows are among what goes."""
    seen = []
    for count in (100, 1000):
        state = made([*TABLES, DDL[len(TABLES) + list(QUERIES).index(name)]])
        apply(state, {"t": (rows(count), []), "u": ([("s0003", 4)], [])})
        apply(state, {"t": ([("one", "zz", 99, 1e9)], [])})
        apply(state, {"t": ([("one", "m", 11, 3.5)], [("one", "zz", 99, 1e9), rows(count)[0]])})
        seen.append(dict(state.visited))
    assert sum(seen[0].values()) > 0
    assert all(seen[1][place] <= seen[0][place] for place in seen[0]), seen


@pytest.mark.parametrize("name", sorted(INTERVALS - {"two", "signed"}))
def test_what_an_interval_visits_does_not_grow(name: str) -> None:
    """One row into a long order, in the middle and at both ends: only what is passed is looked at."""
    seen = []
    for count in (100, 1000):
        state = made([*TABLES, DDL[len(TABLES) + list(QUERIES).index(name)]])
        apply(state, {"u": ([(f"s{i}", i) for i in range(count)], [])})
        total = 0
        for x in (count // 2, count - 3, 3):
            apply(state, {"u": ([("new", x)], [])})
            apply(state, {"u": ([("new", x - 1)], [("new", x)])})
            total += sum(state.visited.values())
        seen.append(total)
    assert 0 < seen[1] <= seen[0] + 9, seen


def test_a_value_that_cannot_be_computed_is_an_error_only_where_it_is_read() -> None:
    """Where the index cannot be asked, the statement runs over all entries, and says what is wrong."""
    query = "SELECT count(*) AS n FROM t WHERE x <> 0 AND CAST(s AS INTEGER) > (SELECT count(*) FROM u)"
    state = made([*TABLES, f"duckdb|CREATE MATERIALIZED VIEW v AS {query}"])
    apply(state, {"t": ([("p", "5", 1, None), ("p", "1", 1, None)], [])})
    apply(state, {"u": ([("a", 1), ("b", 2)], [])})
    assert state.maps["v"].rows().to_pylist()[0]["n"] == 1
    with pytest.raises(EverfreshError) as caught:
        apply(state, {"t": ([("p", "word", 1, None)], [])})
    assert caught.value.code == Code.VALUE
    apply(state, {"u": ([], [("a", 1), ("b", 2)])})
    assert state.maps["v"].rows().to_pylist()[0]["n"] == 2
    check(state)
