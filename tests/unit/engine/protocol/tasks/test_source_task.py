"""The event hop: each event reaches each registration once and in order, however reading is interleaved."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interlock import event
from interlock.engine.bus import Committed
from interlock.engine.protocol import outputs as outputs_module
from interlock.engine.protocol.outputs import Outputs
from interlock.engine.protocol.tasks import scans
from interlock.engine.records import Registration

from tests.unit.engine.protocol.source_world import CONFIG, FAR, World

# -- live registrations, look-backs, and where they meet


def test_a_registration_without_past_events_is_live_at_once() -> None:
    world = World.after(("a", 10))
    late = world.register("late", "a", 11)
    world.append("a", 11)
    world.run()
    assert not world.task().scans
    assert world.reached(late) == [1]


def test_an_event_stamped_before_since_does_not_count_wherever_it_stands() -> None:
    """Records of listed topics keep their producers' times, which may go back."""
    world = World.after(("a", 50), ("a", 9))
    w = world.register("w", "a", 10)
    world.append_all(("a", 8), ("a", 10))
    world.run()
    world.run()
    assert world.reached(w) == [0, 3]


def test_a_fresh_matcher_counts_no_event_from_before_its_registration_and_the_others_do() -> None:
    world = World.after(("a", 50), ("b", 60), ("a", 100), ("a", 99))
    w = world.register("w", event("a") | event("b"), 10, at_ms=100, generation=1, fresh=(0,))
    world.append_all(("a", 101), ("b", 99))
    world.run()
    world.run()
    assert world.reached(w) == [1, 2, 4, 5]


def test_an_event_that_meets_a_fresh_matcher_and_another_counts_for_the_other() -> None:
    world = World()
    condition = event("a", label="one") | event("a", label="two")
    w = world.register("w", condition, 10, at_ms=100, generation=1, fresh=(0,))
    world.append_all(("a", 50), ("a", 100))
    world.run()
    assert [[t.matchers for t in match.targets] for _, match in world.matches] == [[(1,)], [(0, 1)]]
    assert world.reached(w) == [0, 1]


def test_past_events_come_before_live_ones_and_each_once() -> None:
    world = World.after(*(("a", n) for n in range(4)))
    back = world.register("back", "a", 1)
    world.run(live=0, back=1)
    assert world.task().scans.metadata() == [(0, 1, 2)]
    world.append("a", 9)
    world.run(back=1)  # the new one is not given to a registration that has not seen those before it
    assert world.reached(back) == [1, 2]
    world.run()
    world.append("a", 10)
    world.run()
    assert world.reached(back) == [1, 2, 3, 4, 5]


def test_others_are_live_while_one_scans() -> None:
    world = World.after(("a", 0), ("a", 1))
    now = world.register("now", "a", 100)
    world.run(back=0)
    back = world.register("back", "a", 0)
    world.append("a", 100)
    world.run(back=1)
    assert world.reached(now) == [2]
    assert world.reached(back) == [0]


def test_a_scan_that_reads_beyond_the_live_position_leaves_that_to_live_reading() -> None:
    world = World.after(("a", 0))
    world.append("a", 1)
    back = world.register("back", "a", 0)
    world.run(live=0)
    assert world.reached(back) == [0]
    world.run()
    assert world.reached(back) == [0, 1]


def test_a_scan_ends_where_the_reader_finds_nothing_more_below_the_live_position() -> None:
    """The live position may stand behind markers that no reader ever sees."""
    world = World()
    world.append("a", 0)
    world.register("w", "a", 0)
    world.end = 7
    world.committed = Committed(7, '{"v":1,"R":1,"g":[[0,1,2]],"c":"","t":"t"}')
    task = world.task()
    world.run_pass(task, 0, FAR)
    assert not task.scans


def test_registrations_beyond_r_are_not_live_yet() -> None:
    """A new owner may have read more of the registry than the committed R says."""
    world = World()
    w = world.register("w", "a", 0)
    record = world.append("a", 5)
    task, outputs = world.task(), Outputs(CONFIG, 1)
    task.match(record, outputs, 0)
    assert outputs.records == []
    world.commit(task, outputs)
    world.run()
    assert world.reached(w) == [0]


def test_while_there_is_no_room_for_another_scan_r_waits() -> None:
    world = World.after(*(("a", n) for n in range(10)))
    made = []
    for n in range(scans.MAX_GROUPS + 6):
        made.append(world.register(f"w{n}", "a", n % 10))
        made.append(world.register(f"live{n}", "a", FAR))  # between them, so that no group is joined
        task = world.task()
        while task.needs_apply(world.registry) and not task.scans.full:
            until = task.applied + 1
            task.apply(until, (until // 2) % 10 if until % 2 else None)
        world.commit(task, Outputs(CONFIG, 1))
    assert len(world.task().scans.groups) == scans.MAX_GROUPS
    assert world.task().applied < world.registry.position
    for _ in range(30):
        world.run()
    assert world.task().applied == world.registry.position
    assert [world.reached(w) for w in made[::2]] == [
        list(range(n % 10, 10)) for n in range(scans.MAX_GROUPS + 6)
    ]


def test_a_rollback_goes_back_to_what_is_committed() -> None:
    world = World()
    world.append_all(*(("a", n) for n in range(6)))
    world.run(live=3)
    w = world.register("w", "a", 0)
    task = world.task()
    outputs = world.run_pass(task, 2, 2)
    assert outputs.records
    task.rollback()
    world.scanning.drop()
    assert (task.position, task.applied, task.scans.metadata()) == (3, 0, [])
    assert not task.changed
    world.commit(task, world.run_pass(task, FAR, FAR))
    world.commit(task, world.run_pass(task, FAR, FAR))
    assert world.reached(w) == [0, 1, 2, 3, 4, 5]


def test_metadata_say_who_committed_and_of_which_topic() -> None:
    world = World()
    world.append("a", 1)
    world.register("w", "a", 0)
    task = world.run()
    assert json.loads(world.committed.metadata) == {"v": 1, "R": 1, "g": [], "c": "me", "n": 1, "t": "t"}
    assert task.last == world.task().last == ("me", 1)


def test_a_first_commit_is_due_even_where_nothing_was_read() -> None:
    world = World()
    assert world.task().changed
    world.run()
    assert not world.task().changed


def test_a_registry_position_alone_is_no_change_but_behind() -> None:
    world = World()
    world.run()
    world.register("w", "a", 0)
    task = world.task()
    world.run_pass(task, 0, 0)
    assert (task.changed, task.behind) == (False, True)


# -- all of it


ACTIONS = st.one_of(
    st.tuples(st.just("append"), st.sampled_from(["a", "ab", "aaba"]), st.integers(-2, 3), st.integers(0, 2)),
    st.tuples(st.just("register"), st.sampled_from("aab"), st.integers(-9, 2), st.just(0)),
    st.tuples(
        st.just("pass"),
        st.sampled_from(["commit", "commit", "commit", "crash", "rollback"]),
        st.integers(0, 3),
        st.integers(0, 5),
    ),
)


@pytest.mark.parametrize(("positions", "turn", "full"), [(4, 20_000, 10_000), (2, 2, 10_000), (1, 1, 3)])
@settings(max_examples=250, deadline=None)
@given(st.lists(ACTIONS, max_size=50))
def test_every_event_since_reaches_each_registration_once_and_in_order(
    positions: int, turn: int, full: int, actions: Sequence[tuple[str, str, int, int]]
) -> None:
    """Any log with gaps and clocks that go back, registrations anywhere, slices of any size, any crash."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scans, "MAX_POSITIONS", positions)
        patch.setattr(scans, "TURN", turn)
        patch.setattr(outputs_module, "MAX_PASS_RECORDS", full)
        _run(actions)


def _run(actions: Sequence[tuple[str, str, int, int]]) -> None:
    world = World()
    made: list[tuple[Registration, str]] = []
    task, clock = world.task(), 100
    for what, which, one, other in actions:
        if what == "append":
            for event_type in which:
                clock += one
                world.append(event_type, clock, gap=other)
        elif what == "register":
            made.append((world.register(f"w{len(made)}", which, clock + one), which))
        else:
            outputs = world.run_pass(task, live=one, back=other)
            if which == "commit":
                world.commit(task, outputs)
            elif which == "crash":
                task = world.task()
            else:
                task.rollback()
                world.scanning.drop()
    for _ in range(2000):
        task = task if world.commits % 3 else world.task()
        world.commit(task, world.run_pass(task, 2, 2))
        if task.position >= world.end and not task.scans and not task.needs_apply(world.registry):
            break
    else:
        pytest.fail("the scans do not end")
    for registration, event_type in made:
        expected = [
            r.offset
            for r in world.records
            if dict(r.headers or ())["ce_type"] == event_type.encode()
            and r.timestamp_ms >= registration.since_ms
        ]
        assert world.reached(registration) == expected
