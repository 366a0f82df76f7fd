"""Bound statements: what `db.sql` is asked to do, with every name resolved and every expression typed.

Invariant: names of tables and columns are spelled as the catalog spells them; expressions that fill a
column already have the column's type.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from everfresh.expr.nodes import Const, Expr
from everfresh.sql.logical.plan import Plan
from everfresh.types import Column, SqlType, TableSchema

Assignments = tuple[tuple[str, Expr], ...]


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What all statements have: their text, its dialect, and where it stands in the script."""

    text: str = ""
    place: str = ""
    dialect: str = "duckdb"


@dataclass(frozen=True)
class CreateTable(Statement):
    """CREATE [OR REPLACE] [STATIC] TABLE [IF NOT EXISTS] name (...) [WITH (options)], or AS a query, whose
    rows it begins with."""

    schema: TableSchema
    or_replace: bool = False
    if_not_exists: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    plan: Plan | None = None


@dataclass(frozen=True)
class CreateQuery(Statement):
    """CREATE [OR REPLACE] VIEW [IF NOT EXISTS] name [(columns)] AS query: a query with a name, which stands
    for it where it is read. `through` are the other such views that it is written with."""

    name: str
    plan: Plan
    or_replace: bool = False
    if_not_exists: bool = False
    through: tuple[str, ...] = ()


@dataclass(frozen=True)
class CreateView(Statement):
    """CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] name [(columns)] [WITH (options)] AS query."""

    name: str
    plan: Plan
    or_replace: bool = False
    if_not_exists: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    through: tuple[str, ...] = ()
    """The plain views that its query is written with; the plan has theirs in it."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the view."""
        return self.plan.columns


@dataclass(frozen=True)
class Drop(Statement):
    """DROP TABLE | [MATERIALIZED] VIEW | MATRIX [VIEW] [IF EXISTS] name [CASCADE]."""

    kind: Literal["table", "view", "plain view", "matrix", "matrix view", "signal view"]
    name: str
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class AddColumn(Statement):
    """ALTER TABLE table ADD COLUMN [IF NOT EXISTS] column [DEFAULT constant]."""

    table: str
    column: Column
    default: Const | None = None
    if_not_exists: bool = False
    default_text: str = ""


@dataclass(frozen=True)
class DropColumn(Statement):
    """ALTER TABLE table DROP COLUMN [IF EXISTS] column."""

    table: str
    column: str
    if_exists: bool = False


@dataclass(frozen=True)
class Rename(Statement):
    """ALTER TABLE | [MATERIALIZED] VIEW name RENAME TO another."""

    name: str
    to: str


@dataclass(frozen=True)
class Redeclare(Statement):
    """ALTER TABLE that leaves the rows as they are: the table as it is declared from now on."""

    table: str
    schema: TableSchema
    refused: Plan | None = None
    """The rows that the table may not have then."""
    why: str = ""


@dataclass(frozen=True)
class Comment(Statement):
    """COMMENT ON TABLE | VIEW | COLUMN name IS 'text' | NULL; a table or view has the column ''."""

    name: str
    column: str
    comment: str | None


@dataclass(frozen=True)
class Checkpoint(Statement):
    """CHECKPOINT: a snapshot is taken now."""


@dataclass(frozen=True)
class CreateType(Statement):
    """CREATE [OR REPLACE] TYPE [IF NOT EXISTS] name AS ENUM (...), or any other type."""

    name: str
    type: SqlType
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropType(Statement):
    """DROP TYPE [IF EXISTS] name."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True)
class Nothing(Statement):
    """What IF EXISTS has left of a statement."""


@dataclass(frozen=True)
class Conflict:
    """What an INSERT does with a row whose key is taken.

    `assignments` and `where` are over the columns of the row that is there, `Var('c')`, and of the row that
    was to be inserted, `Var('excluded.c')`.
    """

    keys: tuple[str, ...]
    action: Literal["nothing", "update"]
    assignments: Assignments = ()
    where: Expr | None = None


@dataclass(frozen=True)
class Returning:
    """RETURNING: a plan over a scan of the table, which has the rows that were changed: as they have become,
    or of those that were deleted as they were. With `action` a column says what was done."""

    plan: Plan
    action: bool = False


@dataclass(frozen=True)
class Insert(Statement):
    """INSERT INTO table (columns) VALUES rows | query. Exactly one of `rows` and `plan` is given.

    Rows are constant expressions, one per column of `columns`; a plan yields exactly those columns.
    """

    table: str
    columns: tuple[str, ...]
    rows: list[list[Expr]] | None = None
    plan: Plan | None = None
    conflict: Conflict | None = None
    returning: Returning | None = None


@dataclass(frozen=True)
class Delete(Statement):
    """DELETE FROM table [WHERE condition]; variables are the table's columns. Where other tables are read,
    `plan` yields the rows."""

    table: str
    where: Expr | None = None
    plan: Plan | None = None
    returning: Returning | None = None


@dataclass(frozen=True)
class Update(Statement):
    """UPDATE table SET assignments [WHERE condition]; variables are the table's columns. Where other tables
    are read, `plan` yields the rows and what they become."""

    table: str
    assignments: Assignments
    where: Expr | None = None
    plan: Plan | None = None
    returning: Returning | None = None


@dataclass(frozen=True)
class Clause:
    """A WHEN of MERGE: the rows that go, come, or become others, as `plan` yields them."""

    action: Literal["insert", "update", "delete"]
    plan: Plan


@dataclass(frozen=True)
class Merge(Statement):
    """MERGE INTO table USING relation ON condition WHEN ..., WHEN ..."""

    table: str
    clauses: tuple[Clause, ...]
    returning: Returning | None = None


@dataclass(frozen=True)
class Copy(Statement):
    """COPY table FROM 'path' (options); option names are lower case."""

    table: str
    path: str
    format: Literal["csv", "parquet"] | None = None
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CopyTo(Statement):
    """COPY table | (query) TO 'path' (options): the rows of a plan, written to a file."""

    plan: Plan
    path: str
    format: Literal["csv", "json", "parquet"] | None = None
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Select(Statement):
    """A query to answer once."""

    plan: Plan


@dataclass(frozen=True)
class Explain(Statement):
    """EXPLAIN [ANALYZE] [MATERIALIZED VIEW] name, or EXPLAIN [ANALYZE] of a statement. Exactly one of the two
    is given."""

    view: str | None = None
    statement: Statement | None = None
    analyze: bool = False


@dataclass(frozen=True)
class Backup(Statement):
    """BACKUP TO 'path'."""

    path: str


@dataclass(frozen=True)
class Show(Statement):
    """SHOW TABLES, SHOW VIEWS, or DESCRIBE name."""

    kind: Literal["tables", "views", "describe"]
    name: str | None = None
