"""Deliveries to a sink on loopback that answers, or misbehaves."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pytest
from interlock.engine.delivery.answers import Answer, Verdict
from interlock.engine.delivery.firings import OpenFiring
from interlock.engine.errors import EngineError, UnreachableError
from interlock.engine.sending.referred import MOST_BYTES
from interlock.engine.sending.target import Target, TargetError, Tls
from interlock.events.event import Event

from tests.kit.certificates import Authority
from tests.kit.posting import LOOPBACK, WAIT_S, Posting, form
from tests.kit.sinks import Behaviour, Sink, answer, cut, drip, flood, hang, raw, reset
from tests.unit.engine.delivery.firings import firing

ROOT = Path(__file__).parents[4]
BOMB = gzip.compress(b"\0" * 4_000_000)
SOON_S = 0.3  # a timeout of deliveries that must not be answered in time


@pytest.fixture
def sink() -> Iterator[Sink]:
    with Sink() as made:
        yield made


def ordered(offset: int = 7, data: object = None, **attributes: object) -> OpenFiring:
    """A firing with one event."""
    return firing(offset, events={"order": [form({"n": 1} if data is None else data, **attributes)]})


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
        (
            raw(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nno chunk\r\n"),
            "the answer is not valid HTTP",
        ),
        (flood(b"HTTP/1.1 200 OK\r\n", b"x: y\r\n"), "the answer is not valid HTTP"),
        (flood(b"HTTP/1.1 200 OK\r\nx: ", b"y"), "the answer is not valid HTTP"),
        (flood(b"", b"y"), "the answer is not valid HTTP"),
    ],
    ids=[
        "closed", "reset", "closed in the head", "another protocol", "no status", "a long header",
        "many headers", "broken chunks", "headers without end", "a header without end", "a line without end",
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
        (answer(500, {"content-encoding": "gzip"}, BOMB), BOMB[:1024]),
        (cut(500, {}, b"half"), b""),
        (answer(500), b""),
    ],
    ids=["short", "long", "without end", "compressed", "cut", "empty"],
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


# -- connections


def test_a_refused_connection_is_unreachable() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        with Posting.to(f"http://127.0.0.1:{taken.getsockname()[1]}") as posting:
            found = posting.deliver(ordered()).answer
    assert (found.verdict, found.text) == (Verdict.UNREACHABLE, "no connection: Connection refused")


def test_a_connection_that_is_not_made_in_time_is_unreachable() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        with socket.socket() as first, socket.socket() as second:  # fill its queue: the next one waits
            for each in (first, second):
                each.setblocking(False)
                each.connect_ex(full.getsockname())
            with Posting.to(f"http://127.0.0.1:{full.getsockname()[1]}") as posting:
                found = posting.deliver(ordered(), SOON_S).answer
    assert (found.verdict, found.text) == (Verdict.UNREACHABLE, f"no connection: none within {SOON_S:g} s")


def test_a_name_that_does_not_exist_is_unreachable() -> None:
    with (
        mock.patch("socket.getaddrinfo", side_effect=socket.gaierror(-2, "Name or service not known")),
        Posting.to("http://sink.example") as posting,
    ):
        found = posting.deliver(ordered()).answer
    assert found.verdict is Verdict.UNREACHABLE
    assert found.text == "no connection: the host's name cannot be resolved: Name or service not known"


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("http://127.0.0.1:{port}", ()),
        ("http://localhost:{port}", ()),
        ("http://[::ffff:127.0.0.1]:{port}", ()),
        ("http://169.254.169.254", LOOPBACK),
        ("http://[::ffff:169.254.169.254]", LOOPBACK),
        ("http://[fd00:ec2::254]", LOOPBACK),
        ("http://100.100.100.200", [ip_network("100.64.0.0/10")]),
        ("http://168.63.129.16", ()),
        ("http://10.0.0.1", LOOPBACK),
        ("http://0.0.0.0:{port}", LOOPBACK),
    ],
)
def test_forbidden_addresses_are_not_connected_to(sink: Sink, url: str, allowed: Any) -> None:
    with Posting({"c": Target(url=url.format(port=sink.port))}, allowed=allowed) as posting:
        found = posting.deliver(ordered()).answer
    assert (found.verdict, sink.connections) == (Verdict.UNREACHABLE, 0)
    assert "no connection: " in found.text
    assert any(why in found.text for why in ("not public", "metadata", "no address of a service"))


@pytest.mark.parametrize("host", ["0x7f.1", "2130706433", "127.1", "0177.0.0.1"])
def test_odd_forms_of_addresses_are_not_connected_to(sink: Sink, host: str) -> None:
    with Posting({"c": Target(url=f"http://{host}:{sink.port}")}, allowed=()) as posting:
        assert posting.deliver(ordered()).answer.verdict is Verdict.UNREACHABLE
    assert sink.connections == 0


def resolves_to(*addresses: str) -> Any:
    """Names stand for these addresses, one lookup after the other; the last one again and again."""
    left = [*addresses]

    def lookup(_host: Any, port: Any, *_: Any, **__: Any) -> list[Any]:
        found = left.pop(0) if len(left) > 1 else left[0]
        return [
            (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (each, port))
            for each in found.split()
        ]

    return mock.patch("socket.getaddrinfo", side_effect=lookup)


def test_a_name_with_a_forbidden_and_an_allowed_address_is_reached_at_the_allowed_one(sink: Sink) -> None:
    with (
        resolves_to("169.254.169.254 10.0.0.1 127.0.0.1"),
        Posting.to(f"http://sink.example:{sink.port}") as posting,
    ):
        assert posting.deliver(ordered()).answer.status == 202


def test_a_name_with_forbidden_addresses_alone_is_not_reached() -> None:
    with resolves_to("169.254.169.254 10.0.0.1"), Posting.to("http://sink.example") as posting:
        found = posting.deliver(ordered()).answer
    assert found.verdict is Verdict.UNREACHABLE
    assert "not public" in found.text


def test_a_name_that_stands_for_another_address_later_is_checked_again(sink: Sink) -> None:
    """DNS rebinding: only the first answer was harmless."""
    sink.answer(raw(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"))
    with (
        mock.patch("interlock.engine.sending.connector.NAMES_S", 0),
        resolves_to("127.0.0.1", "169.254.169.254"),
        Posting.to(f"http://sink.example:{sink.port}") as posting,
    ):
        assert posting.deliver(ordered(1)).answer.status == 202
        found = posting.deliver(ordered(2)).answer
    assert found.verdict is Verdict.UNREACHABLE
    assert "metadata" in found.text


def test_proxies_of_the_environment_are_not_used(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with Posting.to(sink.url) as posting:
        assert posting.deliver(ordered()).answer.status == 202


# -- TLS


def serving(authority: Authority, *hosts: str, **options: Any) -> ssl.SSLContext:
    made = authority.issue("server", *hosts, **options)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.certificate, made.key)
    return context


def test_a_certificate_of_a_trusted_authority_is_taken(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with Sink(tls=serving(authority, "127.0.0.1")) as sink:
        with Posting.to(sink.url, tls=Tls(ca_file=str(authority.file))) as posting:
            assert posting.deliver(ordered()).answer.status == 202
        with Posting.to(sink.url) as posting:
            found = posting.deliver(ordered()).answer
    assert found.verdict is Verdict.UNREACHABLE
    assert found.text == "no connection: TLS: unable to get local issuer certificate"


@pytest.mark.parametrize("fault", ["another name", "expired", "no TLS"])
def test_a_bad_certificate_is_unreachable(tmp_path: Path, fault: str) -> None:
    authority = Authority(tmp_path)
    ends = datetime.now(UTC) - timedelta(days=1) if fault == "expired" else None
    host = "sink.example" if fault == "another name" else "127.0.0.1"
    with Sink(tls=None if fault == "no TLS" else serving(authority, host, ends=ends)) as sink:
        url = sink.url.replace("http:", "https:")
        with Posting.to(url, tls=Tls(ca_file=str(authority.file))) as posting:
            found = posting.deliver(ordered(), SOON_S if fault == "no TLS" else 5).answer
    assert found.verdict is Verdict.UNREACHABLE
    assert found.text.startswith("no connection: TLS: " if fault != "no TLS" else "no connection: ")
    assert sink.received == []


def test_a_sink_may_ask_for_the_senders_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    tls = serving(authority, "127.0.0.1")
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(authority.file)
    own = authority.issue("client")
    with Sink(tls=tls) as sink:
        given = Tls(ca_file=str(authority.file), certificate_file=str(own.certificate), key_file=str(own.key))
        with Posting.to(sink.url, tls=given) as posting:
            assert posting.deliver(ordered()).answer.status == 202
        with Posting.to(sink.url, tls=Tls(ca_file=str(authority.file))) as posting:
            assert posting.deliver(ordered()).answer.status is None


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
        def _lookup(self, connection: str) -> Target:
            if connection != "c":
                release.wait()
            return super()._lookup(connection)

    others = [f"hangs{number}" for number in range(20)]
    with Hanging({name: Target(url=sink.url) for name in ("c", *others)}) as posting:
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
        posting.targets["c"] = Target(url=f"{sink.url}/new")
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


# -- data by reference


REF = "kafka:b-event/0/5"


def referring(offset: int = 7, **attributes: object) -> OpenFiring:
    origins = {"order": [{"topic": "b-event", "partition": 0, "offset": 5, "timestamp_ms": 0}]}
    return firing(offset, events={"order": [form(dataref=REF, **attributes)]}, origins=origins)


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


# -- the thread


@pytest.mark.parametrize("what", ["lookup", "name", "data"])
def test_a_process_ends_although_a_call_of_its_threads_hangs(what: str) -> None:
    """The thread that it waits for would be one of the interpreter's pools."""
    code = f"""
import socket, threading
from interlock.engine.sending.target import Target
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
with Hanging({{"c": Target(url="http://sink.example")}}) as posting:
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
