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
from interlock.conditions import EMPTY, Match, firing_id, step
from interlock.engine.bus import Committed, Record, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.errors import RecordError
from interlock.engine.protocol.outputs import Outputs
from interlock.engine.protocol.registry import Registry
from interlock.engine.protocol.trigger_task import TriggerTask
from interlock.engine.records import (
    MatchRecord,
    OffsetMetadata,
    Registration,
    RegistrationKey,
    Target,
    decode_json,
    encode_json,
    encode_msgpack,
    state_key,
)
from interlock.engine.sizes import MAX_INTERNAL_BYTES

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "nowhere"})
TP = TopicPartition("b-trigger", 0)
STATE = TopicPartition("b-state", 0)
SUBSCRIPTIONS = TopicPartition("b-subscription", 0)
PAIR = event("x", by="data.k") & event("y", by="data.k")
EITHER = event("x") & (event("y") | event("z"))
TWO_PATHS = event("x", by="data.k") & event("x", by="data.l")


class Log:
    """What is committed: state records, firings, dead letters, and the offset with its metadata."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.committed = Committed(0, "")
        self.states: list[Record] = []
        self.firings: list[dict[str, Any]] = []
        self.dead: list[Any] = []

    def task(self) -> TriggerTask:
        """A task made anew, and recovered from what is committed."""
        task = TriggerTask(TP, self.committed, self.registry)
        for record in self.states:
            task.load(record)
        task.recovered()
        return task

    def commit(self, task: TriggerTask, outputs: Outputs) -> None:
        task.commit_into(outputs, "me")
        for o in outputs.records:
            if o.topic == "b-state":
                self.states.append(Record(STATE, len(self.states), 0, o.key, o.value, None))
            elif o.topic == "b-action":
                self.firings.append(json.loads(o.value or b""))
            else:
                self.dead.append(o)
        self.committed = outputs.offsets[TP]

    def run(self, *matches: MatchRecord) -> None:
        """All matches from the committed offset on, in one transaction."""
        task, outputs = self.task(), Outputs(CONFIG)
        for n, match in enumerate(matches, self.committed.offset):
            task.process(at(n), match, outputs, 0.0)
        self.commit(task, outputs)

    def live_states(self) -> dict[bytes, bytes]:
        """The state topic as it is once compacted."""
        last = {r.key or b"": r.value for r in self.states}
        return {key: value for key, value in last.items() if value is not None}


def at(offset: int) -> Record:
    return Record(TP, offset, 0, None, b"", None)


def register(registry: Registry, offset: int, registration: Registration, nonce: str = "n") -> Registration:
    key = RegistrationKey(registration.incarnation, nonce).encode()
    registry.apply(Record(SUBSCRIPTIONS, offset, 0, key, encode_json(registration), None))
    return registration


def unregister(registry: Registry, offset: int, registration: Registration, nonce: str = "n") -> None:
    key = RegistrationKey(registration.incarnation, nonce).encode()
    registry.apply(Record(SUBSCRIPTIONS, offset, 0, key, None, None))


def met(origin: int, made: Event, *targets: Target, partition: int = 0) -> MatchRecord:
    return MatchRecord(1, "b-event", partition, origin, 1000 + origin, made, list(targets))


def an_event(event_type: str, event_id: str, **data: Any) -> Event:
    return Event.of(event_type, "/s", id=event_id, data=data or None)


def test_a_pair_fires_once_and_closes_and_its_states_are_nulled() -> None:
    log = Log(Registry())
    w = register(log.registry, 0, Registration.of("w", PAIR, "d", 0))
    x, y = Target(0, w.incarnation, (0,), "d"), Target(0, w.incarnation, (1,), "d")
    log.run(met(0, an_event("x", "1"), x))
    assert log.firings == []
    log.run(met(1, an_event("y", "2"), y))
    [fired] = log.firings
    assert (fired["subscription"], fired["state"], fired["firing"]["key"]) == ("w", "fired", "d")
    assert fired["firing"]["origins"]["x"] == [{"topic": "b-event", "partition": 0, "offset": 0}]
    log.run(met(2, an_event("x", "3"), x), met(3, an_event("y", "4"), y))
    assert len(log.firings) == 1
    assert set(log.live_states()) == {state_key(w.incarnation, None)}
    unregister(log.registry, 1, w)
    log.run()
    assert log.live_states() == {}


def test_an_origin_at_or_below_its_sources_mark_is_dropped_after_a_rewind() -> None:
    log = Log(Registry())
    w = register(log.registry, 0, Registration.of("w", EITHER, None, 0))
    x, y = Target(0, w.incarnation, (0,), ""), Target(0, w.incarnation, (1,), "")
    log.run(met(5, an_event("x", "1"), x))
    before = log.live_states()
    log.run(met(5, an_event("x", "other"), x), met(4, an_event("y", "2"), y))
    assert (log.firings, log.live_states()) == ([], before)
    log.run(met(4, an_event("y", "2"), y, partition=1))  # another source has its own mark
    assert len(log.firings) == 1


def test_an_event_that_reaches_a_registration_under_two_keys_enters_the_state_of_each() -> None:
    log = Log(Registry())
    w = register(log.registry, 0, Registration.of("w", TWO_PATHS, None, 0))
    both = met(
        0,
        an_event("x", "1", k="p", l="q"),
        Target(0, w.incarnation, (0,), "p"),
        Target(0, w.incarnation, (1,), "q"),
    )
    log.run(both)
    assert {state_key(w.incarnation, key) for key in ("p", "q")} <= log.live_states().keys()
    log.run(met(1, an_event("x", "2", k="q"), Target(0, w.incarnation, (0,), "q")))
    assert [f["firing"]["key"] for f in log.firings] == ["q"]


def test_a_target_that_is_gone_or_replaced_is_dropped() -> None:
    log = Log(Registry())
    w = register(log.registry, 0, Registration.of("w", event("x"), None, 0))
    register(log.registry, 1, Registration.of("w", event("x"), None, 7))
    log.run(met(0, an_event("x", "1"), Target(0, w.incarnation, (0,), "")))
    assert (log.firings, log.states) == ([], [])


@pytest.mark.parametrize("read_at_once", [True, False])
def test_an_incarnation_registered_again_starts_anew_at_its_new_place(read_at_once: bool) -> None:
    """A wait timed out and its task was cleared: matches of the old place lie in between."""
    log = Log(Registry())
    w = register(log.registry, 0, Registration.of("w", EITHER, None, 0))
    old_x, new_x = Target(0, w.incarnation, (0,), ""), Target(2, w.incarnation, (0,), "")
    new_y = Target(2, w.incarnation, (1,), "")
    log.run(met(3, an_event("x", "1"), old_x))
    task, outputs = log.task(), Outputs(CONFIG)
    unregister(log.registry, 1, w)
    task.forget([w.incarnation])
    if not read_at_once:
        log.commit(task, outputs)
        task, outputs = log.task(), Outputs(CONFIG)
    register(log.registry, 2, w, "again")
    offset = log.committed.offset
    task.process(at(offset), met(9, an_event("x", "9"), old_x), outputs, 0.0)
    task.process(at(offset + 1), met(3, an_event("x", "1"), new_x), outputs, 0.0)
    log.commit(task, outputs)
    log.run(met(4, an_event("y", "2"), new_y))
    [fired] = log.firings
    assert [o["offset"] for o in fired["firing"]["origins"]["x"]] == [3]


def test_states_of_registrations_that_went_while_nobody_owned_the_partition_are_nulled() -> None:
    log = Log(Registry())
    w = register(log.registry, 0, Registration.of("w", EITHER, None, 0))
    again = register(log.registry, 1, Registration.of("again", EITHER, None, 0))
    log.run(
        met(0, an_event("x", "1"), Target(0, w.incarnation, (0,), ""), Target(1, again.incarnation, (0,), ""))
    )
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
        (b"NaN", False),
    ],
)
def test_data_that_not_every_hop_can_carry_are_fired_as_base64(data: bytes, travels: bool) -> None:
    log = Log(Registry())
    w = register(log.registry, 0, Registration.of("w", event("x"), None, 0))
    made = Event.of("x", "/s", id="1", data=data, datacontenttype="application/json")
    log.run(met(0, made, Target(0, w.incarnation, (0,), "")))
    [form] = log.firings[0]["firing"]["events"]["x"]
    if travels:
        assert form["data"] == json.loads(data)
    else:
        assert base64.b64decode(form["data_base64"]) == data


def test_a_firing_larger_than_a_record_may_be_refers_to_its_data() -> None:
    log = Log(Registry())
    condition = event("t0")
    for n in range(1, 9):
        condition = condition & event(f"t{n}")
    w = register(log.registry, 0, Registration.of("w", condition, None, 0))
    blob = b"\x01" * (900 * 1024)  # in base64 a third larger than in the state
    for n in range(9):
        made = Event.of(f"t{n}", "/s", id=str(n), data=blob, datacontenttype="application/octet-stream")
        log.run(met(n, made, Target(0, w.incarnation, (n,), "")))
    [fired] = log.firings
    assert len(json.dumps(fired)) < MAX_INTERNAL_BYTES
    forms = [form for together in fired["firing"]["events"].values() for form in together]
    assert len(forms) == 9
    assert any(form.get("dataref", "").startswith("kafka:b-event/0/") for form in forms)


def test_an_event_that_would_make_a_state_too_large_is_set_aside_and_the_wait_goes_on() -> None:
    log = Log(Registry())
    w = register(log.registry, 0, Registration.of("w", event("x") & event("y"), None, 0))
    big = Event.of("x", "/s", id="1", data=b"0" * MAX_INTERNAL_BYTES, datacontenttype="a/b")
    log.run(met(0, big, Target(0, w.incarnation, (0,), "")))
    [dead] = log.dead
    assert dict(dead.headers)["interlock_stage"] == b"trigger"
    log.run(
        met(1, an_event("x", "2"), Target(0, w.incarnation, (0,), "")),
        met(2, an_event("y", "3"), Target(0, w.incarnation, (1,), "")),
    )
    assert len(log.firings) == 1


def test_a_state_that_cannot_be_read_is_an_error_that_names_its_record() -> None:
    task = TriggerTask(TP, Committed(0, ""), Registry())
    for key, value in ((b"inc/k", b"rubbish"), (b"inc", b"rubbish"), (b"\xff", b"x")):
        with pytest.raises(RecordError, match=r"b-state\[0\]@4|state key"):
            task.load(Record(STATE, 4, 0, key, value, None))


def test_a_record_that_is_no_match_is_an_error_that_names_it() -> None:
    for value in (
        None,
        b"",
        b"rubbish",
        encode_msgpack(MatchRecord(9, "t", 0, 0, 0, an_event("x", "1"), [])),
    ):
        with pytest.raises(RecordError, match=r"b-trigger\[0\]@0"):
            TriggerTask.decode(at(0)._replace(value=value))


def test_a_match_without_targets_needs_nothing_of_the_registry() -> None:
    task = TriggerTask(TP, Committed(0, ""), Registry())
    assert task.needs_registry(met(0, an_event("x", "1"))) == 0


def test_the_committed_metadata_says_how_far_the_registry_was_read() -> None:
    log = Log(Registry())
    register(log.registry, 41, Registration.of("w", EITHER, None, 0))
    log.run()
    assert decode_json(OffsetMetadata, log.committed.metadata, "x").R == 42
    assert log.task().must_read_registry_to == 42


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
SLICES = st.lists(st.tuples(st.integers(1, 6), st.booleans()), min_size=1, max_size=20)


@settings(max_examples=150, deadline=None)
@given(MATCHES, SLICES)
def test_any_split_of_the_log_with_crashes_gives_the_firings_of_a_plain_fold(
    steps: Sequence[tuple[str, int, str, int, int, bool]], slices: Sequence[tuple[int, bool]]
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
        target = Target(
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
        size, crash = slices[turn] if turn < len(slices) else (len(matches), False)
        turn += 1
        outputs = Outputs(CONFIG)
        start = log.committed.offset
        for n in range(start, min(start + size, len(matches))):
            task.process(at(n), matches[n], outputs, 0.0)
        if crash:
            task = log.task()
        else:
            log.commit(task, outputs)
    assert {f["subscription"]: f["firing"]["id"] for f in log.firings} == expected
    assert len(log.firings) == len(expected)
