"""Programs with derived relations: every map and relation follows its definition through random histories.

Catches: a relation read new where the contract says old (two relations over one map, a relation joined with
itself), a change lost between two tables of one batch, a pending map applied twice, rows over no data missing
or doubled, an extreme that does not move when it is deleted, a partition not recomputed, weights multiplied
component by component where one is a constant, a rollback that leaves a chain, a view's change published
step by step instead of net.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from program_support import (
    TABLES,
    F,
    Made,
    N,
    W,
    add_view,
    apply,
    check,
    check_changes,
    contents,
    history,
    nets,
    split,
    state_of,
    view_rows,
)

from everfresh.compiler import ViewDef
from everfresh.compiler.compile import compile_view
from everfresh.errors import Code, EverfreshError
from everfresh.expr import Var
from everfresh.local.batch import loading
from everfresh.local.state import LocalState
from everfresh.program import component, side_component
from everfresh.sql import parse_and_bind
from everfresh.types import BIGINT, DOUBLE, VARCHAR


def threshold_per_key() -> ViewDef:
    """Q18, simplified: orders whose quantities exceed a bound, joined back with them."""
    return (
        Made("q18")
        .map("#G", (W,), "Sum_[b](s(b, c, d) * ⟨c⟩)")
        .map("#R", (), "Sum_[a, b](r(a, b))")
        .relation("D", "#G", {"b": "b"}, having="#1 > 3")
        .map("", (W,), "Sum_[a](r(a, b) * s(b, c, d) * D(b) * ⟨c⟩)")
        .on(
            "r",
            **{"": 'Sum_[a](Δr(a, b) * D(b) * "q18#G"[b](0, 1))', "#R": "Δr(a, b)"},
        )
        .on(
            "s",
            **{
                "": 'Sum_[a](Δs(b, c, d) * ⟨c⟩ * D(b) * "q18#R"[a, b](0))',
                "#G": "Sum_[b](Δs(b, c, d) * ⟨c⟩)",
            },
        )
        .on("D", **{"": 'Sum_[a](ΔD(b) * "q18#R"[a, b](0) * "q18#G"[b](0, 1))'})
        .plain("")
    )


def left_join() -> ViewDef:
    """Rows without a partner, by a count that is there for every key."""
    null = "(c BIGINT? := NULL::BIGINT)"
    return (
        Made("left")
        .map("#N", (), "Sum_[b](s(b, x, d))")
        .relation("P", "#N", {"b": "b", "n": "#0"}, always=True)
        .map("#R", (), "Sum_[a, b](r(a, b))")
        .map("#S", (), "Sum_[b, x](s(b, x, d))")
        .map(
            "",
            (),
            "Sum_[a, c](r(a, b) * s(b, x, d) * (c BIGINT? := x))"
            f" + Sum_[a, c](r(a, b) * P(b, n) * [n = 0::BIGINT] * {null})",
        )
        .on(
            "r",
            **{
                "": 'Sum_[a, c](Δr(a, b) * "left#S"[b, x](0) * (c BIGINT? := x))'
                f" + Sum_[a, c](Δr(a, b) * P(b, n) * [n = 0::BIGINT] * {null})",
                "#R": "Δr(a, b)",
            },
        )
        .on(
            "s",
            **{
                "": 'Sum_[a, c](Δs(b, x, d) * "left#R"[a, b](0) * (c BIGINT? := x))',
                "#N": "Sum_[b](Δs(b, x, d))",
                "#S": "Sum_[b, x](Δs(b, x, d))",
            },
        )
        .on("P", **{"": f'Sum_[a, c](ΔP(b, n) * [n = 0::BIGINT] * "left#R"[a, b](0) * {null})'})
        .plain("", bag=True)
    )


def not_in() -> ViewDef:
    condition = "[n = 0::BIGINT OR (b IS NOT NULL AND m = 0::BIGINT AND e = 0::BIGINT)]"
    nulls = "case when b is null then 1::BIGINT else 0::BIGINT end"
    made = Made("notin")
    made.map("#K", (N,), f"Sum_[](s(b, c, d) * ⟨{nulls}⟩)")
    made.map("#E", (), "Sum_[b](s(b, c, d))").map("#R", (), "Sum_[a, b](r(a, b))")
    extra = {component(1): Var(component(1), BIGINT, False)}
    made.relation("K", "#K", {"n": "#0", "m": "#1"}, always=True, extra=extra)
    made.relation("E", "#E", {"b": "b", "e": "#0"}, always=True)
    made.map("", (), f"Sum_[a, b](r(a, b) * K(n, m) * E(b, e) * {condition})")
    made.on("r", **{"": f"Sum_[a, b](Δr(a, b) * K(n, m) * E(b, e) * {condition})", "#R": "Δr(a, b)"})
    made.on("s", **{"#K": f"Sum_[](Δs(b, c, d) * ⟨{nulls}⟩)", "#E": "Sum_[b](Δs(b, c, d))"})
    made.on("K", **{"": f'Sum_[a, b](ΔK(n, m) * "notin#R"[a, b](0) * E(b, e) * {condition})'})
    made.on("E", **{"": f'Sum_[a, b](ΔE(b, e) * "notin#R"[a, b](0) * K(n, m) * {condition})'})
    return made.plain("", bag=True)


def count_distinct() -> ViewDef:
    return (
        Made("dist")
        .map("#D", (), "Sum_[a, b](r(a, b) * [b IS NOT NULL])")
        .relation("DD", "#D", {"a": "a", "b": "b"})
        .map("", (W,), "Sum_[a](DD(a, b) * ⟨b⟩)")
        .on("r", **{"#D": "Sum_[a, b](Δr(a, b) * [b IS NOT NULL])"})
        .on("DD", **{"": "Sum_[a](ΔDD(a, b) * ⟨b⟩)"})
        .plain("")
    )


def extremes() -> ViewDef:
    made = Made("ext")
    made.map("", (), "Sum_[c](t(c, e, p))")
    made.map("#E", (), "Sum_[c, e](t(c, e, p))")
    made.map("#P", (), "Sum_[c, p](t(c, e, p))")
    made.on("t", **{n: f"Sum_[{k}](Δt(c, e, p))" for n, k in (("", "c"), ("#E", "c, e"), ("#P", "c, p"))})
    extra = {side_component(i, "x"): Var(side_component(i, "x"), VARCHAR) for i in (1, 2)}
    prices = TABLES["t"].columns[2].type
    extra |= {side_component(i, "x"): Var(side_component(i, "x"), prices) for i in (3, 4)}
    outputs = {"c": "c", "n": "#0", **{f"x{i}": f"#{i}.x" for i in (1, 2, 3, 4)}}
    sides = [("#E", "min"), ("#E", "max"), ("#P", "min"), ("#P", "max")]
    return made.done(made.view("ext", "", outputs, extra, sides=sides))


def extreme_of_all() -> ViewDef:
    """A side with one key: the least value of a column, and a join with it."""
    made = Made("least")
    made.map("#0", (), "Sum_[](s(b, c, d))").map("#D", (), "Sum_[d](s(b, c, d))")
    least = side_component(1, "x")
    made.relation("M", "#0", {"x": "#1.x"}, extra={least: Var(least, DOUBLE)}, sides=[("#D", "max")])
    made.map("", (), "Sum_[b, c](s(b, c, d) * M(d))")
    made.map("#S", (), "Sum_[b, c, d](s(b, c, d))")
    made.on("s", **{
        "": "Sum_[b, c](Δs(b, c, d) * M(d))", "#S": "Δs(b, c, d)",
        "#0": "Sum_[](Δs(b, c, d))", "#D": "Sum_[d](Δs(b, c, d))",
    })  # fmt: skip
    made.on("M", **{"": 'Sum_[b, c](ΔM(d) * "least#S"[b, c, d](0))'})
    return made.plain("")


def windows() -> ViewDef:
    made = Made("win")
    made.map("#W", (), "Sum_[c, e, p](t(c, e, p))")
    made.partitions(
        "P", "#W", 1, "SELECT c, e, p, row_number() OVER (PARTITION BY c ORDER BY p, e) AS k FROM w"
    )
    made.map("", (W,), "Sum_[c, k](P(c, e, p, k) * ⟨p⟩)")
    made.on("t", **{"#W": "Δt(c, e, p)"}).on("P", **{"": "Sum_[c, k](ΔP(c, e, p, k) * ⟨p⟩)"})
    return made.plain("")


def top_rows() -> ViewDef:
    made = Made("top")
    made.map("#W", (), "Sum_[c, e, p](t(c, e, p))")
    made.partitions("P", "#W", 0, "SELECT c, e, p FROM w ORDER BY p DESC, e, c LIMIT 3")
    made.map("", (), "Sum_[c, e, p](P(c, e, p))")
    made.on("t", **{"#W": "Δt(c, e, p)"}).on("P", **{"": "ΔP(c, e, p)"})
    return made.plain("", bag=True)


def global_threshold() -> ViewDef:
    made = Made("glob")
    made.map("#T", (W,), "Sum_[](s(b, c, d) * ⟨c⟩)").map("#G", (W,), "Sum_[b](s(b, c, d) * ⟨c⟩)")
    made.relation("T", "#T", {"x": "#1"}, always=True)
    made.relation("G", "#G", {"b": "b", "v": "#1"})
    above = "[v + v > x]"
    made.map("", (), f"Sum_[b, v](G(b, v) * T(x) * {above})")
    made.on("s", **{"#T": "Sum_[](Δs(b, c, d) * ⟨c⟩)", "#G": "Sum_[b](Δs(b, c, d) * ⟨c⟩)"})
    made.on("T", **{"": f"Sum_[b, v](ΔT(x) * G(b, v) * {above})"})
    made.on("G", **{"": f"Sum_[b, v](ΔG(b, v) * T(x) * {above})"})
    return made.plain("")


def set_operation(name: str, weight: str) -> ViewDef:
    """The multiplicities of both sides over the union of their keys."""
    made = Made(name)
    made.map("", (), "Sum_[b](r(a, b)) + Sum_[b](s(b, c, d))")
    made.map("#A", (), "Sum_[b](r(a, b))").map("#B", (), "Sum_[b](s(b, c, d))")
    made.on("r", **{"": "Sum_[b](Δr(a, b))", "#A": "Sum_[b](Δr(a, b))"})
    made.on("s", **{"": "Sum_[b](Δs(b, c, d))", "#B": "Sum_[b](Δs(b, c, d))"})
    sides = [("#A", "at"), ("#B", "at")]
    return made.done(made.view(name, "", {"b": "b"}, weight=weight, sides=sides))


def except_all() -> ViewDef:
    return set_operation("exceptall", "greatest(#1.0 - #2.0, 0::BIGINT)")


def intersect() -> ViewDef:
    return set_operation("intersect", "case when #1.0 > 0 and #2.0 > 0 then 1 else 0 end")


def two_relations_over_one_map() -> ViewDef:
    made = Made("both").map("#G", (W,), "Sum_[b](s(b, c, d) * ⟨c⟩)")
    made.relation("D1", "#G", {"b": "b"}, having="#1 > 3").relation("D2", "#G", {"b": "b"}, having="#0 > 1")
    made.map("", (), "Sum_[b](D1(b) * D2(b))")
    made.on("s", **{"#G": "Sum_[b](Δs(b, c, d) * ⟨c⟩)"})
    made.on("D1", **{"": "ΔD1(b) * D2(b)"}).on("D2", **{"": "D1(b) * ΔD2(b)"})
    return made.plain("")


def relation_with_itself() -> ViewDef:
    """d(D * D) = dD * D + D * dD + dD * dD, D as it was."""
    made = Made("self").map("#D", (), "Sum_[a, b](r(a, b))").relation("D", "#D", {"a": "a", "b": "b"})
    made.map("", (), "Sum_[a, z](D(a, b) * D(b, z))")
    made.on("r", **{"#D": "Δr(a, b)"})
    made.on(
        "D",
        **{
            "": "Sum_[a, z](ΔD(a, b) * D(b, z)) + Sum_[a, z](D(a, b) * ΔD(b, z))"
            " + Sum_[a, z](ΔD(a, b) * ΔD(b, z))"
        },
    )
    return made.plain("")


def first_order() -> ViewDef:
    """Statements that read tables, one with a key, and an atom with a variable twice."""
    made = Made("first").map("", (W,), "Sum_[a, e](r(a, b) * s(b, c, d) * k(c, e, x) * ⟨x2⟩)".replace(
        "⟨x2⟩", "(y := coalesce(x, 7::BIGINT)) * ⟨y * c⟩"))  # fmt: skip
    tail = "(y := coalesce(x, 7::BIGINT)) * ⟨y * c⟩)"
    made.on(
        "r", **{"": f"Sum_[a, e](Δr(a, b) * k(c, e, x) * s(b, c, d) * {tail}"}
    )  # k alone would be crossed
    made.on("s", **{"": f"Sum_[a, e](r(a, b) * Δs(b, c, d) * k(c, e, x) * {tail}"})
    made.on("k", **{"": f"Sum_[a, e](r(a, b) * s(b, c, d) * Δk(c, e, x) * {tail}"})
    made.map("#X", (), "Sum_[x](r(x, x))").on("r", **{"#X": "Sum_[x](Δr(x, x))"})
    made.map("#Z", (), "Sum_[a, e](r(a, x) * k(i, e, x))")
    made.on("r", **{"#Z": "Sum_[a, e](Δr(a, x) * k(i, e, x))"})
    made.on("k", **{"#Z": "Sum_[a, e](r(a, x) * Δk(i, e, x))"})
    made.map("#Y", (), "Sum_[x](k(x, e, x))").on("k", **{"#Y": "Sum_[x](Δk(x, e, x))"})
    return made.plain("")


def weights() -> ViewDef:
    """SUM(s.c), SUM(s.d), SUM(p * d), a constant and a zero: each output one component per factor."""
    made = Made("wgt")
    made.map("#S", (W, F), "Sum_[b](s(b, c, d) * ⟨c, d⟩)")
    made.map("#R", (W,), "Sum_[b](r(a, b) * [a IS NOT NULL] * ⟨a⟩)")
    made.map(
        "", (W, F, W, F), "Sum_[b](r(a, b) * [a IS NOT NULL] * s(b, c, d) * ⟨c, d, a * c, a::DOUBLE * d⟩)"
    )
    made.on("r", **{
        "": 'Sum_[b](Δr(a, b) * [a IS NOT NULL] * ⟨1, 1, a, a⟩ * "wgt#S"[b](0, 1, 2, 1, 2))',
        "#R": "Sum_[b](Δr(a, b) * [a IS NOT NULL] * ⟨a⟩)",
    })  # fmt: skip
    made.on("s", **{
        "": 'Sum_[b](Δs(b, c, d) * "wgt#R"[b](0, 0, 0, 1, 1) * ⟨c, d, c, d⟩)',
        "#S": "Sum_[b](Δs(b, c, d) * ⟨c, d⟩)",
    })  # fmt: skip
    return made.plain("")


def closed_sums() -> ViewDef:
    """A factor that reads nothing outside: joined on its group, or crossed when it has none."""
    made = Made("clos")
    made.map("#S", (W,), "Sum_[b](s(b, c, d) * ⟨c⟩)")
    made.map("#R", (), "Sum_[a, b](r(a, b))")
    made.map("", (W,), "Sum_[a](r(a, b) * Sum_[b](s(b, c, d) * ⟨c⟩))")
    made.map("#X", (), "Sum_[a](r(a, b) * Sum_[](s(y, c, d)))")
    made.on("r", **{
        "": 'Sum_[a](Δr(a, b) * Sum_[b]("clos#S"[b](0, 1)))',
        "#R": "Δr(a, b)",
        "#X": 'Sum_[a](Δr(a, b) * Sum_[]("clos#S"[y](0)))',
    })  # fmt: skip
    made.on("s", **{
        "": 'Sum_[a]("clos#R"[a, b](0) * Sum_[b](Δs(b, c, d) * ⟨c⟩))',
        "#S": "Sum_[b](Δs(b, c, d) * ⟨c⟩)",
        "#X": 'Sum_[a]("clos#R"[a, b](0) * Sum_[](Δs(y, c, d)))',
    })  # fmt: skip
    return made.plain("")


def over_views(below: ViewDef) -> list[ViewDef]:
    """A view over a view, and one that joins it with a table."""
    columns = {below.name: below.columns}
    counts = (
        Made("over", columns).map("", (), "Sum_[v](q18(a, n, v))").on("q18", **{"": "Sum_[v](Δq18(a, n, v))"})
    )
    joined = Made("mixed", columns)
    joined.map("#R", (), "Sum_[a](r(a, b))")
    joined.map("", (), "Sum_[a, n](q18(a, n, v) * r(a, b))")
    joined.on("r", **{"": "Sum_[a, n](q18(a, n, v) * Δr(a, b))", "#R": "Sum_[a](Δr(a, b))"})
    joined.on("q18", **{"": 'Sum_[a, n](Δq18(a, n, v) * "mixed#R"[a](0))'})
    return [counts.plain(""), joined.plain("")]


PROGRAMS: dict[str, Callable[[], list[ViewDef]]] = {
    f.__name__: (lambda f=f: [f()])  # type: ignore[misc]
    for f in (
        threshold_per_key, left_join, not_in, count_distinct, extremes, extreme_of_all, windows, top_rows,
        global_threshold, except_all, intersect, two_relations_over_one_map, relation_with_itself,
        first_order, weights, closed_sums,
    )
}  # fmt: skip
PROGRAMS["over_views"] = lambda: [threshold_per_key(), *over_views(threshold_per_key())]


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("seed", range(4))
def test_maps_and_relations_follow_their_tables(name: str, seed: int) -> None:
    state = state_of(*PROGRAMS[name]())
    for number, batch in enumerate(history(seed, 10)):
        before = view_rows(state)
        changes = apply(state, batch)
        check(state, f"{name} after batch {number} of seed {seed}")
        check_changes(before, changes, state)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("size", [1, 7, None])
def test_the_size_of_a_batch_does_not_count(name: str, size: int | None) -> None:
    whole, parts = state_of(*PROGRAMS[name]()), state_of(*PROGRAMS[name]())
    for batch in history(11, 5):
        apply(whole, batch)
    for batch in split(history(11, 5), size):
        apply(parts, batch)
        if size != 1:
            check(parts)
    check(parts)
    for store in whole.stores().values():
        assert contents(parts._store(store.target.name)).keys() == contents(store).keys()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_view_over_tables_with_rows_is_loaded(name: str) -> None:
    state = state_of()
    batches = list(history(5, 8))
    for batch in batches[:6]:
        apply(state, batch)
    for view in PROGRAMS[name]():
        add_view(state, view)
    check(state)
    for batch in batches[6:]:
        apply(state, batch)
    check(state)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_batch_that_fails_leaves_everything_as_it_was(name: str) -> None:
    state = state_of(*PROGRAMS[name]())
    batches = list(history(7, 9))
    for batch in batches[:5]:
        apply(state, batch)
    for batch in batches[5:]:
        before = {n: contents(s) for n, s in state.stores().items()}
        rows = {n: sorted(map(repr, t.rows()[0].to_pylist())) for n, t in state.tables.items()}
        with pytest.raises(RuntimeError), state.changing(nets(state, batch)):
            raise RuntimeError
        assert {n: contents(s) for n, s in state.stores().items()} == before
        assert {n: sorted(map(repr, t.rows()[0].to_pylist())) for n, t in state.tables.items()} == rows
        check(state)
        apply(state, batch)
        check(state)


def test_all_programs_beside_each_other() -> None:
    """Programs share tables and nothing else."""
    views = [view for make in PROGRAMS.values() for view in make()]
    state = state_of(*{view.name: view for view in views}.values())
    for batch in history(23, 6, most=8):
        apply(state, batch)
    check(state)


def big(state: LocalState, size: int) -> None:
    """Tables whose keys are spread, so that a slice does not grow with them."""
    apply(
        state,
        {
            "r": ([(i, i) for i in range(size)], []),
            "s": ([(i, 2, 0.5) for i in range(size)] * 3, []),
            "t": ([(i, "x", 5) for i in range(size)], []),
            "k": ([(i, "x", i) for i in range(size)], []),
        },
    )


WHOLE = ("not_in", "closed_sums")
"""Programs that look at every entry by their nature: all rows depend on a sum, or on a count."""


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in WHOLE])
def test_what_a_batch_visits_does_not_grow_with_the_tables(name: str) -> None:
    seen = []
    for size in (50, 500):
        state = state_of(*PROGRAMS[name]())
        big(state, size)
        apply(
            state,
            {
                "s": ([(5, 2, 0.5), (6, 1, 0.5)], [(7, 2, 0.5)]),
                "r": ([(5, 8)], [(9, 9)]),
                "t": ([(3, "y", 7)], [(4, "x", 5)]),
                "k": ([(-1, "y", 3)], [(8, "x", 8)]),
            },
        )
        seen.append(dict(state.visited))
    assert seen[0] == seen[1]
    assert sum(seen[0].values()) > 0


def test_a_load_can_be_stopped() -> None:
    state = state_of()
    big(state, 40)

    class Stopped(Exception):
        pass

    shown = []

    def progress(what: str, done: int, total: int) -> None:
        shown.append((what, done, total))
        if len(shown) == 2:
            raise Stopped

    with pytest.raises(Stopped):
        add_view(state, threshold_per_key(), progress)
    assert shown[0][0] == "loading q18"
    assert shown[0][1] <= shown[0][2]
    assert not state.maps
    assert not state.beside
    add_view(state, threshold_per_key())
    check(state)


def test_a_load_in_many_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "_PIECE", 3)
    for name, make in PROGRAMS.items():
        state = state_of()
        for batch in history(5, 6):
            apply(state, batch)
        for view in make():
            add_view(state, view)
        check(state, name)


def test_sums_that_do_not_fit_are_refused_and_nothing_changes() -> None:
    made = Made("wide").map(
        "", (W,), "Sum_[a](r(a, b) * r(a, c) * [b IS NOT NULL AND c IS NOT NULL] * ⟨b⟩ * ⟨c⟩)"
    )
    made.map("#R", (W,), "Sum_[a](r(a, b) * [b IS NOT NULL] * ⟨b⟩)")
    change = "Δr(a, b) * [b IS NOT NULL] * ⟨b⟩"
    made.on("r", **{
        "": f'Sum_[a]({change} * "wide#R"[a](0, 1)) + Sum_[a]({change} * "wide#R"[a](0, 1))'
        f" + Sum_[a]({change} * Δr(a, c) * [c IS NOT NULL] * ⟨c⟩)",
        "#R": f"Sum_[a]({change})",
    })  # fmt: skip
    state = state_of(made.plain("", having="#1 >= 0"))
    huge = (1 << 62) - 1
    apply(state, {"r": ([(1, huge)] * 2, [])})
    check(state)
    before = contents(state.maps["wide"])
    with pytest.raises(EverfreshError) as caught:
        apply(state, {"r": ([(1, huge)] * 9, [])})
    assert caught.value.code == Code.OVERFLOW
    assert contents(state.maps["wide"]) == before
    check(state)
    apply(state, {"r": ([(1, 1)], [(1, huge)])})
    check(state)


def test_an_incremental_view_over_a_re_evaluated_one() -> None:
    """The lower view changes after all tables; what reads it follows in the same batch."""
    state = state_of()
    query = "SELECT a, b FROM r ORDER BY a, b LIMIT 3"
    (statement,) = parse_and_bind(f"CREATE MATERIALIZED VIEW low AS {query}", state.catalog)
    catalog, effect = state.catalog.execute(statement)
    compiled = compile_view("low", statement.plan, "re-evaluate")
    low = replace(catalog.views["low"], compiled=compiled)
    state.execute(replace(catalog, views={"low": low}), replace(effect, create_view=low), 1)
    made = Made("high", {"low": low.columns})
    made.map("#S", (), "Sum_[b](s(b, c, d))").map("", (), "Sum_[a](low(a, b) * s(b, c, d))")
    made.on("low", **{"": 'Sum_[a](Δlow(a, b) * "high#S"[b](0))'})
    made.on("s", **{"": "Sum_[a](low(a, b) * Δs(b, c, d))", "#S": "Sum_[b](Δs(b, c, d))"})
    add_view(state, made.plain(""))
    for batch in history(3, 12):
        before = view_rows(state)
        check_changes(before, apply(state, batch), state)
        partners: dict[object, int] = {}
        for row in state.rows("s").to_pylist():
            partners[row["b"]] = partners.get(row["b"], 0) + 1
        expected: dict[object, int] = {}
        for row in state.rows("low").to_pylist():
            if row["b"] in partners:
                expected[row["a"],] = expected.get((row["a"],), 0) + partners[row["b"]]
        assert {key: n for key, (n,) in contents(state.maps["high"]).items()} == expected


def test_an_error_names_the_row_of_the_change() -> None:
    made = Made("div").map("", (W,), "Sum_[a](r(a, b) * [b IS NOT NULL] * ⟨6::BIGINT // b⟩)")
    made.on("r", **{"": "Sum_[a](Δr(a, b) * [b IS NOT NULL] * ⟨6::BIGINT // b⟩)"})
    state = state_of(made.plain(""))
    with pytest.raises(EverfreshError, match=r"row \{'a': 2, 'b': 0\}") as caught:
        apply(state, {"r": ([(1, None), (1, 2), (2, 0)], [])})
    assert caught.value.code == Code.DIVISION_BY_ZERO
    check(state)
