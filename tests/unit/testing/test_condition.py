from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from interlock import ConditionError, Event, event
from interlock.testing import fires, record

orders = event("orders", by="data.date", label="orders")
rates = event("rates", by="data.date", label="rates")


def sent(kind: str, at: str, day: str = "2026-11-20") -> Event:
    return Event.of(kind, "/s", id=f"{kind}-{at}", time=f"2026-11-20T{at}:00Z", data={"date": day})


def test_events_that_meet_a_condition_are_true_and_give_the_firing() -> None:
    tried = fires(orders & rates, [sent("orders", "06:00"), sent("rates", "07:00", "20261120")])
    assert tried
    assert (tried.firing.outcome, tried.firing.key) == ("met", "2026-11-20")
    assert "- met at 2026-11-20T07:00:00+00:00, key '2026-11-20': orders by 'orders-06:00'" in str(tried)


def test_other_events_are_false_and_the_report_shows_missing_labels_and_near_misses() -> None:
    tried = fires(orders & rates, [sent("orders", "06:00"), sent("rates", "07:00", "2026-11-21")])
    assert not tried
    assert repr(tried) == "<did not fire, orders and rates missing>"
    report = str(tried)
    assert "did not fire" in report
    assert "not met: rates missing, key 2026-11-20" in report
    assert "not met: orders missing, key 2026-11-21" in report
    assert "rates-07:00 of /s at 2026-11-20T07:00:00Z: key 2026-11-21 here, 2026-11-20 wanted" in report
    with pytest.raises(AssertionError, match="not met: rates missing"):
        _ = tried.firing


def test_an_event_that_no_matcher_accepts_is_a_near_miss_if_there_is_no_key() -> None:
    report = str(
        fires(orders & rates, [Event.of("orders", "/s", id="1", time="2026-11-20T06:00:00Z", data={})])
    )
    assert "not met: orders, rates missing, at" in report
    assert "near misses of orders:\n  - 1 of /s" in report


def test_keys_of_several_values_are_explained() -> None:
    pair = event("orders", by=["subject", "data.n"]) & event("rates", by=["subject", "data.n"])
    report = str(
        fires(pair, [Event.of("orders", "/s", subject="eu", time="2026-11-20T06:00:00Z", data={"n": 1})])
    )
    assert 'not met: rates missing, key ["eu","1"]' in report


def test_no_events_are_allowed() -> None:
    assert str(fires(orders, [])).endswith("did not fire")
    assert "orders: nothing" in str(fires(orders, [], until="2026-11-20T06:00:00Z"))


def test_the_report_lists_each_of_several_firings() -> None:
    tried = fires(orders, [sent("orders", "06:00"), sent("orders", "07:00", "2026-11-21")])
    assert [each.key for each in tried.firings] == ["2026-11-20", "2026-11-21"]
    with pytest.raises(AssertionError, match="fired 2 times"):
        _ = tried.firing


def test_time_passes_until_the_end_and_not_beyond() -> None:
    condition = (orders & rates).expires(after="2h")
    wait = {"key": "2026-11-20", "start": "2026-11-20T05:00:00Z"}
    assert not fires(condition, [sent("orders", "06:00")], **wait)
    tried = fires(condition, [sent("orders", "06:00")], until="2026-11-20T07:00:00Z", **wait)
    assert tried.firing.outcome == "expired"
    assert "- expired at 2026-11-20T07:00:00+00:00, key '2026-11-20': orders by" in str(tried)
    assert "; missing: rates" in str(tried)


def test_invalid_arguments_raise_the_errors_of_rehearse() -> None:
    with pytest.raises(ConditionError, match="give start="):
        fires(orders.expires(after="2h"), [], key="x")


def test_a_plain_record_is_the_event_that_an_engine_reads_it_as() -> None:
    done = event(source="raw_orders", where="data.status == 'done'", by="data.date")
    day = {"date": "2026-11-20"}
    at = "2026-11-20T06:00:00Z"
    assert not fires(done, [record("raw_orders", {"status": "new", **day}, at=at)])
    tried = fires(done, [record("raw_orders", {"status": "done", **day}, at=at, key="k", offset=7)])
    taken = tried.firing.taking_part[0].match.event
    assert (taken.id, taken.subject, taken.type) == ("0/7", "k", "org.apache.kafka.record")
    assert record("t", b"\x00\xff", at=at).datacontenttype == "application/octet-stream"


def test_the_report_in_the_docs_is_that_of_the_example() -> None:
    page = (Path(__file__).parents[3] / "docs" / "use" / "testing.md").read_text()
    names: dict[str, Any] = {}
    exec(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0], names)
    [report] = re.findall(r"```\n(not met.*?)```", page, re.DOTALL)
    assert report in str(fires(names["ready"], [names["order"], names["other"]]))
