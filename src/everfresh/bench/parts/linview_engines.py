"""Parts of the benchmark `linview`: matrix views on Spark, and a regression against fitting it again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from everfresh.bench import Settings
from everfresh.bench.report import Report
from everfresh.bench.timing import interleave, median, seconds

POWER = "P := power(A, 16);"
SPARK_BAR = 8.0
FEATURES = 100


def _random(shape: tuple[int, ...], seed: int, scale: float = 1.0) -> Any:
    import numpy as np

    return scale * np.random.default_rng(seed).standard_normal(shape)


def spark(report: Report, settings: Settings) -> None:
    """A^16 in a database on Spark: an epoch by a trigger, and by evaluating everything with the workers."""
    import everfresh as ef

    n = 400 if settings.quick else 4000
    for workers in (2,) if settings.quick else (1, 2, 4):
        settings.note(f"A^16 on Spark, n = {n}, {workers} workers")
        try:
            db = ef.connect(options=ef.Options(workers=workers))
        except ef.EverfreshError as error:
            report.skip(f"Spark, A^16, n = {n}, {workers} workers", error.message)
            continue
        with db:
            took = _spark_times(db, n)
        against = took["re-evaluation"]
        for how, mean in took.items():
            report.row(
                what=f"A^16 on Spark, {workers} workers",
                how=how,
                ms=1e3 * mean,
                ratio=against / mean,
                n=n,
                thesis="14.4 at n = 30,000, 100 workers" if how != "re-evaluation" else "",
            )
        if not settings.quick:
            what = f"Spark, A^16, n = {n}, {workers} workers, against re-evaluation on Spark"
            report.at_least(what, against / took["incremental"], SPARK_BAR, "times")


def _spark_times(db: Any, n: int) -> dict[str, float]:
    """Mean time of an epoch with one update of rank 1, merges included; each view alone in the database."""
    import everfresh.linalg as la

    db.create_matrix("A", _random((n, n), 0, 0.9 / n**0.5))
    size, found = 0.1 / n**0.5, {}
    for how, strategy, warm, count in (
        ("incremental", "incremental", 2, 32),  # blocks by columns are made when they are first read
        ("re-evaluation", "reevaluate", 0, 2),
    ):
        db.create_matrix_view("power", POWER, strategy=strategy, model="exponential")
        changes = [
            la.LowRank(_random((n, 1), 2 * i, size), _random((n, 1), 2 * i + 1, size))
            for i in range(warm + count)
        ]
        for change in changes[:warm]:
            db.apply(A=change)
        times = [seconds(partial(db.apply, A=change)) for change in changes[warm:]]
        found[how] = sum(times) / count if strategy == "incremental" else median(times)
        db.view("power").drop()
    return found


def refit(report: Report, settings: Settings) -> None:
    """A regression whose rows change, against fitting it again with scikit-learn; drawn beside the JSON."""
    try:
        from sklearn.linear_model import LinearRegression as Sklearn
    except ImportError:
        report.skip("least squares against scikit-learn", "scikit-learn is not installed")
        return
    import everfresh.linalg as la

    rows = (1000, 3000) if settings.quick else (1000, 3000, 10_000, 30_000, 100_000)
    kept, again = [], []
    for n in rows:
        settings.note(f"least squares of {n} rows and {FEATURES} features against scikit-learn")
        x, y = _random((n, FEATURES), 0), _random((n,), 1)
        model = la.LinearRegression(fit_intercept=True).fit(x, y)
        turns = iter(range(10_000))

        def update(model: Any = model, n: int = n, turns: Any = turns) -> None:
            i = next(turns)
            model.update_row(i % n, _random((FEATURES,), i), float(i % 7))

        def fit(x: Any = x, y: Any = y) -> None:
            Sklearn().fit(x, y)

        update()
        alternatives: dict[str, Callable[[], Any]] = {"view": update, "fit": fit}
        times = interleave(alternatives, 7)
        kept.append(median(times["view"]))
        again.append(median(times["fit"]))
        what = f"least squares, {FEATURES} features, a row changes"
        report.row(what=what, how="matrix view", ms=1e3 * kept[-1], ratio=again[-1] / kept[-1], n=n)
        report.row(what=what, how="scikit-learn, fit again", ms=1e3 * again[-1], ratio=1.0, n=n)
    if settings.json is not None:
        _draw(report, rows, kept, again, settings.json.with_suffix(".svg"))


def _draw(
    report: Report, rows: Sequence[int], kept: Sequence[float], again: Sequence[float], path: Path
) -> None:
    """The times as a plot."""
    try:
        import matplotlib
    except ImportError:
        report.skip("the plot of least squares against scikit-learn", "matplotlib is not installed")
        return
    matplotlib.use("svg")
    from matplotlib import pyplot

    with pyplot.rc_context({"svg.hashsalt": "everfresh", "font.size": 10}):
        figure, axes = pyplot.subplots(figsize=(6.0, 3.4), layout="constrained")
        axes.loglog(rows, [1e3 * t for t in again], "o-", label="fit again with scikit-learn")
        axes.loglog(rows, [1e3 * t for t in kept], "s-", label="matrix view")
        axes.set_xlabel(f"rows of {FEATURES} features")
        axes.set_ylabel("ms per changed row")
        axes.grid(True, which="major", alpha=0.4)
        axes.legend(frameon=False)
        figure.savefig(path, format="svg", metadata={"Date": None})
        pyplot.close(figure)
