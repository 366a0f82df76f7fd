"""How alike two texts are. All are in bytes, as in DuckDB."""

from __future__ import annotations

from everfresh.errors import Code, EverfreshError
from everfresh.expr.coerce import takes
from everfresh.expr.library.signature import Function, Signature, never_fails
from everfresh.types import BIGINT, DOUBLE, VARCHAR

_PREFIX, _WEIGHT, _FROM = 4, 0.1, 0.7


def _jaccard(_: Signature, a: str, b: str) -> float:
    """The share of the bytes in either text that are in both."""
    left, right = set(a.encode()), set(b.encode())
    if not left or not right:
        raise EverfreshError(Code.VALUE, "the texts of JACCARD are not empty")
    return len(left & right) / len(left | right)


def _damerau_levenshtein(_: Signature, a: str, b: str) -> int:
    """Insertions, deletions, replacements and exchanges of neighbours (Lowrance and Wagner, "An extension of
    the string-to-string correction problem", 1975)."""
    left, right = a.encode(), b.encode()
    most = len(left) + len(right)
    last: dict[int, int] = {}
    rows: list[list[int]] = [[most] * (len(right) + 2), [most, *range(len(right) + 1)]]
    for i, x in enumerate(left, 1):
        row, same = [most, i], 0
        for j, y in enumerate(right, 1):
            k = last.get(y, 0)
            exchange = rows[k][same] + (i - k - 1) + 1 + (j - same - 1)
            if x == y:
                change, same = rows[i][j], j
            else:
                change = rows[i][j] + 1
            row.append(min(change, row[j] + 1, rows[i][j + 1] + 1, exchange))
        rows.append(row)
        last[x] = i
    return rows[-1][-1]


def _jaro_of(a: bytes, b: bytes) -> float:
    if not a or not b:
        return 0.0
    reach = max(max(len(a), len(b)) // 2 - 1, 0)
    taken, found = [False] * len(b), []
    for i, x in enumerate(a):
        for j in range(max(0, i - reach), min(len(b), i + reach + 1)):
            if not taken[j] and b[j] == x:
                taken[j] = True
                found.append(x)
                break
    if not found:
        return 0.0
    others = [y for y, t in zip(b, taken, strict=True) if t]
    moved = sum(x != y for x, y in zip(found, others, strict=True)) // 2
    count = len(found)
    return (count / len(a) + count / len(b) + (count - moved) / count) / 3.0


def _jaro(_: Signature, a: str, b: str, least: float = 0.0) -> float:
    found = _jaro_of(a.encode(), b.encode())
    return found if found >= least else 0.0


def _jaro_winkler(_: Signature, a: str, b: str, least: float = 0.0) -> float:
    """The same, more for texts that begin alike."""
    left, right = a.encode(), b.encode()
    found, prefix = _jaro_of(left, right), 0
    while prefix < min(len(left), len(right), _PREFIX) and left[prefix] == right[prefix]:
        prefix += 1
    if found > _FROM:
        found += prefix * _WEIGHT * (1.0 - found)
    return found if found >= least else 0.0


_ALIKE = takes(((VARCHAR, VARCHAR), DOUBLE), ((VARCHAR, VARCHAR, DOUBLE), DOUBLE))

ROWS = (
    Function("jaccard", takes(((VARCHAR, VARCHAR), DOUBLE)), _jaccard),
    Function(
        "damerau_levenshtein",
        takes(((VARCHAR, VARCHAR), BIGINT)),
        _damerau_levenshtein,
        fails=never_fails,
    ),
    Function("jaro_similarity", _ALIKE, _jaro, fails=never_fails),
    Function("jaro_winkler_similarity", _ALIKE, _jaro_winkler, fails=never_fails),
)
