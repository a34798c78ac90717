"""The states of a partition: each legal and each illegal move, and sequences of them."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
from interlock.engine.bus import TopicPartition
from interlock.engine.protocol.partitions.lifecycle import (
    BLOCKED,
    NEEDS_REASON,
    OPEN,
    PAUSED,
    RECOVERING,
    STOPPED,
    TRANSITIONS,
    UNASSIGNED,
    IllegalTransition,
    Lifecycle,
    PartitionState,
)

TP, OTHER = TopicPartition("b-event", 0), TopicPartition("b-event", 1)
PATHS = {
    UNASSIGNED: (),
    RECOVERING: (RECOVERING,),
    BLOCKED: (RECOVERING, BLOCKED),
    OPEN: (RECOVERING, OPEN),
    PAUSED: (RECOVERING, PAUSED),
    STOPPED: (RECOVERING, STOPPED),
}
PAIRS = list(product(PartitionState, repeat=2))


def reason(state: PartitionState) -> str:
    return "why" if state in NEEDS_REASON else ""


def in_state(state: PartitionState) -> Lifecycle:
    life = Lifecycle(lambda: 7.0)
    for each in PATHS[state]:
        life.move(TP, each, reason(each))
    assert life.state(TP) is state
    return life


def test_a_partition_begins_unassigned_and_each_state_can_be_reached() -> None:
    assert Lifecycle(lambda: 0.0).state(TP) is UNASSIGNED
    for state in PartitionState:
        in_state(state)


@pytest.mark.parametrize(("before", "after"), [(a, b) for a, b in PAIRS if b in TRANSITIONS[a]])
def test_a_legal_move_is_made(before: PartitionState, after: PartitionState) -> None:
    life = in_state(before)
    life.move(TP, after, reason(after))
    assert life.state(TP) is after
    assert life.since(TP) == (None if after is UNASSIGNED else 7.0)
    assert life.reasons == ({TP: "why"} if after in NEEDS_REASON else {})


@pytest.mark.parametrize(
    ("before", "after"), [(a, b) for a, b in PAIRS if a is not b and b not in TRANSITIONS[a]]
)
def test_an_illegal_move_raises_and_changes_nothing(before: PartitionState, after: PartitionState) -> None:
    life = in_state(before)
    with pytest.raises(IllegalTransition, match=rf"b-event\[0\] cannot become {after.value}: it is"):
        life.move(TP, after, reason(after))
    assert life.state(TP) is before


@pytest.mark.parametrize("state", list(PartitionState))
def test_a_move_to_the_same_state_changes_nothing(state: PartitionState) -> None:
    life = in_state(state)
    life.move(TP, state, reason(state))
    assert life.state(TP) is state


def test_only_a_paused_or_stopped_partition_has_a_reason_and_each_needs_one() -> None:
    life = in_state(RECOVERING)
    with pytest.raises(IllegalTransition, match="reason"):
        life.move(TP, PAUSED)
    with pytest.raises(IllegalTransition, match="reason"):
        life.move(TP, OPEN, "why")
    life.move(TP, STOPPED, "its topic was deleted")
    assert life.reasons == {TP: "its topic was deleted"}


def test_paused_and_stopped_partitions_differ() -> None:
    life = Lifecycle(lambda: 0.0)
    life.assign((TP, OTHER))
    life.move(TP, PAUSED, "refused")
    life.move(OTHER, STOPPED, "removed")
    assert (life.among(PAUSED), life.among(STOPPED)) == ([TP], [OTHER])
    assert life.among(PAUSED, STOPPED) == [TP, OTHER]


def test_an_assignment_recovers_its_partitions_and_leaves_no_others() -> None:
    for state in PartitionState:
        life = in_state(state)
        life.assign((OTHER,))
        assert (life.state(TP), life.state(OTHER)) == (UNASSIGNED, RECOVERING)
        life.assign((TP, OTHER))
        assert life.among(RECOVERING) == [OTHER, TP]
        assert life.reasons == {}


def test_no_sequence_of_moves_leaves_a_partition_in_two_states() -> None:
    """Random moves, legal or not: states follow the table, and reasons belong to unread partitions alone."""
    chance = Random(1)
    now = 0.0
    life = Lifecycle(lambda: now)
    for _ in range(5_000):
        now += 1
        tp = chance.choice((TP, OTHER))
        before, after = life.state(tp), chance.choice(list(PartitionState))
        moved = before is after or after in TRANSITIONS[before]
        try:
            life.move(tp, after, reason(after))
        except IllegalTransition:
            assert not moved
            assert life.state(tp) is before
        else:
            assert moved
            assert life.state(tp) is after
        assert set(life.reasons) == set(life.among(PAUSED, STOPPED))
        assert (life.since(tp) is None) == (life.state(tp) is UNASSIGNED)
