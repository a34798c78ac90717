"""The rooms of docs/understand/design.md are the folders of the package, its arrows the import contracts."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "understand" / "design.md").read_text()
NOT_PACKAGED = {"bench", "demo", "local", "tests", "dags_examples"}


def rooms() -> set[str]:
    names = subprocess.run(
        ["git", "ls-files", "*/__init__.py"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split()
    found = {str(Path(name).parent) for name in names if (ROOT / name).exists()}
    return {room for room in found if room.split("/")[0] not in NOT_PACKAGED}


def test_each_folder_of_the_package_is_listed_and_no_other() -> None:
    listed = set(re.findall(r"^\| `([\w/]+)/` \|", PAGE, re.MULTILINE))
    assert listed == rooms()


def test_each_file_that_the_page_names_exists() -> None:
    named = re.findall(r"`((?:\w+/)+\w+\.py)`", PAGE)
    assert [name for name in named if not (ROOT / name).exists()] == []


Layers = list[set[str]]  # from the top


def arrows(page: Path) -> list[Layers]:
    """What a page draws as `a | b  >  c`, each in a block of its own."""
    drawn = re.findall(r"^```\n(\w[^\n]* > [^\n]*)\n```$", page.read_text(), re.MULTILINE)
    return [[set(re.findall(r"\w+", layer)) for layer in text.split(">")] for text in drawn]


def contract(container: str) -> Layers:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (layers,) = (
        each["layers"]
        for each in settings["tool"]["importlinter"]["contracts"]
        if each.get("containers") == [container]
    )
    return [set(re.findall(r"\w+", layer)) for layer in layers]


@pytest.mark.parametrize("container", ["interlock", "interlock.engine", "interlock.conditions"])
def test_the_directions_that_the_page_draws_are_those_that_are_checked(container: str) -> None:
    wanted = [layer for layer in contract(container) if layer != {"airflow_interlock"}]
    assert wanted in arrows(ROOT / "docs" / "understand" / "design.md")


def test_the_page_for_newcomers_draws_the_same_rooms() -> None:
    assert arrows(ROOT / "CONTRIBUTING.md") == [contract("interlock")[1:]]
