"""The SQL front end: text to bound statements and logical plans (architecture, section 3).

`parse` reads text with sqlglot, `bind` resolves names and types against a catalog. Nothing above this
package sees a parse tree; where databases differ, syntax, names and types are DuckDB 2's.
"""

from __future__ import annotations

from collections.abc import Iterator

from everfresh.sql.bind import bind
from everfresh.sql.logical.plan import (
    Aggregate,
    AggregateCall,
    Distinct,
    ExistsSubquery,
    Filter,
    Join,
    Limit,
    Plan,
    Project,
    QuantifiedSubquery,
    ScalarSubquery,
    Scan,
    SetOperation,
    Single,
    Sort,
    Subquery,
    Window,
    WindowCall,
)
from everfresh.sql.parse import Parsed, split, transaction_word
from everfresh.sql.plain import bind as bind_plain
from everfresh.sql.plain import read as read_plain
from everfresh.sql.prepared import about_prepared
from everfresh.sql.scope import Catalog
from everfresh.sql.statements import (
    AddColumn,
    Backup,
    Checkpoint,
    Comment,
    Conflict,
    Copy,
    CopyTo,
    CreateQuery,
    CreateTable,
    CreateType,
    CreateView,
    Delete,
    Drop,
    DropColumn,
    DropType,
    Explain,
    Insert,
    Merge,
    Nothing,
    Redeclare,
    Rename,
    Returning,
    Select,
    Show,
    Statement,
    Update,
)

__all__ = [
    "AddColumn", "Aggregate", "AggregateCall", "Backup", "Catalog", "Checkpoint", "Comment", "Conflict",
    "Copy", "CopyTo", "CreateQuery", "CreateTable", "CreateType", "CreateView", "Delete", "Distinct", "Drop",
    "DropColumn", "DropType", "ExistsSubquery", "Explain", "Filter", "Insert", "Join", "Limit", "Merge",
    "Nothing",
    "Parsed", "Plan", "Project", "QuantifiedSubquery", "Redeclare", "Rename", "Returning",
    "ScalarSubquery", "Scan", "Select", "SetOperation", "Show", "Single", "Sort", "Statement",
    "Subquery", "Update", "Window", "WindowCall",
    "about_prepared", "bind", "bind_plain", "parse_and_bind", "read_plain", "split", "transaction_word",
]  # fmt: skip


def parse_and_bind(text: str, catalog: Catalog, dialect: str = "duckdb") -> Iterator[Statement]:
    """The statements of a script. All are parsed now; each is bound when the iterator reaches it.

    So a script with a syntax error does nothing at all, and a statement sees what those before it created,
    provided that the caller executes each statement before asking for the next.
    """
    parsed = split(text, dialect)
    return (bind(statement, catalog) for statement in parsed)
