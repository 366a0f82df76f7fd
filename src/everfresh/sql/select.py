"""Binding a SELECT: FROM, WHERE, GROUP BY, HAVING, the SELECT list, DISTINCT, ORDER BY, LIMIT, in that order.

Names resolve as in DuckDB: a column of FROM comes first, an alias of the SELECT list where no column fits;
only a bare name in ORDER BY prefers the alias. Invariant: the output names of a plan are distinct (a second
`x` becomes `x_1`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from everfresh.errors import Code
from everfresh.expr import evaluate
from everfresh.expr.nodes import Expr, Var, variables
from everfresh.sql import refusals
from everfresh.sql.expressions import Binder, is_aggregate, unwrap
from everfresh.sql.grouping import Groups
from everfresh.sql.names import output_name
from everfresh.sql.plan import Aggregate, Distinct, Filter, Limit, Named, Plan, Project, Scan, Single, Sort
from everfresh.sql.scope import Catalog, Relation, Scope, relation_columns
from everfresh.sql.source import Source, near
from everfresh.types import BIGINT

_BOUND = {"expressions", "from_", "where", "group", "having", "distinct", "order", "limit", "offset", "hint"}
_CLAUSES = {  # argument of the tree: what it is called, and the word it starts with
    "with_": ("WITH (a common table expression)", "WITH"),
    "joins": ("a join", "JOIN"),
    "laterals": ("LATERAL", "LATERAL"),
    "windows": ("WINDOW", "WINDOW"),
    "qualify": ("QUALIFY", "QUALIFY"),
    "pivots": ("PIVOT", "PIVOT"),
    "sample": ("a sample", "SAMPLE"),
    "into": ("SELECT INTO", "INTO"),
    "locks": ("FOR UPDATE", "FOR"),
    "when": ("AT (a table at another time)", "AT"),
    "match": ("MATCH_RECOGNIZE", "MATCH_RECOGNIZE"),
    "connect": ("CONNECT BY", "CONNECT"),
    "only": ("ONLY", "ONLY"),
    "sort": ("SORT BY", "SORT"),
    "cluster": ("CLUSTER BY", "CLUSTER"),
    "distribute": ("DISTRIBUTE BY", "DISTRIBUTE"),
}


@dataclass(frozen=True)
class Query:
    """A bound query: its plan, and the output names before repeated ones were made distinct."""

    plan: Plan
    names: tuple[str, ...]

    @property
    def repeated(self) -> str | None:
        """An output name that occurs twice, if there is one."""
        lowered = [n.lower() for n in self.names]
        return next((n for i, n in enumerate(self.names) if n.lower() in lowered[:i]), None)


@dataclass(frozen=True)
class Item:
    """One column of the SELECT list: its name, whether that is an alias, and its tree."""

    name: str
    aliased: bool
    tree: Any


def bind_query(tree: Any, catalog: Catalog, source: Source) -> Query:
    """The plan of a query.

    Only a SELECT over one table or view is in the language for now.
    """
    while isinstance(tree, exp.Subquery) and not any(v for k, v in tree.args.items() if k != "this" and v):
        tree = tree.this
    if not isinstance(tree, exp.Select):
        raise refusals.refuse(source, tree)
    return _Select(tree, catalog, source).bind()


def refuse_clauses(source: Source, node: Any, bound: set[str]) -> None:
    """Refuse a tree with any argument that is not in `bound`."""
    for key, value in node.args.items():
        if not value or key in bound:
            continue
        what, word = _CLAUSES.get(key, (key.strip("_").replace("_", " ").upper(), ""))
        part = value[0] if isinstance(value, list) else value
        raise source.unsupported(what, part if isinstance(part, exp.Expr) else node, keyword=word)


class _Select:
    """One SELECT being bound."""

    def __init__(self, node: Any, catalog: Catalog, source: Source) -> None:
        refuse_clauses(source, node, _BOUND)
        if not node.expressions:
            raise source.error(Code.SYNTAX, "SELECT has no columns", node)
        self.node, self.source = node, source
        self.plan, self.scope = bind_from(node.args.get("from_"), catalog, source)
        self.items = self._expand(node.expressions)
        self.aliases = {i.name.lower(): i.tree for i in reversed(self.items) if i.aliased}

    def bind(self) -> Query:
        """The plan, bottom up."""
        where = self.node.args.get("where")
        if where is not None:
            self.plan = Filter(self.plan, self._binder("WHERE").condition(where.this))
        groups = self._groups()
        bound = [self._item(i, groups) for i in range(len(self.items))]
        having = self.node.args.get("having")
        condition = None
        if having is not None and groups is not None:
            condition = self._lifted(having.this, "HAVING", groups, condition=True)
        names = distinct_names([i.name for i in self.items])
        order = self._order(bound, names, groups)
        if groups is not None:
            self.plan = Aggregate(self.plan, groups.keys, groups.aggregates, groups.grouped)
        if condition is not None:
            self.plan = Filter(self.plan, condition)
        plan = self._finish(tuple(zip(names, bound, strict=True)), order)
        return Query(plan, tuple(i.name for i in self.items))

    def _binder(self, clause: str, upto: int | None = None, aggregates: bool = False) -> Binder:
        aliases = self.aliases
        if upto is not None:  # in the SELECT list, an alias is seen only to its right
            aliases = {i.name.lower(): i.tree for i in reversed(self.items[:upto]) if i.aliased}
        return Binder(self.scope, clause, aliases, aggregates)

    # -- the SELECT list ----------------------------------------------------------------------------------

    def _expand(self, trees: list[Any]) -> list[Item]:
        items: list[Item] = []
        for tree in map(unwrap, trees):
            star = tree.this if isinstance(tree, exp.Column) and isinstance(tree.this, exp.Star) else tree
            if isinstance(star, exp.Star):
                items += self._star(tree, star)
            elif isinstance(tree, exp.Alias):
                items.append(Item(tree.alias, True, tree.this))
            elif isinstance(tree, exp.Column):
                found = self.scope.resolve(tree)
                items.append(Item(found[0] if found else tree.name, False, tree))
            elif isinstance(tree, exp.Aliases):
                raise refusals.refuse(self.source, tree)
            else:
                items.append(Item(output_name(tree, self.source), False, tree))
        return items

    def _star(self, tree: Any, star: Any) -> list[Item]:
        refuse_clauses(self.source, star, {"except_"})
        if not self.scope.relations:
            raise self.source.error(Code.NOT_FOUND, "'*' needs a FROM clause", tree)
        if star is not tree and (tree.args.get("db") or tree.args.get("catalog")):
            raise self.source.unsupported(f"the qualified name '{tree.sql('duckdb')}'", tree)
        relations = self.scope.relations if star is tree else (self.scope.relation(tree.table, tree),)
        columns = [(r, n) for r in relations for n, _ in r.columns]
        left_out = set()
        for column in star.args.get("except_") or []:
            if column.name.lower() not in {n.lower() for _, n in columns}:
                raise self.source.error(
                    Code.NOT_FOUND,
                    f"there is no column '{column.name}' to exclude",
                    column,
                    hint=near(column.name, [n for _, n in columns], "columns"),
                )
            left_out.add(column.name.lower())
        kept = [(r, n) for r, n in columns if n.lower() not in left_out]
        if not kept:
            raise self.source.error(Code.NOT_FOUND, "nothing is left of '*'", tree)
        return [Item(n, False, _reference(r, n, tree)) for r, n in kept]

    def _item(self, i: int, groups: Groups | None) -> Expr:
        binder = self._binder("SELECT", upto=i, aggregates=groups is not None)
        expr = binder.bind(self.items[i].tree)
        return expr if groups is None else groups.lift(expr, self.items[i].tree, binder)

    # -- GROUP BY -----------------------------------------------------------------------------------------

    def _groups(self) -> Groups | None:
        """The keys of an aggregation, or None if the query has none."""
        group, having = self.node.args.get("group"), self.node.args.get("having")
        trees = [i.tree for i in self.items] + [self.node.args.get(k) for k in ("having", "order")]
        if group is None and having is None and not any(t is not None and _aggregates(t) for t in trees):
            return None
        hints = {i.name.lower(): i.tree for i in reversed(self.items)}
        groups = Groups(self.source, {v.name for v in self.plan.variables})
        if group is None:
            return groups
        refuse_clauses(self.source, group, {"expressions", "all"})
        binder = self._binder("GROUP BY")
        if group.args.get("all"):
            trees = [i.tree for i in self.items if not _aggregates(i.tree)]
            keys = [(t, binder.bind(t)) for t in trees]
            keys = [(t, e) for t, e in keys if variables(e)]
        else:
            trees = [t for t in group.expressions if not (isinstance(t, exp.Tuple) and not t.expressions)]
            keys = [(t, binder.bind(t)) for t in map(self._positional("GROUP BY"), trees)]
        for tree, expr in keys:
            name = next(
                (n for n, t in hints.items() if t is tree), tree.name if isinstance(tree, exp.Column) else ""
            )
            groups.add_key(self._spelled(name), expr)
        return groups

    def _spelled(self, name: str) -> str:
        return next((i.name for i in self.items if i.name.lower() == name.lower()), name)

    def _positional(self, clause: str) -> Any:
        def tree_of(tree: Any) -> Any:
            i = self._position(tree, clause)
            return tree if i is None else self.items[i].tree

        return tree_of

    def _position(self, tree: Any, clause: str) -> int | None:
        """The index that a whole number in GROUP BY or ORDER BY stands for."""
        inner = tree.this if isinstance(tree, exp.Neg) else tree
        if not isinstance(inner, exp.Literal) or inner.is_string or not inner.this.isdigit():
            return None
        if inner is not tree or not 1 <= int(inner.this) <= len(self.items):
            raise self.source.error(
                Code.VALUE,
                f"{clause} {'-' if inner is not tree else ''}{inner.this} is out of range",
                tree,
                hint=f"the SELECT list has {len(self.items)} columns",
            )
        return int(inner.this) - 1

    def _lifted(self, tree: Any, clause: str, groups: Groups | None, condition: bool = False) -> Expr:
        """An expression over the rows that the SELECT list sees."""
        binder = self._binder(clause, aggregates=groups is not None)
        expr = binder.condition(tree) if condition else binder.bind(tree)
        return expr if groups is None else groups.lift(expr, tree, binder)

    # -- ORDER BY, DISTINCT, LIMIT ------------------------------------------------------------------------

    def _order(
        self, bound: list[Expr], names: list[str], groups: Groups | None
    ) -> list[tuple[Expr | int, bool, bool]]:
        """The sort keys: an expression, or the index of the SELECT item that it is."""
        order = self.node.args.get("order")
        keys: list[tuple[Expr | int, bool, bool]] = []
        for ordered in order.expressions if order is not None else []:
            ascending, nulls_first = not ordered.args.get("desc"), bool(ordered.args.get("nulls_first"))
            refuse_clauses(self.source, ordered, {"this", "desc", "nulls_first"})
            if isinstance(ordered.this, exp.Var) and ordered.this.name.upper() == "ALL":
                keys += [(i, ascending, nulls_first) for i in range(len(names))]
            else:
                keys.append((self._sort_key(ordered.this, bound, groups), ascending, nulls_first))
        return keys

    def _sort_key(self, tree: Any, bound: list[Expr], groups: Groups | None) -> Expr | int:
        tree = unwrap(tree)
        if isinstance(tree, exp.Literal) and tree.is_string:
            raise self.source.error(Code.TYPE, "ORDER BY a constant has no effect", tree)
        i = self._position(tree, "ORDER BY")
        if i is None and isinstance(tree, exp.Column) and not tree.table:
            i = next((k for k, item in enumerate(self.items) if item.name.lower() == tree.name.lower()), None)
        if i is not None:
            return i
        expr = self._lifted(tree, "ORDER BY", groups)
        return bound.index(expr) if expr in bound else expr

    def _finish(self, items: tuple[Named, ...], order: list[tuple[Expr | int, bool, bool]]) -> Plan:
        distinct = self.node.args.get("distinct")
        if distinct is not None and distinct.args.get("on"):
            raise self.source.unsupported("DISTINCT ON", distinct, keyword="DISTINCT")
        hidden: list[Named] = []
        taken = {name.lower() for name, _ in items}
        keys = []
        for key, ascending, nulls_first in order:
            if isinstance(key, int):
                name, expr = items[key]
            else:
                name, expr = fresh_name(f"_order{len(hidden) + 1}", taken), key
                taken.add(name.lower())
                hidden.append((name, expr))
            keys.append((Var(name, expr.type, expr.nullable), ascending, nulls_first))
        if hidden and distinct is not None:
            raise self.source.unsupported(
                "ORDER BY an expression that SELECT DISTINCT does not list", self.node.args["order"]
            )
        plan: Plan = Project(self.plan, (*items, *hidden))
        plan = Distinct(plan) if distinct is not None else plan
        plan = Sort(plan, tuple(keys)) if keys else plan
        plan = self._limited(plan)
        return Project(plan, tuple((v.name, v) for v in plan.variables[: len(items)])) if hidden else plan

    def _limited(self, plan: Plan) -> Plan:
        limit, offset = self.node.args.get("limit"), self.node.args.get("offset")
        options = limit is not None and limit.args.get("limit_options")
        if options and (options.args.get("percent") or options.args.get("with_ties")):
            what = "LIMIT with PERCENT" if options.args.get("percent") else "WITH TIES"
            raise self.source.unsupported(what, limit, keyword="LIMIT")
        if limit is not None:
            refuse_clauses(self.source, limit, {"expression", "count", "direction", "limit_options"})
        tree = None if limit is None else limit.args.get("count") or limit.args.get("expression")
        count = None if tree is None else self._constant(tree, "LIMIT")
        skipped = 0 if offset is None else self._constant(offset.expression, "OFFSET") or 0
        return plan if count is None and not skipped else Limit(plan, count, skipped)

    def _constant(self, tree: Any, clause: str) -> int | None:
        """The value of LIMIT or OFFSET; None for NULL, which is no limit."""
        binder = Binder(Scope(self.source), clause)
        value = evaluate(binder.fitting(tree, BIGINT), {})
        if value is not None and value < 0:
            raise self.source.error(Code.VALUE, f"{clause} cannot be negative", tree)
        return None if value is None else int(value)


def _aggregates(tree: Any) -> bool:
    """Whether a tree calls an aggregate function, known or not."""
    return any(is_aggregate(n) for n in tree.walk())


def _reference(relation: Relation, name: str, star: Any) -> Any:
    column = exp.column(name, relation.alias, quoted=True)
    if star.this is not None and "start" in star.meta:
        column.meta.update(star.meta)
    return column


def distinct_names(names: list[str]) -> list[str]:
    """The names, repeated ones with a number as DuckDB does it.

    >>> distinct_names(["a", "b", "a", "a"])
    ['a', 'b', 'a_1', 'a_2']
    """
    taken: set[str] = set()
    result = []
    for name in names:
        candidate, k = name, 0
        while candidate.lower() in taken or (k and candidate.lower() in {n.lower() for n in names}):
            k += 1
            candidate = f"{name}_{k}"
        taken.add(candidate.lower())
        result.append(candidate)
    return result


def fresh_name(name: str, taken: set[str]) -> str:
    """`name`, or `name` with underscores in front until it is not taken."""
    while name.lower() in taken:
        name = "_" + name
    return name


def bind_from(node: Any, catalog: Catalog, source: Source) -> tuple[Plan, Scope]:
    """The plan of a FROM clause, and the names it brings."""
    if node is None:
        return Single(), Scope(source)
    table = node.this
    if isinstance(table, exp.Subquery):
        raise source.unsupported("a subquery in FROM", table)
    if not isinstance(table, exp.Table):
        raise refusals.refuse(source, table)
    if not isinstance(table.this, exp.Identifier):
        raise source.unsupported("a table function", table)
    refuse_clauses(source, table, {"this", "alias", "db", "catalog"})
    name, _, columns = relation_columns(catalog, source, table)
    alias = table.args.get("alias")
    scan = Scan(
        name,
        alias.name if alias and alias.name else name,
        tuple(Var(c.name, c.type, c.nullable) for c in columns),
    )
    renamed = [c.name for c in alias.args.get("columns") or []] if alias else []
    if len(renamed) > len(columns):
        raise source.error(Code.VALUE, f"'{name}' has only {len(columns)} columns", alias)
    shown = renamed + [c.name for c in columns[len(renamed) :]]
    return scan, Scope(source, (Relation(scan.alias, tuple(zip(shown, scan.vars, strict=True))),))
