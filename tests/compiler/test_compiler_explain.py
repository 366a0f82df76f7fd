"""What a view explains about itself, and what views refuse."""

from __future__ import annotations

import json
import re

import pytest
from compiler_support import catalog_of, execute, joined_catalog

from everfresh.compiler import explain
from everfresh.errors import Code, EverfreshError
from everfresh.program import Partitions, View

T = "CREATE TABLE t (id BIGINT PRIMARY KEY, g VARCHAR, x INTEGER, d DOUBLE, day DATE)"
QUERIES = {
    "v": "SELECT g, sum(x) AS s FROM t WHERE x > 0 GROUP BY g HAVING count(*) > 1",
    'o"id \\ [x]': 'SELECT id AS "a""b", g FROM t',
    "none": "SELECT g FROM t WHERE FALSE",
}


def view(name: str):  # type: ignore[no-untyped-def]
    text = f'CREATE MATERIALIZED VIEW "{name.replace(chr(34), chr(34) * 2)}" AS {QUERIES[name]}'
    return catalog_of(T, text).views[name]


@pytest.mark.parametrize("name", QUERIES)
def test_json_has_every_field(name: str) -> None:
    v = view(name)
    found = json.loads(explain(v.compiled, v.text, "json", {"entries": 3}))
    assert set(found) == {
        "view",
        "sql",
        "strategy",
        "columns",
        "checked",
        "maps",
        "relations",
        "static",
        "not retained",
        "triggers",
        "map",
        "sides",
        "outputs",
        "having",
        "rows",
        "notes",
        "engine",
    }
    assert (found["view"], found["sql"], found["strategy"], found["engine"]) == (
        name,
        v.text,
        "auto",
        {"entries": 3},
    )
    assert [c["name"] for c in found["columns"]] == [c.name for c in v.columns] == list(found["outputs"])
    program = v.compiled.program
    assert [m["definition"] for m in found["maps"]] == [str(m.definition) for m in program.maps]
    assert [m["components"] for m in found["maps"]] == [[k.name for k in m.kinds] for m in program.maps]
    assert [(t["base"], t["derived"]) for t in found["triggers"]] == (
        [] if name == "none" else [("t", False)]
    )
    assert (found["relations"], found["map"], found["sides"]) == ([], name, [])
    statements = [s for t in found["triggers"] for s in t["statements"]]
    assert [s["expr"] for s in statements] == [str(s.expr) for t in program.triggers for s in t.statements]
    assert all(set(s) == {"target", "op", "expr", "strategy", "reason"} and s["reason"] for s in statements)
    assert (found["having"] is None) == (v.compiled.view.having is None)


@pytest.mark.parametrize("name", QUERIES)
def test_dot_is_well_formed(name: str) -> None:
    v = view(name)
    text = explain(v.compiled, v.text, "dot")
    first, *body, last = text.splitlines()
    assert (first, last) == ("digraph view {", "}")
    quoted = r'"(?:[^"\\]|\\.)*"'
    statement = re.compile(
        rf"  (?:rankdir=LR|{quoted}(?: -> {quoted})?(?: \[\w+=(?:\w+|{quoted})(?:, \w+=\w+)*\])?);"
    )
    assert all(statement.fullmatch(line) for line in body), text
    assert len(set(body)) == len(body)
    edges = [line for line in body if "->" in line]
    assert len(edges) == (1 if name == "none" else 2)  # table to map, map to view


def test_text_shows_the_program_and_how_rows_are_read() -> None:
    v = view("v")
    text = explain(v.compiled, v.text, engine={"entries": 3})
    shown = [
        v.text,
        v.compiled.program.to_text(),
        "READ",
        "  g = g",
        "  where #0 > 1::BIGINT",
        "one row per entry",
    ]
    for part in (*shown, "ENGINE\n  entries: 3"):
        assert part in text
    assert "ENGINE" not in explain(v.compiled, v.text)


def test_an_unknown_format_is_refused() -> None:
    v = view("v")
    with pytest.raises(EverfreshError, match="no format 'xml'") as caught:
        explain(v.compiled, v.text, "xml")
    assert caught.value.code == Code.ARGUMENT


# -- refusals ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("view_text", "code", "message"),
    [
        ("AS SELECT 1 AS one", Code.UNSUPPORTED, "a query without FROM"),
        ("AS SELECT count(*) AS n", Code.UNSUPPORTED, "a query without FROM"),
        (
            "WITH (strategy = 'magic') AS SELECT g FROM t",
            Code.UNSUPPORTED,
            "strategy 'magic' is not available",
        ),
        ("WITH (strategy = 7) AS SELECT g FROM t", Code.ARGUMENT, "must be a text"),
        ("WITH (colour = 'red') AS SELECT g FROM t", Code.ARGUMENT, "no option 'colour'"),
        ("AS SELECT nope FROM t", Code.NOT_FOUND, "nope"),
        ("AS SELECT g FROM nowhere", Code.NOT_FOUND, "nowhere"),
        ("AS SELECT g AS _weight FROM t", Code.EXISTS, "a column '_weight'"),
        ("AS SELECT sum(g) AS s FROM t", Code.TYPE, "sum"),
    ],
)
def test_what_views_refuse(view_text: str, code: str, message: str) -> None:
    catalog = catalog_of(T, "CREATE MATERIALIZED VIEW w AS SELECT g FROM t")
    with pytest.raises(EverfreshError, match=message) as caught:
        execute(catalog, f"CREATE MATERIALIZED VIEW v {view_text}")
    assert caught.value.code == code
    assert "v" not in catalog.views


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT g FROM t ORDER BY g LIMIT 3", "LIMIT"),
        ("SELECT g, count(*) AS n FROM t GROUP BY g ORDER BY n LIMIT 3", "LIMIT"),
        ("SELECT DISTINCT count(*) AS n FROM t GROUP BY g", "an aggregate or DISTINCT over another"),
        ("SELECT count(DISTINCT g) AS n FROM t", "COUNT(DISTINCT ...)"),
        ("SELECT max(x) AS n FROM t", "the aggregate MAX"),
        ("SELECT g FROM t WHERE x > (SELECT avg(x) FROM t)", "a subquery"),
        ("SELECT g FROM t WHERE EXISTS (SELECT 1 FROM t AS u WHERE u.x > t.x)", "a subquery"),
        ("SELECT g FROM t EXCEPT SELECT g FROM t WHERE x > 1", "EXCEPT"),
        ("SELECT g, rank() OVER (ORDER BY x) AS r FROM t", "a window function"),
        ("SELECT g FROM t UNION SELECT g FROM w", "a view over the view w"),
        ("SELECT t.g FROM t LEFT JOIN t AS u ON t.g = u.g", "an outer join"),
        ("SELECT a.g FROM t AS a JOIN t AS b ON a.g = b.g", "a join"),
    ],
)
def test_what_an_engine_without_joins_re_evaluates_says_why(query: str, why: str) -> None:
    texts = (T, "CREATE MATERIALIZED VIEW w AS SELECT g FROM t", f"CREATE MATERIALIZED VIEW v AS {query}")
    view = catalog_of(*texts).views["v"]
    assert view.compiled.reevaluated
    (statement,) = view.compiled.program.triggers[0].statements
    assert (statement.op, statement.strategy) == (":=", "re-evaluated")
    assert statement.reason == f"{why} is not maintained incrementally"
    assert f":=   -- re-evaluated: {statement.reason}" in explain(view.compiled, view.text)
    assert not joined_catalog(*texts).views["v"].compiled.reevaluated


@pytest.mark.parametrize(
    ("query", "why"),
    [
        (
            "SELECT (SELECT var_pop(CAST(x AS DECIMAL(30,20))) FROM t) AS s FROM t",
            "VAR_POP of a DECIMAL(30,20)",
        ),
    ],
)
def test_what_is_re_evaluated_everywhere_says_why(query: str, why: str) -> None:
    view = joined_catalog(T, f"CREATE MATERIALIZED VIEW v AS {query}").views["v"]
    assert view.compiled.reevaluated
    assert f"re-evaluated: {why} is not maintained incrementally" in explain(view.compiled, view.text)
    found = json.loads(explain(view.compiled, view.text, "json"))
    (statement,) = found["triggers"][0]["statements"]
    assert (statement["strategy"], statement["reason"]) == (
        "re-evaluated",
        f"{why} is not maintained incrementally",
    )
    assert '"t" -> "v[' in explain(view.compiled, view.text, "dot")


# -- relations -----------------------------------------------------------------------------------------

NESTED = {
    "lift": "SELECT g, count(*) AS n FROM t WHERE 3 < (SELECT sum(x) FROM t u WHERE u.g = t.g) GROUP BY g",
    "total": "SELECT count(*) AS n FROM t WHERE x > (SELECT avg(x) FROM t)",
    "every": "SELECT id, (SELECT count(*) FROM t AS u WHERE u.x = t.x) AS n FROM t",
    "top": "SELECT g, x FROM t ORDER BY x DESC LIMIT 2",
    "ranks": "SELECT g, rank() OVER (PARTITION BY g ORDER BY x) AS r FROM t",
    "sides": "SELECT g, min(x) AS lo, count(DISTINCT x) AS n FROM t GROUP BY g",
    "twice": "SELECT g, x FROM t EXCEPT ALL SELECT g, x FROM t WHERE d > 1",
}


def nested(name: str):  # type: ignore[no-untyped-def]
    return joined_catalog(T, f"CREATE MATERIALIZED VIEW {name} AS {NESTED[name]}").views[name]


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        (
            "lift",
            [
                "RELATION lift$0(u.g VARCHAR?)   -- incremental: at the keys that are touched",
                "  FROM lift#0(#1 BIGINT, #2 HUGEINT)",
                "  WHERE 3::HUGEINT < CASE WHEN #1 = 0::BIGINT THEN NULL::HUGEINT ELSE #2 END",
                "ON CHANGE lift$0",
            ],
        ),
        ("total", ["-- incremental: always one row", "  EVERY KEY", "between the old and the new total$0"]),
        ("every", ["   -- incremental: looked up only", "  EVERY KEY"]),
        (
            "top",
            [
                "   -- incremental: the first 2 rows, read in order",
                "  PARTITIONS OF top#0 BY []",
                "    Limit 2 OFFSET 0",
            ],
        ),
        ("ranks", ["   -- partition recompute: where g is touched", "  PARTITIONS OF ranks#0 BY [g]"]),
        (
            "sides",
            ["  #1.x, the minimum of sides#1 at the same keys", "  components #2.0, #2.1, ... of sides#3"],
        ),
        ("twice", ["  TIMES #1 - #2", "  WHERE #1 > #2"]),
    ],
)
def test_text_shows_relations(name: str, lines: list[str]) -> None:
    v = nested(name)
    text = explain(v.compiled, v.text)
    assert [line for line in lines if line not in text] == [], text


@pytest.mark.parametrize("name", NESTED)
def test_json_shows_relations(name: str) -> None:
    v = nested(name)
    program, found = v.compiled.program, json.loads(explain(v.compiled, v.text, "json"))
    assert [r["name"] for r in found["relations"]] == [str(r.name) for r in program.relations]
    for shown, relation in zip(found["relations"], program.relations, strict=True):
        assert [c["name"] for c in shown["columns"]] == [c.name for c in relation.columns]
        assert shown["map"] == str(relation.map)
        if isinstance(relation, View):
            keys = bool(program.map(relation.map).keys)
            assert (shown["strategy"], shown["looked up only"]) == ("incremental", relation.always and keys)
            assert shown["having"] == (None if relation.having is None else str(relation.having))
            assert [s["map"] for s in shown["sides"]] == [str(s.map) for s in relation.sides]
        else:
            assert shown["strategy"] == ("incremental" if name == "top" else "partition recompute")
            assert shown["plan"] == str(relation.expr)
            assert len(shown["partitions"]) == relation.prefix
    derived = {str(r.name) for r in program.relations}
    assert {t["base"]: t["derived"] for t in found["triggers"]} == {
        str(t.base): str(t.base) in derived for t in program.triggers
    }
    assert [s["map"] for s in found["sides"]] == [str(s.map) for s in v.compiled.view.sides]


@pytest.mark.parametrize("name", NESTED)
def test_dot_leads_from_the_tables_to_the_view(name: str) -> None:
    v = nested(name)
    text, program = explain(v.compiled, v.text, "dot"), v.compiled.program
    quoted = r'"((?:[^"\\]|\\.)*)"'
    edges = set(re.findall(rf"  {quoted} -> {quoted}", text))
    entries = {m.name: f"{m.name}[{', '.join(k.name for k in m.keys)}]" for m in program.maps}
    assert edges == {
        *((str(t.base), entries[s.target]) for t in program.triggers for s in t.statements),
        *((entries[m], str(r.name)) for r in program.relations for m in r.maps),
        *((entries[m], f"view {name}") for m in v.compiled.view.maps),
    }
    reached = {"t"}
    while more := {end for start, end in edges if start in reached} - reached:
        reached |= more
    assert reached == {"t", f"view {name}", *entries.values(), *(str(r.name) for r in program.relations)}
    assert text.count('[label="partition recompute"]') == sum(
        isinstance(r, Partitions) and name != "top" for r in program.relations
    )


def test_order_alone_is_no_reason() -> None:
    catalog = catalog_of(
        T, "CREATE MATERIALIZED VIEW v AS SELECT g, count(*) AS n FROM t GROUP BY g ORDER BY n"
    )
    assert not catalog.views["v"].compiled.reevaluated


@pytest.mark.parametrize("strategy", ["auto", "higher-order", "first-order"])
def test_strategies_coincide_over_one_table(strategy: str) -> None:
    made = {}
    for s in (strategy, "auto"):
        text = (
            f"CREATE MATERIALIZED VIEW v WITH (strategy = '{s}') AS SELECT g, count(*) AS n FROM t GROUP BY g"
        )
        made[s] = catalog_of(T, text).views["v"].compiled
    assert made[strategy].strategy == strategy
    assert made[strategy].program == made["auto"].program
