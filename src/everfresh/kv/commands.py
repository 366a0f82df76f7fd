"""The command `everfresh kv`: serve a store with its views, and talk to one that is served.

"Processes" in docs/design/key-value.md. Everything heavy is imported by the command that needs it.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any, Literal

import click

_socket = click.option(
    "--socket",
    "path",
    required=True,
    metavar="PATH",
    type=click.Path(dir_okay=False),
    help="The socket at which the store is served.",
)


@click.group()
def kv() -> None:
    """Views over a key-value store: serve it, and ask how it is."""


@kv.command()
@click.argument("where", metavar="STORE")
@click.option(
    "--socket",
    "path",
    metavar="PATH",
    type=click.Path(dir_okay=False),
    help="Where to listen (socket, in the folder of the store).",
)
@click.option("--managers", default=1, show_default=True, help="Processes that maintain views.")
@click.option("--partitions", default=1, show_default=True, help="Partitions of a store that is made.")
@click.option(
    "--log-entries",
    default=0,
    show_default=True,
    help="How many entries a view may leave unseen; 0: any number.",
)
@click.option(
    "--log-policy",
    type=click.Choice(["slow", "detach"]),
    default="slow",
    show_default=True,
    help="What becomes of more: writers are slowed, or the view is made anew and its log let go.",
)
@click.option(
    "--engine",
    type=click.Choice(["local", "spark"]),
    default="local",
    show_default=True,
    help="What runs the views' programs: each manager by itself, or as the driver of a Spark session.",
)
@click.option("--sync", is_flag=True, help="Every write is on disk when it is acknowledged.")
def serve(
    *, where: str, path: str | None, managers: int, partitions: int, log_entries: int,
    log_policy: Literal["slow", "detach"], engine: str, sync: bool,
) -> None:  # fmt: skip
    """Keep the views of STORE fresh and answer at a socket, until interrupted or terminated. STORE is a
    folder with RocksDB, which this process owns, redis://HOST:PORT,.../NAME or etcd://HOST:PORT,.../NAME."""
    from everfresh.kv.process.supervisor import Supervisor

    if not path and "://" in where:
        raise click.UsageError("say by --socket where to listen")
    place = Path(path) if path else Path(where) / "socket"
    run = Supervisor(
        where, place, managers=managers, partitions=partitions, log_entries=log_entries,
        policy=log_policy, sync=sync, engine=engine,
    )  # fmt: skip
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: run.stop())

    def ready(pids: list[int]) -> None:
        click.echo(json.dumps({"socket": str(place), "managers": pids, "master": run.server.master}))

    run.run(ready)


def _views(path: str) -> Any:
    """The views of a served store, maintained by others."""
    from everfresh.kv.process.remote import RemoteStore
    from everfresh.kv.views import Views

    return Views(RemoteStore(path), only=lambda group: False)


@kv.command()
@_socket
def status(*, path: str) -> None:
    """Show views with how far behind they are, logs, and counts of calls, as JSON."""
    from everfresh.kv.process.remote import RemoteStore

    click.echo(json.dumps(RemoteStore(path).ask("status"), indent=2))


@kv.command("add-table")
@_socket
@click.argument("text")
def add_table(*, path: str, text: str) -> None:
    """Make base tables by the CREATE TABLE statements in TEXT."""
    _views(path).create_table(text)


@kv.command("add-view")
@_socket
@click.option("--key", multiple=True, metavar="COLUMN", help="A column of the key; may be repeated.")
@click.option("--strategy", default="SCI", show_default=True, help="How it is made and kept.")
@click.option("--batch", default=0, show_default=True, help="Entries of a log an epoch takes; 0: all.")
@click.option("--parallel", is_flag=True, help="Follow the log while the base is read.")
@click.argument("text")
def add_view(
    *, path: str, key: tuple[str, ...], strategy: str, batch: int, parallel: bool, text: str
) -> None:
    """Make a view by the CREATE MATERIALIZED VIEW statement in TEXT."""
    _views(path).create_view(text, key=key, strategy=strategy, batch=batch, parallel=parallel)


@kv.command("drop-view")
@_socket
@click.argument("name")
def drop_view(*, path: str, name: str) -> None:
    """Remove the view NAME and its rows."""
    _views(path).drop_view(name)


@kv.command()
@_socket
@click.argument("name")
def verify(*, path: str, name: str) -> None:
    """Compare the view NAME with its recomputation; writers must be quiet."""
    from everfresh.errors import Code, EverfreshError

    found = _views(path).verify(name)
    if found.num_rows:
        click.echo(str(found.to_pandas()))
        raise EverfreshError(
            Code.DAMAGED,
            f"view '{name}' differs in {found.num_rows} rows",
            hint="if somebody wrote meanwhile or it is behind, ask again; otherwise drop it and make it anew",
        )
    click.echo(f"view '{name}' is right")
