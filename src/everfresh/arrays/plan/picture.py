"""A plan as a picture: SVG text, without a plotting library.

On the left the workers on a circle and an arrow for each link, as wide as it carries bytes; on the right, for
each worker, bars of its load, of the bytes it sends and of those it receives, against the largest of each.
Invariant: well-formed SVG whatever the plan.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape

from everfresh.arrays.plan.plan import Plan

_SIZE, _RADIUS = 460, 165
_BARS = (("load", "#4c78a8"), ("sent", "#e6a23c"), ("received", "#59a14f"))


def svg(plan: Plan) -> str:
    """The picture.

    >>> from everfresh.arrays.plan import Chunks, Reach, plan_join
    >>> row = Chunks.of([[1], [4]], [[2], [4]], cells=[2, 1], start=[1], length=[2], home=[0, 1])
    >>> svg(plan_join(row, Reach.box([-2], [-1]), workers=2))[:4]
    '<svg'
    """
    workers = plan.problem.workers
    height = max(_SIZE, 90 + 46 * workers)
    title = (
        f"{plan.options.algorithm}: {plan.bytes_moved:,} bytes moved, load spread {plan.spread:.3f}, "
        f"makespan {plan.makespan:.3g} s"
    )
    body = [*_links(plan, height / 2), *_bars(plan)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * _SIZE} {height}" '
        f'width="{2 * _SIZE}" height="{height}" font-family="sans-serif" font-size="12">\n'
        '<rect width="100%" height="100%" fill="white"/>\n'
        f'<text x="20" y="26" font-size="15">{escape(title)}</text>\n' + "\n".join(body) + "\n</svg>\n"
    )


def _links(plan: Plan, middle: float) -> Iterator[str]:
    workers, links = plan.problem.workers, plan.links
    angles = [2 * math.pi * k / workers - math.pi / 2 for k in range(workers)]
    at = [(_SIZE / 2 + _RADIUS * math.cos(a), middle + 15 + _RADIUS * math.sin(a)) for a in angles]
    most = max(int(links.max()), 1)
    dot = max(9.0, min(18.0, 220 / workers))
    yield '<defs><marker id="tip" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="9" markerHeight="9"'
    yield ' markerUnits="userSpaceOnUse" orient="auto"><path d="M0,0L6,3L0,6z" fill="#666"/></marker></defs>'
    for i in range(workers):
        for j in range(workers):
            carried = int(links[i, j])
            if not carried:
                continue
            (x, y), (u, v) = at[i], at[j]
            far = math.hypot(u - x, v - y)
            dx, dy = (u - x) / far, (v - y) / far
            bend = 0.12 * far
            mx, my = (x + u) / 2 - dy * bend, (y + v) / 2 + dx * bend
            path = (
                f"M{x + dx * dot:.1f},{y + dy * dot:.1f}Q{mx:.1f},{my:.1f} "
                f"{u - dx * (dot + 2):.1f},{v - dy * (dot + 2):.1f}"
            )
            yield (
                f'<path d="{path}" fill="none" stroke="#888" stroke-opacity="0.7" '
                f'stroke-width="{0.5 + 5.5 * carried / most:.2f}" marker-end="url(#tip)">'
                f"<title>{i} to {j}: {carried:,} bytes</title></path>"
            )
    for k, (x, y) in enumerate(at):
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{dot:.1f}" fill="#f2f2f2" stroke="#333"/>'
        yield f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle">{k}</text>'


def _bars(plan: Plan) -> Iterator[str]:
    columns = (plan.load_of_workers, plan.links.sum(axis=1), plan.links.sum(axis=0))
    left, wide = _SIZE + 60, _SIZE - 200
    for k, (name, colour) in enumerate(_BARS):
        yield f'<rect x="{left + 110 * k}" y="46" width="10" height="10" fill="{colour}"/>'
        yield f'<text x="{left + 110 * k + 15}" y="55">{name}</text>'
    for worker in range(plan.problem.workers):
        top = 70 + 46 * worker
        yield f'<text x="{left - 12}" y="{top + 22}" text-anchor="end">{worker}</text>'
        for k, ((_name, colour), column) in enumerate(zip(_BARS, columns, strict=True)):
            value, most = int(column[worker]), max(int(column.max()), 1)
            y = top + 13 * k
            yield (
                f'<rect x="{left}" y="{y}" width="{wide * value / most:.1f}" height="11" fill="{colour}"/>'
                f'<text x="{left + wide * value / most + 5:.1f}" y="{y + 9}" font-size="10">{value:,}</text>'
            )
