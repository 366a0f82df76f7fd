"""The vectorised evaluator: the fast twin of `everfresh.expr.scalar`.

Strict functions run on whole arrays, also on what stands in NULL slots; only if that raises they run again on
the rows without NULL. Later arms of Case, and, or and coalesce count only on the rows that reach them. A
function without a vectorised twin runs once per distinct value if one argument varies, else once per row.

Invariant: row i of `evaluate_vector(e, columns, n)` is `evaluate(e, row i)`, and if a row raises there, so
does this, with the same error and `error.row` the first such row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from everfresh.errors import EverfreshError
from everfresh.expr.column import Array, Vector, concat, dtype_of, merge_dictionaries
from everfresh.expr.library.casts import cast_value
from everfresh.expr.library.compare import all_valid
from everfresh.expr.library.functions import FUNCTIONS, Function, Signature
from everfresh.expr.library.vector_casts import cast_array
from everfresh.expr.nodes import Call, Case, Cast, Const, Expr, Var, variables
from everfresh.expr.scalar import evaluate
from everfresh.types import BOOLEAN, SqlType

__all__ = ["Vector", "concat", "evaluate_vector"]


def evaluate_vector(expr: Expr, columns: Mapping[str, Vector], rows: int) -> Vector:
    """`expr` on every row; raises the error of the first failing row, with its index as `error.row`."""
    try:
        return _Frame(columns, rows).evaluate(expr).contiguous()
    except EverfreshError as error:
        _raise_first(expr, columns, rows)
        raise AssertionError(f"vectors fail where the scalar evaluator does not: {expr}") from error


def _raise_first(expr: Expr, columns: Mapping[str, Vector], rows: int) -> None:
    names = [v.name for v in variables(expr)]
    lists = [columns[name].to_pylist() for name in names]
    for i in range(rows):
        try:
            evaluate(expr, {name: values[i] for name, values in zip(names, lists, strict=True)})
        except EverfreshError as error:
            error.row = i  # type: ignore[attr-defined]
            raise


@dataclass(slots=True)
class _Frame:
    """Columns of equal length; equal subexpressions are evaluated once."""

    columns: Mapping[str, Vector]
    rows: int
    done: dict[Expr, Vector] = field(default_factory=dict)

    def evaluate(self, expr: Expr) -> Vector:
        if isinstance(expr, Var):
            return self.columns[expr.name]
        found = self.done.get(expr)
        if found is None:
            found = self.done[expr] = self._evaluate(expr)
        return found

    def _evaluate(self, expr: Expr) -> Vector:
        match expr:
            case Const():
                return Vector.constant(expr.value, expr.of, self.rows)
            case Cast():
                return _cast(self.evaluate(expr.arg), expr.to)
            case Case():
                return self._case(expr)
            case Call() if FUNCTIONS[expr.op].lazy:
                return self._coalesce(expr) if expr.op == "coalesce" else self._connective(expr)
            case Call():
                return _call(expr.op, expr.signature, [self.evaluate(arg) for arg in expr.args], self.rows)
            case _:
                raise AssertionError(f"not an expression: {type(expr).__name__}")

    def on(self, expr: Expr, rows: Array) -> Vector:
        """`expr` on some rows (increasing indices): cut from all of them unless one of the others raises."""
        if len(rows) == self.rows:
            return self.evaluate(expr)
        if 2 * len(rows) >= self.rows or isinstance(expr, Var | Const):
            try:
                return self.evaluate(expr).take(rows)
            except EverfreshError:
                pass
        some = {v.name: self.columns[v.name].take(rows) for v in variables(expr)}
        return _Frame(some, len(rows)).evaluate(expr)

    def _case(self, expr: Case) -> Vector:
        left = np.arange(self.rows)
        pieces: list[tuple[Array, Vector]] = []
        for condition, value in expr.arms:
            if not len(left):
                break
            chosen = _is(self.on(condition, left), True)
            if chosen.any():
                pieces.append((left[chosen], self.on(value, left[chosen])))
                left = left[~chosen]
        if len(left):
            pieces.append((left, self.on(expr.default, left)))
        return _assemble(pieces, expr.type, self.rows)

    def _coalesce(self, expr: Call) -> Vector:
        left = np.arange(self.rows)
        pieces: list[tuple[Array, Vector]] = []
        for arg in expr.args:
            if not len(left):
                break
            found = self.on(arg, left)
            if found.valid is None:
                pieces.append((left, found))
                left = left[:0]
            elif found.valid.any():
                pieces.append((left[found.valid], found.take(found.valid)))
                left = left[~found.valid]
        if len(left):
            pieces.append((left, Vector.nulls(expr.type, len(left))))
        return _assemble(pieces, expr.type, self.rows)

    def _connective(self, expr: Call) -> Vector:
        """AND, OR: a row is done as soon as an argument is FALSE or TRUE there; NULL is kept in mind."""
        decides = expr.op == "or"
        decided = np.zeros(self.rows, dtype=np.bool_)
        unknown: Array | None = None
        for arg in expr.args:
            rows = np.flatnonzero(~decided) if decided.any() else np.arange(self.rows)
            if not len(rows):
                break
            found = self.on(arg, rows)
            if len(rows) == self.rows:
                decided = _is(found, decides).copy()  # it may be a column itself
            else:
                decided[rows] = _is(found, decides)
            if found.valid is not None:
                unknown = np.zeros(self.rows, dtype=np.bool_) if unknown is None else unknown
                unknown[rows] |= ~found.valid
        known = None if unknown is None else decided | ~unknown
        return Vector(BOOLEAN, decided if decides else ~decided).with_valid(known)


def _is(vector: Vector, value: bool) -> Array:
    mask: Array = vector.values if value else ~vector.values
    return mask if vector.valid is None else mask & vector.valid


def _assemble(pieces: Sequence[tuple[Array, Vector]], type_: SqlType, rows: int) -> Vector:
    """One vector from disjoint pieces that cover all rows."""
    if not pieces:
        return Vector.from_pylist([None] * rows, type_)
    if len(pieces) == 1:  # all rows, in order
        return pieces[0][1]
    vectors = [vector for _, vector in pieces]
    arrays, dictionary = [vector.values for vector in vectors], None
    if type_.is_text:
        arrays, dictionary = merge_dictionaries(vectors)
    values = np.empty(rows, dtype=dtype_of(type_))
    valid = np.ones(rows, dtype=np.bool_)
    for (indices, vector), array in zip(pieces, arrays, strict=True):
        values[indices] = array
        if vector.valid is not None:
            valid[indices] = vector.valid
    return Vector(type_, values, None if valid.all() else valid, dictionary)


# -- calls ---------------------------------------------------------------------------------------------------


def _call(op: str, types: Signature, args: Sequence[Vector], rows: int) -> Vector:
    function = FUNCTIONS[op]
    if rows and all(arg.is_constant for arg in args):
        first = [arg.take(np.zeros(1, dtype=np.int64)) for arg in args]
        return Vector.constant(_by_row(op, types, first, 1)[0], types.result, rows)
    if function.columns is not None and rows:
        found: Vector | None = function.columns(types, *args)
        if found is not None:
            return found
    if not function.strict:
        return _by_row(op, types, args, rows)
    valid = all_valid(args)
    if valid is not None and not valid.any():
        return Vector.nulls(types.result, rows) if rows else Vector.from_pylist([], types.result)
    if function.vector is not None and not any(arg.dictionary is not None for arg in args):
        made = _arrays(lambda arrays: function.vector(types, *arrays), args, valid, types.result)  # type: ignore[misc]
        if made is not None:
            return Vector(types.result, made).with_valid(valid)
    varying = [i for i, arg in enumerate(args) if not arg.is_constant]
    if len(varying) == 1 and types.args[varying[0]].is_text:
        one = _in_place(function, types, args, varying[0])
        whole = function.texts(*(arg[0] for arg in args[1:])) if function.texts and varying == [0] else None
        return _per_distinct(one, args[varying[0]], types.result, valid, whole)
    return _by_row(op, types, args, rows)


def _in_place(
    function: Function, types: Signature, args: Sequence[Vector], place: int
) -> Callable[[Any], Any]:
    """The function of the one argument that varies."""
    before, after = [arg[0] for arg in args[:place]], [arg[0] for arg in args[place + 1 :]]
    return lambda value: function.scalar(types, *before, value, *after)


def _arrays(
    run: Callable[[list[Array]], Array | None], args: Sequence[Vector], valid: Array | None, result: SqlType
) -> Array | None:
    """`run` on all rows; if what stands in NULL slots makes it fail, on the others alone."""
    try:
        return run([arg.values for arg in args])
    except EverfreshError:
        if valid is None or valid.all():
            raise
        count = int(valid.sum())
        some = run([np.broadcast_to(a.values[:1], count) if a.is_constant else a.values[valid] for a in args])
        if some is None:
            return None
        out = np.zeros(len(valid), dtype=dtype_of(result))
        out[valid] = some
        return out


def _by_row(op: str, types: Signature, args: Sequence[Vector], rows: int) -> Vector:
    function = FUNCTIONS[op]
    lists = [arg.to_pylist() for arg in args]
    scalar, strict = function.scalar, function.strict
    given = zip(*lists, strict=True) if lists else [()] * rows
    out = [None if strict and None in row else scalar(types, *row) for row in given]
    assert len(out) == rows
    return Vector.from_pylist(out, types.result)


def _per_distinct(
    fn: Callable[[Any], Any],
    vector: Vector,
    result: SqlType,
    valid: Array | None,
    whole: Callable[[list[str]], list[Any]] | None = None,
) -> Vector:
    """`fn` of each distinct value that occurs, spread over the rows; by `whole` for all of them at once, if
    there is one."""
    assert vector.dictionary is not None
    codes = vector.values if valid is None else vector.values[valid]
    if len(vector.dictionary) <= 4 * len(codes):  # counting is faster than sorting
        used = np.flatnonzero(np.bincount(codes, minlength=len(vector.dictionary)))
    else:
        used = np.unique(codes)
    texts = vector.dictionary[used].tolist()
    made = Vector.from_pylist([fn(text) for text in texts] if whole is None else whole(texts), result)
    if not len(used):
        return Vector.from_pylist([None] * len(vector), result)
    where = np.zeros(len(vector.dictionary), dtype=np.int64)
    where[used] = np.arange(len(used))
    found = made.take(where[vector.values])
    if found.valid is not None and valid is not None:
        valid = found.valid & valid
    return found.with_valid(found.valid if valid is None else valid)


def _cast(vector: Vector, to: SqlType) -> Vector:
    source = vector.type
    if source == to:
        return vector
    if source.name == "NULL":
        return Vector.nulls(to, len(vector))
    if vector.is_constant:
        return Vector.constant(cast_value(vector[0], source, to), to, len(vector))
    if vector.dictionary is not None:
        return _per_distinct(lambda value: cast_value(value, source, to), vector, to, vector.valid)
    made = cast_array(vector.values, source, to)
    if made is not None:
        return Vector(to, made).with_valid(vector.valid)
    if vector.values.dtype != object:
        return _cast_distinct(vector, to)
    return Vector.from_pylist([cast_value(value, source, to) for value in vector.to_pylist()], to)


def _cast_distinct(vector: Vector, to: SqlType) -> Vector:
    distinct, inverse = np.unique(vector.values, return_inverse=True)
    made = Vector.from_pylist([cast_value(value, vector.type, to) for value in distinct.tolist()], to)
    return made.take(inverse.reshape(-1)).with_valid(vector.valid)


def satisfied(condition: Expr, columns: Mapping[str, Vector], rows: int) -> np.ndarray[Any, Any]:
    """Where a condition is TRUE, as a mask: WHERE, HAVING and FILTER take neither FALSE nor NULL."""
    verdict = evaluate_vector(condition, columns, rows)
    if verdict.type != BOOLEAN:
        raise TypeError(f"{condition} is {verdict.type}, not a condition")
    return verdict.values if verdict.valid is None else verdict.values & verdict.valid
