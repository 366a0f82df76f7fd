"""From a parsed statement to a bound one: the table of statements.

Invariant: only `EverfreshError` is raised, and the catalog is only read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from sqlglot import exp
from sqlglot.tokens import TokenType

from everfresh.errors import Code, EverfreshError
from everfresh.sql import altering, ddl, dml, row_changes, user_types
from everfresh.sql.ddl import common
from everfresh.sql.parse import VERBS, Parsed, is_analyze
from everfresh.sql.queries.query import bind_query
from everfresh.sql.scope import Catalog, spelled
from everfresh.sql.source import moment, near
from everfresh.sql.statements import Backup, Checkpoint, Explain, Select, Show, Statement


def bind(parsed: Parsed, catalog: Catalog) -> Statement:
    """The statement with its names resolved in `catalog` and its expressions typed."""
    parsed = replace(parsed, source=replace(parsed.source, types=catalog.types))
    try:
        if parsed.verb:
            return _verb(parsed, catalog)
        rule = next((_RULES[k] for k in type(parsed.tree).__mro__ if k in _RULES), None)
        if rule is None:
            raise parsed.source.unsupported(f"the statement {parsed.source.tokens[0].text.upper()}")
        if parsed.source.given is not None and _kept_as_text(parsed.tree):
            raise parsed.source.unsupported(
                "a parameter in what is kept as text", hint="write the value into the statement"
            )
        if not _kept_as_text(parsed.tree):
            parsed = replace(parsed, source=replace(parsed.source, now=moment()))
        return rule(parsed, catalog)
    except EverfreshError as error:
        raise (error if error.place else error.at(parsed.source.start)) from None
    except RecursionError:
        raise parsed.source.error(Code.UNSUPPORTED, "the statement is nested too deeply") from None


def _kept_as_text(tree: Any) -> bool:
    """Whether a statement is kept as it is written; a table is kept by its columns."""
    if isinstance(tree, exp.Create) and str(tree.kind).upper() == "TABLE" and tree.expression is not None:
        return False
    return isinstance(tree, exp.Create | exp.Alter)


def _select(parsed: Parsed, catalog: Catalog) -> Select:
    return Select(bind_query(parsed.tree, catalog, parsed.source).plan, **common(parsed.source))


def _command(parsed: Parsed, catalog: Catalog) -> Statement:
    text = " ".join(parsed.source.statement.split())
    raise parsed.source.unsupported(f"the statement '{text[:60]}{'...' if len(text) > 60 else ''}'")


_OPTIONS = "options are given to connect: everfresh.connect(path, options=everfresh.Options(...))"
_HINTS = {
    "SET": _OPTIONS,
    "RESET": _OPTIONS,
    "PRAGMA": _OPTIONS + "; DESCRIBE t says what a table has",
    "VACUUM": "leave it out: memory and files of rows that went are reclaimed by themselves",
    "ANALYZE": "leave it out: how many rows tables have is known",
    "ATTACH": "connect to each database: everfresh.connect(path)",
    "DETACH": "close it: db.close()",
    "USE": "connect to each database: everfresh.connect(path)",
    "REFRESH": "leave it out: views are fresh when a batch returns",
    "SAVEPOINT": "begin a transaction for each part",
}
"""What to do in place of statements that are refused."""


def _verb(parsed: Parsed, catalog: Catalog) -> Statement:
    if parsed.verb == "ALTER":
        return altering.alter(parsed, catalog)
    if parsed.verb == "CHECKPOINT" and not parsed.rest:
        return Checkpoint(**common(parsed.source))
    if parsed.verb == "COMMENT":
        return altering.comment(parsed, catalog)
    if parsed.verb == "TYPE":
        return user_types.bind_type(parsed, catalog)
    if parsed.verb not in VERBS:
        raise parsed.source.unsupported(f"the statement {parsed.verb}", hint=_HINTS.get(parsed.verb))
    rules = {"EXPLAIN": _explain, "SHOW": _show, "DESCRIBE": _describe, "BACKUP": _backup}
    return rules[parsed.verb](parsed, catalog)


def _explain(parsed: Parsed, catalog: Catalog) -> Explain:
    analyze = is_analyze(parsed.source.tokens)
    if parsed.inner is not None:
        inner = bind(parsed.inner, catalog)
        if analyze and not isinstance(inner, Select):
            raise parsed.source.unsupported(
                "EXPLAIN ANALYZE of anything but a query or a view", hint="it would be carried out"
            )
        return Explain(statement=inner, analyze=analyze, **common(parsed.source))
    words = [t.text for t in parsed.rest[analyze:]]
    skip = {("MATERIALIZED", "VIEW"): 2, ("VIEW",): 1}
    upper = tuple(w.upper() for w in words[:-1])
    names = words[skip.get(upper, 0) :]
    return Explain(
        view=_name(parsed, catalog, names, "EXPLAIN needs a view or a query", "view"),
        analyze=analyze,
        **common(parsed.source),
    )


def _show(parsed: Parsed, catalog: Catalog) -> Show:
    kinds: dict[str, Literal["tables", "views"]] = {
        "TABLES": "tables", "VIEWS": "views", "MATERIALIZED VIEWS": "views",
    }  # fmt: skip
    what = " ".join(t.text.upper() for t in parsed.rest)
    if what not in kinds:
        raise parsed.source.unsupported(
            f"SHOW {what[:40]}", hint="SHOW TABLES, SHOW VIEWS and DESCRIBE name are"
        )
    return Show(kinds[what], **common(parsed.source))


def _describe(parsed: Parsed, catalog: Catalog) -> Show:
    words = [t.text for t in parsed.rest]
    return Show(
        "describe", _name(parsed, catalog, words, "DESCRIBE needs a table or view"), **common(parsed.source)
    )


def _backup(parsed: Parsed, catalog: Catalog) -> Backup:
    rest = parsed.rest
    path = rest[1] if len(rest) == 2 and rest[0].text.upper() == "TO" else None
    if path is None or path.token_type != TokenType.STRING or not path.text:
        raise parsed.source.error(Code.SYNTAX, "a backup is written BACKUP TO 'folder'")
    return Backup(path.text, **common(parsed.source))


def _name(parsed: Parsed, catalog: Catalog, words: list[str], usage: str, kind: str = "") -> str:
    """The relation that the only word names."""
    if len(words) != 1:
        raise EverfreshError(Code.SYNTAX, usage, place=parsed.source.start)
    found = catalog.relation(words[0])
    if found is None or (kind and found[0] == "table"):  # arrays and matrix views are views as well here
        what = kind or "table or view"
        names = [n for n in catalog.names() if not kind or (catalog.relation(n) or ("",))[0] != "table"]
        raise parsed.source.error(
            Code.NOT_FOUND, f"there is no {what} '{words[0]}'", hint=near(words[0], names, f"{what}s")
        )
    return spelled(catalog, words[0])


_RULES: dict[type[Any], Callable[[Parsed, Catalog], Statement]] = {
    exp.Create: ddl.create,
    exp.Drop: ddl.drop,
    exp.Alter: ddl.alter,
    exp.Insert: dml.insert,
    exp.Update: dml.update,
    exp.Delete: dml.delete,
    exp.Merge: row_changes.merge,
    exp.TruncateTable: dml.truncate,
    exp.Copy: dml.copy,
    exp.Query: _select,
    exp.Values: _select,
    exp.Command: _command,
}
