"""The core needs no PySpark: neither its requirements nor its code."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.long import SUPPORTED

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
SPARKS = {"pyspark", "pyspark-client", "py4j", "pyarrow", "pandas", "apache-airflow-providers-apache-spark"}
# Rooms that run only in a Spark driver or executor.
IN_SPARK = ("interlock.spark.completion", "interlock.spark.pipeline")


def brought(texts: list[str]) -> set[str]:
    """All that these requirements install, by the metadata of what is installed here."""
    found: set[tuple[str, frozenset[str]]] = set()
    left = [Requirement(text) for text in texts]
    while left:
        wanted = left.pop()
        key = (canonicalize_name(wanted.name), frozenset(wanted.extras))
        if key in found:
            continue
        found.add(key)
        if key[0] == "airflow-interlock":
            left += [Requirement(text) for extra in wanted.extras for text in EXTRAS[extra]]
            continue
        for text in distribution(wanted.name).requires or ():
            each = Requirement(text)
            if each.marker is None or any(
                each.marker.evaluate({"extra": extra}) for extra in ("", *wanted.extras)
            ):
                left.append(each)
    return {name for name, _ in found}


def test_the_core_brings_no_spark() -> None:
    """450 MB of PySpark for a sensor that waits for an event."""
    core = brought(PROJECT["project"]["dependencies"])
    assert {"apache-airflow-core", "confluent-kafka", "cloudevents"} <= core
    assert core & SPARKS == set()


def test_each_extra_that_runs_spark_brings_all_of_it() -> None:
    assert {extra for extra in EXTRAS if brought(EXTRAS[extra]) >= SPARKS} == {"dev", "report", "spark"}


def test_pyspark_and_its_client_are_required_alike_so_that_no_resolver_mixes_them() -> None:
    """A fresh install by pip got pyspark 4.3.0 and pyspark-client 4.2.0, which share a folder."""
    required = [Requirement(text) for text in EXTRAS["spark"] if text.startswith("pyspark")]
    found = {}
    for minor in SUPPORTED:
        python = {"python_version": f"3.{minor}"}
        here = [each for each in required if each.marker is None or each.marker.evaluate(python)]
        assert [each.name for each in here] == ["pyspark", "pyspark-client"]
        [found[minor]] = {str(each.specifier).removeprefix("==") for each in here}
    first, *_, last = found.values()
    stated = f"It installs PySpark {first} (on Python 3.{max(found)}: {last}), "
    assert stated in (ROOT / "docs/use/spark.md").read_text()


def test_no_page_names_a_version_of_the_kafka_connector() -> None:
    """It must be Spark's own, so pages get it from `packages` (a page said 4.0.0, the install was 4.3.0)."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "dags_examples").rglob("*.py")]
    named = [str(page.relative_to(ROOT)) for page in pages if re.search(r"sql-kafka\S*:\d", page.read_text())]
    assert named == []


def modules() -> list[str]:
    """The modules of all rooms but those that run in Spark."""
    found = []
    for package in PROJECT["tool"]["setuptools"]["packages"]:
        folder = ROOT / package.replace(".", "/").removeprefix("interlock").lstrip("/")
        found += [package if f.stem == "__init__" else f"{package}.{f.stem}" for f in folder.glob("*.py")]
    needs_spark = ("interlock.operators.spark_submit", "interlock.testing.fixtures")  # and pytest
    return sorted(
        name
        for name in found
        if not name.startswith(IN_SPARK) and name not in needs_spark and not name.endswith(".__main__")
    )


def test_everything_but_the_jobs_of_spark_imports_and_loads_into_airflow_without_spark() -> None:
    code = f"""
import importlib, sys
provider = "airflow.providers.apache.spark."  # its entry point is installed here, so Airflow looks it up
for name in ("pyspark", "py4j", "pyarrow", "pandas", provider + "hooks", provider + "operators"):
    sys.modules[name] = None  # importing it is an ImportError
for name in {modules()!r}:
    importlib.import_module(name)
from airflow import plugins_manager
from airflow.cli.cli_parser import get_parser
from interlock.operators import EmitEventOperator, EventSensor, dispatch_dag
from interlock import spark_application
get_parser().parse_args(["interlock", "doctor"])
EventSensor(task_id="wait", condition=spark_application("orders"))
print([each.name for each in plugins_manager._get_plugins()[0]], plugins_manager.get_import_errors())
"""
    # -P: a checkout in which `make dist` ran describes the package a second time.
    ran = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "interlock" in ran.stdout.splitlines()[-1]
    assert ran.stdout.splitlines()[-1].endswith("{}")


@pytest.mark.parametrize("page", ["README.md", "docs/use/spark.md", "docs/use/pipeline.md"])
def test_each_extra_that_a_page_names_exists(page: str) -> None:
    named = re.findall(r"(?:airflow-interlock|\.whl\)\"?)\[([\w,]+)\]", (ROOT / page).read_text())
    assert {extra for each in named for extra in each.split(",")} <= EXTRAS.keys()
