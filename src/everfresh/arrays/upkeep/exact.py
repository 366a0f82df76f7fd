"""The program of the paper (Eq. (1) and (2), the terms of the current batch) solved exactly, for small cases.

Variables: z where a pair is joined, x that an object is sent, y where a view chunk is kept, m that a result
is sent to its view chunk, g that it is merged there. Products of variables are bounded from below by
their sums, which is exact where costs are minimised.

Invariant: no plan of the same terms (`plans.costed`) has a smaller makespan.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from everfresh.arrays.plan.catalog import Ints
from everfresh.arrays.upkeep.plans import Costs
from everfresh.arrays.upkeep.update import Update


class _Program:
    """Rows of a program with named columns."""

    def __init__(self) -> None:
        self.columns: dict[Any, int] = {}
        self.rows: list[tuple[dict[int, float], float, float]] = []

    def at(self, *name: Any) -> int:
        return self.columns.setdefault(name, len(self.columns))

    def add(self, terms: dict[int, float], low: float, high: float = np.inf) -> None:
        self.rows.append((terms, low, high))


def least_makespan(of: Update, costs: Costs, *, view_chunks_move: bool = True) -> tuple[float, Ints, Ints]:
    """The least makespan of a batch, and a plan that has it: workers of pairs and of view chunks."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    program, workers = _Program(), range(of.workers)
    top = program.at("top")
    load = [{top: -1.0} for _ in range(2 * of.workers)]
    for n in range(len(of.first)):
        program.add({program.at("z", n, j): 1.0 for j in workers}, 1.0, 1.0)
        for j in workers:
            z = program.at("z", n, j)
            _more(load[of.workers + j], z, float(of.work[n]) * costs.t_cpu)
            for o in {int(of.first[n]), int(of.second[n])}:
                if of.home[o] != j:
                    program.add({program.at("x", o, j): 1.0, z: -1.0}, 0.0)
    for _, o, j in [name for name in list(program.columns) if name[0] == "x"]:
        _more(load[int(of.home[o])], program.at("x", o, j), float(of.size[o]) * costs.t_ntwk)
    for v in np.unique(of.view).tolist():
        program.add({program.at("y", v, j): 1.0 for j in workers}, 1.0, 1.0)
        for j in workers:
            y = program.at("y", v, j)
            if not view_chunks_move and j != of.view_home[v]:
                program.add({y: 1.0}, 0.0, 0.0)
            if j != of.view_home[v]:
                _more(load[int(of.view_home[v])], y, float(of.view_size[v]) * costs.t_ntwk)
    _results(program, of, costs, load)
    for terms in load:
        program.add(terms, -np.inf, 0.0)
    table = np.zeros((len(program.rows), len(program.columns)))
    for row, (terms, _, _) in enumerate(program.rows):
        for column, value in terms.items():
            table[row, column] = value
    aim = np.zeros(len(program.columns))
    aim[top] = 1.0
    whole, upper = np.ones(len(aim)), np.ones(len(aim))
    whole[top], upper[top] = 0, np.inf
    limits = LinearConstraint(
        table, [low for _, low, _ in program.rows], [high for _, _, high in program.rows]
    )
    found = milp(aim, constraints=limits, integrality=whole, bounds=Bounds(np.zeros(len(aim)), upper))

    def chosen(kind: str, n: int) -> int:
        return int(np.argmax([found.x[program.at(kind, n, j)] for j in workers]))

    kept = np.array(of.view_home)
    for v in np.unique(of.view).tolist():
        kept[v] = chosen("y", v)
    worker = [chosen("z", n) for n in range(len(of.first))]
    return float(found.fun), np.array(worker, np.int64), kept


def _results(program: _Program, of: Update, costs: Costs, load: list[dict[int, float]]) -> None:
    """What is found for a view chunk and an object is sent once from each worker, and merged."""
    seen: set[tuple[int, int, int]] = set()
    for n, v, o in zip(of.pair.tolist(), of.view.tolist(), of.side.tolist(), strict=True):
        for j in range(of.workers):
            z, sent = program.at("z", n, j), program.at("m", j, v, o)
            program.add({sent: 1.0, z: -1.0, program.at("y", v, j): 1.0}, 0.0)
            for k in range(of.workers):
                merged = program.at("g", j, v, o, k)
                program.add({merged: 1.0, z: -1.0, program.at("y", v, k): -1.0}, -1.0)
                if (j, v, o) not in seen:
                    _more(load[of.workers + k], merged, float(of.size[o]) * costs.t_cpu)
            if (j, v, o) not in seen:
                seen.add((j, v, o))
                _more(load[j], sent, float(of.size[o]) * costs.t_ntwk)


def _more(terms: dict[int, float], column: int, value: float) -> None:
    terms[column] = terms.get(column, 0.0) + value
