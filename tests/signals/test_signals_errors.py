"""The mistakes that users make with signals, each with the sentence that tells it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import everfresh as ef
from everfresh import signals as s

READ = s.reading("a", time="t", key="k")
GRID = READ.as_uniform(10)


def rows(times: list[int], values: list[Any] | None = None, **more: Any) -> pa.Table:
    given = [1.0] * len(times) if values is None else values
    return pa.table({"k": [7] * len(times), "t": times, "value": given, **more})


def told(call: Callable[[], Any]) -> tuple[str, str, str | None]:
    with pytest.raises(ef.EverfreshError) as caught:
        call()
    return caught.value.code, caught.value.message, caught.value.hint


def late() -> None:
    pipeline = s.Pipeline(READ.sample(10).node, {"a": rows([0]).schema})
    pipeline.step({"a": rows([50])})
    pipeline.commit()
    pipeline.step({"a": rows([20])})


OVERLAPPING = rows([0, 5], e=[8, 9])
ERRORS: dict[str, tuple[Callable[[], Any], str, str, str | None]] = {
    "overlap": (
        lambda: s.reading("a", time="t", key="k", end="e").sample(10).run(OVERLAPPING),
        "E-SIG-OVERLAP",
        "two events of a signal overlap: [0, 8) and [5, 9) of key 7",
        "read it with overlap=True and give lifetime(duration=), then to_signal()",
    ),
    "the same time twice": (
        lambda: READ.sample(10).run(rows([20, 20])),
        "E-SIG-OVERLAP",
        "two events of a signal overlap: [20, 21) and [20, 21) of key 7",
        "read it with overlap=True and give lifetime(duration=), then to_signal()",
    ),
    "windows that overlap": (
        lambda: GRID.window(4, 2).unwindow().run(rows([0])),
        "E-SIG-OVERLAP",
        "windows of 4 samples every 2 overlap, and nothing merges them",
        "unwindow('sum'), or overlap_add()",
    ),
    "backwards": (
        lambda: s.reading("a", time="t", key="k", end="e").sample(10).run(rows([5], e=[5])),
        "E-SIG-OVERLAP",
        "an event ends at 5, which is not after its start 5",
        "a lifetime is [start, end) with start < end; an end of NULL is still open",
    ),
    "late": (
        late,
        "E-SIG-LATE",
        "an event of key 7 starts at 20, before the watermark 50",
        "lateness=30 would admit it; late='drop' leaves such rows out, "
        "late='revise' computes their groups anew",
    ),
    "grid": (
        lambda: GRID.run(rows([0, 13])),
        "E-SIG-GRID",
        "the sample of key 7 at 13 is off the grid of period 10 and offset 0: "
        "the nearest beats are 10 and 20",
        "use sample(10, offset=0, interpolate=...)",
    ),
    "period": (
        lambda: READ.sample(0),
        "E-SIG-PERIOD",
        "period 0 is not positive",
        "a grid has beats at k * period + offset",
    ),
    "upsample": (
        lambda: GRID.upsample(3),
        "E-SIG-PERIOD",
        "upsample(3) of period 10: the period is no multiple of 3",
        "resample(period) takes any period",
    ),
    "fraction of a tick": (
        lambda: READ.sample("100 ns"),
        "E-SIG-PERIOD",
        "period '100 ns' is not a whole number of ticks, which are of 1 us",
        "give a multiple of the tick, or read times of a finer unit",
    ),
    "strict offsets": (
        lambda: GRID.plus(READ.as_uniform(10, 3), align="strict").run(rows([0])),
        "E-SIG-PERIOD",
        "the signals have one period, 10, and other offsets: 0 and 3",
        "align='shift' moves the right one, align='resample' interpolates it",
    ),
    "fill": (
        lambda: READ.sample(1, interpolate=s.first_order()).run(
            rows([0, 1000]), ef.Options(signal_max_fill=100)
        ),
        "E-SIG-FILL",
        "the gap of key 7 from 0 to 1000 has 1000 beats to fill, more than 100",
        "give window= to the policy, or raise options.signal_max_fill",
    ),
    "kind": (
        lambda: READ.fft(),
        "E-SIG-KIND",
        "fft() is an operation of windowed signals, and this is a signal without a grid",
        "window(size, hop) first",
    ),
    "kind of a filter": (
        lambda: READ.filter_fir([1.0]),
        "E-SIG-KIND",
        "filter_fir() is an operation of uniform signals, and this is a signal without a grid",
        "sample(period, interpolate=...) or as_uniform(period) first",
    ),
    "text": (
        lambda: READ.sample(10).run(rows([0], ["x"])),
        "E-SIG-TYPE",
        "column 'value' of table 'a' is string: a signal has numbers",
        "a signal's value is a number, a complex number, a vector of fixed length, or several number columns",
    ),
    "unequal structs": (
        lambda: (
            (s.reading("a", time="t", value=("x", "y")) + s.reading("a", time="t", value=("x", "y", "z")))
            .sample(10)
            .run(rows([0], x=[1.0], y=[1.0], z=[1.0]))
        ),
        "E-SIG-TYPE",
        "plus() of a signal of 2 components and one of 3",
        "both have the same components, or one is a single number",
    ),
    "double times": (
        lambda: READ.sample(10).run(pa.table({"k": [1], "t": [0.5], "value": [1.0]})),
        "E-SIG-TYPE",
        "the times of table 'a' are double: times are BIGINT, DATE or TIMESTAMP",
        "cast the column, for example to TIMESTAMP",
    ),
    "shape": (
        lambda: GRID.window(4, 2).map(lambda a: a[:, :3]).run(rows([0])),
        "E-SIG-SIZE",
        "map(<lambda>) was given windows and returned the shape (2, 3) where (2, 4) was declared",
        "map(f, size=N) declares that f makes arrays of N values",
    ),
    "keys": (
        lambda: (GRID + s.reading("b", time="t", key="name").as_uniform(10)).run(
            {"a": rows([0]), "b": rows([0], name=["x"])}
        ),
        "E-SIG-KEYS",
        "the keys of joined signals differ: (int64) of table 'a' and (string) of table 'b'",
        "read both tables with keys of the same types",
    ),
    "no time": (
        lambda: READ.sample(10).run(pa.table({"k": [1], "t": pa.array([None], pa.int64()), "value": [1.0]})),
        "null",
        "a row of table 'a' has no time",
        None,
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_the_sentence(name: str) -> None:
    call, *expected = ERRORS[name]
    assert list(told(call)) == expected


def test_the_state_is_bounded() -> None:
    options = ef.Options(signal_memory=1000)
    pipeline = s.Pipeline(READ.sample(10).node, {"a": rows([0]).schema}, options)
    pipeline.step({"a": rows([50])})
    code, message, hint = told(pipeline.check_memory)
    assert (code, hint) == (
        "E-SIG-STATE",
        "raise options.signal_memory, or read fewer groups with where=",
    )
    assert message.startswith("the state of 1 groups takes ")
    assert message.endswith(" each, more than 1000")


def test_a_refused_batch_changes_nothing() -> None:
    query = GRID.window(2, 1).overlap_add()
    pipeline = s.Pipeline(query.node, {"a": rows([0]).schema})
    pipeline.step({"a": rows([0, 10])})
    pipeline.commit()
    before = pipeline.encode()
    for bad in (rows([30, 35]), rows([-20]), rows([40, 40])):
        with pytest.raises(ef.EverfreshError):
            pipeline.step({"a": bad})
    assert pipeline.encode() == before


def test_late_rows_are_dropped_and_listed() -> None:
    read = s.reading("a", time="t", key="k", late="drop")
    pipeline = s.Pipeline(read.sample(10).node, {"a": rows([0]).schema})
    pipeline.step({"a": rows([50])})
    pipeline.commit()
    assert len(pipeline.step({"a": rows([20])})) == 0
    assert (pipeline.sources[0].late.keys, pipeline.sources[0].late.times) == ([7], [20])


def test_lateness_waits_for_the_watermark() -> None:
    read = s.reading("a", time="t", key="k", lateness=30)
    pipeline = s.Pipeline(read.sample(10).node, {"a": rows([0]).schema})
    seen = []
    for times in ([50], [30, 40], [90]):
        seen.append(pipeline.step({"a": rows(times)})["t"].to_pylist())
        pipeline.commit()
    assert seen == [[], [], [30, 40, 50]]


def test_a_query_prints_and_parses() -> None:
    def f(a: Any) -> Any:
        return a

    query = (
        s.reading("a", time="t", key=("k", "l"), where="value > 0")
        .sample(100, interpolate=s.last(300, causal=True))
        .window(8, 4, missing="zero").taper("hann").fft().map(f, half=True).ifft().overlap_add()
        .plus(GRID.filter_fir([1.0, float("inf"), 2j]), align="strict").sum(3, 2)
    )  # fmt: skip
    assert s.parse(str(query), {"f": f}) == query.node
    with pytest.raises(ef.EverfreshError, match="there is no function 'f'"):
        s.parse(str(query))
    with pytest.raises(ef.EverfreshError, match="this is no query over signals"):
        s.parse("__import__('os')")
