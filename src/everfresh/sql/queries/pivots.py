"""PIVOT and UNPIVOT with stated values, written as the SELECT that they mean.

    r PIVOT (SUM(v) AS s FOR c IN ('a', 'b') GROUP BY k)
    SELECT k, SUM(v) FILTER (WHERE c::VARCHAR IS NOT DISTINCT FROM 'a') AS a_s, ... FROM r GROUP BY k

    r UNPIVOT (v FOR n IN (x, y))
    SELECT * FROM (SELECT k, UNNEST(['x', 'y']) AS n, UNNEST([x, y]) AS v FROM r) WHERE v IS NOT NULL

Without GROUP BY the groups are the columns that neither the values nor the aggregates mention. The columns of
a PIVOT follow from its text, so its values must stand there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from sqlglot import exp

from everfresh.errors import Code
from everfresh.sql.naming.column_names import output_name
from everfresh.sql.queries.aggregates import calls_aggregate
from everfresh.sql.source import Source, near
from everfresh.types import distinct_names, fold

_MOST_COLUMNS = 10_000


def pivoted(source: Source, of: Any, pivot: Any, names: Sequence[str]) -> Any:
    """The query that a PIVOT or UNPIVOT of a relation with these columns means."""
    return (
        _unpivot(source, of, pivot, names) if pivot.args.get("unpivot") else _pivot(source, of, pivot, names)
    )


# -- PIVOT -----------------------------------------------------------------------------------------------


def _pivot(source: Source, of: Any, pivot: Any, names: Sequence[str]) -> Any:
    fields = pivot.args.get("fields")  # of the form in FROM; else the expressions are what is pivoted on
    calls = list(pivot.expressions if fields else pivot.args.get("using") or [])
    asked = list(fields or pivot.expressions)
    calls = calls or [exp.Count(this=exp.Star(), big_int=True)]
    stated = [_stated(source, each) for each in asked]
    for call in calls:
        if not calls_aggregate(call):
            raise source.error(Code.TYPE, "PIVOT computes aggregates", call, hint="as in USING SUM(x)")
    group = pivot.args.get("group")
    if group is not None:
        keys = list(group.expressions)
    else:
        used = {fold(c.name) for tree in (*asked, *calls) for c in tree.find_all(exp.Column)}
        keys = [_column(n) for n in names if fold(n) not in used]
    items = [k.copy() for k in keys]
    count = len(calls)
    for values in stated:
        count *= len(values)
    if count > _MOST_COLUMNS:
        raise source.unsupported(f"a PIVOT with {count} columns", pivot)
    for combination in product(*stated):
        same = [exp.NullSafeEQ(this=_text(on), expression=_text(value)) for on, value, _ in combination]
        shown = "_".join(name for _, _, name in combination)
        items += [_chosen(source, call, same, shown, len(calls) > 1) for call in calls]
    select = exp.Select(expressions=items, from_=exp.From(this=of))
    if keys:
        select.set("group", exp.Group(expressions=[k.copy() for k in keys]))
    return select


def _text(tree: Any) -> Any:
    """As DuckDB compares the values of a PIVOT: `1` is not `1.00`."""
    return exp.cast(tree.copy(), "VARCHAR")


def _stated(source: Source, each: Any) -> list[tuple[Any, Any, str]]:
    """What a column is compared with, and how the values are called."""
    if not isinstance(each, exp.In) or not isinstance(each.this, exp.Column) or not each.expressions:
        raise source.unsupported(
            "PIVOT without its values",
            each,
            hint="its columns must be known: write ON column IN ('a', 'b'), of an expression in a subquery",
        )
    found = []
    for value in each.expressions:
        named = isinstance(value, exp.PivotAlias | exp.Alias)
        tree = value.this if named else value
        found.append((each.this, tree, value.args["alias"].name if named else _shown(source, tree)))
    return found


def _shown(source: Source, value: Any) -> str:
    """A value as the name of a column."""
    if isinstance(value, exp.Literal):
        if value.is_string:
            return str(value.this)
        number = source.number(value)
        return str(float(number)) if "e" in number.lower() else number
    if isinstance(value, exp.Null):
        return "NULL"
    if isinstance(value, exp.Boolean):
        return str(value.this).lower()
    if isinstance(value, exp.Neg) and isinstance(value.this, exp.Literal) and not value.this.is_string:
        return f"-{source.number(value.this)}"
    if isinstance(value, exp.Cast) and isinstance(value.this, exp.Literal):
        return str(value.this.this)
    raise source.unsupported("a value of PIVOT that is no constant", value, hint="give it a name with AS")


def _chosen(source: Source, call: Any, same: list[Any], shown: str, several: bool) -> Any:
    """An aggregate over the rows with some values, and its name."""
    aliased = isinstance(call, exp.Alias)
    of = call.this if aliased else call
    suffix = call.alias if aliased else output_name(of, source) if several else ""
    where: Any = exp.and_(*same, copy=False)
    if isinstance(of, exp.Filter):
        of, where = of.this, exp.and_(of.expression.this.copy(), where, copy=False)
    made = exp.Filter(this=of.copy(), expression=exp.Where(this=where))
    return exp.alias_(made, exp.to_identifier(f"{shown}_{suffix}" if suffix else shown, quoted=True))


# -- UNPIVOT ---------------------------------------------------------------------------------------------


def _unpivot(source: Source, of: Any, pivot: Any, names: Sequence[str]) -> Any:
    fields, into = pivot.args.get("fields"), pivot.args.get("into")
    if fields:
        label, listed = fields[0].this.name, list(fields[0].expressions)
        made = pivot.expressions[0]
        values = [e.name for e in made.expressions] if isinstance(made, exp.Tuple) else [made.name]
    else:
        label = into.this.name if into is not None else "name"
        values = [e.name for e in into.expressions] if into is not None else ["value"]
        listed = list(pivot.expressions)
    rows = [row for tree in listed for row in _rows(source, tree, names)]
    if not rows or any(len(trees) != len(values) for _, trees in rows):
        wrong = next((row for row in rows if len(row[1]) != len(values)), None)
        count = 0 if wrong is None else len(wrong[1])
        raise source.error(
            Code.TYPE, f"UNPIVOT into {len(values)} columns needs as many for each name, not {count}", pivot
        )
    used = {fold(c.name) for _, trees in rows for t in trees for c in t.find_all(exp.Column)}
    rest = [n for n in names if fold(n) not in used]
    texts = [exp.Literal.string(name) for name, _ in rows]
    items = [_column(n) for n in rest] + [_each(texts, label)]
    for i, value in enumerate(values):
        items.append(_each([trees[i].copy() for _, trees in rows], value))
    below = exp.Select(expressions=items, from_=exp.From(this=of))
    if pivot.args.get("include_nulls"):
        return below
    shown = distinct_names([*rest, label, *values])[-len(values) :]
    there = [exp.Not(this=exp.Is(this=_column(n), expression=exp.Null())) for n in shown]
    outer = exp.Select(expressions=[exp.Star()], from_=exp.From(this=exp.Subquery(this=below)))
    outer.set("where", exp.Where(this=exp.and_(*there, copy=False)))
    return outer


def _rows(source: Source, tree: Any, names: Sequence[str]) -> Iterator[tuple[str, list[Any]]]:
    """Names, each with what the value columns are for it."""
    if isinstance(tree, exp.PivotAlias | exp.Alias):
        yield tree.args["alias"].name, _parts(tree.this)
    elif isinstance(tree, exp.Columns):
        yield from ((n, [_column(n)]) for n in listed(source, tree, names))
    else:
        parts, written = _parts(tree), {fold(n): n for n in names}
        called = (
            written.get(fold(p.name), p.name) if isinstance(p, exp.Column) else output_name(p, source)
            for p in parts
        )
        yield "_".join(called), parts


def listed(source: Source, tree: Any, names: Sequence[str]) -> list[str]:
    """The columns that COLUMNS(...) names."""
    what = tree.this
    if isinstance(what, exp.Star) and not any(v for k, v in what.args.items() if k != "except_"):
        gone = {fold(e.name) for e in what.args.get("except_") or []}
        found = [n for n in names if fold(n) not in gone]
    elif isinstance(what, exp.Literal) and what.is_string:
        try:
            pattern = re.compile(what.this)
        except re.error:
            raise source.error(Code.SYNTAX, f"'{what.this[:40]}' is no regular expression", tree) from None
        found = [n for n in names if pattern.search(n)]
    else:
        raise source.unsupported("COLUMNS of anything but * and a regular expression", tree)
    if not found:
        raise source.error(
            Code.NOT_FOUND, "COLUMNS finds no column", tree, hint=near("", list(names), "columns")
        )
    return found


def _parts(tree: Any) -> list[Any]:
    return list(tree.expressions) if isinstance(tree, exp.Tuple) else [tree]


def _each(values: list[Any], name: str) -> Any:
    unnested = exp.Explode(this=exp.Array(expressions=values))
    return exp.alias_(unnested, exp.to_identifier(name, quoted=True))


def _column(name: str) -> Any:
    return exp.column(exp.to_identifier(name, quoted=True))
