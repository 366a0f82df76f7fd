"""What `--set` asks for, read and checked: names out of a list, queries of workloads, numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from everfresh.errors import Code, EverfreshError
from everfresh.workloads import WORKLOADS, Query


class Asked:
    """The options that were given to a benchmark, and what its options mean."""

    def __init__(self, given: Mapping[str, str], meanings: Mapping[str, str]) -> None:
        self._given, self._meanings = given, meanings

    def names(self, option: str, known: Sequence[str], default: Iterable[str]) -> tuple[str, ...]:
        """Some of `known`, in their order."""
        found = split(self._given[option]) if option in self._given else tuple(default)
        for name in found:
            if name not in known:
                raise self.wrong(option, f"'{name}' is none of {', '.join(known)}")
        return tuple(name for name in known if name in found)

    def queries(self, workloads: Sequence[str], default: Iterable[str]) -> tuple[Query, ...]:
        """Queries by the names of their views, or all of a workload."""
        known = {query.view: query for name in workloads for query in WORKLOADS[name].queries}
        found: dict[str, Query] = {}
        for name in split(self._given.get("queries", ",".join(default))):
            some = [view for view in known if view == name or view.startswith(f"{name}_")]
            if not some:
                raise self.wrong("queries", f"there is no query '{name}'")
            found.update({view: known[view] for view in some})
        return tuple(query for view, query in known.items() if view in found)

    def number(self, option: str, default: float) -> float:
        """A number above zero."""
        try:
            value = float(self._given.get(option, default))
        except ValueError:
            value = 0.0
        if not value > 0:
            raise self.wrong(option, f"'{self._given[option]}' is not a number above zero")
        return value

    def numbers(self, option: str, default: Iterable[float]) -> tuple[float, ...]:
        """Numbers above zero, in order."""
        try:
            found = (
                [float(item) for item in split(self._given[option])]
                if option in self._given
                else list(default)
            )
        except ValueError:
            found = []
        if not found or min(found) <= 0:
            raise self.wrong(option, f"'{self._given[option]}' are no numbers above zero")
        return tuple(sorted(set(found)))

    def text(self, option: str, default: str) -> str:
        """Any text."""
        return self._given.get(option, default)

    def wrong(self, option: str, message: str) -> EverfreshError:
        """What is said of an option that makes no sense."""
        return EverfreshError(Code.ARGUMENT, message, place=option, hint=self._meanings[option])


def split(text: str) -> tuple[str, ...]:
    """The items of a list with commas.

    >>> split("a, b,")
    ('a', 'b')
    """
    return tuple(item.strip() for item in text.split(",") if item.strip())
