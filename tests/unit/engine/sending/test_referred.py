"""Deliveries whose data are elsewhere: they are read first, and share the room for them."""

from __future__ import annotations

import asyncio
import threading
import weakref
from typing import Any
from unittest import mock

import msgspec
import pytest
from interlock.engine.delivery.answers import Verdict
from interlock.engine.errors import UnreachableError
from interlock.engine.sending.content import Content
from interlock.engine.sending.referred import MOST_BYTES, THREADS
from interlock.engine.sending.target import SinkTarget
from interlock.events.event import Event

from tests.kit.posting import WAIT_S, Posting
from tests.kit.sinks import Sink, answer
from tests.unit.engine.sending.orders import REF, ordered, referring

LARGE = Event.of("com.example.ordered", "/orders", id="e1", data={"n": "x" * 70_000})


@pytest.mark.parametrize("mode", ["binary", "json"])
def test_an_event_whose_data_are_elsewhere_is_sent_with_them(sink: Sink, mode: str) -> None:
    with Posting({"c": SinkTarget(url=sink.url)}, {REF: LARGE}) as posting:
        assert posting.deliver(referring(), send="event", format=mode).answer.status == 202
    body = msgspec.json.decode(sink.received[0].body)
    assert (body["data"] if mode == "json" else body) == {"n": "x" * 70_000}
    assert "dataref" not in {**sink.received[0].attributes, **body}


def test_a_firing_is_sent_with_the_data_of_its_events(sink: Sink) -> None:
    with Posting({"c": SinkTarget(url=sink.url)}, {REF: LARGE}) as posting:
        posting.deliver(referring())
    (event,) = msgspec.json.decode(sink.received[0].body)["events"]["order"]
    assert (event["data"], "dataref" in event) == ({"n": "x" * 70_000}, False)


@pytest.mark.parametrize(
    ("fetched", "verdict"),
    [
        ({}, Verdict.REFUSED),
        ({REF: UnreachableError("no broker")}, Verdict.RETRY),
        ({REF: Event.of("t", "/other", id="e1")}, Verdict.REFUSED),
    ],
    ids=["gone", "no broker", "another event"],
)
def test_data_that_cannot_be_read_are_not_left_out(sink: Sink, fetched: Any, verdict: Verdict) -> None:
    with Posting({"c": SinkTarget(url=sink.url)}, fetched) as posting:
        found = posting.deliver(referring()).answer
    assert (found.verdict, found.is_congestion, sink.received) == (verdict, False, [])
    assert found.text.startswith("its data cannot be read: ")


def test_what_does_not_fit_stays_a_reference(sink: Sink) -> None:
    with (
        mock.patch("interlock.engine.sending.content.MOST_RESOLVED_BYTES", 100),
        Posting({"c": SinkTarget(url=sink.url)}, {REF: LARGE}) as posting,
    ):
        posting.deliver(referring())
    (event,) = msgspec.json.decode(sink.received[0].body)["events"]["order"]
    assert event["dataref"] == REF


def test_large_data_wait_for_room_and_what_has_none_does_not(sink: Sink) -> None:
    release, arrived = threading.Event(), threading.Event()

    async def wait(writer: asyncio.StreamWriter) -> bool:
        arrived.set()
        await asyncio.to_thread(release.wait, WAIT_S)
        return await answer(202)(writer)

    read: list[str] = []

    def fetch(dataref: str) -> Event:
        read.append(dataref)
        return LARGE

    sink.behave = lambda got: wait if got.path == "/slow" else answer(202)
    # Less room than one firing may need: one goes alone.
    with Posting({"c": SinkTarget(url=sink.url)}, room_bytes=1000, fetch=fetch) as posting:
        slow = posting.start(referring(1), path="/slow")
        assert arrived.wait(WAIT_S)
        next_one = posting.start(referring(2))
        assert posting.deliver(ordered(3)).answer.status == 202
        assert (len(read), [got.attributes["interlocksequence"] for got in sink.received]) == (1, ["1", "3"])
        release.set()
        assert [posting.wait(number).answer.status for number in (slow, next_one)] == [202, 202]
    assert len(read) == 2


def test_what_a_body_was_made_of_is_not_kept_until_the_answer(sink: Sink) -> None:
    """A firing with large data took about twice the memory that the room counts."""
    made: list[weakref.ref[Content]] = []
    kept: list[bool] = []

    class Noted(Content):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            made.append(weakref.ref(self))

    async def note(writer: asyncio.StreamWriter) -> bool:
        kept.extend(each() is not None for each in made)
        return await answer(202)(writer)

    sink.behave = lambda _: note
    with (
        mock.patch("interlock.engine.sending.referred.Content", Noted),
        Posting({"c": SinkTarget(url=sink.url)}, {REF: LARGE}) as posting,
    ):
        assert posting.deliver(referring()).answer.status == 202
    assert kept == [False]


def test_room_for_the_most_is_taken_before_the_size_is_known(sink: Sink) -> None:
    def fetch(_: str) -> Event:
        used.append(room.used)
        return LARGE

    used: list[int] = []
    with Posting({"c": SinkTarget(url=sink.url)}, fetch=fetch) as posting:
        room = posting.posts._data._room
        posting.deliver(referring())
    assert used == [MOST_BYTES]
    assert room.used == 0


def test_room_is_given_back_when_data_cannot_be_read(sink: Sink) -> None:
    with Posting({"c": SinkTarget(url=sink.url)}, {}, room_bytes=1000) as posting:
        for offset in range(3):
            assert posting.deliver(referring(offset)).answer.verdict is Verdict.REFUSED


def test_a_partition_that_does_not_answer_delays_no_data_of_others(sink: Sink) -> None:
    """However many firings have data in it, and although their reads block threads."""
    release, read = threading.Event(), []

    def fetch(dataref: str) -> Event:
        read.append(dataref)
        if dataref == REF:
            release.wait(WAIT_S)
            raise UnreachableError("no answer")
        return LARGE

    with Posting({"c": SinkTarget(url=sink.url)}, fetch=fetch, room_bytes=100 * MOST_BYTES) as posting:
        stalled = [posting.start(referring(offset)) for offset in range(2 * THREADS)]
        assert posting.deliver(referring(20, partition=1)).answer.status == 202
        release.set()
        answers = [posting.wait(number).answer for number in stalled]
    assert {(each.verdict, each.text) for each in answers} == {
        (Verdict.RETRY, "its data cannot be read: no answer")
    }
    assert read == [REF, "kafka:b-event/1/5"]


def test_data_in_partitions_that_did_not_answer_the_last_time_take_no_room_while_they_wait(
    sink: Sink,
) -> None:
    release, begun = threading.Event(), threading.Event()

    def fetch(dataref: str) -> Event:
        if "/2/" in dataref:
            return LARGE
        if begun.is_set():
            release.wait(WAIT_S)
        raise UnreachableError("no answer")

    with Posting({"c": SinkTarget(url=sink.url)}, fetch=fetch) as posting:
        for partition in (0, 1):
            posting.deliver(referring(partition, partition=partition))
        begun.set()
        waiting = [posting.start(referring(offset, partition=offset % 2)) for offset in range(2, 12)]
        assert posting.deliver(referring(20, partition=2)).answer.status == 202
        assert posting.posts._data._room.used == MOST_BYTES
        release.set()
        assert {posting.wait(number).answer.verdict for number in waiting} == {Verdict.RETRY}
