"""Statements of blocks as compiled code: that of the local engine, on a worker's part of the state.

An `Eval` is what the local engine's *whole* form is (`everfresh.local.native.manager`): one change, joined
with what is stored here as it is now, makes rows that are handed on. So a statement goes through the same
generator, the same compiler behind the batches and the same files; the interpreter runs it until its code is
ready, where it has no native form, and where the code says that it cannot go on: it knows the error.

Invariant: code belongs to a statement in the order of its joins, in one place, and goes with it; what places
and processes share is the compiled text, which has nothing of them in it.
"""

from __future__ import annotations

from dataclasses import replace

from everfresh.calculus import MapRef, Rel
from everfresh.distributed.plan.ir import Eval, map_id
from everfresh.distributed.plan.placement import Placement
from everfresh.distributed.plan.tags import Dist
from everfresh.local.batch.linked_programs import Prepared, Wiring
from everfresh.local.native.codegen.adding import AddedStatement
from everfresh.local.native.codegen.generate import generate
from everfresh.local.native.codegen.scalars import Unsupported
from everfresh.local.native.manager import Form, Planned
from everfresh.local.relations.intervals import IntervalReader
from everfresh.local.relations.view_reader import Reader, ViewReader
from everfresh.local.store.codec import Codec
from everfresh.local.store.entries import Before


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


def planned(
    eval_: Eval, prepared: Prepared, wiring: Wiring, placement: Placement, codec: Codec, at: int
) -> Planned:
    """The form of a statement on a change with this codec, or why it has none; `at` is the number of the unit
    whose change it is about, -1 for a table's."""
    try:
        return Planned((_form(eval_, prepared, wiring, placement, codec, at),))
    except Unsupported as error:
        return Planned(reasons={prepared.store.target.name: str(error)})


def _form(
    eval_: Eval, prepared: Prepared, wiring: Wiring, placement: Placement, codec: Codec, at: int
) -> Form:
    read = [n.name for n in eval_.expr.walk() if isinstance(n, Rel) and not n.delta]
    readers = [wiring.reader(eval_.view, name)[0] for name in read if name not in wiring.tables]
    if any(owned(reader, placement) is not None for reader in readers):
        raise Unsupported("a relation with a row for every key, at this worker's keys")
    for term in prepared.terms:
        if not any(isinstance(s.factor, Rel) and s.factor.delta for s in term.steps):
            raise Unsupported("a product without the change")
    # What came of an empty change may have strings of its own.
    codec = Codec(codec.columns, wiring.interner)
    prepared = replace(prepared, base=led_by(eval_) or "")
    made, _ = generate(wiring, [AddedStatement(prepared, apply=False)], codec, at)
    if not made.places.buffers:
        raise Unsupported("nothing is made")
    return Form(frozenset((0,)), frozenset(), made)


def as_before(form: Form, eval_: Eval, wiring: Wiring, applied: Before) -> bool:
    """Whether code reads relations as the statement has to; `applied` are the changes of maps in its round.
    Before any unit all of them are read as they were before the round, and code reads them as they are. Later
    it finds what an entry was where the mark of its slot points."""
    if eval_.at is None:
        return not any(map_id(name) in eval_.read for name in applied)
    befores = form.made.places.befores
    return all(wiring.stores(name).pool.is_last(applied[name]) for name in befores if name in applied)


__all__ = ["as_before", "led_by", "owned", "planned"]
