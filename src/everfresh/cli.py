"""The command `everfresh`: scripts and a prompt, explanations, benchmarks, the demo.

Every command opens what it needs, and everything ends in one error handler, `main`, with exit codes that mean
something. Heavy modules are imported by the command that needs them, so `--version` answers at once.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from everfresh.errors import Code, EverfreshError
from everfresh.kv.commands import kv

if TYPE_CHECKING:
    from everfresh.database import Database

FAILED, USAGE, BELOW_BAR, BUG, INTERRUPTED = 1, 2, 3, 70, 130

_EPILOG = (
    f"Exit codes: 0 done, {FAILED} a mistake in the input, {USAGE} wrong use of the command, {BELOW_BAR} a "
    f"benchmark misses one of its bars, {BUG} a bug in everfresh, {INTERRUPTED} interrupted."
)

_engine = click.option(
    "--engine",
    type=click.Choice(["local", "spark"]),
    default="local",
    show_default=True,
    help="Where views are kept.",
)
_path = click.option(
    "--path",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="The database folder; without it, in memory.",
)
_dialect = click.option(
    "--dialect",
    default="duckdb",
    show_default=True,
    metavar="NAME",
    help="Whose SQL syntax to read, such as spark.",
)


def _show_version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if not wanted or context.resilient_parsing:
        return
    import platform
    from importlib.metadata import PackageNotFoundError, version

    from everfresh._version import __version__

    click.echo(f"everfresh {__version__}")
    click.echo(f"Python {platform.python_version()}")
    for package in ("pyspark", "pyarrow"):
        try:
            click.echo(f"{package} {version(package)}")
        except PackageNotFoundError:
            click.echo(f"{package} is not installed")
    context.exit()


@click.group(epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show versions and leave.",
)
def cli() -> None:
    """Views that stay fresh while their data change."""


@contextmanager
def _database(path: str | None, engine: str, read_only: bool = False) -> Iterator[Database]:
    """The database the options name, closed at the end whatever happens."""
    import everfresh

    db = everfresh.connect(path, engine=engine, read_only=read_only)
    try:
        yield db
    finally:
        db.close()


# -- sql -------------------------------------------------------------------------------------------


@cli.command()
@_engine
@_path
@click.option("--create", is_flag=True, help="Make the folder if it is not there.")
@click.option("--read-only", is_flag=True, help="Open the folder for reading, beside its writer.")
@_dialect
@click.option("-c", "text", metavar="TEXT", help="Run this text.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
    help="How results are written; json: an object a line.",
)
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, allow_dash=True))
def sql(
    *,
    engine: str,
    path: str | None,
    create: bool,
    read_only: bool,
    dialect: str,
    text: str | None,
    form: str,
    file: str | None,
) -> None:
    """Run the script FILE, standard input (-), or statements typed at a prompt.

    Results of queries go to standard output. A script ends at its first mistake.
    """
    if text is not None and file is not None:
        raise click.UsageError("give either FILE or -c TEXT, not both")
    asks = text is None and file is None and sys.stdin.isatty()
    _require_folder(path, create, read_only, asks)
    if asks:
        _prompt(engine, path, read_only, dialect)
        return
    name = "" if text is not None else "standard input" if file in (None, "-") else str(file)
    script = text if text is not None else _read(file)
    with _database(path, engine, read_only) as db:
        for result in _run(db, script, dialect, name):
            if result is not None and not isinstance(result, int):
                _show(result, form)


def _show(result: Any, form: str) -> None:
    """Write a result to standard output."""
    if form == "table":
        click.echo(str(result))
        return
    from everfresh.delta.writing import write_text

    text = io.StringIO()
    write_text(result.to_arrow(), text, form)
    click.echo(text.getvalue(), nl=False)


def _require_folder(path: str | None, create: bool, read_only: bool, asks: bool) -> None:
    """A folder that is not there is made only if somebody wants it: a mistyped path is no new database."""
    from everfresh.state import is_url

    if path is None or path == ":memory:" or create or read_only or is_url(path) or os.path.exists(path):
        return
    if asks and click.confirm(f"There is no database at {path}. Make one?"):
        return
    raise EverfreshError(
        Code.NOT_FOUND, f"there is no database at {path}", hint="add --create to make one, or check the path"
    )


def _run(db: Database, script: str, dialect: str, name: str) -> Iterator[Any]:
    """Run a script statement by statement; yields what each returns."""
    from everfresh.console.script import in_script, split

    parts = split(script, dialect)
    for statement in (*parts.statements, *([parts.rest] if parts.rest else [])):
        try:
            result = db.sql(statement.text, dialect=dialect)
        except EverfreshError as error:
            raise in_script(error, statement, name) from error
        yield result


def _read(file: str | None) -> str:
    """The text of a script, or of standard input."""
    try:
        data = sys.stdin.buffer.read() if file in (None, "-") else Path(str(file)).read_bytes()
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise EverfreshError(
            Code.VALUE, "the script is not UTF-8 text", place=f"byte {error.start}", hint="save it as UTF-8"
        ) from error
    except OSError as error:
        raise EverfreshError(
            Code.NOT_FOUND, f"the script cannot be read: {error.strerror}", place=file
        ) from error


def _prompt(engine: str, path: str | None, read_only: bool, dialect: str) -> None:
    from everfresh.console import Display
    from everfresh.console.prompt import Prompt, history

    with _database(path, engine, read_only) as db, history(lambda: [*db.tables, *db.views]):
        Prompt(db, Display(), dialect).run()


# -- explain ---------------------------------------------------------------------------------------


@cli.command()
@_engine
@_path
@_dialect
@click.option("-c", "text", metavar="SQL", help="Explain the views of this script, or its last query.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.argument("view", required=False)
def explain(
    *, engine: str, path: str | None, dialect: str, text: str | None, form: str, view: str | None
) -> None:
    """Show how VIEW is maintained, and why each choice was made.

    With -c the script runs in memory, beside copies of the empty tables of the folder: nothing is changed.
    """
    if text is None and view is None:
        raise click.UsageError("give the name of a view, or -c SQL")
    if text is None:
        with _database(path, engine, read_only=path is not None) as db:
            _explain(db, [str(view)], form)
        return
    from everfresh.console.script import create_table

    schemas: list[str] = []
    if path is not None:
        with _database(path, engine, read_only=True) as stored:
            schemas = [create_table(stored.catalog.expect_table(name)) for name in stored.tables]
    with _database(None, engine) as db:
        for schema in schemas:
            db.sql(schema)
        for _ in _run(db, _as_views(text, dialect), dialect, ""):
            pass
        _explain(db, [view] if view is not None else list(db.views), form)


def _as_views(script: str, dialect: str) -> str:
    """The script, with a query at its end made into a view."""
    from everfresh.console.script import split

    parts = split(script, dialect)
    statements = [s.text for s in (*parts.statements, *([parts.rest] if parts.rest else []))]
    if statements and statements[-1].lstrip("( \n\t")[:6].upper().startswith(("SELECT", "WITH", "VALUES")):
        statements[-1] = f"CREATE MATERIALIZED VIEW query AS {statements[-1]}"
    return ";\n".join(statements)


def _explain(db: Database, views: Sequence[str], form: str) -> None:
    import json

    if not views:
        raise EverfreshError(
            Code.NOT_FOUND, "there is no view to explain", hint="end the script with a query or a view"
        )
    explained = {name: db.view(name).explain(format=form) for name in views}
    if form == "text":
        click.echo("\n\n".join(str(text) for text in explained.values()))
        return
    plain = {
        name: json.loads(value) if isinstance(value, str) else value for name, value in explained.items()
    }
    click.echo(json.dumps(plain[views[0]] if len(views) == 1 else plain, indent=2, ensure_ascii=False))


# -- bench and demo --------------------------------------------------------------------------------


@cli.command()
@click.option("--list", "listing", is_flag=True, help="List the benchmarks.")
@click.option("--quick", is_flag=True, help="A smaller run, in seconds.")
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the report.",
)
@click.option(
    "--sf", type=click.FloatRange(min=0, min_open=True), help="Scale factor of the data, where there is one."
)
@click.option(
    "--set", "given", multiple=True, metavar="NAME=VALUE", help="An option of the benchmark; may be repeated."
)
@click.argument("name", required=False)
def bench(
    listing: bool,
    quick: bool,
    json_file: Path | None,
    sf: float | None,
    given: tuple[str, ...],
    name: str | None,
) -> None:
    """Run the benchmark NAME: what it measures, and whether that is enough."""
    from everfresh import bench as benchmarks
    from everfresh.console import Display
    from everfresh.console.report import print_report

    display = Display()
    if listing:
        display.table(
            "", ["name", "what it measures"], [(one.NAME, one.DESCRIPTION) for one in benchmarks.all_()]
        )
        return
    if name is None:
        raise click.UsageError("which benchmark? `everfresh bench --list` lists them")
    benchmark = benchmarks.load(name)
    if json_file is not None:
        json_file.parent.mkdir(parents=True, exist_ok=True)
    notes = Display(stderr=True)
    settings = benchmarks.Settings(
        quick=quick,
        sf=sf,
        json=json_file,
        options=benchmarks.options(benchmark, given),
        note=lambda text: notes.line(text, style="dim"),
    )
    report = benchmark.run(settings)
    print_report(display, report)
    if json_file is not None:
        json_file.write_text(report.to_json(), encoding="utf-8")
    if not report.holds:
        click.get_current_context().exit(BELOW_BAR)


@cli.command()
@click.option(
    "--sf",
    type=click.FloatRange(min=0, min_open=True),
    default=0.01,
    show_default=True,
    help="TPC-H scale factor.",
)
@click.option("--engine", type=click.Choice(["spark", "local"]), default="spark", show_default=True)
@click.option("--batches", type=click.IntRange(min=1), help="In how many batches the data arrive.")
def demo(sf: float, engine: str, batches: int | None) -> None:
    """Watch views stay fresh while orders stream in, and check them at the end."""
    from everfresh import demo as demonstration
    from everfresh.console import Display

    chosen = {} if batches is None else {"batches": batches}
    click.get_current_context().exit(demonstration.run(sf=sf, engine=engine, display=Display(), **chosen))


cli.add_command(kv)


# -- the one error handler -------------------------------------------------------------------------


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    try:
        result = cli.main(
            args=None if args is None else list(args), prog_name="everfresh", standalone_mode=False
        )
        sys.stdout.flush()
    except EverfreshError as error:
        click.echo(f"error: {error}", err=True)
        return FAILED
    except click.exceptions.Abort:
        click.echo("interrupted", err=True)
        return INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader has left: end quietly
        return FAILED
    except Exception:
        import traceback

        click.echo(traceback.format_exc(), err=True, nl=False)
        click.echo(
            "This is a bug in everfresh: please report it with the lines above and `everfresh --version`.",
            err=True,
        )
        return BUG
    return result if isinstance(result, int) else 0
