"""What a DDL statement does: what an engine has to make, drop or rebuild for it."""

from __future__ import annotations

from dataclasses import dataclass

from everfresh.compiler.compile import CompiledView
from everfresh.compiler.plain_views import PlainView
from everfresh.expr import Const
from everfresh.types import Column, TableSchema


@dataclass(frozen=True, slots=True)
class ViewDef:
    """A view in the catalog: its text as the user wrote it, and its compiled form."""

    name: str
    text: str
    compiled: CompiledView
    through: tuple[str, ...] = ()
    """The plain views that the text names."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the view."""
        return self.compiled.view.columns


@dataclass(frozen=True, slots=True)
class Effect:
    """What an engine has to do for a DDL statement: drop, then alter, then create."""

    text: str
    drop_tables: tuple[str, ...] = ()
    drop_views: tuple[str, ...] = ()
    create_table: TableSchema | None = None
    create_view: ViewDef | None = None
    alter_table: tuple[TableSchema, TableSchema, Const | None] | None = None
    redeclare: tuple[TableSchema, TableSchema] | None = None
    """A table as it was declared, and as it is from now on, over the same rows."""
    rename: tuple[str, str] | None = None
    """A view that goes by another name."""
    comment: tuple[str, str, str | None] | None = None
    """What is said of a table or view, or of a column of it."""
    create_query: PlainView | None = None
    drop_queries: tuple[str, ...] = ()
    named_type: str | None = None
    """A name of a type that is there from now on, or is gone."""
    cascade: bool = False
    """Whether what reads the things that go is to go with them."""

    @property
    def nothing(self) -> bool:
        """Whether the statement changes nothing (IF [NOT] EXISTS)."""
        return self == Effect(self.text)

    @property
    def made(self) -> str | None:
        """The name of the table or view that it creates, or that one goes by from now on."""
        if self.rename is not None or (self.redeclare is not None and len(self._renamed) == 2):
            return self._renamed[1]
        created = self.create_table or self.create_view or self.create_query
        return created.name if created is not None else None

    @property
    def columns_renamed(self) -> bool:
        """Whether columns of a table go by other names from now on."""
        return self.redeclare is not None and self.redeclare[0].names != self.redeclare[1].names

    @property
    def _renamed(self) -> tuple[str, ...]:
        """What a table or view was called, and is called now."""
        old, new = self.redeclare or (None, None)
        known = self.rename or ((old.name, new.name) if old is not None and new is not None else ())
        return tuple(dict.fromkeys(known))

    @property
    def gone(self) -> tuple[str, ...]:
        """The names of tables and views of which something is no longer there after it."""
        gone = (*self.drop_tables, *self.drop_views, *self.drop_queries)
        if self.alter_table is not None:
            old, new, _ = self.alter_table
            gone += () if set(old.names) <= set(new.names) else (new.name,)
        if self.redeclare is not None and self.columns_renamed:
            gone += (self.redeclare[0].name,)
        return gone + (self._renamed[:1] if len(self._renamed) == 2 else ())
