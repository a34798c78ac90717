"""Connections to sinks: the addresses that are refused, and TLS."""

from __future__ import annotations

import gc
import socket
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from interlock.engine.delivery.answers import Verdict
from interlock.engine.sending.content import Sendable
from interlock.engine.sending.target import SinkTarget, Tls

from tests.kit.certificates import Authority
from tests.kit.posting import LOOPBACK, Posting
from tests.kit.sinks import Sink, raw
from tests.unit.engine.sending.orders import SOON_S, ordered


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


@pytest.mark.parametrize("url", ["http://127.0.0.1:{port}", "http://10.0.0.1", "http://sink.example"])
def test_what_was_to_be_sent_is_freed_without_the_garbage_collector(url: str) -> None:
    """aiohttp's errors are in cycles, which held the body, perhaps of megabytes, until they were found."""

    def unknown(*_: object, **__: object) -> None:  # an error that is kept would keep frames on Python 3.12
        raise socket.gaierror(-2, "Name or service not known")

    with socket.socket() as taken, mock.patch("socket.getaddrinfo", unknown):
        taken.bind(("127.0.0.1", 0))
        with Posting.to(url.format(port=taken.getsockname()[1])) as posting:
            gc.collect()
            before = all_sendables()  # an earlier test may have left some
            gc.disable()
            try:
                assert posting.deliver(ordered()).answer.verdict is Verdict.UNREACHABLE
                assert [each for each in all_sendables() if not any(each is one for one in before)] == []
            finally:
                gc.enable()


def all_sendables() -> list[Sendable]:
    return [each for each in gc.get_objects() if isinstance(each, Sendable)]


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
    with Posting({"c": SinkTarget(url=url.format(port=sink.port))}, allowed=allowed) as posting:
        found = posting.deliver(ordered()).answer
    assert (found.verdict, sink.connections) == (Verdict.UNREACHABLE, 0)
    assert "no connection: " in found.text
    assert any(why in found.text for why in ("not public", "metadata", "not an address of a service"))


@pytest.mark.parametrize("host", ["0x7f.1", "2130706433", "127.1", "0177.0.0.1"])
def test_odd_forms_of_addresses_are_not_connected_to(sink: Sink, host: str) -> None:
    with Posting({"c": SinkTarget(url=f"http://{host}:{sink.port}")}, allowed=()) as posting:
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
