"""The programs that the thesis prints: the same auxiliary maps, by canonical form; and merged and unmerged
programs give equal views.

The thesis holds one value per map. Here a map holds a count and several values, so that maps over one product
are one (`Choices.merge`); what stands under a lift is a relation read off its map.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from compiler_support import joined_catalog

import everfresh as ef
from everfresh.calculus import Query, parse
from everfresh.compiler import compile as compiling
from everfresh.compiler.compile import CompiledView
from everfresh.compiler.lowering.lower import lower
from everfresh.compiler.lowering.prune import pruned
from everfresh.compiler.viewlet.canonical import canonical
from everfresh.compiler.viewlet.map_registry import Choices
from everfresh.compiler.viewlet.materialize import transform
from everfresh.program import Program
from everfresh.types import BIGINT, Column
from everfresh.workloads import WORKLOADS, compiled

TABLES = {
    name: f"CREATE TABLE {name} ({', '.join(f'{c} BIGINT NOT NULL' for c in columns)})"
    for name, columns in {"r": "ab", "s": "bc", "t": "cd", "u": "ca"}.items()
}
SCHEMA = {
    "c": ["ck"], "o": ["ck", "ok"], "li": ["ok", "qty"], "a": ["p", "v"], "b": ["p", "v"],
    "r": ["a", "b"], "s": ["b", "c"], "t": ["c", "d"], "u": ["c", "a"],
}  # fmt: skip
COLUMNS = {n: tuple(Column(c, BIGINT, False) for c in names) for n, names in SCHEMA.items()}


def view(query: str) -> CompiledView:
    """The view as the thesis compiles it: every component is held, whatever it is likely to cost."""
    text = f"CREATE MATERIALIZED VIEW q WITH (strategy = 'higher-order') AS {query}"
    return joined_catalog(*TABLES.values(), text).views["q"].compiled


def unmerged(view: CompiledView) -> Program[Query]:
    lowered = pruned(lower(view.view.name, view.plan))
    return transform(view.view.name, lowered.maps, lowered.relations, Choices(merge=False))


def auxiliary(program: Program[Any], name: str) -> list[Query]:
    return [m.definition for m in program.maps if m.name != name]


def keys(definitions: list[Query]) -> list[str]:
    return sorted(canonical(d).key for d in definitions)


def defined(*texts: str, columns: Mapping[str, tuple[Column, ...]] = COLUMNS) -> list[str]:
    return keys([parse(text, columns) for text in texts])


def test_q18_simplified_has_the_five_maps_of_figure_3_3() -> None:
    q18 = compiled(WORKLOADS["condensed"].query("q18"))
    (relation,) = q18.program.relations
    assert str(relation.having) == "100::HUGEINT < #1"  # (x := QO2[ok]) * (100 < x)
    definitions = defined(
        f"Sum_[ck](o(ck, ok) * li(ok, qty) * {relation.name}(ok) * ⟨qty⟩)",  # QC
        "Sum_[ck](c(ck))",  # QO1
        "Sum_[ok](li(ok, qty) * ⟨qty⟩)",  # QO2
        "Sum_[ck, ok](c(ck) * o(ck, ok))",  # QLI
        "Sum_[ck, ok](o(ck, ok))",  # QLI,C
        columns={**COLUMNS, relation.name: relation.columns},
    )
    assert keys(auxiliary(q18.program, q18.view.name)) == definitions
    assert relation.map == next(
        m.name for m in q18.program.maps if keys([m.definition]) == defined("Sum_[ok](li(ok, qty) * ⟨qty⟩)")
    )
    assert {s.strategy for t in q18.program.triggers for s in t.statements} == {"incremental"}


def test_psp_has_six_auxiliary_maps_and_four_when_merged() -> None:
    psp = compiled(WORKLOADS["condensed"].query("psp"))
    sums = [
        "Sum_[v](b(p, v) * ⟨p⟩)", "Sum_[](b(p, v) * ⟨CAST(v AS DECIMAL(19,0)) * 0.0001⟩)",  # QB1, QB2
        "Sum_[v](a(p, v) * ⟨p⟩)", "Sum_[](a(p, v) * ⟨CAST(v AS DECIMAL(19,0)) * 0.0001⟩)",
    ]  # fmt: skip
    counts = ["Sum_[v](b(p, v))", "Sum_[v](a(p, v))"]  # QB3
    assert keys(auxiliary(psp.program, psp.view.name)) == defined(*sums)
    assert keys(auxiliary(unmerged(psp), psp.view.name)) == defined(*sums, *counts)


def test_example_2_1_2() -> None:
    """The viewlet transform of a chain of three: MST, MRS, and the three tables."""
    q = view("SELECT s.b, COUNT(*) AS n FROM r, s, t WHERE r.b = s.b AND s.c = t.c GROUP BY s.b")
    assert keys(auxiliary(q.program, "q")) == defined(
        "Sum_[b](s(b, c) * t(c, d))",
        "Sum_[b, c](r(a, b) * s(b, c))",
        "Sum_[b](r(a, b))",
        "Sum_[c](t(c, d))",
        "Sum_[b, c](s(b, c))",
    )
    targets = {s.target: s for s in q.program.trigger("r").statements}  # type: ignore[union-attr]
    assert len(targets) == 3  # Listing 2.2: MQ, MRS, MR
    assert all(s.strategy == "incremental" for s in targets.values())


def test_example_3_0_1_keeps_disconnected_parts_apart() -> None:
    q = view("SELECT COUNT(*) AS n FROM r, s, t WHERE r.b = s.b AND s.c = t.c")
    assert keys(auxiliary(q.program, "q")) == defined(
        "Sum_[b](r(a, b))",
        "Sum_[c](t(c, d))",
        "Sum_[b](s(b, c) * t(c, d))",
        "Sum_[c](r(a, b) * s(b, c))",
        "Sum_[b, c](s(b, c))",
    )


def test_example_2_3_3_factors_its_value() -> None:
    """SUM(a * c) over two tables: each side holds its own factor."""
    q = view("SELECT SUM(r.a * s.c) AS x FROM r, s WHERE r.b = s.b")
    assert keys(auxiliary(q.program, "q")) == defined("Sum_[b](r(a, b) * ⟨a⟩)", "Sum_[b](s(b, c) * ⟨c⟩)")


def test_example_3_5_1_is_maintained_piecewise() -> None:
    q = view("SELECT COUNT(*) AS n FROM r WHERE r.a < (SELECT COUNT(*) FROM s) AND r.b = 10")
    assert keys(auxiliary(q.program, "q")) == defined(
        "Sum_[](s(b, c))", "Sum_[a](r(a, b) * [b = 10::BIGINT])"
    )
    by_base = {t.base: {s.target: s.strategy for s in t.statements} for t in q.program.triggers}
    assert by_base["r"]["q"] == "incremental"
    (relation,) = q.program.relations
    assert by_base[relation.name] == {"q": "incremental"}
    (statement,) = q.program.trigger(relation.name).statements  # no domain restricts it, but the order does
    assert statement.reason.endswith(f"between the old and the new {relation.name}")


def test_a_triangle_keeps_single_edges_only() -> None:
    q = view("SELECT COUNT(*) AS n FROM r, s, u WHERE r.b = s.b AND s.c = u.c AND u.a = r.a")
    assert keys(auxiliary(q.program, "q")) == defined(
        "Sum_[a, b](r(a, b))", "Sum_[b, c](s(b, c))", "Sum_[c, a](u(c, a))"
    )


# -- merged and unmerged -------------------------------------------------------------------------------

MERGED = {
    "sums": "SELECT s.b, SUM(r.a + s.c) AS x, SUM(r.a * s.c) AS y, COUNT(*) AS n "
    "FROM r, s WHERE r.b = s.b GROUP BY s.b",
    "chain": "SELECT SUM(r.a - t.d) AS x, AVG(t.d) AS m FROM r, s, t WHERE r.b = s.b AND s.c = t.c",
    "triangle": "SELECT SUM(r.a * s.c) AS x FROM r, s, u WHERE r.b = s.b AND s.c = u.c AND u.a = r.a",
    "psp": "SELECT SUM(r.a - s.c) AS x FROM r, s "
    "WHERE r.b > (SELECT AVG(b) FROM r) AND s.b > (SELECT SUM(b) / 9 FROM s)",
    "q18": "SELECT r.a, SUM(t.d) AS x FROM r, s, t WHERE r.b = s.b AND s.c = t.c "
    "AND 2 < (SELECT SUM(w.d) FROM t AS w WHERE w.c = t.c) GROUP BY r.a",
    "signs": "SELECT SUM(CASE WHEN r.a > 1 THEN s.c ELSE -s.c END) AS x FROM r, s WHERE r.b = s.b",
    "exists": "SELECT r.a, SUM(s.c - r.b) AS x FROM r, s WHERE r.b = s.b AND NOT EXISTS "
    "(SELECT 1 FROM t WHERE t.c = s.c AND t.d < r.a) GROUP BY r.a",
}
MORE = {"sums": 2, "chain": 4, "triangle": 0, "psp": 2, "q18": 2, "signs": 3, "exists": 1}
"""How many more maps the unmerged program has: a map whose count and k values are read falls into k + 1.
A triangle reads its edges as they are."""


@pytest.mark.parametrize(("name", "more"), MORE.items())
def test_merged_and_unmerged_programs_agree(name: str, more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with ef.connect(engine="local") as db:
        db.sql(";".join(TABLES.values()))
        db.sql(f"CREATE MATERIALIZED VIEW merged AS {MERGED[name]}")
        monkeypatch.setattr(compiling, "HIGHER_ORDER", Choices(merge=False))
        db.sql(f"CREATE MATERIALIZED VIEW apart AS {MERGED[name]}")
        catalog = db._engine.catalog.views  # type: ignore[union-attr]
        assert not catalog["apart"].compiled.reevaluated
        merged, apart = (catalog[v].compiled.program.maps for v in ("merged", "apart"))
        assert len(apart) - len(merged) == more
        rng = random.Random(name)
        there: dict[str, list[tuple[int, int]]] = {table: [] for table in TABLES}
        for _ in range(12):
            batch = {}
            for table, rows in there.items():
                gone = [rows.pop(rng.randrange(len(rows))) for _ in range(rng.randrange(3)) if rows]
                new = [(rng.randrange(4), rng.randrange(4)) for _ in range(rng.randrange(5))]
                rows += new
                batch[table] = ef.Delta(inserts=new, deletes=gone)
            db.apply(batch)
            one, other = (
                Counter(map(tuple, (row.values() for row in db.view(v).to_arrow().to_pylist())))
                for v in ("merged", "apart")
            )
            assert one == other
            assert db.view("apart").verify().num_rows == 0
