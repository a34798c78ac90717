"""The trigger hop: the same firings however its log is split, and whatever crashes in between."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interlock import Event, event
from interlock.conditions import EMPTY, Match, absent, count, firing_id, step
from interlock.engine.bus import Record
from interlock.engine.errors import RecordError
from interlock.engine.protocol.tasks.trigger_task import TriggerTask
from interlock.engine.records import (
    MatchRecord,
    MatchTarget,
    OffsetMetadata,
    Registration,
    StateRecord,
    decode_json,
    encode_msgpack,
    state_key,
)
from interlock.engine.records.sizes import MAX_INTERNAL_BYTES
from interlock.engine.registry.registry import Registry
from msgspec.structs import replace

from tests.unit.engine.protocol.trigger_log import (
    EITHER,
    PAIR,
    STATE,
    TWO_PATHS,
    Log,
    an_event,
    at,
    log_of_durable,
    log_of_wait,
    met,
    pair,
    register,
    unregister,
)


def test_a_pair_fires_once_and_closes_and_its_states_are_nulled() -> None:
    log, w = log_of_wait(PAIR, "d")
    x, y = MatchTarget(0, w.incarnation, (0,), "d"), MatchTarget(0, w.incarnation, (1,), "d")
    log.run(met(0, an_event("x", "1"), x))
    assert log.firings == []
    log.run(met(1, an_event("y", "2"), y))
    [fired] = log.firings
    assert (fired["subscription"], fired["state"], fired["firing"]["key"]) == ("w", "fired", "d")
    [origin] = fired["firing"]["origins"]["x"]
    assert origin == {"topic": "b-event", "partition": 0, "offset": 0, "timestamp_ms": 1000}
    log.run(met(2, an_event("x", "3"), x), met(3, an_event("y", "4"), y))
    assert len(log.firings) == 1
    assert set(log.live_states()) == {state_key(w.incarnation, None)}
    assert (log.keys, log.task().open_keys) == ([b"w"], 0)
    unregister(log.registry, 1, w)
    log.run()
    assert log.live_states() == {}


def test_a_value_that_was_counted_is_not_counted_again_after_a_recovery() -> None:
    """Q5: values come with the match and stay in the stored state."""
    log, w = log_of_wait(count(event("x"), 3, distinct="data.run"))
    for offset, run in enumerate(("r1", "r2", "r2", "r1")):
        log.run(met(offset, an_event("x", str(offset)), MatchTarget(0, w.incarnation, (0,), "", {0: run})))
    assert log.firings == []
    log.run(met(4, an_event("x", "4"), MatchTarget(0, w.incarnation, (0,), "", {0: "r3"})))
    [fired] = log.firings
    assert [origin["offset"] for origin in fired["firing"]["origins"]["x"]] == [2, 3, 4]


def test_a_firing_has_the_key_as_its_first_event_writes_it() -> None:
    """K17: read from its data, or passed with the match if they did not travel."""
    number, day = "19991231", "1999-12-31"
    log, w = log_of_wait(PAIR)
    log.run(met(0, an_event("x", "1"), MatchTarget(0, w.incarnation, (0,), day, None, number)))
    log.run(met(1, an_event("y", "2", k=day), MatchTarget(0, w.incarnation, (1,), day)))
    other, v = log_of_wait(PAIR)
    other.run(met(0, an_event("x", "1", k=number), MatchTarget(0, v.incarnation, (0,), day)))
    other.run(met(1, an_event("y", "2", k=day), MatchTarget(0, v.incarnation, (1,), day)))
    for [fired] in (log.firings, other.firings):
        assert (fired["firing"]["key"], fired["firing"]["written"]) == (day, number)


def test_an_origin_at_or_below_its_sources_mark_is_dropped_after_a_rewind() -> None:
    log, w = log_of_wait(EITHER)
    x, y = MatchTarget(0, w.incarnation, (0,), ""), MatchTarget(0, w.incarnation, (1,), "")
    log.run(met(5, an_event("x", "1"), x))
    before = log.live_states()
    log.run(met(5, an_event("x", "other"), x), met(4, an_event("y", "2"), y))
    assert (log.firings, log.live_states()) == ([], before)
    log.run(met(4, an_event("y", "2"), y, partition=1))  # another source has its own mark
    assert len(log.firings) == 1


def test_an_event_that_reaches_a_registration_under_two_keys_enters_the_state_of_each() -> None:
    log, w = log_of_wait(TWO_PATHS)
    both = MatchTarget(0, w.incarnation, (0,), "p"), MatchTarget(0, w.incarnation, (1,), "q")
    log.run(met(0, an_event("x", "1", k="p", l="q"), *both))
    assert {state_key(w.incarnation, key) for key in ("p", "q")} <= log.live_states().keys()
    log.run(met(1, an_event("x", "2", k="q"), MatchTarget(0, w.incarnation, (0,), "q")))
    assert [f["firing"]["key"] for f in log.firings] == ["q"]


def test_a_target_that_is_gone_or_replaced_is_dropped() -> None:
    log, w = log_of_wait(event("x"))
    register(log.registry, 1, Registration.of("w", event("x"), None, 7))
    log.run(met(0, an_event("x", "1"), MatchTarget(0, w.incarnation, (0,), "")))
    assert (log.firings, log.states) == ([], [])


def test_a_match_of_a_removed_registration_does_not_count_for_the_one_registered_again() -> None:
    """Scans of both stood at the event: one match names both places."""
    log, w = log_of_wait(event("x"))
    unregister(log.registry, 1, w)
    register(log.registry, 2, w, "again")
    places = [MatchTarget(place, w.incarnation, (0,), "") for place in (0, 2)]
    log.run(met(3, an_event("x", "1"), *places))
    assert len(log.firings) == 1


@pytest.mark.parametrize("read_at_once", [True, False])
def test_an_incarnation_registered_again_starts_with_no_state(read_at_once: bool) -> None:
    """A wait timed out and its task was cleared: matches of the old place lie in between."""
    log, w = log_of_wait(EITHER)
    old_x, new_x = MatchTarget(0, w.incarnation, (0,), ""), MatchTarget(2, w.incarnation, (0,), "")
    new_y = MatchTarget(2, w.incarnation, (1,), "")
    log.run(met(3, an_event("x", "1"), old_x))
    task, outputs = log.task(), log.outputs()
    unregister(log.registry, 1, w)
    task.forget([w.incarnation])
    if not read_at_once:
        log.commit(task, outputs)
        task, outputs = log.task(), log.outputs()
    register(log.registry, 2, w, "again")
    offset = log.committed.offset
    task.process(at(offset), met(9, an_event("x", "9"), old_x), outputs, 0)
    task.process(at(offset + 1), met(3, an_event("x", "1"), new_x), outputs, 0)
    log.commit(task, outputs)
    log.run(met(4, an_event("y", "2"), new_y))
    [fired] = log.firings
    assert [o["offset"] for o in fired["firing"]["origins"]["x"]] == [3]


def test_states_of_registrations_that_went_while_nobody_owned_the_partition_are_nulled() -> None:
    log, w = log_of_wait(EITHER)
    again = register(log.registry, 1, Registration.of("again", EITHER, None, 0))
    both = MatchTarget(0, w.incarnation, (0,), ""), MatchTarget(1, again.incarnation, (0,), "")
    log.run(met(0, an_event("x", "1"), *both))
    unregister(log.registry, 2, w)
    unregister(log.registry, 3, again)
    register(log.registry, 4, again, "m")
    log.run()
    assert log.live_states() == {}


HUGE = 2**70


@pytest.mark.parametrize(
    ("data", "travels"),
    [
        (b'{"n": [1, -2.5, true, null, "\xc3\xa4"]}', True),
        (b'"' + b"\\u0000" + b'"', False),
        (b'{"\\u0000": 1}', False),
        (str(HUGE).encode(), False),
        (b"[" * 64 + b"]" * 64, True),
        (b"[" * 65 + b"]" * 65, False),
        (b"[" * 900 + b"]" * 900, False),
        (b'[{"a":' * 32 + b"1" + b"}]" * 32, True),
        (b'[{"a":' * 33 + b"1" + b"}]" * 33, False),
        (b"NaN", False),
    ],
)
def test_data_that_not_every_hop_can_carry_are_fired_as_base64(data: bytes, travels: bool) -> None:
    log, w = log_of_wait(event("x"))
    made = Event.of("x", "/s", id="1", data=data, datacontenttype="application/json")
    log.run(met(0, made, MatchTarget(0, w.incarnation, (0,), "")))
    [form] = log.firings[0]["firing"]["events"]["x"]
    if travels:
        assert form["data"] == json.loads(data)
    else:
        assert base64.b64decode(form["data_base64"]) == data


def test_a_firing_larger_than_a_record_may_be_refers_to_its_data() -> None:
    log = Log()
    condition = event("t0")
    for n in range(1, 9):
        condition = condition & event(f"t{n}")
    w = register(log.registry, 0, Registration.of("w", condition, None, 0))
    blob = b"\x01" * (900 * 1024)  # in base64 a third larger than in the state
    for n in range(9):
        made = Event.of(f"t{n}", "/s", id=str(n), data=blob, datacontenttype="application/octet-stream")
        log.run(met(n, made, MatchTarget(0, w.incarnation, (n,), "")))
    [fired] = log.firings
    assert len(json.dumps(fired)) < MAX_INTERNAL_BYTES
    forms = [form for together in fired["firing"]["events"].values() for form in together]
    assert len(forms) == 9
    assert any(form.get("dataref", "").startswith("kafka:b-event/0/") for form in forms)


def test_an_event_that_would_make_a_state_too_large_is_dead_lettered_and_the_wait_continues() -> None:
    log, w = log_of_wait(event("x") & event("y"))
    big = Event.of("x", "/s", id="1", data=b"0" * MAX_INTERNAL_BYTES, datacontenttype="a/b")
    log.run(met(0, big, MatchTarget(0, w.incarnation, (0,), "")))
    [dead] = log.dead
    assert dict(dead.headers)["interlock_stage"] == b"trigger"
    log.run(
        met(1, an_event("x", "2"), MatchTarget(0, w.incarnation, (0,), "")),
        met(2, an_event("y", "3"), MatchTarget(0, w.incarnation, (1,), "")),
    )
    assert len(log.firings) == 1


def test_a_record_that_is_no_match_is_an_error_that_names_it() -> None:
    for value in (
        None,
        b"",
        b"rubbish",
        encode_msgpack(MatchRecord(9, "t", 0, 0, 0, an_event("x", "1"), [])),
    ):
        with pytest.raises(RecordError, match=r"b-trigger\[0\]@0"):
            TriggerTask.decode(replace(at(0), value=value))


def test_a_match_without_targets_needs_nothing_of_the_registry() -> None:
    task = Log().task()
    assert task.needs_registry(met(0, an_event("x", "1"))) == 0


def test_the_committed_metadata_says_how_far_the_registry_was_applied_and_who_committed() -> None:
    log = Log()
    register(log.registry, 41, Registration.of("w", EITHER, None, 0))
    task, outputs = log.task(), log.outputs()
    assert task.needs_apply
    task.apply()
    task.topic_id = "t1"
    log.commit(task, outputs)
    expected = OffsetMetadata(applied=42, committer="me", transaction=1, topic_id="t1")
    assert decode_json(OffsetMetadata, log.committed.metadata, "x") == expected
    task = log.task()
    assert (task.applied, task.last, task.topic_id, task.needs_apply) == (42, ("me", 1), "t1", False)


def test_a_subscription_with_one_key_writes_one_record_a_step() -> None:
    log, w = log_of_wait(PAIR, "p")
    log.run(met(0, an_event("x", "1"), MatchTarget(0, w.incarnation, (0,), "p")))
    assert [r.key for r in log.states] == [state_key(w.incarnation, None)]
    log.run(met(1, an_event("y", "2"), MatchTarget(0, w.incarnation, (1,), "p")))
    assert [f["firing"]["key"] for f in log.firings] == ["p"]


# -- what raises


def test_a_target_that_raises_is_dead_lettered_and_the_others_are_stepped() -> None:
    log = Log()
    bad = register(log.registry, 0, Registration.of("bad", event("x"), None, 0))
    good = register(log.registry, 1, Registration.of("good", event("x"), None, 0))
    both = MatchTarget(0, bad.incarnation, (7,), ""), MatchTarget(1, good.incarnation, (0,), "")
    log.run(met(0, an_event("x", "1"), *both))
    assert [f["subscription"] for f in log.firings] == ["good"]
    [dead] = log.dead
    assert b"'bad': ConditionError: a match names matchers (7,)" in dict(dead.headers)["interlock_reason"]


def test_a_key_whose_tick_raises_is_kept_and_the_others_get_theirs() -> None:
    log, d = log_of_durable(absent(event("x", by="data.k"), "1s"))
    log.run(pair(d, 0, "x", "1", "p"), pair(d, 1, "x", "2", "q"))
    broken = StateRecord(1, 0, 10, b"\x91\x02rubbish")
    log.states.append(Record(STATE, 99, 0, state_key(d.incarnation, "p"), encode_msgpack(broken), None))
    log.tick(5000)
    assert [f["firing"]["key"] for f in log.firings] == ["q"]
    task = log.task()
    assert task.open_keys == 2
    assert task.due_at() > 5000


def test_control_records_at_the_end_move_the_position_which_is_to_be_committed() -> None:
    log = Log()
    task = log.task()
    assert not task.changed
    task.at_end(7)
    assert task.changed
    log.commit(task, log.outputs())
    assert (log.committed.offset, task.changed) == (7, False)
    task.at_end(5)
    assert task.position == 7


# -- any log, any split, any crash

KEYS = ("p", "q")
TYPES = ("x", "y", "z")
CONDITIONS = {"either": EITHER, "pair": PAIR, "again": PAIR}
MATCHES = st.lists(
    st.tuples(
        st.sampled_from(sorted(CONDITIONS)),
        st.integers(0, 2),  # which matcher, of those there are
        st.sampled_from(KEYS),
        st.integers(0, 4),  # the event's id: repeats happen
        st.integers(0, 1),  # its source partition
        st.booleans(),  # a rewind of its source: the origin comes again
    ),
    max_size=40,
)
ENDS = st.sampled_from(["commit", "crash", "abort"])
SLICES = st.lists(st.tuples(st.integers(1, 6), ENDS), min_size=1, max_size=20)


@settings(max_examples=150, deadline=None)
@given(MATCHES, SLICES)
def test_any_split_of_the_log_with_crashes_and_aborts_gives_the_firings_of_a_plain_fold(
    steps: Sequence[tuple[str, int, str, int, int, bool]], slices: Sequence[tuple[int, str]]
) -> None:
    registry = Registry()
    registrations = {
        name: register(registry, n, Registration.of(name, condition, None, 0))
        for n, (name, condition) in enumerate(sorted(CONDITIONS.items()))
    }
    matches, once, next_origin = [], [], [0, 0]
    for name, number, key, event_id, partition, rewound in steps:
        condition, registration = CONDITIONS[name], registrations[name]
        number %= len(condition.matchers)
        key = key if condition.keyed else ""
        made = Event.of(TYPES[number], "/s", id=str(event_id), data={"k": key})
        target = MatchTarget(
            registry.get(registration.incarnation).offset, registration.incarnation, (number,), key
        )
        matches.append(met(next_origin[partition], made, target, partition=partition))
        once.append((name, matches[-1]))
        if rewound:
            matches.append(matches[-1])
        next_origin[partition] += 1

    # the plain fold: no log, no tasks, each origin once
    states: dict[tuple[str, str], Any] = {}
    expected: dict[str, str] = {}
    for name, match in once:
        target, condition = match.targets[0], CONDITIONS[name]
        entered = Match(
            match.event, target.matchers, match.topic, match.partition, match.offset, match.timestamp_ms
        )
        state, firings = step(condition, states.get((name, target.key), EMPTY), entered)
        states[name, target.key] = state
        if firings and name not in expected:
            expected[name] = firing_id(
                target.incarnation, target.key, firings[0].outcome, firings[0].taking_part
            )

    log, turn = Log(registry), 0
    task = log.task()
    while log.committed.offset < len(matches):
        # after the last slice of the example: all that is left, and no crash
        size, end = slices[turn] if turn < len(slices) else (len(matches), "commit")
        turn += 1
        outputs = log.outputs()
        start = log.committed.offset
        for n in range(start, min(start + size, len(matches))):
            task.process(at(n), matches[n], outputs, 0)
        if end == "commit":
            log.commit(task, outputs)
        elif end == "crash":
            task = log.task()
        else:
            task.commit_into(outputs, "me", 0)
            task.rollback()
            assert (task.position, task.changed) == (start, False)
        assert task.open_keys == log.task().open_keys
    assert {f["subscription"]: f["firing"]["id"] for f in log.firings} == expected
    assert len(log.firings) == len(expected)
