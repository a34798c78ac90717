"""Ten thousand worlds: engines over simulated brokers, killed, paused, refused and rebalanced at every step.

`make simulate SEED=17` plays one again and shows what happened; `make simulate SEEDS=1000000` hunts.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.hunt import SEEDS, Outcome, explained, hunt

# Without these a run would have said nothing of what they are there for.
MUST_BE_SEEN = (
    "acknowledged",
    "burial of an open transaction",
    "commit of a fenced producer",
    "commit of a generation that was over",
    "compaction of b-action",
    "compaction of b-state",
    "compaction of b-subscription",
    "crash where it begins a transaction",
    "crash where it hears of a lease",
    "crash where it hears of a registration",
    "crash where it hears of a removal",
    "crash where it hears of an acknowledgement",
    "crash where it hears of the end",
    "crash where it sends the end",
    "crash where it writes",
    "crash where it writes a lease",
    "crash where it writes a registration",
    "crash where it writes a removal",
    "crash where it writes an acknowledgement",
    "cut that waited",
    "days went by",
    "duplicate event",
    "durable changed",
    "end of a process that was counted",
    "end that was sent twice",
    "engine that slept for a day",
    "firing of a task that was resumed before",
    "firing of a timer",
    "firing that could not be acknowledged",
    "group that was forgotten",
    "late end that decided",
    "late match of a closed one-shot",
    "match that was judged before",
    "no answer where it begins a transaction",
    "no answer where it hears of the end",
    "no answer where it sends the end",
    "no answer where it writes",
    "offsets that are not stable yet",
    "one-shot cleared",
    "partition added",
    "poison",
    "record that kills",
    "record written after the offsets",
    "registered again",
    "registration beside a removal",
    "retention",
    "retention that overtakes a scan",
    "scan shared by several",
    "scan that another owner went on with",
    "scan that another registration joined",
    "scans at several positions",
    "source deleted",
    "source made again",
    "takeover without a recovery: nobody else had committed",
    "task resumed",
    "task that waited is done",
    "tick",
    "topic listed",
    "transaction timeout",
    "wait that another triggerer took",
    "wait whose registration was removed",
    "wait withdrawn",
    "waiting task cleared",
    "waits that were left alone for days",
)


@pytest.fixture(scope="module")
def played() -> tuple[list[Outcome], Counter[str]]:
    """The worlds that failed, and in how many each thing was seen."""
    return hunt(range(SEEDS))


def test_every_world_keeps_the_invariants(played: tuple[list[Outcome], Counter[str]]) -> None:
    failed, _ = played
    if failed:
        pytest.fail(f"{len(failed)} of {SEEDS} worlds failed.\n{explained(failed[0])}", pytrace=False)


@pytest.mark.parametrize("what", MUST_BE_SEEN)
def test_the_worlds_had(played: tuple[list[Outcome], Counter[str]], what: str) -> None:
    _, seen = played
    assert seen[what] > 0


@pytest.mark.parametrize("seed", [7, 9])  # without waits, and with
def test_the_same_seed_gives_the_same_world(seed: int) -> None:
    from tests.simulation.hunt import play

    first, second = play(seed, trace=True), play(seed, trace=True)
    assert first.trace
    assert first.trace == second.trace
