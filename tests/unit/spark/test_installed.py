"""Which Spark is installed, and whether versions of it are mixed; found without importing it."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from interlock.spark import installed
from interlock.spark.pipeline import PipelineError, packages


class Site:
    """A folder of installed packages, the only one that is searched."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pyspark = folder / "pyspark"

    def install(self, name: str, version: str, *, top_level: bool = True) -> None:
        """What pip leaves of a distribution that installs the folder `pyspark`."""
        self.pyspark.mkdir(exist_ok=True)
        (self.pyspark / "__init__.py").touch()
        info = self.folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (info / "RECORD").write_text("pyspark/__init__.py,,\n")
        if top_level:
            (info / "top_level.txt").write_text("pyspark\n")

    def code(self, version: str) -> None:
        (self.pyspark / "version.py").write_text(f'# licence\n__version__: str = "{version}"\n')

    def jars(self, spark: str, scala: str = "2.13", home: Path | None = None) -> None:
        folder = (home or self.pyspark) / "jars"
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("spark-core", "spark-sql"):
            (folder / f"{name}_{scala}-{spark}.jar").touch()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    for module in [name for name in sys.modules if name.split(".")[0] == "pyspark"]:
        monkeypatch.delitem(sys.modules, module)  # find_spec takes what is imported already
    monkeypatch.setattr(sys, "path", [str(folder)])
    monkeypatch.delenv("SPARK_HOME", raising=False)
    return Site(folder)


def test_this_environment_has_one_version_of_pyspark() -> None:
    assert installed.conflict() is None


@pytest.mark.parametrize("top_level", [True, False], ids=["top-level", "record"])
def test_two_distributions_of_different_versions_in_one_folder_are_a_conflict(
    site: Site, top_level: bool
) -> None:
    """What an unpinned resolver made of pyspark and the client that Airflow's Spark provider requires."""
    site.install("pyspark", "4.3.0", top_level=top_level)
    site.jars("4.3.0")
    site.install("pyspark-client", "4.2.0", top_level=top_level)
    site.code("4.2.0")
    found = installed.conflict()
    assert found is not None
    assert "pyspark 4.3.0, pyspark-client 4.2.0, code of 4.2.0, jars of 4.3.0" in found
    assert "pip uninstall -y pyspark pyspark-client && pip install 'airflow-interlock[spark]'" in found


@pytest.mark.parametrize(
    ("distributions", "code", "jars", "conflict"),
    [
        ([("pyspark", "4.0.0"), ("pyspark-client", "4.0.0")], "4.0.0", "4.0.0", ""),
        ([("pyspark", "4.1.3")], "4.1.3", "4.1.3", ""),
        ([("pyspark-client", "4.2.0")], "4.2.0", None, ""),
        ([], "4.2.0", "4.2.0", ""),  # a folder of SPARK_HOME on PYTHONPATH
        ([("databricks-connect", "17.1.0")], "4.0.0", None, ""),  # version numbers of its own
        ([("pyspark", "4.0.0"), ("databricks-connect", "17.1.0")], "4.0.0", "4.0.0", "databricks-connect"),
        ([("pyspark", "4.0.0"), ("pyspark", "4.1.3")], "4.1.3", "4.1.3", "pyspark 4.0.0, pyspark 4.1.3"),
        ([("pyspark", "4.0.0"), ("pyspark-client", "4.0.0")], "4.2.0", "4.0.0", "code of 4.2.0"),
        ([("pyspark-client", "4.2.0")], "4.2.0", "4.0.0", "jars of 4.0.0"),  # what uninstalling left behind
    ],
)
def test_only_different_versions_are_a_conflict(
    site: Site, distributions: list[tuple[str, str]], code: str, jars: str | None, conflict: str
) -> None:
    for name, number in distributions or [("other", "1")]:
        site.install(name, number)
    if not distributions:
        (site.folder / "other-1.dist-info" / "top_level.txt").write_text("other\n")
    site.code(code)
    if jars is not None:
        site.jars(jars)
    found = installed.conflict()
    assert (found is None) == (not conflict)
    assert conflict in (found or "")


def test_a_version_in_another_folder_is_no_conflict(site: Site, tmp_path: Path) -> None:
    site.install("pyspark", "4.0.0")
    other = Site(tmp_path / "user site")
    other.folder.mkdir()
    other.install("pyspark", "4.2.0")
    sys.path.append(str(other.folder))
    assert installed.conflict() is None


def test_without_pyspark_there_is_no_conflict(site: Site) -> None:
    assert installed.conflict() is None


def test_the_connector_has_the_version_of_the_jars_whatever_the_distributions_say(site: Site) -> None:
    site.install("pyspark", "4.3.0")
    site.install("pyspark-client", "4.2.0")
    site.code("4.2.0")
    site.jars("4.3.0")
    assert packages() == "org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0"


def test_the_connector_has_the_version_of_spark_home_if_that_is_set(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.install("pyspark", "4.0.0")
    site.jars("4.0.0")
    site.jars("4.1.2", home=tmp_path / "spark")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    assert packages() == "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.2"


@pytest.mark.parametrize("client", [True, False])
def test_without_a_spark_the_connector_is_an_error_that_says_what_to_do(site: Site, client: bool) -> None:
    if client:
        site.install("pyspark-client", "4.2.0")
        site.code("4.2.0")
    with pytest.raises(PipelineError, match=r"no Spark is installed here.*\[spark\].*packages\("):
        packages()
    assert packages("4.2.0") == "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"


@pytest.mark.parametrize("version", ["", "four", "3.5.1", "4", "4.0", "4.0.0,evil:jar:1", 4, None.__class__])
def test_a_version_that_no_spark_4_has_is_refused(version: object) -> None:
    with pytest.raises(PipelineError, match="give a version of Spark 4"):
        packages(version)  # type: ignore[arg-type]


def test_the_version_of_this_environment_is_found_without_importing_pyspark() -> None:
    code = (
        "import sys; from interlock.spark.installed import conflict; "
        "from interlock.spark.pipeline import packages; "
        "print(packages(), conflict(), 'pyspark' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == [
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version('pyspark')}", "None", "False"
    ]  # fmt: skip


def test_the_command_prints_the_connector_that_the_docs_pass_to_spark_submit() -> None:
    command = [sys.executable, "-m", "interlock.spark.pipeline", "packages"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout == f"{packages()}\n"
