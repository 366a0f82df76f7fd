"""Binding INSERT, DELETE, TRUNCATE, UPDATE and COPY.

Invariant: an expression for a column has the column's type; a column is assigned at most once.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from everfresh.errors import Code
from everfresh.expr import build
from everfresh.expr.nodes import Expr, Var
from everfresh.sql.ddl import base_table, check_given, common, missing_column
from everfresh.sql.defaults import default_of, is_default
from everfresh.sql.expressions import Binder
from everfresh.sql.logical.plan import Plan, Project
from everfresh.sql.parse import Parsed
from everfresh.sql.queries.clauses import refuse_clauses
from everfresh.sql.queries.query import bind_query
from everfresh.sql.row_changes import Target, returning
from everfresh.sql.scope import Catalog, Relation, Scope
from everfresh.sql.source import Source
from everfresh.sql.statements import Assignments, Conflict, Copy, CopyTo, Delete, Insert, Update
from everfresh.types import Column, TableSchema

EXCLUDED = "excluded"


# -- INSERT ----------------------------------------------------------------------------------------------

_INSERT = {"this", "default", "expression", "conflict", "alternative", "returning"}


def insert(parsed: Parsed, catalog: Catalog) -> Insert:
    """INSERT ... VALUES, INSERT ... SELECT, with OR REPLACE, OR IGNORE or ON CONFLICT."""
    tree, source = parsed.tree, parsed.source
    _refuse_rest(source, tree, _INSERT)
    target = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    if not isinstance(target, exp.Table):
        raise source.unsupported("this target of INSERT", tree)
    schema = base_table(catalog, source, target)
    columns = _insert_columns(source, schema, tree.this)
    query = tree.expression
    if tree.args.get("default"):
        row = [exp.Var(this="DEFAULT") for _ in columns]
        query = exp.Values(expressions=[exp.Tuple(expressions=row)])
    if query is None:
        raise source.error(Code.SYNTAX, "INSERT needs VALUES or a query", tree)
    rows: list[list[Expr]] | None = None
    plan: Plan | None = None
    if isinstance(query, exp.Values):
        rows = _rows(source, query, schema, columns)
    else:
        plan = _insert_plan(source, query, catalog, schema, columns)
    alias = _alias(target, schema)
    filled = columns + _left_out(schema, columns)
    return Insert(
        schema.name,
        tuple(c.name for c in filled),
        rows,
        plan,
        _conflict(source, tree, schema, columns, alias),
        returning(Target(source, catalog, schema, alias), tree),
        **common(source),
    )


def _refuse_rest(source: Source, tree: Any, bound: set[str]) -> None:
    named = {"by_name": "INSERT BY NAME", "overwrite": "INSERT OVERWRITE"}
    for key, what in named.items():
        if tree.args.get(key):
            raise source.unsupported(what, tree)
    refuse_clauses(source, tree, bound)


def _alias(target: Any, schema: TableSchema) -> str:
    alias = target.args.get("alias")
    return str(alias.name) if alias is not None and alias.name else schema.name


def _column(source: Source, schema: TableSchema, node: Any) -> Column:
    found = schema.find(node.name)
    if found is None:
        raise missing_column(source, schema, node)
    return found


def _insert_columns(source: Source, schema: TableSchema, node: Any) -> list[Column]:
    if not isinstance(node, exp.Schema):
        return [schema.column(name) for name in schema.given]
    columns: dict[str, Column] = {}
    for part in node.expressions:
        column = _column(source, schema, part)
        if column.name in columns:
            raise source.error(Code.EXISTS, f"column '{column.name}' is listed twice", part)
        check_given(source, schema, column, part)
        columns[column.name] = column
    return list(columns.values())


def _rows(source: Source, values: Any, schema: TableSchema, columns: list[Column]) -> list[list[Expr]]:
    binder = Binder(Scope(source), "VALUES")
    rows = []
    for row in values.expressions:
        trees = row.expressions if isinstance(row, exp.Tuple) else [row]
        if len(trees) != len(columns):
            raise source.error(
                Code.VALUE,
                f"{len(trees)} values for {len(columns)} columns of '{schema.name}'",
                row,
                hint="columns are: " + ", ".join(c.name for c in columns),
            )
        given = [
            default_of(schema, c.name) if is_default(t) else t for t, c in zip(trees, columns, strict=True)
        ]
        given += [default_of(schema, c.name) for c in _left_out(schema, columns)]
        filled = columns + _left_out(schema, columns)
        rows.append([binder.fitting(t, c.type) for t, c in zip(given, filled, strict=True)])
    return rows


def _left_out(schema: TableSchema, columns: list[Column]) -> list[Column]:
    """The columns with a DEFAULT that are not listed."""
    if not schema.defaults:
        return []
    listed = {c.name for c in columns}
    return [schema.column(name) for name, _ in schema.defaults if name not in listed]


def _insert_plan(
    source: Source, query: Any, catalog: Catalog, schema: TableSchema, columns: list[Column]
) -> Plan:
    plan = bind_query(query, catalog, source).plan
    found = plan.variables
    if len(found) != len(columns):
        raise source.error(
            Code.VALUE, f"{len(found)} values for {len(columns)} columns of '{schema.name}'", query
        )
    items = [(c.name, build.cast(v, c.type)) for c, v in zip(columns, found, strict=True)]
    binder = Binder(Scope(source), "DEFAULT")
    for c in _left_out(schema, columns):
        items.append((c.name, binder.fitting(default_of(schema, c.name), c.type)))
    return Project(plan, tuple(items))


# -- ON CONFLICT -----------------------------------------------------------------------------------------


def _conflict(
    source: Source, tree: Any, schema: TableSchema, columns: list[Column], alias: str
) -> Conflict | None:
    alternative = str(tree.args.get("alternative") or "").upper()
    clause = tree.args.get("conflict")
    if not alternative and clause is None:
        return None
    if not schema.key:
        what = f"INSERT OR {alternative}" if alternative else "ON CONFLICT"
        raise source.error(Code.ARGUMENT, f"{what} needs a primary key, and '{schema.name}' has none", tree)
    if alternative and clause is not None:
        raise source.unsupported(f"INSERT OR {alternative} with ON CONFLICT", tree)
    if alternative == "IGNORE":
        return Conflict(schema.key, "nothing")
    if alternative == "REPLACE":
        others = [c for c in columns if c.name not in schema.key]
        return Conflict(schema.key, "update", tuple((c.name, _excluded(c)) for c in others))
    if alternative:
        raise source.unsupported(f"INSERT OR {alternative}", tree)
    return _on_conflict(source, clause, schema, alias)


def _excluded(column: Column) -> Var:
    return Var(f"{EXCLUDED}.{column.name}", column.type, column.nullable)


def _on_conflict(source: Source, clause: Any, schema: TableSchema, alias: str) -> Conflict:
    if clause.args.get("duplicate"):
        raise source.unsupported("ON DUPLICATE KEY", clause, hint="write ON CONFLICT (key) DO UPDATE SET ...")
    if clause.args.get("constraint"):
        raise source.unsupported("ON CONFLICT ON CONSTRAINT", clause)
    refuse_clauses(source, clause, {"expressions", "action", "conflict_keys", "where"})
    trees = [k.this if isinstance(k, exp.Ordered) else k for k in clause.args.get("conflict_keys") or []]
    keys = [_column(source, schema, k).name for k in trees]
    if keys and set(keys) != set(schema.key):
        raise source.error(
            Code.ARGUMENT,
            f"({', '.join(keys)}) is not the primary key of '{schema.name}'",
            trees[0],
            hint=f"the primary key is ({', '.join(schema.key)})",
        )
    action = str(clause.args["action"].name).upper() if clause.args.get("action") else ""
    if action == "DO NOTHING":
        return Conflict(schema.key, "nothing")
    if action != "DO UPDATE":
        raise source.error(Code.SYNTAX, "ON CONFLICT needs DO NOTHING or DO UPDATE SET", clause)
    here = Relation(alias, tuple((c.name, Var(c.name, c.type, c.nullable)) for c in schema.columns))
    there = Relation(EXCLUDED, tuple((c.name, _excluded(c)) for c in schema.columns))
    scope = Scope(source, (here, there), frozenset({EXCLUDED}))
    where = clause.args.get("where")
    return Conflict(
        schema.key,
        "update",
        _assignments(source, clause.expressions, schema, Binder(scope, "SET")),
        None if where is None else Binder(scope, "WHERE").condition(where.this),
    )


# -- UPDATE, DELETE --------------------------------------------------------------------------------------


def _assignments(source: Source, trees: list[Any], schema: TableSchema, binder: Binder) -> Assignments:
    found = assigned(source, trees, schema)
    return tuple((n, binder.fitting(tree, schema.column(n).type)) for n, tree in found.items())


def assigned(source: Source, trees: list[Any], schema: TableSchema) -> dict[str, Any]:
    """The columns that SET assigns to, with what they are assigned."""
    found: dict[str, Any] = {}
    for tree in [part for whole in trees for part in _single(source, whole)]:
        if not isinstance(tree, exp.EQ) or not isinstance(tree.this, exp.Column):
            raise source.unsupported(
                "this form of SET", tree, hint="write SET column = value, column = value"
            )
        if tree.this.table:
            raise source.error(Code.SYNTAX, "a column in SET has no qualifier", tree)
        column = _column(source, schema, tree.this)
        if column.name in found:
            raise source.error(Code.EXISTS, f"column '{column.name}' is assigned twice", tree)
        check_given(source, schema, column, tree)
        value = tree.expression
        found[column.name] = default_of(schema, column.name) if is_default(value) else value
    if not found:
        raise source.error(Code.SYNTAX, "SET assigns nothing")
    return found


def _single(source: Source, tree: Any) -> list[Any]:
    """The assignments in one of `(a, b) = (x, y)`."""
    left, right = tree.this, tree.args.get("expression")
    if not isinstance(left, exp.Tuple) or not isinstance(right, exp.Tuple):
        return [tree]
    if len(left.expressions) != len(right.expressions):
        raise source.error(
            Code.VALUE, f"{len(right.expressions)} values for {len(left.expressions)} columns", tree
        )
    pairs = zip(left.expressions, right.expressions, strict=True)
    return [exp.EQ(this=a, expression=b) for a, b in pairs]


def _scope(source: Source, schema: TableSchema, target: Any) -> Scope:
    columns = tuple((c.name, Var(c.name, c.type, c.nullable)) for c in schema.columns)
    return Scope(source, (Relation(_alias(target, schema), columns),))


def _where(tree: Any, scope: Scope) -> Expr | None:
    where = tree.args.get("where")
    return None if where is None else Binder(scope, "WHERE").condition(where.this)


def _target(source: Source, tree: Any, verb: str) -> Any:
    if not isinstance(tree.this, exp.Table):
        raise source.error(Code.SYNTAX, f"{verb} needs a table", tree)
    refuse_clauses(source, tree.this, {"this", "alias", "db", "catalog"})
    return tree.this


def update(parsed: Parsed, catalog: Catalog) -> Update:
    """UPDATE table SET column = expression [FROM relations] [WHERE condition] [RETURNING ...]."""
    tree, source = parsed.tree, parsed.source
    _refuse_rest(source, tree, {"this", "expressions", "where", "from_", "with_", "returning"})
    node = _target(source, tree, "UPDATE")
    schema = base_table(catalog, source, node)
    target = Target(source, catalog, schema, _alias(node, schema), tree.args.get("with_"))
    returned = returning(target, tree)
    if tree.args.get("from_") is None and not _asks(tree.expressions, tree.args.get("where")):
        scope = _scope(source, schema, node)
        assignments = _assignments(source, tree.expressions, schema, Binder(scope, "SET"))
        return Update(schema.name, assignments, _where(tree, scope), None, returned, **common(source))
    new = assigned(source, tree.expressions, schema)
    using = [tree.args["from_"].this] if tree.args.get("from_") is not None else []
    plan = target.changed(using, _condition(tree), new)
    return Update(schema.name, (), None, plan, returned, **common(source))


def delete(parsed: Parsed, catalog: Catalog) -> Delete:
    """DELETE FROM table [USING relations] [WHERE condition] [RETURNING ...]."""
    tree, source = parsed.tree, parsed.source
    _refuse_rest(source, tree, {"this", "where", "using", "with_", "returning"})
    node = _target(source, tree, "DELETE")
    schema = base_table(catalog, source, node)
    target = Target(source, catalog, schema, _alias(node, schema), tree.args.get("with_"))
    returned = returning(target, tree)
    using = tree.args.get("using") or []
    if not using and not _asks(tree.args.get("where")):
        where = _where(tree, _scope(source, schema, node))
        return Delete(schema.name, where, None, returned, **common(source))
    plan = target.changed(using, _condition(tree), None)
    return Delete(schema.name, None, plan, returned, **common(source))


def _asks(*trees: Any) -> bool:
    """Whether there is a query in one of these."""
    flat = [one for tree in trees if tree is not None for one in (tree if isinstance(tree, list) else [tree])]
    return any(one.find(exp.Query) is not None for one in flat)


def _condition(tree: Any) -> Any:
    where = tree.args.get("where")
    return None if where is None else where.this


def truncate(parsed: Parsed, catalog: Catalog) -> Delete:
    """TRUNCATE [TABLE] table: all rows go."""
    tree, source = parsed.tree, parsed.source
    refuse_clauses(source, tree, {"expressions"})
    if len(tree.expressions) != 1 or not isinstance(tree.expressions[0], exp.Table):
        raise source.unsupported("TRUNCATE of anything but one table", tree)
    return Delete(base_table(catalog, source, tree.expressions[0]).name, **common(source))


# -- COPY ------------------------------------------------------------------------------------------------


def copy(parsed: Parsed, catalog: Catalog) -> Copy | CopyTo:
    """COPY table FROM 'file' (options), COPY table | (query) TO 'file' (options)."""
    tree, source = parsed.tree, parsed.source
    if not tree.args.get("kind"):
        return _copy_to(source, tree, catalog)
    if isinstance(tree.this, exp.Schema):
        raise source.unsupported("COPY with a list of columns", tree.this)
    schema = base_table(catalog, source, tree.this)
    files = tree.args.get("files") or []
    if len(files) != 1 or not isinstance(files[0], exp.Literal):
        raise source.error(Code.SYNTAX, "COPY reads one file, given as 'path'", tree)
    options = _options(source, tree)
    kind: Any = _format(source, options.pop("format", None), ("csv", "parquet"))
    return Copy(schema.name, files[0].name, kind, options, **common(source))


def _copy_to(source: Source, tree: Any, catalog: Catalog) -> CopyTo:
    files = tree.args.get("files") or []
    if len(files) != 1 or not isinstance(files[0], exp.Literal) or not files[0].is_string:
        raise source.error(Code.SYNTAX, "COPY writes one file, given as 'path'", tree)
    what: Any = tree.this
    if isinstance(what, exp.Schema):
        names = [exp.column(c.copy()) for c in what.expressions]
        what = exp.Select(expressions=names, from_=exp.From(this=what.this.copy()))
    elif isinstance(what, exp.Table):
        what = exp.Select(expressions=[exp.Star()], from_=exp.From(this=what.copy()))
    options = _options(source, tree)
    kind: Any = _format(source, options.pop("format", None), ("csv", "json", "parquet"))
    known = {"header": bool, "delimiter": str, "delim": str, "sep": str}
    for name, value in options.items():
        if name not in known or not isinstance(value, known[name]) or value == "":
            raise source.unsupported(
                f"the option {name.upper()} of COPY ... TO, with this value",
                tree,
                hint="options are: FORMAT (csv, json, parquet), HEADER (true, false), DELIMITER ('text')",
            )
    plan = bind_query(what, catalog, source).plan
    return CopyTo(plan, files[0].name, kind, options, **common(source))


def _options(source: Source, tree: Any) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for parameter in tree.args.get("params") or []:
        name = parameter.name.lower()
        if name in options:
            raise source.error(Code.SYNTAX, f"option '{name}' is given twice")
        options[name] = _option(source, parameter)
    return options


def _option(source: Source, parameter: Any) -> Any:
    value = parameter.expression
    if value is None:
        return True
    if isinstance(value, exp.Boolean):
        return bool(value.this)
    if isinstance(value, exp.Literal) and not value.is_string:
        return int(value.name) if value.name.isdigit() else float(value.name)
    if isinstance(value, (exp.Literal, exp.Var, exp.Column, exp.Identifier)):
        text = str(value.name)
        known = {"true": True, "false": False}
        return text if isinstance(value, exp.Literal) else known.get(text.lower(), text)
    raise source.unsupported(f"this value of the option {parameter.name.upper()}", value)


def _format(source: Source, value: Any, known: tuple[str, ...]) -> str | None:
    if value is None:
        return None
    if str(value).lower() not in known:
        raise source.unsupported(f"the format '{value}'", hint=f"formats are: {', '.join(known)}")
    return str(value).lower()
