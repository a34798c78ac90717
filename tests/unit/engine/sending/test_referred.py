"""Deliveries whose data are elsewhere: they are read first, and share the room for them."""

from __future__ import annotations

import asyncio
import threading
from typing import Any
from unittest import mock

import msgspec
import pytest
from interlock.engine.delivery.answers import Verdict
from interlock.engine.errors import UnreachableError
from interlock.engine.sending.referred import MOST_BYTES
from interlock.engine.sending.target import Target
from interlock.events.event import Event

from tests.kit.posting import WAIT_S, Posting
from tests.kit.sinks import Sink, answer
from tests.unit.engine.sending.orders import REF, ordered, referring

LARGE = Event.of("com.example.ordered", "/orders", id="e1", data={"n": "x" * 70_000})


@pytest.mark.parametrize("mode", ["binary", "json"])
def test_an_event_whose_data_are_elsewhere_is_sent_with_them(sink: Sink, mode: str) -> None:
    with Posting({"c": Target(url=sink.url)}, {REF: LARGE}) as posting:
        assert posting.deliver(referring(), send="event", format=mode).answer.status == 202
    body = msgspec.json.decode(sink.received[0].body)
    assert (body["data"] if mode == "json" else body) == {"n": "x" * 70_000}
    assert "dataref" not in {**sink.received[0].attributes, **body}


def test_a_firing_is_sent_with_the_data_of_its_events(sink: Sink) -> None:
    with Posting({"c": Target(url=sink.url)}, {REF: LARGE}) as posting:
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
    with Posting({"c": Target(url=sink.url)}, fetched) as posting:
        found = posting.deliver(referring()).answer
    assert (found.verdict, found.is_congestion, sink.received) == (verdict, False, [])
    assert found.text.startswith("its data cannot be read: ")


def test_what_does_not_fit_stays_a_reference(sink: Sink) -> None:
    with (
        mock.patch("interlock.engine.sending.referred.MOST_RESOLVED_BYTES", 100),
        Posting({"c": Target(url=sink.url)}, {REF: LARGE}) as posting,
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
    with Posting({"c": Target(url=sink.url)}, room_bytes=1000, fetch=fetch) as posting:
        slow = posting.start(referring(1), path="/slow")
        assert arrived.wait(WAIT_S)
        next_one = posting.start(referring(2))
        assert posting.deliver(ordered(3)).answer.status == 202
        assert (len(read), [got.attributes["interlocksequence"] for got in sink.received]) == (1, ["1", "3"])
        release.set()
        assert [posting.wait(number).answer.status for number in (slow, next_one)] == [202, 202]
    assert len(read) == 2


def test_room_for_the_most_is_taken_before_the_size_is_known(sink: Sink) -> None:
    def fetch(_: str) -> Event:
        used.append(room.used)
        return LARGE

    used: list[int] = []
    with Posting({"c": Target(url=sink.url)}, fetch=fetch) as posting:
        room = posting.posts._data._room
        posting.deliver(referring())
    assert used == [MOST_BYTES]
    assert room.used == 0


def test_room_is_given_back_when_data_cannot_be_read(sink: Sink) -> None:
    with Posting({"c": Target(url=sink.url)}, {}, room_bytes=1000) as posting:
        for offset in range(3):
            assert posting.deliver(referring(offset)).answer.verdict is Verdict.REFUSED
