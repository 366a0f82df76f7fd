"""Nothing goes by another name while an object of another domain reads it, and none takes the name of one."""

import pytest

import everfresh as ef
from everfresh.testing.engine.suite_base import refused


def test_what_a_matrix_reads_keeps_its_name() -> None:
    with ef.connect(engine="local") as db:
        db.sql("CREATE TABLE obs (id BIGINT PRIMARY KEY, x DOUBLE NOT NULL, other INTEGER)")
        db.apply(obs=[(i, float(i), None) for i in range(4)])
        columns = ef.linalg.columns("obs", index="id", values=["x"])
        db.create_matrix_view("gram", "g := X' X;", inputs={"X": columns})
        for text in ("ALTER TABLE obs RENAME TO seen", "ALTER TABLE obs RENAME x TO z"):
            with refused(ef.Code.DEPENDENCY, "'obs' is read by"):
                db.sql(text)
        db.sql("CREATE TABLE t (a INTEGER)")
        with refused(ef.Code.EXISTS, "gram"):
            db.sql("ALTER TABLE t RENAME TO Gram")
        assert db.view("gram").to_numpy()[0, 0] == pytest.approx(14.0)
