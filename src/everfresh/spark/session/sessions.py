"""The Spark session: started with what everfresh needs, or given and left as it is.

Everfresh's jobs run on a session of their own (`newSession`) so that their runtime settings never touch the
user's. Static settings of a session that was given are not changed; `missing_settings` says which of them
would help. A session may be Spark Connect's: nothing here or in the engine asks more of one than Connect has.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everfresh.errors import Code, EverfreshError
from everfresh.progress import patience
from everfresh.spark.sql.evaluated import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATIC = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.reuse": "true",
    "spark.locality.wait": "0s",
}
RUNTIME = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.parser.escapedStringLiterals": "false",
}
_JAVA = 17
_UNTOLD = 16


def check_java() -> None:
    """Raise one clear sentence if there is no Java that Spark can run on."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    hint = "install Java 17 or newer (apt-get install openjdk-17-jre-headless, or brew install openjdk)"
    if java is None or not os.path.exists(java):
        raise EverfreshError(
            Code.ENVIRONMENT, "Spark needs Java, and there is none", hint=hint + ", or use engine='local'"
        )
    text = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = next((word.strip('"') for word in text.split() if word.startswith('"')), "")
    major = version.split(".")[1] if version.startswith("1.") else version.split(".")[0].split("-")[0]
    if major.isdigit() and int(major) < _JAVA:
        raise EverfreshError(
            Code.ENVIRONMENT, f"Spark needs Java {_JAVA} or newer, and {java} is {version}", hint=hint
        )


_users = 0
_ours: SparkSession | None = None


def acquire() -> SparkSession:
    """The active session, or one of our own, which lasts until the last database on it is closed."""
    global _users, _ours  # noqa: PLW0603 - a process has one Spark context
    from pyspark.sql import SparkSession

    _users += 1
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    try:
        _ours = start()
    except BaseException:
        _users -= 1
        raise
    return _ours


def release() -> None:
    """One database less on the session; the last one stops a session that everfresh started."""
    global _users, _ours  # noqa: PLW0603 - a process has one Spark context
    _users -= 1
    if _users == 0 and _ours is not None:
        _ours.stop()
        _ours = None


def start(master: str = "local[*,4]", more: Mapping[str, str] | None = None) -> SparkSession:
    """A session of our own, on all local cores unless told otherwise; `more` are settings beside ours."""
    from pyspark.sql import SparkSession

    check_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder: Any = SparkSession.builder.master(master).appName("everfresh")
    logging = Path(__file__).with_name("log4j2.properties")
    settings = {
        "spark.python.daemon.module": "everfresh.spark.session.daemon",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{logging}",
        **STATIC,
        **(more or {}),
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    with patience("starting Spark"):
        session: SparkSession = builder.getOrCreate()
    return session


def own(session: SparkSession) -> SparkSession:
    """A session of our own on the same cluster, with the settings of everfresh's jobs; `disown` ends it."""
    ours = session.newSession()
    if is_connect(ours):
        # Python cannot end while the connection of a session is open.
        weakref.finalize(ours, _close, ours.client)
    for name, value in RUNTIME.items():
        if ours.conf.get(name) != value:  # to set one that is deprecated makes Connect warn
            ours.conf.set(name, value)
    register(ours)
    return ours


def disown(ours: SparkSession) -> None:
    """Let go of a session of our own. `stop` is not the way: it stops the Spark context, or a Connect server
    in this process, and with it the user's session."""
    if is_connect(ours):
        _close(ours.client)


def _close(client: Any) -> None:
    if not client.is_closed:
        with suppress(Exception):
            client.set_retry_policies([])  # a server that is gone would be asked for ten minutes
            client.release_session()
        client.close()


def is_connect(value: Any) -> bool:
    """Whether a session or a DataFrame is Spark Connect's."""
    return type(value).__module__.startswith("pyspark.sql.connect")


def parallelism(session: SparkSession) -> int:
    """The tasks that a session runs at a time, about; a client of Connect is not told, and gets a guess."""
    return _UNTOLD if is_connect(session) else int(session.sparkContext.defaultParallelism)


def missing_settings(session: SparkSession) -> dict[str, str]:
    """Static settings that a given session lacks, and what they should be."""
    # A client of Connect does not see what its server was started with.
    if is_connect(session):
        return {}
    return {name: value for name, value in STATIC.items() if session.conf.get(name, "") != value}
