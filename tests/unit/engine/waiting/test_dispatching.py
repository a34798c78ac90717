"""Registering durable subscriptions, and notifying of their firings, on a registry that a test writes."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from interlock import event
from interlock.engine.bus import Record, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.errors import UnreachableError
from interlock.engine.kafka.wait_clients import KafkaClients
from interlock.engine.records import BusRecord, Registration, RegistrationKey, encode_json, sink_key
from interlock.engine.records.versions import VERSION
from interlock.engine.registry.registry import Registry
from interlock.engine.waiting import dispatching as module
from interlock.engine.waiting import open_firings
from interlock.engine.waiting.dispatching import MORE_FIRINGS, Dispatching, Durable, Stream
from interlock.engine.waiting.notices import Notice

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "nowhere"})
REGISTRY, ACTION = TopicPartition("b-subscription", 0), TopicPartition("b-action", 0)


OTHER = event("y", by="subject")
SINK = {"subscription": "s", "connection": "crm", "path": "/a"}


def durable(condition: Any = None, subscription: str = "s", **changes: Any) -> Durable:
    given = {"since_ms": 100, "since_given": False, "max_keys": 10, "at_limit": "dead-letter"}
    form = (event("x", by="subject") if condition is None else condition).to_json()
    return Durable(subscription=subscription, condition=form, **{**given, **changes})


def fired(firing: str, offset: int) -> Record:
    return Record(ACTION, offset, 0, b"s\0" + firing.encode(), b'{"state": "fired"}', None)


class Stage:
    """Dispatching, and the registry as its registrations would make it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.dispatching, self.registry = Dispatching(lambda: self.now), Registry()
        self.sent: list[Registration] = []
        self.sinks: list[dict[str, Any]] = []
        self.refusal = ""
        self._offset = itertools.count()
        self._apply(b"bus", BusRecord(partitions=1))

    def register(self, registration: Registration, version: int, failed: Any) -> str | None:
        assert version == VERSION
        if self.refusal:
            failed(self.refusal)
            return None
        self.sent.append(registration)
        return "key"

    def write_sink(self, subscription: str, value: bytes, failed: Any) -> None:
        assert subscription == "s"
        if self.refusal:
            failed(self.refusal)
        else:
            self.sinks.append(json.loads(value))

    def sink(self, record: dict[str, Any] | None) -> None:
        """The sink record, as the registry has it now."""
        self._apply(sink_key("s"), record)

    def _apply(self, key: bytes, record: Any) -> None:
        value = None if record is None else encode_json(record)
        self.registry.apply(Record(REGISTRY, next(self._offset), 0, key, value, None))

    def registered(self, registration: Registration, *, removed: bool = False) -> None:
        key = RegistrationKey(registration.incarnation, f"n{registration.max_keys}").encode()
        self._apply(key, None if removed else registration)

    def removed(self, registration: Registration) -> None:
        self.registered(registration, removed=True)

    def serve(self) -> None:
        self.dispatching.serve(self.registry, self, KafkaClients(CONFIG))  # type: ignore[arg-type]

    def open(self, what: Durable) -> tuple[Stream, list[Any]]:
        received: list[Any] = []
        return self.dispatching.open(what, received.append), received

    def serve_registered(self, what: Durable) -> tuple[Stream, list[Any]]:
        """A stream whose subscription is registered already, once it was served."""
        self.registered(what.registration())
        opened = self.open(what)
        self.serve()
        return opened

    def taken(self, stream: Stream, most: int = 10, **left_out: Any) -> list[int]:
        return [place.offset for place in self.dispatching.take(stream, most, **left_out)]


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_an_unregistered_subscription_is_registered_once_and_notified_when_registered(stage: Stage) -> None:
    _, received = stage.open(durable())
    stage.serve()
    stage.serve()
    [sent] = stage.sent
    assert (sent.kind, sent.since_ms, sent.max_keys) == ("durable", 100, 10)
    assert received == []
    assert stage.dispatching.dispatched_incarnations() == []
    stage.registered(sent)
    stage.serve()
    stage.serve()
    assert received == [MORE_FIRINGS]
    assert stage.dispatching.dispatched_incarnations() == [sent.incarnation]


def test_a_registration_that_does_not_appear_is_sent_again(stage: Stage) -> None:
    stage.open(durable())
    stage.serve()
    stage.now += module.REGISTER_AGAIN_S
    stage.serve()
    assert len(stage.sent) == 2
    assert stage.sent[0] == stage.sent[1]


def test_a_later_run_keeps_the_since_of_the_first_registration(stage: Stage) -> None:
    stage.registered(durable(since_ms=50).registration())
    _, received = stage.open(durable(since_ms=100))
    stage.serve()
    assert (stage.sent, received) == ([], [MORE_FIRINGS])


def test_a_since_that_is_given_is_another_meaning_and_registered(stage: Stage) -> None:
    stage.registered(durable(since_ms=50).registration())
    stage.open(durable(since_ms=100, since_given=True))
    stage.serve()
    assert [sent.since_ms for sent in stage.sent] == [100]


def test_an_edited_condition_replaces_the_one_before_and_its_open_firings_stay(stage: Stage) -> None:
    before = durable(OTHER).registration()
    stage.registered(before)
    stage.dispatching.follow(fired("of-the-old", 7))
    stream, received = stage.open(durable())
    stage.serve()
    [sent] = stage.sent
    assert sent.incarnation != before.incarnation
    stage.registered(sent)
    stage.serve()
    assert received == [MORE_FIRINGS]
    assert stage.taken(stream) == [7]


def test_other_limits_are_registered_again_as_the_same_incarnation(stage: Stage) -> None:
    before = durable(since_ms=50).registration()
    stage.registered(before)
    _, received = stage.open(durable(max_keys=20))
    stage.serve()
    [sent] = stage.sent
    assert (sent.incarnation, sent.max_keys) == (before.incarnation, 20)
    assert received == [MORE_FIRINGS]


def test_a_stream_whose_condition_was_replaced_or_cancelled_says_so_and_does_not_fight(stage: Stage) -> None:
    _, received = stage.serve_registered(durable())
    other = durable(OTHER).registration()
    stage.registered(other)
    for _ in range(3):
        stage.serve()
    assert received == [MORE_FIRINGS, Notice("Subscription 's' has another condition now.")]
    assert stage.sent == []
    _, received = stage.open(durable(OTHER))
    stage.serve()
    stage.removed(other)
    for _ in range(3):
        stage.serve()
    assert received == [MORE_FIRINGS, Notice("Subscription 's' was cancelled.")]
    assert stage.sent == []


def test_a_stream_is_registered_once_it_was_seen_so_whatever_comes_after(stage: Stage) -> None:
    stream, _ = stage.open(durable())
    stage.serve()
    assert not stream.registered  # it is sent
    stage.registered(durable().registration())
    stage.serve()
    assert stream.registered
    stage.dispatching.begin()
    stage.removed(durable().registration())
    stage.serve()
    assert stream.registered


def test_a_refused_registration_is_notified(stage: Stage) -> None:
    stage.refusal = "no room"
    _, received = stage.open(durable())
    stage.serve()
    [notice] = received
    assert "'s' could not be registered: no room" in notice.text


def test_nothing_is_taken_before_the_topics_are_read_to_their_ends(stage: Stage) -> None:
    stream, _ = stage.open(durable())
    stage.dispatching.follow(fired("a", 0))
    assert stage.taken(stream) == []
    stage.serve()
    assert stage.taken(stream) == [0]
    stage.dispatching.begin()
    assert stage.taken(stream) == []


def test_each_new_firing_is_notified_to_an_open_stream_and_to_no_closed_one(stage: Stage) -> None:
    stream, received = stage.serve_registered(durable())
    stage.dispatching.follow(fired("a", 0))
    assert received == [MORE_FIRINGS, MORE_FIRINGS]
    assert stage.taken(stream, without={(0, 0)}) == []
    stage.dispatching.close(stream)
    stage.dispatching.follow(fired("b", 1))
    assert received == [MORE_FIRINGS, MORE_FIRINGS]


def test_a_stream_that_cannot_be_notified_disturbs_no_other(stage: Stage) -> None:
    stage.registered(durable().registration())

    def broken(_: Any) -> None:
        raise RuntimeError("the loop is closed")

    stage.registered(durable(subscription="t").registration())
    stage.dispatching.open(durable(), broken)
    _, received = stage.open(durable(subscription="t"))
    stage.serve()
    assert received == [MORE_FIRINGS]


# -- several streams of a subscription


def test_of_several_streams_the_last_one_opened_takes_and_the_others_nothing(stage: Stage) -> None:
    stage.registered(durable().registration())
    first, received_first = stage.open(durable())
    stage.dispatching.follow(fired("a", 0))
    stage.serve()
    assert (stage.taken(first), stage.dispatching.is_replaced(first)) == ([0], False)
    assert received_first == [MORE_FIRINGS]
    last, received = stage.open(durable(max_keys=20))
    stage.serve()
    stage.dispatching.follow(fired("b", 1))
    assert (stage.taken(first), stage.dispatching.is_replaced(first)) == ([], True)
    assert received_first == [MORE_FIRINGS]
    assert (stage.taken(last), stage.dispatching.is_replaced(last)) == ([0, 1], False)
    assert received == [MORE_FIRINGS, MORE_FIRINGS]
    assert [sent.max_keys for sent in stage.sent] == [20]
    stage.registered(stage.sent[0])
    stage.dispatching.close(first)
    for _ in range(3):
        stage.serve()
    assert (stage.taken(last), len(stage.sent)) == ([0, 1], 1)


def test_a_stream_takes_again_and_registers_its_own_when_those_opened_later_are_closed(stage: Stage) -> None:
    own = durable().registration()
    first, received = stage.serve_registered(durable())
    last, _ = stage.open(durable(OTHER))
    stage.serve()
    stage.registered(stage.sent[0])
    stage.serve()
    stage.dispatching.follow(fired("a", 0))
    assert (stage.taken(first), stage.taken(last)) == ([], [0])
    stage.dispatching.close(last)
    stage.serve()
    assert [sent.incarnation for sent in stage.sent[1:]] == [own.incarnation]
    stage.registered(own)
    stage.serve()
    assert (stage.taken(first), received) == ([0], [MORE_FIRINGS, MORE_FIRINGS])


def test_a_stream_takes_nothing_when_another_process_registered_another_condition(stage: Stage) -> None:
    stage.registered(durable().registration())
    stream, _ = stage.open(durable())
    stage.dispatching.follow(fired("a", 0))
    stage.serve()
    stage.registered(durable(OTHER).registration())
    stage.serve()
    assert (stage.taken(stream), stage.dispatching.is_replaced(stream)) == ([], True)
    stage.dispatching.begin()
    stage.serve()
    assert (stage.taken(stream), stage.dispatching.is_replaced(stream), stage.sent) == ([], True, [])


def test_what_had_fired_before_a_cancellation_is_still_taken(stage: Stage) -> None:
    own = durable().registration()
    stage.registered(own)
    stream, received = stage.open(durable())
    stage.dispatching.follow(fired("a", 0))
    stage.serve()
    stage.removed(own)
    stage.serve()
    assert (stage.taken(stream), stage.dispatching.is_replaced(stream)) == ([0], False)
    stage.registered(durable(OTHER).registration())
    stage.serve()
    assert (stage.taken(stream), stage.dispatching.is_replaced(stream)) == ([], True)
    assert [item.text for item in received[1:]] == [
        "Subscription 's' was cancelled.",
        "Subscription 's' has another condition now.",
    ]


def test_what_did_not_fit_is_read_again_when_there_is_room(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_firings, "MOST_HELD", 2)
    monkeypatch.setattr(open_firings, "FEW", 0)
    topic = [fired("a", 0), fired("b", 1), fired("c", 2), fired("d", 3)]
    asked: list[Any] = []

    def read_from(_: Any, starts: Any) -> Any:
        asked.append(dict(starts))
        other = Record(ACTION, 4, 0, b"other\0z", b'{"state": "fired"}', None)
        return iter([*topic[starts[ACTION] :], other])

    monkeypatch.setattr(module, "read_from", read_from)
    stage.registered(durable().registration())
    stream, received = stage.open(durable())
    for record in topic:
        stage.dispatching.follow(record)
    stage.serve()
    assert (stage.taken(stream), asked) == ([0, 1], [])
    for firing in (b"a", b"b"):
        stage.dispatching.follow(Record(ACTION, 9, 0, b"s\0" + firing, b'{"state": "acked"}', None))
    received.clear()
    stage.serve()
    assert (stage.taken(stream), asked) == ([2, 3], [{ACTION: 2}])
    assert received == [MORE_FIRINGS]


def test_a_topic_that_cannot_be_read_again_ends_this_run_of_the_waits_and_the_next_run_reads_all(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_firings, "MOST_HELD", 1)
    monkeypatch.setattr(open_firings, "FEW", 1)

    def read_from(*_: Any) -> Any:
        raise UnreachableError("nothing comes")

    monkeypatch.setattr(module, "read_from", read_from)
    stage.registered(durable().registration())
    stream, _ = stage.open(durable())
    for record in (fired("a", 0), fired("b", 1)):
        stage.dispatching.follow(record)
    with pytest.raises(UnreachableError):
        stage.serve()
    monkeypatch.setattr(open_firings, "MOST_HELD", 10)
    stage.dispatching.begin()
    for record in (fired("a", 0), fired("b", 1)):
        stage.dispatching.follow(record)
    stage.serve()
    assert stage.taken(stream) == [0, 1]


def test_a_thread_that_hung_while_it_read_again_adds_nothing_to_what_the_next_one_reads(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_firings, "MOST_HELD", 1)
    monkeypatch.setattr(open_firings, "FEW", 1)
    stream, _ = stage.serve_registered(durable())
    taken: list[list[int]] = []

    def read_from(*_: Any) -> Any:
        stage.dispatching.begin()
        stage.dispatching.follow(fired("c", 2))
        monkeypatch.setattr(module, "read_from", lambda *_: [])
        stage.serve()
        taken.append(stage.taken(stream))
        monkeypatch.setattr(open_firings, "MOST_HELD", 10)
        return iter([fired("b", 1)])  # acknowledged in the meantime

    monkeypatch.setattr(module, "read_from", read_from)
    for record in (fired("a", 0), fired("b", 1)):
        stage.dispatching.follow(record)
    stage.serve()
    assert (taken, stage.taken(stream)) == ([[2]], [2])


# -- a subscription with a sink


def test_a_sink_record_is_written_first_and_the_subscription_once_it_was_read(stage: Stage) -> None:
    _, received = stage.open(durable(sink=SINK))
    for _ in range(3):
        stage.serve()
    assert (stage.sinks, stage.sent) == ([{**SINK, "v": VERSION}], [])
    stage.sink(stage.sinks[0])
    stage.serve()
    [sent] = stage.sent
    stage.registered(sent)
    for _ in range(3):
        stage.serve()
    assert (len(stage.sinks), len(stage.sent), received) == (1, 1, [MORE_FIRINGS])
    assert stage.dispatching.dispatched_incarnations() == [sent.incarnation]


@pytest.mark.parametrize(
    "earlier",
    [None, {**SINK, "path": "/b"}, {**SINK, "order": "none"}, {}, [], "text", 7],
    ids=["none", "another path", "more members", "empty", "a list", "a text", "a number"],
)
def test_another_sink_of_a_registered_subscription_is_written_without_a_new_registration(
    stage: Stage, earlier: Any
) -> None:
    stage.registered(durable().registration())
    stage.sink(earlier)
    _, received = stage.open(durable(sink=SINK))
    stage.serve()
    assert (stage.sinks, stage.sent, received) == ([{**SINK, "v": VERSION}], [], [])
    stage.sink(stage.sinks[0])
    stage.serve()
    assert (len(stage.sinks), stage.sent, received) == (1, [], [MORE_FIRINGS])


def test_a_sink_that_is_written_already_in_any_order_and_version_is_not_written_again(stage: Stage) -> None:
    stage.sink({"v": 7, **dict(reversed(SINK.items()))})
    stage.registered(durable().registration())
    _, received = stage.open(durable(sink=SINK))
    stage.serve()
    assert (stage.sinks, stage.sent, received) == ([], [], [MORE_FIRINGS])


@pytest.mark.parametrize("damaged", [b"{", b'{"path": "\xff"}', b"[" * 60_000], ids=["cut", "UTF-8", "deep"])
def test_a_sink_record_that_cannot_be_read_is_replaced(damaged: bytes) -> None:
    assert not durable(sink=SINK).has_sink(damaged)


@pytest.mark.parametrize(
    ("later", "expected"),
    [(None, "was removed"), ({**SINK, "path": "/b"}, "has other options now")],
    ids=["removed", "changed"],
)
def test_a_stream_whose_sink_somebody_else_removes_or_changes_says_so_and_does_not_fight(
    stage: Stage, later: Any, expected: str
) -> None:
    stage.sink(SINK)
    _, received = stage.serve_registered(durable(sink=SINK))
    stage.sink(later)
    for _ in range(3):
        stage.serve()
    assert received == [MORE_FIRINGS, Notice(f"The sink of 's' {expected}.")]
    assert (stage.sinks, stage.sent) == ([], [])
    stage.sink(SINK)
    stage.serve()
    assert received[2:] == [MORE_FIRINGS]


def test_a_sink_record_that_does_not_appear_is_written_again(stage: Stage) -> None:
    stage.open(durable(sink=SINK))
    stage.serve()
    stage.now += module.REGISTER_AGAIN_S
    stage.serve()
    assert len(stage.sinks) == 2


def test_a_refused_sink_record_is_notified(stage: Stage) -> None:
    stage.refusal = "no room"
    _, received = stage.open(durable(sink=SINK))
    stage.serve()
    assert ["'s' could not be registered: no room" in notice.text for notice in received] == [True]


def test_a_stream_with_a_sink_hears_of_no_firing(stage: Stage) -> None:
    """A deliverer takes them; a message for each would wake the triggerer a thousand times a second."""
    stage.sink(SINK)
    _, received = stage.serve_registered(durable(sink=SINK))
    stage.dispatching.follow(fired("a", 0))
    assert received == [MORE_FIRINGS]
