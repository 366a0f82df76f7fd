"""What stays and where: equal to the algorithms of the document taken literally, within every budget."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from everfresh.raw.cache.eviction import HALVED, POLICIES, Sizes, Use, chunk_lru, cost, lost, pinned
from everfresh.raw.cache.placement import Item, Joined, Part, affinity, place, share

FILES = {"a": 100, "b": 60, "c": 10}
PIECES = {n: 1 + n * 7 % 11 for n in range(12)}
OF = {n: "abc"[n % 3] for n in PIECES}
SIZES = Sizes(FILES, PIECES)


def _use(query: int, file: str, some: set[int]) -> Use | None:
    mine = frozenset(n for n in some if OF[n] == file)
    return Use(query, file, mine) if mine else None


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Use], list[Use], int]:
    before = []
    for query in range(1, draw(st.integers(1, 5))):
        some = draw(st.sets(st.sampled_from(sorted(PIECES)), max_size=8))
        before += [use for file in FILES if (use := _use(query, file, some))]
    some = draw(st.sets(st.sampled_from(sorted(PIECES)), max_size=8))
    now = [use for file in FILES if (use := _use(9, file, some))]
    return before, now, draw(st.integers(0, 70))


def literal(groups: Sequence[Sequence[Use]], halved: float, budget: int) -> set[int]:
    """Algorithm 2 without a heap: the costs of all are computed anew for each that is taken."""
    kept: set[int] = set()
    room = budget
    for group in groups:
        left = list(group)
        while True:
            fits = [use for use in left if _missing(use, kept) <= room]
            if not fits:
                break
            best = max(
                fits, key=lambda use: (_cost(use, kept, halved), use.query, [-ord(c) for c in use.file])
            )
            room -= _missing(best, kept)
            kept |= best.pieces
            left.remove(best)
    return kept


def _missing(use: Use, kept: set[int]) -> int:
    return sum(PIECES[n] for n in use.pieces - kept)


def _cost(use: Use, kept: set[int], halved: float) -> float:
    missing = _missing(use, kept)
    return 2.0 ** ((use.query - 9) / halved) * FILES[use.file] / missing if missing else float("inf")


@given(histories())
def test_cost_equals_the_algorithm_of_the_document(history: tuple[list[Use], list[Use], int]) -> None:
    before, now, budget = history
    kept = {n for use in pinned(before, now, SIZES, budget) for n in use.pieces}
    assert kept == literal((now, before), 1.0, budget)
    kept = {n for use in cost(before, now, SIZES, budget) for n in use.pieces}
    assert kept == literal(([*before, *now],), HALVED, budget)


@given(histories(), st.sampled_from(sorted(POLICIES)))
def test_every_policy_keeps_within_the_budget(history: tuple[list[Use], list[Use], int], policy: str) -> None:
    before, now, budget = history
    uses = POLICIES[policy].keeps(before, now, SIZES, budget)
    kept = {n for use in uses for n in use.pieces}
    assert sum(PIECES[n] for n in kept) <= budget
    assert kept <= {n for use in (*before, *now) for n in use.pieces}
    if policy != "cost" and sum(PIECES[n] for n in {n for use in now for n in use.pieces}) <= budget:
        assert all(use.pieces <= kept for use in now), "what is asked for now stays if it fits"


def test_a_file_of_which_little_is_missing_is_worth_more() -> None:
    """Line 6: what is taken makes the rest of other uses of its pieces cheaper."""
    sizes = Sizes({"a": 100, "b": 100}, {1: 10, 2: 10, 3: 12})
    before = [Use(1, "a", frozenset({1, 2})), Use(1, "b", frozenset({3}))]
    now = [Use(2, "a", frozenset({1}))]
    assert [use.file for use in cost(before, now, sizes, 20)] == ["a", "a"]


def test_lru_forgets_what_was_asked_for_longest_ago() -> None:
    before = [Use(q, OF[q], frozenset({q})) for q in (1, 2, 3)]
    kept = chunk_lru(before, [Use(9, "a", frozenset({0, 6}))], SIZES, PIECES[0] + PIECES[6] + PIECES[3])
    assert {n for use in kept for n in use.pieces} == {0, 6, 3}


@given(histories())
def test_lru_is_lru_access_by_access(history: tuple[list[Use], list[Use], int]) -> None:
    """Every query goes file by file: what is not in memory is read, and pushes out what was asked for longest
    ago, even if the query would have come to it."""
    before, now, budget = history
    resident: list[int] = []
    uses: tuple[Use, ...] = ()
    for query in sorted({use.query for use in (*before, *now)}):
        mine = [use for use in (*before, *now) if use.query == query]
        order = [[(n, PIECES[n]) for n in sorted(use.pieces)] for use in mine]
        recent = [(n, PIECES[n]) for use in reversed(uses) for n in use.pieces]
        assert [n for n, _ in recent] == resident
        expected, here = set(), set(resident)
        for use in mine:
            expected.update(n for n in use.pieces if n in here and n not in resident)
            for n in sorted(use.pieces):
                if n in resident:
                    resident.remove(n)
                if PIECES[n] <= budget:
                    resident.append(n)
            while sum(PIECES[n] for n in resident) > budget:
                resident.pop(0)
        assert lost(recent, order, budget) == expected
        uses = chunk_lru(uses, mine, SIZES, budget)
    assert [n for use in reversed(uses) for n in use.pieces] == resident


# -- placement -------------------------------------------------------------------------------------------

items = st.lists(
    st.tuples(st.integers(1, 6), st.integers(1, 3), st.sets(st.integers(0, 2), min_size=1)), max_size=8
).map(lambda some: [Item(n, c, c * w, tuple(sorted(at))) for n, (c, w, at) in enumerate(some)])
pairs = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=10)
joins = st.lists(pairs, max_size=3).map(lambda some: [Joined(q, tuple(p)) for q, p in enumerate(some)])


@given(items, joins, st.lists(st.integers(0, 25), min_size=3, max_size=3))
def test_placement_respects_budgets_and_keeps_whole_pieces(
    some: list[Item], joined: list[Joined], budgets: list[int]
) -> None:
    placed = place(some, joined, budgets)
    used = [0, 0, 0]
    known = {item.piece: item for item in some}
    for piece, parts in placed.items():
        assert sum(part.cells for part in parts) == known[piece].cells
        for part in parts:
            used[part.worker] += share(known[piece], part.cells)
    assert all(a <= b for a, b in zip(used, budgets, strict=True))
    if sum(item.bytes for item in some) <= min(budgets):
        assert len(placed) == len(some)
        for piece, parts in placed.items():
            assert parts[0].worker in known[piece].copies, "nothing travels where all have room"


def test_a_copy_stays_beside_what_it_was_joined_with_last() -> None:
    some = [Item(1, 1, 1, (0,)), Item(2, 1, 1, (1,)), Item(3, 1, 1, (0, 1))]
    joined = [Joined(1, ((1, 3),)), Joined(2, ((2, 3),))]
    assert place(some, joined, [5, 5])[3] == (Part(1, 1),)
    assert affinity(joined)[3] == {1: 0.5, 2: 1.0}
