"""Deliveries to a sink on loopback that answers, or misbehaves."""

from __future__ import annotations

import asyncio
import gzip
import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from unittest import mock

import msgspec
import pytest
from interlock.engine.delivery.answers import Answer, Verdict
from interlock.engine.errors import EngineError
from interlock.engine.sending.target import SinkTarget, TargetError

from tests.kit.posting import WAIT_S, Posting
from tests.kit.sinks import Behaviour, Sink, answer, cut, drip, flood, hang, raw, reset
from tests.unit.engine.sending.orders import REF, SOON_S, ordered

ROOT = Path(__file__).parents[4]
BOMB = gzip.compress(b"\0" * 4_000_000)


def test_a_firing_is_posted_as_an_event(sink: Sink) -> None:
    with Posting.to(f"{sink.url}/base") as posting:
        ended = posting.deliver(ordered(), path="orders?x=1")
    (got,) = sink.received
    assert (ended.answer.verdict, ended.reply) == (Verdict.DELIVERED, None)
    assert (got.method, got.path) == ("POST", "/base/orders?x=1")
    assert got.headers["prefer"] == "reply"
    assert got.headers["content-type"] == "application/json"
    assert got.attributes == {
        "specversion": "1.0",
        "id": "f7",
        "source": "/airflow/deliver/s",
        "type": "interlock.firing.met",
        "subject": "a",
        "interlocksequence": "7",
        "interlockfiring": "f7",
    }
    assert msgspec.json.decode(got.body)["events"]["order"][0]["data"] == {"n": 1}


def test_the_request_says_nothing_that_nobody_asked_for(sink: Sink) -> None:
    with Posting.to(sink.url) as posting:
        posting.deliver(ordered(), send="event")
    assert {name for name in sink.received[0].headers if not name.startswith("ce-")} == {
        "host",
        "prefer",
        "content-type",
        "content-length",
        "user-agent",
        "accept-encoding",
    }


def test_a_large_firing_is_sent_whole(sink: Sink) -> None:
    with Posting.to(sink.url) as posting:
        assert posting.deliver(ordered(data={"text": "x" * 4_000_000})).answer.status == 202
    (got,) = sink.received
    assert msgspec.json.decode(got.body)["events"]["order"][0]["data"] == {"text": "x" * 4_000_000}
    assert (got.headers["content-length"], got.headers["content-type"]) == (
        str(len(got.body)), "application/json"
    )  # fmt: skip


def test_many_deliveries_share_connections(sink: Sink) -> None:
    with Posting.to(sink.url) as posting:
        for offset in range(5):
            assert posting.deliver(ordered(offset)).answer.status == 202
    assert (len(sink.received), sink.connections) == (5, 1)


def test_many_deliveries_are_made_at_the_same_time(sink: Sink) -> None:
    """The sink answers none of them before all have arrived."""
    all_arrived = asyncio.Barrier(8)

    async def answer_all(writer: asyncio.StreamWriter) -> bool:
        await all_arrived.wait()
        return await answer(200)(writer)

    sink.behave = lambda _: answer_all
    with Posting.to(sink.url) as posting:
        numbers = [posting.start(ordered(n)) for n in range(8)]
        assert [posting.wait(number).answer.status for number in numbers] == [200] * 8


# -- answers and their absence


@pytest.mark.parametrize(
    ("behaviour", "text"),
    [
        (raw(b""), "the sink closed the connection without an answer"),
        (reset(), ""),
        (raw(b"HTTP/1.1 200 OK\r\ncontent-le"), ""),
        (raw(b"SSH-2.0-OpenSSH_9.6\r\n"), "the answer is not valid HTTP"),
        (raw(b"HTTP/1.1 twohundred OK\r\n\r\n"), "the answer is not valid HTTP"),
        (raw(b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000 + b"\r\n\r\n"), "the answer is not valid HTTP"),
        (
            raw(b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 5000 + b"content-length: 0\r\n\r\n"),
            "the answer is not valid HTTP",
        ),
        (flood(b"HTTP/1.1 200 OK\r\n", b"x: y\r\n"), "the answer is not valid HTTP"),
        (flood(b"HTTP/1.1 200 OK\r\nx: ", b"y"), "the answer is not valid HTTP"),
        (flood(b"", b"y"), "the answer is not valid HTTP"),
    ],
    ids=[
        "closed", "reset", "closed in the head", "another protocol", "no status", "a long header",
        "many headers", "headers without end", "a header without end", "a line without end",
    ],
)  # fmt: skip
def test_what_is_no_answer_is_tried_again(sink: Sink, behaviour: Behaviour, text: str) -> None:
    sink.answer(behaviour)
    with Posting.to(sink.url) as posting:
        found = posting.deliver(ordered(), timeout_s=5).answer
    assert (found.status, found.connected, found.verdict) == (None, True, Verdict.RETRY)
    assert text in found.text


@pytest.mark.parametrize(
    "behaviour",
    [
        hang(),
        drip(b"x", start=b"HTTP/1.1 200 OK\r\nx: "),
        drip(b"HTTP/1.1 100 Continue\r\n\r\n"),
        raw(b"HTTP/1.1 102 Processing\r\n\r\n", is_kept=True),
    ],
    ids=["hangs", "drips", "drips 1xx", "1xx alone"],
)
def test_an_answer_that_does_not_come_in_time_ends_with_the_timeout(sink: Sink, behaviour: Behaviour) -> None:
    sink.answer(behaviour)
    with Posting.to(sink.url) as posting:
        found = posting.deliver(ordered(), SOON_S).answer
    assert found == Answer(None, f"no complete answer within {SOON_S:g} s", destination=f"{sink.url}/")


@pytest.mark.parametrize(
    "body",
    [
        drip(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", 1),
        cut(200, {}, b"half"),
        flood(b"HTTP/1.1 200 OK\r\n\r\n", b"y"),
        flood(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"4\r\nyyyy\r\n"),
        answer(200, {"content-type": "application/json"}, b'{"ok": true}'),
        answer(200, {"content-type": "application/octet-stream", "content-encoding": "gzip"}, b"\x1f\x8b"),
    ],
    ids=["missing", "cut", "without end", "chunks without end", "json", "compressed"],
)
def test_a_body_that_is_no_event_changes_nothing_of_an_accepted_firing(sink: Sink, body: Behaviour) -> None:
    sink.answer(body)
    with Posting.to(sink.url) as posting:
        ended = posting.deliver(ordered())
    assert (ended.answer.status, ended.answer.verdict, ended.reply) == (200, Verdict.DELIVERED, None)


@pytest.mark.parametrize("replies", [True, False])
def test_a_sink_writes_events_only_if_its_record_says_that_it_may_reply(sink: Sink, replies: bool) -> None:
    event = {
        "ce-specversion": "1.0",
        "ce-id": "r1",
        "ce-source": "/sink",
        "ce-type": "com.example.order.paid",
    }
    sink.answer(answer(200, event))
    with Posting.to(sink.url) as posting:
        ended = posting.deliver(ordered(), replies=replies)
    assert ended.answer.verdict is Verdict.DELIVERED
    assert (ended.reply is not None) is replies
    assert ("prefer" in sink.received[0].headers) is replies


@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308])
@pytest.mark.parametrize("place", ["http://169.254.169.254/latest/meta-data/", "/other"])
def test_redirects_are_not_followed(sink: Sink, status: int, place: str) -> None:
    sink.answer(answer(status, {"location": place}))
    with Posting.to(sink.url) as posting:
        found = posting.deliver(ordered()).answer
    assert (found.status, found.verdict, len(sink.received)) == (status, Verdict.REFUSED, 1)


def test_interim_answers_are_skipped(sink: Sink) -> None:
    sink.answer(
        raw(
            b"HTTP/1.1 103 Early Hints\r\nlink: <x>\r\n\r\nHTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"
        )
    )
    with Posting.to(sink.url) as posting:
        assert posting.deliver(ordered()).answer.status == 202


@pytest.mark.parametrize("header", [b"content-security-policy", b"set-cookie"])
def test_an_accepted_firing_whose_answer_has_a_large_header_is_not_sent_again(
    sink: Sink, header: bytes
) -> None:
    """aio-libs/aiohttp#2304, #5603: by default a header of more than 8 KiB makes the answer unreadable."""
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n" + header + b": " + b"x" * 30_000 + b"\r\n\r\n"
    sink.answer(raw(head))
    with Posting.to(sink.url) as posting:
        assert posting.deliver(ordered()).answer.verdict is Verdict.DELIVERED


@pytest.mark.parametrize(
    "parts",
    [
        [b"HTTP/1.1 204 No Content\r\ncontent-length: 4\r\n\r\nHey!"],
        [b"HTTP/1.1 204 No Content\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"],
        [b"HTTP/1.1 204\r\n\r\nHey!"],
        [b"HTTP/1.1 204 No Content\r\ncontent-len", b"gth: 4\r\n\r", b"\nHe", b"y!"],
        [b"HTTP/1.1 204 No Content\r\ncontent-length: 4\r\n\r\n", b"Hey!"],
    ],
    ids=["with a length", "with chunks", "without a length", "in parts", "after its head"],
)
def test_an_answer_204_with_a_body_is_accepted_and_the_next_delivery_too(
    sink: Sink, parts: list[bytes]
) -> None:
    """pydantic/httpx2#570, aio-libs/aiohttp#7756: servers send a body, or the end of chunks, with 204."""

    async def in_parts(writer: asyncio.StreamWriter) -> bool:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.02)
        return True

    sink.answer(in_parts, answer(200))
    with Posting.to(sink.url) as posting:
        assert [posting.deliver(ordered(n)).answer.status for n in range(2)] == [204, 200]


@pytest.mark.parametrize(
    ("framing", "body"),
    [
        (b"transfer-encoding: chunked", b"zz\r\n"),
        (b"transfer-encoding: chunked", b"2\r\nokmore\r\n0\r\n\r\n"),
        (b"content-length: 2", b"ok more"),
    ],
    ids=["a wrong chunk", "a chunk that is too long", "too long"],
)
@pytest.mark.parametrize("is_together", [True, False], ids=["in one packet", "after its head"])
@pytest.mark.parametrize(("status", "verdict"), [(200, Verdict.DELIVERED), (400, Verdict.REFUSED)])
def test_a_status_counts_whatever_follows_its_head(
    sink: Sink, framing: bytes, body: bytes, is_together: bool, status: int, verdict: Verdict
) -> None:
    head = b"HTTP/1.1 %d Done\r\n%b\r\n\r\n" % (status, framing)

    async def behave(writer: asyncio.StreamWriter) -> bool:
        for part in (head + body,) if is_together else (head, body):
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.02)
        return True

    sink.answer(behave, answer(200))
    with Posting.to(sink.url) as posting:
        began = time.monotonic()
        found = [posting.deliver(ordered(n)).answer for n in range(2)]
        took_s = time.monotonic() - began
    assert [(each.status, each.verdict) for each in found] == [(status, verdict), (200, Verdict.DELIVERED)]
    assert took_s < 0.9  # nothing waits for a body that cannot be read


def test_a_reply_that_is_not_valid_http_fails_at_once(sink: Sink) -> None:
    head = b"HTTP/1.1 200 OK\r\nce-type: paid\r\ntransfer-encoding: chunked\r\n\r\n"
    sink.answer(raw(head + b"zz\r\n", is_kept=True))
    with Posting.to(sink.url) as posting:
        found = posting.deliver(ordered()).answer
    assert (found.verdict, found.text) == (Verdict.RETRY, "the answer ended too early")


def test_an_interim_answer_and_an_answer_204_with_a_body_may_come_together(sink: Sink) -> None:
    interim = b"HTTP/1.1 103 Early Hints\r\nlink: <x>\r\n\r\n" * 1500
    sink.answer(raw(interim + b"HTTP/1.1 204 No Content\r\ncontent-length: 4\r\n\r\nHey!"))
    with Posting.to(sink.url) as posting:
        assert posting.deliver(ordered()).answer.status == 204


def test_connections_are_used_again_after_an_answer_204(sink: Sink) -> None:
    sink.answer(raw(b"HTTP/1.1 204 No Content\r\nx: y\r\n\r\n", is_kept=True), answer(204), answer(200))
    with Posting.to(sink.url) as posting:
        assert [posting.deliver(ordered(n)).answer.status for n in range(3)] == [204, 204, 200]
    assert [each.connection for each in sink.received] == [1, 1, 1]


def test_another_protocol_is_not_switched_to(sink: Sink) -> None:
    sink.answer(raw(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n"))
    with Posting.to(sink.url) as posting:
        found = posting.deliver(ordered()).answer
    assert (found.status, found.verdict) == (101, Verdict.REFUSED)


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_read_in_seconds_and_as_a_date(sink: Sink, status: int) -> None:
    now = datetime(2026, 11, 20, tzinfo=UTC)
    date, later = (format_datetime(at, usegmt=True) for at in (now, now + timedelta(seconds=90)))
    sink.answer(
        answer(status, {"retry-after": "17"}),
        answer(status, {"retry-after": later, "date": date}),
        answer(status, {"retry-after": "soon"}),
        answer(status),
    )
    with Posting.to(sink.url) as posting:
        found = [posting.deliver(ordered(n)).answer.retry_after_s for n in range(4)]
    assert found == [17.0, 90.0, None, None]


@pytest.mark.parametrize(
    ("body", "begin"),
    [
        (answer(500, {}, b"no room"), b"no room"),
        (answer(500, {}, b"x" * 5000), b"x" * 1024),
        (flood(b"HTTP/1.1 500 Oops\r\n\r\n", b"x"), b"x" * 1024),
        (answer(500, {"content-encoding": "gzip"}, BOMB), b""),
        (answer(500, {"content-encoding": "Identity"}, b"no room"), b"no room"),
        (cut(500, {}, b"half"), b""),
        (answer(500), b""),
    ],
    ids=["short", "long", "without end", "compressed", "not compressed", "cut", "empty"],
)
def test_an_excerpt_of_a_refusal_is_kept(sink: Sink, body: Behaviour, begin: bytes) -> None:
    sink.answer(body)
    with Posting.to(sink.url) as posting:
        found = posting.deliver(ordered()).answer
    assert (found.status, found.excerpt) == (500, begin)


@pytest.mark.parametrize("size", [10, 4_000_000])
def test_an_answer_before_the_body_is_sent_counts(sink: Sink, size: int) -> None:
    """As proxies refuse what is too large for them."""
    sink.early = raw(b"HTTP/1.1 413 Payload Too Large\r\ncontent-length: 3\r\n\r\nbig")
    with Posting.to(sink.url) as posting:
        found = posting.deliver(ordered(data={"text": "x" * size})).answer
    assert (found.status, found.verdict) == (413, Verdict.REFUSED), found.text


def test_a_refusal_whose_body_does_not_come_keeps_its_status(sink: Sink) -> None:
    sink.answer(drip(b"x", start=b"HTTP/1.1 400 Bad Request\r\ncontent-length: 1000\r\n\r\n"))
    with Posting.to(sink.url) as posting:
        assert posting.deliver(ordered(), SOON_S).answer.verdict is Verdict.REFUSED


# -- targets


def test_a_connection_that_cannot_be_used_is_unreachable(sink: Sink) -> None:
    with Posting({"c": TargetError("Connection 'c' has no host.")}) as posting:
        found = posting.deliver(ordered()).answer
        assert (found.verdict, found.text) == (Verdict.UNREACHABLE, "Connection 'c' has no host.")


def test_a_lookup_that_somebody_cancels_ends_its_delivery() -> None:
    with Posting({"c": CancelledError()}) as posting:
        ended = posting.deliver(ordered())
    assert ended.answer.verdict is Verdict.UNREACHABLE
    assert str(ended.answer) == "Connection 'c' could not be looked up: TimeoutError."


def test_lookups_that_hang_delay_no_other_sink(sink: Sink) -> None:
    release = threading.Event()

    class Hanging(Posting):
        def _lookup(self, connection: str) -> SinkTarget:
            if connection != "c":
                release.wait()
            return super()._lookup(connection)

    others = [f"hangs{number}" for number in range(20)]
    with Hanging({name: SinkTarget(url=sink.url) for name in ("c", *others)}) as posting:
        hanging = [posting.start(ordered(n), connection=name) for n, name in enumerate(others)]
        assert posting.deliver(ordered(99)).answer.status == 202
        assert len(sink.received) == 1
        release.set()
        assert {posting.wait(number).answer.status for number in hanging} == {202}


def test_a_path_that_leads_out_of_the_connection_is_unreachable(sink: Sink) -> None:
    with Posting.to(f"{sink.url}/tenant") as posting:
        found = posting.deliver(ordered(), path="/../other").answer
    assert found.verdict is Verdict.UNREACHABLE
    assert sink.received == []


def test_a_connection_is_looked_up_once_and_after_a_denial(sink: Sink) -> None:
    with mock.patch("interlock.engine.sending.targets.AGAIN_S", 0.0), Posting.to(sink.url) as posting:
        for offset in range(3):
            posting.deliver(ordered(offset))
        assert posting.looked_up == ["c"]
        sink.answer(answer(403))
        posting.targets["c"] = SinkTarget(url=f"{sink.url}/new")
        assert posting.deliver(ordered(3)).answer.verdict is Verdict.DENIED
        sink.answer(answer(202))
        assert posting.deliver(ordered(4), connection="other").answer.verdict is Verdict.UNREACHABLE
        posting.deliver(ordered(5))
    assert sink.received[-1].path == "/new"


def test_a_changed_sink_is_used_while_deliveries_to_the_old_one_end(sink: Sink) -> None:
    release = threading.Event()

    async def wait(writer: asyncio.StreamWriter) -> bool:
        await asyncio.to_thread(release.wait)
        return await answer(202)(writer)

    sink.behave = lambda got: wait if got.path == "/old" else answer(202)
    with Posting.to(sink.url) as posting:
        old = posting.start(ordered(1), path="/old")
        assert posting.deliver(ordered(2), path="/new").answer.status == 202
        release.set()
        assert posting.wait(old).answer.status == 202


# -- the thread


@pytest.mark.parametrize("what", ["lookup", "name", "data"])
def test_a_process_ends_although_a_call_of_its_threads_hangs(what: str) -> None:
    """The thread that it waits for would be one of the interpreter's pools."""
    code = f"""
import socket, threading
from interlock.engine.sending.target import SinkTarget
from tests.kit.posting import Posting, form
from tests.unit.engine.delivery.firings import firing

begun = threading.Event()

def hang(*_, **__):
    begun.set()
    threading.Event().wait()

what = {what!r}
if what == "name":
    socket.getaddrinfo = hang
class Hanging(Posting):
    def _lookup(self, connection):
        return hang() if what == "lookup" else super()._lookup(connection)
    def _fetch(self, dataref):
        hang()
event = form(**({{"dataref": {REF!r}}} if what == "data" else {{}}))
origins = {{"order": [{{"topic": "b-event", "partition": 0, "offset": 5, "timestamp_ms": 0}}]}}
with Hanging({{"c": SinkTarget(url="http://sink.example")}}) as posting:
    posting.start(firing(7, events={{"order": [event]}}, origins=origins))
    assert begun.wait({WAIT_S})
print("closed")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, text=True, capture_output=True, timeout=3 * WAIT_S
    )
    assert (done.returncode, done.stdout) == (0, "closed\n"), done.stderr


def test_closing_ends_deliveries_that_hang(sink: Sink) -> None:
    sink.answer(hang())
    with Posting.to(sink.url) as posting:
        posting.start(ordered(), timeout_s=3600)
    assert not any(each.name == "interlock-posts" for each in threading.enumerate())


def test_a_thread_that_ended_is_an_error() -> None:
    with Posting.to("http://127.0.0.1:1") as posting:
        with mock.patch.object(posting.posts, "_begin", side_effect=SystemExit):
            posting.posts.start(mock.Mock())
            posting.posts._thread.join()
        with pytest.raises(EngineError, match="has ended"):
            posting.posts.ended()


def test_what_is_started_before_the_thread_runs_is_delivered(sink: Sink) -> None:
    posting = Posting.to(sink.url)
    number = posting.start(ordered())
    with posting:
        assert posting.wait(number).answer.status == 202


def test_posts_that_were_never_opened_can_be_closed() -> None:
    Posting.to("http://127.0.0.1:1").posts.close()
