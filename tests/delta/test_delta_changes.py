"""`Delta` holds what it is given, and importing it costs nothing."""

import subprocess
import sys

import pytest

from everfresh.delta import Delta
from everfresh.errors import Code, EverfreshError


def test_plain_rows_are_inserts():
    rows = [(1,)]
    assert Delta.of(rows).inserts is rows
    delta = Delta(deletes=rows)
    assert Delta.of(delta) is delta


def test_parts_come_in_the_order_in_which_they_apply():
    assert [op for op, _ in Delta(inserts=[], deletes=[], updates=[]).parts()] == [
        "delete",
        "update",
        "insert",
    ]
    assert list(Delta().parts()) == []


def test_none_is_not_rows():
    with pytest.raises(EverfreshError) as error:
        Delta.of(None)
    assert error.value.code == Code.ARGUMENT


def test_delta_imports_neither_pyarrow_nor_numpy():
    code = (
        "import sys; from everfresh.delta import Delta; Delta.of([1]); "
        "assert not {'pyarrow', 'numpy', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_exported_name_resolves():
    from everfresh import delta

    assert all(getattr(delta, name) is not None for name in delta.__all__)
    with pytest.raises(AttributeError):
        delta.nothing
