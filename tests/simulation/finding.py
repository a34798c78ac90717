"""Finding a planted fault: what the suites of planted faults share."""

from __future__ import annotations

from types import ModuleType
from typing import Final

import pytest

from tests.simulation import world
from tests.simulation.actors import REAL, MadeOf
from tests.simulation.hunt import LATER_EVERY, explained, play

# What those who wait suffer from a fault of engines, and no other check tells of before.
OF_WAITS: Final = frozenset({"lost", "once", "acked", "left", "lease"})


def assert_found(
    within: int,
    *checks: str,
    turn: int | None = None,
    every: int = LATER_EVERY,
    made_of: MadeOf = REAL,
) -> None:
    """One of the first worlds fails by one of these checks; its counterexample is printed.

    turn: only of one in `every`, as those that go on after their drain in this way.
    """
    seeds = range(within) if turn is None else range(turn, within, every)
    for seed in seeds:
        outcome = play(seed, made_of=made_of)
        if outcome.kinds & set(checks):
            print(explained(outcome))
            return
        assert not outcome.kinds - OF_WAITS, f"seed {seed}: {outcome.problems}"
    pytest.fail(f"not found in {within} worlds")


def often(patch: pytest.MonkeyPatch, action: str, weight: int, of: ModuleType = world) -> None:
    """The worlds have more of an action than they have otherwise. of: whose CHANCES these are."""
    patch.setattr(of, "_WEIGHTS", [weight if name == action else usual for name, usual in of.CHANCES])
