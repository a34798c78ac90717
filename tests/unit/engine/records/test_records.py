"""The forms of the internal topics: what is written is read back, and nothing else is taken for it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from interlock import Event, event
from interlock.engine.errors import RecordError, UnknownVersion
from interlock.engine.records import (
    BUS_KEY,
    ActionRecord,
    Condemned,
    FiringRecord,
    MatchRecord,
    MatchTarget,
    MetaRecord,
    OffsetMetadata,
    Registration,
    RegistrationKey,
    StateRecord,
    SuspectRecords,
    decode_json,
    decode_msgpack,
    encode_json,
    encode_msgpack,
    parse_state_key,
    partition_of,
    registry_key,
    state_key,
)

FORMS = [Registration, OffsetMetadata]
INCARNATION = "41f6bccca84b4f1ee33314cc19592e38"
DURABLE = [5, 5, 0]
PAIR = event("orders", by="data.day") & event("rates", by="data.day")


def test_a_registration_is_read_back_as_it_was_written() -> None:
    registration = Registration.of("a/dag/run/task", PAIR, "2026-11-20", 17)
    read = decode_json(Registration, encode_json(registration), "here")
    assert read == registration
    assert read.build_condition() == PAIR


def test_the_incarnation_depends_on_subscription_condition_key_and_since_alone() -> None:
    made = [
        Registration.of("s", PAIR, "d", 1),
        Registration.of("t", PAIR, "d", 1),
        Registration.of("s", event("orders", by="data.day"), "d", 1),
        Registration.of("s", PAIR, "e", 1),
        Registration.of("s", PAIR, None, 1),
        Registration.of("s", PAIR, "d", 2),
        Registration.of("s", PAIR, "d", 1, kind="durable"),
    ]
    assert len({r.incarnation for r in made}) == len(made)
    assert Registration.of("s", PAIR, "d", 1) == made[0]
    limited = Registration.of("s", PAIR, "d", 1, kind="durable", max_keys=7, at_limit="drop-oldest")
    assert limited.incarnation == made[-1].incarnation


def test_the_incarnation_of_a_one_shot_registration_never_changes() -> None:
    """A wait after an upgrade finds what it registered before."""
    assert Registration.of("s", event("x"), None, 1).incarnation == INCARNATION


def test_the_json_of_offset_metadata_has_single_letters_in_a_fixed_order() -> None:
    """What another engine of the bus reads, byte for byte."""
    metadata = OffsetMetadata(
        applied=7,
        scans=[(0, 3, 5)],
        committer="x.1",
        transaction=3,
        topic_id="T",
        ended_cleanly=True,
        suspects=SuspectRecords(0, 9, 5, trying=True, ended=("y.1",)),
        condemned=Condemned(1, 5),
        claims=[(9, 1)],
    )
    text = (
        b'{"v":1,"R":7,"g":[[0,3,5]],"c":"x.1","n":3,"t":"T","e":true,'
        b'"a":[0,9,5,true,["y.1"]],"s":[1,5],"f":[[9,1]]}'
    )
    assert encode_json(metadata) == text
    assert decode_json(OffsetMetadata, text, "here") == metadata


@pytest.mark.parametrize("version", ["2", "0", "null", "true", "1.5", '"1"', "[1]", "{}"])
def test_another_version_is_an_error_that_names_it_and_the_place(version: str) -> None:
    text = encode_json(OffsetMetadata(applied=1)).replace(b'"v":1', f'"v":{version}'.encode())
    with pytest.raises(RecordError, match=r"topic\[0\]@7 .*OffsetMetadata"):
        decode_json(OffsetMetadata, text, "topic[0]@7")
    other = encode_msgpack(MetaRecord(2, 1, {}, False, False, None))
    with pytest.raises(UnknownVersion, match=r"here holds a MetaRecord of version 2; .* reads 1\."):
        decode_msgpack(MetaRecord, other, "here")


@pytest.mark.parametrize("value", [[2], [2, "anything", {"else": 1}], [2, 1, {}, False, True, None, "more"]])
def test_a_later_version_of_another_form_is_distinguished_from_a_damaged_record(value: Any) -> None:
    with pytest.raises(UnknownVersion, match="version 2"):
        decode_msgpack(StateRecord, msgspec.msgpack.encode(value), "here")


@pytest.mark.parametrize("form", [MatchRecord, StateRecord, MetaRecord])
def test_a_damaged_record_of_a_version_that_is_read_is_no_later_version(form: Any) -> None:
    with pytest.raises(RecordError, match="no valid") as caught:
        decode_msgpack(form, msgspec.msgpack.encode([1, "rubbish"]), "here")
    assert not isinstance(caught.value, UnknownVersion)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"v":1,"R":"\xff"}',
        b'{"v":1,"R":' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"v":1}',
        b'{"v":1,"R":1e999}',
    ],
    ids=["empty", "list", "no text", "no UTF-8", "deep", "incomplete", "number"],
)
def test_a_damaged_json_record_is_an_error_that_names_the_place(value: bytes) -> None:
    with pytest.raises(RecordError, match=r"^the place "):
        decode_json(OffsetMetadata, value, "the place")


@given(st.one_of(st.binary(max_size=60), st.recursive(st.none() | st.integers(-9, 9) | st.text(), st.lists)))
def test_random_bytes_raise_a_record_error(value: Any) -> None:
    raw = value if isinstance(value, bytes) else msgspec.msgpack.encode(value)
    text = value if isinstance(value, bytes) else msgspec.json.encode(value)
    for form in FORMS:
        with pytest.raises(RecordError):
            decode_json(form, text, "x")
    for packed in (MatchRecord, MetaRecord):
        with pytest.raises(RecordError):
            decode_msgpack(packed, raw, "x")


@pytest.mark.parametrize("since_ms", [10**20, -(10**20)])
def test_a_time_that_no_kafka_client_takes_is_no_valid_registration(since_ms: int) -> None:
    text = encode_json(Registration.of("s", PAIR, "d", 1)).replace(
        b'"since_ms":1', f'"since_ms":{since_ms}'.encode()
    )
    with pytest.raises(RecordError, match="since_ms"):
        decode_json(Registration, text, "x")


def test_a_match_is_read_back_with_its_event() -> None:
    made = Event.of("orders", "/s", id="1", data={"day": "ä"})
    match = MatchRecord(1, "t", 3, 4031, 99, made, [MatchTarget(7, "inc", (0, 1), "k")], "id")
    assert decode_msgpack(MatchRecord, encode_msgpack(match), "x") == match


@given(st.text(alphabet="0123456789abcdef", min_size=1), st.none() | st.text(min_size=1))
def test_a_state_key_is_read_back_whatever_the_correlation_key_holds(
    incarnation: str, key: str | None
) -> None:
    assert parse_state_key(state_key(incarnation, key)) == (incarnation, key)


def test_a_state_key_that_is_no_text_is_an_error_that_names_it() -> None:
    with pytest.raises(RecordError, match="state key"):
        parse_state_key(b"\xff\xfe")


def test_a_registration_key_is_distinguished_from_the_bus_record_and_from_rubbish() -> None:
    assert RegistrationKey.decode(RegistrationKey("abc", "n1").encode()) == RegistrationKey("abc", "n1")
    for other in (BUS_KEY, b"", b"rubbish", b"\xff\xff"):
        assert RegistrationKey.decode(other) is None


def test_the_partition_of_a_subscription_never_changes() -> None:
    """Part of the format: states of a running bus lie where this function put them."""
    names = ("airflow/dag/run/task", "a", "ü")
    assert [partition_of("one-shot", s, "any key", 16) for s in names] == [13, 3, 5]
    assert [partition_of("durable", s, "k", 16) for s in names] == DURABLE
    assert len({partition_of("durable", "a", str(n), 16) for n in range(200)}) == 16


def test_each_firing_of_a_durable_subscription_has_a_key_of_its_own() -> None:
    firing = FiringRecord(id="f1", outcome="met", key=None, fired_at="", events={}, origins={})
    made = {"subscription": "s", "incarnation": "i", "state": "fired", "firing": firing}
    assert ActionRecord(**made).key == b"s"  # type: ignore[arg-type]
    assert ActionRecord(**made, kind="durable").key == b"s\0f1"  # type: ignore[arg-type]


@pytest.mark.parametrize("topic", ["orders", "a/b"])
def test_the_key_of_a_place_names_its_partition(topic: str) -> None:
    assert registry_key("source", topic, 3) == f"source/{topic}/3".encode()
    assert registry_key("resume", topic, 3) == f"resume/{topic}/3".encode()
