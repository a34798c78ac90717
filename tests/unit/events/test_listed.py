"""What a record of a listed topic may claim, with and without its owner's word that it holds CloudEvents."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from interlock import Event, EventError
from interlock.events.kafka import encode
from interlock.events.listed import event_of_listed
from interlock.events.plain import TYPE, event_of_record
from interlock.events.taxonomy import EMITTED

Headers = Sequence[tuple[str, bytes | None]]


def read(
    headers: Headers | None, value: bytes | None = b"{}", *, cloudevents: bool, key: bytes | None = b"k"
) -> Event:
    return event_of_listed("orders", 3, 7, 1_700_000_000_123, key, value, headers, cloudevents=cloudevents)


def binary(kind: str) -> Headers:
    return encode(Event.of(kind, "/deployment/ledger", id="1", subject="ledger"))[2]


def structured(kind: str) -> tuple[Headers, bytes]:
    members = {"specversion": "1.0", "id": "1", "source": "/deployment/ledger", "type": kind}
    return [("content-type", b"application/cloudevents+json")], json.dumps(members).encode()


@pytest.mark.parametrize("kind", [*EMITTED, "com.shop.orders.done", TYPE])
def test_a_record_of_a_plain_topic_claims_nothing(kind: str) -> None:
    """Otherwise whoever may write to a listed topic could forge a completion."""
    for headers, value in ((binary(kind), b"{}"), structured(kind)):
        event = read(headers, value, cloudevents=False)
        assert (event.type, event.source, event.id) == (TYPE, "orders", "3/7")
        assert event.data == value


@pytest.mark.parametrize("kind", [*EMITTED, "interlock.", "interlock.anything", TYPE])
def test_types_of_interlocks_own_are_refused_from_listed_topics(kind: str) -> None:
    """Otherwise `interlock.airflow.dag_run.succeeded` from another team's topic would be a completion."""
    for headers, value in ((binary(kind), b"{}"), structured(kind)):
        with pytest.raises(
            EventError, match="is Interlock's own, and orders is a listed topic: only the event"
        ):
            read(headers, value, cloudevents=True)


@pytest.mark.parametrize(
    "kind", ["com.shop.orders.done", "interlockx", "INTERLOCK.airflow", "org.apache.kafka"]
)
def test_a_topic_of_cloudevents_holds_other_types(kind: str) -> None:
    for headers, value in ((binary(kind), b"{}"), structured(kind)):
        assert read(headers, value, cloudevents=True).type == kind


def test_a_plain_record_in_a_topic_of_cloudevents_stays_plain() -> None:
    assert read([("content-type", b"application/json")], cloudevents=True).type == TYPE


@pytest.mark.parametrize(
    "headers",
    [
        [("ce-id", b"1"), ("ce-source", b"/s"), ("ce-type", b"t"), ("ce-specversion", b"1.0")],
        [("cloudEvents:id", b"1"), ("cloudEvents:type", b"t")],
        [("cloudEvents_specversion", b"1.0")],
        [("CE_ID", b"1")],
        [("specversion", b"1.0"), ("id", b"1"), ("source", b"/s"), ("type", b"t")],
        [("Content-Type", b"application/cloudevents+json")],
        [("contentType", b'"application/cloudevents+json"')],
        [("X-CE-Id", b"1"), ("X-CE-Type", b"t")],
        [("cloudevent-id", b"1")],
        [(" ce_id", b"1"), ("cespecversion", b"1.0")],
    ],
    ids=[
        "http",
        "amqp",
        "amqp underscore",
        "upper case",
        "no prefix",
        "content type",
        "quoted",
        "x",
        "one",
        "space",
    ],
)
def test_misspelled_headers_in_a_topic_of_cloudevents_are_an_error(headers: Headers) -> None:
    """Such a record was read as plain, and its author got no hint (Argo Events, Knative)."""
    with pytest.raises(EventError, match=r"on Kafka .* of a CloudEvent: write '(ce_|content-type)"):
        read(headers, cloudevents=True)
    assert read(headers, cloudevents=False).type == TYPE


@pytest.mark.parametrize("name", ["ceid", "cetype", "certificate", "ce", "id", "type", "x-id", "force-id"])
def test_a_header_that_only_resembles_an_attribute_leaves_a_record_plain(name: str) -> None:
    assert read([(name, b"1")], cloudevents=True).type == TYPE


@given(
    st.none() | st.binary(max_size=20),
    st.none() | st.binary(max_size=100),
    st.none()
    | st.lists(
        st.tuples(
            st.sampled_from(
                ["content-type", "ce_id", "ce_type", "ce_source", "ce_specversion", "ce-id", "x"]
            ),
            st.none() | st.sampled_from([b"1.0", b"interlock.x", b"application/cloudevents+json"]),
        )
    ),
)
def test_a_plain_topic_is_read_as_plain_whatever_it_holds(
    key: bytes | None, value: bytes | None, headers: Headers | None
) -> None:
    made = read(headers, value, cloudevents=False, key=key)
    assert made == event_of_record("orders", 3, 7, 1_700_000_000_123, key, value, headers)
