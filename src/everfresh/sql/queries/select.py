"""Binding a SELECT: from FROM, WHERE, GROUP BY and HAVING over windows to the SELECT list and its order.

Names resolve as in DuckDB: a column of FROM comes first, an alias of the SELECT list where no column fits;
only a bare name in ORDER BY prefers the alias. Invariant: inside of a statement, a `Project` gives a variable
of its input no other meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from everfresh.errors import Code
from everfresh.expr import build
from everfresh.expr.nodes import Const, Expr, Var
from everfresh.sql import refusals
from everfresh.sql.context import Context
from everfresh.sql.expressions import Binder, unwrap
from everfresh.sql.logical.plan import Distinct, Filter, Limit, Named, Plan, Project, Sort, Window
from everfresh.sql.logical.renaming import canonical, free_variables
from everfresh.sql.logical.row_calls import SortKey, WindowCall
from everfresh.sql.naming.column_names import output_name
from everfresh.sql.queries.aggregates import calls_aggregate
from everfresh.sql.queries.clauses import (
    Query,
    limited,
    position,
    refuse_clauses,
    sort_items,
)
from everfresh.sql.queries.from_clause import bind_from
from everfresh.sql.queries.grouping import Grouping
from everfresh.sql.queries.grouping_sets import grouping_sets
from everfresh.sql.queries.stars import each_column, has_columns, renamed, star_of, starred
from everfresh.sql.queries.unnesting import Unnests
from everfresh.sql.queries.windows import Windows
from everfresh.types import BIGINT, distinct_names, fold

_BOUND = {
    "expressions", "from_", "joins", "where", "group", "having", "distinct", "order", "limit", "offset",
    "hint", "with_", "windows", "qualify",
}  # fmt: skip


@dataclass(frozen=True)
class Item:
    """One column of the SELECT list: its name, whether that is an alias, and its tree."""

    name: str
    aliased: bool
    tree: Any


def bind_select(node: Any, context: Context, outer: Binder | None, alias: str, top: bool) -> Query:
    """A SELECT; at the `top` of a statement its output names are variables as they are."""
    return _Select(node, context, outer, alias, top).bind()


class _Select:
    """One SELECT being bound."""

    def __init__(self, node: Any, context: Context, outer: Binder | None, alias: str, top: bool) -> None:
        source = context.source
        refuse_clauses(source, node, _BOUND)
        if not node.expressions:
            raise source.error(Code.SYNTAX, "SELECT has no columns", node)
        self.node, self.source, self.names, self.alias, self.top = node, source, context.names, alias, top
        self.plan, self.scope = bind_from(node, context, outer)
        self.named = {fold(w.name): w for w in node.args.get("windows") or []}
        self.items = self._expand(node.expressions)
        self.aliases = {fold(i.name): i.tree for i in reversed(self.items) if i.aliased}
        self.windows = Windows(self.names)
        self.lists = Unnests(self.names)  # above groups and windows
        self.grouped_lists = Unnests(self.names)  # below groups, whose keys they are
        self.groups: Grouping | None = None

    def bind(self) -> Query:
        """The plan, bottom up."""
        where = self.node.args.get("where")
        if where is not None:
            asked = (
                [t for _, t in each_column(self.scope, where.this)]
                if has_columns(where.this)
                else [where.this]
            )
            conditions = [self._binder("WHERE").condition(t) for t in asked]
            self.plan = Filter(self.plan, build.conjunction(conditions))
        self.groups = self._groups()
        bound = [self._item(i) for i in range(len(self.items))]
        having, qualify = self.node.args.get("having"), self.node.args.get("qualify")
        kept = None if having is None else self._lifted(having.this, "HAVING", condition=True)
        chosen = None if qualify is None else self._lifted(qualify.this, "QUALIFY", condition=True)
        if qualify is not None and not self.windows.items:
            raise self.source.error(Code.TYPE, "QUALIFY needs a window function", qualify, keyword="QUALIFY")
        order = self._order(bound)
        once = self._distinct_on(bound)
        if self.groups is not None:
            self.plan = self.groups.over(self.grouped_lists.over(self.plan))
        if kept is not None:
            self.plan = Filter(self.plan, kept)
        if self.windows.items:
            self.plan = Window(self.plan, self.windows.items)
        if chosen is not None:
            self.plan = Filter(self.plan, chosen)
        self.plan = self.lists.over(self.plan)
        return Query(self._finish(self._outputs(bound), order, once), tuple(i.name for i in self.items))

    def _binder(
        self, clause: str, upto: int | None = None, windows: bool = False, lists: bool = False
    ) -> Binder:
        aliases = self.aliases
        if upto is not None:  # in the SELECT list, an alias is seen only to its right
            aliases = {fold(i.name): i.tree for i in reversed(self.items[:upto]) if i.aliased}
        return Binder(self.scope, clause, aliases, self.groups is not None, windows=windows, named=self.named,
                      lists=lists)  # fmt: skip

    # -- the SELECT list ----------------------------------------------------------------------------------

    def _expand(self, trees: list[Any]) -> list[Item]:
        items: list[Item] = []
        for tree in map(unwrap, trees):
            star = star_of(tree)
            fields = self._fields(tree, items)
            if fields is not None:
                items += fields
            elif star is not None:
                items += [Item(n, False, t) for n, t in starred(self.scope, tree, star)]
            elif has_columns(tree):
                of = tree.this if isinstance(tree, exp.Alias) else tree
                for name, each in each_column(self.scope, of):
                    aliased = isinstance(tree, exp.Alias)
                    items.append(Item(renamed(tree, tree.alias, name) if aliased else name, aliased, each))
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

    def _fields(self, tree: Any, before: list[Item]) -> list[Item] | None:
        """The fields of a struct as columns: `s.*`, `UNNEST(s)`; None for what is none of these."""
        tree = tree.this if isinstance(tree, exp.Alias) and isinstance(tree.this, exp.Explode) else tree
        if isinstance(tree, exp.Explode):
            of = tree.this
        elif isinstance(tree, exp.Column) and isinstance(tree.this, exp.Star) and not tree.args.get("db"):
            if not tree.table or self.scope.relation(tree.table) is not None or any(tree.this.args.values()):
                return None
            of = exp.Column(this=tree.args["table"])
            if not self.scope.unqualified(tree.table):
                return None
        else:
            return None
        aliases = {fold(i.name): i.tree for i in reversed(before) if i.aliased}
        binder = Binder(self.scope, "SELECT", aliases, True, windows=True, named=self.named)
        type_ = binder.bind(of).type
        if type_.name != "STRUCT":
            return None
        field = exp.Literal.string
        return [Item(n, False, exp.StructExtract(this=of.copy(), expression=field(n))) for n in type_.names]

    def _item(self, i: int) -> Expr:
        binder = self._binder("SELECT", upto=i, windows=True, lists=True)
        return self._lift(binder.bind(self.items[i].tree), self.items[i].tree, binder)

    def _lift(self, expr: Expr, tree: Any, binder: Binder) -> Expr:
        """An expression over the rows that the SELECT list sees."""
        if self.groups is not None:
            expr = self.groups.lift(self.grouped_lists.lift(expr, known=True), tree, binder)
        return self.lists.lift(self.windows.lift(expr))

    def _lifted(self, tree: Any, clause: str, condition: bool = False) -> Expr:
        lists = clause in ("ORDER BY", "DISTINCT ON")
        binder = self._binder(clause, windows=clause != "HAVING", lists=lists)
        return self._lift(binder.condition(tree) if condition else binder.bind(tree), tree, binder)

    def _outputs(self, bound: list[Expr]) -> tuple[Named, ...]:
        """The items with the variables that stand for them: inside of a statement, new ones where needed."""
        if self.top:
            names = distinct_names([i.name for i in self.items])
            return tuple(zip(names, bound, strict=True))
        own = {v.name for v in self.plan.variables}
        outputs: list[Named] = []
        for item, expr in zip(self.items, bound, strict=True):
            if isinstance(expr, Var) and expr.name in own:
                own.discard(expr.name)
                outputs.append((expr.name, expr))
            else:
                hint = item.name if item.name.isidentifier() else "expr"
                outputs.append((self.names.fresh(hint, self.alias), expr))
        return tuple(outputs)

    # -- GROUP BY -----------------------------------------------------------------------------------------

    def _groups(self) -> Grouping | None:
        """The keys of an aggregation, or None if the query has none."""
        group, having = self.node.args.get("group"), self.node.args.get("having")
        trees = [i.tree for i in self.items] + [self.node.args.get(k) for k in ("having", "order", "qualify")]
        trees += list(self.named.values())
        if group is None and having is None and not any(t is not None and calls_aggregate(t) for t in trees):
            return None
        if group is not None:
            refuse_clauses(self.source, group, {"expressions", "all"})
        listed = [] if group is None else self._listed_keys(group)
        inputs = {v.name for v in self.plan.variables}
        lists = not (group is not None and group.args.get("all"))
        groups = Grouping(self.source, inputs, self.names, by_sets=len(listed) > 1 or listed == [()])
        hints = {fold(i.name): i.tree for i in reversed(self.items)}
        binder = self._binder("GROUP BY", lists=lists)
        sets = []
        for listed_keys in listed:
            own = []
            for tree in map(self._positional, listed_keys):
                name = next(
                    (n for n, t in hints.items() if t is tree),
                    tree.name if isinstance(tree, exp.Column) else "",
                )
                key = self.grouped_lists.lift(binder.bind(tree))
                own.append(groups.add_key(self._spelled(name), key))
            sets.append(frozenset(own))
        groups.sets = tuple(sets)
        return groups

    def _listed_keys(self, group: Any) -> list[tuple[Any, ...]]:
        """The sets of keys of GROUP BY."""
        if group.args.get("all"):
            trees = [i.tree for i in self.items if not calls_aggregate(i.tree)]
            binder = self._binder("GROUP BY ALL")
            keys = tuple(t for t in trees if free_variables(binder.bind(t)))
            return [keys] if keys else []
        return grouping_sets(self.source, group.expressions)

    def _spelled(self, name: str) -> str:
        return next((i.name for i in self.items if fold(i.name) == fold(name)), name)

    def _positional(self, tree: Any) -> Any:
        i = position(self.source, tree, "GROUP BY", len(self.items))
        return tree if i is None else self.items[i].tree

    # -- ORDER BY, DISTINCT, LIMIT ------------------------------------------------------------------------

    def _order(self, bound: list[Expr]) -> list[tuple[Expr | int, bool, bool]]:
        """The sort keys: an expression, or the index of the SELECT item that it is."""
        known = [canonical(b) for b in bound]
        keys: list[tuple[Expr | int, bool, bool]] = []
        for tree, ascending, nulls_first in sort_items(self.source, self.node.args.get("order"), len(bound)):
            i = tree if isinstance(tree, int) else self._listed(tree)
            key: Expr | int = self._lifted(tree, "ORDER BY") if i is None else i
            if isinstance(key, Expr) and canonical(key) in known:
                key = known.index(canonical(key))
            keys.append((key, ascending, nulls_first))
        return keys

    def _distinct_on(self, bound: list[Expr]) -> list[Expr | int]:
        """The expressions of which DISTINCT ON takes each combination once, as `_order` has its keys."""
        distinct = self.node.args.get("distinct")
        of = None if distinct is None else distinct.args.get("on")
        if of is None:
            return []
        known = [canonical(b) for b in bound]
        keys: list[Expr | int] = []
        for tree in map(unwrap, of.expressions if isinstance(of, exp.Tuple) else [of]):
            i = position(self.source, tree, "DISTINCT ON", len(bound))
            i = self._listed(tree) if i is None else i
            key: Expr | int = self._lifted(tree, "DISTINCT ON") if i is None else i
            if isinstance(key, Expr) and canonical(key) in known:
                key = known.index(canonical(key))
            keys.append(key)
        return keys

    def _listed(self, tree: Any) -> int | None:
        if not isinstance(tree, exp.Column) or tree.table:
            return None
        return next((k for k, item in enumerate(self.items) if fold(item.name) == fold(tree.name)), None)

    def _finish(
        self, items: tuple[Named, ...], order: list[tuple[Expr | int, bool, bool]], once: list[Expr | int]
    ) -> Plan:
        distinct = self.node.args.get("distinct")
        if not once and not self.top and not self._limits():
            order = []  # inside of a query, an order without a limit is nothing
        hidden: list[Named] = []

        def column(key: Expr | int) -> Var:
            name, expr = (
                items[key] if isinstance(key, int) else (self._hidden_name(len(hidden) + 1, items), key)
            )
            if not isinstance(key, int):
                hidden.append((name, expr))
            return Var(name, expr.type, expr.nullable)

        keys: list[SortKey] = [(column(key), ascending, nulls) for key, ascending, nulls in order]
        if hidden and distinct is not None and not once:
            raise self.source.unsupported(
                "ORDER BY an expression that SELECT DISTINCT does not list", self.node.args["order"]
            )
        by = tuple(column(key) for key in once)
        plan: Plan = Project(self.plan, (*items, *hidden))
        if once:
            plan = self._first_of_each(plan, by, keys)
        elif distinct is not None:
            plan = Distinct(plan)
        plan = Sort(plan, tuple(keys)) if keys and (self.top or not once or self._limits()) else plan
        plan = limited(self.source, self.node, plan)
        extra = len(plan.variables) > len(items)
        return Project(plan, tuple((v.name, v) for v in plan.variables[: len(items)])) if extra else plan

    def _limits(self) -> bool:
        return isinstance(limited(self.source, self.node, self.plan), Limit)

    def _first_of_each(self, plan: Plan, by: tuple[Var, ...], order: list[SortKey]) -> Plan:
        """The first row of each combination of DISTINCT ON; ties are decided by all columns."""
        used = {key.name for key, _, _ in order if isinstance(key, Var)}
        rest = [(v, True, False) for v in plan.variables if v.name not in used]
        number = Var(self.names.numbered("row_number"), BIGINT, False)
        call = WindowCall("row_number", (), by, (*order, *rest), None, BIGINT)
        return Filter(Window(plan, ((number.name, call),)), build.call("=", number, Const(1, BIGINT)))

    def _hidden_name(self, k: int, items: tuple[Named, ...]) -> str:
        """A variable for a sort key that is no output."""
        name = self.names.fresh(f"_order{k}")
        while fold(name) in {fold(n) for n, _ in items}:
            name = self.names.numbered(name)
        return name
