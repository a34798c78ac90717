"""Pages lead where they say: links, anchors, pages and tests that are named; and none grows past its size."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ENGINE_WORDS = 2_000  # what a reader takes in at one sitting; a longer page has a second subject


def tracked(*patterns: str) -> list[Path]:
    names = subprocess.run(
        ["git", "ls-files", "-z", *patterns], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    return [ROOT / name for name in names.split("\0") if name and (ROOT / name).exists()]


PAGES = tracked("*.md")


@cache
def without_code(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", without_code(page), re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower() for heading in headings)
    return frozenset(re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_each_relative_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    dead = []
    links = re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)", without_code(page))
    for target, anchor in links:
        found = page.parent / target if target else page
        if not found.exists() or (anchor and anchor not in anchors(found)):
            dead.append(f"{target}#{anchor}")
    assert dead == []


def test_each_decision_is_listed() -> None:
    [index, *decisions] = reversed(tracked("docs/decide/adr/*.md"))  # 0001-..., ..., README.md
    listed = re.findall(r"\((\d{4}-[\w-]+\.md)\)", index.read_text())
    assert sorted(listed) == sorted(page.name for page in decisions)


def test_each_page_named_in_code_and_tests_exists() -> None:
    dead = []
    for path in tracked("*.py", "*.toml", "Makefile", "*.mk"):
        for page in re.findall(r"(?<![\w/])docs/[\w/.-]+?\.md", path.read_text()):
            if not (ROOT / page).exists():
                dead.append(f"{name_of(path)}: {page}")
    assert dead == []


def test_each_test_named_on_a_page_exists() -> None:
    sources = "\n".join(path.read_text() for path in tracked("tests/*.py"))
    files = {path.name for path in tracked("tests/*.py")}
    dead = []
    for page in tracked("docs/*.md", "tests/*.md"):
        for name, open_end, suffix in re.findall(
            r"`(?:[\w/]*/)?(test_\w+?)(_\.\.\.|_\*)?(\.py)?`", page.read_text()
        ):
            wanted = f"def {name}{'_' if open_end else '('}"
            found = f"{name}.py" in files if suffix else wanted in sources
            if not found:
                dead.append(f"{name_of(page)}: {name}{open_end}{suffix}")
    assert dead == []


SIZES = {
    ROOT / "README.md": 1_000,  # ten minutes, with its commands
    ROOT / "CONTRIBUTING.md": 1_600,  # fifteen minutes
    **dict.fromkeys(tracked("docs/understand/engine/*.md"), ENGINE_WORDS),
}


@pytest.mark.parametrize("page", SIZES, ids=name_of)
def test_a_page_can_be_read_in_one_sitting(page: Path) -> None:
    assert len(page.read_text().split()) <= SIZES[page]
