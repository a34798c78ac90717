"""Random histories of leases: what is waited for stays registered, the rest goes, and all readers agree."""

from __future__ import annotations

import pytest
from interlock.engine.protocol import housekeeping
from interlock.engine.waiting import lease_writer

from tests.unit.engine.waiting.lease_world import LEASED_S, PARTITIONS, Faults, World

HISTORIES = 8  # of each kind
STEPS = 100


@pytest.mark.parametrize(
    "faults",
    [Faults(), Faults(lost=0.1), Faults(slow=0.3), Faults(lost=0.05, slow=0.2, full=0.1)],
    ids=["none", "lost", "slow", "all"],
)
def test_in_any_history_leases_keep_what_is_waited_for_and_only_that(
    faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_writer, "LEASED_MS", LEASED_S * 1000)
    monkeypatch.setattr(lease_writer, "MOST_NAMED", 4)
    monkeypatch.setattr(lease_writer, "MOST_SMALL", 2)
    monkeypatch.setattr(housekeeping, "ORPHAN_MS", LEASED_S * 1000)
    monkeypatch.setattr(housekeeping, "LEFTOVER_MS", LEASED_S * 1000 // 24)
    for seed in range(HISTORIES):
        world = World(seed, faults)
        for number in range(PARTITIONS):
            world.start_engine(number)
        for name in ("p", "q", "r"):
            world.start(name)
        for _ in range(STEPS):
            world.step()
        assert world.told == [], seed
