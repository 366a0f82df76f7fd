"""From a view's plan to its maintenance program.

A query is lowered to maps over the calculus and to relations read off them (`lower`), pruned, and maintained
*incrementally* by the program of the viewlet transform (`materialize`). Over one table the delta of a flat
query reads nothing but the change, and one map per view is all there is; that is all that an engine without
joins runs.

A query that cannot be lowered (`NotFlat`) is *re-evaluated*: its map is the bag of its rows, and its one
statement per base, `M := plan`, runs once per batch that changes a base. The reason is kept, and `explain`
prints it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from everfresh.calculus import Query, Rel
from everfresh.compiler.choice.estimate import Statistics
from everfresh.compiler.choice.search import Told, all_held, search
from everfresh.compiler.choice.size_guess import guessed
from everfresh.compiler.lowering.aggregates import NotFlat
from everfresh.compiler.lowering.lower import RULES, Lowered, lower
from everfresh.compiler.lowering.narrow_scans import narrowed
from everfresh.compiler.lowering.next_value import with_nearest
from everfresh.compiler.lowering.prune import pruned
from everfresh.compiler.overflow import Watched, watched
from everfresh.compiler.viewlet.decisions import Decisions
from everfresh.compiler.viewlet.decompose import composites
from everfresh.compiler.viewlet.filtered_maps import filterable
from everfresh.compiler.viewlet.intervals import with_intervals
from everfresh.compiler.viewlet.map_registry import HIGHER_ORDER, Choices, Spend
from everfresh.compiler.viewlet.materialize import transform
from everfresh.compiler.viewlet.merged_counts import countable, counted_beside
from everfresh.compiler.viewlet.rows_for_maps import replaceable
from everfresh.errors import Code, EverfreshError
from everfresh.program import MapDef, Program, Statement, Trigger, View
from everfresh.sql.logical import plan as p
from everfresh.sql.logical.limits import ORDERED_BY_ALL, all_columns, ordered_by_all, takes_any_rows
from everfresh.types import INTERVAL, NULL, Column

_REFUSED = (INTERVAL, NULL)  # types of expressions that no table has
STRATEGIES = ("auto", "higher-order", "first-order", "first-order-projected", "re-evaluate")
_CHOICES = {
    "first-order": Choices(whole=False, project=False),
    "first-order-projected": Choices(whole=False),
}
_KEEP = "create the table without retain = false, or write the view without that"
Definition = Query | p.Plan


@dataclass(frozen=True, slots=True)
class Setting:
    """What a view is compiled among."""

    prefix: str = ""
    """What the names of its maps begin with, if not the view's name."""
    static: frozenset[str] = frozenset()
    """Tables and views that never change."""
    offered: tuple[MapDef[Query], ...] = ()
    """Maps that other views keep and this one may read."""
    decisions: Decisions | None = None
    """What is decided about the maps, if that is known already; otherwise it is by cost."""
    keyed: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """Tables whose rows statements may read in place of maps, with the places of their primary keys."""
    passing: frozenset[str] = frozenset()
    """Tables whose rows are not kept: no statement may read them."""
    intervals: bool = True
    """Whether the engine reads intervals and next values off a map in order."""
    wide: int | None = None
    """From how many columns on atoms of a table have only those that are read; None: they have all."""
    told: Told | None = None
    """Told while a program is searched for, how much of the work that may be spent on it is."""
    rules: int = RULES
    """Of which release the rules are by which it is lowered."""


@dataclass(frozen=True)
class CompiledView:
    """A view ready to run: its plan, its program, and how its rows are read."""

    plan: p.Plan
    program: Program[Definition]
    view: View
    strategy: str
    decisions: Decisions = frozenset()
    """What was decided about its maps."""
    notes: tuple[str, ...] = ()
    """How the query was read where it leaves a choice."""
    exact: bool = False
    """Whether values stay whole that may leave their types."""

    @cached_property
    def bases(self) -> tuple[str, ...]:
        """The tables and views that the view reads."""
        return tuple(dict.fromkeys(scan.table for scan in p.scans(self.plan)))

    @cached_property
    def reevaluated(self) -> bool:
        """Whether the view is computed anew after each batch that touches it."""
        return isinstance(self.map.definition, p.Plan)

    @cached_property
    def watched(self) -> tuple[Watched, ...]:
        """The values over several relations that may leave their types, and that maps do not see."""
        return () if self.exact else watched(self.program)

    @cached_property
    def map(self) -> MapDef[Definition]:
        """The map that holds the view."""
        return self.program.map(self.view.map)


def compile_view(
    name: str,
    plan: p.Plan,
    strategy: str = "auto",
    views: Iterable[str] = (),
    joins: bool = False,
    statistics: Statistics | None = None,
    setting: Setting = Setting(),
) -> CompiledView:
    """The maintenance program of the view `name` defined by `plan`.

    `views` are the names that stand for views; `joins` says whether the engine runs statements that read
    other maps. With `statistics`, the strategy `auto` chooses by cost which joins to hold (section 3.6);
    maps that are offered in `setting` cost nothing.
    """
    if strategy not in STRATEGIES:
        raise EverfreshError(
            Code.UNSUPPORTED,
            f"strategy '{strategy}' is not available",
            hint="strategies are: " + ", ".join(STRATEGIES),
        )
    _check_types(plan.columns)
    if not p.scans(plan):
        raise EverfreshError(
            Code.UNSUPPORTED,
            "a query without FROM is not supported in a materialized view",
            hint="a view reads at least one table",
        )
    notes = (ORDERED_BY_ALL,) if takes_any_rows(plan) else ()
    return replace(_compiled(name, _settled(plan), strategy, views, joins, statistics, setting), notes=notes)


def _compiled(
    name: str,
    plan: p.Plan,
    strategy: str,
    views: Iterable[str],
    joins: bool,
    statistics: Statistics | None,
    setting: Setting,
) -> CompiledView:
    """The program of a plan with a fixed answer."""
    passing = next((scan.table for scan in p.scans(plan) if scan.table in setting.passing), None)
    if strategy == "re-evaluate" and passing is not None:
        raise _reads_rows(passing, strategy)
    if strategy == "re-evaluate":
        return _reevaluated(name, plan, strategy, "its strategy asks for it", setting)
    over = [scan.table for scan in p.scans(plan) if scan.table in set(views)]
    try:
        if over and not joins:
            raise NotFlat(f"a view over the view {over[0]}")
        return _incremental(name, plan, strategy, joins, frozenset(views), statistics, setting)
    except RecursionError:
        raise EverfreshError(
            Code.UNSUPPORTED,
            "the query is nested too deeply to be maintained",
            hint="take it apart: make a view of a part of it, and read that",
        ) from None
    except NotFlat as why:
        if passing is not None:
            raise _needs_rows(passing, f"{why} is not maintained incrementally", _KEEP) from None
        if strategy != "auto":
            raise EverfreshError(
                Code.UNSUPPORTED,
                f"strategy '{strategy}' is not available for {why}",
                hint="leave the strategy out",
            ) from None
        return _reevaluated(name, plan, strategy, f"{why} is not maintained incrementally", setting)


def _needs_rows(table: str, why: str, hint: str) -> EverfreshError:
    return EverfreshError(
        Code.UNSUPPORTED,
        f"a view like this needs the rows of '{table}', which are not kept: {why}",
        hint=hint,
    )


def _reads_rows(table: str, strategy: str) -> EverfreshError:
    return _needs_rows(table, f"strategy '{strategy}' reads the table", "leave the strategy out")


def _check_types(columns: Iterable[Column]) -> None:
    for column in columns:
        if column.type in _REFUSED:
            raise EverfreshError(
                Code.UNSUPPORTED,
                f"column '{column.name}' of a view cannot be of type {column.type}",
                hint="CAST it to a type that a table can have",
            )


def _chosen(
    prefix: str,
    lowered: Lowered,
    choices: Choices,
    statistics: Statistics | None,
    told: Told | None,
    limited: bool,
) -> tuple[Program[Query], Decisions]:
    """The program of the choices; with statistics, of the cheapest decisions about its components. One that
    holds all joins is `limited` in the work that it takes."""

    roots = {m.name for m in lowered.maps}

    def build(decisions: Decisions, spend: Spend) -> Program[Query]:
        asked = replace(choices, decisions=decisions)
        made = transform(prefix, lowered.maps, lowered.relations, asked, spend)
        return counted_beside(made, decisions, roots)

    if statistics is None and limited:
        return all_held(build)
    if statistics is None:
        return build(choices.decisions, lambda factors: None), choices.decisions
    known = guessed(statistics, lowered.maps)
    found = search(
        build,
        known,
        keys=lambda program: composites(program, roots),
        more=lambda program: [
            *filterable(program, choices.keyed),
            *replaceable(program, choices.keyed, known),
            *countable(program, roots),
        ],
        told=told,
    )
    return found.program, found.decisions


def _incremental(
    name: str,
    plan: p.Plan,
    strategy: str,
    joins: bool,
    views: frozenset[str],
    statistics: Statistics | None,
    setting: Setting,
) -> CompiledView:
    prefix = setting.prefix or name
    keys = {} if statistics is None else {n: table.keys for n, table in statistics.tables.items()}
    lowered = pruned(lower(prefix, narrowed(plan, setting.wide, views), keys, setting.rules))
    if setting.intervals:
        lowered = pruned(with_nearest(pruned(with_intervals(lowered))))
    choices = replace(
        _CHOICES.get(strategy, HIGHER_ORDER),
        views=views,
        static=setting.static,
        offered=setting.offered,
        decisions=setting.decisions or frozenset(),
        keyed=setting.keyed if strategy == "auto" else {},
        exact=any(scan.table in setting.passing for scan in p.scans(plan)),
    )
    free = strategy == "auto" and setting.decisions is None
    limited = strategy in ("auto", "higher-order") and setting.decisions is None
    chosen, decisions = _chosen(prefix, lowered, choices, statistics if free else None, setting.told, limited)
    program: Program[Any] = replace(chosen, empty=tuple(name for name, _ in lowered.several))
    read = {n.name for s in _statements(program) for n in s.expr.walk() if isinstance(n, Rel) and not n.delta}
    for table in sorted(read & setting.passing):
        raise _reads_rows(table, strategy)
    for m in program.maps:
        _check_types(Column(v.name, v.type) for v in m.keys)
    if not joins and (len(program.maps) > 1 or program.relations or lowered.view.sides):
        raise NotFlat(_beyond_one_map(plan))
    return CompiledView(
        plan, program, replace(lowered.view, name=name), strategy, decisions, exact=choices.exact
    )


def _statements(program: Program[Any]) -> Iterator[Statement[Any]]:
    return (s for trigger in program.triggers for s in trigger.statements)


def _beyond_one_map(plan: p.Plan) -> str:
    """What in a plan needs more than one map, in words: the first of these that it has."""
    for node in plan.walk():
        match node:
            case p.Window():
                return "a window function"
            case p.Limit():
                return "LIMIT"
            case p.SetOperation(op):
                return op.upper()
            case p.Subquery():
                return "a subquery"
            case p.Join(kind) if kind != "inner":
                return "an outer join"
            case p.AggregateCall("min" | "max" as fn):
                return f"the aggregate {fn.upper()}"
            case p.AggregateCall(fn, _, True):
                return f"{fn.upper()}(DISTINCT ...)"
    if any(isinstance(n, p.Distinct | p.Aggregate) for top in plan.walk() for n in _below(top)):
        return "an aggregate or DISTINCT over another"
    return "a join"


def _below(node: object) -> Iterator[object]:
    """What stands below an aggregate or DISTINCT."""
    if isinstance(node, p.Distinct | p.Aggregate):
        yield from node.input.walk()


def reevaluated(name: str, plan: p.Plan, reason: str, setting: Setting) -> CompiledView:
    """A view that its engine re-evaluates, for a reason of its own."""
    return _reevaluated(name, plan, "auto", reason, setting)


def _reevaluated(name: str, plan: p.Plan, strategy: str, reason: str, setting: Setting) -> CompiledView:
    held = setting.prefix or name
    target: MapDef[Definition] = MapDef(held, plan.variables, (), plan)
    statement: Statement[Definition] = Statement(held, ":=", plan, "re-evaluated", reason)
    bases = tuple(dict.fromkeys(scan.table for scan in p.scans(plan)))
    triggers = tuple(Trigger(base, (statement,)) for base in bases if base not in setting.static)
    static = tuple(base for base in bases if base in setting.static)
    program: Program[Definition] = Program((target,), triggers, static=static)
    view = View(name, held, plan.columns, plan.variables, bag=True)
    return CompiledView(plan, program, view, strategy)


def _settled(plan: p.Plan) -> p.Plan:
    """The plan with a fixed answer: rows that a LIMIT chooses among are ordered by all their columns,
    others not at all."""

    def visit(node: object, limited: bool) -> object:
        match node:
            case p.Limit():
                settled = ordered_by_all(node)
                return p.Limit(visit(settled.input, True), node.count, node.offset)  # type: ignore[arg-type]
            case p.Sort(child, keys):
                first = () if keys == all_columns(child) else keys
                child = visit(child, False)  # type: ignore[assignment]
                if not limited:  # rows of a view have no order
                    return child
                return p.Sort(child, (*first, *all_columns(child)))
            case p.Project(child, items):
                below = visit(child, limited)
                return p.Project(below, tuple((n, visit(e, False)) for n, e in items))  # type: ignore[arg-type,misc]
            case _:
                return node.map_children(lambda c: visit(c, False))  # type: ignore[attr-defined]

    return visit(plan, False)  # type: ignore[return-value]
