"""The name of an output column without an alias: the expression printed as DuckDB 2 prints it.

`SELECT sum(x+1)` is called `sum((x + 1))`, `count(*)` is `count_star()`. Invariant: naming never fails; a
class without a rule is printed by sqlglot.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable
from typing import Any

from sqlglot import exp
from sqlglot.tokens import TokenType

from everfresh.sql.naming import aggregate_names, nested_names, query_names
from everfresh.sql.naming.keywords import quote
from everfresh.sql.source import Source

# types that DuckDB's parser knows as keywords; other names are kept as written
_TYPE_KEYWORDS = {
    "INT": "INTEGER", "INTEGER": "INTEGER", "SMALLINT": "SMALLINT", "BIGINT": "BIGINT", "REAL": "FLOAT",
    "FLOAT": "FLOAT", "BOOLEAN": "BOOLEAN", "CHAR": "VARCHAR", "CHARACTER": "VARCHAR", "VARCHAR": "VARCHAR",
    "DECIMAL": "DECIMAL", "DEC": "DECIMAL", "NUMERIC": "DECIMAL", "TIMESTAMP": "TIMESTAMP", "TIME": "TIME",
    "JSON": '"json"',
}  # fmt: skip

_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE})
_TYPED_LITERALS = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMPTZ", "UUID", "BLOB", "JSON")  # DATE '2020-01-01'


def output_name(node: Any, source: Source) -> str:
    """The name DuckDB gives to the column that computes `node`."""
    if isinstance(node, exp.Column):
        return str(node.name)
    return Printer(source).show(node)


class Printer:
    """Prints trees as DuckDB does."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def show(self, node: Any) -> str:
        """One tree; nothing for an operand that is missing (the binder refuses it)."""
        if not isinstance(node, exp.Expr):
            return ""
        rule = _RULES.get(type(node))
        if rule is not None:
            return rule(self, node)
        if isinstance(node, exp.Func):
            return self.call(node)
        return str(node.sql("duckdb"))

    def call(self, node: Any, *args: Any) -> str:
        """A function call, under the name it was written with."""
        shown = list(args) or [a for v in node.args.values() for a in (v if isinstance(v, list) else [v])]
        if not args:  # sqlglot adds some that were not written
            shown = [a for a in shown if isinstance(a, exp.Expr)][: self.written(node)]
        inside = ", ".join(self.show(a) for a in shown if isinstance(a, exp.Expr))
        return f"{quote(self.function(node))}({inside})"

    def written(self, node: Any) -> int | None:
        """How many arguments a function call has in the text; None if that is not known."""
        i, tokens = self.source.index(node), self.source.tokens
        if i is None or i + 1 >= len(tokens) or tokens[i + 1].token_type != TokenType.L_PAREN:
            return None
        depth, commas = 0, 0
        for j in range(i + 1, len(tokens)):
            kind = tokens[j].token_type
            depth += (kind in _OPENING) - (kind in _CLOSING)
            commas += kind == TokenType.COMMA and depth == 1
            if not depth:
                return commas + 1 if j > i + 2 else 0
        return None

    def function(self, node: Any) -> str:
        """The name of the function as written, in lower case."""
        i = self.source.index(node)
        tokens = self.source.tokens
        if i is not None and i + 1 < len(tokens) and tokens[i + 1].token_type == TokenType.L_PAREN:
            return str(tokens[i].text).lower()
        if isinstance(node, exp.AggFunc) and (name := self._before(node)) is not None:
            return name
        return str(node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower()

    def _before(self, node: Any) -> str | None:
        """What stands before the parenthesis of a call that itself has no offset in the tree."""
        starts = [child.meta["start"] for child in node.walk() if "start" in child.meta]
        i = bisect_left(self.source.starts, min(starts)) - 1 if starts else -1
        while i > 0 and self.source.tokens[i].text.upper() in ("(", "[", "DISTINCT"):
            i -= 1
        called = i >= 0 and self.source.tokens[i + 1].token_type == TokenType.L_PAREN
        name = str(self.source.tokens[i].text).lower() if called else ""
        return name if name.isidentifier() else None

    def type_name(self, node: Any) -> str:
        """The type of a CAST as written, except for the keywords of DuckDB's grammar."""
        to, index, tokens = node.args["to"], self._type_index(node), self.source.tokens
        if to.args.get("nested"):
            return _nested_type(to)
        if index is None:
            plain = str(to.sql("duckdb"))
            return "VARCHAR" if plain == "TEXT" else _TYPE_KEYWORDS.get(plain, plain)
        written = str(tokens[index].text)
        name = _TYPE_KEYWORDS.get(written.upper(), written)
        params = [p.this.name for p in to.expressions if isinstance(p, exp.DataTypeParam)]
        sized = index + 1 < len(tokens) and tokens[index + 1].text == "("
        return f"{name}({', '.join(params)})" if params and sized else name

    def _type_index(self, node: Any) -> int | None:
        """The token that names the type of a CAST: it has no offset in the tree."""
        tokens, first = self.source.tokens, self.source.index(node.this)
        if first and isinstance(node.this, exp.Literal) and tokens[first - 1].text.upper() in _TYPED_LITERALS:
            return first - 1
        i = self.after(node.this)
        if (
            i is not None
            and i + 1 < len(tokens)
            and tokens[i].token_type in (TokenType.DCOLON, TokenType.ALIAS)
        ):
            return i + 1
        return None

    def after(self, node: Any) -> int | None:
        """The first token behind a tree, past what closes it."""
        tokens, i = self.source.tokens, self._last(node)
        if i is None:
            return None
        i += 1
        while i < len(tokens) and tokens[i].text.upper() in (")", "END", "NULL", "TRUE", "FALSE"):
            i += 1
        return i

    def _last(self, node: Any) -> int | None:
        """The last token of a tree that is known."""
        found = [bisect_left(self.source.starts, node.meta["start"])] if "start" in node.meta else []
        if isinstance(node, exp.Cast):
            i = self._type_index(node)
            found += [] if i is None else [i]
            if i is not None and i + 1 < len(self.source.tokens) and self.source.tokens[i + 1].text == "(":
                closing = (j for j in range(i, len(self.source.tokens)) if self.source.tokens[j].text == ")")
                found.append(next(closing, i))
        if isinstance(node, exp.Is) and (i := self.after(node.this)) is not None:
            found.append(
                i + 2 if [t.text.upper() for t in self.source.tokens[i + 1 : i + 2]] == ["NOT"] else i + 1
            )
        found += [i for child in node.iter_expressions() if (i := self._last(child)) is not None]
        return max(found, default=None)


def _nested_type(to: Any) -> str:
    """A nested type, its parts by DuckDB's keywords."""
    if not to.args.get("nested"):
        plain = str(to.sql("duckdb"))
        return "VARCHAR" if plain == "TEXT" else _TYPE_KEYWORDS.get(plain, plain)
    parts = [
        f"{quote(part.name)} {_nested_type(part.args['kind'])}"
        if isinstance(part, exp.ColumnDef)
        else _nested_type(part)
        for part in to.expressions
    ]
    if to.this in (exp.DType.ARRAY, exp.DType.LIST):
        return f"{', '.join(parts)}[]"
    return f"{'MAP' if to.this == exp.DType.MAP else 'STRUCT'}({', '.join(parts)})"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _infix(op: str) -> Callable[[Printer, Any], str]:
    return lambda p, n: f"({p.show(n.this)} {op} {p.show(n.expression)})"


def _pow(p: Printer, node: Any) -> str:
    if "start" in node.meta:
        return p.call(node)
    left = p.source.index(node.expression) or 0
    op = p.source.tokens[left - 1].text if left and p.source.tokens[left - 1].text in ("^", "**") else "^"
    return _infix(op)(p, node)


def _either(infix: str) -> Callable[[Printer, Any], str]:
    """An operator that is also a function: MOD(a, b), STARTS_WITH(a, b)."""
    return lambda p, n: p.call(n) if "start" in n.meta else _infix(infix)(p, n)


def _chain(op: str) -> Callable[[Printer, Any], str]:
    def rule(p: Printer, node: Any) -> str:
        from everfresh.sql.expressions import operands

        return "(" + f" {op} ".join(p.show(part) for part in operands(node)) + ")"

    return rule


def _neg(p: Printer, node: Any) -> str:
    inner = p.show(node.this)
    if re.fullmatch(r"[0-9._]+([eE][+-]?[0-9]+)?", inner):
        return f"-{inner}"
    return inner[1:] if re.fullmatch(r"-[0-9._]+", inner) else f"(-({inner}))"


def _is(p: Printer, node: Any, negated: bool = False) -> str:
    value = node.expression
    if isinstance(value, exp.Null):
        return f"({p.show(node.this)} IS {'NOT ' if negated else ''}NULL)"
    test = "IS DISTINCT FROM" if negated else "IS NOT DISTINCT FROM"
    return f"(CAST({p.show(node.this)} AS BOOLEAN) {test} {p.show(value)})"


def _not(p: Printer, node: Any) -> str:
    inner = node.this
    if isinstance(inner, exp.Is) and _says_not(p, inner):
        return _is(p, inner, negated=True)
    return f"(NOT {p.show(inner)})"


def _says_not(p: Printer, node: Any) -> bool:
    """Whether `x IS NOT y` or `x NOTNULL` was written, which sqlglot reads as `NOT x IS y`."""
    i = p.after(node.this)
    if i is None:  # constants have no place: NULL IS NOT NULL is likelier than NOT NULL IS NULL
        return isinstance(node.this, (exp.Null, exp.Boolean))
    texts = [t.text.upper() for t in p.source.tokens[i : i + 2]]
    return texts[:1] == ["NOTNULL"] or texts[1:] == ["NOT"] or texts == ["NOT", "NULL"]


def _like(op: str) -> Callable[[Printer, Any], str]:
    def rule(p: Printer, node: Any) -> str:
        return f"({p.show(node.this)} {'!' if node.args.get('negate') else ''}{op} {p.show(node.expression)})"

    return rule


def _escape(p: Printer, node: Any) -> str:
    name = "ilike_escape" if isinstance(node.this, exp.ILike) else "like_escape"
    shown = ", ".join(p.show(part) for part in (node.this.this, node.this.expression, node.expression))
    return f"(NOT {name}({shown}))" if node.this.args.get("negate") else f"{name}({shown})"


def _case(p: Printer, node: Any) -> str:
    def test(arm: Any) -> str:
        return p.show(arm.this) if node.this is None else f"({p.show(node.this)} = {p.show(arm.this)})"

    arms = " ".join(f"WHEN ({test(a)}) THEN ({p.show(a.args['true'])})" for a in node.args["ifs"])
    default = node.args.get("default")
    return f"CASE  {arms} ELSE {'NULL' if default is None else p.show(default)} END"


def _between(p: Printer, node: Any) -> str:
    return f"({p.show(node.this)} BETWEEN {p.show(node.args['low'])} AND {p.show(node.args['high'])})"


def _cast(p: Printer, node: Any) -> str:
    prefix = "TRY_" if node.args.get("safe") else ""
    return f"{prefix}CAST({p.show(node.this)} AS {p.type_name(node)})"


def _filter(p: Printer, node: Any) -> str:
    return f"{p.show(node.this)} FILTER (WHERE {p.show(node.expression.this)})"


def _count(p: Printer, node: Any) -> str:
    return "count_star()" if node.this is None or isinstance(node.this, exp.Star) else p.call(node)


def _trim(p: Printer, node: Any) -> str:
    names = {"LEADING": "ltrim", "TRAILING": "rtrim"}
    name = names.get(str(node.args.get("position") or "").upper(), '"trim"')
    parts = [node.this, node.args.get("expression")]
    return f"{name}({', '.join(p.show(part) for part in parts if part is not None)})"


def _extract(p: Printer, node: Any) -> str:
    part = node.this.name if isinstance(node.this, exp.Literal) else node.this.name.upper()
    return f"date_part({_text(part)}, {p.show(node.expression)})"


def _date_trunc(p: Printer, node: Any) -> str:
    i = p.source.index(node)
    part = (
        p.source.tokens[i + 2].text
        if i is not None and i + 2 < len(p.source.tokens)
        else node.args["unit"].name
    )
    return f"{p.function(node)}({_text(part)}, {p.show(node.this)})"


def _substring(p: Printer, node: Any) -> str:
    shown = [p.show(node.args[k]) for k in ("this", "start", "length") if node.args.get(k) is not None]
    return f"{quote(p.function(node))}({', '.join(shown)})"


def _log(p: Printer, node: Any) -> str:
    return p.call(node, node.expression) if p.function(node) in ("log2", "log10") else p.call(node)


def _date_diff(p: Printer, node: Any) -> str:
    i = p.source.index(node)
    there = i is not None and i + 2 < len(p.source.tokens)
    unit = p.source.tokens[i + 2].text if there and i is not None else node.args["unit"].name
    return f"{p.function(node)}({_text(unit)}, {p.show(node.expression)}, {p.show(node.this)})"


def _abs(p: Printer, node: Any) -> str:
    return p.call(node) if "start" in node.meta else f"(@({p.show(node.this)}))"


_INTERVALS = {"HOUR": "BIGINT", "MINUTE": "BIGINT"}


def _interval(p: Printer, node: Any) -> str:
    unit = node.args.get("unit")
    if unit is None:
        return f"CAST({_text(node.this.name)} AS INTERVAL)"
    name = unit.name.upper().removesuffix("S")
    amount = node.this.name if isinstance(node.this, exp.Literal) else p.show(node.this)
    whole = f"trunc(CAST({amount} AS DOUBLE))"
    return f"to_{name.lower()}s(CAST({whole} AS {_INTERVALS.get(name, 'INTEGER')}))"


def _column(p: Printer, node: Any) -> str:
    return ".".join("*" if isinstance(part, exp.Star) else quote(part.name) for part in node.parts)


_RULES: dict[type[Any], Callable[[Printer, Any], str]] = {
    exp.Column: _column,
    exp.Literal: lambda p, n: _text(n.name) if n.is_string else p.source.number(n),
    exp.RawString: lambda p, n: _text(n.name),
    exp.Boolean: lambda p, n: "true" if n.this else "false",
    exp.Null: lambda p, n: "NULL",
    exp.Paren: lambda p, n: p.show(n.this),
    exp.Alias: lambda p, n: p.show(n.this),
    exp.Add: _infix("+"),
    exp.Sub: _infix("-"),
    exp.Mul: _infix("*"),
    exp.Div: _infix("/"),
    exp.IntDiv: _infix("//"),
    exp.Mod: _either("%"),
    exp.Pow: _pow,
    exp.DPipe: _infix("||"),
    exp.NullSafeEQ: _infix("IS NOT DISTINCT FROM"),
    exp.NullSafeNEQ: _infix("IS DISTINCT FROM"),
    exp.And: _chain("AND"),
    exp.Or: _chain("OR"),
    exp.Not: _not,
    exp.Is: _is,
    exp.Neg: _neg,
    exp.Like: _like("~~"),
    exp.ILike: _like("~~*"),
    exp.Escape: _escape,
    exp.Between: _between,
    exp.Case: _case,
    exp.If: lambda p, n: p.call(
        n, *(n.args[k] for k in ("this", "true", "false") if n.args.get(k) is not None)
    ),
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Date: lambda p, n: f"CAST({p.show(n.this)} AS DATE)",
    exp.Filter: _filter,
    exp.Count: _count,
    exp.Distinct: lambda p, n: "DISTINCT " + ", ".join(p.show(e) for e in n.expressions),
    exp.Placeholder: lambda p, n: f"${n.this}",
    exp.Anonymous: lambda p, n: p.call(n, *n.expressions),
    exp.Coalesce: lambda p, n: f"COALESCE({', '.join(p.show(e) for e in (n.this, *n.expressions))})",
    exp.StrPosition: lambda p, n: p.call(n, n.this, n.args["substr"]),
    exp.StartsWith: _either("^@"),
    exp.Trim: _trim,
    exp.Extract: _extract,
    exp.TimestampTrunc: _date_trunc,
    exp.DateTrunc: _date_trunc,
    exp.Substring: _substring,
    exp.Log: _log,
    exp.Abs: _abs,
    exp.DateDiff: _date_diff,
    exp.Overlay: lambda p, n: p.call(
        n, *(n.args[k] for k in ("this", "expression", "from_", "for_") if n.args.get(k) is not None)
    ),
    exp.Decode: lambda p, n: p.call(n, n.this),
    exp.Interval: _interval,
    **aggregate_names.RULES,
    **query_names.RULES,
    **nested_names.RULES,
}
