"""`requests_of`: the requests that deliveries make, as the service would read them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.sdk import DAG
from interlock import Event, count, event, param
from interlock.conditions import ConditionError
from interlock.operators import deliver_dag, dispatch_dag
from interlock.testing import requests_of

PAID = event("paid", by="data.order", label="paid")
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def paid(order: object = "o1", at: str = "06:00", **more: Any) -> Event:
    data = more.pop("data", {"order": order})
    return Event.of("paid", "/shop", id=f"{order} {at}", time=f"2026-11-20T{at}:00Z", data=data, **more)


def delivery(condition: Any = PAID, **arguments: Any) -> DAG:
    return deliver_dag("ship", condition=condition, **{"conn_id": "crm", "path": "/orders", **arguments})


def test_an_event_is_sent_as_it_was_emitted() -> None:
    first, second = requests_of(delivery(), [paid(), paid("o2", "07:00", subject="eu")])
    assert (first.method, first.conn_id, first.path) == ("POST", "crm", "/orders")
    assert first.headers.pop("ce-interlockfiring")
    assert first.headers == {
        "ce-specversion": "1.0",
        "ce-type": "paid",
        "ce-source": "/shop",
        "ce-id": "o1 06:00".replace(" ", "%20"),
        "ce-time": "2026-11-20T06:00:00Z",
        "content-type": "application/json",
        "ce-interlocksequence": "0",
    }
    assert json.loads(first.body) == {"order": "o1"}
    assert (second.event.id, second.event.subject, second.event.payload) == (
        "o2 07:00",
        "eu",
        {"order": "o2"},
    )
    assert (first.at.hour, second.at.hour) == (6, 7)


def test_json_data_keep_their_bytes() -> None:
    [request] = requests_of(delivery(), [paid(data=b'{"order": 1.10}', datacontenttype="application/json")])
    assert request.body == b'{"order": 1.10}'


def test_a_firing_is_sent_with_its_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__INTERLOCK__DEPLOYMENT", "prod")
    both = PAID & event("packed", by="data.order", label="packed")
    packed = Event.of("packed", "/w", time="2026-11-20T06:01:00Z", data={"order": "o1"})
    [request] = requests_of(delivery(both), [paid(), packed])
    sent = request.event
    assert (sent.type, sent.source, sent.subject) == ("interlock.firing.met", "/prod/deliver/ship", "o1")
    payload: Any = sent.payload
    assert [each["data"] for each in payload["events"]["paid"]] == [{"order": "o1"}]
    assert (payload["key"], payload["outcome"]) == ("o1", "met")


def test_what_expires_is_sent_too() -> None:
    late = (PAID & event("packed", by="data.order")).expires(after="1h")
    [request] = requests_of(delivery(late), [paid()], until="2026-11-20T08:00:00Z")
    assert (request.event.type, request.at.hour) == ("interlock.firing.expired", 7)


@pytest.mark.parametrize("send", ["event", "firing"])
def test_the_structured_mode_is_one_json_object(send: Any) -> None:
    [request] = requests_of(delivery(send=send, format="json"), [paid()])
    assert request.headers == {"content-type": "application/cloudevents+json"}
    assert request.event.attributes["interlocksequence"] == "0"
    assert json.loads(request.body)["id"] == request.event.id


@pytest.mark.parametrize("send", ["event", "firing"])
def test_large_data_are_sent(send: Any) -> None:
    """Engines leave data beyond 64 KiB in their records, and deliveries read them there."""
    large = paid(data={"order": "o1", "text": "x" * 100_000})
    [request] = requests_of(delivery(send=send), [large])
    found: Any = request.event.payload
    data = found if send == "event" else found["events"]["paid"][0]["data"]
    assert len(data["text"]) == 100_000


def test_what_is_too_large_in_sum_stays_a_reference() -> None:
    events = [paid("o1", f"06:0{n}", data={"order": "o1", "text": "x" * 3_000_000}) for n in range(3)]
    [request] = requests_of(delivery(count(PAID, 3)), events)
    payload: Any = request.event.payload
    assert ["data" in each for each in payload["events"]["paid"]] == [True, True, False]


def test_a_service_that_may_reply_is_told_so_and_a_trace_is_continued() -> None:
    [request] = requests_of(delivery(replies=True), [paid(traceparent=TRACE)])
    assert (request.headers["prefer"], request.headers["traceparent"]) == ("reply", TRACE)
    [request] = requests_of(delivery(), [paid()])
    assert {"prefer", "traceparent"}.isdisjoint(request.headers)


@pytest.mark.parametrize(("path", "sent"), [("", "/"), ("/a%20b?x=1", "/a%20b?x=1"), ("?x=1", "/?x=1")])
def test_the_path_is_that_of_the_request_line(path: str, sent: str) -> None:
    [request] = requests_of(delivery(path=path), [paid()])
    assert request.path == sent


def test_parameters_are_rendered_and_events_before_since_do_not_count() -> None:
    dag = delivery(
        event("paid", subject=param("region")),
        param_values={"region": "{{ 'e' + 'u' }}"},
        since=datetime(2026, 11, 20, 6, 30, tzinfo=UTC),
    )
    events = [
        paid("early", subject="eu"),
        paid("us", "07:00", subject="us"),
        paid("eu", "07:00", subject="eu"),
    ]
    assert [request.event.payload for request in requests_of(dag, events)] == [{"order": "eu"}]


def test_a_dag_of_another_kind_and_what_are_no_events_are_refused() -> None:
    with pytest.raises(ValueError, match="'d' is not a DAG made by deliver_dag"):
        requests_of(dispatch_dag("d", condition=PAID, trigger_dag_id="t"), [])
    with pytest.raises(ConditionError, match=r"requests_of\(events\) is of type Event"):
        requests_of(delivery(), paid())  # type: ignore[arg-type]
