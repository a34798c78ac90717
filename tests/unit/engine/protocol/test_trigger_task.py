"""The trigger hop: the same firings however its log is split, and whatever crashes in between."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interlock import Event, event
from interlock.conditions import EMPTY, Condition, Match, Part, State, absent, firing_id, step
from interlock.conditions.seen import SEEN_MS
from interlock.engine.bus import Committed, Record, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.errors import RecordError
from interlock.engine.protocol import outputs as outputs_module
from interlock.engine.protocol.outputs import Outputs
from interlock.engine.protocol.registry import Registry
from interlock.engine.protocol.stats import Stats
from interlock.engine.protocol.trigger_task import TriggerTask
from interlock.engine.records import (
    DEFAULT_MAX_KEYS,
    MatchRecord,
    MetaRecord,
    OffsetMetadata,
    Registration,
    RegistrationKey,
    StateRecord,
    Target,
    decode_json,
    decode_msgpack,
    encode_json,
    encode_msgpack,
    partition_of,
    state_key,
)
from interlock.engine.sizes import MAX_INTERNAL_BYTES

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "nowhere"})
TP = TopicPartition("b-trigger", 0)
STATE = TopicPartition("b-state", 0)
SUBSCRIPTIONS = TopicPartition("b-subscription", 0)
PAIR = event("x", by="data.k") & event("y", by="data.k")
EITHER = event("x") & (event("y") | event("z"))
TTL = 86_400_000
HALVES = ((0, "x"), (1, "y"))
TWO_PATHS = event("x", by="data.k") & event("x", by="data.l")


class Log:
    """What is committed: state records, firings, dead letters, and the offset with its metadata."""

    def __init__(self, registry: Registry | None = None, version: int = 2, partitions: int = 1) -> None:
        self.registry = registry or Registry()
        self.version, self.partitions = version, partitions
        self.committed = Committed(0, "")
        self.states: list[Record] = []
        self.firings: list[dict[str, Any]] = []
        self.keys: list[bytes | None] = []
        self.dead: list[Any] = []
        self.commits = 0
        self.stats = Stats()

    def task(self) -> TriggerTask:
        """A task made anew, and recovered from what is committed."""
        task = TriggerTask(TP, self.committed, self.registry, self.partitions, TTL, self.stats)
        for record in self.states:
            task.load(record)
        task.recovered()
        return task

    def outputs(self) -> Outputs:
        return Outputs(CONFIG, self.version)

    def commit(self, task: TriggerTask, outputs: Outputs) -> None:
        self.commits += 1
        task.commit_into(outputs, "me", self.commits)
        for o in outputs.records:
            if o.topic == "b-state":
                self.states.append(Record(STATE, len(self.states), 0, o.key, o.value, None))
            elif o.topic == "b-action":
                self.firings.append(json.loads(o.value or b""))
                self.keys.append(o.key)
            else:
                self.dead.append(o)
        self.committed = outputs.offsets[TP]
        task.committed()

    def run(self, *matches: MatchRecord) -> None:
        """All matches from the committed offset on, in one transaction."""
        task, outputs = self.task(), self.outputs()
        for n, match in enumerate(matches, self.committed.offset):
            task.process(at(n), match, outputs, 0)
        self.commit(task, outputs)

    def tick(self, until_ms: int, incomplete: bool = False) -> None:
        """Registrations applied and a tick, in one transaction."""
        task, outputs = self.task(), self.outputs()
        task.apply()
        assert task.tick(until_ms, outputs, until_ms, seen_by_all, incomplete)
        self.commit(task, outputs)

    def live_states(self) -> dict[bytes, bytes]:
        """The state topic as it is once compacted."""
        last = {r.key or b"": r.value for r in self.states}
        return {key: value for key, value in last.items() if value is not None}


def seen_by_all(_: int) -> bool:
    return True


def at(offset: int) -> Record:
    return Record(TP, offset, 0, None, b"", None)


def register(
    registry: Registry, offset: int, registration: Registration, nonce: str = "n", at_ms: int = 0
) -> Registration:
    key = RegistrationKey(registration.incarnation, nonce).encode()
    registry.apply(Record(SUBSCRIPTIONS, offset, at_ms, key, encode_json(registration), None))
    return registration


def unregister(registry: Registry, offset: int, registration: Registration, nonce: str = "n") -> None:
    key = RegistrationKey(registration.incarnation, nonce).encode()
    registry.apply(Record(SUBSCRIPTIONS, offset, 0, key, None, None))


def met(origin: int, made: Event, *targets: Target, partition: int = 0) -> MatchRecord:
    return MatchRecord(1, "b-event", partition, origin, 1000 + origin, made, list(targets))


def an_event(event_type: str, event_id: str, **data: Any) -> Event:
    return Event.of(event_type, "/s", id=event_id, data=data or None)


def test_a_pair_fires_once_and_closes_and_its_states_are_nulled() -> None:
    log = Log()
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
    assert (log.keys, log.task().open_keys) == ([b"w"], 0)
    unregister(log.registry, 1, w)
    log.run()
    assert log.live_states() == {}


def test_an_origin_at_or_below_its_sources_mark_is_dropped_after_a_rewind() -> None:
    log = Log()
    w = register(log.registry, 0, Registration.of("w", EITHER, None, 0))
    x, y = Target(0, w.incarnation, (0,), ""), Target(0, w.incarnation, (1,), "")
    log.run(met(5, an_event("x", "1"), x))
    before = log.live_states()
    log.run(met(5, an_event("x", "other"), x), met(4, an_event("y", "2"), y))
    assert (log.firings, log.live_states()) == ([], before)
    log.run(met(4, an_event("y", "2"), y, partition=1))  # another source has its own mark
    assert len(log.firings) == 1


def test_an_event_that_reaches_a_registration_under_two_keys_enters_the_state_of_each() -> None:
    log = Log()
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
    log = Log()
    w = register(log.registry, 0, Registration.of("w", event("x"), None, 0))
    register(log.registry, 1, Registration.of("w", event("x"), None, 7))
    log.run(met(0, an_event("x", "1"), Target(0, w.incarnation, (0,), "")))
    assert (log.firings, log.states) == ([], [])


def test_what_an_event_met_of_a_removed_place_takes_nothing_from_the_place_registered_again() -> None:
    """Scans of both stood at the event: one match names both places."""
    log = Log()
    w = register(log.registry, 0, Registration.of("w", event("x"), None, 0))
    unregister(log.registry, 1, w)
    register(log.registry, 2, w, "again")
    places = [Target(place, w.incarnation, (0,), "") for place in (0, 2)]
    log.run(met(3, an_event("x", "1"), *places))
    assert len(log.firings) == 1


@pytest.mark.parametrize("read_at_once", [True, False])
def test_an_incarnation_registered_again_starts_anew_at_its_new_place(read_at_once: bool) -> None:
    """A wait timed out and its task was cleared: matches of the old place lie in between."""
    log = Log()
    w = register(log.registry, 0, Registration.of("w", EITHER, None, 0))
    old_x, new_x = Target(0, w.incarnation, (0,), ""), Target(2, w.incarnation, (0,), "")
    new_y = Target(2, w.incarnation, (1,), "")
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
    log = Log()
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
        (b'[{"a":' * 32 + b"1" + b"}]" * 32, True),
        (b'[{"a":' * 33 + b"1" + b"}]" * 33, False),
        (b"NaN", False),
    ],
)
def test_data_that_not_every_hop_can_carry_are_fired_as_base64(data: bytes, travels: bool) -> None:
    log = Log()
    w = register(log.registry, 0, Registration.of("w", event("x"), None, 0))
    made = Event.of("x", "/s", id="1", data=data, datacontenttype="application/json")
    log.run(met(0, made, Target(0, w.incarnation, (0,), "")))
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
        log.run(met(n, made, Target(0, w.incarnation, (n,), "")))
    [fired] = log.firings
    assert len(json.dumps(fired)) < MAX_INTERNAL_BYTES
    forms = [form for together in fired["firing"]["events"].values() for form in together]
    assert len(forms) == 9
    assert any(form.get("dataref", "").startswith("kafka:b-event/0/") for form in forms)


def test_an_event_that_would_make_a_state_too_large_is_set_aside_and_the_wait_goes_on() -> None:
    log = Log()
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
    task = TriggerTask(TP, Committed(0, ""), Registry(), 1, TTL, Stats())
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
    task = TriggerTask(TP, Committed(0, ""), Registry(), 1, TTL, Stats())
    assert task.needs_registry(met(0, an_event("x", "1"))) == 0


def test_the_committed_metadata_says_how_far_the_registry_was_applied_and_who_committed() -> None:
    log = Log()
    register(log.registry, 41, Registration.of("w", EITHER, None, 0))
    task, outputs = log.task(), log.outputs()
    assert task.needs_apply
    task.apply()
    task.topic_id = "t1"
    log.commit(task, outputs)
    expected = OffsetMetadata(R=42, c="me", n=1, t="t1")
    assert decode_json(OffsetMetadata, log.committed.metadata, "x") == expected
    task = log.task()
    assert (task.applied, task.last, task.topic_id, task.needs_apply) == (42, ("me", 1), "t1", False)


# -- formats


def test_format_1_is_written_as_its_readers_know_it_and_read_on_after_an_upgrade() -> None:
    log = Log(version=1)
    w = register(log.registry, 0, Registration.of("w", EITHER, None, 0))
    k = register(log.registry, 1, Registration.of("k", PAIR, None, 0))
    log.run(
        met(0, an_event("x", "1"), Target(0, w.incarnation, (0,), ""), Target(1, k.incarnation, (0,), "p"))
    )
    live = log.live_states()
    assert msgspec.msgpack.decode(live[state_key(w.incarnation, None)]) == [1, 0, {"b-event/0": 0}, False]
    assert State.decode(live[state_key(w.incarnation, "")]).matches[0].event.id == "1"
    assert State.decode(live[state_key(k.incarnation, "p")]).matches[0].event.id == "1"
    assert json.loads(log.committed.metadata)["v"] == 1
    log.version = 2
    log.run(met(1, an_event("x", "2"), Target(0, w.incarnation, (0,), "")))
    live = log.live_states()
    assert state_key(w.incarnation, "") not in live  # its state is in the meta record now
    meta = decode_msgpack(MetaRecord, live[state_key(w.incarnation, None)], "x")
    assert meta.v == 2
    assert meta.only is not None
    assert State.decode(meta.only[1]).matches[0].event.id == "2"
    y = an_event("y", "3")
    log.run(met(2, y, Target(0, w.incarnation, (1,), ""), Target(1, k.incarnation, (1,), "p")))
    assert sorted(f["subscription"] for f in log.firings) == ["k", "w"]
    assert {f["v"] for f in log.firings} == {2}


def test_a_subscription_with_one_key_writes_one_record_a_step() -> None:
    log = Log()
    w = register(log.registry, 0, Registration.of("w", PAIR, "p", 0))
    log.run(met(0, an_event("x", "1"), Target(0, w.incarnation, (0,), "p")))
    assert [r.key for r in log.states] == [state_key(w.incarnation, None)]
    log.run(met(1, an_event("y", "2"), Target(0, w.incarnation, (1,), "p")))
    assert [f["firing"]["key"] for f in log.firings] == ["p"]


# -- durable subscriptions


def durable(log: Log, condition: Condition = PAIR, *, offset: int = 0, **more: Any) -> Registration:
    return register(log.registry, offset, Registration.of("d", condition, None, 0, kind="durable", **more))


def pair(d: Registration, origin: int, event_type: str, event_id: str, key: str) -> MatchRecord:
    number = 0 if event_type == "x" else 1
    return met(origin, an_event(event_type, event_id), Target(0, d.incarnation, (number,), key))


def test_a_durable_subscription_fires_again_and_again_each_firing_under_its_own_key() -> None:
    log = Log()
    d = durable(log)
    log.run(pair(d, 0, "x", "1", "p"), pair(d, 1, "y", "2", "p"), pair(d, 2, "x", "3", "p"))
    log.run(pair(d, 3, "y", "4", "p"), pair(d, 4, "x", "5", "q"), pair(d, 5, "y", "6", "q"))
    assert [[e["id"] for e in f["firing"]["events"]["x"]] for f in log.firings] == [["1"], ["3"], ["5"]]
    assert len(set(log.keys)) == 3
    assert all(
        key == f"d\0{f['firing']['id']}".encode() for key, f in zip(log.keys, log.firings, strict=True)
    )


def test_every_firing_of_one_tick_is_written() -> None:
    log = Log()
    d = durable(log, absent(event("h"), "1s"))
    target = Target(0, d.incarnation, (0,), "")
    for n, stamp in enumerate((1000, 3000, 5000)):
        log.run(MatchRecord(2, "b-event", 0, n, stamp, an_event("h", str(n)), [target]))
    assert log.firings == []
    log.tick(5500)
    assert [f["firing"]["timer_ms"] for f in log.firings] == [2000, 4000]
    held = Match(an_event("h", "1"), (0,), "b-event", 0, 1, 3000)
    expected = firing_id(d.incarnation, "", "met", [Part("h", held)], 4000)
    assert log.firings[1]["firing"]["id"] == expected
    assert len(set(log.keys)) == 2


def test_a_repeat_after_a_firing_is_known_until_the_key_closes() -> None:
    log = Log()
    d = durable(log, event("x", by="data.k"))
    log.run(pair(d, 0, "x", "1", "p"), pair(d, 1, "x", "1", "p"))
    assert len(log.firings) == 1
    assert log.task().due_at() == 1000 + SEEN_MS + 1
    log.tick(1000 + SEEN_MS)
    log.run(pair(d, 2, "x", "1", "p"))
    assert (len(log.firings), log.task().open_keys) == (1, 1)
    log.tick(1000 + SEEN_MS + 1)
    assert log.task().open_keys == 0
    assert set(log.live_states()) == {state_key(d.incarnation, None)}


def test_at_the_limit_a_new_key_goes_to_the_dead_letters_and_open_ones_go_on() -> None:
    log = Log(partitions=2)
    d = durable(log, max_keys=3)  # two on each partition
    log.run(*(pair(d, n, "x", str(n), key) for n, key in enumerate("pqr")))
    [dead] = log.dead
    headers = dict(dead.headers)
    assert (headers["interlock_stage"], headers["interlock_origin"]) == (b"trigger", b"b-event[0]@2")
    assert b"max_keys=3" in headers["interlock_reason"]
    log.run(pair(d, 3, "y", "3", "p"), pair(d, 4, "y", "4", "q"))
    assert [f["firing"]["key"] for f in log.firings] == ["p", "q"]


def test_at_the_limit_the_key_that_was_opened_first_is_dropped_where_that_is_wanted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = Log()
    d = durable(log, max_keys=2, at_limit="drop-oldest")
    with caplog.at_level("WARNING", "interlock.engine"):
        log.run(*(pair(d, n, "x", str(n), key) for n, key in enumerate("pqrs")))
    assert (log.dead, log.task().open_keys) == ([], 2)
    assert set(log.live_states()) == {state_key(d.incarnation, key) for key in (None, "r", "s")}
    assert len(caplog.records) == 1


@pytest.mark.parametrize("at_limit", ["dead-letter", "drop-oldest"])
@pytest.mark.parametrize("together", [True, False])
def test_at_the_limit_keys_with_nothing_pending_make_room_first(
    at_limit: Literal["dead-letter", "drop-oldest"], together: bool, caplog: pytest.LogCaptureFixture
) -> None:
    log = Log()
    d = durable(log, max_keys=3, at_limit=at_limit)
    matches = [
        pair(d, 0, "x", "0", "open"),
        *(pair(d, 2 * n + half, kind, f"{kind}{n}", f"k{n}") for n in range(1, 20) for half, kind in HALVES),
    ]
    if together:
        log.run(*matches)
    else:
        for match in matches:
            log.run(match)
    assert (len(log.firings), log.dead, log.stats.keys_dropped, caplog.records) == (19, [], 0, [])
    assert set(log.live_states()) == {state_key(d.incarnation, key) for key in (None, "open", "k18", "k19")}


def test_a_key_that_has_something_pending_again_makes_no_room() -> None:
    log = Log()
    d = durable(log, max_keys=2)
    log.run(*(pair(d, n, kind, kind, "p") for n, kind in HALVES), pair(d, 2, "x", "2", "q"))
    log.run(pair(d, 3, "x", "3", "p"), pair(d, 4, "x", "4", "r"))
    assert len(log.dead) == 1
    assert set(log.live_states()) == {state_key(d.incarnation, key) for key in (None, "p", "q")}


def test_room_that_was_made_in_a_transaction_that_aborts_was_not_made() -> None:
    log = Log()
    d = durable(log, max_keys=2)
    log.run(*(pair(d, n, kind, kind, "p") for n, kind in HALVES), pair(d, 2, "x", "2", "q"))
    task = log.task()
    offset = log.committed.offset
    for _ in range(2):
        outputs = log.outputs()
        task.process(at(offset), pair(d, 3, "x", "3", "r"), outputs, 0)
        assert (outputs.records, task.open_keys) == ([], 2)
        task.rollback()
    outputs = log.outputs()
    task.process(at(offset), pair(d, 3, "x", "3", "r"), outputs, 0)  # takes the room of p
    log.commit(task, outputs)
    assert log.dead == []
    assert set(log.live_states()) == {state_key(d.incarnation, key) for key in (None, "q", "r")}


def test_an_event_that_cannot_be_judged_drops_no_key_at_the_limit() -> None:
    log = Log()
    d = durable(log, max_keys=2, at_limit="drop-oldest")
    log.run(*(pair(d, n, "x", str(n), key) for n, key in enumerate("pq")))
    log.run(met(2, an_event("x", "2"), Target(0, d.incarnation, (7,), "r")))
    assert len(log.dead) == 1
    assert set(log.live_states()) == {state_key(d.incarnation, key) for key in (None, "p", "q")}


def keyless(log: Log, **more: Any) -> Registration:
    """A wait that names no key, of a condition that has some."""
    limited = msgspec.structs.replace(Registration.of("w", PAIR, None, 0), **more)
    return register(log.registry, 0, limited)


def test_a_wait_without_a_key_has_as_many_open_keys_as_a_durable_subscription_at_most() -> None:
    assert keyless(Log()).max_keys == DEFAULT_MAX_KEYS == 100_000


def test_beyond_the_limit_of_a_wait_new_keys_go_to_the_dead_letters_and_it_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = Log(partitions=4)  # all its keys are on one of them
    w = keyless(log, max_keys=20)
    with caplog.at_level("WARNING", "interlock.engine"):
        log.run(*(pair(w, n, "x", str(n), f"k{n}") for n in range(23)))
    assert len(log.dead) == 3
    reason = dict(log.dead[0].headers)["interlock_reason"]
    assert reason == (
        b"'w' has no room for another key: 20 are open on b-trigger[0], the most of a wait, max_keys=20."
    )
    [said] = [record.message for record in caplog.records]
    assert said.startswith("'w' waits without a key, and 20 are open, the most there may be")
    log.run(pair(w, 23, "y", "y", "k7"))
    assert [f["firing"]["key"] for f in log.firings] == ["k7"]


def test_a_wait_is_told_to_have_no_room_until_a_tenth_of_its_keys_are_closed_or_it_is_over() -> None:
    log = Log()
    w = keyless(log, max_keys=20)
    task, outputs = log.task(), log.outputs()
    assert task.full_waits() == []
    for n in range(22):
        task.process(at(n), pair(w, n, "x", str(n), f"k{n}"), outputs, 0)
    [said] = task.full_waits()
    assert "'w' waits without a key" in said
    kept = task._store.get(w.incarnation)
    assert kept is not None
    task._store.close(w.incarnation, kept, "k0")
    assert task.full_waits() == [said]
    task._store.close(w.incarnation, kept, "k1")
    assert task.full_waits() == []
    for n in range(22, 25):
        task.process(at(n), pair(w, n, "x", str(n), f"k{n}"), outputs, 0)
    assert len(task.full_waits()) == 1
    task.process(at(25), pair(w, 25, "y", "y", "k5"), outputs, 0)  # fires
    assert task.full_waits() == []


def test_keys_of_a_wait_that_have_nothing_pending_make_room_first() -> None:
    log = Log()
    w = keyless(log, max_keys=2)
    half, _ = step(PAIR, EMPTY, Match(an_event("x", "0"), (0,), "b-event", 0, 0, 0))
    seen, _ = step(PAIR, half, Match(an_event("y", "1"), (1,), "b-event", 0, 1, 0))
    log.run(pair(w, 0, "x", "2", "p"))
    kept = encode_msgpack(StateRecord(2, 0, SEEN_MS, seen.encode()))
    log.states.append(Record(STATE, len(log.states), 0, state_key(w.incarnation, "seen"), kept, None))
    log.run(pair(w, 1, "x", "3", "q"))
    assert (log.dead, log.task().full_waits()) == ([], [])
    assert set(log.live_states()) == {state_key(w.incarnation, key) for key in (None, "p", "q")}


def test_a_key_that_fired_closes_when_its_events_are_forgotten_not_when_they_would_have_been() -> None:
    log = Log()
    d = durable(log)
    log.run(pair(d, 0, "x", "1", "p"))
    assert log.task().due_at() == 1000 + TTL
    log.run(pair(d, 1, "y", "2", "p"))
    assert log.task().due_at() == 1001 + SEEN_MS + 1


def test_a_changed_durable_subscription_drops_what_the_old_one_had_and_says_how_much(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = Log()
    d = durable(log)
    log.run(pair(d, 0, "x", "1", "p"), pair(d, 1, "x", "2", "q"))
    task, outputs = log.task(), log.outputs()
    durable(log, EITHER, offset=1)
    before = log.stats.counted()
    with caplog.at_level("WARNING", "interlock.engine"):
        task.forget([d.incarnation])
        log.stats.take_back(before)
        task.rollback()
    assert caplog.text.count("2 keys") == 1
    assert (log.stats.keys_dropped, task.open_keys, task.changed) == (2, 0, True)
    log.commit(task, outputs)
    assert log.live_states() == {}


# -- timers


LATE = (event("x") & event("y")).expires(after="1h")
HOUR = 3_600_000


def wait(log: Log, condition: Condition, at_ms: int, key: str | None = None) -> Registration:
    return register(log.registry, 0, Registration.of("w", condition, key, 0), at_ms=at_ms)


def test_an_expiry_runs_from_the_registration_though_no_event_comes() -> None:
    log = Log()
    wait(log, LATE, 5000)
    task, outputs = log.task(), log.outputs()
    task.apply()
    assert task.due_at() == 5000 + HOUR
    assert (task.has_timer_due(4999 + HOUR), task.has_timer_due(5000 + HOUR)) == (False, True)
    log.commit(task, outputs)
    log.tick(4999 + HOUR)
    assert log.firings == []
    log.tick(9000 + HOUR, incomplete=True)
    [firing] = [f["firing"] for f in log.firings]
    assert (firing["outcome"], firing["missing"]) == ("expired", ["x", "y"])
    assert (firing["timer_ms"], firing["incomplete"]) == (5000 + HOUR, True)
    log.tick(9 * HOUR)
    assert (len(log.firings), log.task().due_at(), log.task().open_keys) == (1, None, 0)


@pytest.mark.parametrize("match_first", [True, False])
def test_timers_are_opened_once_whether_a_match_or_the_registry_comes_first(match_first: bool) -> None:
    log = Log()
    w = wait(log, LATE, 5000)
    x = met(90_000, an_event("x", "1"), Target(0, w.incarnation, (0,), ""))
    task, outputs = log.task(), log.outputs()
    if match_first:
        task.process(at(0), x, outputs, 0)
        log.commit(task, outputs)
        task = log.task()
        task.apply()
    else:
        task.apply()
        task.process(at(0), x, outputs, 0)
    assert task.due_at() == 5000 + HOUR
    outputs = log.outputs()
    assert task.tick(5000 + HOUR, outputs, 0, seen_by_all, False)
    log.commit(task, outputs)
    [firing] = [f["firing"] for f in log.firings]
    assert (firing["outcome"], firing["missing"], list(firing["events"])) == ("expired", ["y"], ["x"])
    # registered again after that, it starts anew
    unregister(log.registry, 1, w)
    log.run()
    register(log.registry, 2, w, "again", at_ms=7000)
    task = log.task()
    task.apply()
    assert task.due_at() == 7000 + HOUR


def test_timers_are_opened_on_the_partition_of_the_subscription_only() -> None:
    log = Log(partitions=4)
    registrations = [
        register(log.registry, n, Registration.of(f"w{n}", LATE, None, 0), at_ms=5000) for n in range(12)
    ]
    here = [partition_of("one-shot", r.subscription, "", 4) == TP.partition for r in registrations]
    task = log.task()
    task.apply()
    outputs = log.outputs()
    assert task.tick(HOUR * 2, outputs, 0, seen_by_all, False)
    log.commit(task, outputs)
    expired = {f"w{n}" for n, is_here in enumerate(here) if is_here}
    assert {f["subscription"] for f in log.firings} == expired
    assert 0 < len(expired) < 12


def test_timers_of_keys_that_events_bring_are_not_opened_by_the_registration() -> None:
    log = Log()
    wait(log, PAIR.expires(after="1h"), 5000)
    task = log.task()
    task.apply()
    assert (task.due_at(), task.changed) == (None, False)


def test_states_of_registrations_that_are_not_read_yet_are_kept_and_ticked_once_they_are() -> None:
    log = Log()
    w = wait(log, absent(event("x", by="data.k"), "1h"), 5000, key="p")
    log.run(met(0, an_event("x", "1"), Target(0, w.incarnation, (0,), "p")))
    later = Registry()
    task = TriggerTask(TP, Committed(0, ""), later, 1, TTL, log.stats)
    for record in log.states:
        task.load(record)
    task.recovered()
    task.forget([w.incarnation])
    outputs = log.outputs()
    assert task.tick(2 * HOUR, outputs, 0, seen_by_all, False)
    assert (outputs.records, task.open_keys, task.due_at()) == ([], 1, 1000 + HOUR)
    register(later, 0, w, at_ms=5000)
    assert task.tick(2 * HOUR + 1, outputs, 0, seen_by_all, False)
    log.commit(task, outputs)
    assert [f["firing"]["key"] for f in log.firings] == ["p"]


def test_an_abort_takes_back_what_apply_and_tick_did_and_both_can_be_done_again() -> None:
    log = Log()
    wait(log, LATE, 5000)
    task = log.task()
    for _ in range(2):
        outputs = log.outputs()
        task.apply()
        assert task.tick(HOUR * 2, outputs, 0, seen_by_all, False)
        assert len(outputs.records) == 1
        task.commit_into(outputs, "me", 1)
        task.rollback()
        assert (task.applied, task.changed, task.open_keys, task.due_at()) == (0, False, 0, None)
    outputs = log.outputs()
    task.apply()
    log.commit(task, outputs)
    for _ in range(2):
        outputs = log.outputs()
        assert task.tick(HOUR * 2, outputs, 0, seen_by_all, False)
        assert len(outputs.records) == 1
        task.rollback()
        assert (task.open_keys, task.due_at()) == (1, 5000 + HOUR)


def test_a_tick_stops_where_the_pass_is_full_and_goes_on_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs_module, "MAX_PASS_RECORDS", 4)  # each tick: a firing and a state
    log = Log()
    d = durable(log, absent(event("x", by="data.k"), "1s"))
    log.run(*(pair(d, n, "x", str(n), key) for n, key in enumerate("pqrst")))
    task, done, passes = log.task(), False, 0
    while not done:
        outputs = log.outputs()
        done = task.tick(HOUR, outputs, HOUR, seen_by_all, False)
        log.commit(task, outputs)
        passes += 1
    assert (sorted(f["firing"]["key"] for f in log.firings), passes) == (list("pqrst"), 3)


def test_keys_of_registrations_that_have_not_seen_what_a_tick_promises_stay_due() -> None:
    log = Log()
    silent = absent(event("x", by="data.k"), "1s")
    d = durable(log, silent)
    e = register(log.registry, 1, Registration.of("e", silent, None, 0, kind="durable"))
    log.run(
        *(
            met(
                n,
                an_event("x", str(n)),
                Target(0, d.incarnation, (0,), key),
                Target(1, e.incarnation, (0,), key),
            )
            for n, key in enumerate("pqr")
        )
    )
    task, outputs = log.task(), log.outputs()
    assert task.tick(HOUR, outputs, HOUR, lambda place: place == 1, False)
    assert task.due_at() == 2000
    log.commit(task, outputs)
    assert {f["subscription"] for f in log.firings} == {"e"}
    outputs = log.outputs()
    assert task.tick(HOUR, outputs, HOUR, seen_by_all, False)
    log.commit(task, outputs)
    assert sorted(f["firing"]["key"] for f in log.firings if f["subscription"] == "d") == list("pqr")


def test_where_keys_close_only_no_timer_is_due() -> None:
    log = Log()
    d = durable(log)
    log.run(pair(d, 0, "x", "1", "p"))
    task = log.task()
    assert task.due_at() == 1000 + TTL
    assert not task.has_timer_due(1000 + TTL)
    log.run(pair(d, 1, "x", "2", "p"))  # it lives on: the look that is scheduled stays, and finds it
    log.tick(1000 + TTL)
    assert log.task().due_at() == 1001 + TTL
    log.tick(1001 + TTL)
    assert log.task().open_keys == 0


def test_a_window_closes_when_its_events_are_let_go_of() -> None:
    log = Log()
    d = durable(log, PAIR.within("2h"))
    log.run(pair(d, 0, "x", "1", "p"))
    due = log.task().due_at()
    assert due is not None
    assert due < 1000 + TTL // 2
    log.tick(due)
    assert log.task().open_keys == 0


# -- what raises


def test_a_target_that_raises_goes_to_the_dead_letters_and_the_others_go_on() -> None:
    log = Log()
    bad = register(log.registry, 0, Registration.of("bad", event("x"), None, 0))
    good = register(log.registry, 1, Registration.of("good", event("x"), None, 0))
    log.run(
        met(
            0, an_event("x", "1"), Target(0, bad.incarnation, (7,), ""), Target(1, good.incarnation, (0,), "")
        )
    )
    assert [f["subscription"] for f in log.firings] == ["good"]
    [dead] = log.dead
    assert b"'bad': ConditionError: matchers (7,)" in dict(dead.headers)["interlock_reason"]


def test_a_key_whose_tick_raises_is_kept_and_the_others_get_theirs() -> None:
    log = Log()
    d = durable(log, absent(event("x", by="data.k"), "1s"))
    log.run(pair(d, 0, "x", "1", "p"), pair(d, 1, "x", "2", "q"))
    broken = StateRecord(2, 0, 10, b"\x91\x02rubbish")
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
@given(MATCHES, SLICES, st.sampled_from([1, 2]))
def test_any_split_of_the_log_with_crashes_and_aborts_gives_the_firings_of_a_plain_fold(
    steps: Sequence[tuple[str, int, str, int, int, bool]], slices: Sequence[tuple[int, str]], version: int
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

    log, turn = Log(registry, version), 0
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
