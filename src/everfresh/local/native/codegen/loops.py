"""One term of a statement as nested loops: the change's row, then entries found, sliced or scanned.

Implements the thesis, section 4.2.1 (foreach, get, slice), over the same steps that the interpreter runs
(`joined`, its slow twin). Conditions and lookups are nested blocks, in the order that `ordering` sets; what
is looked up by the change's row alone is looked up once for all statements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from everfresh.algebra import Kind
from everfresh.calculus import Bind, Cond, MapRef, Rel, Sum, Value, arity
from everfresh.expr import Expr, Made, Var, substitute, variables
from everfresh.local.interpret.atoms import Pooled
from everfresh.local.interpret.join_order import Step, Term
from everfresh.local.native.codegen.bounds import Bound, bind, key_words, same, stored, value_of
from everfresh.local.native.codegen.numbers import Number, Product
from everfresh.local.native.codegen.ranged import Ranged, crossed
from everfresh.local.native.codegen.scalars import Scalars, Unsupported, Val
from everfresh.local.store.codec import Codec
from everfresh.types import Column

if TYPE_CHECKING:
    from everfresh.local.native.codegen.generate import Generator

Emit = Callable[["Loops"], None]


class Loops:
    """The code of one term. `looped` says whether more than one row may come of a row of the change."""

    def __init__(self, made: Generator, statement: int, view: str, k: int, stage: int = 0) -> None:
        self.made, self.out, self.statement, self.stage = made, made.out, statement, stage
        self._view = view
        self.env: dict[str, Bound] = {}
        self.product = Product(self.out, k)
        self.looped = False
        self._started = False

    def run(self, term: Term, emit: Emit) -> None:
        """All steps, and then what is made of each row."""
        depth, steps = self.out.depth, term.steps
        if term.narrow is not None:
            if not self.stage:
                raise Unsupported("a threshold")
            ranged, slot = crossed(self, term.narrow, term.sign)
            first, *rest = term.narrow.steps
            ranged.entry(slot, first)
            steps = tuple(rest)
        elif term.sign != 1:
            self.product.times_all(Number.whole(str(term.sign)))
        if not term.counted:
            self.product.n = Number.whole("0")
        for step in steps:
            self._step(step)
        emit(self)
        self.out.back_to(depth)

    def _step(self, step: Step) -> None:
        if step.range is not None:
            self._ranged(step)
            return
        match step.factor:
            case Rel(_, _, True):
                self._change(step.factor, step.keep)
            case Rel():
                self._relation(step.factor, step.keep)
            case MapRef():
                self._map(step.factor, step.keep)
            case Cond():
                self.scalars().when(step.factor.condition)
            case Bind():
                self._bind(step.factor, step.keep)
            case Sum():
                self._sum(step)
            case Value():
                scalars = self.scalars()
                self.product.times_each(
                    None, [Number.of(scalars.value(item), self.out) for item in step.factor.items]
                )
            case _:
                raise Unsupported(type(step.factor).__name__)

    def _ranged(self, step: Step) -> None:
        """An atom with a range, for one row: through an ordered index; where that cannot be, all entries that
        agree with the row are looked at while they are not too many (`Generated.ranged` says of which). For
        many rows the interpreter has an ordered index."""
        if not self.made.one_by_one or not isinstance(step.factor, MapRef):
            raise Unsupported("a range")
        mark = self.out.mark()
        env = dict(self.env)
        try:
            Ranged(self, step.factor, step.range).join(step)  # type: ignore[arg-type]
            return
        except Unsupported:
            self.out.reset(mark)
            self.env = env
        store = self.made.wiring.stores(step.factor.name)
        names = zip(store.columns, step.factor.keys, strict=True)
        self.made.ranged.append((store, tuple(c.name for c, v in names if v.name in self.env)))
        for slow in step.slow:
            self._step(slow)

    # -- scalars -----------------------------------------------------------------------------------

    def scalars(self, variable: Callable[[Var], Val] | None = None) -> Scalars:
        """Expressions over what is bound here."""
        return Scalars(
            self.out, variable or self._variable, self.made.text, self._beforehand, self.made.given
        )

    def _variable(self, var: Var) -> Val:
        return value_of(self.out, self.env[var.name])

    def _beforehand(self, expr: Expr) -> Val | None:
        """An expression over columns of the change, computed for all rows before the call."""
        names: dict[str, Expr] = {}
        for var in variables(expr):
            bound = self.env.get(var.name)
            if bound is None or bound.column is None:
                return None
            names[var.name] = Var(Made(f"${bound.column}"), var.type, var.nullable)
        if not names:
            return None
        return value_of(self.out, self.made.column(substitute(expr, names)))

    def _bind(self, factor: Bind, keep: frozenset[str]) -> None:
        if isinstance(factor.expr, Var) and factor.expr.name in self.env:
            made = self.env[factor.expr.name]
        else:
            lead = all(self.env[v.name].lead for v in variables(factor.expr))
            made = bind(self.out, self.scalars().value(factor.expr), lead and self.out.depth < 3)
        name = factor.var.name
        if name in self.env:
            self.out.open(f"if {same(self.env[name], made)}:")
        else:
            self.env[name] = made

    # -- atoms -------------------------------------------------------------------------------------

    def _change(self, factor: Rel, keep: frozenset[str]) -> None:
        self.product.times_all(Number.whole(self.change_rows(factor, keep)))

    def change_rows(self, factor: Rel, keep: frozenset[str]) -> str:
        """Bind the variables of a row of the change; the name of its weight. The rows of a stage's change are
        run through."""
        if self.statement < 0 or (self._started and not self.made.one_by_one):
            raise Unsupported("two changes")
        self._started = True
        if self.stage:
            from everfresh.local.native.codegen.stages import change_rows

            weight, columns = change_rows(self, self.stage, self.made.chain[self.stage - 1].reader.codec)
        else:
            weight, columns = "w", None
        self._visit("1")
        times = Counter(v.name for v in factor.vars)
        for i, var in enumerate(factor.vars):
            if var.name in keep or var.name in self.env or times[var.name] > 1:
                found = self.made.change_column(factor.places[i]) if columns is None else columns[i]
                self.take(var.name, found)
        return weight

    def _sum(self, step: Step) -> None:
        """A part of the product that reads nothing outside, added up by itself once for a row."""
        assert isinstance(step.factor, Sum)
        k = len(self.product.values) if arity(step.factor) else 0
        self.weigh(self.made.summed(self, step.factor, step.inner, k))

    def take(self, name: str, bound: Bound) -> None:
        """Bind a variable, or compare with what it is."""
        known = self.env.get(name)
        if known is None:
            self.env[name] = bound
        elif known != bound:
            self.out.open(f"if {same(known, bound)}:")

    def _map(self, factor: MapRef, keep: frozenset[str]) -> None:
        store = self.made.wiring.stores(factor.name)
        self.made.reads.add(factor.name)
        slot = self._entry(store, store.columns, [v.name for v in factor.keys], keep)
        self.weigh([self._component(store, c, slot) for c in factor.components])

    def weigh(self, numbers: list[Number]) -> None:
        """Multiply by the components of what was found, if one is not zero."""
        tests = [n.nonzero for n in numbers if n.nonzero is not None]
        if len(tests) == len(numbers) or len(numbers) == 1:
            self.out.open(f"if {' or '.join(tests)}:" if tests else "if False:")
        if len(numbers) == 1:
            self.product.times_all(numbers[0])
        else:
            self.product.times_each(numbers[0], numbers[1:])

    def _relation(self, factor: Rel, keep: frozenset[str]) -> None:
        table = self.made.wiring.tables.get(factor.name)
        if table is None:
            from everfresh.local.native.codegen.relations import read_relation

            read_relation(self, self._view, factor, keep)
            return
        self.made.tables.add(factor.name)
        columns = [table.columns[place] for place in factor.places]
        slot = self._entry(table, columns, [v.name for v in factor.vars], keep)
        count = self._component(table, 0, slot)
        self.out.open(f"if {count.nonzero}:")
        self.product.times_all(count)

    def _component(self, store: Pooled, component: int, slot: str) -> Number:
        if component < 0:
            return Number.whole("0")
        pool = self.made.pool(store)
        if component == 0:
            return Number.whole(self.out.let(f"ld({pool}_n, {slot})", "n"))
        kind = store.pool.layout.kinds[component - 1]
        at = store.pool.layout.offsets[component - 1]
        return Number.stored(
            self.out, kind, [f"{pool}_{'floats' if kind == Kind.FLOAT else 'ints'}", f"{pool}_cap"], at, slot
        )

    def _entry(
        self, store: Pooled, columns: Sequence[Column], names: Sequence[str], keep: frozenset[str]
    ) -> str:
        """Find the entries that agree with what is bound; the variables, of some columns, that are not are
        bound to them."""
        bound = [self.env.get(name) for name in names]
        known = [i for i, one in enumerate(bound) if one is not None]
        key = store._key_names
        extra: list[int] = []
        if len(known) > len(key) and key and set(key) <= {columns[i].name for i in known}:
            extra = [i for i in known if columns[i].name not in key]
            known = [i for i in known if columns[i].name in key]
        slot = self.entries(store, [columns[i] for i in known], [bound[i] for i in known])  # type: ignore[misc]
        self._visit("1")
        for i in extra:
            self.out.open(f"if {same(self.column(store, columns[i], slot), bound[i])}:")  # type: ignore[arg-type]
        times = Counter(names)
        for i, name in enumerate(names):
            if bound[i] is None:
                if times[name] > 1 and name in self.env:
                    self.out.open(f"if {same(self.env[name], self.column(store, columns[i], slot))}:")
                elif times[name] > 1 or name in keep:
                    self.env[name] = self.column(store, columns[i], slot)
        return slot

    def column(self, store: Pooled, column: Column, slot: str) -> Bound:
        """A column of an entry."""
        pool = self.made.pool(store)
        return stored(store.codec, column, f"ld({pool}_keys, {{}} * {pool}_cap + {slot})")

    def entries(self, store: Pooled, columns: Sequence[Column], bound: Sequence[Bound]) -> str:
        """Open the blocks in which a name runs over the entries that agree on some columns."""
        pool = self.made.pool(store)
        names = tuple(c.name for c in columns)
        if names == store._key_names:
            slot = self.find(store, columns, bound)
            self.out.open(f"if {slot} >= 0:")
            return slot
        self.looped = True
        slot, next_ = self.out.fresh("s"), self.out.fresh("s")
        if not names:
            self.out.open(f"for {slot} in range(ld({pool}_state, 0)):")
            self.out.open(f"if ld32({pool}_mark, {slot}) >= 0:")
            return slot
        codec = Codec(columns, store.codec.interner)
        words, never = key_words(codec, list(bound))
        self._unless(never)
        slice_ = self.made.slice(store, names)
        find = self.made.finder(tuple(range(codec.words)))
        where = f"{slice_}_keys, {slice_}_cap, {slice_}_table, {slice_}_mask"
        self.made.ahead(slice_, words)
        group = self.out.let(f"{find}({', '.join([where, *words])})", "g")
        self.out.open(f"if {group} >= 0:")
        self.out.add(f"{next_} = ld32({slice_}_heads, {group})")
        self.out.open(f"while {next_} >= 0:")
        self.out.add(f"{slot} = {next_}", f"{next_} = ld32({slice_}_nexts, {slot})")
        return slot

    def find(self, store: Pooled, columns: Sequence[Column], bound: Sequence[Bound]) -> str:
        """The name of the slot with these key columns, -1 for none."""
        pool = self.made.pool(store)
        codec = Codec(columns, store.codec.interner)
        words, never = key_words(codec, list(bound))
        find = self.made.finder(store.pool.key)
        where = f"{pool}_keys, {pool}_cap, {pool}_table, {pool}_mask"
        code = f"{find}({', '.join([where, *words])})"
        if never:
            code = f"-1 if {' or '.join(never)} else {code}"
        if self.statement >= 0 and not self.stage and all(one.lead for one in bound):
            self.made.ahead(pool, words, ["n"])
            return self.made.once(code)
        return self.out.let(code, "s")

    def _unless(self, never: list[str]) -> None:
        if never:
            self.out.open(f"if not ({' or '.join(never)}):")

    def _visit(self, count: str) -> None:
        if self.statement >= 0:
            self.out.add(f"v{self.statement} += {count}")
