"""Structural shrinking: fewer views, batches, changes, tables, columns, smaller queries, to a fixpoint.

Any candidate may be wrong SQL: DuckDB refuses it then, the view is left out of the comparison, nothing fails
and the candidate is dropped. So the steps need not know scopes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

from everfresh.testing.histories import Change, History, is_valid, smaller_batches
from everfresh.testing.random_sql.data import Case
from everfresh.testing.random_sql.tree import (
    LITERALS,
    Base,
    Derived,
    Expr,
    Join,
    Listed,
    Pivoted,
    Query,
    Select,
    SetOperation,
    With,
    nodes,
    rebuilt,
    variants,
)
from everfresh.types import TableSchema, quoted

TRIES = 3000


def shrunk(case: Case, fails: Callable[[Case], bool], tries: int = TRIES) -> Case:
    """A case none of whose smaller forms fails; at most `tries` are tried."""
    steps: tuple[Callable[[Case], Iterator[Case]], ...] = (
        _fewer_views, _inlined_views, _fewer_batches, _fewer_tables, _smaller_queries, _fewer_columns,
    )  # fmt: skip
    left, progress = tries, True
    while progress:
        progress = False
        for step in steps:
            found = True
            while found and left > 0:
                found = False
                for candidate in step(case):
                    left -= 1
                    if left <= 0:
                        break
                    if fails(candidate):
                        case, found, progress = candidate, True, True
                        break
    return case


def _fewer_views(case: Case) -> Iterator[Case]:
    if len(case.trees) > 1:
        for i in range(len(case.trees)):
            yield case.with_views((case.trees[i],))
        for i in range(len(case.trees)):
            yield case.with_views(case.trees[:i] + case.trees[i + 1 :])


def _inlined_views(case: Case) -> Iterator[Case]:
    """With the query of a view in its place, wherever others read it."""
    for name, query in case.trees:

        def visit(node: Any, name: str = name, query: Query = query) -> Any:
            read = isinstance(node, Base) and node.name == name
            return Derived(query, node.alias, node.columns) if read else node

        readers = [n for _, tree in case.trees for n in nodes(tree) if isinstance(n, Base) and n.name == name]
        pivoted = {n.table.name for _, tree in case.trees for n in nodes(tree) if isinstance(n, Pivoted)}
        if readers and name not in pivoted:
            yield case.with_views(tuple((n, rebuilt(tree, visit)) for n, tree in case.trees))


def _fewer_batches(case: Case) -> Iterator[Case]:
    for history in smaller_batches(case.history):
        if is_valid(history):
            yield Case(history, case.trees)


def _fewer_tables(case: Case) -> Iterator[Case]:
    """Without tables that no view reads."""
    read = {node.name for _, tree in case.trees for node in nodes(tree) if isinstance(node, Base)}
    if any(schema.name not in read for schema in case.history.schemas):
        history = replace(
            case.history,
            schemas=tuple(s for s in case.history.schemas if s.name in read),
            batches=tuple(tuple(c for c in b if c.table in read) for b in case.history.batches),
        )
        if history.schemas:
            yield Case(history, case.trees)


def _fewer_columns(case: Case) -> Iterator[Case]:
    for schema in case.history.schemas:
        for i, column in enumerate(schema.columns):
            if len(schema.columns) > 1 and column.name not in schema.key:
                yield Case(_without_column(case.history, schema, i), case.trees)


def _without_column(history: History, schema: TableSchema, i: int) -> History:
    rest = replace(schema, columns=(*schema.columns[:i], *schema.columns[i + 1 :]))

    def change(c: Change) -> Change:
        return c if c.table != schema.name else replace(c, row=(*c.row[:i], *c.row[i + 1 :]))

    return replace(
        history,
        schemas=tuple(rest if s is schema else s for s in history.schemas),
        batches=tuple(tuple(map(change, batch)) for batch in history.batches),
    )


# -- queries


def _smaller_queries(case: Case) -> Iterator[Case]:
    for i, (name, tree) in enumerate(case.trees):
        seen = {tree}
        for other in (*_without_aliases(tree), *variants(tree, _smaller)):
            if other not in seen and isinstance(other, Query):
                seen.add(other)
                yield case.with_views((*case.trees[:i], (name, other), *case.trees[i + 1 :]))


def _without_aliases(tree: Query) -> Iterator[Query]:
    """Each join cut to one side, with constants for the columns of the other."""
    for join in [node for node in nodes(tree) if isinstance(node, Join)]:
        for kept, gone in ((join.left, join.right), (join.right, join.left)):
            aliases = {n.alias for n in nodes(gone) if isinstance(n, Base | Derived | Listed | Pivoted)}

            def visit(node: Any, aliases: set[str] = aliases) -> Any:
                if isinstance(node, Expr) and node.template.split(".")[0] in aliases:
                    return Expr("literal", node.kind, LITERALS[node.kind][0])
                return node

            def cut(node: Any, join: Join = join, kept: Any = kept) -> Any:
                return kept if node == join else node

            yield rebuilt(rebuilt(tree, cut), visit)


def _smaller(node: Any) -> Iterator[Any]:
    """Smaller forms of one node."""
    match node:
        case Expr(production, kind, _, parts):
            yield from (part for part in parts if isinstance(part, Expr) and part.kind == kind)
            if production != "literal" and kind in LITERALS:
                yield from (Expr("literal", kind, text) for text in (LITERALS[kind][0], LITERALS[kind][-1]))
        case Select():
            yield from _smaller_select(node)
        case SetOperation(_, left, right):
            yield left
            yield right
        case With(_, _, _, body):
            yield body
        case Derived(Select(source=Base() as inner), alias, columns):
            yield Base(inner.name, alias, columns)


def _smaller_select(node: Select) -> Iterator[Select]:
    if isinstance(node.source, Derived) and isinstance(node.source.query, Select):
        yield node.source.query
    if len(node.items) > 1:
        for i in range(len(node.items)):
            order = node.order[:i] + node.order[i + 1 :]
            yield replace(node, items=node.items[:i] + node.items[i + 1 :], order=order)
    if node.limit is not None:
        yield replace(node, limit=None, order=(), offset=0)
    if node.positions:
        yield replace(node, positions=False)
    for i in range(len(node.keys)):
        yield replace(node, keys=node.keys[:i] + node.keys[i + 1 :])
    for clause in ("where", "having"):
        if getattr(node, clause) is not None:
            yield replace(node, **{clause: None})  # type: ignore[arg-type]
    if node.distinct:
        yield replace(node, distinct=False)


# -- text


def written(history: History) -> str:
    """A history as a script: statements, with a comment before each batch."""
    lines = [f"-- seed {history.seed}", *(f"{schema.ddl};" for schema in history.schemas)]
    lines += [f"CREATE MATERIALIZED VIEW {quoted(name)} AS {query};" for name, query in history.views]
    by_name = {schema.name: schema for schema in history.schemas}
    for number, batch in enumerate(history.batches):
        lines.append(f"-- batch {number}")
        for change in batch:
            columns = by_name[change.table].columns
            values = [_literal(value) for value in change.row]
            if change.weight > 0:
                lines.append(f"INSERT INTO {quoted(change.table)} VALUES ({', '.join(values)});")
            else:
                same = " AND ".join(
                    f"{quoted(c.name)} IS NOT DISTINCT FROM {v}" for c, v in zip(columns, values, strict=True)
                )
                lines.append(f"DELETE FROM {quoted(change.table)} WHERE {same}; -- one row")
    return "\n".join(lines) + "\n"


def _literal(value: Any) -> str:
    if value is None or isinstance(value, bool | int | Decimal):
        return "NULL" if value is None else str(value).upper()
    return "'" + str(value).replace("'", "''") + "'"  # a DOUBLE too: nan and inf are not words
