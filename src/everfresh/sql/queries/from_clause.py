"""Binding FROM: tables, views, common table expressions, derived tables, VALUES, and joins of them.

Commas bind weaker than JOIN. A column of USING or NATURAL is one column for the query: that of the side that
is never padded, COALESCE of both for FULL. Invariant: the scope's variables are those that the plan yields,
and a relation's name stands once in a FROM.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from everfresh.errors import Code
from everfresh.expr import build
from everfresh.expr.nodes import Expr, Var
from everfresh.sql import refusals
from everfresh.sql.context import Context
from everfresh.sql.expressions import Binder
from everfresh.sql.logical.plan import ExistsSubquery, Filter, Join, Plan, Project, Scan, Single
from everfresh.sql.logical.subqueries import lateral
from everfresh.sql.queries.asof import asof_join
from everfresh.sql.queries.clauses import Query, refuse_clauses
from everfresh.sql.queries.given import file_function, given_function, given_name, not_given
from everfresh.sql.queries.list_relations import (
    is_list_relation,
    list_relation,
    listed_columns,
    name_of,
    paired,
)
from everfresh.sql.queries.pivots import pivoted
from everfresh.sql.queries.time_windows import is_time_window, time_window
from everfresh.sql.scope import Merged, Relation, Scope, relation_columns
from everfresh.sql.source import near
from everfresh.types import distinct_names, fold

Bound = tuple[Plan, Scope]
_JOIN = {"this", "side", "kind", "on", "using", "method"}
_TABLE = {"this", "alias", "db", "catalog", "joins"}
_LISTS = {"this", "alias", "joins", "expressions", "offset", "ordinality"}
_DERIVED = {"this", "expressions", "alias", "joins", "order", "limit", "offset", "with_"}


def bind_from(node: Any, context: Context, outer: Binder | None) -> Bound:
    """The plan of the FROM clause of a SELECT, and the names it brings."""
    first = node.args.get("from_")
    empty = Scope(context.source, context=context, outer=outer)
    if first is None:
        if node.args.get("joins"):
            raise context.source.error(Code.SYNTAX, "a join needs FROM", node.args["joins"][0])
        return Single(), empty
    return _From(context, outer).bind(first.this, node.args.get("joins") or [])


class _From:
    """One FROM clause being bound."""

    def __init__(self, context: Context, outer: Binder | None) -> None:
        self.context, self.source, self.outer = context, context.source, outer
        self.unnamed = 0

    def bind(self, first: Any, joins: list[Any]) -> Bound:
        """The whole clause: chains of joins with commas between them."""
        chains: list[tuple[Any, list[Any]]] = [(first, [])]
        for join in joins:
            if self._is_comma(join):
                chains.append((join.this, []))
            else:
                chains[-1][1].append(join)
        plan, scope = self._chain(*chains[0], self._empty())
        for factor, rest in chains[1:]:
            right, names = self._chain(factor, rest, scope)
            plan, scope = paired("inner", plan, right, None), self._together(scope, names, factor)
        return plan, replace(scope, outer=self.outer)

    def _empty(self) -> Scope:
        return Scope(self.source, context=self.context, outer=self.outer)

    def _is_comma(self, join: Any) -> bool:
        if any(join.args.get(k) for k in ("side", "kind", "on", "using", "method")):
            return False
        i = self.source.index(join.this)
        words = [t.text.upper() for t in reversed(self.source.tokens[: i or 0])]
        return next((w for w in words if w in (",", "JOIN")), ",") == ","

    def _chain(self, factor: Any, joins: list[Any], beside: Scope) -> Bound:
        """A relation and the joins that follow it; `beside` is what stands to the left of the comma."""
        plan, scope = self._factor(factor, beside)
        for join in joins:
            plan, scope = self._join(join, plan, scope, beside)
        return plan, scope

    # -- relations ----------------------------------------------------------------------------------------

    def _factor(self, node: Any, beside: Scope) -> Bound:
        """One relation, with the joins that are written before it is joined itself."""
        if node.args.get("pivots"):
            plan, scope = self._pivoted(node, beside)
        elif isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            refuse_clauses(self.source, node, _TABLE)
            plan, scope = self._table(node)
        elif isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table):
            refuse_clauses(self.source, node, {"this", "alias", "joins"})
            plan, scope = self._group(node, beside)
        elif is_time_window(node):
            refuse_clauses(self.source, node, {"this", "alias", "joins"})
            plan, scope = self._time_window(node, beside)
        elif isinstance(node, (exp.Subquery, exp.Values)):
            refuse_clauses(self.source, node, _DERIVED)
            plan, scope = self._derived(node, beside)
        elif is_list_relation(node):
            refuse_clauses(
                self.source, node, {"this", "alias", "joins", "expressions", "offset", "ordinality"}
            )
            plan, scope = self._lists(node, beside)
        elif isinstance(node, exp.Lateral) and isinstance(node.this, exp.Subquery):
            refuse_clauses(self.source, node, {"this", "alias", "view", "outer"})
            refuse_clauses(self.source, node.this, _DERIVED - {"alias"})
            plan, scope = self._derived(node, beside)
        elif file_function(node) is not None:
            refuse_clauses(self.source, node, _TABLE)
            plan, scope = self._relation(*given_function(self.context, node), node)
        elif isinstance(node, (exp.Table, exp.Unnest, exp.Func)):
            raise self.source.unsupported("a table function", node)
        else:
            raise refusals.refuse(self.source, node)
        return self._chain_on(plan, scope, node.args.get("joins") or [], beside)

    def _chain_on(self, plan: Plan, scope: Scope, joins: list[Any], beside: Scope) -> Bound:
        for join in joins:
            plan, scope = self._join(join, plan, scope, beside)
        return plan, scope

    def _table(self, node: Any) -> Bound:
        alias = node.args.get("alias")
        qualified = node.args.get("db") or node.args.get("catalog")
        cte = None if qualified else self.context.ctes.get(fold(node.name))
        if cte is not None:
            self.context.names.count_reference(self.source, node)
            shown = alias.name if alias is not None and alias.name else node.name
            query = cte.context.bind(cte.tree, cte.outer, shown)
            names = self._renamed(list(query.names), list(cte.columns), node)
            return self._relation(Query(query.plan, tuple(names)), node.name, node)
        if self.context.catalog.relation(node.name) is None:
            found = given_name(self.context, node)
            if found is not None:
                return self._relation(*found, node)
        hint = not_given(self.context, node)
        name, _, columns = relation_columns(self.context.catalog, self.source, node, hint)
        shown = alias.name if alias is not None and alias.name else name
        fresh = self.context.names.fresh
        scan = Scan(name, shown, tuple(Var(fresh(c.name, shown), c.type, c.nullable) for c in columns))
        return self._relation(Query(scan, tuple(c.name for c in columns)), name, node)

    def _around(self, beside: Scope) -> Binder | None:
        """What a relation may use: those to its left (LATERAL), with the keyword or without."""
        return Binder(replace(beside, outer=self.outer), "FROM") if beside.relations else self.outer

    def _lists(self, node: Any, beside: Scope) -> Bound:
        """The values of a list. A single column is called as the relation, and by its own name as well."""
        known = Scope(self.source, context=self.context, outer=self._around(beside))
        query, name = list_relation(node, self.context, Binder(known, name_of(node)))
        alias, listed = node.args.get("alias"), listed_columns(node)
        shown = alias.name if alias is not None and alias.name else name
        names = self._renamed(list(query.names), listed or [shown], node)
        columns = tuple(zip(names, query.plan.variables, strict=True))
        hidden = ((name, query.plan.variables[0]),) if shown != name and not listed else ()
        return query.plan, replace(self._empty(), relations=(Relation(shown, columns, hidden),))

    def _pivoted(self, node: Any, beside: Scope) -> Bound:
        """A relation under PIVOT and UNPIVOT, which may follow each other."""
        of = node.copy()
        of.set("pivots", None)
        of.set("joins", None)
        for pivot in node.args["pivots"]:
            star = exp.Select(expressions=[exp.Star()], from_=exp.From(this=of))
            names = distinct_names(list(self.context.bind(star, self._around(beside)).names))
            of = exp.Subquery(this=pivoted(self.source, of, pivot, names))
        query = self.context.bind(of, self._around(beside))
        return self._relation(query, "__unnamed_pivot", node.args["pivots"][-1])

    def _derived(self, node: Any, beside: Scope) -> Bound:
        """A query in FROM."""
        alias = node.args.get("alias")
        outer = self._around(beside)
        shown = alias.name if alias is not None else ""
        query = self.context.bind(node.this if isinstance(node, exp.Lateral) else node, outer, shown)
        kind = "valueslist" if isinstance(node, exp.Values) else "unnamed_subquery"
        if not shown:
            self.unnamed += 1
            kind += str(self.unnamed) if self.unnamed > 1 else ""
        return self._relation(query, kind, node)

    def _time_window(self, node: Any, beside: Scope) -> Bound:
        """The rows of a relation with their windows in time."""
        named = ["unnamed_subquery"]

        def relation(tree: Any) -> Query:
            if isinstance(tree, exp.Subquery):
                return self.context.bind(tree, self._beside(beside))
            if not isinstance(tree, exp.Column):
                raise self.source.error(
                    Code.TYPE, "the first argument is the name of a table or view, or a query", tree
                )
            table = exp.Table(**{k: tree.args.get(k) for k in ("this", "db", "catalog")})
            table.set("db", tree.args.get("table"))
            plan, scope = self._table(table)
            named[0] = scope.relations[0].alias
            return Query(plan, tuple(n for n, _ in scope.relations[0].columns))

        def binder(query: Query) -> Binder:
            known = replace(self._empty(), relations=(Relation(named[0], query.columns),))
            return Binder(known, node.this.name.upper())

        return self._relation(time_window(node, self.context, relation, binder), named[0], node)

    def _beside(self, scope: Scope) -> Binder | None:
        """What binds the columns that are not in a part of FROM: refuses those beside it."""
        if not scope.relations:
            return self.outer
        return Binder(replace(scope, lateral=True, outer=self.outer), "FROM")

    def _group(self, node: Any, beside: Scope) -> Bound:
        """Joins in parentheses; with an alias they are one relation."""
        plan, scope = self._factor(node.this, beside)
        if node.args.get("alias") is None:
            return plan, scope
        columns = scope.columns()
        plan = Project(plan, tuple((v.name, v) for _, _, v in columns))
        return self._relation(Query(plan, tuple(n for _, n, _ in columns)), "", node)

    def _relation(self, query: Query, name: str, node: Any) -> Bound:
        """A query's columns under the names that the alias gives them."""
        alias = node.args.get("alias")
        shown = alias.name if alias is not None and alias.name else name
        listed = [c.name for c in alias.args.get("columns") or []] if alias is not None else []
        names = distinct_names(self._renamed(list(query.names), listed, node))
        columns = tuple(zip(names, query.plan.variables, strict=True))
        return query.plan, replace(self._empty(), relations=(Relation(shown, columns),))

    def _renamed(self, names: list[str], listed: list[str], node: Any) -> list[str]:
        if len(listed) > len(names):
            raise self.source.error(
                Code.VALUE,
                f"{len(listed)} column names for {len(names)} columns",
                node.args.get("alias") or node,
            )
        return listed + names[len(listed) :]

    # -- joins --------------------------------------------------------------------------------------------

    def _join(self, join: Any, left: Plan, names: Scope, beside: Scope) -> Bound:
        refuse_clauses(self.source, join, _JOIN)
        method, side, kind = (str(join.args.get(k) or "").upper() for k in ("method", "side", "kind"))
        word = method if method not in ("", "NATURAL") else kind
        if word not in ("", "INNER", "OUTER", "CROSS", "SEMI", "ANTI", "ASOF"):
            hint = (
                "rows have no order: join by ROW_NUMBER() OVER (ORDER BY ...)"
                if word == "POSITIONAL"
                else None
            )
            raise self.source.unsupported(f"{word} JOIN", join.this, keyword=word, hint=hint)
        if word == "ASOF" and (side not in ("", "LEFT") or kind not in ("", "INNER", "OUTER")):
            raise self.source.unsupported(f"ASOF {side or kind} JOIN", join.this, keyword="ASOF")
        on, using = join.args.get("on"), join.args.get("using") or []
        if kind == "CROSS" and (on is not None or using or side):
            raise self.source.error(Code.SYNTAX, "CROSS JOIN takes no condition", join.this)
        if kind != "CROSS" and on is None and not using and method != "NATURAL":
            raise self.source.error(Code.SYNTAX, "JOIN needs ON or USING", join.this)
        near_by = self._together(beside, names, join.this)
        right, others = self._factor(join.this, near_by)
        both = replace(self._together(names, others, join.this), outer=self._beside(beside))
        if method == "NATURAL":
            using = self._natural(join, names, others)
        pairs = [self._pair(u, names, others) for u in using]
        if on is not None:
            condition: Expr | None = Binder(both, "ON").condition(on)
        else:
            signs = ["="] * len(pairs)
            if word == "ASOF":
                signs[-1] = ">="  # as in DuckDB: the last column of USING is the order
            equal = [build.call(sign, a, b) for sign, (_, a, b) in zip(signs, pairs, strict=True)]
            condition = build.conjunction(equal) if pairs else None
        if kind in ("SEMI", "ANTI"):
            found: Expr = ExistsSubquery(right if condition is None else Filter(right, condition))
            return Filter(left, found if kind == "SEMI" else build.call("not", found)), names
        how = {"LEFT": "left", "RIGHT": "right", "FULL": "full"}.get(side, "inner")
        if (how in ("right", "full") or word == "ASOF") and lateral(Join("inner", left, right)):
            raise self.source.unsupported(f"LATERAL in {word or how.upper()} JOIN", join.this)
        plan: Plan
        if word == "ASOF":
            assert condition is not None
            plan = asof_join(self.context, join.this, how, left, right, condition)
        else:
            plan = paired(how, left, right, condition)
        return self._merge(plan, both.over(plan), pairs, how, names, others)

    def _together(self, left: Scope, right: Scope, node: Any) -> Scope:
        taken = {fold(r.alias) for r in left.relations}
        for relation in right.relations:
            if fold(relation.alias) in taken:
                raise self.source.error(
                    Code.EXISTS,
                    f"'{relation.alias}' stands twice in FROM",
                    node,
                    hint="give one of them another name with AS",
                )
        return replace(left, relations=left.relations + right.relations, merged=left.merged + right.merged)

    def _natural(self, join: Any, left: Scope, right: Scope) -> list[Any]:
        there = {fold(n) for _, n, _ in right.columns()}
        shared = list(dict.fromkeys(fold(n) for _, n, _ in left.columns() if fold(n) in there))
        if not shared:
            raise self.source.error(Code.NOT_FOUND, "NATURAL JOIN finds no common columns", join.this)
        made = []
        for name in shared:
            identifier = exp.to_identifier(name)
            identifier.meta.update(next((n.meta for n in join.this.walk() if "start" in n.meta), {}))
            made.append(identifier)
        return made

    def _pair(self, node: Any, left: Scope, right: Scope) -> tuple[str, Var, Var]:
        """A column of USING: its name, and its variables on both sides."""
        found = []
        for scope, side in ((left, "left"), (right, "right")):
            hits = scope.unqualified(node.name)
            if len(hits) > 1:
                raise self.source.error(
                    Code.NOT_FOUND, f"column '{node.name}' is ambiguous on the {side} of the join", node
                )
            if not hits:
                names = [n for _, n, _ in scope.columns()]
                raise self.source.error(
                    Code.NOT_FOUND,
                    f"there is no column '{node.name}' on the {side} of the join",
                    node,
                    hint=near(node.name, names, "columns"),
                )
            found.append(hits[0])
        return found[0][1], found[0][2], found[1][2]

    def _merge(
        self, plan: Plan, scope: Scope, pairs: list[tuple[str, Var, Var]], how: str, left: Scope, right: Scope
    ) -> Bound:
        """The scope in which each column of USING is one column."""
        now = {v.name: v for v in plan.variables}
        merged = list(scope.merged)
        computed: list[tuple[str, Expr]] = []
        for name in dict.fromkeys(n for n, _, _ in pairs):
            mine, theirs = next((now[a.name], now[b.name]) for n, a, b in pairs if n == name)
            if how == "full":
                both = build.call("coalesce", mine, theirs)
                var = Var(self.context.names.fresh(name), both.type, both.nullable)
                computed.append((var.name, both))
            else:
                var = theirs if how == "right" else mine
            members = _members(left, name) | _members(right, name)
            merged = [m for m in merged if not (m.members & members and fold(m.name) == fold(name))]
            merged.append(Merged(name, var, frozenset(members)))
        if computed:
            plan = Project(plan, (*((v.name, v) for v in plan.variables), *computed))
        return plan, replace(scope, merged=tuple(merged))


def _members(scope: Scope, name: str) -> set[str]:
    """The relations whose column `name` a bare name reaches."""
    members: set[str] = set()
    for relation in scope.relations:
        if relation.find(name) is not None:
            merger = scope.merger(relation.alias, name)
            members |= merger.members if merger is not None else {fold(relation.alias)}
    return members
