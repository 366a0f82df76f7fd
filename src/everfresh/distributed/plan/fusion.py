"""Statement blocks, and the block fusion algorithm (Figure 5.4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from everfresh.distributed.plan.ir import EXCHANGE, WORKERS, Block, Eval, Instruction, Step, Temp, uses_of


def single(instructions: Sequence[Instruction]) -> list[Block]:
    """Each instruction as a block."""
    return [Block(i.mode, (i,)) for i in instructions]


def fused(blocks: Sequence[Block]) -> list[Block]:
    """As few blocks as the data dependencies allow: the first takes in later ones of its mode that commute
    with all that stay between, until it finds no more.

    The first is one on the workers, where the batch is: what it sends travels after what it can compute.
    """
    left: list[Block] = [Block(WORKERS, ()), *blocks]
    out: list[Block] = []
    while left:
        head, rest = _merged(left[0], left[1:])
        if len(rest) == len(left) - 1:
            out.append(head)
        else:
            rest = [head, *rest]
        left = rest
    return out


def _merged(head: Block, tail: Sequence[Block]) -> tuple[Block, list[Block]]:
    rest: list[Block] = []
    taken = list(head.instructions)
    reads: set[str] = set()
    writes: set[str] = set()
    for block in tail:
        free = not (block.reads & writes or block.writes & reads or block.writes & writes)
        if block.mode == head.mode and free:
            taken += block.instructions
        else:
            rest.append(block)
            reads |= block.reads
            writes |= block.writes
    return Block(head.mode, tuple(taken)), rest


def connected(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """Blocks that say what they get from others and what others get from them."""
    made = [{i.target.name for i in b.instructions if hasattr(i, "target")} for b in blocks]
    used = [
        {t.name: t for i in b.instructions for t in uses_of(i) if t.name not in made[n]}
        for n, b in enumerate(blocks)
    ]
    last = {name: n for n, names in enumerate(used) for name in names}
    in_rounds = Counter((b.mode, r) for b in blocks for r in _rounds(b))
    out = []
    for n, block in enumerate(blocks):
        own: dict[str, Temp] = {i.target.name: i.target for i in block.instructions if hasattr(i, "target")}
        outputs = tuple(t for name, t in own.items() if last.get(name, n) > n)
        rounds = {r for r in _rounds(block) if in_rounds[block.mode, r] > 1}
        out.append(
            replace(
                block,
                inputs=tuple(used[n].values()),
                outputs=outputs,
                rounds=frozenset(rounds) if block.mode != EXCHANGE else frozenset(),
            )
        )
    return tuple(out)


def _rounds(block: Block) -> set[int]:
    return {
        i.round
        for i in block.instructions
        if isinstance(i, Step) or (isinstance(i, Eval) and i.at is not None)
    }
