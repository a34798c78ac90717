"""The rooms that docs/understand/design.md lists are the folders of the package, and what it names exists."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

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
