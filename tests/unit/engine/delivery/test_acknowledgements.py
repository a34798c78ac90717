"""The record that acknowledges a firing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from interlock.engine.bus import Record
from interlock.engine.delivery.acknowledgements import acked
from interlock.engine.records import ActionRecord, decode_json, encode_json
from interlock.engine.records.firing import fitted

from tests.unit.engine.delivery.firings import TP, action

NASTY = '","state":"fired","firing":{'


def read(value: bytes) -> ActionRecord:
    return decode_json(ActionRecord, value, "")


@pytest.mark.parametrize(
    "members",
    [
        pytest.param({}, id="small"),
        pytest.param({"key": None}, id="without a key"),
        pytest.param({"key": "Ö"}, id="not ASCII"),
        pytest.param({"key": NASTY}, id="a key that looks like the record"),
        pytest.param({"subscription": f"airflow/deliver/{NASTY}"}, id="a subscription that looks like it"),
        pytest.param(
            {"events": {"e": [{"id": "1", "data": {"x": "," + NASTY}}]}}, id="data that look like it"
        ),
        pytest.param({"events": {"e": [{"id": "1", "source": "s", "data": "x" * 60_000}]}}, id="large"),
        pytest.param(
            {"events": {"e": [{"id": "1", "source": "s", "data": "é" * 20_000}]}}, id="large if escaped"
        ),
    ],
)
def test_it_is_the_same_firing_marked_acked_in_the_size_that_tasks_get(members: dict[str, Any]) -> None:
    fired = action("f1", **members)
    if "events" in members:
        origins = {"e": [{"topic": "t", "partition": 0, "offset": 1, "timestamp_ms": 0}]}
        firing = msgspec.structs.replace(fired.firing, origins=origins)
        fired = msgspec.structs.replace(fired, firing=firing)
    written = acked(Record(TP, 0, 0, fired.key, encode_json(fired), None))
    assert read(written) == msgspec.structs.replace(fitted(fired), state="acked")
    assert read(written).key == fired.key


def test_a_record_whose_members_come_in_another_order_is_acknowledged_too() -> None:
    fired = action("f1")
    other = msgspec.json.encode(dict(reversed(msgspec.to_builtins(fired).items())))
    assert read(acked(Record(TP, 0, 0, fired.key, other, None))) == msgspec.structs.replace(
        fired, state="acked"
    )
