"""What pip's own resolver makes of the wheel today, without our pins: core, each extra, all together.

Each install takes a minute or more, so they run in `make test-marked-long`. The short part is in
tests/unit/packaging: what the core requires, and that it imports without Spark.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import uv
from interlock.plugin.broker.jars import KAFKA_VERSION

from tests.long import SUPPORTED

ROOT = Path(__file__).parents[3]
OWN = f"python3.{sys.version_info.minor}"
ALL = "dev,report,spark"

# pip lets two distributions install the same file with different contents, and `pip check` accepts it.
TORN = """
from importlib.metadata import distributions
owners = {}
for distribution in distributions():
    for file in distribution.files or ():
        if not any(part.endswith(".dist-info") or part == "__pycache__" for part in file.parts):
            found = owners.setdefault(str(distribution.locate_file(file)), {})
            found[distribution.name] = file.hash and file.hash.value
print([(path, sorted(each)) for path, each in owners.items() if len(set(each.values())) > 1])
"""
APPLY = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
rows = spark.createDataFrame([("a", 1), ("a", 2), ("b", 5)], "key string, n long")
sums = rows.groupBy("key").applyInPandas(lambda t: t.groupby("key", as_index=False)["n"].sum(), rows.schema)
print(sorted(tuple(row) for row in sums.collect()), spark.version)
"""
BROKER = """
import sys
from interlock.plugin.broker import LocalBroker

with LocalBroker(sys.argv[1], report=print) as broker:
    print("up", broker.pid is not None)
"""


@dataclass(frozen=True)
class Installed:
    """An environment into which pip has installed the wheel with these extras.

    size_mb: what `du -sm` says of its site-packages, as the README states it.
    """

    folder: Path
    size_mb: float

    def python(self, *arguments: str, **environment: str) -> str:
        ran = subprocess.run(
            [self.folder / "bin" / "python", *arguments],
            cwd=self.folder, capture_output=True, text=True,
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder), **environment},
        )  # fmt: skip
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    def run(self, code: str, *arguments: str, **environment: str) -> str:
        return self.python("-c", code, *arguments, **environment)

    def version(self, name: str) -> str:
        return self.run(f"from importlib.metadata import version; print(version({name!r}))").strip()


def megabytes(folder: Path) -> float:
    [packages] = folder.glob("lib/python3.*/site-packages")
    return float(subprocess.check_output(["du", "-sm", packages], text=True).split()[0])


def install(python: str, extras: str, built: Path, folder: Path) -> Installed:
    """As a user does, with no constraints; pip's own settings (index, certificates) are the machine's."""
    subprocess.run([python, "-m", "venv", folder], check=True)
    [wheel] = built.glob("*.whl")
    wanted = f"{wheel}[{extras}]" if extras else str(wheel)
    command = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", wanted]
    environment = {name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return Installed(folder, megabytes(folder))


def assert_whole(installed: Installed) -> None:
    """Nothing is missing, nothing overwritten, and Airflow loads the plugin and its commands."""
    assert "No broken requirements" in installed.python("-m", "pip", "check")
    assert installed.run(TORN).strip() == "[]"
    home = {"AIRFLOW_HOME": str(installed.folder / "airflow")}
    assert "interlock" in installed.python("-m", "airflow", "plugins", **home)
    assert "doctor" in installed.python("-m", "airflow", "interlock", "--help", **home)


def assert_spark_runs(installed: Installed) -> None:
    version = installed.version("pyspark")
    assert installed.version("pyspark-client") == version
    python = str(installed.folder / "bin" / "python")
    ran = installed.run(APPLY, PYSPARK_PYTHON=python, SPARK_LOCAL_IP="127.0.0.1", **java())
    assert ran.splitlines()[-1] == f"[('a', 3), ('b', 5)] {version}"
    connector = installed.python("-m", "interlock.spark.pipeline", "packages")
    assert connector.strip() == f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version}"
    assert (
        installed.run("from interlock.spark.installed import conflict; print(conflict())").strip() == "None"
    )
    assert installed.run("from interlock.operators import SparkSubmitEventOperator") == ""


def java() -> dict[str, str]:
    return {name: os.environ[name] for name in ("JAVA_HOME", "JAVA_TOOL_OPTIONS") if name in os.environ}


def stated_mb(extras: str) -> float:
    """The size that the README states for an install."""
    name = re.escape(f"airflow-interlock[{extras}]" if extras else "airflow-interlock")
    row = re.search(rf"^\| `{name}` \|.*\| ([\d,]+) MB \|$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert row is not None
    return float(row[1].replace(",", ""))


def interpreters() -> list[str]:
    """The other supported Pythons on PATH that run: version managers leave commands that do not."""
    names = [f"python3.{minor}" for minor in SUPPORTED if minor != sys.version_info.minor]
    return [
        name
        for name in names
        if shutil.which(name) and subprocess.run([name, "-c", ""], capture_output=True).returncode == 0
    ]


@pytest.mark.long
def test_the_core_installs_without_spark_and_runs_waits_commands_and_a_broker(
    built: Path, tmp_path: Path
) -> None:
    """450 MB of PySpark for a sensor is what people would refuse (a fresh install by pip)."""
    installed = install(sys.executable, "", built, tmp_path / "core")
    assert_whole(installed)
    present = installed.python("-m", "pip", "list")
    spark = r"^(?:py4j|pyspark\S*|pyarrow|pandas|\S*providers-apache-spark) "
    assert re.findall(spark, present, re.MULTILINE) == []
    assert installed.run("import interlock.operators, interlock.triggers, interlock.testing") == ""
    assert installed.size_mb == pytest.approx(stated_mb(""), rel=0.1)
    # The cache is empty, so the broker's jars are fetched.
    proxies = {
        name: value for name, value in os.environ.items() if name.lower().endswith(("_proxy", "_file"))
    }
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    ran = installed.run(BROKER, str(tmp_path / "broker"), **cache, **proxies, **java())
    assert f"Fetching Apache Kafka {KAFKA_VERSION}" in ran
    assert ran.splitlines()[-1] == "up True"


@pytest.mark.long
@pytest.mark.parametrize("extras", ["spark", "report"])
def test_each_extra_alone_runs_spark_in_one_version(extras: str, built: Path, tmp_path: Path) -> None:
    """pip brought pyspark 4.3.0 and pyspark-client 4.2.0 into one folder, and applyInPandas died."""
    installed = install(sys.executable, extras, built, tmp_path / extras)
    assert_whole(installed)
    assert_spark_runs(installed)
    if extras == "report":
        check = "from interlock.spark.pipeline.report.page import check_can_draw; check_can_draw()"
        assert installed.run(check) == ""
    assert installed.size_mb == pytest.approx(stated_mb(extras), rel=0.1)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "python" in metafunc.fixturenames:  # starting Pythons takes a second: only if the tests will run
        others = [] if metafunc.config.option.markexpr == "not long" else interpreters()
        metafunc.parametrize("python", [OWN, *others])


@pytest.mark.long
def test_all_extras_together_fit_on_each_supported_python_here(
    python: str, built: Path, tmp_path: Path
) -> None:
    installed = install(sys.executable if python == OWN else python, ALL, built, tmp_path / python)
    assert_whole(installed)
    assert_spark_runs(installed)


@pytest.mark.long
@pytest.mark.parametrize("minor", SUPPORTED)
def test_what_is_resolved_for_each_supported_python_has_one_version_of_pyspark(
    minor: int, built: Path, tmp_path: Path
) -> None:
    """Also for a Python that is not installed here; everything but PySpark must have wheels for it."""
    [wheel] = built.glob("*.whl")
    wanted = tmp_path / "wanted.in"
    wanted.write_text(f"airflow-interlock[{ALL}] @ {wheel.as_uri()}\n")
    command = [
        uv.find_uv_bin(), "--system-certs", "--no-python-downloads", "pip", "compile", "--quiet",
        "--no-header", "--python-version", f"3.{minor}", "--only-binary", ":all:", "--no-binary", "pyspark",
        "--no-binary", "pyspark-client", str(wanted),
    ]  # fmt: skip
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    pins = dict(re.findall(r"^(pyspark(?:-client)?)==(\S+)", ran.stdout, re.MULTILINE))
    assert pins.keys() == {"pyspark", "pyspark-client"}
    assert pins["pyspark"] == pins["pyspark-client"]
