"""The file of the page in Airflow's UI: small, without what Airflow brings, with words for what engines say.

`make check-ui` builds it again and compares; these tests need no Node.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import get_args

import pytest
from interlock.conditions.explanation import near_miss, node

ROOT = Path(__file__).parents[4]
BUNDLE = ROOT / "plugin" / "page" / "www" / "interlock.js"
SOURCES = ROOT / "ui" / "src"


@pytest.fixture(scope="module")
def bundle() -> str:
    return BUNDLE.read_text()


def test_the_bundle_is_small(bundle: str) -> None:
    assert 20_000 < len(bundle.encode()) < 150_000


def test_the_bundle_sets_its_apps_by_their_names_and_titles(bundle: str) -> None:
    [names] = re.findall(r"Object\.assign\(globalThis,\{([^}]*)\}\)", bundle)
    assert [name.partition(":")[0] for name in names.split(",")] == [
        *("InterlockPage", "InterlockWait", "Interlock", "Wait"),
    ]


def test_react_and_chakra_are_not_in_the_bundle_but_taken_from_airflow(bundle: str) -> None:
    """Two Reacts on one page fail at the first hook."""
    assert bundle.rstrip().endswith("})(ChakraUI,React,ReactRouterDOM,ReactJSXRuntime);")
    assert not re.search(r"react\.(element|transitional|context)|__emotion|SECRET_INTERNALS", bundle)


def test_the_bundle_has_no_address_of_a_machine_and_no_html_of_texts(bundle: str) -> None:
    # XML's and SVG's own names would be addresses too; React gives them by itself.
    assert re.findall(r"https?://[\w.:/-]+", bundle) == []
    assert not re.search(r"dangerouslySetInnerHTML|innerHTML|insertAdjacentHTML|\beval\(", bundle)


def test_the_bundle_is_package_data() -> None:
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    folder = BUNDLE.parents[1]
    assert any(BUNDLE in folder.glob(pattern) for pattern in data["interlock.plugin.page"])


def test_the_lock_file_names_no_registry_and_has_each_package_with_its_hash() -> None:
    lock = json.loads((ROOT / "ui" / "package-lock.json").read_text())
    packages = {name: of for name, of in lock["packages"].items() if name}
    assert len(packages) > 50
    assert [name for name, of in packages.items() if "resolved" in of or "integrity" not in of] == []


@pytest.mark.parametrize("what", sorted(node._TEXTS.keys() | {"period"}))
def test_the_page_has_words_for_each_note_of_an_explanation(what: str) -> None:
    assert f'case "{what}":' in (SOURCES / "words" / "notes.ts").read_text() or what == "unusable"


@pytest.mark.parametrize("why", sorted(get_args(near_miss.Why)))
def test_the_page_has_words_for_each_reason_of_a_near_miss(why: str) -> None:
    assert f'case "{why}":' in (SOURCES / "words" / "misses.ts").read_text() or why in ("key", "unknown")


@pytest.mark.parametrize("why", sorted(node._APART))
def test_the_page_has_words_for_each_reason_of_a_held_event(why: str) -> None:
    assert re.search(rf"^  {why}: ", (SOURCES / "words" / "notes.ts").read_text(), re.MULTILINE)
