"""A JOIN by equality on workers: rows of both sides go to the owner of their keys, and are joined there.

Dimensions and attributes are the same to it. Invariant: two rows that join have one owner, so the joins of
all owners together are the join.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from everfresh.arrays.execute.route import Parts, by_keys, parts
from everfresh.arrays.execute.split import ROWS, run
from everfresh.expr import Expr
from everfresh.expr.nodes import Call, variables
from everfresh.sql.logical.plan import Join, Plan, Project, Scan

_SIDES = ("\0left", "\0right")


@dataclass(frozen=True)
class EquiJoin:
    """The join of two scans; `keys` are expressions over each side that are equal where rows join."""

    join: Join
    keys: tuple[tuple[Expr, ...], tuple[Expr, ...]]

    @staticmethod
    def of(plan: Plan) -> EquiJoin | None:
        """A join that has such keys; None if it has none."""
        if not isinstance(plan, Join) or plan.kind != "inner" or plan.condition is None:
            return None
        left, right = plan.left, plan.right
        if not isinstance(left, Scan) or not isinstance(right, Scan):
            return None
        ours, theirs = ({v.name for v in side.variables} for side in (left, right))
        found: list[tuple[Expr, Expr]] = []
        for one in _conjuncts(plan.condition):
            if not isinstance(one, Call) or one.op != "=":
                continue
            a, b = one.args
            for first, second in ((a, b), (b, a)):
                if _names(first) and _names(first) <= ours and _names(second) and _names(second) <= theirs:
                    found.append((first, second))
                    break
        if not found:
            return None
        join = Join(plan.kind, _over(left, 0), _over(right, 1), plan.condition)
        return EquiJoin(join, (tuple(a for a, _ in found), tuple(b for _, b in found)))

    def shares(self, side: int, rows: pa.Table, workers: int) -> Parts:
        """Rows of one side by their owner."""
        scan = (self.join.left, self.join.right)[side]
        keys = tuple((f"\0e{k}", key) for k, key in enumerate(self.keys[side]))
        found = run(Project(Scan(ROWS, ROWS, scan.variables), keys), {ROWS: rows})
        yield from parts(rows, by_keys(found, len(keys), workers))

    def joined(self, left: list[pa.Table], right: list[pa.Table]) -> pa.Table | None:
        """The pairs of what an owner has, as rows; None if a side has none."""
        if not left or not right:
            return None
        sides = (pa.concat_tables(left), pa.concat_tables(right))
        return run(self.join, dict(zip(_SIDES, sides, strict=True)))


def _over(scan: Scan, side: int) -> Scan:
    return Scan(_SIDES[side], _SIDES[side], scan.vars)


def _conjuncts(condition: Expr) -> list[Expr]:
    if isinstance(condition, Call) and condition.op == "and":
        return [one for arg in condition.args for one in _conjuncts(arg)]
    return [condition]


def _names(expr: Expr) -> set[str]:
    return {v.name for v in variables(expr)}
