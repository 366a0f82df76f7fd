"""Plans as text, one line per thing that is done, and as JSON, one list per column; both read back.

The text is for people and golden files; JSON is for programs. Invariant: reading gives an equal plan.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from everfresh.arrays.plan.algorithms import PlanOptions
from everfresh.arrays.plan.catalog import frozen
from everfresh.arrays.plan.cost import CostModel
from everfresh.arrays.plan.covers import CoverOptions
from everfresh.arrays.plan.pairs import Problem
from everfresh.arrays.plan.plan import Plan
from everfresh.arrays.plan.schedule import Slot
from everfresh.errors import Code, EverfreshError

_ARROWS = {1: "->", 2: "<-", 3: "<->"}
_WAYS = {arrow: ways for ways, arrow in _ARROWS.items()}
_HEAD = re.compile(
    r"plan (?P<algorithm>\S+): workers (?P<workers>\d+), r (?P<r>\S+), penalty (?P<penalty>\S+), "
    r"minimal (?P<minimal>yes|no), balance (?P<balance>\S+), budget (?P<budget>none|\d+), "
    r"order (?P<order>\S+), rounds (?P<rounds>auto|\d+), "
    r"T_ntwk (?P<ntwk>\S+), T_disk (?P<disk>\S+), T_cpu (?P<cpu>\S+), threads (?P<threads>\d+)"
)
_CHUNK = re.compile(r"chunk (\d+): worker (\d+), cells (\d+), bytes (\d+), key ([0-9a-f]+), rank (\d+)")
_SEND = re.compile(r"  receive (\d+) at (\d+)")
_JOIN = re.compile(r"  join (\d+) (<->|->|<-) (\d+)")
_ACT = re.compile(r"  (read|drop) (\d+)")
_WORKER = re.compile(r"worker (\d+)")
_SLOT = re.compile(r"slot (\d+): (\d+->\d+(?: \d+->\d+)*)")


def print_plan(plan: Plan) -> str:
    """Chunks, then each worker's part, then the slots of the schedule."""
    return "\n".join(_lines(plan)) + "\n"


def _lines(plan: Plan) -> Iterator[str]:
    o, problem = plan.options, plan.problem
    budget = "none" if o.budget is None else str(o.budget)
    yield (
        f"plan {o.algorithm}: workers {problem.workers}, r {o.cover.r!r}, penalty {o.cover.penalty}, "
        f"minimal {'yes' if o.cover.minimal else 'no'}, balance {o.balance}, "
        f"budget {budget}, order {o.chunk_order}, rounds {o.rounds or 'auto'}, "
        f"T_ntwk {o.cost.t_ntwk!r}, T_disk {o.cost.t_disk!r}, T_cpu {o.cost.t_cpu!r}, "
        f"threads {o.cost.threads}"
    )
    columns = problem.home, problem.cells, problem.bytes, problem.key, problem.rank
    for i, (home, cells, size, key, rank) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
        yield f"chunk {i}: worker {home}, cells {cells}, bytes {size}, key {key:x}, rank {rank}"
    for k in range(problem.workers):
        part = plan.worker(k)
        yield f"worker {k}"
        mine = plan.target == k
        for chunk, at in zip(plan.send[mine].tolist(), plan.arrival[mine].tolist(), strict=True):
            yield f"  receive {chunk} at {at}"
        acts = list(zip(part.step.tolist(), part.chunk.tolist(), part.load.tolist(), strict=True))
        next_act = 0
        joins = zip(part.first.tolist(), part.second.tolist(), part.ways.tolist(), strict=True)
        for step, (first, second, ways) in enumerate(joins):
            while next_act < len(acts) and acts[next_act][0] == step:
                yield f"  {'read' if acts[next_act][2] else 'drop'} {acts[next_act][1]}"
                next_act += 1
            yield f"  join {first} {_ARROWS[ways]} {second}"
    for slot in plan.slots:
        yield f"slot {slot.length}: " + " ".join(f"{i}->{j}" for i, j in slot.links)


def parse_plan(text: str) -> Plan:
    """The inverse of `print_plan`."""
    lines = text.splitlines()
    head = _HEAD.fullmatch(lines[0]) if lines else None
    if head is None:
        raise _unread(1, lines[0] if lines else "")
    chunks: list[tuple[int, ...]] = []
    sends: list[tuple[int, int, int]] = []
    joins: list[tuple[int, int, int, int]] = []
    acts: list[tuple[int, int, bool]] = []
    slots: list[Slot] = []
    worker = -1
    for number, line in enumerate(lines[1:], 2):
        if m := _JOIN.fullmatch(line):
            joins.append((int(m[1]), int(m[3]), _WAYS[m[2]], worker))
        elif m := _ACT.fullmatch(line):
            acts.append((len(joins), int(m[2]), m[1] == "read"))
        elif m := _SEND.fullmatch(line):
            sends.append((int(m[1]), worker, int(m[2])))
        elif m := _CHUNK.fullmatch(line):
            chunks.append((int(m[2]), int(m[3]), int(m[4]), int(m[5], 16), int(m[6])))
        elif m := _WORKER.fullmatch(line):
            worker = int(m[1])
        elif m := _SLOT.fullmatch(line):
            links = tuple(tuple(map(int, link.split("->"))) for link in m[2].split(" "))
            slots.append(Slot(int(m[1]), links))  # type: ignore[arg-type]
        else:
            raise _unread(number, line)
    columns = {
        **_columns(chunks, ("home", "cells", "bytes", "key", "rank")),
        **_columns(sends, ("send", "target", "arrival")),
        **_columns(joins, ("first", "second", "ways", "node")),
        **_columns(acts, ("step", "chunk", "load")),
    }
    return _made(_options(head.groupdict()), int(head["workers"]), columns, tuple(slots))


def _columns(rows: list[Any], names: tuple[str, ...]) -> dict[str, list[Any]]:
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


def _options(found: dict[str, str]) -> PlanOptions:
    return PlanOptions(
        found["algorithm"],
        CoverOptions(float(found["r"]), found["penalty"], found["minimal"] == "yes"),
        found["balance"],
        None if found["budget"] == "none" else int(found["budget"]),
        found["order"],
        None if found["rounds"] == "auto" else int(found["rounds"]),
        CostModel(float(found["ntwk"]), float(found["disk"]), float(found["cpu"]), int(found["threads"])),
    )


def _unread(number: int, line: str) -> EverfreshError:
    return EverfreshError(Code.SYNTAX, f"not a line of a plan: '{line}'", place=f"line {number}")


_CHUNK_COLUMNS = ("cells", "bytes", "home", "rank")
_PLAN_COLUMNS = ("first", "second", "ways", "node", "send", "target", "arrival", "step", "chunk", "load")


def plan_to_json(plan: Plan) -> str:
    """Options, then columns of chunks, joins, sends and reads, then slots."""
    o = plan.options
    data: dict[str, Any] = {
        "algorithm": o.algorithm,
        "workers": plan.problem.workers,
        "r": o.cover.r,
        "penalty": o.cover.penalty,
        "minimal": o.cover.minimal,
        "balance": o.balance,
        "budget": o.budget,
        "order": o.chunk_order,
        "rounds": o.rounds,
        "cost": {
            "ntwk": o.cost.t_ntwk,
            "disk": o.cost.t_disk,
            "cpu": o.cost.t_cpu,
            "threads": o.cost.threads,
        },
        "key": plan.problem.key.tolist(),
    }
    data |= {name: getattr(plan.problem, name).tolist() for name in _CHUNK_COLUMNS}
    data |= {name: getattr(plan, name).tolist() for name in _PLAN_COLUMNS}
    data["slots"] = [{"length": slot.length, "links": slot.links} for slot in plan.slots]
    return json.dumps(data)


def plan_from_json(text: str) -> Plan:
    """The inverse of `plan_to_json`."""
    try:
        data = json.loads(text)
        cost = data["cost"]
        options = PlanOptions(
            data["algorithm"],
            CoverOptions(data["r"], data["penalty"], data["minimal"]),
            data["balance"],
            data["budget"],
            data["order"],
            data["rounds"],
            CostModel(cost["ntwk"], cost["disk"], cost["cpu"], cost["threads"]),
        )
        slots = tuple(Slot(slot["length"], tuple((i, j) for i, j in slot["links"])) for slot in data["slots"])
        return _made(options, data["workers"], data, slots)
    except (KeyError, TypeError, ValueError) as error:
        raise EverfreshError(Code.SYNTAX, f"this is no plan as JSON: {error}") from error


def _made(options: PlanOptions, workers: int, columns: dict[str, list[Any]], slots: tuple[Slot, ...]) -> Plan:
    """A plan from its columns; the pairs of the problem are those of the joins."""
    chunks = len(columns["cells"])
    first, second, ways = (np.array(columns[name], np.int64) for name in ("first", "second", "ways"))
    for name in ("first", "second", "send", "chunk"):
        if any(not 0 <= c < chunks for c in columns[name]):
            raise EverfreshError(Code.ARGUMENT, f"a chunk that is not there in '{name}'", place="plan")
    for name in ("home", "node", "target"):
        if any(not 0 <= k < workers for k in columns[name]):
            raise EverfreshError(Code.ARGUMENT, f"a worker that is not there in '{name}'", place="plan")
    codes, which = np.unique(first * max(chunks, 1) + second, return_inverse=True)
    both = np.bincount(which, ways, len(codes)).astype(np.int64)
    key: npt.NDArray[np.uint64] = np.array(columns["key"], np.uint64)
    key.setflags(write=False)
    problem = Problem(
        workers,
        frozen(columns["cells"]),
        frozen(columns["bytes"]),
        frozen(columns["home"]),
        key,
        frozen(columns["rank"]),
        frozen(codes // max(chunks, 1)),
        frozen(codes % max(chunks, 1)),
        frozen(both),
    )
    step, chunk = frozen(columns["step"]), frozen(columns["chunk"])
    load = np.array(columns["load"], bool)
    return Plan(
        options,
        problem,
        first,
        second,
        ways,
        frozen(columns["node"]),
        frozen(columns["send"]),
        frozen(columns["target"]),
        frozen(columns["arrival"]),
        slots,
        step,
        chunk,
        load,
    )
