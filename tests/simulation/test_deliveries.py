"""Many worlds of deliveries: deliverers over simulated brokers, killed and rebalanced at every step.

`make simulate-deliveries SEED=17` plays one again and shows what happened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tests.simulation.deliveries import play
from tests.simulation.hunt_deliveries import again
from tests.simulation.seeds import first_of_commit

CHOSEN = (*range(40), 50, 79)  # they show all of MUST_BE_SEEN
STOPS = (51004, 2587301375)  # a deliverer that stops, and has delivered what another one has acknowledged
REMOVED = (469203293, 469209044)  # a sink that was removed while much of one key was held, and is back
ROTATING = 40

MUST_BE_SEEN = (
    "answer lost after the sink accepted",
    "commit of a generation that was over",
    "compaction",
    "crash while it awaits the answer to EndTxn",
    "crash while it sends",
    "crash while it sends EndTxn",
    "dead letter",
    "dead letter refused",
    "deliveries in flight before a rebalance",
    "delivery of a zombie",
    "delivery repeated",
    "EndTxn that was sent twice",
    "fencing of an open transaction",
    "firing delivered",
    "firing skipped",
    "firings beyond the window",
    "given up for its age",
    "offsets that are not stable yet",
    "order changed",
    "order changed while a dead letter is refused",
    "record written after the offsets",
    "reply refused",
    "scan",
    "scan of what was noted",
    "sink denying",
    "sink down",
    "sink failing",
    "sink paused",
    "sink removed",
)


def hold(seeds: Iterable[int]) -> Counter[str]:
    """Plays worlds, which must have no problem. Returns what was seen."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        world = play(seed)
        seen.update(world.seen)
        assert not world.problems, f"{again(seed)}: {world.problems}"
    return seen


def test_the_chosen_worlds_keep_the_promises_and_show_what_they_must() -> None:
    seen = hold(CHOSEN)
    assert [what for what in MUST_BE_SEEN if not seen[what]] == []


def test_a_deliverer_that_stops_waits_only_for_its_own_acknowledgements() -> None:
    hold(STOPS)


def test_a_key_of_a_sink_that_was_removed_and_is_back_delays_no_other_key() -> None:
    hold(REMOVED)


def test_worlds_that_no_earlier_commit_has_tried_keep_the_promises() -> None:
    first = first_of_commit()
    hold(range(first, first + ROTATING))


def test_the_same_seed_gives_the_same_world() -> None:
    assert play(3, trace=True).trace == play(3, trace=True).trace
