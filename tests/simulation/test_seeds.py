"""Many worlds: engines over simulated brokers, killed, paused, refused and rebalanced at every step.

Some are chosen and the same on every run, the others change with each commit (seeds.py).
`make simulate SEED=17` plays one again and shows what happened; `make simulate SEEDS=1000000` hunts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tests.simulation.hunt import Outcome, explained, hunt, play_some
from tests.simulation.seeds import ROTATING, chosen, first_of_commit

# The chosen worlds show all of these; without one of them a run would have left out a rule.
MUST_BE_SEEN = (
    "acknowledged",
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
    "fencing of an open transaction",
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
    "scan that another owner continued",
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


def failing(failed: list[Outcome], of: int) -> None:
    """Fails with the first world as a counterexample, and with how to play each one again."""
    if failed:
        again = ", ".join(f"make simulate SEED={outcome.seed}" for outcome in failed[:20])
        text = f"{len(failed)} of {of} worlds failed. To play them again: {again}\n{explained(failed[0])}"
        pytest.fail(text, pytrace=False)


@pytest.fixture(scope="module")
def played() -> tuple[list[Outcome], Counter[str]]:
    """The chosen worlds that failed, and in how many each thing was seen."""
    return play_some(chosen())


def test_the_chosen_worlds_keep_the_invariants(played: tuple[list[Outcome], Counter[str]]) -> None:
    failed, _ = played
    failing(failed, len(chosen()))


@pytest.mark.parametrize("what", MUST_BE_SEEN)
def test_the_chosen_worlds_show(played: tuple[list[Outcome], Counter[str]], what: str) -> None:
    _, seen = played
    assert seen[what] > 0, "choose other worlds: make simulate CHOOSE=1"


def test_worlds_that_no_earlier_commit_has_tried_keep_the_invariants(say: Callable[[str], None]) -> None:
    first = first_of_commit()
    say(f"simulation: seeds {first} to {first + ROTATING - 1}, which belong to this commit")
    failed, _ = hunt(range(first, first + ROTATING))
    failing(failed, ROTATING)


@pytest.mark.parametrize("seed", [7, 9])  # without waits, and with
def test_the_same_seed_gives_the_same_world(seed: int) -> None:
    from tests.simulation.hunt import play

    first, second = play(seed, trace=True), play(seed, trace=True)
    assert first.trace
    assert first.trace == second.trace
