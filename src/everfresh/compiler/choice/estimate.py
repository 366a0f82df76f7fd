"""How many tuples a query has: the textbook estimates that the cost model (section 3.6.4) stands on.

Columns are taken as independent and values as evenly spread. A join on shared variables V has
`|A| * |B| / max(values of V in A, values of V in B)` tuples, which is exact where V is a key of one side and
refers to it from the other. An aggregate has no more groups than its body has tuples, and no more than the
atoms have combinations of the group's variables.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from everfresh.expr import Call, Const, Expr, Var, variables

_RANGE, _LIKE, _OTHER = 1 / 3, 0.1, 1 / 3  # shares of tuples that a condition leaves
_ROWS = 10_000.0  # of a relation of which nothing is known
_LIST = 4.0  # values of a list


@dataclass(frozen=True, slots=True)
class TableStats:
    """A relation: its rows, the distinct values per column (as many as there are rows, where unknown), the
    sets of columns of which no two rows agree, and how often a row changes, relative to others."""

    rows: float = _ROWS
    distinct: tuple[float, ...] = ()
    keys: tuple[frozenset[int], ...] = ()
    rate: float = 1.0

    def values(self, column: int) -> float:
        """The distinct values of a column."""
        known = self.distinct[column] if column < len(self.distinct) else self.rows
        return max(1.0, min(known, self.rows))


@dataclass(frozen=True, slots=True)
class Statistics:
    """What is known of the relations; `reads` is how often the view is read (once per change, if not said),
    `memory` what an entry costs to keep, in units of an entry that is visited."""

    tables: Mapping[str, TableStats] = field(default_factory=dict)
    reads: float | None = None
    memory: float = 1e-6
    unknown: frozenset[str] = frozenset()
    """Tables whose sizes are not known."""

    def table(self, name: str) -> TableStats:
        """The relation called `name`."""
        return self.tables.get(name, TableStats())


@dataclass(frozen=True, slots=True)
class StoredAtom:
    """Something stored that is looked up: its tuples, the distinct values per variable, its keys.

    `share` is how many of its tuples conditions have left: a lookup finds one so often. The distinct values
    are those without the conditions.
    """

    rows: float
    distinct: Mapping[str, float]
    keys: tuple[frozenset[str], ...] = ()
    share: float = 1.0
    domain: Mapping[str, float] = field(default_factory=dict)
    """Of a change: the values that its one tuple may have."""

    def combinations(self, names: Collection[str]) -> float:
        """How many different tuples there are over `names`, without conditions."""
        rows = max(1.0, self.rows / self.share) if self.share else 1.0
        if any(key <= set(names) for key in self.keys):
            return rows
        some = math.prod(self.distinct[name] for name in self.distinct if name in set(names))
        return max(1.0, min(rows, some))


@dataclass(frozen=True, slots=True)
class Estimate:
    """Tuples in flight: how many, the distinct values of each variable bound so far, the atoms they come
    from, and the share of them that conditions have left. `domain` are the values that a change may have,
    `chance` is how likely it passes the conditions on it alone: all the rest is of one that does."""

    rows: float = 1.0
    distinct: Mapping[str, float] = field(default_factory=dict)
    atoms: tuple[StoredAtom, ...] = ()
    share: float = 1.0
    domain: Mapping[str, float] = field(default_factory=dict)
    chance: float = 1.0

    @property
    def expected(self) -> float:
        """How many there are of a change that may not pass."""
        return self.chance * self.rows

    @property
    def all(self) -> Estimate:
        """The tuples without the conditions."""
        return replace(self, rows=self.rows / self.share if self.share else 1.0, share=1.0)

    def matches(self, atom: StoredAtom) -> float:
        """How many tuples of `atom` one of these joins with."""
        shared = [name for name in atom.distinct if name in self.distinct]
        if not shared:
            return atom.rows
        mine = min(self.all.rows, math.prod(self.distinct[name] for name in shared))
        return atom.rows / max(atom.combinations(shared), mine, 1.0)

    def joined(self, atom: StoredAtom) -> Estimate:
        """The join with `atom`."""
        distinct = dict(self.distinct)
        for name, values in atom.distinct.items():
            distinct[name] = min(values, distinct.get(name, values))
        rows, share = self.rows * self.matches(atom), self.share * atom.share
        domain = {**self.domain, **atom.domain}
        return Estimate(rows, distinct, (*self.atoms, atom), share, domain, self.chance)

    def where(self, condition: Expr) -> Estimate:
        """Those that satisfy `condition`."""
        if self.domain and all(v.name in self.domain for v in variables(condition)):
            return replace(self, chance=self.chance * selectivity(condition, self.domain))
        part = selectivity(condition, self.distinct)
        return replace(self, rows=self.rows * part, share=self.share * part)

    def bound(self, name: str, values: float) -> Estimate:
        """With one more variable, computed from the others; a known one is compared."""
        if name in self.distinct:
            return replace(self, rows=self.rows / max(self.distinct[name], values, 1.0))
        return replace(self, distinct={**self.distinct, name: values})

    def spread(self, names: Collection[str], lists: Collection[Expr]) -> Estimate:
        """With the values of lists; known ones are compared."""
        if all(name in self.distinct for name in names):
            return self
        values = max(values_of(e, self) for e in lists) * _LIST
        added = {name: values for name in names if name not in self.distinct}
        return replace(self, rows=self.rows * _LIST, distinct={**self.distinct, **added})

    def groups(self, names: Iterable[str]) -> float:
        """How many different tuples over `names` there are among them."""
        left = {name for name in names if name in self.distinct}
        total = 1.0
        atoms = list(self.atoms)
        while left:
            # the atom that saves most: it has fewer tuples than its variables have combinations
            best, saved = None, 1.0
            for atom in atoms:
                inside = left & set(atom.distinct)
                some = math.prod(self.distinct[name] for name in inside)
                if inside and some / max(1.0, min(some, atom.combinations(inside))) > saved:
                    best, saved = atom, some / max(1.0, min(some, atom.combinations(inside)))
            if best is None:
                total *= math.prod(self.distinct[name] for name in left)
                break
            inside = left & set(best.distinct)
            total *= best.combinations(inside)
            left -= inside
            atoms.remove(best)
        return max(min(self.rows, total), min(self.rows, 1.0))

    def projected(self, rows: float, names: Collection[str]) -> Estimate:
        """An aggregate of them: `rows` groups over `names`."""
        distinct = {name: v for name, v in self.distinct.items() if name in names}
        return replace(self, rows=rows, distinct=distinct)


def selectivity(condition: Expr, distinct: Mapping[str, float]) -> float:
    """The share of tuples for which `condition` is true."""
    match condition:
        case Const(value):
            return 1.0 if value is True else 0.0
        case Call("and", args):
            return math.prod(selectivity(arg, distinct) for arg in args)
        case Call("or", args):
            return 1 - math.prod(1 - selectivity(arg, distinct) for arg in args)
        case Call("not", (Call("is_null"),)):
            return 1.0
        case Call("not", (arg,)):
            return 1 - selectivity(arg, distinct)
        case Call("=" | "is_not_distinct", args):
            return 1 / max([1.0, *(_values(arg, distinct) for arg in args)])
        case Call("in", (arg, *items)):
            return min(1.0, len(items) / max(1.0, _values(arg, distinct)))
        case Call("<>" | "is_distinct"):
            return 1.0
        case Call("<" | "<=" | ">" | ">="):
            return _RANGE
        case Call("like" | "ilike" | "starts_with" | "ends_with" | "contains" | "is_null"):
            return _LIKE
    return _OTHER


def _values(expr: Expr, distinct: Mapping[str, float]) -> float:
    """The most values an expression can have."""
    return math.prod(distinct.get(n.name, 1.0) for n in {*expr.walk()} if isinstance(n, Var))


def values_of(expr: Expr, of: Estimate) -> float:
    """How many values an expression has over these tuples."""
    return max(1.0, min(_values(expr, of.distinct), max(1.0, of.rows)))
