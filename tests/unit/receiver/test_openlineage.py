"""The endpoints of OpenLineage's API, as its clients ask them."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import Any

import pytest
from interlock.receiver import openlineage
from interlock.receiver.app import Receiver, RequestLimits
from interlock.receiver.credentials import Credentials

from tests.kit import lineage
from tests.kit.lineage import run_event, text
from tests.unit.receiver.test_app import TOKEN, Answered, Bus, ask, shop

ONE, BATCH = "/api/v1/lineage", "/api/v1/lineage/batch"
JSON = (b"content-type", b"application/json")
GZIP = (b"content-encoding", b"gzip")


def post(
    body: bytes,
    path: str = ONE,
    headers: Any = (JSON,),
    credentials: Credentials | None = None,
    **limits: Any,
) -> tuple[Answered, Bus]:
    bus = Bus()
    receiver = Receiver(openlineage.endpoints(credentials or Credentials()), RequestLimits(**limits))
    receiver.writer = bus
    return asyncio.run(ask(receiver, list(headers), body, path)), bus


@pytest.mark.parametrize(
    "headers",
    [
        (JSON,),
        (),
        ((b"content-type", b"application/json; charset=UTF-8"),),
        (JSON, (b"content-encoding", b"identity")),
    ],
)
def test_an_event_is_written_and_the_answer_is_that_of_the_api(headers: Any) -> None:
    answer, bus = post(text(lineage.of_spark()), headers=headers)
    assert (answer.status, answer.body, answer.headers) == (200, b"", {"content-length": "0"})
    [event] = bus.events
    assert event.data == text(lineage.of_spark())


def test_a_batch_is_written_and_the_answer_has_no_content() -> None:
    answer, bus = post(text([run_event("START"), run_event("COMPLETE")]), BATCH)
    assert (answer.status, answer.body, answer.headers) == (204, b"", {})
    assert [event.type for event in bus.events] == ["openlineage.run.start", "openlineage.run.complete"]
    assert post(b"[]", BATCH)[0].status == 204


def test_the_right_events_of_a_batch_are_written_and_the_answer_names_the_others() -> None:
    """OpenLineage's API, postEventBatch: a client that got 400 would drop the right ones too."""
    answer, bus = post(text([run_event("DONE", run={}), run_event("START"), 5]), BATCH)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert [event.type for event in bus.events] == ["openlineage.run.start"]
    form = json.loads(answer.body)
    assert form["status"] == "partial_success"
    assert form["summary"] == {
        "received": 3, "successful": 1, "failed": 2, "retriable": 0, "non_retriable": 2
    }  # fmt: skip
    first, second = form["failed_events"]
    assert (first["index"], first["retriable"]) == (0, False)
    assert first["reason"].startswith("run.runId is missing; eventType is 'DONE'")
    assert second["index"] == 2


def test_events_of_a_batch_that_the_sender_may_not_write_are_named_too() -> None:
    known = (JSON, (b"authorization", b"Bearer " + TOKEN.encode()))
    mine, other = run_event("START"), run_event("START", job={"namespace": "test", "name": "j"})
    credentials = shop(types=["openlineage.*"], sources=["/openlineage/prod"])
    answer, bus = post(text([other, mine]), BATCH, known, credentials)
    assert answer.status == 200
    assert [event.source for event in bus.events] == ["/openlineage/prod"]
    [failed] = json.loads(answer.body)["failed_events"]
    assert failed["index"] == 0
    assert "may not write events of source '/openlineage/test'" in failed["reason"]
    answer, bus = post(text([other, 5]), BATCH, known, credentials)
    assert (answer.status, bus.events) == (403, [])
    assert "event 1 of 2: shop may not write" in answer.detail


def test_a_batch_without_a_right_event_is_refused() -> None:
    answer, bus = post(text([run_event(run={}), run_event("DONE", run={})]), BATCH)
    assert (answer.status, bus.events) == (400, [])
    assert "event 1 of 2: run.runId is missing; event 2 of 2: run.runId is missing" in answer.detail
    assert post(text(run_event()), BATCH)[0].status == 400
    assert post(b"[{]", BATCH)[0].status == 400


def test_the_answer_about_many_wrong_events_stays_short() -> None:
    long = run_event(outputs=[{"namespace": "x" * 300, "name": None}] * 3, eventType="y" * 300)
    answer, bus = post(text([run_event(), *[long] * 400]), BATCH)
    assert (answer.status, len(bus.events)) == (200, 1)
    form = json.loads(answer.body)
    assert form["summary"]["failed"] == 400
    assert len(answer.body) < 40_000
    assert [each["index"] for each in form["failed_events"]] == list(range(1, 101))


def test_compressed_events_are_read() -> None:
    answer, bus = post(gzip.compress(text(lineage.of_dbt())), headers=(JSON, GZIP))
    assert answer.status == 200
    assert bus.events[0].data == text(lineage.of_dbt())


@pytest.mark.parametrize(
    ("body", "headers", "status", "says"),
    [
        (b"{", (JSON,), 400, "not valid JSON"),
        (text(run_event(producer=5)), (JSON,), 400, "producer is an int"),
        (text([run_event()]), (JSON,), 400, "a JSON object, not a list"),
        (text(run_event()), ((b"content-type", b"text/plain"),), 415, "application/json"),
        (text(run_event()), (JSON, (b"content-type", b"text/plain")), 415, "twice"),
        (text(run_event()), ((b"content-type", b"application/json; charset=latin1"),), 415, "UTF-8"),
        (text(run_event()), (JSON, (b"content-encoding", b"br")), 415, "gzip"),
        (text(run_event()), (JSON, GZIP), 400, "not gzip"),
        (gzip.compress(text(run_event()))[:-9], (JSON, GZIP), 400, "not one complete gzip"),
        (gzip.compress(text(run_event())) + b"x", (JSON, GZIP), 400, "not one complete gzip"),
        (text(run_event(more="x" * 1_048_576)), (JSON,), 413, "facets"),
    ],
    ids=range(11),
)
def test_what_cannot_be_taken_gets_its_status_and_the_reason(
    body: bytes, headers: Any, status: int, says: str
) -> None:
    answer, bus = post(body, headers=headers)
    assert answer.status == status
    assert says in answer.detail
    assert not bus.events


def test_what_is_too_large_without_its_compression_is_refused() -> None:
    answer, bus = post(gzip.compress(b"[" + b" " * 50_000_000), headers=(JSON, GZIP))
    assert (answer.status, bus.events) == (413, [])
    assert "Uncompressed, the body is larger than 1048576 bytes" in answer.detail


@pytest.mark.parametrize(
    ("granted", "status"),
    [
        ({"types": ["openlineage.*"]}, 200),
        ({"types": ["*"], "sources": ["/openlineage/prod"], "subjects": ["shop.*"]}, 200),
        ({"types": ["openlineage.*"], "sources": ["/openlineage/test"]}, 403),
        ({"types": ["com.shop.*"]}, 403),
    ],
)
def test_the_credential_of_a_client_is_an_api_key_and_its_patterns_count(
    granted: dict[str, Any], status: int
) -> None:
    known = (JSON, (b"authorization", b"Bearer " + TOKEN.encode()))
    assert post(text(run_event()), headers=known, credentials=shop(**granted))[0].status == status
    for path in (ONE, BATCH):
        assert post(text(run_event()), path, credentials=shop(**granted))[0].status == 401


def test_a_compressed_event_counts_in_memory_with_its_size() -> None:
    body = gzip.compress(text(run_event(more="x" * 500_000)))
    headers = (JSON, GZIP, (b"content-length", str(len(body)).encode()))
    assert post(body, headers=headers, held_bytes=100_000)[0].status == 429
    assert post(body, headers=headers, held_bytes=600_000)[0].status == 200


@pytest.mark.parametrize("path", [ONE, BATCH])
def test_other_methods_are_refused(path: str) -> None:
    receiver = Receiver(openlineage.endpoints(Credentials()))
    answer = asyncio.run(ask(receiver, path=path, method="GET"))
    assert (answer.status, answer.headers["allow"]) == (405, "POST")


def test_an_error_shows_no_more_of_the_event_than_a_name() -> None:
    secret = "of-the-test-" * 50
    answer, _ = post(json.dumps(run_event(eventTime=secret, producer={"key": secret})).encode())
    assert answer.status == 400
    assert secret not in answer.body.decode()
