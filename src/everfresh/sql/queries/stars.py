"""`*` and COLUMNS(...) in a SELECT: the columns that they stand for, each with its name and its tree.

    * EXCLUDE (a) REPLACE (b + 1 AS b) RENAME (c AS d)      all columns but for what is said
    * LIKE 'x%'                                             those whose names fit
    COLUMNS('regex'), COLUMNS(*), COLUMNS(['a', 'b']), COLUMNS(lambda c: ...)

An expression with COLUMNS stands once for each of the columns; several in one are the same column each time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from everfresh.errors import Code
from everfresh.expr import evaluate
from everfresh.expr.nodes import Var
from everfresh.sql.expressions import Binder
from everfresh.sql.queries.clauses import refuse_clauses
from everfresh.sql.scope import Scope
from everfresh.sql.source import Source, near
from everfresh.types import fold

Column = tuple[str, str, Var]
"""The relation, the name and the variable of a column."""
_FITS = (exp.Like, exp.ILike, exp.SimilarTo, exp.Glob)
_STATED = {"except_", "replace", "rename", "ilike"}


def star_of(tree: Any) -> Any:
    """The star that an entry of SELECT is, `*`, `t.*` or `* LIKE ...`; None for any other."""
    of = tree.this if isinstance(tree, _FITS) else tree
    star = of.this if isinstance(of, exp.Column) else of
    return star if isinstance(star, exp.Star) else None


def starred(scope: Scope, tree: Any, star: Any) -> list[tuple[str, Any]]:
    """The names and trees that a star stands for."""
    source = scope.source
    refuse_clauses(source, star, _STATED)
    if not scope.relations:
        raise source.error(Code.NOT_FOUND, "'*' needs a FROM clause", tree)
    columns = scope.columns()
    of = tree.this if isinstance(tree, _FITS) else tree
    if star is not of:
        if of.args.get("db") or of.args.get("catalog"):
            raise source.unsupported(f"the qualified name '{of.sql('duckdb')}'", of)
        relation = scope.relation(of.table)
        if relation is None:
            raise scope.no_relation(of.table, of)
        columns = [(relation.alias, n, v) for n, v in relation.columns]
    kept = _without(source, star, columns)
    if tree is not of:
        kept = [c for c in kept if _holds(source, tree, c[1])]
    if star.args.get("ilike") is not None:
        like = exp.ILike(this=star, expression=star.args["ilike"])
        kept = [c for c in kept if _holds(source, like, c[1])]
    if not kept:
        raise source.error(Code.NOT_FOUND, "nothing is left of '*'", tree)
    replaced = {fold(e.alias): e for e in star.args.get("replace") or []}
    renamed = {fold(e.this.name): e for e in star.args.get("rename") or []}
    for name, entry in (*replaced.items(), *renamed.items()):
        if name not in {fold(n) for _, n, _ in kept}:
            raise source.error(
                Code.NOT_FOUND,
                f"there is no column '{entry.alias if name in replaced else entry.this.name}' in '*'",
                entry,
                hint=near(name, [n for _, n, _ in kept], "columns"),
            )
    return [
        (
            renamed[fold(n)].alias if fold(n) in renamed else n,
            replaced[fold(n)].this if fold(n) in replaced else reference(a, n, v, of),
        )
        for a, n, v in kept
    ]


def _without(source: Source, star: Any, columns: Sequence[Column]) -> list[Column]:
    left_out: list[tuple[str, str]] = []
    for column in star.args.get("except_") or []:
        qualifier = fold(column.table) if isinstance(column, exp.Column) else ""
        left_out.append((qualifier, fold(column.name)))
        if not any(_is_named(c, *left_out[-1]) for c in columns):
            raise source.error(
                Code.NOT_FOUND,
                f"there is no column '{column.name}' to exclude",
                column,
                hint=near(column.name, [n for _, n, _ in columns], "columns"),
            )
    return [c for c in columns if not any(_is_named(c, *names) for names in left_out)]


def _holds(source: Source, condition: Any, name: str) -> bool:
    """Whether a condition on the star is TRUE of a name."""
    made = condition.copy()
    made.set("this", exp.Literal.string(name))
    return evaluate(Binder(Scope(source), "COLUMNS").condition(made), {}) is True


def has_columns(tree: Any) -> bool:
    """Whether an expression has COLUMNS(...) outside of its subqueries."""
    return any(n.find_ancestor(exp.Subquery) is None for n in tree.find_all(exp.Columns))


def each_column(scope: Scope, tree: Any) -> list[tuple[str, Any]]:
    """An expression with COLUMNS(...), once for each column, with the column's name."""
    source = scope.source
    places = [n for n in tree.find_all(exp.Columns) if n.find_ancestor(exp.Subquery) is None]
    if any(p != places[0] for p in places):
        raise source.unsupported("several different COLUMNS(...) in one expression", tree)
    found = []
    for alias, name, var in _listed(scope, places[0]):
        if tree is places[0]:
            found.append((name, reference(alias, name, var, tree)))
            continue
        made = tree.copy()
        for place in list(made.find_all(exp.Columns)):
            place.replace(reference(alias, name, var, places[0]))
        found.append((name, made))
    return found


def renamed(tree: Any, alias: str, name: str) -> str:
    """The name that an alias gives a column of COLUMNS(regex): `\\1` is what the first group found."""
    of = tree.find(exp.Columns).this
    if "\\" not in alias or not isinstance(of, exp.Literal):
        return alias
    match = re.search(of.this, name)
    return match.expand(alias.replace("\\0", "\\g<0>")) if match is not None else alias


def _listed(scope: Scope, node: Any) -> list[Column]:
    """The columns that COLUMNS(...) names."""
    source, what, columns = scope.source, node.this, scope.columns()
    if isinstance(what, exp.Star):
        refuse_clauses(source, what, {"except_"})
        found = _without(source, what, columns)
    elif isinstance(what, exp.Literal) and what.is_string:
        try:
            pattern = re.compile(what.this)
        except re.error:
            raise source.error(Code.SYNTAX, f"'{what.this[:40]}' is no regular expression", node) from None
        found = [c for c in columns if pattern.search(c[1])]
    elif isinstance(what, exp.Array) and all(isinstance(e, exp.Literal) for e in what.expressions):
        wanted = [fold(e.name) for e in what.expressions]
        found = [c for c in columns if fold(c[1]) in wanted]
        if len({fold(c[1]) for c in found}) < len(set(wanted)):
            found = []
    elif isinstance(what, exp.Lambda) and len(what.expressions) == 1:
        found = [c for c in columns if _fits(source, what, c[1])]
    else:
        raise source.unsupported(
            "COLUMNS of this", node, hint="it takes *, a regular expression, a list of names or a lambda"
        )
    if not found:
        names = [n for _, n, _ in columns]
        raise source.error(Code.NOT_FOUND, "COLUMNS finds no column", node, hint=near("", names, "columns"))
    return found


def _fits(source: Source, what: Any, name: str) -> bool:
    body, parameter = exp.Paren(this=what.this.copy()), what.expressions[0].name
    for n in list(body.find_all(exp.Identifier, exp.Column)):
        if n.name == parameter and n.parent is not None and not isinstance(n.parent, exp.Column):
            n.replace(exp.Literal.string(name))
    return evaluate(Binder(Scope(source), "COLUMNS").condition(body), {}) is True


def _is_named(column: Column, alias: str, name: str) -> bool:
    return fold(column[1]) == name and (not alias or fold(column[0]) == alias)


def reference(alias: str, name: str, var: Var, star: Any) -> Any:
    """A column that a star stands for, as a tree."""
    column = exp.column(name, alias or None, quoted=True)
    if star.this is not None and "start" in star.meta:
        column.meta.update(star.meta)
    column.meta["bound"] = var
    return column
