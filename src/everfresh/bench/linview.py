"""Matrix views against re-evaluation (chapter 6): time and memory, in NumPy, on Spark, and on a GPU if any.

Every ratio compares alternatives that were run in turns. A mean per update includes the merges of pending
factors; what is still pending at the end of a stream is merged and counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from everfresh.bench import Settings
from everfresh.bench.parts.linview_engines import refit, spark
from everfresh.bench.report import Report
from everfresh.bench.timing import median, seconds
from everfresh.errors import Code, EverfreshError

if TYPE_CHECKING:
    from everfresh.linalg import MatrixView

NAME = "linview"
DESCRIPTION = "matrix views: incremental, hybrid and re-evaluation in the three iterative models"

POWER = "P := power(A, 16);"
OLS = "beta := inv(X' X) X' Y;"
SECTIONS = ("powers", "sums", "regression", "refit", "descent", "choices", "zipf", "spark", "gpu")
OPTIONS = {"sections": ",".join(SECTIONS)}
STREAM = 64  # updates
TURN = 8  # updates of one view before the next one's turn: a stream finds what its last update left
ZIPF_BATCH = 1000
WITHIN = 1.2  # of the best, for the choice of a strategy


def run(settings: Settings) -> Report:
    """Measure."""
    report = Report(NAME)
    parts = (_powers, _sums, _regression, refit, _descent, _choices, _zipf, spark, _gpu)
    wanted = settings.options.get("sections", OPTIONS["sections"]).split(",")
    if unknown := sorted(set(wanted) - set(SECTIONS)):
        raise EverfreshError(
            Code.ARGUMENT,
            f"linview has no section '{unknown[0]}'",
            hint="sections are: " + ", ".join(SECTIONS),
        )
    for name, section in zip(SECTIONS, parts, strict=True):
        if name in wanted:
            section(report, settings)
    return report


@dataclass(frozen=True)
class Timed:
    """Mean time per update of each alternative, and its memory."""

    mean: Mapping[str, float]
    megabytes: Mapping[str, float]


def _stream(
    views: Mapping[str, MatrixView], updates: Sequence[Any], few: Iterable[str], rare: int = 3, warm: int = 1
) -> Timed:
    """Run a stream through views in turns of `TURN` updates; those in `few` only see some of them.

    Before it, `warm` updates: plans are made, and on a GPU kernels compiled and memory taken.
    """
    slow, times = set(few), {name: list[float]() for name in views}
    at = {round((i + 0.5) * len(updates) / rare) for i in range(rare)}
    for name, view in views.items():
        for update in updates[: 1 if name in slow else warm]:
            view.update(update)
        _merge(view)
    for start in range(0, len(updates), TURN):
        for name, view in views.items():
            for i in range(start, min(start + TURN, len(updates))):
                if name not in slow or i in at:
                    times[name].append(seconds(lambda view=view, i=i: view.update(updates[i])))  # type: ignore[misc]
    mean = {}
    for name, view in views.items():
        merging = seconds(lambda view=view: _merge(view))  # type: ignore[misc]
        mean[name] = median(times[name]) if name in slow else (sum(times[name]) + merging) / len(updates)
    return Timed(mean, {name: view.memory / 1e6 for name, view in views.items()})


def _merge(view: MatrixView) -> None:
    for held in view.state.values():
        held.merge()
    if view.backend.name == "torch":
        float(next(iter(view.state.values())).base[0, 0])  # waits for the device


def _rows(report: Report, what: str, timed: Timed, against: str, thesis: str = "", **more: Any) -> None:
    for name, took in timed.mean.items():
        report.row(
            what=what,
            how=name,
            ms=1e3 * took,
            ratio=timed.mean[against] / took,
            mb=timed.megabytes[name],
            thesis=thesis if name != against else "",
            **more,
        )


def _random(shape: tuple[int, int], seed: int = 0, scale: float = 1.0) -> Any:
    import numpy as np

    return scale * np.random.default_rng(seed).standard_normal(shape)


def _rank_one(n: int, count: int, rank: int = 1, name: str = "A") -> list[dict[str, Any]]:
    """Changes of a matrix that leave its powers small."""
    import everfresh.linalg as la

    size = 0.1 / n**0.5
    return [
        {name: la.LowRank(_random((n, rank), 2 * i, size), _random((n, rank), 2 * i + 1, size))}
        for i in range(count)
    ]


def _powers(report: Report, settings: Settings) -> None:
    import everfresh.linalg as la

    for n, bar in ((300, None),) if settings.quick else ((2000, 20.0), (4000, 30.0)):
        settings.note(f"A^16, n = {n}: {STREAM} updates of rank 1")
        inputs = {"A": _random((n, n), scale=0.9 / n**0.5)}
        plain = la.ViewOptions(pending=False)
        views = {
            "re-evaluation, exponential": la.MatrixView(
                POWER, inputs, strategy="reevaluate", model="exponential"
            ),
            "incremental, exponential": la.MatrixView(
                POWER, inputs, strategy="incremental", model="exponential"
            ),
            "the same without pending factors": la.MatrixView(
                POWER, inputs, strategy="incremental", model="exponential", options=plain
            ),
        }
        timed = _stream(views, _rank_one(n, STREAM), ["re-evaluation, exponential"])
        _rows(report, "A^16", timed, "re-evaluation, exponential", "15.7 at n = 10,000 in Octave", n=n)
        if bar is not None:
            ratio = timed.mean["re-evaluation, exponential"] / timed.mean["incremental, exponential"]
            report.at_least(
                f"A^16, n = {n}, {STREAM} updates of rank 1, against re-evaluation", ratio, bar, "times"
            )


def _sums(report: Report, settings: Settings) -> None:
    import everfresh.linalg as la

    n = 200 if settings.quick else 1500
    settings.note(f"I + A + ... + A^15, n = {n}, in the three models")
    inputs = {"A": _random((n, n), scale=0.9 / n**0.5)}
    views = {
        f"{strategy}, {model}": la.MatrixView(
            "S := sum_of_powers(A, 16);", inputs, strategy=strategy, model=model
        )
        for model in ("linear", "exponential", "skip-4")
        for strategy in ("reevaluate", "incremental")
    }
    timed = _stream(views, _rank_one(n, 16), [name for name in views if name.startswith("re")])
    _rows(report, "sum of powers, k = 16", timed, "reevaluate, exponential", n=n)


def _regression(report: Report, settings: Settings) -> None:
    import numpy as np

    import everfresh.linalg as la

    for n, bar in ((300, None),) if settings.quick else ((1000, None), (2000, 12.0), (4000, 25.0)):
        settings.note(f"ordinary least squares, n = {n}: rows change")
        x = _random((n, n)) + 3.0 * n**0.5 * np.eye(n)
        inputs = {"X": x, "Y": _random((n, 1), 1)}
        views = {
            how: la.MatrixView(OLS, inputs, strategy=how, static=["Y"])
            for how in ("reevaluate", "incremental", "hybrid")
        }
        updates = [{"X": la.RowUpdate(i, x[i] + _random((1, n), i)[0])} for i in range(STREAM)]
        timed = _stream(views, updates, ["reevaluate"])
        solve = median([seconds(partial(_normal_equations, x, inputs["Y"])) for _ in range(3)])
        _rows(report, "least squares", timed, "reevaluate", "3.56 at n = 4,000 in Octave", n=n)
        best = min(timed.mean["incremental"], timed.mean["hybrid"])
        report.row(
            what="least squares",
            how="numpy.linalg.solve",
            ms=1e3 * solve,
            ratio=timed.mean["reevaluate"] / solve,
            n=n,
        )
        if bar is not None:
            ratio = timed.mean["reevaluate"] / best
            report.at_least(f"least squares, n = {n}, against re-evaluating the program", ratio, bar, "times")
        report.at_least(f"least squares, n = {n}, against numpy.linalg.solve", solve / best, 1.0, "times")


def _descent(report: Report, settings: Settings) -> None:
    n = 300 if settings.quick else 3000
    settings.note(f"gradient descent as T := A T + B, n = {n}, p = {n // 30}, 16 steps")
    inputs = {
        "A": _random((n, n), scale=0.9 / n**0.5),
        "T0": _random((n, n // 30), 1),
        "B": _random((n, n // 30), 2),
    }
    ways = _alternatives("T := iterate(A, T0, B, 16);", inputs, ("T0", "B"), {"A": 1}, limit=3.0)
    ways |= _alternatives(
        "T := iterate(A, T0, B, 16);", inputs, ("T0", "B"), {"A": 1}, limit=1.5, only="reevaluate"
    )
    slow = [name for name in ways if name.startswith("reevaluate")]
    timed = _stream(ways, _rank_one(n, STREAM), slow)
    against = min(slow, key=timed.mean.__getitem__)
    _rows(report, "gradient descent, 16 steps", timed, against, "36.7 at n = 30,000 on Spark", n=n, p=n // 30)
    best = min(took for name, took in timed.mean.items() if name not in slow)
    if not settings.quick:
        report.at_least(
            f"gradient descent, n = {n}, best incremental against best re-evaluation",
            timed.mean[against] / best,
            10.0,
            "times",
        )


def _alternatives(
    program: str,
    inputs: Mapping[str, Any],
    static: Sequence[str],
    ranks: Mapping[str, int],
    limit: float,
    only: str = "auto",
    machine: Any = None,
) -> dict[str, MatrixView]:
    """The ways to run a program that cost at most `limit` times the cheapest by the model; that one first."""
    import everfresh.linalg as la
    from everfresh.linalg.compiler.cost import CPU

    source = la.parse(program, {name: array.shape for name, array in inputs.items()}, static=static)
    compiled = la.compile(source, ranks=dict(ranks), strategy=only, machine=machine or CPU)
    ways = sorted(compiled.alternatives, key=lambda a: a.cost.seconds)
    views: dict[str, MatrixView] = {}
    if not ways:  # there is one way only
        views[f"{compiled.strategy}, {compiled.model}"] = la.MatrixView(compiled, inputs)
    seen = set()
    for way in ways:
        if way.cost.seconds > limit * ways[0].cost.seconds:
            break
        model = "auto" if way.model == "-" else way.model
        one = la.compile(
            source, ranks=dict(ranks), strategy=way.strategy, model=model, machine=machine or CPU
        )
        text = one.to_text()
        if text not in seen:
            seen.add(text)
            views[f"{way.strategy}, {way.model}"] = la.MatrixView(one, inputs)
    return views


def _settings_of_choice(quick: bool) -> Iterable[tuple[str, str, dict[str, Any], tuple[str, ...], int]]:
    """Ten programs over different sizes: name, text, inputs, static inputs, rank of an update of A (or X)."""
    n = 200 if quick else 1000
    square = {"A": _random((n, n), scale=0.9 / n**0.5)}
    yield "A^16", POWER, square, (), 1
    yield "A^16, rank 100", POWER, square, (), 100 if not quick else 40
    yield "A^64", "P := power(A, 64);", {"A": square["A"][: n // 2, : n // 2] * 1.3}, (), 1
    yield "sum of 16 powers", "S := sum_of_powers(A, 16);", square, (), 1
    yield "least squares", OLS, {"X": _random((2 * n, n)), "Y": _random((2 * n, 1))}, ("Y",), 1
    for p, k in ((1, 16), (30, 4), (30, 256), (300 if not quick else 100, 16), (n, 16)):
        start = {"T0": _random((n, p), 1), "B": _random((n, p), 2)}
        yield (
            f"T := A T + B, p = {p}, k = {k}",
            f"T := iterate(A, T0, B, {k});",
            square | start,
            ("T0", "B"),
            1,
        )


def _choices(report: Report, settings: Settings) -> None:
    """Whether the strategy that the cost model chooses is the best, or nearly."""
    import numpy as np

    from everfresh.bench.parts.machine import measure

    machine = measure(np.zeros((1, 1)), 600 if settings.quick else 0)
    good = total = 0
    for name, text, inputs, static, rank in _settings_of_choice(settings.quick):
        settings.note(f"the choice of a strategy: {name}")
        changed = next(iter(inputs))
        views = _alternatives(text, inputs, static, {changed: rank}, limit=4.0, machine=machine)
        views |= _alternatives(
            text, inputs, static, {changed: rank}, limit=1.0, only="reevaluate", machine=machine
        )
        rows, columns = inputs[changed].shape
        size = 0.1 / rows**0.5
        updates = [_low_rank(changed, rows, columns, rank, size, i) for i in range(10)]
        best_times = _fastest(views, updates)
        chosen = next(iter(views))
        best = min(best_times, key=best_times.__getitem__)
        ratio = best_times[chosen] / best_times[best]
        good, total = good + (ratio <= WITHIN), total + 1
        anew = min(took for how, took in best_times.items() if how.startswith("reevaluate"))
        for how, took in sorted(best_times.items(), key=lambda item: item[1]):
            mark = " (chosen)" if how == chosen else ""
            megabytes = views[how].memory / 1e6
            report.row(what=name, how=f"{how}{mark}", ms=1e3 * took, ratio=anew / took, mb=megabytes)
        del views
    if not settings.quick:
        report.at_least(
            f"the chosen strategy is within {WITHIN} of the best, of {total} settings",
            good,
            total - total // 10,
        )


def _low_rank(name: str, rows: int, columns: int, rank: int, size: float, seed: int) -> dict[str, Any]:
    import everfresh.linalg as la

    return {
        name: la.LowRank(_random((rows, rank), 2 * seed, size), _random((columns, rank), 2 * seed + 1, size))
    }


def _fastest(views: Mapping[str, MatrixView], updates: Sequence[Any]) -> dict[str, float]:
    """The shortest time of an update in each view, in turns; what is clearly slow is measured less."""
    times = {name: list[float]() for name in views}
    for update in updates:
        best = min((min(t[1:]) for t in times.values() if len(t) > 1), default=float("inf"))
        for name, view in views.items():
            if len(times[name]) < 3 or min(times[name][1:]) < 2.0 * best:
                times[name].append(seconds(lambda view=view, update=update: view.update(update)))  # type: ignore[misc]
    return {name: min(t[1:]) for name, t in times.items()}


def _zipf(report: Report, settings: Settings) -> None:
    """A batch of row updates, the rows drawn from a Zipf distribution (Table 6.4)."""
    import numpy as np

    import everfresh.linalg as la

    n = 200 if settings.quick else 2000
    inputs = {"A": _random((n, n), scale=0.9 / n**0.5)}
    thesis = {5.0: 6.3, 4.0: 6.8, 3.0: 7.5, 2.0: 10.9, 1.0: 68.4, 0.0: 236.5}
    view = la.MatrixView(POWER, inputs)
    again = la.MatrixView(POWER, inputs, strategy="reevaluate", model="exponential")
    rng = np.random.default_rng(0)
    for factor, octave in thesis.items():
        settings.note(f"A^16, n = {n}: {ZIPF_BATCH} row updates in a batch, Zipf {factor}")
        weights = np.arange(1, n + 1) ** -factor
        rows = rng.choice(n, ZIPF_BATCH, p=weights / weights.sum())
        batch = {"A": [la.RowUpdate(int(i), 0.9 / n**0.5 * rng.standard_normal(n)) for i in rows]}
        started = time.perf_counter()
        applied = view.update(batch)
        took = time.perf_counter() - started
        slow = seconds(lambda batch=batch: again.update(batch))  # type: ignore[misc]
        rank = applied.ranks["A"]
        report.row(
            what=f"A^16, {ZIPF_BATCH} rows, Zipf {factor}",
            how=f"{applied.how}, rank {rank}",
            ms=1e3 * took,
            ratio=slow / took,
            n=n,
            thesis=f"{99.1 / octave:.1f} at n = 10,000 in Octave",
        )


def _gpu(report: Report, settings: Settings) -> None:
    what = "GPU, A^16, n = 20,000"
    try:
        import torch
    except ImportError:
        report.skip(what, "PyTorch is not installed")
        return
    if not torch.cuda.is_available():
        report.skip(what, "there is no GPU here")
        return
    import everfresh.linalg as la

    n = 4000 if settings.quick else 20_000
    name = torch.cuda.get_device_name()
    settings.note(f"A^16 on {name}, n = {n}")
    generator = torch.Generator("cuda").manual_seed(0)
    draw: Callable[..., Any] = lambda *shape: torch.randn(  # noqa: E731
        *shape, generator=generator, device="cuda", dtype=torch.float64
    )
    inputs = {"A": draw(n, n) * (0.9 / n**0.5)}
    how: dict[str, Any] = {"model": "exponential"}
    size = 0.1 / n**0.5
    views = {
        "re-evaluation": la.MatrixView(POWER, inputs, strategy="reevaluate", **how),
        "incremental": la.MatrixView(POWER, inputs, strategy="incremental", **how),
    }
    changes = [{"A": la.LowRank(size * draw(n, 1), size * draw(n, 1))} for _ in range(STREAM)]
    timed = _stream(views, changes, ["re-evaluation"], warm=34)
    _rows(report, f"A^16 on {name}", timed, "re-evaluation", n=n)
    rows = [{"A": la.RowUpdate(i, 0.9 / n**0.5 * draw(n))} for i in range(STREAM)]
    by_row = _stream({"incremental, rows": views["incremental"]}, rows, [], warm=34)
    _rows(report, f"A^16 on {name}", by_row, "incremental, rows", n=n)
    batches = [{"A": la.LowRank(size * draw(n, 16), size * draw(n, 16))} for _ in range(16)]
    batched = _stream({"incremental, 16 at once": views["incremental"]}, batches, [], warm=16)
    each = batched.mean["incremental, 16 at once"] / 16
    report.row(what=f"A^16 on {name}", how="incremental, batches of 16, per update", ms=1e3 * each, n=n)
    if not settings.quick:
        took = timed.mean["incremental"]
        report.below(f"{what}, per update of rank 1", 1e3 * took, 7.0, "ms")
        report.at_least(f"{what}, against re-evaluation", timed.mean["re-evaluation"] / took, 170.0, "times")
        report.below(f"{what}, batches of 16, per update", 1e3 * each, 1.5, "ms")


def _normal_equations(x: Any, y: Any) -> Any:
    """Least squares from scratch, by the solver that users would call."""
    import numpy as np

    return np.linalg.solve(x.T @ x, x.T @ y)
