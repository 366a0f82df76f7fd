"""The same SQL in other letter cases: keywords, functions and names without quotes mean what they meant.

What stands in quotes, numbers and comments stay as they are, and so does the length of the text, so that
places in it remain.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

_PARTS = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | (\$\w*\$).*?\1 | --[^\n]* | /\*.*?\*/ | \d\w*
        | (?P<word>[A-Za-z_]\w*)""",
    re.VERBOSE | re.DOTALL,
)


def recased(text: str, change: Callable[[str], str]) -> str:
    """The text with every word outside of quotes changed.

    >>> recased('SELECT "A" || \\'It\\' FROM t -- All', str.lower)
    'select "A" || \\'It\\' from t -- All'
    """
    return _PARTS.sub(lambda m: change(m[0]) if m["word"] and m[0].isascii() else m[0], text)


def random_change(rng: random.Random) -> Callable[[str], str]:
    """What makes a word lower case, upper case, leaves it as it is, or takes each letter as it comes; letters
    beyond ASCII stay, since SQL tells their cases apart."""

    def mixed(word: str) -> str:
        return "".join(rng.choice((c.lower(), c.upper())) if c.isascii() else c for c in word)

    def lower(word: str) -> str:
        return "".join(c.lower() if c.isascii() else c for c in word)

    def upper(word: str) -> str:
        return "".join(c.upper() if c.isascii() else c for c in word)

    return rng.choice((lower, upper, mixed, str))
