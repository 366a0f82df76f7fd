"""Names that the compiler makes and names of users: apart in memory, in texts and in files."""

from __future__ import annotations

import pickle

from everfresh.expr import Made, TokenStream, quote_name, stored, unstored
from everfresh.expr.names import told, view_of
from everfresh.expr.tokens import NAMES
from everfresh.testing.random_sql.spelling import HOSTILE

MAPS = ["v", "v#0", '"v#0"', '""v#0""', "v~2", '"', "a b", "top#10", *HOSTILE]
MADE = [Made(f"{name}{end}") for name in MAPS for end in ("#0", "#12x", "~2", "~2#1", "~2#1xx")]
RELATIONS = [Made(f"{name}${number}") for name in MAPS for number in (0, "3x")]


def test_a_made_name_equals_no_other() -> None:
    for name in HOSTILE:
        made = Made(name)
        assert made != name
        assert name != made
        assert made == Made(name)
        assert len({name, made, Made(name)}) == 2
        assert pickle.loads(pickle.dumps(made)) == made
        assert str(made) == name


def test_files_tell_all_maps_apart() -> None:
    names = {*MAPS, *MADE}
    assert len({stored(name) for name in names}) == len(names)
    assert {unstored(stored(name)) for name in names} == names
    assert stored("orders") == "orders"
    assert stored(Made("q#1")) == "q#1"  # as earlier releases spelled them


def test_digests_tell_all_relations_apart() -> None:
    names = {*MAPS, *(str(name) for name in RELATIONS), *RELATIONS}
    assert len({told(name) for name in names}) == len(names)


def test_texts_are_read_back() -> None:
    for name in (*HOSTILE, *MADE, *RELATIONS, Made("#0"), Made("#1.x"), Made("$x"), Made("a~")):
        shown = quote_name(name)
        stream = TokenStream(f"f({shown}, {shown}[1]) -- {shown} INTEGER?")
        found = [token.text for token in stream.tokens if token.kind in NAMES]
        assert found == ["f", name, name, name, "INTEGER"]


def test_a_map_knows_its_view() -> None:
    assert [view_of(Made(f"a#1{end}")) for end in ("#0", "#3x", "~2", "~2#1")] == ["a#1"] * 4
    assert view_of("a#1") == "a#1"
