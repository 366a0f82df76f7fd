"""The daemon that forks Python workers: PySpark's, silent when a session ends while they are idle.

Run by Spark (`python -m`, setting `spark.python.daemon.module`) in sessions that everfresh starts. PySpark's
own prints the traceback of a broken pipe for each worker whose connection the JVM has closed before the
worker's last words.
"""

from __future__ import annotations

import socket

from pyspark import daemon

_GONE = 1
_serve = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Serve one task; a JVM that has gone is the end of the worker, not an error."""
    try:
        return int(_serve(sock, authenticated))
    except (BrokenPipeError, ConnectionResetError):
        return _GONE


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
