"""The compiler's front door: expand, flatten, choose model and strategy by cost, explain (section 6.4).

Each pair of an iterative model and a strategy is compiled, its triggers are costed for the sizes and ranks
given, and the cheapest is taken (Table 6.2 with constants); both can be forced. Triggers for other ranks,
or for several inputs at once, are built when first asked for. The order of the passes is `compile` read
from top to bottom.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from everfresh.errors import Code, EverfreshError
from everfresh.linalg.compiler.cost import CPU, Cost, CostModel, Machine, letters
from everfresh.linalg.compiler.flatten import Flat, flatten
from everfresh.linalg.compiler.listing import Factors, to_listing, trigger_text
from everfresh.linalg.compiler.trigger import (
    STRATEGIES,
    build_program,
    build_trigger,
    factor_names,
    stored_names,
)
from everfresh.linalg.lang.models import expand, models, open_steps
from everfresh.linalg.lang.nodes import MODEL, Expr, Matrix
from everfresh.linalg.lang.source import Source
from everfresh.linalg.lang.spec import check_expanded, check_flat, check_trigger
from everfresh.program.ir import Program, Trigger

_LONG = 64  # steps from which the linear model is only costed for re-evaluation and hybrid evaluation


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to run a program, and what an update costs in it."""

    model: str
    strategy: str
    cost: Cost
    memory: int

    def __str__(self) -> str:
        how = self.strategy if self.model == "-" else f"{self.strategy}, {self.model} model"
        return (
            f"{how}: {self.cost.flops:,.0f} flops, {self.cost.big_o()}, {self.memory / 1e6:,.1f} MB, "
            f"about {self.cost.seconds * 1e3:,.3f} ms"
        )


@dataclass(frozen=True)
class MatrixProgram:
    """A compiled program: stored matrices, triggers, and how they were chosen."""

    source: Source
    flat: Flat
    model: str
    strategy: str
    stored: tuple[str, ...]
    ranks: Mapping[str, int]
    machine: Machine = CPU
    alternatives: tuple[Alternative, ...] = ()
    auto: bool = False
    _triggers: dict[tuple[tuple[str, int], ...], Trigger[Expr]] = field(
        default_factory=dict, compare=False, repr=False
    )

    @cached_property
    def program(self) -> Program[Expr]:
        """The program IR: maps, and a trigger per input for changes of the rank compiled for."""
        return build_program(self.flat, self.stored, self.ranks, self.strategy)

    def factors(self, ranks: Mapping[str, int]) -> Factors:
        """The symbols of the factors of changes of these ranks."""
        found = {}
        for name, rank in ranks.items():
            u, v = factor_names(self.flat, name)
            rows, columns = self.flat.matrices[name].shape
            found[name] = Matrix(u, rows, rank), Matrix(v, columns, rank)
        return found

    def trigger(self, ranks: Mapping[str, int]) -> Trigger[Expr]:
        """The trigger for changes of these inputs at once, of these ranks."""
        key = tuple(sorted(ranks.items()))
        if key not in self._triggers:
            unknown = sorted(set(ranks) - {m.name for m in self.flat.inputs if m.name in self.flat.changing})
            if unknown:
                raise EverfreshError(
                    Code.ARGUMENT,
                    f"'{unknown[0]}' is not an input that may change",
                    hint="inputs that may change are: " + ", ".join(self.source.dynamic),
                )
            trigger = build_trigger(self.flat, self.stored, dict(key), self.strategy)
            given = [s.name for pair in self.factors(ranks).values() for s in pair]
            self._triggers[key] = check_trigger(self.program, trigger, given)
        return self._triggers[key]

    def cost(self, ranks: Mapping[str, int] | None = None, pending: bool = True) -> Cost:
        """The cost of one update; without `ranks`, of one update of each input."""
        model = CostModel(self.machine, letters(m.shape for m in self.flat.inputs))
        stored = {name: self.flat.matrices[name] for name in self.stored}
        if ranks is not None:
            return model.trigger(self.trigger(ranks).statements, stored, pending)
        total = Cost()
        for name, rank in self.ranks.items():
            total.plus(model.trigger(self.trigger({name: rank}).statements, stored, pending))
        return total

    def dearer(self, ranks: Mapping[str, int]) -> bool:
        """Whether changes of these ranks cost more to propagate than everything costs to evaluate anew."""
        if not self.auto or self.strategy == "reevaluate":
            return False
        model = CostModel(self.machine, letters(m.shape for m in self.flat.inputs))
        anew = model.expressions(expr for name, expr in self.flat.statements if name in self.flat.changing)
        return self.cost(ranks).seconds > anew.seconds

    @property
    def memory(self) -> int:
        """The bytes of the stored matrices, as doubles."""
        shapes = (self.flat.matrices[name].shape for name in self.stored)
        return sum(8 * rows * columns for rows, columns in shapes)

    def to_text(self) -> str:
        """The program in the notation of Listing 6.4."""
        lets = tuple(s for s in self.flat.statements if s[0] not in self.stored)
        ranks = {t.base: self.ranks.get(t.base, 1) for t in self.program.triggers}
        return to_listing(self.program, self.factors(ranks), lets)

    def explain(self) -> str:
        """The stored matrices, each trigger with its cost in big-O and in flops, and the alternatives."""
        sizes = letters(m.shape for m in self.flat.inputs)
        lines = [f"strategy {self.strategy}" + ("" if self.model == "-" else f", {self.model} model")]
        lines.append("sizes: " + ", ".join(f"{letter} = {size}" for size, letter in sizes.items()))
        for name, expr in self.flat.statements:
            kept = "" if name in self.stored else "   -- not stored"
            lines.append(f"{name}({expr.rows}, {expr.columns}) := {expr};{kept}")
        for name in self.ranks:
            ranks = {name: self.ranks[name]}
            cost = self.cost(ranks)
            lines.append(trigger_text(self.trigger(ranks), self.factors(ranks)))
            lines.append(
                f"  -- {cost.big_o()}: {cost.polynomial()} = {cost.flops:,.0f} flops, "
                f"about {cost.seconds * 1e3:,.3f} ms"
            )
        if still := sorted({m.name for m in self.flat.inputs} - set(self.ranks)):
            lines.append(f"no trigger for {', '.join(still)}: static")
        if len(self.alternatives) > 1:
            lines.append("alternatives, per update of each input:")
            lines += [f"  {a}" for a in sorted(self.alternatives, key=lambda a: a.cost.seconds)]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.to_text()


def compile(
    source: Source,
    *,
    strategy: str = "auto",
    model: str = "auto",
    ranks: Mapping[str, int] | int = 1,
    machine: Machine = CPU,
) -> MatrixProgram:
    """Compile a program.

    `strategy` is incremental, hybrid, reevaluate or auto; `model` the iterative model of iterations that
    leave theirs open; `ranks` the rank of a usual update, of each input or by input (those named are what
    the choice is made for).
    """
    _check(strategy, model)
    changing = source.dynamic
    usual = dict.fromkeys(changing, ranks) if isinstance(ranks, int) else {**ranks}
    if unknown := sorted(set(usual) - set(changing)):
        raise EverfreshError(Code.ARGUMENT, f"'{unknown[0]}' is not an input that may change")
    k = open_steps(source)
    some_models = (models(k) if model == "auto" else [model]) if k else ["-"]
    some_strategies = STRATEGIES if strategy == "auto" else (strategy,)
    found: list[tuple[float, MatrixProgram]] = []
    alternatives = []
    for one_model in some_models:
        flat = check_flat(flatten(check_expanded(expand(source, one_model if k else "exponential"))))
        for one_strategy in some_strategies:
            if one_model == "linear" and one_strategy == "incremental" and k > _LONG and strategy == "auto":
                continue
            stored = stored_names(flat, one_strategy, usual)
            program = MatrixProgram(source, flat, one_model, one_strategy, stored, usual, machine)
            if strategy == "auto" or len(some_models) > 1:
                cost = program.cost()
                alternatives.append(Alternative(one_model, one_strategy, cost, program.memory))
                found.append((cost.seconds, program))
            else:
                found.append((0.0, program))
    best = min(found, key=lambda pair: pair[0])[1]
    return replace(best, alternatives=tuple(alternatives), auto=strategy == "auto")


def _check(strategy: str, model: str) -> None:
    if strategy not in ("auto", *STRATEGIES):
        raise EverfreshError(
            Code.ARGUMENT,
            f"there is no strategy '{strategy}'",
            hint="strategies are: auto, " + ", ".join(STRATEGIES),
        )
    if not MODEL.fullmatch(model):
        raise EverfreshError(
            Code.ARGUMENT,
            f"there is no iterative model '{model}'",
            hint="models are: auto, linear, exponential, skip-4 (any s)",
        )
