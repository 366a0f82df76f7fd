"""DDL statements as a database keeps them: `dialect|text`, for a view `dialect {decisions}|text`.

Which maps a view has depends on the sizes of the tables and on the other views at the time when it was
created. What came of that is kept with its text, as JSON, so that the statement has the same result whenever
it is executed again: compiling it needs no search, and no view that is gone.

>>> dialect, record, text = record_of('spark {"split": ["1f"]}|SELECT 1')
>>> dialect, [str(each) for each in record.decisions], text
('spark', ['1f'], 'SELECT 1')
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from everfresh.compiler.viewlet.decisions import Decisions, decision
from everfresh.expr import Made, quote_name
from everfresh.sql import CreateTable, Statement


@dataclass(frozen=True, slots=True)
class Record:
    """What was decided when a view was compiled."""

    prefix: str = ""
    """What the names of its maps begin with, if not the view's name."""
    decisions: Decisions = frozenset()
    """What was decided about its maps."""
    shared: tuple[str, ...] = ()
    """The maps of other views that its statements read, as `everfresh.expr.stored` spells them."""
    upkeep: str = ""
    """The program that maintains these maps, as text: whoever owned them may be gone."""
    names: int = 2
    """How the text spells names: in 1, those that the compiler made are like those of users."""
    rules: int = 0
    """By which rules it was lowered (`everfresh.compiler.lowering.lower.RULES`)."""
    rows: bool = False
    """Whether it reads the rows of tables in place of maps that would have as many entries."""
    engine: Mapping[str, Any] = field(default_factory=dict)
    """What the engine decided: where the maps are, if they are spread."""


def entry_of(s: Statement, record: Record | None = None) -> str:
    """A statement as it is kept; a table by its schema, replacing what it replaced."""
    if isinstance(s, CreateTable):
        return "duckdb|" + s.schema.ddl.replace(
            "CREATE ", "CREATE OR REPLACE " if s.or_replace else "CREATE ", 1
        )
    decided: dict[str, Any] = {}
    if record is not None:
        decided = {
            "prefix": record.prefix,
            "split": sorted(map(str, record.decisions)),
            "shared": record.shared,
            "upkeep": record.upkeep,
            "names": record.names if record.upkeep else 0,
            "rules": record.rules,
            "rows": record.rows,
            "engine": dict(record.engine),
        }
    return f"{s.dialect}{_head(decided)}|{s.text}"


def record_of(entry: str) -> tuple[str, Record, str]:
    """The dialect, the decisions and the text of an entry."""
    head, text = entry.split("|", 1)
    dialect, _, decided = head.partition(" ")
    known = json.loads(decided) if decided else {}
    record = Record(
        Made(known["prefix"]) if "prefix" in known else "",
        frozenset(map(decision, known.get("split", ()))),
        tuple(known.get("shared", ())),
        known.get("upkeep", ""),
        known.get("names", 1),
        known.get("rules", 0),
        bool(known.get("rows", False)),
        known.get("engine", {}),
    )
    return dialect, record, text


def with_engine(entry: str, decided: Mapping[str, Any]) -> str:
    """An entry with what the engine decided for its view.

    >>> with_engine("duckdb|SELECT 1", {"home": "maps"})
    'duckdb {"engine":{"home":"maps"}}|SELECT 1'
    """
    head, text = entry.split("|", 1)
    dialect, _, known = head.partition(" ")
    return f"{dialect}{_head({**(json.loads(known) if known else {}), 'engine': dict(decided)})}|{text}"


def _head(decided: Mapping[str, Any]) -> str:
    kept = {name: value for name, value in decided.items() if value}
    return " " + json.dumps(kept, separators=(",", ":")).replace("|", "\\u007c") if kept else ""


_OLD_NAME = re.compile(
    r"""'(?:[^']|'')*'
      | (?:(?P<plain>[^\W\d][\w$\#@]*(?:\.[^\W\d][\w$\#@]*)*) | "(?P<quoted>(?:[^"]|"")*)")(?P<map>\[)?""",
    re.VERBOSE,
)
_OLD_MAP = re.compile(r".*[#~]\d+x*", re.DOTALL)


def upkeep_of(record: Record, views: Collection[str]) -> str:
    """The program of `Record.upkeep` as its text is written today, if there are these `views`. Names of maps
    have a bracket behind them.

    >>> record = Record(upkeep='MAP "a b#0"[k#, x] () = Sum_[k#, x](Δt$1(k#, x))', names=1)
    >>> upkeep_of(record, ())
    'MAP #"a b#0"["k#", x] () = Sum_["k#", x](Δ"t$1"("k#", x))'
    """

    def anew(match: re.Match[str]) -> str:
        plain, bracket = match["plain"], match["map"] or ""
        if plain is None and match["quoted"] is None:
            return match[0]
        change = "Δ" if plain is not None and plain.startswith("Δ") else ""
        name = plain.removeprefix(change) if plain is not None else match["quoted"].replace('""', '"')
        if bracket and name not in views and _OLD_MAP.fullmatch(name):
            return quote_name(Made(name)) + bracket
        if plain is not None and not set(name) & set("$#@"):
            return match[0]
        return f'{change}"{name.replace(chr(34), chr(34) * 2)}"{bracket}'

    return record.upkeep if record.names > 1 else _OLD_NAME.sub(anew, record.upkeep)
