"""The pinned versions: whole, with hashes, and free of any index or machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def text() -> str:
    return (ROOT / "requirements" / "constraints.txt").read_text()


def test_constraints_name_no_index_and_no_path(text: str) -> None:
    assert re.findall(r"^--.*|\w+://\S*|(?<![\w.])/\w\S*| @ \S+", text, re.MULTILINE) == []


def test_each_pinned_version_has_hashes(text: str) -> None:
    pinned = re.findall(r"^[a-z0-9][\w.-]*(?:\[[^\]]*\])?==", text, re.MULTILINE)
    entries = re.split(r"\n(?=[a-z0-9])", text)[1:]
    assert len(pinned) == len(entries) > 100
    assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []


def test_pyspark_and_its_client_are_pinned_alike(text: str) -> None:
    """Both install the folder `pyspark`: of two versions one half of each would be there."""
    pins = re.findall(r"^(pyspark(?:-client)?)==(\S+)(.*?) \\$", text, re.MULTILINE)
    spark, client = ([pin[1:] for pin in pins if pin[0] == name] for name in ("pyspark", "pyspark-client"))
    assert spark == client
    assert [version for version, _ in spark] == ["4.0.0", "4.2.0"]  # before Python 3.14, and from there on
