"""Clusters of Redis and etcd for tests: started on loopback with ports and folders of their own, always
ended.

The servers are those of the system's packages (Debian: redis-server, etcd-server). Where they are not
installed `missing` says so, for a test to skip. Invariant: when a cluster is closed no process that it
started is alive, and its folder is gone.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

WAIT = 60.0


def missing(kind: str) -> str:
    """Why the servers of a kind ("redis", "etcd") cannot be started; empty if they can."""
    program, package = {"redis": ("redis-server", "redis-server"), "etcd": ("etcd", "etcd-server")}[kind]
    if shutil.which(program) is None:
        return f"{program} is not installed (Debian: apt-get install {package})"
    if kind == "redis" and find_spec("redis") is None:
        return "the package redis is not installed (pip install 'everfresh[redis]')"
    return ""


def free_ports(count: int, also: int = 0) -> list[int]:
    """Ports of loopback that nobody listens at, each with the one `also` above it free too."""
    found: list[int] = []
    with contextlib.ExitStack() as held:
        while len(found) < count:
            try:
                one = held.enter_context(socket.socket())
                one.bind(("127.0.0.1", 0))
                port = one.getsockname()[1]
                if port + also > 65535:
                    continue
                if also:
                    held.enter_context(socket.socket()).bind(("127.0.0.1", port + also))
            except OSError:
                continue
            found.append(port)
    return found


def until(what: Callable[[], Any], why: str, seconds: float = WAIT) -> Any:
    """What a call gives when it gives something; errors of the system count as nothing."""
    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError, ValueError, KeyError):
            found = what()
            if found:
                return found
        if time.monotonic() > end:
            raise TimeoutError(why)
        time.sleep(0.05)


class Process:
    """A server that can be killed, stopped and started again."""

    def __init__(self, name: str, how: Sequence[str], folder: Path) -> None:
        self.name, self._how, self.folder = name, list(how), folder
        folder.mkdir(parents=True, exist_ok=True)
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start it, with the data that it had."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._how, cwd=self.folder, stdout=log, stderr=log)

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    def signal(self, number: int) -> None:
        """Send it a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


class Cluster:
    """Servers that belong together."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="everfresh-kv-"))
        self.nodes: list[Process] = []

    def close(self) -> None:
        """End all of them."""
        for node in self.nodes:
            with contextlib.suppress(ProcessLookupError):
                node.signal(signal.SIGCONT)
            node.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class EtcdCluster(Cluster):
    """Members of etcd."""

    def __init__(self, members: int = 3) -> None:
        super().__init__()
        ports = free_ports(2 * members)
        self.members = [f"127.0.0.1:{port}" for port in ports[:members]]
        peers = [f"http://127.0.0.1:{port}" for port in ports[members:]]
        cluster = ",".join(f"n{i}={peer}" for i, peer in enumerate(peers))
        try:
            for i, (member, peer) in enumerate(zip(self.members, peers, strict=True)):
                how = ["etcd", "--name", f"n{i}", "--data-dir", str(self.folder / f"n{i}" / "data")]
                how += [
                    "--listen-client-urls",
                    f"http://{member}",
                    "--advertise-client-urls",
                    f"http://{member}",
                ]
                how += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
                how += ["--initial-cluster", cluster, "--initial-cluster-token", self.folder.name]
                how += ["--heartbeat-interval", "100", "--election-timeout", "1000", "--log-level", "error"]
                self.nodes.append(Process(f"n{i}", how, self.folder / f"n{i}"))
            until(self.leader, "etcd has no leader")
        except BaseException:
            self.close()
            raise

    def leader(self) -> Process | None:
        """The member that leads, as the members say that are alive."""
        for node, member in zip(self.nodes, self.members, strict=True):
            if not node.alive:
                continue
            with contextlib.suppress(OSError):
                request = urllib.request.Request(f"http://{member}/v3/maintenance/status", data=b"{}")
                with urllib.request.urlopen(request, timeout=2) as answer:
                    said = json.load(answer)
                if said.get("leader") and said["leader"] == said["header"]["member_id"]:
                    return node
        return None


class RedisCluster(Cluster):
    """Three masters, each with a replica."""

    def __init__(self, fsync: str = "everysec") -> None:
        super().__init__()
        self.ports = free_ports(6, also=1)
        try:
            for port in self.ports:
                folder = self.folder / str(port)
                how = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)]
                how += ["--cluster-enabled", "yes", "--cluster-node-timeout", "1500", "--save", ""]
                how += ["--cluster-port", str(port + 1), "--cluster-replica-validity-factor", "0"]
                how += ["--appendonly", "yes", "--appendfsync", fsync, "--repl-diskless-sync-delay", "0"]
                how += ["--cluster-allow-replica-migration", "no", "--repl-ping-replica-period", "1"]
                self.nodes.append(Process(str(port), how, folder))
            self._meet()
        except BaseException:
            self.close()
            raise

    @property
    def addresses(self) -> list[str]:
        """Where the nodes are."""
        return [f"127.0.0.1:{port}" for port in self.ports]

    def ask(self, port: int, *command: Any) -> Any:
        """A command at one node."""
        import redis

        with redis.Redis(port=port, socket_timeout=5) as node:
            try:
                return node.execute_command(*command)
            except redis.RedisError as error:
                raise OSError(str(error)) from error

    def _meet(self) -> None:
        masters, replicas = self.ports[:3], self.ports[3:]
        for port in self.ports:
            until(partial(self.ask, port, "PING"), f"redis does not answer at {port}")
        bounds = [0, 5461, 10923, 16384]
        for i, port in enumerate(masters):
            self.ask(port, "CLUSTER", "ADDSLOTSRANGE", bounds[i], bounds[i + 1] - 1)
            self.ask(port, "CLUSTER", "SET-CONFIG-EPOCH", i + 1)
        for port in self.ports[1:]:
            self.ask(port, "CLUSTER", "MEET", "127.0.0.1", self.ports[0], self.ports[0] + 1)
        for master, replica in zip(masters, replicas, strict=True):
            id_ = self.ask(master, "CLUSTER", "MYID").decode()
            until(partial(self.ask, replica, "CLUSTER", "REPLICATE", id_), "no replica")
        for port in self.ports:
            until(partial(self._whole, port), f"the cluster is not whole at {port}")

    def _whole(self, port: int) -> bool:
        info = self.ask(port, "CLUSTER", "INFO")
        text = info.decode() if isinstance(info, bytes) else str(info)
        replication = self.replication(port)
        linked = replication["role"] == "master" or replication.get("master_link_status") == "up"
        return ("cluster_state:ok" in text or "'cluster_state': 'ok'" in text) and linked

    def replication(self, port: int) -> dict[str, Any]:
        """What a node says of its role."""
        found = self.ask(port, "INFO", "replication")
        return dict(found)

    def node(self, port: int) -> Process:
        """The server at a port."""
        return self.nodes[self.ports.index(port)]

    def is_master(self, port: int) -> bool:
        """Whether a node is one, by its own account."""
        return bool(self.replication(port)["role"] == "master")


@contextmanager
def etcd_cluster(members: int = 3) -> Iterator[EtcdCluster]:
    """Members of etcd, for as long as the block."""
    cluster = EtcdCluster(members)
    try:
        yield cluster
    finally:
        cluster.close()


@contextmanager
def redis_cluster(fsync: str = "everysec") -> Iterator[RedisCluster]:
    """A cluster of Redis, for as long as the block."""
    cluster = RedisCluster(fsync)
    try:
        yield cluster
    finally:
        cluster.close()


__all__ = ["EtcdCluster", "RedisCluster", "etcd_cluster", "free_ports", "missing", "redis_cluster", "until"]
