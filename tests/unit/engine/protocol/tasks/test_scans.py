"""Shared scans: who reads together, who may join, whose turn it is, and that metadata never overflow."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from interlock import event
from interlock.engine.bus import Record, TopicPartition
from interlock.engine.protocol.poison.suspects import MOST_CONDEMNED, MOST_TRIES, SUSPECTS, name_of
from interlock.engine.protocol.tasks.claims import MOST_CLAIMS
from interlock.engine.protocol.tasks.scans import (
    LEAST_KEPT,
    MAX_GROUPS,
    MAX_POSITIONS,
    TURN,
    ScanIndex,
    Scans,
)
from interlock.engine.records import (
    Condemned,
    OffsetMetadata,
    Registration,
    RegistrationKey,
    SuspectRecords,
    encode_json,
)
from interlock.engine.registry.registry import Registry

WORST = 2**63 - 1
# {bus: 100 characters}-engine-{deployment: 100}-{12 of its id}.{life}, and an id as Kafka gives them.
COMMITTER = f"{'b' * 100}-engine-{'d' * 100}-{'0' * 12}.{10**6}"
TOPIC_ID = "A" * 22


def size(scans: Scans, at: int = WORST) -> int:
    metadata = OffsetMetadata(
        applied=at,
        scans=scans.metadata(),
        committer=COMMITTER,
        transaction=at,
        topic_id=TOPIC_ID,
        ended_cleanly=True,
        suspects=SuspectRecords(1, SUSPECTS, at, trying=True, ended=(name_of(COMMITTER),) * MOST_TRIES),
        condemned=Condemned(MOST_CONDEMNED, at),
        claims=[(at, at)] * MOST_CLAIMS,
    )
    return len(encode_json(metadata))


def added(*registrations: tuple[int, int, int]) -> Scans:
    """The scans after each of these was added: first place, the place behind the last, and first offset."""
    scans = Scans([])
    for each in registrations:
        scans.add(*each)
    return scans


def positions(scans: Scans) -> list[int]:
    return [group.position for group in scans.groups]


# -- joining


def test_a_group_nobody_reads_yet_is_joined_at_its_position() -> None:
    scans = added((0, 3, 100), (3, 5, 100))
    assert scans.metadata() == [(0, 5, 100)]


def test_only_registrations_whose_first_offset_lies_ahead_join_a_begun_group() -> None:
    scans = added((0, 1, 100))
    scans.position()
    scans.advance(150)
    scans.add(1, 2, 150)
    scans.add(2, 3, 160)
    assert scans.metadata() == [(0, 3, 150)]
    scans.add(3, 4, 149)
    assert scans.metadata() == [(0, 3, 150), (3, 4, 149)]


def test_a_group_does_not_join_over_registrations_that_are_live() -> None:
    """Its interval would take them in, and they would see everything twice."""
    scans = added((0, 1, 100), (2, 3, 100))
    assert scans.metadata() == [(0, 1, 100), (2, 3, 100)]
    assert not scans.covers(1)


def test_groups_that_a_scan_reaches_travel_along() -> None:
    scans = added((0, 1, 100), (1, 2, 105))
    assert scans.position() == 100
    assert [group.start for group in scans.front(100)] == [0]
    scans.advance(101)
    assert [group.start for group in scans.front(107)] == [0, 1]  # 101 to 106 were no records
    scans.advance(108)
    assert positions(scans) == [108, 108]


# -- turns


def test_positions_are_read_in_turns() -> None:
    scans = added((0, 1, 1000), (1, 2, 500_000))
    assert scans.position() == 1000
    scans.advance(1000 + TURN, TURN)
    assert scans.position() == 500_000
    scans.advance(500_000 + TURN, TURN)
    assert scans.position() == 1000 + TURN


def test_a_turn_lasts_until_its_slice_is_over() -> None:
    scans = added((0, 1, 1000), (1, 2, 500_000))
    scans.position()
    scans.advance(2000, TURN - 1)
    assert scans.position() == 2000


def test_a_scan_that_is_over_passes_its_turn_on() -> None:
    scans = added((0, 1, 90), (1, 2, 10))
    assert scans.position() == 10
    scans.position()
    scans.advance(95)  # reaches the other one, which travels along
    assert scans.finish(95)
    assert not scans


def test_at_most_four_positions_are_read_in_turns_and_one_group_waits_at_the_least_first_offset() -> None:
    scans = Scans([])
    for n in range(MAX_POSITIONS):
        scans.add(n, n + 1, 1000 * (n + 1))
    for n, first in enumerate([9000, 8000, 8500, 9500], MAX_POSITIONS):
        scans.add(n, n + 1, first)
    assert scans.metadata()[MAX_POSITIONS:] == [(MAX_POSITIONS, MAX_POSITIONS + 4, 8000)]
    positions = set()
    for _ in range(20):
        at = scans.position()
        positions.add(at // 1000)
        scans.advance(at, TURN)
    assert 8 not in positions


def test_what_waits_is_read_when_there_is_room() -> None:
    scans = Scans([])
    for n in range(MAX_POSITIONS + 1):
        scans.add(n, n + 1, 1000 * (n + 1))
    scans.position()
    scans.advance(6000)  # the first reaches all
    assert positions(scans) == [6000] * (MAX_POSITIONS + 1)
    assert scans.position() == 6000


# -- ending


def test_only_the_groups_that_met_the_live_position_are_over() -> None:
    scans = Scans([(0, 1, 50), (1, 2, 60), (2, 3, 59)])
    assert scans.finish(60)
    assert scans.metadata() == [(0, 1, 50), (2, 3, 59)]


def test_nothing_is_over_before_it_meets_the_live_position() -> None:
    scans = Scans([(0, 1, 50)])
    assert not scans.finish(51)
    assert scans


# -- metadata


def test_metadata_with_all_groups_and_the_longest_names_and_offsets_fit_what_kafka_takes() -> None:
    scans = Scans([(WORST, WORST, WORST)] * MAX_GROUPS)
    assert scans.full
    assert size(scans) <= 4095


ADDS = st.lists(
    st.tuples(
        st.sampled_from(["scan", "scan", "live", "read"]),
        st.integers(0, 300),  # back, or records to read
        st.booleans(),
    ),
    max_size=120,
)


@settings(max_examples=200, deadline=None)
@given(ADDS)
def test_whatever_is_added_when_the_metadata_never_overflow(steps: Sequence[tuple[str, int, bool]]) -> None:
    base, live, applied = WORST - 10_000, WORST - 1000, WORST - 5000
    scans = Scans([])
    for what, n, over in steps:
        if what == "read":
            if scans:
                at = scans.position()
                scans.advance(min(at + n, live), n)
                if over:
                    scans.finish(live)
            continue
        if scans.full:  # R waits
            continue
        if what == "scan":
            scans.add(applied, applied + 1, base + n)
        applied += 1
        assert len(scans.groups) <= MAX_GROUPS
        assert size(scans) <= 4095
    scans = Scans([(group.start, group.end, group.position) for group in scans.groups])  # taken over
    while not scans.full:
        scans.add(applied, applied + 1, base)
        applied += 2
    assert size(scans) <= 4095


# -- the index


def registered(count: int) -> Registry:
    registry = Registry()
    made = [Registration.of(f"w{n}", event("x"), None, 0) for n in range(count)]
    for offset, registration in enumerate(made):
        key = RegistrationKey(registration.incarnation, "n").encode()
        registry.apply(Record(TopicPartition("r", 0), offset, 0, key, encode_json(registration), None))
    return registry


def test_the_index_drops_what_no_group_covers_while_others_are_in_a_scan() -> None:
    """Look-backs that overlap for days: there is always one, and never many."""
    registry = registered(1000)
    index = ScanIndex(registry)
    most = 0
    for n in range(990):
        groups = Scans([(n, n + 5, 0), (n + 5, n + 6, 9)]).groups
        if index.crowded:
            index.keep(groups)
        found = index.of(groups)
        assert all(r in found for r in registry.between(n, n + 6))
        most = max(most, len(index))
    assert most <= 2 * LEAST_KEPT


def test_the_index_keeps_what_a_group_still_covers() -> None:
    registry = registered(10)
    index = ScanIndex(registry)
    index.of(Scans([(0, 4, 0), (4, 8, 0)]).groups)
    left = Scans([(4, 8, 5)]).groups
    index.keep(left)
    found = index.of(left)
    assert [r in found for r in registry.between(0, 10)] == [4 <= n < 8 for n in range(10)]
    found = index.of(Scans([(2, 8, 0)]).groups)  # what went comes back when it is asked for
    assert [r in found for r in registry.between(0, 10)] == [2 <= n < 8 for n in range(10)]


def test_the_index_forgets_what_the_registry_removed() -> None:
    registry = registered(3)
    index = ScanIndex(registry)
    groups = Scans([(0, 2, 0)]).groups
    index.of(groups)
    gone, other = registry.between(1, 3)
    index.forget(gone)
    index.forget(other)  # was never in it
    assert [r in index.of(groups) for r in registry.between(0, 3)] == [True, False, False]
    assert len(index) == 1


def test_the_index_of_a_scan_holds_the_members_of_its_groups_alone_and_nothing_when_all_are_over() -> None:
    registry = registered(10)
    index = ScanIndex(registry)
    found = index.of(Scans([(3, 5, 0)]).groups)
    assert [r in found for r in registry.between(0, 10)] == [n in (3, 4) for n in range(10)]
    found = index.of(Scans([(3, 5, 0), (4, 6, 9)]).groups)  # the members that overlap are in it once
    assert [r in found for r in registry.between(0, 10)] == [n in (3, 4, 5) for n in range(10)]
    index.clear()
    found = index.of([])
    assert not any(r in found for r in registry.between(0, 10))
