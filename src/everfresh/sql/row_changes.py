"""What UPDATE, DELETE and MERGE change, as queries: of the rows that go, and of what they become.

A statement with other tables or subqueries is written as a SELECT over the parts of its own tree, so that
names, types and NULL rules are those of queries. A row that several rows of the other tables want to change
is changed once: `DISTINCT ON` its key takes the first, by all columns. Rows of a table without a key are told
apart by a number, so that equal ones stay as many as they are. Invariant: a plan yields the columns of the
table, and behind them, where rows become others, the columns of what they become.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sqlglot import exp, parse_one

from everfresh.errors import Code
from everfresh.expr import build
from everfresh.sql.ddl import base_table, check_given, common
from everfresh.sql.defaults import default_of, is_default
from everfresh.sql.logical.plan import Plan, Project, Scan
from everfresh.sql.parse import Parsed
from everfresh.sql.queries.clauses import refuse_clauses
from everfresh.sql.queries.given import goes_by
from everfresh.sql.queries.query import bind_query
from everfresh.sql.scope import Catalog
from everfresh.sql.source import Source
from everfresh.sql.statements import Clause, Merge, Returning
from everfresh.types import BIGINT, Column, SqlType, TableSchema, fold, quoted

ACTION = "merge_action"


class Target:
    """The table that a statement changes, under the name by which its expressions know it."""

    def __init__(self, source: Source, catalog: Catalog, schema: TableSchema, alias: str, with_: Any = None):
        self.source, self.catalog, self.schema, self.alias = source, catalog, schema, alias
        self.with_ = with_
        self.row = "row"
        while schema.find(self.row) is not None:
            self.row += "_"

    def column(self, name: str) -> Any:
        """A column of the table, as an expression."""
        return exp.column(_name(name), table=_name(self.alias))

    def relation(self, numbered: bool) -> Any:
        """The table in FROM; `numbered`: with a number for each row."""
        table, alias = quoted(self.schema.name), quoted(self.alias)
        inner = f"(SELECT *, ROW_NUMBER() OVER () AS {quoted(self.row)} FROM {table})" if numbered else table
        return _read(f"SELECT 1 FROM {inner} AS {alias}").args["from_"].this

    def bound(self, select: Any, new: bool) -> Plan:
        """The plan of a query that yields the table's columns, once, or again for the new rows."""
        if self.with_ is not None:
            select.set("with_", self.with_.copy())
        plan = bind_query(select, self.catalog, self.source).plan
        n = len(self.schema.columns)
        columns = [*self.schema.columns, *self.schema.columns][: 2 * n if new else n]
        if len(plan.variables) > len(columns):
            columns.append(Column(self.row, BIGINT))
        pairs = zip(columns, plan.variables, strict=True)
        items = [(f"{i}", v if v.type == c.type else build.cast(v, c.type)) for i, (c, v) in enumerate(pairs)]
        return Project(plan, tuple(items))

    def changed(
        self, using: Sequence[Any], where: Any, become: Mapping[str, Any] | None, *, joined: Any = None
    ) -> Plan:
        """The rows for which `where` holds with some row of `using`, and what they become, if that is given.
        With `joined`, a row for each that it holds with, and behind it its number if there is no key."""
        own = [self.column(c.name) for c in self.schema.columns]
        new = (
            [become.get(c.name, self.column(c.name)) for c in self.schema.columns]
            if become is not None
            else []
        )
        if using and become is None and joined is None:
            found = exp.Exists(this=_select([exp.Literal.number(1)], using, None, where))
            return self.bound(_select(own, [], self.relation(False), found), False)
        numbered = bool(using) and not self.schema.key
        number = [self.column(self.row)] if joined is not None and not self.schema.key else []
        numbered = numbered or bool(number)
        select = _select(own + new + number, using, self.relation(numbered), where)
        if using and joined is None:
            keys = self.schema.key if self.schema.key else (self.row,)
            select.set("distinct", exp.Distinct(on=exp.Tuple(expressions=[self.column(k) for k in keys])))
        return self.bound(select, become is not None)


def _name(name: str) -> Any:
    return exp.to_identifier(name, quoted=True)


def _read(text: str) -> Any:
    """A tree of text of our own, which stands nowhere in the user's."""
    tree = parse_one(text, dialect="duckdb")
    for node in tree.walk():
        node.meta.clear()
    return tree


def _select(expressions: list[Any], using: Sequence[Any], target: Any, where: Any) -> Any:
    """SELECT expressions FROM using CROSS JOIN target WHERE where, of copies of these trees."""
    relations: list[Any] = []
    joins: list[Any] = []
    for factor in using:
        factor = factor.copy()
        inner = factor.args.pop("joins", None) or []
        joins += [exp.Join(this=factor, kind="CROSS")] if relations else []
        relations.append(factor)
        joins += inner
    if target is not None and relations:
        joins.append(exp.Join(this=target, kind="CROSS"))
    first = relations[0] if relations else target
    select = exp.Select(
        expressions=[e.copy() for e in expressions], from_=exp.From(this=first), joins=joins or None
    )
    if where is not None:
        select.set("where", exp.Where(this=where.copy()))
    return select


# -- RETURNING -------------------------------------------------------------------------------------------


def returning(target: Target, tree: Any, *, action: bool = False) -> Returning | None:
    """What a statement returns of the rows that it changes."""
    clause = tree.args.get("returning")
    if not clause:
        return None
    source = target.source
    refuse_clauses(source, clause, {"expressions"})
    subquery = next((e for e in clause.expressions if e.find(exp.Query)), None)
    if subquery is not None:
        raise source.unsupported("a subquery in RETURNING", clause, keyword="RETURNING")
    calls = next((e for e in clause.expressions if e.find(exp.AggFunc, exp.Window)), None)
    if calls is not None:
        raise source.unsupported("an aggregate in RETURNING", clause, keyword="RETURNING")
    relation = target.relation(False)
    catalog = _Changed(target.catalog, target.schema, action)
    columns = [target.column(c.name) for c in target.schema.columns]
    given = [
        one.copy() for e in clause.expressions for one in (columns if action and e == exp.Star() else [e])
    ]
    select = exp.Select(expressions=given, from_=exp.From(this=relation))
    plan = bind_query(select, catalog, source).plan
    if not any(isinstance(n, Scan) for n in plan.walk()):
        raise source.unsupported("RETURNING of this", clause, keyword="RETURNING")
    return Returning(plan, action)


class _Changed:
    """The catalog as RETURNING sees it: one table, of a MERGE with the action before its columns."""

    plain: Mapping[str, Plan] = MappingProxyType({})
    types: Mapping[str, SqlType] = MappingProxyType({})

    def __init__(self, catalog: Catalog, schema: TableSchema, action: bool) -> None:
        from everfresh.types import VARCHAR

        columns = (Column(ACTION, VARCHAR, False), *schema.columns) if action else schema.columns
        self._name, self._columns, self._catalog = schema.name, columns, catalog

    def relation(self, name: str) -> tuple[str, tuple[Column, ...]] | None:
        """As in `Catalog`."""
        return ("table", self._columns) if fold(name) == fold(self._name) else None

    def table(self, name: str) -> TableSchema | None:
        """As in `Catalog`."""
        return TableSchema(self._name, self._columns) if fold(name) == fold(self._name) else None

    def names(self) -> list[str]:
        """As in `Catalog`."""
        return [self._name]

    def other(self, name: str) -> tuple[str, str] | None:
        """As in `Catalog`."""
        return None


# -- MERGE -----------------------------------------------------------------------------------------------


def merge(parsed: Parsed, catalog: Catalog) -> Merge:
    """MERGE INTO table USING relation ON condition | USING (columns) WHEN ... THEN ..."""
    tree, source = parsed.tree, parsed.source
    refuse_clauses(source, tree, {"this", "using", "on", "using_cond", "whens", "returning", "with_"})
    if not isinstance(tree.this, exp.Table):
        raise source.error(Code.SYNTAX, "MERGE needs a table", tree)
    refuse_clauses(source, tree.this, {"this", "alias", "db", "catalog"})
    schema = base_table(catalog, source, tree.this)
    alias = tree.this.args.get("alias")
    shown = alias.name if alias is not None and alias.name else schema.name
    target = Target(source, catalog, schema, shown, tree.args.get("with_"))
    using = tree.args["using"]
    if isinstance(using, exp.Table) and using.args.get("alias") is None:
        using = using.copy()
        using.set("alias", exp.TableAlias(this=_name(goes_by(catalog, using))))
    on = tree.args.get("on") or _equal(target, using, tree.args.get("using_cond") or [])
    clauses: list[Clause] = []
    before: dict[str, list[Any]] = {}
    for when in tree.args["whens"].expressions:
        refuse_clauses(source, when, {"matched", "source", "condition", "then"})
        kind = "matched" if when.args.get("matched") else "source" if when.args.get("source") else "target"
        condition = when.args.get("condition")
        earlier = before.setdefault(kind, [])
        if any(c is None for c in earlier):
            continue  # nothing is left for it
        tests = ([condition.copy()] if condition is not None else []) + [_not_true(c) for c in earlier]
        earlier.append(condition)
        clause = _clause(target, using, on, kind, exp.and_(*tests) if tests else None, when.args["then"])
        if clause is not None:
            clauses.append(clause)
    return Merge(schema.name, tuple(clauses), returning(target, tree, action=True), **common(source))


def _equal(target: Target, using: Any, names: Sequence[Any]) -> Any:
    other = using.alias_or_name
    pairs = [
        exp.EQ(this=target.column(n.name), expression=exp.column(_name(n.name), table=_name(other)))
        for n in names
    ]
    if not pairs:
        raise target.source.error(Code.SYNTAX, "MERGE needs ON or USING (columns)")
    return exp.and_(*pairs)


def _not_true(condition: Any) -> Any:
    return exp.Not(this=exp.Coalesce(this=exp.Paren(this=condition.copy()), expressions=[exp.false()]))


def _clause(target: Target, using: Any, on: Any, kind: str, test: Any, then: Any) -> Clause | None:
    """What one WHEN does to which rows; nothing for DO NOTHING."""
    source = target.source
    word = then.name.upper() if isinstance(then, exp.Var) else ""
    if word in ("DO NOTHING", "NOTHING"):
        return None
    parts = [exp.Paren(this=on.copy())] + ([exp.Paren(this=test)] if test is not None else [])
    if kind == "target":
        if not isinstance(then, exp.Insert):
            raise source.unsupported("WHEN NOT MATCHED THEN anything but INSERT", then)
        found = exp.Exists(this=_select([exp.Literal.number(1)], [], target.relation(False), on))
        tests = [exp.Not(this=found), *parts[1:]]
        values = _inserted(target, using, then)
        select = _select(values, [using], None, exp.and_(*tests))
        return Clause("insert", target.bound(select, False))
    if kind == "source":
        found = exp.Exists(this=_select([exp.Literal.number(1)], [using], None, on))
        where, relations = exp.and_(exp.Not(this=found), *parts[1:]), []
    else:
        where, relations = exp.and_(*parts), [using]
    if word == "DELETE":
        return Clause("delete", target.changed(relations, where, None, joined=True))
    if isinstance(then, exp.Update):
        return Clause("update", target.changed(relations, where, _assigned(target, using, then), joined=True))
    raise source.unsupported(f"THEN {word or type(then).__name__.upper()} in MERGE", then)


def _source_columns(target: Target, using: Any) -> list[str]:
    """The columns of what a MERGE reads."""
    select = _select([exp.Star()], [using], None, None)
    if target.with_ is not None:
        select.set("with_", target.with_.copy())
    return [c.name for c in bind_query(select, target.catalog, target.source).plan.columns]


def _assigned(target: Target, using: Any, then: Any) -> dict[str, Any]:
    from everfresh.sql.dml import assigned

    if then.expressions:
        return assigned(target.source, then.expressions, target.schema)
    found = {}
    for name in _source_columns(target, using):  # UPDATE alone: all columns by their names
        column = target.schema.find(name)
        if column is not None and column.name in target.schema.given:
            found[column.name] = exp.column(_name(name), table=_name(using.alias_or_name))
    return found


def _inserted(target: Target, using: Any, then: Any) -> list[Any]:
    """The values of a row of INSERT, in the table's order; of those that are left out the default."""
    source, schema = target.source, target.schema
    listed = then.this.expressions if isinstance(then.this, exp.Tuple) else []
    values = then.expression
    other = _name(using.alias_or_name)
    if not values:  # INSERT alone: all columns by their places
        names = _source_columns(target, using)
        trees = [exp.column(_name(n), table=other.copy()) for n in names]
    else:
        trees = list(values.expressions) if isinstance(values, exp.Tuple) else [values]
    names = [n.name for n in listed] or list(schema.given)
    if len(names) != len(trees):
        raise source.error(
            Code.VALUE, f"{len(trees)} values for {len(names)} columns of '{schema.name}'", then
        )
    found: dict[str, Any] = {}
    for name, tree in zip(names, trees, strict=True):
        column = schema.find(name)
        if column is None:
            raise source.error(Code.NOT_FOUND, f"table '{schema.name}' has no column '{name}'", then)
        if column.name in found:
            raise source.error(Code.EXISTS, f"column '{column.name}' is listed twice", then)
        check_given(source, schema, column, then)
        found[column.name] = tree
    given = {name: tree for name, tree in found.items() if not is_default(tree)}
    return [given.get(c.name, default_of(schema, c.name)) for c in schema.columns]
