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

from everfresh.sql.source import Source

_KEYWORDS = frozenset(
    """abort absolute access action add admin after aggregate also alter always approx assertion assignment
    attach attribute backward before begin cache call called cascade cascaded catalog centuries century
    chain characteristics checkpoint class close cluster comment comments commit committed compression
    configuration conflict connect connection constraints content continue conversion copy cost csv cube
    current cursor cycle data database day days deallocate decade decades declare defaults deferred definer
    delete delimiter delimiters depends destroy detach dictionary disable discard disconnect distance
    document domain double drop each enable encoding encrypted enum error escape event exact exclude
    excluding exclusive execute explain export export_state extension extensions external family filter
    first following force forward function functions global grant granted groups handler header hold hour
    hours identity if ignore immediate immutable implicit import include including increment index indexes
    inherit inherits inline input insensitive insert install instead invoker isolation json key label
    language large last leakproof level listen load local location lock locked logged macro mapping match
    matched materialized maxvalue merge method microsecond microseconds millennia millennium millisecond
    milliseconds minute minutes minvalue mode month months move name names nearest new next no nothing
    notify nowait nulls object of off oids old operator option options ordinality others over overriding
    owned owner parallel parser partial partition partitioned passing password percent persistent plans
    policy pragma preceding prepare prepared preserve prior privileges procedural procedure program
    publication quarter quarters quote range read reassign recheck recursive ref referencing refresh
    register reindex relative release rename repeatable replace replica reset resource resources respect
    restart restrict returns revoke role rollback rollup rows rule sample savepoint schema schemas scope
    scroll search second seconds secret secure security sequence sequences serializable server session set
    sets share similarity simple skip snapshot sorted source sql stable standalone start statement
    statistics stdin stdout storage stored strict strip subscription sysid system tables tablespace target
    temp template temporary text ties transaction transform trigger truncate trusted type types unbounded
    uncommitted unencrypted unknown unlisten unlogged until update use user vacuum valid validate validator
    value variable varying version view views virtual volatile week weeks whitespace within without work
    wrapper write xml year years yes zone between bigint bit boolean char character coalesce columns dec
    decimal exists extract float generated grouping grouping_id inout int integer interval map national
    nchar none nullif numeric out overlay position precision real row setof smallint struct substring time
    timestamp treat trim try_cast tuple values varchar xmlattributes xmlconcat xmlelement xmlexists
    xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable anti asof at authorization binary
    by collation concurrently cross freeze full glob ilike inner is isnull join left like natural notnull
    outer overlaps positional right semi similar tablesample unpack verbose all analyse analyze and any
    array as asc asymmetric both case cast check collate column constraint create default deferrable desc
    describe distinct do else end except false fetch for foreign from group having in initially intersect
    into lambda lateral leading limit not null offset on only or order pivot pivot_longer pivot_wider
    placing primary qualify references returning select show some summarize symmetric table then to trailing
    true union unique unpivot using variadic when where window with""".split()  # noqa: SIM905
)
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# types that DuckDB's parser knows as keywords; other names are kept as written
_TYPE_KEYWORDS = {
    "INT": "INTEGER", "INTEGER": "INTEGER", "SMALLINT": "SMALLINT", "BIGINT": "BIGINT", "REAL": "FLOAT",
    "FLOAT": "FLOAT", "BOOLEAN": "BOOLEAN", "CHAR": "VARCHAR", "CHARACTER": "VARCHAR", "VARCHAR": "VARCHAR",
    "DECIMAL": "DECIMAL", "DEC": "DECIMAL", "NUMERIC": "DECIMAL", "TIMESTAMP": "TIMESTAMP",
}  # fmt: skip

_TYPED_LITERALS = ("DATE", "TIMESTAMP")  # DATE '2020-01-01'


def output_name(node: Any, source: Source) -> str:
    """The name DuckDB gives to the column that computes `node`."""
    if isinstance(node, exp.Column):
        return str(node.name)
    return _Printer(source).show(node)


class _Printer:
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
        shown = args or [a for v in node.args.values() for a in (v if isinstance(v, list) else [v])]
        inside = ", ".join(self.show(a) for a in shown if isinstance(a, exp.Expr))
        return f"{quote(self.function(node))}({inside})"

    def function(self, node: Any) -> str:
        """The name of the function as written, in lower case."""
        i = self.source.index(node)
        tokens = self.source.tokens
        if i is not None and i + 1 < len(tokens) and tokens[i + 1].token_type == TokenType.L_PAREN:
            return str(tokens[i].text).lower()
        return str(node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower()

    def type_name(self, node: Any) -> str:
        """The type of a CAST as written, except for the keywords of DuckDB's grammar."""
        to, index, tokens = node.args["to"], self._type_index(node), self.source.tokens
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


def quote(name: str) -> str:
    """An identifier, quoted if DuckDB would quote it."""
    if _PLAIN.fullmatch(name) and name.lower() not in _KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _infix(op: str) -> Callable[[_Printer, Any], str]:
    return lambda p, n: f"({p.show(n.this)} {op} {p.show(n.expression)})"


def _pow(p: _Printer, node: Any) -> str:
    if "start" in node.meta:
        return p.call(node)
    left = p.source.index(node.expression) or 0
    op = p.source.tokens[left - 1].text if left and p.source.tokens[left - 1].text in ("^", "**") else "^"
    return _infix(op)(p, node)


def _either(infix: str) -> Callable[[_Printer, Any], str]:
    """An operator that is also a function: MOD(a, b), STARTS_WITH(a, b)."""
    return lambda p, n: p.call(n) if "start" in n.meta else _infix(infix)(p, n)


def _chain(op: str) -> Callable[[_Printer, Any], str]:
    def rule(p: _Printer, node: Any) -> str:
        from everfresh.sql.expressions import operands

        return "(" + f" {op} ".join(p.show(part) for part in operands(node)) + ")"

    return rule


def _neg(p: _Printer, node: Any) -> str:
    inner = p.show(node.this)
    if re.fullmatch(r"[0-9._]+([eE][+-]?[0-9]+)?", inner):
        return f"-{inner}"
    return inner[1:] if re.fullmatch(r"-[0-9._]+", inner) else f"(-({inner}))"


def _is(p: _Printer, node: Any, negated: bool = False) -> str:
    value = node.expression
    if isinstance(value, exp.Null):
        return f"({p.show(node.this)} IS {'NOT ' if negated else ''}NULL)"
    test = "IS DISTINCT FROM" if negated else "IS NOT DISTINCT FROM"
    return f"(CAST({p.show(node.this)} AS BOOLEAN) {test} {p.show(value)})"


def _not(p: _Printer, node: Any) -> str:
    inner = node.this
    if isinstance(inner, exp.Is) and _says_not(p, inner):
        return _is(p, inner, negated=True)
    return f"(NOT {p.show(inner)})"


def _says_not(p: _Printer, node: Any) -> bool:
    """Whether `x IS NOT y` or `x NOTNULL` was written, which sqlglot reads as `NOT x IS y`."""
    i = p.after(node.this)
    if i is None:
        return False
    texts = [t.text.upper() for t in p.source.tokens[i : i + 2]]
    return texts[:1] == ["NOTNULL"] or texts[1:] == ["NOT"] or texts == ["NOT", "NULL"]


def _like(op: str) -> Callable[[_Printer, Any], str]:
    def rule(p: _Printer, node: Any) -> str:
        return f"({p.show(node.this)} {'!' if node.args.get('negate') else ''}{op} {p.show(node.expression)})"

    return rule


def _escape(p: _Printer, node: Any) -> str:
    name = "ilike_escape" if isinstance(node.this, exp.ILike) else "like_escape"
    shown = ", ".join(p.show(part) for part in (node.this.this, node.this.expression, node.expression))
    return f"(NOT {name}({shown}))" if node.this.args.get("negate") else f"{name}({shown})"


def _case(p: _Printer, node: Any) -> str:
    def test(arm: Any) -> str:
        return p.show(arm.this) if node.this is None else f"({p.show(node.this)} = {p.show(arm.this)})"

    arms = " ".join(f"WHEN ({test(a)}) THEN ({p.show(a.args['true'])})" for a in node.args["ifs"])
    default = node.args.get("default")
    return f"CASE  {arms} ELSE {'NULL' if default is None else p.show(default)} END"


def _in(p: _Printer, node: Any) -> str:
    return f"({p.show(node.this)} IN ({', '.join(p.show(e) for e in node.expressions)}))"


def _between(p: _Printer, node: Any) -> str:
    return f"({p.show(node.this)} BETWEEN {p.show(node.args['low'])} AND {p.show(node.args['high'])})"


def _cast(p: _Printer, node: Any) -> str:
    prefix = "TRY_" if node.args.get("safe") else ""
    return f"{prefix}CAST({p.show(node.this)} AS {p.type_name(node)})"


def _filter(p: _Printer, node: Any) -> str:
    return f"{p.show(node.this)} FILTER (WHERE {p.show(node.expression.this)})"


def _count(p: _Printer, node: Any) -> str:
    return "count_star()" if node.this is None or isinstance(node.this, exp.Star) else p.call(node)


def _trim(p: _Printer, node: Any) -> str:
    names = {"LEADING": "ltrim", "TRAILING": "rtrim"}
    name = names.get(str(node.args.get("position") or "").upper(), '"trim"')
    parts = [node.this, node.args.get("expression")]
    return f"{name}({', '.join(p.show(part) for part in parts if part is not None)})"


def _extract(p: _Printer, node: Any) -> str:
    part = node.this.name if isinstance(node.this, exp.Literal) else node.this.name.upper()
    return f"date_part({_text(part)}, {p.show(node.expression)})"


def _date_trunc(p: _Printer, node: Any) -> str:
    i = p.source.index(node)
    part = (
        p.source.tokens[i + 2].text
        if i is not None and i + 2 < len(p.source.tokens)
        else node.args["unit"].name
    )
    return f"{p.function(node)}({_text(part)}, {p.show(node.this)})"


def _substring(p: _Printer, node: Any) -> str:
    shown = [p.show(node.args[k]) for k in ("this", "start", "length") if node.args.get(k) is not None]
    return f"{quote(p.function(node))}({', '.join(shown)})"


def _log(p: _Printer, node: Any) -> str:
    return p.call(node, node.expression) if p.function(node) in ("log2", "log10") else p.call(node)


def _abs(p: _Printer, node: Any) -> str:
    return p.call(node) if "start" in node.meta else f"(@({p.show(node.this)}))"


_INTERVALS = {"HOUR": "BIGINT", "MINUTE": "BIGINT"}


def _interval(p: _Printer, node: Any) -> str:
    unit = node.args.get("unit")
    if unit is None:
        return f"CAST({_text(node.this.name)} AS INTERVAL)"
    name = unit.name.upper().removesuffix("S")
    amount = node.this.name if isinstance(node.this, exp.Literal) else p.show(node.this)
    whole = f"trunc(CAST({amount} AS DOUBLE))"
    return f"to_{name.lower()}s(CAST({whole} AS {_INTERVALS.get(name, 'INTEGER')}))"


def _column(p: _Printer, node: Any) -> str:  # noqa: ARG001
    return ".".join(quote(part.name) for part in node.parts)


_RULES: dict[type[Any], Callable[[_Printer, Any], str]] = {
    exp.Column: _column,
    exp.Literal: lambda p, n: _text(n.name) if n.is_string else p.source.number(n),
    exp.RawString: lambda p, n: _text(n.name),  # noqa: ARG005
    exp.Boolean: lambda p, n: "true" if n.this else "false",  # noqa: ARG005
    exp.Null: lambda p, n: "NULL",  # noqa: ARG005
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
    exp.EQ: _infix("="),
    exp.NEQ: _infix("!="),
    exp.LT: _infix("<"),
    exp.LTE: _infix("<="),
    exp.GT: _infix(">"),
    exp.GTE: _infix(">="),
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
    exp.In: _in,
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
    exp.Interval: _interval,
}
