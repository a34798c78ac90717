"""The payload of a trigger: strict ASCII JSON of at most 48 KiB, whatever the events contain."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from airflow.sdk.serde import deserialize, serialize
from airflow.triggers.base import TriggerEvent
from hypothesis import given, settings
from hypothesis import strategies as st
from interlock import Event
from interlock.engine.errors import RecordError
from interlock.engine.records import ActionRecord, FiringRecord
from interlock.engine.records.event_form import json_form
from interlock.engine.records.firing_fit import fit
from interlock.engine.records.sizes import MAX_FIRING_BYTES
from interlock.triggers.payload import Payload


def action(*events: Event) -> ActionRecord:
    forms = [json_form(e) for e in events]
    origins = [{"topic": "b-event", "partition": 3, "offset": n} for n in range(len(events))]
    firing = FiringRecord(
        id="f", outcome="met", key="d", fired_at="t", events={"a": forms}, origins={"a": origins}
    )
    return ActionRecord(subscription="s", incarnation="i", state="fired", firing=firing)


def handed_over(record: ActionRecord) -> Payload:
    """Returns the payload after a round trip as in Airflow: strict ASCII JSON."""

    def refuse(name: str) -> Any:
        raise AssertionError(f"{name} is no JSON")

    text = json.dumps(Payload.of_firing(record, ("i:n",)).to_json(), allow_nan=False, ensure_ascii=False)
    assert text.isascii()
    assert "\0" not in text
    return Payload.from_json(json.loads(text, parse_constant=refuse))


def an_event(data: Any, content_type: str | None = None, **extensions: Any) -> Event:
    return Event.of("t", "/s", id="1", data=data, datacontenttype=content_type, **extensions)


def test_a_small_firing_arrives_unchanged() -> None:
    record = action(an_event({"day": "2026-11-20", "name": "ä"}))
    payload = handed_over(record)
    assert (payload.outcome, payload.registration_keys) == ("fired", ("i:n",))
    assert payload.action_record() == record


def test_a_timeout_has_no_firing() -> None:
    payload = Payload.from_json(Payload(outcome="timeout", registration_keys=("i:n",)).to_json())
    assert payload == Payload(outcome="timeout", registration_keys=("i:n",))
    with pytest.raises(RecordError, match="payload"):
        payload.action_record()


def test_its_repr_names_the_firing_without_data() -> None:
    """Airflow logs a trigger's event in the task's log; a JSON log contains its `repr`."""
    record = action(an_event({"card": "secret"}))
    logged = repr(TriggerEvent(Payload.of_firing(record, ("i:n",)).to_json()))
    assert logged == "TriggerEvent<<firing f of s: met>>"
    assert repr(TriggerEvent(Payload(outcome="timeout").to_json())) == "TriggerEvent<<timeout>>"


def test_airflows_serialisers_keep_it_unchanged() -> None:
    """From the triggerer to its supervisor, and from there, or in `dag.test()`, to the task."""
    form = Payload.of_firing(action(an_event("x")), ("i:n",)).to_json()
    assert TriggerEvent(form).model_dump() == {"payload": dict(form)}
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(TriggerEvent(form).model_dump()["payload"])) == form
    assert deserialize(json.loads(json.dumps(serialize(form)))) == form


HOSTILE = {
    "nul": b'"\\u0000"',
    "surrogate": b'"\\ud800"',
    "nan": b"NaN",
    "inf": b'{"x": Infinity}',
    "float": b"1e999",
    "digits": b"9" * 6000,
    "int": str(2**80).encode(),
    "deep": b"[" * 950 + b"]" * 950,
    "bytes": b"\xff\xfe",
    "cesu": b'"\xed\xa0\x80"',
    "empty": b"",
    "half": b"{",
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "a/b"])
def test_hostile_data_arrives_with_equal_bytes_or_equal_value(data: bytes, content_type: str) -> None:
    [form] = handed_over(action(an_event(data, content_type))).action_record().firing.events["a"]
    event = Event.from_json_dict(form)
    assert event.data == data or json.loads(event.data or b"") == json.loads(data)
    json.dumps(form, allow_nan=False)
    assert not any("\0" in str(value) for value in form.values())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=15,
)


@settings(deadline=None)
@given(JSON)
def test_any_json_data_arrives_unchanged(value: Any) -> None:
    text = json.dumps(value).encode()
    [form] = handed_over(action(an_event(text, "application/json"))).action_record().firing.events["a"]
    arrived = Event.from_json_dict(form).data
    assert arrived == text or json.loads(arrived or b"") == value


def size(record: ActionRecord) -> int:
    return len(Payload.of_firing(record, ()).action or "")


def test_the_largest_data_are_replaced_by_a_reference_and_the_small_ones_stay() -> None:
    record = action(
        an_event({"x": "0" * MAX_FIRING_BYTES}), an_event({"y": 1}), an_event({"z": "1" * 100_000})
    )
    big, small, bigger = handed_over(record).action_record().firing.events["a"]
    assert size(record) <= MAX_FIRING_BYTES + 200  # plus subscription and incarnation
    assert big["dataref"] == "kafka:b-event/3/0"
    assert bigger["dataref"] == "kafka:b-event/3/2"
    assert "data" not in big
    assert (big["id"], big["type"], big["source"]) == ("1", "t", "/s")
    assert small["data"] == {"y": 1}


def test_the_size_is_measured_in_ascii() -> None:
    record = action(an_event({"x": "ä" * 20_000}))
    assert size(record) <= MAX_FIRING_BYTES + 200


def test_long_extension_attributes_are_removed_if_removing_data_is_not_enough() -> None:
    record = action(*[an_event({"y": 1}, note="n" * 30_000) for _ in range(3)])
    events = handed_over(record).action_record().firing.events["a"]
    assert size(record) <= MAX_FIRING_BYTES + 200
    assert ["note" in e for e in events] == [False, False, True]
    assert [set(e) >= {"id", "source", "type", "dataref"} for e in events] == [True, True, False]


def test_a_long_subject_is_removed_if_nothing_else_helps() -> None:
    record = action(Event.of("t", "/s", id="1", subject="s" * 60_000))
    [event] = handed_over(record).action_record().firing.events["a"]
    assert size(record) <= MAX_FIRING_BYTES + 200
    assert event == {"dataref": "kafka:b-event/3/0"}


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 40_000), min_size=1, max_size=6), st.integers(2_000, 60_000))
def test_a_firing_fits_whatever_the_sizes(sizes: list[int], most: int) -> None:
    firing = action(*[an_event({"x": "é" * n}) for n in sizes]).firing
    fitted = fit(firing, most)
    form = {name: getattr(fitted, name) for name in fitted.__struct_fields__}
    assert len(json.dumps(form)) <= most
    assert fitted.origins == firing.origins
    assert len(fitted.events["a"]) == len(sizes)
