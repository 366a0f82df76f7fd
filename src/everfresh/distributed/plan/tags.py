"""Location tags (section 5.2 of the thesis): where the entries of a relation, a map or a temporary are.

| tag | text | entries |
|---|---|---|
| `Local` | `@driver` | all on the driver |
| `Dist` | `@[a, b]` | each on the worker that the values of these columns hash to; `@[]`: all on the first |
| `Random` | `@random` | on some worker each, in parts that add up |
| `Replicated` | `@all` | all of them on every worker |

The columns of a tag are names: of columns where it belongs to something stored, of variables inside of a
query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everfresh.expr.tokens import TokenStream, quote_name


@dataclass(frozen=True, slots=True)
class Local:
    """On the driver."""

    def __str__(self) -> str:
        return "@driver"


@dataclass(frozen=True, slots=True)
class Random:
    """Anywhere among the workers."""

    def __str__(self) -> str:
        return "@random"


@dataclass(frozen=True, slots=True)
class Replicated:
    """On every worker."""

    def __str__(self) -> str:
        return "@all"


@dataclass(frozen=True, slots=True)
class Dist:
    """On the worker that owns the values of `columns`, in this order."""

    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"@[{', '.join(map(quote_name, self.columns))}]"


Tag = Local | Random | Replicated | Dist

LOCAL, RANDOM, REPLICATED, FIRST = Local(), Random(), Replicated(), Dist(())
_WORDS: dict[str, Tag] = {"driver": LOCAL, "random": RANDOM, "all": REPLICATED}


def parse_tag(stream: TokenStream) -> Tag:
    """The tag that a text goes on with.

    >>> parse_tag(TokenStream("@[a, b]"))
    Dist(columns=('a', 'b'))
    """
    stream.expect("@")
    if stream.accept("["):
        return Dist(tuple(stream.listed(stream.name, "]")))
    return _WORDS[stream.name()]


def renamed(tag: Tag, columns: Sequence[str], names: Sequence[str]) -> Tag:
    """A tag over `columns` for a reader that calls them `names`.

    Columns without a name there cannot be named: the entries are where they are, but nobody can say where.

    >>> renamed(Dist(("k",)), ("k", "v"), ("x", "y"))
    Dist(columns=('x',))
    >>> renamed(Dist(("k",)), ("v",), ("y",))
    Random()
    """
    if not isinstance(tag, Dist):
        return tag
    by = dict(zip(columns, names, strict=True))
    return Dist(tuple(by[c] for c in tag.columns)) if set(tag.columns) <= set(by) else RANDOM


def summed(tag: Tag, group: Sequence[str]) -> Tag:
    """The tag of an aggregate: partial sums are anywhere, unless groups lie together."""
    return RANDOM if isinstance(tag, Dist) and not set(tag.columns) <= set(group) else tag
