"""The wheel and the sdist, built as a user builds them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
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


@pytest.fixture(scope="session")
def built(checkout: Path) -> Path:
    """The folder `dist` that `make dist` makes, without the environment of `make venv`."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "VENV"))}
    ran = subprocess.run(
        ["make", "dist", f"PYTHON={sys.executable}"],
        cwd=checkout, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return checkout / "dist"
