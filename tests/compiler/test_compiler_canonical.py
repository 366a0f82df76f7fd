"""Canonical forms: the same key whatever the names and the order, and never the same for different maps.

Catches: a colour that forgets the position in an atom or the kind of a variable; ties broken by name; a
refinement that stops early; group variables in the order of the definition; `<` and `>` kept apart; a text
that leaves out constants, types, signs or components.
"""

from __future__ import annotations

from itertools import permutations
from random import Random

import pytest

from everfresh.algebra import Gmr
from everfresh.calculus import (
    ZERO,
    Bind,
    Cond,
    Database,
    Exists,
    Neg,
    Plus,
    Prod,
    Query,
    Rel,
    SpecError,
    Sum,
    Value,
    evaluate,
    outputs,
    parse,
    rename,
)
from everfresh.compiler.viewlet import canonical as module
from everfresh.compiler.viewlet.canonical import Canonical, canonical
from everfresh.expr import Call, Case, Cast, Const, Expr, Var, build, variables
from everfresh.types import BIGINT, INTEGER, VARCHAR, Column

ARITY = {"R": 2, "S": 2, "T": 3, "U": 1}
COLUMNS = {name: tuple(Column(f"c{i}", BIGINT, False) for i in range(n)) for name, n in ARITY.items()}
POOL = [Var(name, BIGINT, False) for name in "abcdefgh"]


def made(random: Random, atoms: int, variables_: int) -> Query:
    """A random flat definition."""
    pool = POOL[:variables_]
    names = [random.choice(list(ARITY)) for _ in range(random.randint(1, atoms))]
    factors: list[Query] = [Rel(n, tuple(random.choice(pool) for _ in range(ARITY[n]))) for n in names]
    bound = list(dict.fromkeys(v for f in factors for v in f.vars))  # type: ignore[attr-defined]
    for _ in range(random.randint(0, 2)):
        op = random.choice(["<", "<=", ">", "=", "<>"])
        other = random.choice([random.choice(bound), Const(random.randint(0, 1), BIGINT)])
        factors.append(Cond(build.call(op, random.choice(bound), other)))
    if random.random() < 0.3:
        new = Var("new", BIGINT, False)
        factors.append(Bind(new, random.choice([random.choice(bound), Const(1, BIGINT)])))
        bound.append(new)
    if random.random() < 0.5:
        factors.append(Value((build.call(random.choice("+-"), random.choice(bound), random.choice(bound)),)))
    group = random.sample(bound, random.randint(0, min(3, len(bound))))
    return Sum(tuple(group), Prod(tuple(factors)))


def turned(expr: Expr, random: Random) -> Expr:
    """The same written another way."""
    other = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "<>": "<>", "+": "+"}
    if isinstance(expr, Call) and expr.op in other and random.random() < 0.5:
        return Call(other[expr.op], expr.args[::-1])
    return expr


def shuffled(query: Query, random: Random) -> Query:
    """An equal definition with other names, in another order."""
    assert isinstance(query, Sum)
    assert isinstance(query.body, Prod)
    left = [
        Cond(turned(f.condition, random)) if isinstance(f, Cond)
        else Value(tuple(turned(i, random) for i in f.items)) if isinstance(f, Value)
        else f
        for f in query.body.factors
    ]  # fmt: skip
    random.shuffle(left)
    factors: list[Query] = []
    known: set[str] = set()
    while left:  # a scalar stands anywhere after what it reads
        ready = next(f for f in left if isinstance(f, Rel) or {v.name for v in reads(f)} <= known)
        left.remove(ready)
        factors.append(ready)
        known |= {v.name for v in outputs(ready)}
    old = sorted({v.name for f in factors for v in outputs(f)})
    new = [Var(f"x{i}", BIGINT, False) for i in random.sample(range(20), len(old))]
    group = random.sample(query.group, len(query.group))
    return rename(Sum(tuple(group), Prod(tuple(factors))), dict(zip(old, new, strict=True)))


def reads(factor: Query) -> tuple[Var, ...]:
    match factor:
        case Cond(condition):
            return variables(condition)
        case Bind(_, expr):
            return variables(expr)
        case Value(items):
            return tuple(v for item in items for v in variables(item))
    return ()


def database(random: Random, rows: int = 4) -> Database:
    def table(n: int) -> Gmr:
        keys = {tuple(random.randint(0, 2) for _ in range(n)) for _ in range(rows)}
        return Gmr((key, (random.choice([1, 1, 2, -1]),)) for key in sorted(keys))

    return Database(tables={name: table(n) for name, n in ARITY.items()})


def contents(query: Query, form: Canonical, db: Database) -> dict[tuple[int, ...], object]:
    """The map by its keys in canonical order."""
    places = [outputs(query).index(v) for v in form.group]
    return {tuple(key[i] for i in places): weight for key, weight in evaluate(query, db).items()}


def test_shuffled_and_renamed_definitions_have_one_key() -> None:
    random = Random(4)
    for number in range(4000):
        query = made(random, 6, 8)
        other = shuffled(query, random)
        one, two = canonical(query), canonical(other)
        assert one.key == two.key, f"{query}\n{other}"
        assert {v.name for v in one.group} == {v.name for v in query.group}  # type: ignore[attr-defined]
        if number % 20 == 0:
            db = database(random)
            assert contents(query, one, db) == contents(other, two, db), f"{query}\n{other}"


def brute(query: Query) -> str:
    """The least text over all namings: the definition of equality, too slow to use."""
    assert isinstance(query, Sum)
    assert isinstance(query.body, Prod)
    names = sorted({v.name for f in query.body.factors for v in outputs(f)})
    texts = []
    for order in permutations(range(len(names))):
        by = {name: Var(f"v{i}", BIGINT, False) for name, i in zip(names, order, strict=True)}
        factors = [rename(straight(f), by) for f in query.body.factors]
        counts = sorted(str(f) for f in factors if isinstance(f, Rel | Value))
        scalars = sorted({str(f) for f in factors if isinstance(f, Cond | Bind)})
        group = sorted(by[v.name].name for v in query.group)
        texts.append(f"{group} {counts} {scalars}")
    return min(texts)


def straight(factor: Query) -> Query:
    match factor:
        case Cond(Call(">", (a, b))):
            return Cond(Call("<", (b, a)))
        case _:
            return factor


def test_keys_are_equal_exactly_where_some_renaming_makes_the_texts_equal() -> None:
    random = Random(5)
    keys: dict[str, str] = {}
    texts: dict[str, str] = {}
    merged = 0
    for _ in range(2500):
        query = made(random, 2, 3)
        if any(n.op in ("=", "<>", "+") for n in query.walk() if isinstance(n, Call)):
            continue  # their arguments are sorted too: not in the plain text
        key, text = canonical(query).key, brute(query)
        merged += key in keys
        assert keys.setdefault(key, text) == text
        assert texts.setdefault(text, key) == key
    assert merged > 200


def test_definitions_with_one_key_are_equal_on_data() -> None:
    random = Random(6)
    first: dict[str, tuple[Query, Canonical]] = {}
    merged = 0
    for _ in range(1500):
        query = made(random, 2, 3)
        form = canonical(query)
        if form.key in first and first[form.key][0] != query:
            merged += 1
            other, other_form = first[form.key]
            for _ in range(2):
                db = database(random, 6)
                assert contents(query, form, db) == contents(other, other_form, db)
        first.setdefault(form.key, (query, form))
    assert merged > 100


BASE = "Sum_[a](R(a, b) * S(b, c) * [a < c] * (d := b) * ⟨c + 1::BIGINT⟩)"


@pytest.mark.parametrize(
    "other",
    [
        "Sum_[b](R(a, b) * S(b, c) * [a < c] * (d := b) * ⟨c + 1::BIGINT⟩)",
        "Sum_[d](R(a, b) * S(b, c) * [a < c] * (d := b) * ⟨c + 1::BIGINT⟩)",
        "Sum_[a, c](R(a, b) * S(b, c) * [a < c] * (d := b) * ⟨c + 1::BIGINT⟩)",
        "Sum_[a](R(b, a) * S(b, c) * [a < c] * (d := b) * ⟨c + 1::BIGINT⟩)",
        "Sum_[a](R(a, b) * R(b, c) * [a < c] * (d := b) * ⟨c + 1::BIGINT⟩)",
        "Sum_[a](R(a, b) * ΔS(b, c) * [a < c] * (d := b) * ⟨c + 1::BIGINT⟩)",
        "Sum_[a](R(a, b) * S(b, c) * [a <= c] * (d := b) * ⟨c + 1::BIGINT⟩)",
        "Sum_[a](R(a, b) * S(b, c) * [c < a] * (d := b) * ⟨c + 1::BIGINT⟩)",
        "Sum_[a](R(a, b) * S(b, c) * [a < b] * (d := b) * ⟨c + 1::BIGINT⟩)",
        "Sum_[a](R(a, b) * S(b, c) * [a < c] * (d := c) * ⟨c + 1::BIGINT⟩)",
        "Sum_[a](R(a, b) * S(b, c) * [a < c] * (d := b) * ⟨c + 2::BIGINT⟩)",
        "Sum_[a](R(a, b) * S(b, c) * [a < c] * (d := b) * ⟨b + 1::BIGINT⟩)",
        "Sum_[a](R(a, b) * S(b, c) * [a < c] * (d := b) * ⟨c + 1::BIGINT, c⟩)",
        "Sum_[a](R(a, b) * S(b, c) * [a < c] * (d := b))",
        "Sum_[a](R(a, b) * S(b, c) * S(b, c) * [a < c] * (d := b) * ⟨c + 1::BIGINT⟩)",
        "Sum_[a](R(a, b) * S(b, c) * [a < c] * (d := b) * ⟨c + 1::BIGINT⟩ * ⟨c + 1::BIGINT⟩)",
        "-Sum_[a](R(a, b) * S(b, c) * [a < c] * (d := b) * ⟨c + 1::BIGINT⟩)",
        "Sum_[a](R(a, b) * S(e, c) * [a < c] * (d := b) * ⟨c + 1::BIGINT⟩)",
    ],
)
def test_near_misses_have_other_keys(other: str) -> None:
    assert canonical(parse(BASE, COLUMNS)).key != canonical(parse(other, COLUMNS)).key


@pytest.mark.parametrize(
    "other",
    [
        "Sum_[x](S(y, z) * R(x, y) * (w := y) * [z > x] * ⟨1::BIGINT + z⟩)",
        "Sum_[a](R(a, b) * S(b, c) * [a < c] * [c > a] * (d := b) * (d := b) * ⟨c + 1::BIGINT⟩)",
        "Sum_[a](Sum_[a, b](R(a, b) * S(b, c) * [NOT (c <= a)] * (d := b) * ⟨c + 1::BIGINT⟩))",
    ],
)
def test_other_ways_to_write_it(other: str) -> None:
    assert canonical(parse(BASE, COLUMNS)).key == canonical(parse(other, COLUMNS)).key


def test_types_nullability_and_names_that_look_alike_are_told_apart() -> None:
    a, b = POOL[:2]
    forms = [
        Sum((a,), Rel("R", (a, b))),
        Sum((a,), Rel("R", (a, Var("b", BIGINT, True)))),
        Sum((a,), Rel("R", (a, Var("b", VARCHAR, False)))),
        Sum((a,), Rel("R(v0, v1)", (a, b))),
        Sum((a,), Rel("ΔR", (a, b))),
        Sum((a,), Rel("R", (a, b), delta=True)),
        Sum((a,), Prod((Rel("R", (a, b)), Cond(build.call("=", b, Const(1, BIGINT)))))),
        Sum((a,), Prod((Rel("R", (a, b)), Cond(build.call("=", b, Cast(Const(1, INTEGER), BIGINT)))))),
        Sum((a,), Prod((Rel("R", (a, b)), Value((Case(((build.call("<", a, b), a),), b),))))),
        Sum((a,), Prod((Rel("R", (a, b)), Value((Case(((build.call("<", a, b), b),), a),))))),
    ]
    assert len({canonical(q).key for q in forms}) == len(forms)


# -- sums of products ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "two", "equal"),
    [
        ("Sum_[a](R(a, b) + S(a, b))", "Sum_[x](S(x, z)) + Sum_[x](R(x, y))", True),
        ("Sum_[a](R(a, b) + S(a, b))", "Sum_[x](S(x, z)) + Sum_[x](R(y, x))", False),
        ("Sum_[a](R(a, b)) + (-Sum_[a](S(a, b)))", "Sum_[x](-S(x, y) + R(x, y))", True),
        ("Sum_[a](R(a, b)) + (-Sum_[a](S(a, b)))", "-Sum_[x](R(x, y)) + Sum_[x](S(x, y))", False),
        ("R(a, b) + R(b, a)", "R(y, x) + R(x, y)", True),
        ("Sum_[a, b](R(a, b) * R(b, c))", "Sum_[b, c](R(b, a) * R(c, b))", True),
        ("0", "0", True),
        ("R(a, b)", "Sum_[b, a](R(a, b))", True),
    ],
)
def test_sums(one: str, two: str, equal: bool) -> None:
    assert (canonical(parse(one, COLUMNS)).key == canonical(parse(two, COLUMNS)).key) is equal


def test_random_sums_shuffled() -> None:
    random = Random(7)
    for _ in range(300):
        a, b = POOL[:2]
        terms = [Sum((a, b), Prod((Rel("T", (a, b, POOL[2])), *(made(random, 2, 4).body.factors))))  # type: ignore[attr-defined]
                 for _ in range(random.randint(2, 3))]  # fmt: skip
        signed: list[Query] = [Neg(t) if random.random() < 0.3 else t for t in terms]
        keep = {"a": POOL[5], "b": POOL[6]}
        again = [rename(t, keep) for t in signed]
        random.shuffle(again)
        one, two = canonical(Plus(tuple(signed))), canonical(Plus(tuple(again)))
        assert one.key == two.key
        assert [v.name for v in two.group] == [keep[v.name].name for v in one.group]


def test_symmetric_definitions_stay_within_the_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twins are not permuted; where nothing but the cap helps, the key still tells the truth."""
    star = Sum((), Prod(tuple(Rel("R", (POOL[0], Var(f"y{i}", BIGINT, False))) for i in range(9))))
    pairs = Sum(
        (),
        Prod(tuple(Rel("R", (Var(f"x{i}", BIGINT, False), Var(f"y{i}", BIGINT, False))) for i in range(6))),
    )
    random = Random(8)
    for query in (star, pairs):
        assert canonical(query).key == canonical(shuffled(query, random)).key
    monkeypatch.setattr(module, "CAP", 2)
    canonical.cache_clear()
    assert canonical(pairs).key.count("R") == 6
    canonical.cache_clear()


def test_what_is_not_flat_is_refused() -> None:
    with pytest.raises(SpecError, match="not a factor"):
        canonical(Prod((Exists(Rel("U", (POOL[0],))), Rel("U", (POOL[0],)))))
    assert canonical(ZERO).group == ()
