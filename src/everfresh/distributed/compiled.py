"""Statements of blocks as compiled code: that of the local engine, on a worker's part of the state.

An `Eval` is what the local engine's *whole* form is (`everfresh.local.native.manager`): one change, joined
with what is stored here as it is now, makes rows that are handed on. So a statement goes through the same
generator, the same compiler behind the batches and the same files; the interpreter runs it until its code is
ready, where it has no native form, and where the code says that it cannot go on: it knows the error.

Invariant: code belongs to a statement in the order of its joins, in one place, and goes with it; what places
and processes share is the compiled text, which has nothing of them in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from everfresh.calculus import MapRef, Rel
from everfresh.distributed.ir import Eval, map_id
from everfresh.distributed.placement import Placement
from everfresh.distributed.tags import Dist
from everfresh.local.atoms import Rows
from everfresh.local.codec import Codec
from everfresh.local.entries import EntryStore
from everfresh.local.intervals import IntervalReader
from everfresh.local.joined import PoolDelta
from everfresh.local.native.adding import Job
from everfresh.local.native.generate import generate
from everfresh.local.native.manager import Form, ask
from everfresh.local.native.scalars import Unsupported
from everfresh.local.ordering import Term
from everfresh.local.pool import Touched
from everfresh.local.reading import Reader, ViewReader
from everfresh.local.wiring import Prepared, Wiring
from everfresh.program import MapDef


@dataclass
class Code:
    """The code of one statement in one place: its form, once there is one, or why it has none."""

    form: Form | None = None
    why: str | None = None

    def ready(
        self,
        eval_: Eval,
        terms: tuple[Term, ...],
        wiring: Wiring,
        placement: Placement,
        codec: Codec,
        how: str,
    ) -> Form | None:
        """What runs the statement on changes with this codec, if it is compiled; else that is asked for,
        `now` or in the `background`."""
        if self.form is None and self.why is None:
            try:
                self.form = _form(eval_, terms, wiring, placement, codec)
            except Unsupported as error:
                self.why = str(error)
        if self.form is None:
            return None
        if not self.form.asked:
            ask(self.form, self, how)
        return self.form if self.form.runner is not None else None


def run(
    form: Form, eval_: Eval, change: Rows, wiring: Wiring, applied: Mapping[str, Touched]
) -> tuple[PoolDelta, int] | None:
    """What a statement makes of a change, and how many entries it visited; None if the interpreter has to run
    it. `applied` are the changes of maps in its round."""
    runner = form.runner
    known = change.codec.interner is wiring.interner or not len(change)
    if runner is None or not known or not _as_before(form, eval_, wiring, applied):
        return None
    outcome = runner.run(change, applied)
    if outcome is None:
        form.bad += 1
        return None
    ((_, delta),) = outcome.deltas
    return delta, sum(visited for _, visited in outcome.visited)


def led_by(eval_: Eval) -> str | None:
    """The change that a statement runs on; None if it reads several temporaries, or one with values."""
    temps = {t.name for t in eval_.uses}
    read = [n for n in eval_.expr.walk() if isinstance(n, Rel | MapRef) and n.name in temps]
    names = {n.name for n in read if isinstance(n, Rel) and n.delta}
    return names.pop() if len(names) == 1 and not any(isinstance(n, MapRef) for n in read) else None


def owned(reader: Reader, placement: Placement) -> Dist | None:
    """Where the map of a relation is that has a row for every key, those of other workers too."""
    if isinstance(reader, IntervalReader):
        tag = placement.maps[reader.relation.map]
    elif isinstance(reader, ViewReader) and reader.view.always:
        tag = placement.maps[reader.view.map]
    else:
        return None
    return tag if isinstance(tag, Dist) else None


def _form(eval_: Eval, terms: tuple[Term, ...], wiring: Wiring, placement: Placement, codec: Codec) -> Form:
    """The form of a statement on a change with this codec."""
    read = [n.name for n in eval_.expr.walk() if isinstance(n, Rel) and not n.delta]
    readers = [wiring.reader(eval_.view, name)[0] for name in read if name not in wiring.tables]
    if any(owned(reader, placement) is not None for reader in readers):
        raise Unsupported("a relation with a row for every key, at this worker's keys")
    if not all(any(isinstance(s.factor, Rel) and s.factor.delta for s in term.steps) for term in terms):
        raise Unsupported("a product without the change")
    target = MapDef(eval_.target.name, eval_.target_vars, eval_.target.kinds, eval_.expr)
    prepared = Prepared(eval_.view, led_by(eval_) or "", 0, EntryStore(target, wiring.interner), terms)
    # What came of an empty change may have strings of its own.
    codec = Codec(codec.columns, wiring.interner)
    made, _ = generate(wiring, [Job(prepared, apply=False)], codec, eval_.at)
    if not made.places.buffers:
        raise Unsupported("nothing is made")
    return Form(frozenset((0,)), frozenset(), made)


def _as_before(form: Form, eval_: Eval, wiring: Wiring, applied: Mapping[str, Touched]) -> bool:
    """Whether code reads relations as the statement has to. Before any unit all of them are read as they were
    before the round, and code reads them as they are. Later it finds what an entry was where the mark of its
    slot points, which another change of the map since then has set anew."""
    if eval_.at < 0:
        return not any(map_id(name) in eval_.read for name in applied)
    for name in form.made.places.befores:
        change = applied.get(name)
        if change is not None:
            marks = wiring.stores(name).pool._mark[change.slots]
            if not np.array_equal(marks, np.arange(len(marks))):
                return False
    return True


__all__ = ["Code", "led_by", "owned", "run"]
