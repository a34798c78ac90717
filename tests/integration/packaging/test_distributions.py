"""What is built and installed from a checkout in a folder whose name holds a space."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import uv

ROOT = Path(__file__).parents[3]
PAPERS = {"CHANGELOG.md", "LICENSE", "MANIFEST.in", "PKG-INFO", "README.md", "pyproject.toml", "setup.cfg"}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what git would commit, in a folder named `x-1 y`."""
    folder = tmp_path_factory.mktemp("distributions") / "x-1 y"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


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


@pytest.fixture(scope="module")
def built(checkout: Path) -> Path:
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist", "."],
        cwd=checkout, capture_output=True, check=True,
    )  # fmt: skip
    return checkout / "dist"


def test_every_room_with_code_is_listed_in_pyproject(checkout: Path, modules: set[str]) -> None:
    """A package that is not listed works in a checkout and is missing for users."""
    outside = {"bench", "dags_examples", "demo", "docs", "local", "tests", "dist", "build"}
    code = {str(f.relative_to(checkout)) for f in checkout.rglob("*.py")}
    assert {f for f in code if f.split("/")[0] not in outside} - modules == set()


def test_the_wheel_holds_the_package_and_nothing_else(built: Path, modules: set[str]) -> None:
    (wheel,) = built.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    info = {name for name in names if name.split("/")[0].endswith(".dist-info")}
    assert names - info == {f"interlock/{name}" for name in modules}
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
        "print(version('airflow-interlock'), p.__file__)"
    )
    # -I -S: neither this checkout nor the environment's own installation is seen
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    assert ran.returncode == 0, ran.stderr
    assert str(checkout if kind == "editable" else site) in ran.stdout
