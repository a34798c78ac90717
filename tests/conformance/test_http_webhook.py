"""CloudEvents HTTP webhooks 1.0.2."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from interlock.receiver.app import Receiver, RequestLimits
from interlock.receiver.cloudevents import CloudEvents
from interlock.receiver.credentials import Credentials
from interlock.receiver.credentials_document import Credential, Document

from tests.unit.receiver.asking import BINARY, Answered, Bus, ask

SPECIFICATION = "https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/http-webhook.md"
ORIGIN = (b"webhook-request-origin", b"Emitter.example.com")
RATE = (b"webhook-request-rate", b"120")
TOKEN_SHA256 = "1c8bfe8f801d79745c4631d09fff36c82aa37fc4cce4fc946683d7b336b63032"
DOCUMENT = Document([Credential(name="shop", types=("*",), token_sha256=TOKEN_SHA256)])


def asked(
    headers: Sequence[tuple[bytes, bytes]],
    method: str = "OPTIONS",
    origins: Sequence[str] = ("emitter.example.com",),
    document: Document | None = None,
    held_bytes: int = 10_000_000,
) -> Answered:
    async def check() -> Answered:
        receiver = Receiver(
            {"/events": CloudEvents(Credentials(document), origins)}, RequestLimits(held_bytes=held_bytes)
        )
        receiver.writer = Bus()
        return await ask(receiver, list(headers), method=method)

    return asyncio.run(check())


@pytest.mark.section("2.1", "events are delivered with POST; other methods get 405 and Allow")
@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "TRACE"])
def test_other_methods_are_refused(method: str) -> None:
    answer = asked(BINARY, method)
    assert (answer.status, answer.headers["allow"]) == (405, "POST, OPTIONS")


@pytest.mark.section("2.2", "an accepted event gets 202 without a payload")
def test_an_accepted_event_gets_202() -> None:
    answer = asked(BINARY, "POST")
    assert (answer.status, answer.body) == (202, b"")


@pytest.mark.section("2.2", "above its limit the receiver answers 429 with Retry-After")
def test_too_many_requests_get_a_time_to_try_again() -> None:
    answer = asked(BINARY, "POST", held_bytes=10)
    assert (answer.status, answer.headers["retry-after"]) == (429, "1")


@pytest.mark.section("2.2", "an event format that is not understood gets 415")
def test_an_unknown_event_format_gets_415() -> None:
    assert asked([(b"content-type", b"application/cloudevents+avro")], "POST").status == 415


@pytest.mark.section("3.1", "a bearer token in the header Authorization is taken")
def test_a_bearer_token_is_taken() -> None:
    assert asked([*BINARY, (b"authorization", b"Bearer letmein")], "POST", document=DOCUMENT).status == 202
    assert asked(BINARY, "POST", document=DOCUMENT).status == 401


@pytest.mark.section("4.1, 4.2", "a declared origin is granted, with any rate; no credential is needed")
@pytest.mark.parametrize("rate", [[], [RATE]], ids=["without a rate", "with a rate"])
def test_a_declared_origin_is_granted(rate: list[tuple[bytes, bytes]]) -> None:
    answer = asked([ORIGIN, *rate], document=DOCUMENT)
    assert answer.status == 200
    assert answer.headers["allow"] == "POST, OPTIONS"
    assert answer.headers["webhook-allowed-origin"] == "Emitter.example.com"
    assert answer.headers["webhook-allowed-rate"] == "*"


@pytest.mark.section("4.2.1", "`*` allows all origins")
def test_a_receiver_may_allow_all_origins() -> None:
    answer = asked([ORIGIN, RATE], origins=["*"])
    assert (answer.status, answer.headers["webhook-allowed-origin"]) == (200, "*")


@pytest.mark.section("4.1.3", "the callback is never called; the answer itself grants or refuses")
@pytest.mark.parametrize("origin", [ORIGIN, (ORIGIN[0], b"other.example.com")])
def test_a_callback_is_never_called(origin: tuple[bytes, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*_: object) -> None:
        raise AssertionError("it connects")

    monkeypatch.setattr("socket.socket.connect", connect)
    callback = (b"webhook-request-callback", b"http://169.254.169.254/latest/meta-data")
    assert asked([origin, callback]).status == asked([origin]).status


@pytest.mark.section("4.2", "an origin that is not declared gets no WebHook-Allowed headers")
@pytest.mark.parametrize(
    ("headers", "origins", "status"),
    [
        ([ORIGIN], [], 405),
        ([(ORIGIN[0], b"other.example.com")], ["emitter.example.com"], 403),
        ([(ORIGIN[0], b"a.emitter.example.com")], ["emitter.example.com"], 403),
        ([(ORIGIN[0], b"*")], ["emitter.example.com"], 403),
        ([(ORIGIN[0], b"\xff")], ["emitter.example.com"], 403),
        ([], ["*"], 400),
        ([ORIGIN, ORIGIN], ["*"], 400),
        ([ORIGIN, (RATE[0], b"0")], ["*"], 400),
        ([ORIGIN, (RATE[0], b"-1")], ["*"], 400),
        ([ORIGIN, (RATE[0], b"many")], ["*"], 400),
        ([ORIGIN, RATE, RATE], ["*"], 400),
    ],
)
def test_an_origin_that_is_not_declared_is_not_granted(
    headers: list[tuple[bytes, bytes]], origins: list[str], status: int
) -> None:
    answer = asked(headers, origins=origins)
    assert answer.status == status
    assert "POST" in answer.headers["allow"]
    assert not [name for name in answer.headers if name.startswith("webhook-allowed")]
