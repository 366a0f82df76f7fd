"""Binding ALTER. What sqlglot reads, ADD COLUMN and DROP COLUMN, is in `ddl`; the rest is read here, word by
word.

A table whose rows stay as they are is *redeclared*: the bound statement has the schema that it has from then
on. Invariant: the catalog is only read; that a name is free, and that no view is written with what goes by
another name, is for whoever executes the statement to see.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot.tokens import Token, TokenType

from everfresh.errors import Code, EverfreshError
from everfresh.expr import build
from everfresh.expr.nodes import Expr, Var
from everfresh.sql.constraints import broken, check_text, checks_of, renamed
from everfresh.sql.ddl import common
from everfresh.sql.defaults import declared
from everfresh.sql.logical.plan import Filter, Limit, Plan, Scan
from everfresh.sql.parse import Parsed, expression_of
from everfresh.sql.scope import Catalog, spelled
from everfresh.sql.source import Source, near, position
from everfresh.sql.statements import Comment, Nothing, Redeclare, Rename, Statement
from everfresh.types import Column, TableSchema, fold

_KINDS = {"TABLE": "table", "VIEW": "view"}


class Words:
    """The words of a statement, read from left to right."""

    def __init__(self, source: Source, at: int = 0) -> None:
        self.source, self.tokens, self.at = source, source.tokens, at

    @property
    def token(self) -> Token | None:
        """The next word."""
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def take(self, *words: str) -> bool:
        """Take these words, if they come next; a name in quotes is none."""
        some = self.tokens[self.at : self.at + len(words)]
        quoted = (TokenType.IDENTIFIER, TokenType.STRING)
        if len(some) < len(words) or any(
            t.token_type in quoted or t.text.upper() != word for t, word in zip(some, words, strict=True)
        ):
            return False
        self.at += len(words)
        return True

    def name(self) -> str:
        """Take a name."""
        token = self.token
        if token is None or token.token_type in (TokenType.STRING, TokenType.NUMBER):
            raise self.error("a name is expected here")
        if token.token_type != TokenType.IDENTIFIER and not token.text.replace("_", "a").isalnum():
            raise self.error("a name is expected here")
        self.at += 1
        return str(token.text)

    def inside(self) -> tuple[Token, ...]:
        """Take parentheses; what is in them."""
        if not self.take("("):
            raise self.error("'(' is expected here")
        start, depth = self.at, 1
        while self.at < len(self.tokens):
            kind = self.tokens[self.at].token_type
            depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
            self.at += 1
            if not depth:
                return self.tokens[start : self.at - 1]
        raise self.error("')' is expected here")

    def rest(self) -> tuple[Token, ...]:
        """Take all that is left."""
        at, self.at = self.at, len(self.tokens)
        return self.tokens[at:]

    def end(self) -> None:
        """Raise unless everything was taken."""
        if self.token is not None:
            raise self.error(f"'{self.token.text[:40]}' is not expected here")

    @property
    def place(self) -> str:
        """Where the next word stands."""
        at = self.token.start if self.token is not None else self.tokens[-1].end + 1
        return position(self.source.text, at)

    def error(self, message: str) -> EverfreshError:
        """A syntax error at the next word."""
        return EverfreshError(Code.SYNTAX, message, place=self.place)


def alter(parsed: Parsed, catalog: Catalog) -> Statement:
    """ALTER TABLE ... RENAME, ALTER COLUMN; ALTER [MATERIALIZED] VIEW ... RENAME."""
    source = parsed.source
    words = Words(source, 1)
    materialized = words.take("MATERIALIZED")
    kind = next((k for word, k in _KINDS.items() if words.take(word)), None)
    if kind is None or (materialized and kind == "table"):
        what = "" if words.token is None else words.token.text.upper()
        raise source.unsupported(f"ALTER {what}", hint="ALTER TABLE and ALTER VIEW are")
    gentle = words.take("IF", "EXISTS")
    place, written = words.place, words.name()
    found = catalog.relation(written)
    if found is None and gentle:
        return Nothing(**common(source))
    if found is None or (found[0] == "table") != (kind == "table"):
        raise _no_such(source, catalog, kind, written, found, place)
    name = spelled(catalog, written)
    if kind == "view" or words.take("RENAME", "TO"):
        if kind == "view" and not words.take("RENAME", "TO"):
            raise source.unsupported("ALTER VIEW but for RENAME TO", hint="CREATE OR REPLACE it")
        to = words.name()
        words.end()
        return Rename(name, to, **common(source))
    schema = catalog.table(name)
    if schema is None:
        raise EverfreshError(Code.UNSUPPORTED, f"'{name}' is no table", place=place)
    return _Table(source, catalog, schema, words).altered()


def comment(parsed: Parsed, catalog: Catalog) -> Comment:
    """COMMENT ON TABLE | [MATERIALIZED] VIEW name | COLUMN name.column IS 'text' | NULL."""
    source = parsed.source
    words = Words(source, 1)
    if not words.take("ON"):
        raise words.error("ON is expected here")
    kind = next((w for w in ("TABLE", "MATERIALIZED", "VIEW", "COLUMN") if words.take(w)), None)
    if kind is None or (kind == "MATERIALIZED" and not words.take("VIEW")):
        raise source.unsupported("a comment on this", hint="TABLE, VIEW and COLUMN have comments")
    place, written = words.place, words.name()
    found = catalog.relation(written)
    wanted = {"TABLE": ("table",), "COLUMN": ("table", "view", "plain view")}
    if found is None or found[0] not in wanted.get(kind, ("view", "plain view")):
        expected = {"TABLE": "table", "COLUMN": "table or view"}.get(kind, "view")
        hint = near(written, catalog.names(), "tables and views")
        raise EverfreshError(Code.NOT_FOUND, f"there is no {expected} '{written}'", place=place, hint=hint)
    column = ""
    if kind == "COLUMN":
        if not words.take("."):
            raise words.error("a column is named with its table: t.c")
        place, name = words.place, words.name()
        column = next((c.name for c in found[1] if fold(c.name) == fold(name)), "")
        if not column:
            raise EverfreshError(
                Code.NOT_FOUND,
                f"'{written}' has no column '{name}'",
                place=place,
                hint=near(name, [c.name for c in found[1]], "columns"),
            )
    if not words.take("IS"):
        raise words.error("IS and a text are expected here")
    text = words.token.text if words.token is not None else ""
    if not words.take("NULL"):
        if words.token is None or words.token.token_type != TokenType.STRING:
            raise words.error("a text in quotes, or NULL, is expected here")
        words.at += 1
        words.end()
        return Comment(spelled(catalog, written), column, text, **common(source))
    words.end()
    return Comment(spelled(catalog, written), column, None, **common(source))


def _no_such(
    source: Source, catalog: Catalog, kind: str, name: str, found: Any, place: str
) -> EverfreshError:
    if found is not None:
        other = "view" if kind == "table" else "table"
        message, hint = f"'{name}' is not a {kind}", f"write ALTER {other.upper()}"
        return EverfreshError(Code.NOT_FOUND, message, place=place, hint=hint)
    known = [
        n for n in catalog.names() if ((catalog.relation(n) or ("",))[0] == "table") == (kind == "table")
    ]
    return EverfreshError(
        Code.NOT_FOUND, f"there is no {kind} '{name}'", place=place, hint=near(name, known, f"{kind}s")
    )


class _Table:
    """One ALTER TABLE behind the name of its table."""

    def __init__(self, source: Source, catalog: Catalog, schema: TableSchema, words: Words) -> None:
        self.source, self.catalog, self.schema, self.words = source, catalog, schema, words

    def altered(self) -> Statement:
        """The statement."""
        words = self.words
        if words.take("RENAME"):
            return self._rename_column()
        if words.take("ALTER"):
            words.take("COLUMN")
            return self._alter_column(self._column())
        named = words.name() if words.take("ADD", "CONSTRAINT") else ""
        if (named and words.take("CHECK")) or words.take("ADD", "CHECK"):
            return self._add_check(named)
        if words.take("DROP", "CONSTRAINT"):
            return self._drop_constraint(words.take("IF", "EXISTS"))
        token = words.token
        what = " ".join(t.text.upper() for t in words.tokens[words.at : words.at + 2]) if token else ""
        raise EverfreshError(
            Code.UNSUPPORTED,
            f"ALTER TABLE ... {what} is not supported",
            place=words.place,
            hint="a CHECK can be added; for a PRIMARY KEY make a table that has it and INSERT INTO it",
        )

    def _add_check(self, name: str) -> Statement:
        schema = self.schema
        if name and fold(name) in {fold(known) for known, _ in schema.checks}:
            raise self.source.error(Code.EXISTS, f"there is a constraint '{name}' already")
        tree = expression_of(self.source, self.words.inside())
        text = check_text(self.source, schema.name, schema.columns, tree)
        new = replace(schema, checks=(*schema.checks, (name, text)))
        check = checks_of(new)[-1]
        return self._redeclared(new, self.rows(build.is_false(check.condition)), broken(schema, check))

    def _drop_constraint(self, gentle: bool) -> Statement:
        schema, place = self.schema, self.words.place
        name = self.words.name()
        left = tuple(pair for pair in schema.checks if not pair[0] or fold(pair[0]) != fold(name))
        if len(left) == len(schema.checks) and not gentle:
            known = [own for own, _ in schema.checks if own]
            raise EverfreshError(
                Code.NOT_FOUND,
                f"table '{schema.name}' has no constraint '{name}'",
                place=place,
                hint=near(name, known, "constraints"),
            )
        return self._redeclared(replace(schema, checks=left))

    def _column(self) -> Column:
        place = self.words.place
        written = self.words.name()
        found = self.schema.find(written)
        if found is None:
            raise EverfreshError(
                Code.NOT_FOUND,
                f"table '{self.schema.name}' has no column '{written}'",
                place=place,
                hint=near(written, self.schema.names, "columns"),
            )
        return found

    def _redeclared(self, schema: TableSchema, refused: Plan | None = None, why: str = "") -> Redeclare:
        self.words.end()
        return Redeclare(self.schema.name, schema, refused, why, **common(self.source))

    def _rename_column(self) -> Statement:
        words, schema = self.words, self.schema
        words.take("COLUMN")
        column = self._column()
        if not words.take("TO"):
            raise words.error("TO and a name are expected here")
        place = words.place
        to = words.name()
        taken = schema.find(to)
        if taken is not None and taken.name != column.name:
            raise EverfreshError(
                Code.EXISTS, f"table '{schema.name}' has a column '{taken.name}' already", place=place
            )
        new = with_column(schema, column.name, to)
        return self._redeclared(renamed(schema, new, column.name, to) if to != column.name else schema)

    def _alter_column(self, column: Column) -> Statement:
        words, schema = self.words, self.schema
        if column.name not in schema.given:
            raise EverfreshError(Code.UNSUPPORTED, f"column '{column.name}' is generated", place=words.place)
        if words.take("SET", "DEFAULT"):
            tree = expression_of(self.source, words.rest())
            text, _ = declared(self.source, column, tree)
            kept = [pair for pair in schema.defaults if pair[0] != column.name]
            return self._redeclared(replace(schema, defaults=(*kept, (column.name, text))))
        if words.take("DROP", "DEFAULT"):
            left = tuple(pair for pair in schema.defaults if pair[0] != column.name)
            return self._redeclared(replace(schema, defaults=left))
        if words.take("SET", "NOT", "NULL"):
            why = f"column '{column.name}' of '{schema.name}' has a NULL"
            missing = build.call("is_null", Var(column.name, column.type, column.nullable))
            return self._redeclared(_with(schema, replace(column, nullable=False)), self.rows(missing), why)
        if words.take("DROP", "NOT", "NULL"):
            if column.name in schema.key:
                raise EverfreshError(
                    Code.DEPENDENCY, f"column '{column.name}' is part of the primary key", place=words.place
                )
            return self._redeclared(_with(schema, replace(column, nullable=True)))
        raise EverfreshError(
            Code.UNSUPPORTED,
            "changing the type of a column is not supported",
            place=words.place,
            hint="ADD COLUMN with the new type, UPDATE it from the old one, DROP that, RENAME the new one",
        )

    def rows(self, condition: Expr) -> Plan:
        """A row of the table for which a condition is true."""
        schema = self.schema
        scan = Scan(schema.name, schema.name, tuple(Var(c.name, c.type, c.nullable) for c in schema.columns))
        return Limit(Filter(scan, condition), 1)


def _with(schema: TableSchema, column: Column) -> TableSchema:
    """The table with a column declared anew."""
    return replace(schema, columns=tuple(column if c.name == column.name else c for c in schema.columns))


def with_column(schema: TableSchema, name: str, to: str) -> TableSchema:
    """The table with a column by another name."""

    def named(one: str) -> str:
        return to if one == name else one

    return replace(
        schema,
        columns=tuple(replace(c, name=named(c.name)) for c in schema.columns),
        key=tuple(map(named, schema.key)),
        defaults=tuple((named(n), text) for n, text in schema.defaults),
    )
