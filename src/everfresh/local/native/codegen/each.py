"""The function that runs views of one template one after the other: what a view costs is then the work on
its rows, and not a call.

A *template* is the text of a form: constants and the places of columns are words of the context, so that it
is the same for all views of one shape. Each view has a context of its own.
"""

from __future__ import annotations

from everfresh.local.native.codegen.generate import SIGNED, Generated
from everfresh.local.native.runtime import layout as at
from everfresh.local.native.runtime.helpers import POOL_COUNT, POOL_ROOM

CODE, COUNT, WORDS, ROWS, WEIGHTS, CONTEXTS = 0, 1, 2, 3, 4, 5
"""The words of what it is given: why it stopped, how many contexts there are, the change, and from there on
the addresses of the contexts."""


def is_whole(made: Generated) -> bool:
    """Whether nothing but what a context has from the first has to be looked up before a call, and all that
    a call makes is in journals."""
    places = made.places
    others = (places.bands, places.followed, places.befores, places.columns, places.deltas)
    return not made.ranged and not any(others) and all(job.apply for job in made.jobs)


def each(made: Generated) -> str:
    """The text of a form with a function more, `run_each(A, view, row)`: it begins at a row of a view and
    ends with the number of the view that could not go on, or of all."""
    places = made.places
    lines = [f"st(C, {at.VISITED + i}, 0)" for i in range(places.statements)]
    for number in sorted(places.targets):
        place = next(use.place for use in places.pools.values() if use.number == number)
        lines += [f"st(C, {place + POOL_COUNT}, 0)", f"st(C, {place + POOL_ROOM}, 0)"]
    lines += [f"st(C, {use.place + at.BUFFER_COUNT}, 0)" for use in places.buffers.values()]
    change = {at.CHANGE_WORDS: "words", at.CHANGE_ROWS: "rows", at.CHANGE_WEIGHTS: "weights"}
    lines += [f"st(C, {places.change + word}, {name})" for word, name in change.items()]
    body = "\n".join(f"            {line}" for line in lines)
    return f"""{made.text}

{SIGNED}
def run_each(A, view, row):
    count, words, rows, weights = ld(A, {COUNT}), ld(A, {WORDS}), ld(A, {ROWS}), ld(A, {WEIGHTS})
    while view < count:
        C = ld(A, {CONTEXTS} + view)
        if row == 0:
{body}
        code = run(C, row, rows)
        if code != {at.DONE}:
            st(A, {CODE}, code)
            return view
        view += 1
        row = 0
    return view
"""
