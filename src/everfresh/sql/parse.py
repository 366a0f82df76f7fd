"""From text to parse trees: one `Parsed` per statement of a script.

sqlglot does the parsing. What its grammar lacks (STATIC, options of views, EXPLAIN of a view, SHOW VIEWS)
is taken out of its token stream first, never out of the raw text. Invariant: whatever the text, only
`EverfreshError` is raised, and nothing is printed or logged.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from typing import Any

from sqlglot import Dialect, ErrorLevel, exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokens import Token, TokenType

from everfresh.errors import Code, EverfreshError
from everfresh.sql.parameters import Parameters, check_given, numbered
from everfresh.sql.source import Source, near, position
from everfresh.types import is_unicode

VERBS = ("EXPLAIN", "SHOW", "DESCRIBE", "DESC", "BACKUP")  # statements whose rest we read ourselves
STARTS = (
    "SELECT",
    "WITH",
    "FROM",
    "TABLE",
    "VALUES",
    "(",
    "CREATE",
    "DROP",
    "ALTER",
    "INSERT",
    "UPDATE",
    "DELETE",
    "COPY",
    "TRUNCATE",
    "MERGE",
    "PIVOT",
    "UNPIVOT",
)
REFUSED = frozenset(
    """ANALYZE ATTACH BEGIN CALL CHECKPOINT COMMENT COMMIT DEALLOCATE DETACH EXECUTE EXPORT GRANT IMPORT
    ABORT END INSTALL LOAD LOCK OPTIMIZE PRAGMA PREPARE REFRESH RENAME REPLACE RESET REVOKE ROLLBACK
    SAVEPOINT SET START SUMMARIZE UNCACHE UPSERT USE VACUUM""".split()  # noqa: SIM905
)
PREPARING = ("PREPARE", "EXECUTE", "DEALLOCATE")
_WHOLE = 1 << 40  # characters of context around an error: all of them, so that its offset is known


@dataclass(frozen=True)
class Parsed:
    """One statement: its tree (or the verb of those we read ourselves), and what the pre-pass took out."""

    source: Source
    tree: Any = None  # exp.Expression; None with a verb of VERBS or REFUSED
    verb: str = ""
    static: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    inner: Parsed | None = None  # of EXPLAIN statement

    @property
    def asks(self) -> bool:
        """Whether it changes nothing."""
        return self.verb in VERBS if self.tree is None else isinstance(self.tree, exp.Query | exp.Values)

    @property
    def rest(self) -> tuple[Token, ...]:
        """The tokens after the verb."""
        return self.source.tokens[1:]


def split(
    text: str, dialect: str = "duckdb", given: Parameters | None = None, beside: Any = None
) -> list[Parsed]:
    """The statements of a script; empty ones are left out. Only one statement takes parameters. `beside`
    are rows that its queries may read (`Source.beside`).

    >>> [p.tree.key for p in split("CREATE STATIC TABLE t (a INT); ; DELETE FROM t;")]
    ['create', 'delete']
    """
    try:
        rules = Dialect.get_or_raise(dialect)
        if dialect == "duckdb":
            rules.INDEX_OFFSET = 0  # sqlglot counts the places of a list from 0, where it sees a number
            setattr(rules, "to_json_path", _as_written)  # noqa: B010 - paths are read by the function itself
    except ValueError:
        names = sorted(n for n in Dialect.classes if n)
        raise EverfreshError(
            Code.ARGUMENT, f"there is no SQL dialect '{dialect}'", hint=near(str(dialect), names, "dialects")
        ) from None
    if not is_unicode(text):
        raise EverfreshError(
            Code.SYNTAX,
            "the text has a lone surrogate and is no valid Unicode",
            place=position(text, next(i for i, c in enumerate(text) if not is_unicode(c))),
        )
    with _guarded(text):
        chunks = list(_statements(text, rules))
    if given is not None and len(chunks) != 1:
        raise EverfreshError(Code.ARGUMENT, f"parameters are for one statement, not for {len(chunks)}")
    parsed = []
    for chunk in chunks:
        tokens = tuple(numbered(chunk))
        if dialect == "duckdb" and not _is(tokens[0], "PREPARE"):
            check_given(tokens, given)
        with _guarded(text), _quiet():
            parsed.append(_parse(Source(text, tokens, dialect, given, beside=beside), rules))
    return parsed


_TRANSACTION = {
    "BEGIN": "begin", "START": "begin", "COMMIT": "commit", "END": "commit", "ROLLBACK": "rollback",
    "ABORT": "rollback",
}  # fmt: skip


def transaction_word(parsed: Parsed) -> str | None:
    """`begin`, `commit` or `rollback`, if a statement is one of these.

    >>> [transaction_word(p) for p in split("Begin Transaction; SELECT 1; END")]
    ['begin', None, 'commit']
    """
    word = _TRANSACTION.get(parsed.verb)
    rest = [token.text.upper() for token in parsed.rest] if word is not None else []
    if word is not None and rest not in ([], ["TRANSACTION"], ["WORK"]):
        raise parsed.source.error(Code.SYNTAX, f"{parsed.verb} takes nothing but TRANSACTION")
    return word


def _as_written(path: Any) -> Any:
    return path


# -- tokens ----------------------------------------------------------------------------------------------


@cache
def _tokenizer(of: type[Any]) -> type[Any]:
    """A dialect's tokenizer, made not to swallow the rest of EXPLAIN and other commands as one string."""
    made: type[Any] = type(of)(f"Plain{of.__name__}", (of,), {"COMMANDS": set()})  # type: ignore[misc]
    return made


def _statements(text: str, rules: Any) -> Iterator[list[Token]]:
    """The tokens of each statement, without semicolons."""
    tokenizer = _tokenizer(rules.tokenizer_class)(dialect=rules)
    try:
        tokens = tokenizer.tokenize(text)
    except TokenError:
        raise _token_error(text, tokenizer.tokens) from None
    chunk: list[Token] = []
    for token in tokens:
        if token.token_type != TokenType.SEMICOLON:
            chunk.append(token)
        elif chunk:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _is(token: Token, *texts: str) -> bool:
    quoted = token.token_type in (TokenType.STRING, TokenType.IDENTIFIER)
    return not quoted and token.text.upper() in texts


# -- one statement ---------------------------------------------------------------------------------------


def _parse(source: Source, rules: Any) -> Parsed:
    first = source.tokens[0]
    word = first.text.upper()
    if _is(first, *VERBS):
        verb = "DESCRIBE" if word == "DESC" else word
        return Parsed(source, verb=verb, inner=_explained(source, rules) if verb == "EXPLAIN" else None)
    if _is(first, "PREPARE"):
        return Parsed(source, verb=word, inner=_prepared(source, rules))
    if _is(first, "CREATE", "DROP") and _of_type(source.tokens):
        return Parsed(source, verb="TYPE")
    if _is(first, *REFUSED) or (_is(first, "ALTER") and _read_here(source.tokens)):
        return Parsed(source, verb=word)
    if not _is(first, *STARTS):
        hint = near(first.text, (s for s in STARTS + VERBS if s != "("), "statements")
        raise source.error(Code.SYNTAX, f"a statement cannot start with '{_shorten(first.text)}'", hint=hint)
    _check_commas(source)
    tokens, static, options = _extract(source)
    parser = rules.parser(error_level=ErrorLevel.IMMEDIATE, error_message_context=_WHOLE)
    trees = parser.parse(_with_pivot_in_parentheses(tokens), source.text)
    if len(trees) != 1 or trees[0] is None:
        raise source.error(Code.SYNTAX, "this is not a statement")
    return Parsed(source, _tidied(trees[0]), static=static, options=options)


def _with_pivot_in_parentheses(tokens: list[Token]) -> list[Token]:
    """`CREATE ... AS PIVOT ...` as `AS (PIVOT ...)`, which sqlglot reads."""
    depth = 0
    for at, token in enumerate(tokens if _is(tokens[0], "CREATE") else ()):
        depth += _is(token, "(") - _is(token, ")")
        if depth == 0 and _is(token, "AS"):
            if at + 1 < len(tokens) and _is(tokens[at + 1], "PIVOT", "UNPIVOT"):
                opened = Token(TokenType.L_PAREN, "(", start=token.end, end=token.end)
                last = tokens[-1].end
                closed = Token(TokenType.R_PAREN, ")", start=last, end=last)
                return [*tokens[: at + 1], opened, *tokens[at + 1 :], closed]
            break
    return tokens


def _of_type(tokens: Sequence[Token]) -> bool:
    """Whether a statement creates or drops a type, which sqlglot does not read."""
    at = 3 if len(tokens) > 3 and _is(tokens[1], "OR") else 1
    return len(tokens) > at and _is(tokens[at], "TYPE")


def _tidied(tree: Any) -> Any:
    """The tree with keywords in upper case, and the queries of ALL where those of ANY are.

    sqlglot keeps some words as they were written (`rows`, `preceding`, `ignore`): every plain text in a tree
    is one, but for what nodes are called by (`this`) and the names of types.
    """
    for node in list(tree.walk()):
        for key, value in node.args.items():
            if type(value) is str and key != "this" and not isinstance(node, exp.DataType):
                node.args[key] = value.upper()
        if isinstance(node, exp.Anonymous):
            _all_of_query(node)
        if isinstance(node, exp.Any) and isinstance(node.this, exp.Paren):
            node.set("this", _values_of(node.this.this))
    return _pivots_as_queries(tree)


def _pivots_as_queries(tree: Any) -> Any:
    """The tree with `PIVOT t ON ...` and `UNPIVOT t ON ...` as queries over `t PIVOT (...)`."""
    for node in list(tree.find_all(exp.Pivot)):
        source = node.args.get("this")
        if source is None:
            continue
        made = node.copy()
        made.set("this", None)
        if isinstance(source, exp.Subquery | exp.Table):
            of = source.copy()
        else:
            of = exp.Subquery(this=source.copy())
        of.set("pivots", [made])
        select = exp.Select(expressions=[exp.Star()], from_=exp.From(this=of))
        if node is tree:
            return select
        node.replace(select)
    return tree


def _all_of_query(node: Any) -> None:
    """sqlglot reads `x > ALL ((query) UNION (query))` as a call of a function ALL, while it knows ANY."""
    of = node.expressions
    if node.name.upper() == "ALL" and len(of) == 1:
        query = of[0] if isinstance(of[0], exp.Subquery) else exp.Subquery(this=of[0])
        node.replace(exp.All(this=query if isinstance(of[0], exp.Query) else _values_of(of[0])))


def _values_of(values: Any) -> Any:
    """The query of the values of a list: what ANY and ALL of a list ask."""
    return exp.Subquery(this=exp.Select(expressions=[exp.Explode(this=values.copy())]))


def _check_commas(source: Source) -> None:
    """sqlglot reads `(1,,2)` as `(1,2)`."""
    for before, token in pairwise(source.tokens):
        if token.token_type == TokenType.COMMA and before.token_type in (TokenType.COMMA, TokenType.L_PAREN):
            raise EverfreshError(
                Code.SYNTAX, "a value is missing before ','", place=position(source.text, token.start)
            )


def _prepared(source: Source, rules: Any) -> Parsed | None:
    """The statement behind PREPARE name AS."""
    rest = source.tokens[3:]
    if not rest or not _is(source.tokens[2], "AS"):
        return None
    if _is(rest[0], *PREPARING, *_TRANSACTION):
        raise source.error(Code.SYNTAX, f"{rest[0].text.upper()} cannot be prepared")
    return _parse(Source(source.text, rest, source.dialect), rules)


def is_analyze(tokens: Sequence[Token]) -> bool:
    """Whether a statement is EXPLAIN ANALYZE; alone the word is the name of a view."""
    return len(tokens) > 2 and _is(tokens[1], "ANALYZE")


def _explained(source: Source, rules: Any) -> Parsed | None:
    """The statement after EXPLAIN, if there is one rather than the name of a view."""
    rest = source.tokens[2 if is_analyze(source.tokens) else 1 :]
    if not rest or not _is(rest[0], *STARTS, *REFUSED, *VERBS):
        return None
    return _parse(replace(source, tokens=rest), rules)


def _extract(source: Source) -> tuple[list[Token], bool, dict[str, Any]]:
    """The tokens that sqlglot shall see, whether STATIC was among them, and the options after WITH."""
    tokens = _named_calls(source.tokens)
    if _is(tokens[0], "ALTER"):
        return _full_drop_column(tokens), False, {}
    if _is(tokens[0], "DROP") and len(tokens) > 1 and _is(tokens[1], "MATRIX"):
        return _drop_matrix(tokens), False, {"matrix": True}
    if not _is(tokens[0], "CREATE"):
        return tokens, False, {}
    kind = next((i for i, t in enumerate(tokens) if _is(t, "TABLE", "VIEW")), 0)
    if kind and _is(tokens[kind], "TABLE"):
        tokens = _short_generated(tokens)
    static = kind > 0 and _is(tokens[kind], "TABLE") and _is(tokens[kind - 1], "STATIC")
    if static:
        del tokens[kind - 1]
    start = _options_at(tokens)
    if start is None:
        return tokens, static, {}
    options, end = _read_options(source, tokens, start + 2)
    return tokens[:start] + tokens[end:], static, options


def _named_calls(tokens: Sequence[Token]) -> list[Token]:
    """The tokens with SESSION before a parenthesis as a name, not as the word of `SET SESSION`."""
    found = list(tokens)
    for i, (token, after) in enumerate(pairwise(tokens)):
        if after.token_type == TokenType.L_PAREN and _is(token, "SESSION"):
            found[i] = Token(TokenType.VAR, token.text, token.line, token.col, token.start, token.end)
    return found


def _read_here(tokens: Sequence[Token]) -> bool:
    """Whether an ALTER is read by its words (`everfresh.sql.altering`): all but ADD and DROP COLUMN."""
    if not any(_is(token, "TABLE") for token in tokens[1:2]):
        return True
    depth, words = 0, []
    for token in tokens[2:]:
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        words.append("" if depth or not _is(token, token.text.upper()) else token.text.upper())
    at = 2 if words[:2] == ["IF", "EXISTS"] else 0
    at += 1
    while words[at : at + 1] == ["."]:
        at += 2
    action = words[at : at + 2]
    return action[:1] in (["RENAME"], ["ALTER"]) or (
        action[:1] in (["ADD"], ["DROP"])
        and action[1:] != ["COLUMN"]
        and action[1:] in (["CONSTRAINT"], ["CHECK"], ["UNIQUE"], ["PRIMARY"], ["FOREIGN"])
    )


def expression_of(source: Source, tokens: Sequence[Token]) -> Any:
    """The tree of an expression that a statement has among its words."""
    rules = Dialect.get_or_raise(source.dialect)
    parser = rules.parser(error_level=ErrorLevel.IMMEDIATE, error_message_context=_WHOLE)
    with _guarded(source.text), _quiet():
        trees = parser.parse([Token(TokenType.SELECT, "SELECT"), *tokens], source.text)
    tree = trees[0] if len(trees) == 1 else None
    if not isinstance(tree, exp.Select) or len(tree.expressions) != 1 or len(_set(tree)) != 1:
        at = tokens[0].start if tokens else source.tokens[-1].end
        raise EverfreshError(Code.SYNTAX, "an expression is expected here", place=position(source.text, at))
    return _tidied(tree).expressions[0].pop()


def _set(tree: Any) -> list[str]:
    return [name for name, value in tree.args.items() if value]


def _short_generated(tokens: list[Token]) -> list[Token]:
    """`GENERATED ALWAYS AS (expression)` as `AS (expression)`, of which sqlglot reads all that may follow."""
    texts = ["" if not _is(t, t.text.upper()) else t.text.upper() for t in tokens]
    starts = [i for i in range(len(texts)) if texts[i : i + 4] == ["GENERATED", "ALWAYS", "AS", "("]]
    return [token for i, token in enumerate(tokens) if not {i, i - 1}.intersection(starts)]


def _full_drop_column(tokens: list[Token]) -> list[Token]:
    """ALTER TABLE t DROP c, which sqlglot reads only as DROP COLUMN c."""
    at = next((i for i, t in enumerate(tokens) if i > 2 and _is(t, "DROP")), None)
    if (
        at is None
        or at + 1 >= len(tokens)
        or _is(tokens[at + 1], "COLUMN", "CONSTRAINT", "PRIMARY", "PARTITION")
    ):
        return tokens
    drop = tokens[at]
    column = Token(TokenType.COLUMN, "COLUMN", drop.line, drop.col, drop.start, drop.end)
    return [*tokens[: at + 1], column, *tokens[at + 1 :]]


def _drop_matrix(tokens: list[Token]) -> list[Token]:
    """DROP MATRIX and DROP MATRIX VIEW, which sqlglot does not know, as DROP TABLE and DROP VIEW."""
    word = tokens[1]
    if len(tokens) > 2 and _is(tokens[2], "VIEW"):
        return [tokens[0], *tokens[2:]]
    table = Token(TokenType.TABLE, "TABLE", word.line, word.col, word.start, word.end)
    return [tokens[0], table, *tokens[2:]]


def _options_at(tokens: Sequence[Token]) -> int | None:
    """Where `WITH (` stands outside of parentheses and before AS."""
    depth = 0
    for i, token in enumerate(tokens[:-1]):
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if depth == 0 and token.token_type == TokenType.ALIAS:
            return None
        if depth == 0 and _is(token, "WITH") and tokens[i + 1].token_type == TokenType.L_PAREN:
            return i
    return None


_EQUALS = Token(TokenType.EQ, "=")


def _read_options(source: Source, tokens: Sequence[Token], i: int) -> tuple[dict[str, Any], int]:
    """`key = value, ...)` or `key value, ...)` from token `i` on; also the index after the parenthesis."""
    options: dict[str, Any] = {}
    while True:
        key, equals, value, after = (list(tokens[i : i + 4]) + [None] * 4)[:4]
        if (
            equals is not None and equals.token_type != TokenType.EQ and _ends(value)
        ):  # name value, as in COPY
            i -= 1
            equals, value, after = _EQUALS, equals, value
        if (
            key is None
            or equals is None
            or value is None
            or after is None
            or equals.token_type != TokenType.EQ
            or _ends(value)
        ):
            at = key or tokens[-1]
            raise EverfreshError(
                Code.SYNTAX,
                "options are written WITH (name = value, ...)",
                place=position(source.text, at.start),
            )
        name = key.text.lower()
        if name in options:
            raise EverfreshError(
                Code.SYNTAX, f"option '{name}' is given twice", place=position(source.text, key.start)
            )
        options[name] = option_value(value)
        i += 4
        if after.token_type == TokenType.R_PAREN:
            return options, i
        if after.token_type != TokenType.COMMA:
            raise EverfreshError(
                Code.SYNTAX,
                f"',' or ')' expected, not '{_shorten(after.text)}'",
                place=position(source.text, after.start),
            )


def _ends(token: Token | None) -> bool:
    """Whether a token ends an option."""
    return token is not None and token.token_type in (TokenType.COMMA, TokenType.R_PAREN)


def option_value(token: Token) -> Any:
    """The value of an option: a number, a boolean, text in quotes, or a word, whose case is nothing."""
    if token.token_type == TokenType.NUMBER:
        return float(token.text) if not token.text.isdigit() else int(token.text)
    if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
        return token.text
    return {"true": True, "false": False}.get(token.text.lower(), token.text.lower())


# -- errors ----------------------------------------------------------------------------------------------


@contextmanager
def _guarded(text: str) -> Iterator[None]:
    """Turn everything sqlglot raises into a syntax error with its place."""
    try:
        yield
    except ParseError as error:
        raise _syntax(text, error) from None
    except RecursionError:
        raise EverfreshError(Code.SYNTAX, "the statement is nested too deeply") from None
    except EverfreshError:
        raise
    except Exception as error:  # sqlglot builds some nodes without checking: ValueError, TypeError, ...
        raise EverfreshError(Code.SYNTAX, f"the text cannot be read: {_shorten(str(error))}") from None


def _syntax(text: str, error: ParseError) -> EverfreshError:
    details = error.errors[0] if error.errors else {}
    highlight = details.get("highlight") or ""
    offset = len(details.get("start_context") or "")
    what = _shorten(highlight)
    described = str(details.get("description") or "")
    if described.startswith("Expecting "):
        message = f"{described[10:]} expected near '{what}'"
    else:
        message = f"syntax error at '{what}'" if what else "the statement ends too early"
    return EverfreshError(Code.SYNTAX, message, place=position(text, offset))


def _token_error(text: str, tokens: Sequence[Token]) -> EverfreshError:
    """The text after the last good token is at fault."""
    end = tokens[-1].end + 1 if tokens else 0
    rest = text[end:].lstrip()
    return EverfreshError(
        Code.SYNTAX,
        f"the text from '{_shorten(rest, 20)}' on cannot be read",
        place=position(text, len(text) - len(rest)),
        hint="is a quote or a comment left open?",
    )


def _shorten(text: str, limit: int = 40) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 3] + "..."


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep sqlglot from logging that it does not know a command: the binder refuses it."""
    logger = logging.getLogger("sqlglot")

    def nothing(record: logging.LogRecord) -> bool:
        return False

    logger.addFilter(nothing)
    try:
        yield
    finally:
        logger.removeFilter(nothing)
