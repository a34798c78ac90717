"""The record that acknowledges a firing."""

from __future__ import annotations

from typing import Any
from unittest import mock

import msgspec
import pytest
from interlock.engine.bus import Record
from interlock.engine.config import BusConfig
from interlock.engine.delivery.acknowledgements import Acknowledgements, Done, acked
from interlock.engine.delivery.answers import Answer
from interlock.engine.delivery.context import DelivererContext
from interlock.engine.delivery.lanes import SinkLanes
from interlock.engine.delivery.parts import PARTS
from interlock.engine.delivery.retry import Retry
from interlock.engine.records import ActionRecord, decode_json, encode_json
from interlock.engine.records.firing_fit import fit_action

from tests.unit.engine.delivery.firings import TP, action, firing

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
        fired = msgspec.structs.replace(fired, firing=msgspec.structs.replace(fired.firing, origins=origins))
    written = acked(Record(TP, 0, 0, fired.key, encode_json(fired), None))
    assert read(written) == msgspec.structs.replace(fit_action(fired), state="acked")
    assert read(written).key == fired.key


def test_a_record_whose_members_come_in_another_order_is_acknowledged_too() -> None:
    fired = action("f1")
    other = msgspec.json.encode(dict(reversed(msgspec.to_builtins(fired).items())))
    assert read(acked(Record(TP, 0, 0, fired.key, other, None))) == msgspec.structs.replace(
        fired, state="acked"
    )


@pytest.mark.parametrize(
    ("answer", "about"),
    [
        (
            Answer(503, destination="https://h/orders", excerpt=b"\xffno"),
            {"destination": "https://h/orders", "code": "503", "data": "/25v"},
        ),
        (Answer(None, "no connection", False, destination="https://h/"), {"destination": "https://h/"}),
        (None, {}),
    ],
)
def test_a_dead_letter_says_where_it_was_sent_and_what_came_back(
    answer: Answer | None, about: dict[str, str]
) -> None:
    lanes = SinkLanes(Retry(tries=1), "key", 1, lambda: 0.0)
    lanes.add(firing(1))
    started = lanes.start(0.0)
    assert started is not None
    done = Done(started, "its sink was removed")
    if answer is not None:
        ((given_up, reason),) = lanes.answer(started, answer, 1.0, 0)
        done = Done(given_up, reason)
    config = BusConfig(client={"bootstrap.servers": "nowhere"})
    context = DelivererContext.of(mock.Mock(), config, PARTS)
    acknowledgements = Acknowledgements(context, mock.Mock())
    acknowledgements.ownership.bus.transactional_id = "t"  # type: ignore[misc]
    dead_letter, _ = acknowledgements.outputs([done])
    found = {name: raw.decode() for name, raw in dead_letter.headers or () if raw and "_error_" in name}
    assert found == {f"interlock_error_{name}": text for name, text in about.items()}
