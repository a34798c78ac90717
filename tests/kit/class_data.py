"""An archive of the classes of a broker's JVM (JEP 350): with it a broker starts in two thirds of the time.

`python -m tests.kit.class_data` makes it in `.build`, once for each Java and class path, and prints
KAFKA_OPTS for brokers that use it. Only tests do: to make it takes as long as to start three brokers.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import signal
import sys
import tempfile
from pathlib import Path
from unittest import mock

from interlock.plugin.broker import LocalBroker
from interlock.plugin.broker.jars import class_path
from interlock.plugin.broker.java import find_java, version_of

from local.spark_conf import jvm_options

ROOT = Path(__file__).resolve().parents[2]
WRITTEN_WITHIN_S = 120.0
SILENT = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")


def archive() -> Path:
    """The path of the archive for this Java and these jars, whether it exists or not. Fetches the jars."""
    made_for = f"{version_of(find_java())} {class_path(_to_stderr)}"
    return ROOT / ".build" / f"broker-{hashlib.sha256(made_for.encode()).hexdigest()[:12]}.jsa"


def make(made: Path) -> None:
    """Makes the archive: a broker's JVM writes it when it ends."""
    made.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=made.parent) as folder:
        written = Path(folder) / "broker.jsa"
        node = LocalBroker(Path(folder) / "broker")
        node.start().stop()  # formats the directory: only the JVM started next shall write the archive
        with mock.patch.dict(
            os.environ, KAFKA_OPTS=shlex.join([f"-XX:ArchiveClassesAtExit={written}", *SILENT])
        ):
            node.start()
        assert node.pid is not None
        os.kill(node.pid, signal.SIGTERM)  # stop() would kill a node that writes for longer than 15 s
        ended = node.wait(WRITTEN_WITHIN_S)
        node.kill()
        if not ended:
            raise TimeoutError(
                f"The broker's archive of classes was not written within {WRITTEN_WITHIN_S} s."
            )
        written.rename(made)


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    os.environ["JDK_JAVA_OPTIONS"] = jvm_options()  # those of the tests: an archive belongs to one collector
    made = archive()
    if not made.exists():
        make(made)
    print(os.environ.get("KAFKA_OPTS", ""), shlex.join([f"-XX:SharedArchiveFile={made}", *SILENT]))


if __name__ == "__main__":
    main()
