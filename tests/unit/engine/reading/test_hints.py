"""Where the author of a wait learns that a producer's records are not read as they were meant."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from interlock import Event, EventError
from interlock.engine.bus import Record, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.reading.hints import Hints
from interlock.engine.reading.sources import event_of
from interlock.events.kafka import encode

CONFIG = BusConfig("b", client={"bootstrap.servers": "localhost:1"})
HTTP = [("ce-id", b"1"), ("ce-source", b"/s"), ("ce-type", b"t"), ("ce-specversion", b"1.0")]
BINARY = encode(Event.of("t", "/s", id="1"))[2]


def hints(
    topic: str, *headers: Sequence[tuple[str, bytes]], value: bytes | None = b"{}", listed: Sequence[str] = ()
) -> list[str]:
    found = Hints(CONFIG, listed)
    for offset, each in enumerate(headers):
        record = Record(TopicPartition(topic, 0), offset, 0, b"k", value, each)
        try:
            found.read(record, event_of(CONFIG, listed, record))
        except EventError as error:
            found.unreadable(record, error)
    return found.sentences()


@pytest.mark.parametrize(
    ("headers", "expected_text"),
    [
        (HTTP, "on Kafka 'ce-id', 'ce-source', 'ce-type', 'ce-specversion' are not attributes of"),
        (HTTP, "a CloudEvent: write 'ce_id', 'ce_source', 'ce_type', 'ce_specversion'"),
        ([("id", b"1"), ("source", b"/s"), ("type", b"t"), ("specversion", b"1.0")],
         "'id', 'source', 'type', 'specversion' are not attributes"),
        ([("cloudEvents:id", b"1"), ("other", b"x")],
         "'cloudEvents:id' is not an attribute of a CloudEvent: write 'ce_id'"),
        ([("ce_id", b"1"), ("ce_source", b"/s"), ("ce_type", b"t"), ("ce-specversion", b"1.0")],
         "'ce-specversion' is not an attribute of a CloudEvent: write 'ce_specversion'"),
        ([("Content-Type", b"application/cloudevents+json")], "write 'content-type'"),
        ([("ce_ID", b"1"), ("ce_source", b"/s"), ("ce_type ", b"t"), ("ce__specversion", b"1.0")],
         ("'ce_ID', 'ce_type ', 'ce__specversion' are not attributes of a CloudEvent:"
          " write 'ce_id', 'ce_type'")),
        ([("X-CE-Id", b"1"), ("HTTP_CE_SOURCE", b"/s"), (" ce_type", b"t"), ("ce/specversion", b"1.0")],
         "write 'ce_id', 'ce_source', 'ce_type', 'ce_specversion'"),
        ([("cloudEvent_id", b"1"), ("cloud-event-type", b"t"), ("cesource", b"/s"), (" id ", b"1")],
         "write 'ce_id', 'ce_type', 'ce_source'"),
    ],
    ids=["http", "http, right", "no prefix", "amqp", "one of four", "content type", "other letters",
         "other prefixes", "more prefixes"],
)  # fmt: skip
def test_misspelled_headers_on_the_event_topic_are_named(
    headers: Sequence[tuple[str, bytes]], expected_text: str
) -> None:
    """`ce-id` style headers on Kafka, or a missing prefix (Argo Events, Knative)."""
    [sentence] = hints("b-event", headers)
    assert sentence.startswith(
        "1 of the latest records of b-event hold no event, the last one b-event[0]@0: "
    )
    assert expected_text in sentence


def test_headers_in_quotation_marks_are_named() -> None:
    """Some clients write headers as JSON (spring-cloud/spring-cloud-function#1089)."""
    quoted = [(name, b'"%s"' % raw) for name, raw in BINARY]
    [sentence] = hints("b-event", quoted)
    assert "are in quotation marks, as JSON has a text: write the text alone" in sentence
    others = [header for header in BINARY if header[0] != "ce_source"]
    [sentence] = hints("b-event", [*others, ("ce_source", b'"/s"')])
    assert "'ce_source' is in quotation marks" in sentence
    [sentence] = hints("b-event", [("content-type", b'"application/cloudevents+json"')])
    assert "'content-type' is in quotation marks" in sentence


def test_a_required_header_without_a_value_is_named() -> None:
    """The sentence was: 'ce_id' is not an attribute of a CloudEvent: write 'ce_id'."""
    headers = [("ce_id", None), ("ce_source", b"/s"), ("ce_type", b"t"), ("ce_specversion", b"1.0")]
    [sentence] = hints("b-event", headers)  # type: ignore[arg-type]  # null headers
    assert "'ce_id' has a null value, which means no attribute; attribute id is missing" in sentence
    assert "write" not in sentence


def test_a_cloudevent_in_json_without_its_content_type_is_named() -> None:
    whole = b'{"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}'
    [sentence] = hints("b-event", [("content-type", b"application/json")], value=whole)
    assert "its value is a CloudEvent in JSON: give the record the header content-type" in sentence


@pytest.mark.parametrize("headers", [HTTP, BINARY])
def test_cloudevents_of_a_topic_that_is_listed_as_plain_are_named(
    headers: Sequence[tuple[str, bytes]],
) -> None:
    [sentence] = hints("orders", headers, headers, [("trace", b"x")])
    assert sentence.startswith("2 of the latest records of orders have headers of CloudEvents, but the topic")
    assert "airflow interlock topics add orders --cloudevents" in sentence


@pytest.mark.parametrize(("listed", "command"), [((), True), (("orders",), False)])
def test_a_cloudevent_in_json_on_a_listed_topic_is_named_too(listed: Sequence[str], command: bool) -> None:
    """It is a plain record without its content type, so a matcher for its type never saw it."""
    whole = b'{"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}'
    [sentence] = hints("orders", [], [("trace", b"x")], value=whole, listed=listed)
    assert sentence.startswith("2 of the latest records of orders have a CloudEvent in JSON as their value")
    assert ("topics add orders --cloudevents" in sentence) is command
    assert hints("orders", [], value=b'{"id": "1", "type": "t"}', listed=listed) == []


LINEAGE = (
    b'{"eventType": "COMPLETE", "eventTime": "2026-11-20T06:00:00Z", "producer": "p", "schemaURL": "s",'
    b' "run": {"runId": "0197a1b2-3c4d-7e5f-8a6b-7c8d9e0f1a2b"}, "job": {"namespace": "n", "name": "j"}}'
)


def test_openlineage_events_that_a_client_writes_to_kafka_are_named() -> None:
    """Its transport kafka is as usual as http (trinodb/trino#27830), and no matcher for lineage saw them."""
    [sentence] = hints("lineage", [], [], value=LINEAGE)
    assert sentence.startswith("2 of the latest records of lineage have an OpenLineage event as their value")
    assert 'event(source="lineage", where="data.eventType ==' in sentence
    [sentence] = hints("b-event", [], value=LINEAGE)
    assert "its value is an OpenLineage event: let the client send it to the receiver over HTTP" in sentence
    assert hints("lineage", [], value=LINEAGE.replace(b"schemaURL", b"other")) == []


def test_good_records_need_no_hint() -> None:
    assert hints("b-event", BINARY) == hints("orders", [("type", b"order"), ("id", b"7")]) == []
