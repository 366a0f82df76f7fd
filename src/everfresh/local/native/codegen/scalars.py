"""Scalar expressions as source text: the values, and whether they are NULL, as names of local variables.

A number, a date or a truth value is a word, a DOUBLE a float, a string the number under which it is interned:
it can be compared for equality and handed on. What can go wrong (a result outside its type, a division by
zero, an integer beyond a word) sets `bad`: whoever runs the code then runs the interpreter instead, which
knows the error, or has the room. So `bad` may be set where there is no error, and is always set where there
is one. What has no rule here raises `Unsupported`.

Invariant: where `bad` is not set, a value is that of `expr.evaluate_vector`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from everfresh.expr import Call, Case, Cast, Const, Expr, Var
from everfresh.expr.library.civil import DAY_US
from everfresh.local.native.codegen.lines import Lines
from everfresh.types import BIGINT, BOOLEAN, DOUBLE, SqlType

_LOW, _HIGH = BIGINT.bounds
Range = tuple[int, int]


class Unsupported(Exception):
    """There is no native code for an expression or a statement."""


@dataclass(frozen=True, slots=True)
class Val:
    """A value: its code, the code that says whether it is NULL (None: never), and bounds of integers."""

    code: str
    null: str | None
    type: SqlType
    bounds: Range = (_LOW, _HIGH)


def form(type_: SqlType) -> str:
    """How values of a type are held: `i` words, `f` floats, `b` truth values, `s` numbers of strings."""
    if type_.name == "DOUBLE":
        return "f"
    if type_.name == "BOOLEAN" or type_.is_text:
        return "s" if type_.is_text else "b"
    if type_.is_exact or type_.name in ("DATE", "TIME", "TIMESTAMP", "TIMESTAMPTZ", "ENUM"):
        return "i"
    raise Unsupported(f"values of type {type_}")


def bounds_of(type_: SqlType) -> Range:
    """The least and the greatest word of a type."""
    if type_.is_exact and not type_.is_wide:
        return type_.bounds
    return (-(1 << 31), (1 << 31) - 1) if type_.name == "DATE" else (_LOW, _HIGH)


def _alike(word: int) -> Range:
    """Bounds of all constants for which the code of one serves: those with as many digits, or up to three."""
    most = min(10 ** max(len(str(abs(word))), 3) - 1, _HIGH)
    return (-most, 0) if word < 0 else (0, most)


ZERO = {"i": "0", "s": "0", "f": "0.0", "b": "False"}


class Scalars:
    """Expressions over the variables of one place in a function."""

    def __init__(
        self,
        out: Lines,
        variable: Callable[[Var], Val],
        text: Callable[[str], str],
        before: Callable[[Expr], Val | None],
        given: Callable[[str, float], str] | None = None,
    ) -> None:
        self._out, self._variable, self._text, self._before = out, variable, text, before
        self._given = given
        """What stands for a number that is handed to the function; without it numbers stand in the text."""

    def value(self, expr: Expr) -> Val:
        """The code of an expression; what has no rule is looked for among what is computed beforehand."""
        mark = self._out.mark()
        try:
            return self._value(expr)
        except Unsupported:
            self._out.reset(mark)
            found = self._before(expr)
            if found is None:
                raise
            return found

    def when(self, condition: Expr) -> None:
        """Open blocks that are entered where a condition is TRUE."""
        if isinstance(condition, Call) and condition.op == "and":
            for arg in condition.args:
                self.when(arg)
            return
        found = self.value(condition)
        self._out.open(f"if {_true(found)}:")

    def _value(self, expr: Expr) -> Val:
        match expr:
            case Var():
                return self._variable(expr)
            case Const():
                return self._const(expr)
            case Cast():
                return self._cast(self.value(expr.arg), expr.to)
            case Case():
                return self._case(expr)
            case Call(op="and") | Call(op="or"):
                return self._connective(expr)
            case Call(op="coalesce"):
                return self._coalesce(expr)
            case Call():
                return self._call(expr)
        raise Unsupported(type(expr).__name__)

    def _const(self, expr: Const) -> Val:
        value, type_ = expr.value, expr.of
        if type_.name == "NULL":
            raise Unsupported("a NULL without a type")
        kind = form(type_)
        if value is None:
            return Val(ZERO[kind], "True", type_)
        if kind == "s":
            return Val(self._text(value), None, type_)
        if kind == "b":
            return Val(str(bool(value)), None, type_)
        if kind == "f":
            if not math.isfinite(value):
                raise Unsupported("a constant that is not finite")
            number = float(value)
            return Val(repr(number) if self._given is None else self._given("float", number), None, type_)
        if not _LOW < value <= _HIGH:
            raise Unsupported("a constant beyond a word")
        word = int(value)
        if self._given is None:
            return Val(str(word), None, type_, (word, word))
        return Val(self._given("number", word), None, type_, _alike(word))

    # -- control -----------------------------------------------------------------------------------

    def _target(self, type_: SqlType, null: bool) -> tuple[str, str | None]:
        name = self._out.let(ZERO[form(type_)])
        return name, (self._out.let("True", "u") if null else None)

    def _assign(self, name: str, null: str | None, found: Val) -> None:
        self._out.add(f"{name} = {found.code}")
        if null is not None:
            self._out.add(f"{null} = {found.null or 'False'}")

    def _case(self, expr: Case) -> Val:
        out, depth = self._out, self._out.depth
        name, null = self._target(expr.type, expr.nullable)
        low, high = _HIGH, _LOW
        for condition, value in expr.arms:
            with out.block(f"if {_true(self.value(condition))}:"):
                found = self.value(value)
                self._assign(name, null, found)
                low, high = min(low, found.bounds[0]), max(high, found.bounds[1])
            out.open("else:")
        found = self.value(expr.default)
        self._assign(name, null, found)
        out.back_to(depth)
        return Val(name, null, expr.type, (min(low, found.bounds[0]), max(high, found.bounds[1])))

    def _coalesce(self, expr: Call) -> Val:
        out, depth = self._out, self._out.depth
        name, null = self._target(expr.type, expr.nullable)
        for arg in expr.args:
            found = self.value(arg)
            self._assign(name, null, found)
            if found.null is None:
                break
            out.open(f"if {found.null}:")
        else:
            out.add("pass")
        out.back_to(depth)
        return Val(name, null, expr.type)

    def _connective(self, expr: Call) -> Val:
        """TRUE and FALSE decide; NULL is kept in mind."""
        out, depth = self._out, self._out.depth
        decides = expr.op == "or"
        name = out.let(str(not decides))
        null = out.let("False", "u") if expr.nullable else None
        for arg in expr.args:
            found = self.value(arg)
            test = _true(found) if decides else _false(found)
            with out.block(f"if {test}:"):
                out.add(f"{name} = {decides}")
                if null is not None:
                    out.add(f"{null} = False")
            out.open("else:")
            if found.null is not None and null is not None:
                out.add(f"{null} = {null} or {found.null}")
        out.add("pass")
        out.back_to(depth)
        return Val(name, null, BOOLEAN)

    # -- calls -------------------------------------------------------------------------------------

    def _call(self, expr: Call) -> Val:
        op = expr.op
        if op == "in":
            return self._in(expr)
        args = [self.value(arg) for arg in expr.args]
        if op in ("=", "<>", "<", "<=", ">", ">="):
            return Val(self._out.let(_compare(op, args[0], args[1])), _any_null(args), BOOLEAN)
        if op in ("is_distinct", "is_not_distinct"):
            return self._same(op, args)
        if op in _OF_NULLS:
            return _OF_NULLS[op](expr, args[0])
        rule = _EXACT.get(op) if form(expr.type) == "i" else _FLOATS.get(op) if expr.type == DOUBLE else None
        if rule is not None and all(form(a.type) == form(expr.type) for a in args):
            return rule(self, args, expr.type)
        if op == "not":
            return Val(f"(not {args[0].code})", args[0].null, BOOLEAN)
        if op in _CIVIL and args[0].type.name == "DATE":
            return Val(self._out.let(f"civil_part({args[0].code}, {_CIVIL[op]})"), args[0].null, expr.type)
        raise Unsupported(op)

    def _same(self, op: str, args: list[Val]) -> Val:
        a, b = args
        code = _compare("=", a, b)
        if a.null is not None or b.null is not None:
            x, y = a.null or "False", b.null or "False"
            code = f"(({code}) and not {x} and not {y}) or ({x} and {y})"
        name = self._out.let(code)
        return Val(f"(not {name})" if op == "is_distinct" else name, None, BOOLEAN)

    def _in(self, expr: Call) -> Val:
        x, *items = [self.value(arg) for arg in expr.args]
        tests = [
            _compare("=", x, item) if item.null is None else f"(not {item.null} and {_compare('=', x, item)})"
            for item in items
            if item.null != "True"
        ]
        name = self._out.let(" or ".join(tests) or "False")
        nulls = [item.null for item in items if item.null is not None]
        unknown = f"(not {name} and ({' or '.join(nulls)}))" if nulls else None
        null = x.null if unknown is None else unknown if x.null is None else f"({x.null} or {unknown})"
        return Val(name, null if null is None else self._out.let(null, "u"), BOOLEAN)

    # -- arithmetic --------------------------------------------------------------------------------

    def fits(self, name: str, bounds: Range, type_: SqlType, null: str | None) -> Range:
        """Set `bad` where a word is outside its type; the bounds that are left."""
        low, high = bounds_of(type_)
        if low <= bounds[0] and bounds[1] <= high:
            return bounds
        guard = "" if null is None else f"not {null} and "
        if bounds[0] < low or bounds[1] > high:
            self._out.add(f"if {guard}({name} < {low} or {name} > {high}): bad = 1")
        return max(low, bounds[0]), min(high, bounds[1])

    def exact(self, op: str, args: list[Val], type_: SqlType, bounds: Range) -> Val:
        """`+`, `-` or `*` of words; with a check where the bounds say that it may be needed."""
        a, b = args
        null = _any_null(args)
        if bounds[0] >= _LOW and bounds[1] <= _HIGH:
            name = self._out.let(f"{a.code} {op} {b.code}")
        else:
            name, flag = self._out.fresh(), self._out.fresh()
            self._out.add(f"{name}, {flag} = {_CHECKED[op]}({a.code}, {b.code})")
            self._out.add(f"bad |= {flag}" if null is None else f"if not {null}: bad |= {flag}")
            bounds = max(bounds[0], _LOW), min(bounds[1], _HIGH)
        return Val(name, null, type_, self.fits(name, bounds, type_, null))

    def floats(self, op: str, args: list[Val]) -> Val:
        """An operation on doubles; 0.0 is added so that no result is -0.0."""
        return Val(self._out.let(f"{args[0].code} {op} {args[1].code} + 0.0"), _any_null(args), DOUBLE)

    def divide(self, args: list[Val], type_: SqlType) -> Val:
        """`//` of integers."""
        a, b = args
        null = _any_null(args)
        name = self._out.let("0")
        with self._out.block(f"if not divisible({a.code}, {b.code}):"):
            self._out.add("bad = 1" if null is None else f"if not {null}: bad = 1")
        with self._out.block("else:"):
            self._out.add(f"{name} = quotient({a.code}, {b.code})")
        return Val(name, null, type_, self.fits(name, (_LOW, _HIGH), type_, null))

    # -- casts -------------------------------------------------------------------------------------

    def _cast(self, arg: Val, to: SqlType) -> Val:
        source = arg.type
        if source == to:
            return arg
        kinds = (form(source), form(to))
        if kinds == ("i", "i") and source.is_exact and to.is_exact:
            return self._rescaled(arg, to)
        if kinds == ("i", "f") and source.is_exact:
            unit = 10**source.scale
            code = f"np.float64({arg.code})"
            if source.scale:
                if unit > _HIGH:
                    raise Unsupported("a scale beyond a word")
                code = f"decimal_to_float({arg.code}, {unit}, {float(unit)!r})"
            return Val(self._out.let(code), arg.null, to)
        if kinds == ("b", "i") and to.is_exact and not to.is_wide:
            unit = 10**to.scale
            name = self._out.let(f"{unit} if {arg.code} else 0")
            return Val(name, arg.null, to, self.fits(name, (0, unit), to, arg.null))
        if kinds == ("b", "f"):
            return Val(self._out.let(f"1.0 if {arg.code} else 0.0"), arg.null, to)
        if kinds == ("i", "b") and source.is_exact:
            return Val(f"({arg.code} != 0)", arg.null, to)
        if (source.name, to.name) == ("DATE", "TIMESTAMP"):
            bounds = (arg.bounds[0] * DAY_US, arg.bounds[1] * DAY_US)
            return self.exact("*", [arg, Val(str(DAY_US), None, BIGINT)], to, bounds)
        if (source.name, to.name) == ("TIMESTAMP", "DATE"):
            return Val(self._out.let(f"{arg.code} // {DAY_US}"), arg.null, to)
        raise Unsupported(f"{source} as {to}")

    def _rescaled(self, arg: Val, to: SqlType) -> Val:
        shift = to.scale - arg.type.scale
        if abs(shift) > 18:
            raise Unsupported("a scale beyond a word")
        unit = 10 ** abs(shift)
        low, high = arg.bounds
        if shift == 0:
            return Val(arg.code, arg.null, to, self.fits(arg.code, arg.bounds, to, arg.null))
        if shift > 0:
            one = Val(str(unit), None, BIGINT)
            return self.exact("*", [arg, one], to, (low * unit, high * unit))
        if low - unit < _LOW or high + unit > _HIGH:
            raise Unsupported("rounding of what may be beyond a word")
        name = self._out.let(f"half_away({arg.code}, {unit})")
        return Val(name, arg.null, to, self.fits(name, (low // unit - 1, high // unit + 1), to, arg.null))


# -- rules -----------------------------------------------------------------------------------------

_CHECKED = {"+": "add_checked", "-": "sub_checked", "*": "mul_checked"}
_CIVIL = {"year": 0, "month": 1, "day": 2}


def _true(value: Val) -> str:
    return value.code if value.null is None else f"(not {value.null} and {value.code})"


def _false(value: Val) -> str:
    return f"not {value.code}" if value.null is None else f"(not {value.null} and not {value.code})"


def _any_null(args: list[Val]) -> str | None:
    nulls = list(dict.fromkeys(a.null for a in args if a.null is not None))
    return None if not nulls else nulls[0] if len(nulls) == 1 else f"({' or '.join(nulls)})"


def _compare(op: str, a: Val, b: Val) -> str:
    kind = form(a.type)
    if kind != form(b.type):
        raise Unsupported(f"{a.type} {op} {b.type}")
    x, y = a.code, b.code
    if kind == "s" and op not in ("=", "<>"):
        raise Unsupported(f"strings {op}")
    if kind == "f":
        tests = {
            "=": f"float_same({x}, {y})",
            "<>": f"not float_same({x}, {y})",
            "<": f"float_less({x}, {y})",
            "<=": f"not float_less({y}, {x})",
            ">": f"float_less({y}, {x})",
            ">=": f"not float_less({x}, {y})",
        }
        return f"({tests[op]})"
    return f"({x} { {'=': '==', '<>': '!='}.get(op, op) } {y})"


def _plus(self: Scalars, args: list[Val], type_: SqlType) -> Val:
    (al, ah), (bl, bh) = args[0].bounds, args[1].bounds
    return self.exact("+", args, type_, (al + bl, ah + bh))


def _minus(self: Scalars, args: list[Val], type_: SqlType) -> Val:
    (al, ah), (bl, bh) = args[0].bounds, args[1].bounds
    return self.exact("-", args, type_, (al - bh, ah - bl))


def _times(self: Scalars, args: list[Val], type_: SqlType) -> Val:
    corners = [x * y for x in args[0].bounds for y in args[1].bounds]
    return self.exact("*", args, type_, (min(corners), max(corners)))


def _negate(self: Scalars, args: list[Val], type_: SqlType) -> Val:
    (low, high) = args[0].bounds
    return self.exact("-", [Val("0", None, type_, (0, 0)), args[0]], type_, (-high, -low))


Rule = Callable[[Scalars, list[Val], SqlType], Val]

_EXACT: dict[str, Rule] = {
    "+": _plus,
    "-": _minus,
    "*": _times,
    "neg": _negate,
    "//": lambda self, args, type_: self.divide(args, type_),
}
_FLOATS: dict[str, Rule] = {
    "+": lambda self, args, type_: self.floats("+", args),
    "-": lambda self, args, type_: self.floats("-", args),
    "*": lambda self, args, type_: self.floats("*", args),
    "/": lambda self, args, type_: self.floats("/", args),
    "neg": lambda self, args, type_: Val(f"(0.0 - {args[0].code})", args[0].null, DOUBLE),
}


def _if_null_zero(expr: Call, x: Val) -> Val:
    if x.null is None:
        return x
    zero = ZERO[form(x.type)]
    low, high = x.bounds
    return Val(f"({zero} if {x.null} else {x.code})", None, expr.type, (min(low, 0), max(high, 0)))


def _flag(test: Callable[[str], str]) -> Callable[[Call, Val], Val]:
    def rule(expr: Call, x: Val) -> Val:
        code = test(x.code) if x.null is None else f"(not {x.null} and {test(x.code)})"
        return Val(f"(1 if {code} else 0)", None, BIGINT, (0, 1))

    return rule


def _is_null(expr: Call, x: Val) -> Val:
    return Val(x.null or "False", None, BOOLEAN)


def _not_null01(expr: Call, x: Val) -> Val:
    return Val("1" if x.null is None else f"(0 if {x.null} else 1)", None, BIGINT, (0, 1))


def _finite(expr: Call, x: Val) -> Val:
    if form(x.type) != "f":
        raise Unsupported("finite_or_zero of REAL")
    test = f"math.isfinite({x.code})" if x.null is None else f"not {x.null} and math.isfinite({x.code})"
    return Val(f"({x.code} if {test} else 0.0)", None, expr.type)


_OF_NULLS: dict[str, Callable[[Call, Val], Val]] = {
    "is_null": _is_null,
    "truth": lambda expr, x: Val(f"(1 if {_true(x)} else 0)", None, BIGINT, (0, 1)),
    "not_null01": _not_null01,
    "if_null_zero": _if_null_zero,
    "finite_or_zero": _finite,
    "is_nan01": _flag(lambda x: f"({x} != {x})"),
    "is_pinf01": _flag(lambda x: f"({x} == np.inf)"),
    "is_ninf01": _flag(lambda x: f"({x} == -np.inf)"),
}

__all__ = ["Scalars", "Unsupported", "Val", "form"]
