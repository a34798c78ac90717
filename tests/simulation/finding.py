"""Finding a planted fault: what the suites of planted faults share."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from types import ModuleType
from typing import Final

import pytest

from tests.kit.made_of import REAL, MadeOf
from tests.simulation import deliveries, world
from tests.simulation.deliverers import DeliveryMadeOf
from tests.simulation.hunt import LATER_EVERY, play

# Checks of waits: an engine's fault may show in them before it shows in any other check.
OF_WAITS: Final = frozenset({"lost", "once", "acked", "left", "lease"})


class KeptSeedWarning(UserWarning):
    """The kept seed of a planted fault no longer finds it, and another one does."""


def assert_found(
    within: int,
    *checks: str,
    kept: int,
    turn: int | None = None,
    every: int = LATER_EVERY,
    made_of: MadeOf = REAL,
) -> None:
    """Asserts that a world fails one of these checks: that of seed `kept`, else one of the first ones.

    Warns with the seed to keep when `kept` no longer shows the fault, because every run then searches.
    turn: searches only the seeds with this remainder of `every`, whose worlds have what the fault needs.
    """
    seeds = range(within) if turn is None else range(turn, within, every)
    for seed in (kept, *seeds):
        outcome = play(seed, made_of=made_of)
        if outcome.kinds & set(checks):
            print(f"seed {seed}:", *outcome.problems[:3], sep="\n")
            if seed != kept:
                text = f"seed {kept} no longer shows this fault; seed {seed} does: write kept={seed}"
                warnings.warn(text, KeptSeedWarning, stacklevel=2)
            return
        assert not outcome.kinds - OF_WAITS, f"make simulate SEED={seed}: {outcome.problems}"
    pytest.fail(f"not found in {within} worlds")


def assert_delivery_shows(made_of: DeliveryMadeOf, *checks: str, kept: int, within: int = 300) -> None:
    """Like `assert_found`, in worlds of deliveries."""
    for seed in (kept, *range(within)):
        problems = deliveries.play(seed, made_of).problems
        if {problem.partition(":")[0] for problem in problems} & {*checks}:
            print(f"seed {seed}:", *problems[:3], sep="\n")
            if seed != kept:
                text = f"seed {kept} no longer shows this fault; seed {seed} does: write kept={seed}"
                warnings.warn(text, KeptSeedWarning, stacklevel=2)
            return
    pytest.fail(f"not found in {within} worlds")


def often(patch: pytest.MonkeyPatch, weights: Mapping[str, int], of: ModuleType = world) -> None:
    """Makes actions more frequent in worlds. of: the module with their CHANCES."""
    assert weights.keys() <= {name for name, _ in of.CHANCES}, f"{of.__name__} has not all of {[*weights]}"
    patch.setattr(of, "WEIGHTS", [weights.get(name, usual) for name, usual in of.CHANCES])
