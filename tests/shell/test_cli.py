"""The command line: what each command does, and the exit code of everything that can go wrong."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from importlib.metadata import version
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from everfresh import cli
from everfresh.bench.report import Report
from everfresh.errors import Code, EverfreshError

SCRIPT = """
CREATE TABLE t (id BIGINT PRIMARY KEY, k INTEGER, x BIGINT);   -- a comment; with a semicolon
CREATE MATERIALIZED VIEW v AS SELECT k, SUM(x) AS total FROM t GROUP BY k;
INSERT INTO t VALUES (1, 7, 40), (2, 7, 2), (3, 8, 5);
SELECT k, total FROM v ORDER BY k;
"""


def feed(monkeypatch: pytest.MonkeyPatch, text: str | bytes) -> None:
    data = text if isinstance(text, bytes) else text.encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


# -- --version and --help ------------------------------------------------------------------------


def test_version_is_quick_and_imports_nothing_heavy():
    code = (
        "import sys; from everfresh.cli import main; main(['--version']);"
        "assert not {'pyspark', 'numba', 'pandas', 'pyarrow', 'rich', 'sqlglot'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    from everfresh._version import __version__

    assert done.stdout.splitlines()[0] == f"everfresh {__version__}"
    assert f"pyspark {version('pyspark')}" in done.stdout
    assert f"pyarrow {version('pyarrow')}" in done.stdout


@pytest.mark.parametrize("command", [[], ["sql"], ["explain"], ["bench"], ["demo"]])
def test_help(command: list[str], capsys: pytest.CaptureFixture[str]):
    assert cli.main([*command, "--help"]) == 0
    assert "Usage: everfresh" in capsys.readouterr().out


# -- sql -------------------------------------------------------------------------------------------


def test_options_reach_the_database(fake: Any):
    assert cli.main(["sql", "--engine", "spark", "--path", "shop.ef", "--read-only", "-c", "SELECT 1"]) == 0
    assert fake.opened == {"path": "shop.ef", "engine": "spark", "read_only": True}
    assert fake.ran == ["SELECT 1"]
    assert fake.closed == 1


def test_results_print_and_epochs_do_not(fake: Any, capsys: pytest.CaptureFixture[str]):
    fake.answers = {"INSERT": 3, "SELECT 1": "| 1 |", "SELECT 2": "| 2 |"}
    assert cli.main(["sql", "--dialect", "spark", "-c", "INSERT; SELECT 1; DROP; SELECT 2"]) == 0
    assert capsys.readouterr().out == "| 1 |\n| 2 |\n"
    assert fake.dialects == ["spark"] * 4


def test_a_script_ends_at_its_first_mistake(fake: Any, tmp_path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "script.sql"
    file.write_text("SELECT 1;\n\n  SELECT nope\n FROM x; SELECT 3;\n")
    fake.answers = {
        "SELECT nope\n FROM x": EverfreshError(
            Code.NOT_FOUND, "there is no column 'nope'", place="line 1, column 8", hint="columns are: a"
        )
    }
    assert cli.main(["sql", str(file)]) == 1
    assert capsys.readouterr().err == (
        f"error: there is no column 'nope' ({file}, line 3, column 10)\n  hint: columns are: a\n"
    )
    assert fake.ran == ["SELECT 1", "SELECT nope\n FROM x"]
    assert fake.closed == 1


@pytest.mark.parametrize("args", [["sql"], ["sql", "-"]])
def test_standard_input_is_a_script(fake: Any, monkeypatch: pytest.MonkeyPatch, args: list[str]):
    feed(monkeypatch, "SELECT 1;\nSELECT 2")
    assert cli.main(args) == 0
    assert fake.ran == ["SELECT 1", "SELECT 2"]


def test_a_script_of_another_encoding_is_a_clear_error(fake, monkeypatch, capsys):
    feed(monkeypatch, b"SELECT '\xff'")
    assert cli.main(["sql"]) == 1
    assert "not UTF-8" in capsys.readouterr().err


@pytest.mark.parametrize(
    "args",
    [
        ["sql", "-c", "SELECT 1", __file__],
        ["sql", "/no/such/file"],
        ["sql", "--engine", "duckdb"],
        ["explain"],
        ["bench"],
        ["demo", "--sf", "0"],
        ["nonsense"],
    ],
)
def test_wrong_use_is_code_2(args: list[str], fake: Any, capsys: pytest.CaptureFixture[str]):
    assert cli.main(args) == 2
    assert "Usage: everfresh" in capsys.readouterr().err


def test_an_interrupt_closes_and_says_so(fake: Any, capsys: pytest.CaptureFixture[str]):
    fake.answers = {"SELECT 1": KeyboardInterrupt()}
    assert cli.main(["sql", "-c", "SELECT 1"]) == 130
    assert capsys.readouterr().err.strip() == "interrupted"
    assert fake.closed == 1


def test_a_bug_shows_its_traceback_and_asks_for_a_report(fake: Any, capsys: pytest.CaptureFixture[str]):
    fake.answers = {"SELECT 1": ZeroDivisionError("oops")}
    assert cli.main(["sql", "-c", "SELECT 1"]) == 70
    error = capsys.readouterr().err
    assert "Traceback" in error
    assert "ZeroDivisionError: oops" in error
    assert "please report it" in error.splitlines()[-1]
    assert fake.closed == 1


def test_a_script_for_real(everfresh_command):
    done = everfresh_command("sql", stdin=SCRIPT)
    assert done.returncode == 0, done.stderr
    assert "total" in done.stdout
    assert "42" in done.stdout
    assert "5" in done.stdout


def test_a_mistake_for_real(everfresh_command):
    done = everfresh_command("sql", "-c", "CREATE TABLE t (a INTEGER);\nSELECT b FROM t")
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert "line 2" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_is_kept(tmp_path, capsys: pytest.CaptureFixture[str]):
    folder = ["--path", str(tmp_path / "shop.ef")]
    assert cli.main(["sql", *folder, "-c", SCRIPT]) == 1
    assert "add --create" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    assert cli.main(["sql", *folder, "--create", "-c", SCRIPT]) == 0
    capsys.readouterr()
    assert cli.main(["sql", *folder, "--read-only", "-c", "SELECT total FROM v WHERE k = 7"]) == 0
    assert "42" in capsys.readouterr().out
    assert cli.main(["explain", *folder, "v"]) == 0
    assert cli.main(["explain", *folder, "-c", "SELECT k, COUNT(*) AS n FROM t GROUP BY k"]) == 0
    assert capsys.readouterr().out.strip()
    assert cli.main(["sql", *folder, "--read-only", "-c", "DELETE FROM t"]) == 1
    assert capsys.readouterr().err.startswith("error: ")


# -- explain ---------------------------------------------------------------------------------------


def test_explain_a_view(fake: Any, capsys: pytest.CaptureFixture[str]):
    assert cli.main(["explain", "--path", "shop.ef", "v"]) == 0
    assert capsys.readouterr().out == "v is maintained\n"
    assert fake.opened["read_only"] is True
    assert cli.main(["explain", "--format", "json", "v"]) == 0
    assert json.loads(capsys.readouterr().out) == {"view": "v"}
    assert fake.closed == 2


def test_explain_a_query(fake: Any):
    fake.views["query"] = fake.views["v"]
    assert cli.main(["explain", "-c", "CREATE TABLE t (a INTEGER); SELECT a FROM t"]) == 0
    assert fake.ran == ["CREATE TABLE t (a INTEGER)", "CREATE MATERIALIZED VIEW query AS SELECT a FROM t"]


def test_explain_a_view_that_is_not_there(fake: Any, capsys: pytest.CaptureFixture[str]):
    assert cli.main(["explain", "nope"]) == 1
    assert capsys.readouterr().err == "error: there is no view 'nope'\n"


def test_explain_for_real(capsys: pytest.CaptureFixture[str]):
    script = "CREATE TABLE t (k INTEGER, x BIGINT); SELECT k, SUM(x) AS s FROM t GROUP BY k"
    assert cli.main(["explain", "-c", script]) == 0
    assert capsys.readouterr().out.strip()
    assert cli.main(["explain", "--format", "json", "-c", script]) == 0
    assert json.loads(capsys.readouterr().out)


# -- bench and demo ----------------------------------------------------------------------------------


def test_bench_list(capsys: pytest.CaptureFixture[str]):
    assert cli.main(["bench", "--list"]) == 0
    assert "start" in capsys.readouterr().out


def test_an_unknown_benchmark(capsys: pytest.CaptureFixture[str]):
    assert cli.main(["bench", "nope"]) == 1
    error = capsys.readouterr().err
    assert "there is no benchmark 'nope'" in error
    assert "start" in error


@pytest.mark.parametrize(("measured", "code"), [(0.1, 0), (0.5, 3)])
def test_bench_writes_its_report(measured, code, tmp_path, monkeypatch, capsys):
    from everfresh import bench

    def run(settings: bench.Settings) -> Report:
        assert settings.quick
        assert settings.sf == 0.5
        settings.note("measuring")
        report = Report("fake")
        report.row(what="something", seconds=measured)
        report.below("something", measured, 0.3, "s")
        report.skip("the rest", "no GPU")
        return report

    monkeypatch.setattr(bench, "load", lambda name: SimpleNamespace(NAME=name, run=run))
    file = tmp_path / "new" / "report.json"
    assert cli.main(["bench", "fake", "--quick", "--sf", "0.5", "--json", str(file)]) == code
    shown = capsys.readouterr()
    assert "measuring" in shown.err
    for text in ("something", "< 0.3 s", "holds", "the rest", "no GPU"):
        assert text in shown.out
    assert json.loads(file.read_text())["bars"] == [
        {"what": "something", "target": "< 0.3 s", "value": measured, "holds": code == 0}
    ]


def test_demo_gets_its_options(monkeypatch: pytest.MonkeyPatch):
    import everfresh

    calls = []
    module = ModuleType("everfresh.demo")
    module.run = lambda **options: calls.append(options) or 0  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "everfresh.demo", module)
    monkeypatch.setitem(vars(everfresh), "demo", module)
    assert cli.main(["demo", "--sf", "0.1", "--engine", "local", "--batches", "5"]) == 0
    options = calls[0]
    assert {"sf": 0.1, "engine": "local", "batches": 5}.items() <= options.items()
    assert hasattr(options["display"], "progress")


def test_output_that_nobody_reads_ends_quietly():
    done = subprocess.run(
        f"{sys.executable} -m everfresh bench --list | true",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
