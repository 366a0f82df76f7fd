"""Binding CREATE, DROP and ALTER.

Invariant: what a statement declares and we do not keep (a constraint, a property, a schema) is refused by
name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from sqlglot import exp

from everfresh.epochs.objects import article
from everfresh.errors import Code, EverfreshError
from everfresh.expr import build, evaluate
from everfresh.expr.nodes import Const
from everfresh.sql.constraints import check_text, in_order
from everfresh.sql.datatypes import sql_type
from everfresh.sql.defaults import declared
from everfresh.sql.expressions import Binder
from everfresh.sql.logical.plan import Plan, Project, Scan
from everfresh.sql.parse import Parsed
from everfresh.sql.queries.clauses import Query, refuse_clauses
from everfresh.sql.queries.query import bind_query
from everfresh.sql.scope import Catalog, Scope, spelled, table_name
from everfresh.sql.source import Source, near, words
from everfresh.sql.statements import (
    AddColumn,
    CreateQuery,
    CreateTable,
    CreateView,
    Drop,
    DropColumn,
    Statement,
)
from everfresh.types import INTEGER, INTERVAL, NULL, Column, SqlType, TableSchema, fold

TABLE_OPTIONS: dict[str, type[Any]] = {"retain": bool, "follows": bool}
"""`follows` is in the log only: `everfresh.statements` refuses it of users."""
VIEW_OPTIONS: dict[str, type[Any]] = {"strategy": str, "layout": str}

_CONSTRAINTS = {
    exp.UniqueColumnConstraint: "UNIQUE",
    exp.ForeignKey: "FOREIGN KEY",
    exp.Reference: "REFERENCES",
    exp.GeneratedAsIdentityColumnConstraint: "GENERATED",
    exp.ComputedColumnConstraint: "a generated column",
    exp.AutoIncrementColumnConstraint: "AUTOINCREMENT",
    exp.CollateColumnConstraint: "COLLATE",
    exp.LikeProperty: "CREATE TABLE ... LIKE",
    exp.TemporaryProperty: "TEMPORARY",
}
_INSTEAD = {
    "INDEX": "leave it out: keys, and what views and joins look up, are indexed by themselves",
    "SEQUENCE": "give the numbers with the rows, or ROW_NUMBER() OVER () in the query that inserts them",
    "SCHEMA": "there is one schema: let the name say it, as in shop_orders",
    "FUNCTION": "write the expression out, or make it a generated column",
    "MACRO": "write the expression out, or make it a generated column",
}
_HINTS = {
    exp.UniqueColumnConstraint: "make it the PRIMARY KEY, or watch it: CREATE MATERIALIZED VIEW twice AS "
    "SELECT c FROM t GROUP BY c HAVING COUNT(*) > 1",
    exp.ForeignKey: "watch it: CREATE MATERIALIZED VIEW lost AS SELECT * FROM t ANTI JOIN u USING (c)",
    exp.Reference: "watch it: CREATE MATERIALIZED VIEW lost AS SELECT * FROM t ANTI JOIN u USING (c)",
}


def create(parsed: Parsed, catalog: Catalog) -> Statement:
    """CREATE TABLE, CREATE VIEW or CREATE MATERIALIZED VIEW."""
    tree, source = parsed.tree, parsed.source
    binder = {"TABLE": _create_table, "VIEW": _create_view}.get(str(tree.kind).upper())
    if binder is None:
        kind = str(tree.kind).upper()
        raise source.unsupported(f"CREATE {kind}", hint=_INSTEAD.get(kind))
    return binder(parsed, catalog)


# -- tables ----------------------------------------------------------------------------------------------


def _create_table(parsed: Parsed, catalog: Catalog) -> CreateTable:
    tree, source = parsed.tree, parsed.source
    _refuse_properties(source, tree, (exp.WithDataProperty,) if tree.expression is not None else ())
    if tree.expression is not None:
        return _create_table_as(parsed, catalog)
    refuse_clauses(source, tree, {"this", "kind", "replace", "exists", "properties"})
    if not isinstance(tree.this, exp.Schema):
        raise source.error(Code.SYNTAX, "CREATE TABLE needs a list of columns", tree)
    name = table_name(source, tree.this.this)
    columns: list[Column] = []
    keys: list[tuple[Any, list[Any]]] = []
    defaults: list[tuple[str, str]] = []
    checks: list[tuple[str, Any]] = []
    generated: dict[str, tuple[Any, SqlType | None]] = {}
    for part in tree.this.expressions:
        if isinstance(part, exp.ColumnDef):
            columns.append(_column_def(source, part, columns, keys, defaults, checks, generated))
        elif isinstance(part, exp.CheckColumnConstraint):
            checks.append(("", part.this))
        elif isinstance(part, exp.Constraint) and all(
            isinstance(e, exp.CheckColumnConstraint) for e in part.expressions
        ):
            checks += [(part.name, e.this) for e in part.expressions]
        elif isinstance(part, exp.PrimaryKey):
            keys.append((part, part.expressions))
        elif isinstance(part, exp.Constraint) and all(
            isinstance(e, exp.PrimaryKey) for e in part.expressions
        ):
            keys += [(e, e.expressions) for e in part.expressions]
        elif isinstance(part, exp.Identifier):
            raise source.error(Code.SYNTAX, f"column '{part.name}' has no type", part)
        else:
            raise _constraint(source, part.expressions[0] if isinstance(part, exp.Constraint) else part)
    if not columns:
        raise source.error(Code.SYNTAX, "a table needs a column", tree)
    key = _key(source, name, columns, keys)
    _check_generated(source, tree, generated, key)
    columns, computed = in_order(source, name, columns, generated)
    columns = [replace(c, nullable=False) if c.name in key else c for c in columns]
    _check_options(source, parsed.options, TABLE_OPTIONS)
    return CreateTable(
        TableSchema(
            name,
            tuple(columns),
            key,
            parsed.static,
            parsed.options.get("retain", True),
            parsed.options.get("follows", False),
            tuple(defaults),
            tuple((own, check_text(source, name, columns, check)) for own, check in _once(source, checks)),
            computed,
        ),
        or_replace=bool(tree.args.get("replace")),
        if_not_exists=bool(tree.args.get("exists")),
        options=parsed.options,
        **common(source),
    )


def _create_table_as(parsed: Parsed, catalog: Catalog) -> CreateTable:
    """CREATE TABLE name [(names)] AS query [WITH [NO] DATA]: the columns are the query's."""
    tree, source = parsed.tree, parsed.source
    refuse_clauses(source, tree, {"this", "kind", "replace", "exists", "properties", "expression"})
    properties = tree.args.get("properties")
    empty = properties is not None and any(part.args.get("no") for part in properties.expressions)
    name, _, plan = _named_query(parsed, catalog)
    items = []
    for column, value in zip(plan.columns, plan.variables, strict=True):
        to = INTEGER if column.type == NULL else column.type  # as in DuckDB
        if to == INTERVAL:
            raise source.unsupported(f"column '{column.name}' of type {to} in a table", tree.expression)
        items.append((column.name, build.cast(value, to)))
    _check_options(source, parsed.options, {})
    return CreateTable(
        TableSchema(name, tuple(Column(n, v.type) for n, v in items), (), parsed.static),
        or_replace=bool(tree.args.get("replace")),
        if_not_exists=bool(tree.args.get("exists")),
        options=parsed.options,
        plan=None if empty else Project(plan, tuple(items)),
        **common(source),
    )


def _column_def(
    source: Source,
    part: Any,
    before: list[Column],
    keys: list[tuple[Any, list[Any]]],
    defaults: list[tuple[str, str]],
    checks: list[tuple[str, Any]],
    generated: dict[str, tuple[Any, SqlType | None]],
) -> Column:
    name = part.name
    if fold(name) in {fold(c.name) for c in before}:
        raise source.error(Code.EXISTS, f"column '{name}' is declared twice", part)
    if any(isinstance(kind, exp.ComputedColumnConstraint) for kind in _kinds(part)):
        return _generated(source, part, generated)
    if part.kind is None:
        raise source.error(Code.SYNTAX, f"column '{name}' has no type", part)
    type_ = _typed(source, part)
    nullable = True
    for constraint in part.constraints:
        if isinstance(constraint.args.get("kind"), exp.CheckColumnConstraint):
            checks.append((constraint.name, constraint.args["kind"].this))
    for kind in _kinds(part):
        if isinstance(kind, exp.PrimaryKeyColumnConstraint):
            keys.append((part, [part.this]))
        elif isinstance(kind, exp.NotNullColumnConstraint):
            nullable = bool(kind.args.get("allow_null"))
        elif isinstance(kind, exp.DefaultColumnConstraint):
            defaults.append((name, declared(source, Column(name, type_), kind.this)[0]))
        elif not isinstance(kind, exp.CheckColumnConstraint):
            raise _constraint(source, kind, part)
    return Column(name, type_, nullable)


def _generated(source: Source, part: Any, generated: dict[str, tuple[Any, SqlType | None]]) -> Column:
    """A column that is computed; its type may follow from what it is computed by."""
    if len(part.constraints) > 1:
        other = next(k for k in _kinds(part) if not isinstance(k, exp.ComputedColumnConstraint))
        raise source.unsupported(f"{_named(other)} of a generated column", part)
    (kind,) = _kinds(part)
    if kind.args.get("not_null") or not isinstance(kind.this, exp.Paren):  # it reads `(a) NOT NULL` as one
        raise source.unsupported("NOT NULL, or anything else, behind what a column is generated by", part)
    type_ = _typed(source, part) if part.kind is not None else None
    generated[part.name] = kind.this, type_
    return Column(part.name, type_ or NULL)


def _check_generated(source: Source, tree: Any, generated: Mapping[str, Any], key: tuple[str, ...]) -> None:
    if generated and len(generated) == len(
        [p for p in tree.this.expressions if isinstance(p, exp.ColumnDef)]
    ):
        raise source.error(Code.SYNTAX, "a table needs a column that is not generated", tree)
    if set(key) & set(generated):
        raise source.unsupported("a generated column in the primary key", tree)


def _once(source: Source, checks: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """The CHECKs of a table, whose names are all different."""
    named = [fold(name) for name, _ in checks if name]
    twice = next((name for name in named if named.count(name) > 1), None)
    if twice is not None:
        raise source.error(Code.EXISTS, f"there are two constraints '{twice}'")
    return checks


def _kinds(part: Any) -> list[Any]:
    """The constraints of a column, with or without a name."""
    return [c.kind if isinstance(c, exp.ColumnConstraint) else c for c in part.constraints]


def _typed(source: Source, part: Any) -> Any:
    """The type of a column, with errors placed at the column."""
    try:
        return sql_type(part.kind, source)
    except EverfreshError as error:
        raise EverfreshError(
            error.code, f"column '{part.name}': {error.message}", place=source.place(part), hint=error.hint
        ) from None


def _constraint(source: Source, kind: Any, part: Any = None) -> EverfreshError:
    hint = _HINTS.get(type(kind), "PRIMARY KEY, NOT NULL, CHECK and DEFAULT are")
    return source.unsupported(_named(kind), part or kind, hint=hint)


def _named(kind: Any) -> str:
    plain = words(kind).replace(" COLUMN CONSTRAINT", "").replace(" PROPERTY", "")
    return _CONSTRAINTS.get(type(kind), plain)


def _key(
    source: Source, table: str, columns: list[Column], keys: list[tuple[Any, list[Any]]]
) -> tuple[str, ...]:
    if not keys:
        return ()
    if len(keys) > 1:
        raise source.error(Code.EXISTS, f"table '{table}' has more than one primary key", keys[1][0])
    by_lower = {fold(c.name): c.name for c in columns}
    found: list[str] = []
    for part in keys[0][1]:
        name = by_lower.get(fold(part.name))
        if name is None:
            raise source.error(
                Code.NOT_FOUND,
                f"there is no column '{part.name}' for the primary key",
                part,
                hint=near(part.name, by_lower.values(), "columns"),
            )
        if name in found:
            raise source.error(Code.EXISTS, f"column '{name}' is twice in the primary key", part)
        found.append(name)
    return tuple(found)


def _refuse_properties(source: Source, tree: Any, allowed: tuple[type[Any], ...]) -> None:
    properties = tree.args.get("properties")
    for part in properties.expressions if properties is not None else []:
        if not isinstance(part, allowed):
            raise source.unsupported(_named(part))


def _check_options(source: Source, options: dict[str, Any], known: dict[str, type[Any]]) -> None:
    for name, value in options.items():
        if name not in known:
            raise source.error(
                Code.ARGUMENT, f"there is no option '{name}' here", hint=near(name, known, "options")
            )
        if not isinstance(value, known[name]):
            kind = {bool: "true or false", str: "a text"}[known[name]]
            raise source.error(Code.ARGUMENT, f"option '{name}' must be {kind}")


# -- views -----------------------------------------------------------------------------------------------


def _create_view(parsed: Parsed, catalog: Catalog) -> CreateView | CreateQuery:
    tree, source = parsed.tree, parsed.source
    properties = tree.args.get("properties")
    kinds = [type(p) for p in properties.expressions] if properties is not None else []
    _refuse_properties(source, tree, (exp.MaterializedProperty,))
    refuse_clauses(source, tree, {"this", "kind", "replace", "exists", "properties", "expression"})
    if tree.expression is None:
        raise source.error(Code.SYNTAX, "a view needs AS and a query", tree)
    name, query, plan = _named_query(parsed, catalog)
    how: dict[str, Any] = {
        "or_replace": bool(tree.args.get("replace")),
        "if_not_exists": bool(tree.args.get("exists")),
        "through": query.through,
        **common(source),
    }
    if exp.MaterializedProperty in kinds:
        _check_options(source, parsed.options, VIEW_OPTIONS)
        return CreateView(name, plan, options=parsed.options, **how)
    _check_options(source, parsed.options, {})
    others = {n.table for n in plan.walk() if isinstance(n, Scan) and catalog.other(n.table) is not None}
    if others:
        raise source.unsupported(
            f"'{min(others)}' in a view that is not materialized",
            tree.expression,
            hint="write CREATE MATERIALIZED VIEW",
        )
    return CreateQuery(name, plan, **how)


def _named_query(parsed: Parsed, catalog: Catalog) -> tuple[str, Query, Plan]:
    """What `name [(names)] AS query` stands for: the name, the query, and its plan with these names."""
    tree, source = parsed.tree, parsed.source
    schema = tree.this if isinstance(tree.this, exp.Schema) else None
    name = table_name(source, schema.this if schema else tree.this)
    query = bind_query(tree.expression, catalog, source)
    plan = query.plan
    if schema is not None:
        names = _view_columns(source, schema, len(query.names))
        plan = Project(plan, tuple((n, v) for n, v in zip(names, plan.variables, strict=True)))
    return name, query, plan


def _view_columns(source: Source, schema: Any, count: int) -> tuple[str, ...]:
    typed = next((c for c in schema.expressions if not isinstance(c, exp.Identifier)), None)
    if typed is not None:
        raise source.error(Code.SYNTAX, "the columns of a query are given by their names alone", typed)
    names = tuple(c.name for c in schema.expressions)
    if len(names) != count:
        raise source.error(
            Code.VALUE, f"{len(names)} column names for {count} columns", schema.expressions[0]
        )
    lowered = [fold(n) for n in names]
    for i, column in enumerate(schema.expressions):
        if lowered[i] in lowered[:i]:
            raise source.error(Code.EXISTS, f"column '{column.name}' is declared twice", column)
    return names


# -- DROP and ALTER --------------------------------------------------------------------------------------


Kind = Literal["table", "view", "plain view", "matrix", "matrix view", "signal view"]
_OTHERS = ("matrix view", "signal view")
"""What is a view to a user, and no SQL view."""


def drop(parsed: Parsed, catalog: Catalog) -> Drop:
    """DROP TABLE, DROP [MATERIALIZED] VIEW, DROP MATRIX or DROP MATRIX VIEW."""
    tree, source = parsed.tree, parsed.source
    written = str(tree.kind).upper()
    kinds: dict[str, Kind] = {"TABLE": "table", "VIEW": "view"}
    if written not in kinds:
        raise source.unsupported(f"DROP {written}")
    refuse_clauses(source, tree, {"tables", "kind", "exists", "materialized", "cascade", "restrict"})
    kind: Kind = kinds[written]
    tables = tree.args.get("tables") or []
    if len(tables) != 1:
        raise source.unsupported("DROP of several things at once", hint="write one DROP for each")
    name = table_name(source, tables[0])
    other = catalog.other(name)
    relation = catalog.relation(name) if other is None else None
    if parsed.options.get("matrix"):
        kind = "matrix" if kind == "table" else "matrix view"
    elif kind == "view" and relation is None and other is not None and other[0] in _OTHERS:
        kind = "matrix view" if other[0] == "matrix view" else "signal view"
    if kind == "view" and not tree.args.get("materialized") and relation is not None:
        kind = "plain view" if relation[0] == "plain view" else kind
    found = relation[0] if relation is not None else other[0] if other is not None else None
    exists, cascade = bool(tree.args.get("exists")), bool(tree.args.get("cascade"))
    if found is None and not exists:
        raise source.error(
            Code.NOT_FOUND,
            f"there is no {kind} '{name}'",
            tables[0],
            hint=near(name, catalog.names(), "tables and views"),
        )
    if found is not None and found != kind:
        written = {"view": "MATERIALIZED VIEW", "plain view": "VIEW"}.get(found, found.upper())
        raise source.error(
            Code.NOT_FOUND,
            f"'{name}' is a view that is not materialized"
            if found == "plain view" and kind == "view"
            else f"'{name}' is {article(found)}, not {article(kind)}",
            tables[0],
            hint=f"write DROP {written}",
        )
    real = other[1] if relation is None and other is not None else spelled(catalog, name)
    return Drop(kind, real, if_exists=exists, cascade=cascade, **common(source))


def alter(parsed: Parsed, catalog: Catalog) -> Statement:
    """ALTER TABLE ... ADD COLUMN or DROP COLUMN."""
    tree, source = parsed.tree, parsed.source
    if str(tree.args.get("kind")).upper() != "TABLE":
        raise source.unsupported(f"ALTER {str(tree.args.get('kind')).upper()}")
    refuse_clauses(source, tree, {"this", "kind", "actions"})
    schema = base_table(catalog, source, tree.this)
    actions = tree.args["actions"]
    action = actions[0] if len(actions) == 1 else None
    if isinstance(action, exp.ColumnDef):
        return _add_column(source, schema, action)
    if isinstance(action, exp.Drop) and str(action.kind).upper() == "COLUMN":
        return _drop_column(source, schema, action)
    what = "ALTER TABLE with several actions" if action is None else f"ALTER TABLE: {words(action)}"
    raise source.unsupported(what, action or tree, hint="ADD COLUMN and DROP COLUMN are")


def _add_column(source: Source, schema: TableSchema, action: Any) -> AddColumn:
    kinds = _kinds(action)
    if any(isinstance(k, exp.ComputedColumnConstraint) for k in kinds):
        raise source.unsupported("a generated column in ADD COLUMN", action, hint="create the table with it")
    defaults = [k.this for k in kinds if isinstance(k, exp.DefaultColumnConstraint)]
    for kind in kinds:
        if not isinstance(kind, exp.DefaultColumnConstraint):
            raise source.unsupported(f"{_named(kind)} in ADD COLUMN", action)
    if action.kind is None:
        raise source.error(Code.SYNTAX, f"column '{action.name}' has no type", action)
    if_not_exists = bool(action.args.get("exists"))
    if fold(action.name) in {fold(n) for n in schema.names} and not if_not_exists:
        raise source.error(Code.EXISTS, f"table '{schema.name}' has a column '{action.name}' already", action)
    column = Column(action.name, _typed(source, action))
    if not defaults:
        return AddColumn(schema.name, column, None, if_not_exists, **common(source))
    bound = Binder(Scope(source), "DEFAULT").fitting(defaults[0], column.type)
    default = Const(evaluate(bound, {}), column.type)
    text = declared(source, column, defaults[0])[0]
    return AddColumn(schema.name, column, default, if_not_exists, text, **common(source))


def _drop_column(source: Source, schema: TableSchema, action: Any) -> DropColumn:
    tables = action.args.get("tables") or [action.this]
    refuse_clauses(source, action, {"tables", "this", "kind", "exists", "restrict"})
    if len(tables) != 1:
        raise source.unsupported("DROP of several columns at once", action)
    written = tables[0].name
    name = next((n for n in schema.names if fold(n) == fold(written)), None)
    if name is None and not action.args.get("exists"):
        raise missing_column(source, schema, tables[0])
    return DropColumn(
        schema.name, name or written, if_exists=bool(action.args.get("exists")), **common(source)
    )


# -- shared with DML -------------------------------------------------------------------------------------


def base_table(catalog: Catalog, source: Source, node: Any) -> TableSchema:
    """The schema of the base table that a Table node names; a view is refused."""
    name = table_name(source, node)
    schema = catalog.table(name)
    if schema is not None:
        return schema
    found = catalog.relation(name)
    if found is not None and found[0] == "array":
        how = f"cells come and go by db.apply({name}=cells) or db.apply({name}=ef.Delta(inserts, deletes))"
        raise source.unsupported(f"changing the array '{name}' by a statement", node, hint=how)
    if found is not None:
        kind = "view" if found[0] == "plain view" else found[0]
        raise source.unsupported(f"changing the {kind} '{name}'", node, hint="change what it reads")
    hint = near(name, [n for n in catalog.names() if catalog.table(n)], "tables")
    raise source.error(Code.NOT_FOUND, f"there is no table '{name}'", node, hint=hint)


def check_given(source: Source, schema: TableSchema, column: Column, node: Any) -> None:
    """Refuse a value for a column that is computed."""
    if column.name not in schema.given:
        raise source.error(
            Code.ARGUMENT,
            f"column '{column.name}' is generated: it takes no value",
            node,
            hint="leave it out",
        )


def missing_column(source: Source, schema: TableSchema, node: Any) -> EverfreshError:
    """The error for a column that a table does not have."""
    return source.error(
        Code.NOT_FOUND,
        f"table '{schema.name}' has no column '{node.name}'",
        node,
        hint=near(node.name, schema.names, "columns"),
    )


def common(source: Source) -> dict[str, Any]:
    """What every statement carries."""
    return {"text": source.statement, "place": source.start, "dialect": source.dialect}
