"""What the driver sends: all classes of all IRs are known, and programs are read back as they were.

Catches: an IR with a class that tasks cannot read, a program that changes on its way.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import everfresh as ef
from everfresh.calculus import Query
from everfresh.compiler import Catalog, CompiledView
from everfresh.compiler.viewlet.decisions import decision
from everfresh.errors import Code
from everfresh.expr import Const, Expr, Var
from everfresh.program import OnConflict
from everfresh.rewrite import Node
from everfresh.spark.jobs import packed
from everfresh.spark.jobs.job import Base, Job, Link, PartSpec, World
from everfresh.spark.jobs.messages import opened, written
from everfresh.spark.jobs.programs import batch_program, executed, load_program, no_catalog, whole_program
from everfresh.spark.jobs.stages import Staged
from everfresh.spark.state import artifacts
from everfresh.sql import parse_and_bind
from everfresh.sql.logical.plan import Given, Plan
from everfresh.types import BIGINT, DOUBLE, INTERVAL, VARCHAR
from everfresh.workloads import WORKLOADS

LANGUAGE = """
CREATE TABLE a (k BIGINT PRIMARY KEY, g VARCHAR, d DATE, x DOUBLE, p DECIMAL(9,2));
CREATE TABLE b (k BIGINT, "odd ""name" VARCHAR);
CREATE MATERIALIZED VIEW plain AS SELECT g, SUM(p) AS s, MIN(x) AS m FROM a WHERE x > -0.0 GROUP BY g;
CREATE MATERIALIZED VIEW outer_ AS SELECT a.g, b."odd ""name" AS n FROM a LEFT JOIN b ON a.k = b.k;
CREATE MATERIALIZED VIEW windowed AS SELECT g, RANK() OVER (PARTITION BY g ORDER BY x) AS r FROM a;
CREATE MATERIALIZED VIEW tops AS SELECT k, x FROM a ORDER BY x DESC LIMIT 3;
CREATE MATERIALIZED VIEW sets AS SELECT k FROM a EXCEPT SELECT k FROM b;
CREATE MATERIALIZED VIEW asked AS SELECT k FROM a WHERE x >= ALL (SELECT x FROM a) OR EXISTS
  (SELECT 1 FROM b WHERE b.k = a.k) OR p > (SELECT AVG(p) FROM a) OR g IN (SELECT "odd ""name" FROM b);
CREATE MATERIALIZED VIEW later AS SELECT COUNT(DISTINCT g) AS n, MAX(d + INTERVAL 1 DAY) AS d FROM a;
CREATE MATERIALIZED VIEW over_ AS SELECT g, s FROM plain WHERE s > 1;
"""


def catalog_of(text: str, catalog: Catalog | None = None) -> Catalog:
    catalog = catalog or no_catalog()
    for part in text.split(";"):
        if part.strip():
            (statement,) = parse_and_bind(part, catalog, "duckdb")
            catalog, _ = executed(catalog, statement, {})
    return catalog


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return catalog_of(LANGUAGE)


def classes_below(cls: type) -> set[type]:
    return {cls}.union(*(classes_below(below) for below in cls.__subclasses__()))


@pytest.mark.parametrize("base", [Expr, Query, Plan])
def test_every_node_is_known(base: type[Node]) -> None:
    # A `Move` stands in no statement: it becomes an exchange. Given rows are in queries alone.
    layers = tuple(f"everfresh.{layer}." for layer in ("expr", "calculus", "sql"))
    own = {c for c in classes_below(base) if c.__module__.startswith(layers)}
    nodes = {c for c in own if "_field_names" in vars(c)}
    assert nodes
    assert nodes - {Given} <= set(packed.CLASSES)


def test_every_field_can_be_sent() -> None:
    for cls in packed.CLASSES:
        packed.PACKING._forms_of(cls)


def read_back(catalog: Catalog) -> Catalog:
    header, sections = packed.packed_catalog(catalog)
    packed._READ.clear()
    return packed.unpacked_catalog(json.loads(json.dumps(header)), sections, "a catalog")


def test_catalogs_are_read_back(catalog: Catalog) -> None:
    found = read_back(catalog)
    assert found == catalog
    assert list(found.views) == list(catalog.views)


def test_decisions_are_read_back_and_written_alike(catalog: Catalog) -> None:
    made = [decision(text) for text in ("1f", ">4", "+a0", "-a0", "&22")]
    compiled = catalog.views["plain"].compiled
    views = [replace(compiled, decisions=frozenset(some)) for some in (made, made[::-1])]
    texts = [packed.packed(view) for view in views]
    assert texts[0] == texts[1]
    assert packed.unpacked(texts[0], CompiledView, "a view").decisions == frozenset(made)


def programs_of(catalog: Catalog) -> list[Staged | None]:
    each = [frozenset((table,)) for table in catalog.tables]
    changed = [*each, frozenset(catalog.tables)]
    fills = [load_program(catalog, n) for n, v in catalog.views.items() if not v.compiled.reevaluated]
    forms = (batch_program, whole_program)
    return [*fills, *(form(catalog, some) for form in forms for some in changed)]


def same_when_read(catalog: Catalog) -> int:
    found = [program for program in programs_of(catalog) if program is not None]
    for program in found:
        assert packed.unpacked(packed.packed(program), Staged, "a program") == program
    return len(found)


def test_programs_are_read_back(catalog: Catalog) -> None:
    assert same_when_read(catalog) > 5


@pytest.mark.parametrize("name", ["finance", "condensed"])
def test_programs_of_workloads_are_read_back(name: str) -> None:
    workload = WORKLOADS[name]
    catalog = catalog_of(";".join((*workload.tables.values(), *(q.ddl for q in workload.queries))))
    assert read_back(catalog) == catalog
    assert same_when_read(catalog) > 5


def world_of(root: Path, catalog: Catalog) -> World:
    ddl = tuple(text for _, text in catalog.ddl)
    ids = {name: f"{name}@1" for name in catalog.tables}
    world = World(str(root), "id", 2, ddl, ids, frozenset(ids.values()), 7, 100, False, "f", "off")
    world.know(catalog)
    return world.left()


def test_a_job_is_read_back(catalog: Catalog, tmp_path: Path) -> None:
    conflict = OnConflict((("x", Const(-0.0, DOUBLE)),), Var("excluded.k", BIGINT))
    parts = (
        PartSpec("a", "upsert", "rows", ("k",), ("f",), True, ("inbox/1.2.rows",), conflict),
        PartSpec("b", "insert", "rows", ()),
    )
    links = (Link(3, "t", "#0"), Link(4, "u", "0000/s", b"segment"))
    bases = {"maps/0": Base("maps/0", Link(2, "s", "c"), links), "base/1": Base("base/1")}
    schema = catalog.tables["a"]
    alter = schema, schema, Const((1, 2, 3), INTERVAL)
    pieces = {"0/1": b"rows"}
    for form in ("staged", None):
        job = Job("n", "batch", world_of(tmp_path, catalog), bases, parts, None, alter, pieces, form)
        told = job.write()
        artifacts._KNOWN.clear()
        found = Job.read(str(tmp_path), told)
        assert (found.nonce, found.kind, found.world, found.parts) == ("n", "batch", job.world, parts)
        assert (found.view, found.alter, found.form) == (None, alter, form)
        assert dict(found.bases) == bases
        assert dict(found.pieces) == pieces
        assert found.world.catalog == catalog
        assert found.program == (batch_program(catalog, job.changed) if form else None)
        job.remove()
        with pytest.raises(ef.EverfreshError, match="gone"):
            Job.read(str(tmp_path), told)


def test_only_the_message_that_was_told_of_is_opened() -> None:
    chunks, told = written("note", {"a": 1}, {"text": b"hello", "more": b"world"})
    data = b"".join(chunks)
    assert opened(data, "note", "inbox/1", told).header == {"a": 1}
    other, tells = written("note", {"a": 2}, {"text": b"hello"})
    assert tells != told
    for wrong in (b"".join(other), data[:-1], b"", data.replace(b"hello", b"hullo")):
        with pytest.raises(ef.EverfreshError) as refused:
            opened(wrong, "note", "inbox/1", told)
        assert refused.value.code == Code.DAMAGED


def test_a_section_must_be_the_one_that_was_left() -> None:
    """Also where the digest of the file, which is weaker than that of a section, fits."""
    chunks, told = written("note", {}, {"text": b"hello", "more": b"world"})
    message = opened(b"".join(chunks), "note", "inbox/1", told)
    assert bytes(message.sections["more"]) == b"world"
    message.sections._sections["text"] = memoryview(b"other")  # type: ignore[attr-defined]
    with pytest.raises(ef.EverfreshError, match="section text"):
        message.sections["text"]


def test_a_catalog_of_another_process_is_not_taken(catalog: Catalog, tmp_path: Path) -> None:
    """The driver writes what it leaves, whatever is there, and never reads."""
    world = world_of(tmp_path, catalog)
    (file,) = (tmp_path / "inbox").glob("catalog-*")
    file.write_bytes(b"something else")
    artifacts._LEFT.clear()
    assert world.left().told == world.told
    artifacts._KNOWN.clear()
    assert world.catalog == catalog


def test_names_of_any_kind_are_sent(tmp_path: Path) -> None:
    catalog = catalog_of('CREATE TABLE "a/b ""c"" \'d\'" ("#1" BIGINT, "view/x" VARCHAR)')
    assert read_back(catalog) == catalog
    assert read_back(catalog).tables["a/b \"c\" 'd'"].columns[1].type == VARCHAR


def test_what_is_made_again_is_left_again(catalog: Catalog, tmp_path: Path) -> None:
    """Driver and tasks have the same program, also if the driver has forgotten the one that it left."""
    world = world_of(tmp_path, catalog)
    parts = (PartSpec("a", "insert", "rows", ()),)
    job = Job("n", "batch", world, {}, parts, form="staged")
    first = job.write()
    artifacts._KNOWN.clear()
    other = batch_program(catalog, frozenset(("b",)))  # as if it came out otherwise
    artifacts.known(artifacts.name_of("staged", world.digest, job.changed), lambda: other)
    second = job.write()
    artifacts._KNOWN.clear()
    assert second != first
    assert Job.read(str(tmp_path), second).program == other
