"""Which worlds a run of the simulation plays."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

import pytest

from tests.simulation import seeds
from tests.simulation.choose import choose


def commit(monkeypatch: pytest.MonkeyPatch, name: str) -> int:
    answer = SimpleNamespace(stdout=f"{name}\n" if name else "")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: answer)
    return seeds.first_of_commit()


def test_each_commit_has_seeds_of_its_own_and_always_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    first, other = "a" * 40, "a" * 39 + "b"
    assert commit(monkeypatch, first) == commit(monkeypatch, first)
    found = sorted(commit(monkeypatch, name) for name in (first, other, ""))
    assert len(set(found)) == 3
    assert found[0] > max(seeds.chosen())


def test_the_chosen_seeds_are_few_and_show_all() -> None:
    shown = {1: {"a"}, 2: {"a", "b"}, 3: {"c"}, 4: {"b", "c"}}
    assert choose(shown) in ([2, 3], [2, 4])
