"""The JSON form of a firing in a run's conf and in an asset event."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given as given_any
from hypothesis import settings
from hypothesis import strategies as st
from interlock.engine.records import FiringRecord
from interlock.engine.records.firing_fit import fit
from interlock.engine.records.firing_form import firing_form
from interlock.engine.records.sizes import MAX_FIRING_BYTES
from interlock.triggers.firing_json import asset_payload, json_text


def firing(key: str | None = "k", **event: Any) -> FiringRecord:
    events = {"x": [{"specversion": "1.0", "id": "1", "source": "/s", "type": "x", **event}]}
    origins = {"x": [{"topic": "t", "partition": 2, "offset": 5, "timestamp_ms": 1795154400123}]}
    return FiringRecord(id="f", outcome="met", key=key, fired_at="at", events=events, origins=origins)


def test_the_form_is_that_of_a_wait() -> None:
    given = firing(data={"a": 1})
    assert firing_form(given) == {
        "version": 1, "firing_id": "f", "outcome": "met", "key": "k", "fired_at": "at",
        "events": given.events, "recorded": {"x": ["2026-11-20T06:00:00.123+00:00"]}, "missing": [],
    }  # fmt: skip


@pytest.mark.parametrize(
    "stamp",
    [
        {"timestamp_ms": 1795154400123000},
        {"timestamp_ms": 2**62},
        {"timestamp_ms": -(2**62)},
        {"timestamp_ms": 10**400},
        {},
        {"timestamp_ms": None},
        {"timestamp_ms": "soon"},
        {"timestamp_ms": [1]},
    ],
    ids=["microseconds", "far", "long ago", "huge", "none", "null", "text", "list"],
)
def test_an_event_without_a_usable_timestamp_has_the_time_of_the_firing(stamp: dict[str, Any]) -> None:
    origins = {"x": [{"topic": "t", "partition": 2, "offset": 5, **stamp}]}
    assert firing_form(msgspec.structs.replace(firing(), origins=origins))["recorded"] == {"x": ["at"]}


@pytest.mark.parametrize("origins", [{}, {"x": []}, {"y": [{}]}, {"x": [{}]}, {"x": [{"topic": "t"}]}])
def test_a_large_firing_that_does_not_say_where_its_events_are_is_cut_as_any_other(
    origins: dict[str, Any],
) -> None:
    """No engine writes it; it ended each try of a dispatcher, which then created no run any more."""
    large = msgspec.structs.replace(firing(data="x" * MAX_FIRING_BYTES), origins=origins)
    [event] = fit(large, MAX_FIRING_BYTES).events["x"]
    assert event == {"specversion": "1.0", "id": "1", "source": "/s", "type": "x"}
    many = msgspec.structs.replace(firing(), events={"x": [{"id": "1"}] * 20_000}, origins=origins)
    cut = fit(many, MAX_FIRING_BYTES)
    assert cut.left_out["x"] == 20_000 - len(cut.events["x"])


def test_recorded_has_only_times_of_events_in_the_form() -> None:
    """Labels of `fail_on` are not in the form."""
    given = firing()
    origins = {**given.origins, "fail_on: y": given.origins["x"]}
    assert list(firing_form(msgspec.structs.replace(given, origins=origins))["recorded"]) == ["x"]


@settings(deadline=None, max_examples=50)
@given_any(st.integers(1, 2000), st.integers(0, 3))
def test_the_form_is_not_longer_than_the_fitted_firing(count: int, size: int) -> None:
    event = {"specversion": "1.0", "id": "1", "source": "/s", "type": "x", "data": "x" * size}
    origin = {"topic": "t", "partition": 2, "offset": 5, "timestamp_ms": 1795154400123}
    whole = msgspec.structs.replace(
        firing(),
        fired_at="2026-11-20T06:00:00.123+00:00",
        events={"x": [event] * count},
        origins={"x": [origin] * count},
    )
    assert len(json.dumps(firing_form(fit(whole, MAX_FIRING_BYTES)))) <= MAX_FIRING_BYTES


@pytest.mark.parametrize("value", ["a\0b", "a\ud800b", float("nan"), {"x": object()}, {"\\\0": 1}])
def test_json_that_postgresql_refuses_is_an_error(value: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        json_text(value)


@pytest.mark.parametrize("value", ["\\u0000", "\\\\u0000", "é \U0001f600", None])
def test_json_that_only_looks_like_that_is_accepted(value: Any) -> None:
    assert json.loads(json_text(value)) == value


def test_events_that_do_not_fit_are_counted() -> None:
    assert firing_form(msgspec.structs.replace(firing(), left_out={"x": 7}))["left_out"] == {"x": 7}


def test_an_asset_event_contains_the_firing_with_datarefs_if_it_is_too_large() -> None:
    assert asset_payload(firing(data={"a": 1}))["events"]["x"][0]["data"] == {"a": 1}
    [large] = asset_payload(firing(data="x" * 60_000))["events"]["x"]
    assert large["dataref"] == "kafka:t/2/5"


def test_an_asset_event_omits_content_that_would_stop_the_triggerer() -> None:
    [event] = asset_payload(firing(data="\0"))["events"]["x"]
    assert event == {"dataref": "kafka:t/2/5"}
    payload = asset_payload(firing(key="\0"))
    assert (payload["key"], payload["events"], payload["recorded"]) == (None, {}, {})
    assert payload["firing_id"] == "f"
