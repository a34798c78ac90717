"""What is built and installed from a checkout in a folder whose name holds a space."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import uv

PAPERS = {"CHANGELOG.md", "LICENSE", "MANIFEST.in", "PKG-INFO", "README.md", "pyproject.toml", "setup.cfg"}


@pytest.fixture(scope="module")
def modules(checkout: Path) -> set[str]:
    """The files of the package by their paths in the checkout: the rooms of pyproject.toml, no more."""
    setuptools = tomllib.loads((checkout / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = [
        name.replace(".", "/").removeprefix("interlock").lstrip("/") for name in setuptools["packages"]
    ]
    kept = {str(f.relative_to(checkout)) for x in folders for f in (checkout / x).glob("*.py")}
    for package, patterns in setuptools["package-data"].items():
        folder = checkout / package.replace(".", "/").removeprefix("interlock").lstrip("/")
        kept |= {str(f.relative_to(checkout)) for pattern in patterns for f in folder.glob(pattern)}
    return kept


@pytest.mark.long
def test_building_needs_the_build_backend_and_no_other_package(checkout: Path, built: Path) -> None:
    """An environment of 1.3 GB was made for a wheel of 0.6 MB."""
    assert not (checkout / ".venv").exists()
    site = next((checkout / ".build" / "backend").glob("lib/python3*/site-packages"))
    assert {info.name.split("-")[0] for info in site.glob("*.dist-info")} == {"pip", "setuptools"}


def test_every_room_with_code_is_listed_in_pyproject(checkout: Path, modules: set[str]) -> None:
    """A package that is not listed works in a checkout and is missing for users."""
    outside = {".build", "bench", "dags_examples", "demo", "docs", "local", "tests", "dist", "build"}
    code = {str(f.relative_to(checkout)) for f in checkout.rglob("*.py")}
    assert {f for f in code if f.split("/")[0] not in outside} - modules == set()


def test_the_wheel_holds_the_package_and_nothing_else(built: Path, modules: set[str]) -> None:
    (wheel,) = built.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    info = {name for name in names if name.split("/")[0].endswith(".dist-info")}
    assert names - info == {f"interlock/{name}" for name in modules} | {"airflow_interlock.py"}
    assert any(name.endswith("licenses/LICENSE") for name in info)


def test_the_sdist_holds_the_package_and_its_papers_and_nothing_else(built: Path, modules: set[str]) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    assert {name for name in names if ".egg-info/" not in name} == modules | PAPERS


@pytest.mark.parametrize("kind", ["wheel", "editable"])
def test_an_install_imports_the_package_and_its_data(
    kind: str, checkout: Path, built: Path, tmp_path: Path
) -> None:
    what = [str(next(built.glob("*.whl")))] if kind == "wheel" else ["--editable", str(checkout)]
    site = tmp_path / "site y"
    subprocess.run(
        [uv.find_uv_bin(), "pip", "install", "--quiet", "--offline", "--no-deps", "--no-build-isolation",
         "--python", sys.executable, "--target", str(site), *what],
        capture_output=True, check=True,
    )  # fmt: skip
    code = (
        f"import site; site.addsitedir({str(site)!r}); import interlock.plugin.provider as p; "
        "from importlib.resources import files; from importlib.metadata import version; "
        "assert files('interlock').joinpath('py.typed').is_file(); "
        "assert files('interlock.plugin').joinpath('broker/kafka-4.2.2.sha512').is_file(); "
        "assert files('interlock.plugin').joinpath('monitoring/alerts.yaml').is_file(); "
        "print(version('airflow-interlock'), p.__file__)"
    )
    # -I -S: neither this checkout nor the environment's own installation is seen
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    assert ran.returncode == 0, ran.stderr
    assert str(checkout if kind == "editable" else site) in ran.stdout
