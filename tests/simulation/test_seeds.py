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
    "crash while it awaits the answer to a lease",
    "crash while it awaits the answer to a registration",
    "crash while it awaits the answer to a removal",
    "crash while it awaits the answer to a renewal",
    "crash while it awaits the answer to an acknowledgement",
    "crash while it awaits the answer to EndTxn",
    "crash while it begins a transaction",
    "crash while it sends EndTxn",
    "crash while it writes a lease",
    "crash while it writes a registration",
    "crash while it writes a removal",
    "crash while it writes a renewal",
    "crash while it writes an acknowledgement",
    "crash while it writes",
    "cut that waited",
    "days went by",
    "deleted topic created again",
    "deleted topic taken off the list",
    "duplicate event",
    "durable changed",
    "EndTxn that was sent twice",
    "engine that slept for a day",
    "fencing of an open transaction",
    "firing for a task that was resumed already",
    "firing of a timer",
    "firing that could not be acknowledged",
    "group whose offsets expired",
    "late EndTxn that decided",
    "late match of a closed one-shot",
    "match that was evaluated before",
    "no answer while it awaits the answer to EndTxn",
    "no answer while it begins a transaction",
    "no answer while it sends EndTxn",
    "no answer while it writes",
    "offsets that are not stable yet",
    "one-shot cleared",
    "partition added",
    "poison",
    "process end that was counted",
    "record that kills",
    "record written after the offsets",
    "registered again",
    "registration during a removal",
    "retention that overtakes a scan",
    "retention",
    "scan shared by several",
    "scan that another owner continued",
    "scan that another registration joined",
    "scans at several positions",
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
    "wait that was given up by a process that goes on",
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
