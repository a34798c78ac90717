"""Archives of a JVM's classes (JEP 350): a broker or a Spark driver starts in two thirds of the time.

`python -m tests.kit.class_data broker` or `spark` makes the archive in `.build`, once for each Java, garbage
collector and class path, and prints the options with which a JVM uses it: KAFKA_OPTS of brokers,
SPARK_SUBMIT_OPTS of Spark's drivers. Only tests use archives: making one takes as long as two or three
starts. Spark's also fetches the connector, before several drivers of tests need it at the same time.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pyspark
from interlock.plugin.broker import LocalBroker
from interlock.plugin.broker.jars import class_path
from interlock.plugin.broker.java import find_java, version_of
from interlock.spark.pipeline import packages

from local import spark_conf
from tests.kit.sessions import EXCLUDED

ROOT = Path(__file__).resolve().parents[2]
WRITTEN_WITHIN_S = 120.0
SILENT = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
# The archive of a job that reads and joins takes a third longer to make, and no job starts faster with it.
JOB = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.range(9).count()
spark.stop()
"""


def broker_options() -> list[str]:
    """The options of a broker's JVM. Fetches the jars, and makes the archive if it is missing."""
    return _options("broker", class_path(_to_stderr), _write_for_a_broker)


def spark_options() -> list[str]:
    """The options of a Spark driver's JVM. Makes the archive if it is missing."""
    jars = sorted(path.name for path in (Path(pyspark.__file__).parent / "jars").iterdir())
    return _options("spark", f"{pyspark.__file__} {jars}", _write_for_spark)


def _options(name: str, made_for: str, write: Callable[[Path, Path], None]) -> list[str]:
    # A JVM without compressed pointers, as with ZGC, silently ignores an archive of one with them.
    made_for = f"{version_of(find_java())} {spark_conf.collectors()} {made_for}"
    archive = ROOT / ".build" / f"{name}-{hashlib.sha256(made_for.encode()).hexdigest()[:12]}.jsa"
    if not archive.exists():
        archive.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
            written = Path(folder) / "new.jsa"
            write(Path(folder), written)
            written.rename(archive)
    return [f"-XX:SharedArchiveFile={archive}", *SILENT]


def _at_exit(written: Path) -> str:
    """The options with which a JVM writes an archive when it ends."""
    return shlex.join([f"-XX:ArchiveClassesAtExit={written}", *SILENT])


def _write_for_a_broker(folder: Path, written: Path) -> None:
    node = LocalBroker(folder / "broker")
    node.start().stop()  # formats the directory: only the JVM started next shall write the archive
    with mock.patch.dict(os.environ, KAFKA_OPTS=_at_exit(written)):
        node.start()
    assert node.pid is not None
    os.kill(node.pid, signal.SIGTERM)  # stop() would kill a node that writes for longer than 15 s
    ended = node.wait(WRITTEN_WITHIN_S)
    node.kill()
    if not ended:
        raise TimeoutError(f"The broker's archive of classes was not written within {WRITTEN_WITHIN_S} s.")


def _write_for_spark(folder: Path, written: Path) -> None:
    (folder / "job.py").write_text(JOB)
    environment = spark_conf.write(folder / "spark")
    options = f"{_at_exit(written)} {environment['SPARK_SUBMIT_OPTS']}"
    # Ivy locks nothing: two drivers that fetch the connector at the same time damage its cache for good.
    connector = ["--packages", packages(), "--exclude-packages", EXCLUDED]
    subprocess.run(
        [Path(sys.executable).parent / "spark-submit", "--master", "local[1]", *connector, folder / "job.py"],
        env={**os.environ, **environment, "SPARK_SUBMIT_OPTS": options, "PYSPARK_PYTHON": sys.executable},
        cwd=folder,
        check=True,
        stdout=sys.stderr,
    )


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    # As in the tests: an archive may be of no use to a JVM with another garbage collector.
    os.environ["JDK_JAVA_OPTIONS"] = spark_conf.jvm_options()
    name, options = {
        "broker": ("KAFKA_OPTS", broker_options),
        "spark": ("SPARK_SUBMIT_OPTS", spark_options),
    }[sys.argv[1]]
    print(os.environ.get(name, ""), shlex.join(options()))


if __name__ == "__main__":
    main()
