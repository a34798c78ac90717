"""What deliveries send of credentials, and that nothing else has them."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import logging
import threading
from typing import Any
from unittest import mock
from urllib.parse import parse_qs

import pytest
from interlock.engine.delivery.answers import Verdict
from interlock.engine.sending.target import Basic, Bearer, ClientCredentials, SinkTarget

from tests.kit.posting import WAIT_S, Posting, form
from tests.kit.sinks import Received, Sink, answer, cut, hang, raw
from tests.unit.engine.delivery.firings import firing

CANARY = "canary-3f9d81"
NESTED = b"[" * 60_000  # msgspec raises RecursionError for so many levels


def token(text: str = "token-1", **members: Any) -> Any:
    body = {"access_token": text, "token_type": "Bearer", "expires_in": 3600, **members}
    return answer(200, {"content-type": "application/json"}, json.dumps(body).encode())


def credentials(endpoint: Sink, **members: Any) -> ClientCredentials:
    given = {"client_id": "an id", "client_secret": f"{CANARY}&", **members}
    return ClientCredentials(token_url=f"{endpoint.url}/token", **given)


def ordered(offset: int = 1) -> Any:
    return firing(offset, events={"order": [form({"n": 1})]})


def test_a_bearer_token_a_login_and_headers_are_sent(sink: Sink) -> None:
    for auth in (Bearer(CANARY), Basic("lögin", CANARY)):
        with Posting.to(sink.url, auth=auth, headers={"X-Tenant": "t", "Cookie": "a=b"}) as posting:
            posting.deliver(ordered())
    basic = base64.b64encode(f"lögin:{CANARY}".encode()).decode()
    assert [got.headers["authorization"] for got in sink.received] == [f"Bearer {CANARY}", f"Basic {basic}"]
    assert (sink.received[0].headers["x-tenant"], sink.received[0].headers["cookie"]) == ("t", "a=b")


def test_cookies_of_an_answer_are_not_kept(sink: Sink) -> None:
    sink.answer(answer(202, {"set-cookie": "session=1"}))
    with Posting.to(sink.url) as posting:
        posting.deliver(ordered(1))
        posting.deliver(ordered(2))
    assert "cookie" not in sink.received[1].headers


@pytest.mark.parametrize("in_body", [False, True])
def test_a_token_is_fetched_once_and_used_again(sink: Sink, in_body: bool) -> None:
    with Sink(lambda _: token()) as endpoint:
        auth = credentials(endpoint, scope="a b", audience="sinks", in_body=in_body)
        with Posting.to(sink.url, auth=auth) as posting:
            numbers = [posting.start(ordered(n)) for n in range(5)]
            assert {posting.wait(number).answer.status for number in numbers} == {202}
            posting.deliver(ordered(5))
        (asked,) = endpoint.received
    assert {got.headers["authorization"] for got in sink.received} == {"Bearer token-1"}
    assert asked.headers["content-type"] == "application/x-www-form-urlencoded"
    sent = {name: text for name, (text,) in parse_qs(asked.body.decode()).items()}
    own = {"client_id": "an id", "client_secret": f"{CANARY}&"} if in_body else {}
    assert sent == {"grant_type": "client_credentials", "scope": "a b", "audience": "sinks", **own}
    if not in_body:
        shown = base64.b64decode(asked.headers["authorization"].removeprefix("Basic ")).decode()
        assert shown == f"an+id:{CANARY}%26"


def test_a_token_that_expires_is_fetched_again(sink: Sink) -> None:
    with Sink() as endpoint:
        endpoint.answer(token("token-1", expires_in=0), token("token-2", expires_in="3600"))
        with Posting.to(sink.url, auth=credentials(endpoint)) as posting:
            for offset in range(3):
                posting.deliver(ordered(offset))
    assert [got.headers["authorization"][-1] for got in sink.received] == ["1", "2", "2"]


def test_after_a_401_a_token_is_fetched_again_once(sink: Sink) -> None:
    sink.behave = lambda got: answer(202 if got.headers["authorization"] == "Bearer token-2" else 401)
    with Sink() as endpoint:
        endpoint.answer(token("token-1"), token("token-2"), token("token-3"))
        with Posting.to(sink.url, auth=credentials(endpoint)) as posting:
            assert posting.deliver(ordered(1)).answer.status == 202
            sink.behave = lambda _: answer(401)
            assert posting.deliver(ordered(2)).answer.verdict is Verdict.DENIED
    assert [got.headers["authorization"][-1] for got in sink.received] == ["1", "2", "2", "3"]


def test_a_401_is_final_without_a_token_that_can_be_fetched(sink: Sink) -> None:
    sink.answer(answer(401))
    with Posting.to(sink.url, auth=Bearer("x")) as posting:
        assert posting.deliver(ordered()).answer.verdict is Verdict.DENIED
    assert len(sink.received) == 1


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (answer(400, {}, b'{"error": "invalid_client"}'), "it answers HTTP 400 (invalid_client)"),
        (answer(400, {}, json.dumps({"error": f"{CANARY} is wrong"}).encode()), "it answers HTTP 400"),
        (answer(302, {"location": "http://169.254.169.254"}), "it answers HTTP 302"),
        (answer(200, {}, b"{}"), "its answer has no access_token in JSON"),
        (answer(200, {}, b"<html>"), "its answer has no access_token in JSON"),
        (
            answer(200, {}, b'{"access_token": "t", "x": %s' % NESTED),
            "its answer has no access_token in JSON",
        ),
        (answer(200, {}, b'{"access_token": "\xff"}'), "its answer has no access_token in JSON"),
        (answer(400, {}, b'{"error": "invalid_client", "x": %s' % NESTED), "it answers HTTP 400"),
        (answer(200, {}, b"x" * 100_000), "its answer has no access_token in JSON"),
        (token(expires_in="soon"), "its answer has no access_token in JSON"),
        (token("a\nb"), "its token is not a bearer token"),
        (token(token_type="mac"), "its token is not a bearer token"),
        (raw(b""), "the sink closed the connection without an answer"),
        (cut(200, {}, b"{"), "the answer ended too early"),
        (hang(), "no complete answer within 0.3 s"),
    ],
)
def test_without_a_token_the_sink_is_unreachable(sink: Sink, behaviour: Any, reason: str) -> None:
    with Sink() as endpoint, mock.patch("interlock.engine.sending.tokens.FETCH_S", 0.3):
        endpoint.answer(behaviour)
        with Posting.to(sink.url, auth=credentials(endpoint)) as posting:
            found = posting.deliver(ordered()).answer
    assert (found.verdict, sink.received) == (Verdict.UNREACHABLE, [])
    assert found.text == f"no token from 127.0.0.1: {reason}"


def test_a_token_endpoints_address_is_checked(sink: Sink) -> None:
    auth = ClientCredentials(token_url="https://169.254.169.254/token", client_id="a", client_secret=CANARY)
    with Posting.to(sink.url, auth=auth) as posting:
        found = posting.deliver(ordered()).answer
    assert "metadata" in found.text
    assert sink.received == []


def echo(got: Received) -> Any:
    return answer(500, {}, f"{got.path} {got.headers} {'x' * 2000}".encode())


def echo_reply(got: Received) -> Any:
    shown = got.headers.get("authorization", "") + got.headers.get("x-api-key", "")
    return answer(200, {"ce-specversion": shown[-60:], "ce-id": "1"})


@pytest.mark.parametrize("behave", [echo, echo_reply], ids=["error", "malformed reply"])
@pytest.mark.parametrize("how", ["bearer", "basic", "header", "token", "path", "query"])
def test_no_secret_is_in_an_answer_that_repeats_the_request(
    sink: Sink, how: str, behave: Any, caplog: pytest.LogCaptureFixture
) -> None:
    sink.behave = behave
    long = f"{CANARY}-{'s' * 20}"
    with Sink(lambda _: token(long)) as endpoint:
        target = {
            "bearer": SinkTarget(url=sink.url, auth=Bearer(long)),
            "basic": SinkTarget(url=sink.url, auth=Basic("login", long)),
            "header": SinkTarget(url=sink.url, headers={"X-Api-Key": long}),
            "token": SinkTarget(url=sink.url, auth=credentials(endpoint)),
            "path": SinkTarget(url=f"{sink.url}/{long}/x"),
            "query": SinkTarget(url=f"{sink.url}?key={long}"),
        }[how]
        with caplog.at_level(logging.DEBUG), Posting({"c": target}) as posting:
            ended = posting.deliver(ordered(), path="y")
    encoded = base64.b64encode(f"login:{long}".encode()).decode()
    texts = f"{ended!r} {ended.answer} {caplog.text}"
    assert ended.answer.verdict is Verdict.RETRY
    assert not [each for each in (CANARY, encoded, encoded[:20]) if each in texts]
    assert ended.answer.destination == f"{sink.url}/y"


def test_a_token_of_a_header_is_not_shown_without_its_scheme_either(sink: Sink) -> None:
    sink.behave = lambda got: answer(500, {}, got.headers["authorization"].partition(" ")[2].encode())
    target = SinkTarget(url=sink.url, headers={"Authorization": f"Bearer {CANARY}"})
    with Posting({"c": target}) as posting:
        assert posting.deliver(ordered()).answer.excerpt == b"***"


def test_nothing_is_kept_of_a_compressed_answer_because_a_secret_in_it_is_not_seen(sink: Sink) -> None:
    sink.behave = lambda got: answer(
        500, {"content-encoding": "gzip"}, gzip.compress(got.headers["authorization"].encode())
    )
    with Posting.to(sink.url, auth=Bearer(CANARY)) as posting:
        assert posting.deliver(ordered()).answer.excerpt == b""


def test_a_secret_at_the_end_of_an_excerpt_is_not_cut_in_two(sink: Sink) -> None:
    secret = f"{CANARY}-{'s' * 40}"
    sink.answer(answer(500, {}, b"x" * 1000 + secret.encode() + b"y" * 1000))
    with Posting.to(sink.url, auth=Bearer(secret)) as posting:
        found = posting.deliver(ordered()).answer.excerpt
    assert found == b"x" * 1000 + b"***" + b"y" * 21


@pytest.mark.parametrize("place", ["/{}/x", "?key={}", "/x?a=b&key={}"])
def test_a_secret_in_the_address_is_not_shown_as_it_is_sent(sink: Sink, place: str) -> None:
    sink.behave = echo
    with Posting.to(sink.url + place.format(f"%2F%26{CANARY}{'s' * 20}")) as posting:
        found = posting.deliver(ordered()).answer.excerpt
    assert b"***" in found
    assert CANARY.encode() not in found


def test_a_secret_that_is_repeated_again_and_again_is_not_cut_in_two(sink: Sink) -> None:
    long = "canary" * 100
    sink.answer(answer(500, {}, long.encode() * 10))
    with Posting.to(sink.url, auth=Bearer(long)) as posting:
        assert posting.deliver(ordered()).answer.excerpt == b"***" * 3


def test_a_secret_that_the_reason_of_a_malformed_reply_would_cut_is_not_shown(sink: Sink) -> None:
    long = CANARY + "s" * 200
    sink.answer(answer(200, {"ce-specversion": long, "ce-id": "1"}))
    with Posting.to(sink.url, auth=Bearer(long)) as posting:
        text = posting.deliver(ordered()).answer.text
    assert "***" in text
    assert CANARY not in text


def test_a_token_that_was_replaced_meanwhile_is_not_shown(sink: Sink) -> None:
    tokens, is_replaced = iter((CANARY, "another")), threading.Event()

    def behave(got: Received) -> Any:
        async def late(writer: asyncio.StreamWriter) -> bool:
            await asyncio.to_thread(is_replaced.wait, WAIT_S)
            return await answer(400, {}, f"{got.headers}".encode())(writer)

        if got.attributes["interlocksequence"] == "1":
            return late
        return answer(401 if CANARY in got.headers["authorization"] else 202)

    sink.behave = behave
    with (
        Sink(lambda _: token(next(tokens))) as endpoint,
        Posting.to(sink.url, auth=credentials(endpoint)) as posting,
    ):
        first = posting.start(ordered(1))
        assert posting.deliver(ordered(2)).answer.status == 202
        is_replaced.set()
        found = posting.wait(first).answer.excerpt
    assert b"Bearer ***" in found
    assert CANARY.encode() not in found


def test_a_lookup_that_fails_shows_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.DEBUG),
        Posting({"c": ValueError(f"http://login:{CANARY}@h is wrong")}) as posting,
    ):
        found = posting.deliver(ordered()).answer
    assert found.text == "Connection 'c' could not be looked up: ValueError."
    assert CANARY not in caplog.text
