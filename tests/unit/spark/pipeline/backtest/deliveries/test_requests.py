"""What a backtest says would be delivered is what deliveries send."""

from __future__ import annotations

from typing import Any

import pytest
from interlock import Condition, Event, absent, count, event
from interlock.engine.delivery.firings import open_firing
from interlock.engine.records import partition_of
from interlock.engine.sending.content import MOST_RESOLVED_BYTES
from interlock.engine.sending.expected import expected_request
from interlock.operators import deliver_dag
from interlock.spark.pipeline.backtest.deliveries import requests as module
from interlock.spark.pipeline.backtest.deliveries.requests import GONE, TOO_MUCH_DATA
from interlock.testing import requests_of

from .fired import asked, delivered, ms, rows

PAID, PACKED = (event(name, by="data.order", label=name) for name in ("paid", "packed"))
BY_SUBJECT = event("paid", by="subject", label="paid")
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
EXPIRING = (PAID & PACKED).expires(after="1h")
MIB = 1024 * 1024


def one(name: str, order: object, minute: int, **more: Any) -> Event:
    more.setdefault("data", {"order": order, "of": minute})
    time = f"2026-11-20T{6 + minute // 60:02d}:{minute % 60:02d}:00Z"
    return Event.of(name, "/shop", id=f"{name} {minute}", time=time, **more)


def large(minute: int, size: int, order: str = "o1") -> Event:
    return one("paid", order, minute, data={"order": order, "x": "x" * size})


ORDERS = [
    one("paid", "o1", 0),
    one("packed", "o1", 1, subject="grüße"),
    one("paid", "2026-11-20T06:00Z", 2, traceparent=TRACE),  # its canonical form is another
    one("packed", "2026-11-20T07:00+01:00", 3, traceparent=TRACE),
    one("paid", "o3", 4, interlockhops="0"),
    one("paid", "o4", 5, data=b'{"order": "o4", "n": 1.10}', datacontenttype="application/json"),
    large(6, 70_000, "o5"),  # by reference on the bus
    one("packed", "o5", 7),
    one("paid", "o6", 90),  # until here o3 has expired
]


@pytest.mark.parametrize("mode", ["binary", "json"])
@pytest.mark.parametrize("send", ["event", "firing"])
@pytest.mark.parametrize("condition", [PAID, EXPIRING, PAID | PACKED], ids=["one", "expiring", "or"])
def test_the_deliveries_of_a_backtest_are_the_requests_of_the_dag(
    condition: Condition, send: Any, mode: Any
) -> None:
    sink = {"send": send, "format": mode, "replies": mode == "json"}
    dag = deliver_dag("ship", condition=condition, conn_id="crm", path="/orders", **sink)  # type: ignore[arg-type]
    wanted = requests_of(dag, ORDERS)
    found = delivered(asked(condition, **sink), rows(condition, ORDERS))
    assert len(wanted) == len(found) > 2
    for request, row in zip(wanted, found, strict=True):
        sent = request.event
        # The number of the firing stands for its offset: below 10, as in the backtest.
        assert (row["id"], row["source"], row["type"], row["subject"]) == (
            sent.id, sent.source, sent.type, sent.subject,
        )  # fmt: skip
        assert row["firing_id"] == sent.attributes["interlockfiring"]
        assert row["body_bytes"] == len(request.body)
        assert row["header_bytes"] == sum(len(n) + len(t) + 4 for n, t in request.headers.items())
        assert (row["method"], row["path"]) == (request.method, request.path)
        assert (row["fired_ms"], row["refused"]) == (ms(request.at), None)


def test_a_lane_is_that_of_the_deliverer(monkeypatch: pytest.MonkeyPatch) -> None:
    """For each order the deliverer's own `OpenFiring.lane`, of the record that the engine writes."""
    lanes: dict[str, str] = {}

    def noted(sink: Any, action: Any, event_behind: Any) -> Any:
        firing = open_firing(action, sink.subscription)
        assert firing is not None
        lanes[firing.key.decode()] = firing.lane(sink.order)
        return expected_request(sink, action, event_behind)

    monkeypatch.setattr(module, "expected_request", noted)
    for order, partitions in (("key", None), ("none", None), ("partition", 7)):
        lanes.clear()
        found = delivered(asked(PAID, partitions, order=order), rows(PAID, ORDERS))
        assert [row["lane"] for row in found] == [*lanes.values()]
    assert found[0]["lane"] == f"partition {partition_of('durable', 'airflow/deliver/ship', 'o1', 7)}"
    assert {row["lane"] for row in delivered(asked(PAID, order="partition"), rows(PAID, ORDERS))} == {None}


def test_without_keys_a_lane_is_the_subject_of_the_event() -> None:
    condition = event("packed")
    found = delivered(asked(condition), rows(condition, ORDERS))
    assert [row["lane"] for row in found] == ["event grüße", "event /shop", "event /shop"]


def test_a_firing_without_events_is_delivered() -> None:
    condition = absent(PAID, "30m")
    [first, *_] = delivered(asked(condition), [(0, None, "o1", "met", 5, 5, ["paid"], *(None,) * 7)])
    assert (first["type"], first["subject"], first["events"]) == ("interlock.firing.met", "o1", 0)


def test_hops_say_how_many_replies_may_follow() -> None:
    found = delivered(asked(PAID, replies=True), rows(PAID, ORDERS))
    assert [row["hops"] for row in found] == [32, 32, 0, 32, 32, 32]


def test_what_the_engine_would_not_hold_is_refused_with_its_reason() -> None:
    wide = one("paid", "o1", 0, more="m" * 300_000)
    [row] = delivered(asked(PAID), rows(PAID, [wide]))
    assert (row["id"], row["body_bytes"]) == (None, None)
    assert row["refused"].startswith("an event becomes a dead letter: its attributes exceed 262144 bytes")

    together = count(PAID, 140)
    [row] = delivered(asked(together), rows(together, [large(n, 63_000) for n in range(140)]))
    assert row["refused"] == TOO_MUCH_DATA

    given = [[*row] for row in rows(PAID, [one("paid", "o1", 0), one("paid", "o2", 1)])]
    given[0][-2:] = None, None
    first, second = delivered(asked(PAID), map(tuple, given))
    assert (first["refused"], second["refused"]) == (GONE, None)


def test_data_beyond_a_request_stay_references_and_are_not_kept() -> None:
    events = [large(n, MIB) for n in range(20)]
    together = count(PAID, 20)
    [request] = requests_of(deliver_dag("ship", condition=together, conn_id="crm"), events)
    question = asked(together, path="")
    requests = module.Requests(question)
    held = 0
    for row in rows(together, events):
        requests.take(row)
        held = max(held, sum(len(each.data or b"") for each in requests._large.values()))
    requests.end()
    [found] = requests.pop_batch().to_pylist()
    assert (found["references"], found["body_bytes"]) == (13, len(request.body))
    assert MOST_RESOLVED_BYTES < held < MOST_RESOLVED_BYTES + 2 * MIB


def test_one_firing_whose_request_fails_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(sink: Any, action: Any, event_behind: Any) -> Any:
        if b"o4" in action.value:
            raise LookupError("o4")
        return expected_request(sink, action, event_behind)

    monkeypatch.setattr(module, "expected_request", failing)
    found = delivered(asked(PAID), rows(PAID, ORDERS))
    assert [row["refused"] for row in found if row["refused"]] == ["the request cannot be made: LookupError"]
    assert len(found) == 6


@pytest.mark.parametrize("fired_ms", [2**60, -5])
def test_a_time_outside_of_the_calendar_is_the_nearest_one(fired_ms: int) -> None:
    """A producer may set any timestamp."""
    [row] = delivered(asked(PAID & PACKED), [(0, None, "o1", "met", fired_ms, None, None, *(None,) * 7)])
    assert (row["fired_ms"], row["refused"]) == (fired_ms, None)
