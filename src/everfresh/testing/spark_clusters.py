"""Spark processes on this machine, for tests and benchmarks: a standalone cluster, a Connect server.

They are Java classes of the installed PySpark. Spark picks a port for each and its log names it, so that
nobody can take it before. They end with the block that started them, or with the process that did: a guard
beside each reads from a pipe of ours, and ends it when the pipe closes.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from everfresh.errors import Code, EverfreshError

_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
# `exec` keeps the process id, so that the process which was started is Java's.
_GUARDED = 'exec 3<&0; { read -r _ <&3; kill -9 $$; } 2>/dev/null & exec "$@" </dev/null 3<&-'
_PATIENCE = 120.0
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a JVM that lives for minutes: half the processor time until it is ready."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A standalone cluster: where its master listens, and the processes of its workers."""

    url: str
    workers: tuple[subprocess.Popen[bytes], ...]


def spark_home() -> Path:
    """The folder of the installed PySpark."""
    import pyspark

    return Path(pyspark.__file__).parent


@contextmanager
def standalone(
    folder: Path, hosts: Sequence[str] = ("127.0.0.1", "127.0.0.2"), cores: int = 1, memory: str = "1g"
) -> Iterator[Cluster]:
    """A master and one worker per host; `folder` gets their logs and the executors' files.

    Spark runs a second copy of a slow task on another host only: loopback addresses are hosts of their own.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        log = folder / "master.log"
        command = [_MASTER, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        master = stack.enter_context(_running(command, log))
        url = _said(master, log, r"Starting Spark master at (spark://\S+)")
        workers = []
        for number, host in enumerate(hosts):
            command = [_WORKER, "--host", host, "--port", "0", "--webui-port", "0", "--cores", str(cores)]
            command += ["--memory", memory, "--work-dir", str(folder / f"worker-{number}"), url]
            workers.append(stack.enter_context(_running(command, folder / f"worker-{number}.log")))
        for number, worker in enumerate(workers):
            _said(worker, folder / f"worker-{number}.log", r"Successfully registered with master ()")
        yield Cluster(url, tuple(workers))


@contextmanager
def connect_server(
    folder: Path, master: str = "local[2,4]", settings: Mapping[str, str] | None = None
) -> Iterator[str]:
    """A Connect server on `master`, as the address that clients take."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "server.log"
    known = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        **(settings or {}),
        "spark.log.level": "INFO",  # its address is a line of the log
    }
    command = ["org.apache.spark.deploy.SparkSubmit", "--class", _SERVER, "--master", master]
    for name, value in known.items():
        command += ["--conf", f"{name}={value}"]
    with _running([*command, "spark-internal"], log) as server:
        yield "sc://" + _said(server, log, r"Spark Connect server started at: \S*?([\d.]+:\d+)")


@contextmanager
def _running(command: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A Java class of Spark at work, in a session of its own: Ctrl-C is ours to answer."""
    home = spark_home()
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_DAEMON_JAVA_OPTS": QUICK_JAVA,
    }
    for name in (
        "PYSPARK_GATEWAY_PORT",
        "PYSPARK_GATEWAY_SECRET",
        "SPARK_REMOTE",
        "SPARK_CONNECT_MODE_ENABLED",
    ):
        environment.pop(name, None)
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["sh", "-c", _GUARDED, "sh", str(home / "bin" / "spark-class"), *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=log.parent,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(3)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdin is not None
        process.stdin.close()


def _said(process: subprocess.Popen[bytes], log: Path, pattern: str) -> str:
    """What a process said of itself once it was ready."""
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until and process.poll() is None:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found:
            return found[1]
        time.sleep(0.1)
    lines = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
    raise EverfreshError(Code.ENVIRONMENT, f"a process of Spark did not start: {log} ends with\n{lines}")
