"""What a plan costs, and what the alternatives would: bytes per link, load per worker, makespan.

`explain(plan).text` is for people, `.to_json()` for programs, `picture.svg` draws it. Invariant: every figure
is one of a plan, the alternatives are plans of the same pairs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from everfresh.arrays.plan.assign import least_load
from everfresh.arrays.plan.plan import Plan
from everfresh.arrays.plan.planner import plan_problem

ALTERNATIVES = ("bhvc", "hvc", "mbh", "opt-vc", "struct", "mr", "shuffle")


@dataclass(frozen=True)
class Figures:
    """What one algorithm comes to."""

    algorithm: str
    bytes: int
    sends: int
    most_in: int
    most_out: int
    load_max: int
    load_min: int
    load_mean: float
    spread: float
    reads: int
    makespan: float


@dataclass(frozen=True)
class Explanation:
    """A plan in figures. `links[i][j]` are the bytes from worker i to worker j."""

    figures: Figures
    links: tuple[tuple[int, ...], ...]
    load: tuple[int, ...]
    reads: tuple[int, ...]
    least_load: float
    """No assignment of the pairs to a worker that keeps one of their chunks has a smaller largest load."""
    alternatives: tuple[Figures, ...]

    @property
    def text(self) -> str:
        """The figures as lines."""
        f = self.figures
        lines = [
            f"{f.algorithm}: {f.bytes:,} bytes in {f.sends:,} sends, {f.reads:,} reads, "
            f"makespan {f.makespan:.4g} s under the cost model",
            f"load: most {f.load_max:,}, least {f.load_min:,}, mean {f.load_mean:,.1f}, "
            f"spread {f.spread:.3f} (bound on the most: {self.least_load:,.0f})",
            "bytes from worker (row) to worker (column):",
        ]
        wide = max(len(f"{x:,}") for row in self.links for x in row)
        for i, row in enumerate(self.links):
            cells = " ".join(f"{x:>{wide},}" for x in row)
            lines.append(f"  {i:>3}  {cells}   load {self.load[i]:,}, reads {self.reads[i]:,}")
        if self.alternatives:
            lines.append("alternatives: bytes, most in, most out, spread, makespan")
            lines += [
                f"  {a.algorithm:<12} {a.bytes:>14,} {a.most_in:>14,} {a.most_out:>14,} "
                f"{a.spread:>7.3f} {a.makespan:>10.4g} s"
                for a in self.alternatives
            ]
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        return self.text

    def to_json(self) -> str:
        """The same figures, by name."""
        return json.dumps(asdict(self), indent=2)


def figures(plan: Plan) -> Figures:
    """The figures of a plan."""
    load = plan.load_of_workers
    return Figures(
        plan.options.algorithm,
        plan.bytes_moved,
        len(plan.send),
        int(plan.links.sum(axis=0).max()),
        int(plan.links.sum(axis=1).max()),
        int(load.max()),
        int(load.min()),
        float(load.mean()),
        plan.spread,
        int(plan.reads.sum()),
        plan.makespan,
    )


def explain(plan: Plan, alternatives: Sequence[str] = ()) -> Explanation:
    """A plan in figures, beside those of other algorithms for the same pairs."""
    problem = plan.problem
    at, to = problem.home[problem.first], problem.home[problem.second]
    here = at == to
    fixed = plan.load_of_workers * 0
    for worker, work in zip(at[here].tolist(), problem.work[here].tolist(), strict=True):
        fixed[worker] += work
    bound = least_load(fixed, at[~here], to[~here], problem.work[~here])
    others = [figures(plan_problem(problem, replace(plan.options, algorithm=name))) for name in alternatives]
    return Explanation(
        figures(plan),
        tuple(tuple(row) for row in plan.links.tolist()),
        tuple(plan.load_of_workers.tolist()),
        tuple(plan.reads.tolist()),
        bound,
        tuple(others),
    )
