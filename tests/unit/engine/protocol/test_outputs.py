"""What one transaction gathers: when it is full, and how a record becomes a dead letter."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interlock.engine.bus import Committed, Headers, Record, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.protocol.outputs import (
    ATTEMPTS,
    MAX_PASS_BYTES,
    MAX_PASS_RECORDS,
    MISSING,
    Outputs,
)
from interlock.engine.records.sizes import MAX_INTERNAL_BYTES, MAX_VALUE_BYTES
from interlock.events.sizes import record_bytes

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "nowhere"})
TP = TopicPartition("b-event", 3)


def outputs() -> Outputs:
    return Outputs(CONFIG, 1)


def dead(
    value: bytes | None, headers: Headers | None = None, key: bytes | None = b"k", reason: str = "bad"
) -> dict[str, bytes | None]:
    gathered = outputs()
    gathered.dead_letter(Record(TP, 7, 0, key, value, headers), "event", reason, 1_700_000_000_123)
    [output] = gathered.records
    assert (output.topic, output.partition) == ("b-dead-letter", None)
    return dict(output.headers or ())


def size_of(gathered: Outputs) -> int:
    [o] = gathered.records
    return (
        len(o.key or b"")
        + len(o.value or b"")
        + sum(len(name) + len(raw or b"") for name, raw in o.headers or ())
    )


def test_without_offsets_there_is_nothing_to_commit() -> None:
    gathered = outputs()
    gathered.write("trigger", 0, None, b"v")
    assert not gathered
    gathered.offsets[TP] = Committed(1, "")
    assert gathered


def test_a_record_goes_to_the_topic_of_its_kind() -> None:
    gathered = outputs()
    gathered.write("action", 4, b"k", None)
    [output] = gathered.records
    assert (output.topic, output.partition, output.key, output.value) == ("b-action", 4, b"k", None)


def test_it_is_full_by_records() -> None:
    gathered = outputs()
    for _ in range(MAX_PASS_RECORDS - 1):
        gathered.write("trigger", 0, None, b"")
    assert not gathered.full
    gathered.write("trigger", 0, None, None)
    assert gathered.full


def test_it_is_full_by_bytes() -> None:
    gathered = outputs()
    gathered.write("trigger", 0, None, b"x" * (MAX_PASS_BYTES - 1))
    assert not gathered.full
    gathered.write("trigger", 0, None, b"x")
    assert gathered.full


@pytest.mark.parametrize("part", ["key", "value", "headers"])
def test_it_is_full_by_what_dead_letters_hold_in_any_part(part: str) -> None:
    """800 records without a value, and with headers of 1 MB, came into one transaction."""
    gathered = outputs()
    half = b"x" * (MAX_PASS_BYTES // 2)
    parts = {"key": None, "value": None, "headers": None}
    record = Record(TP, 0, 0, **{**parts, part: [("h", half)] if part == "headers" else half})
    gathered.dead_letter(record, "event", "bad", 0)
    assert not gathered.full
    gathered.dead_letter(record, "event", "bad", 0)
    assert gathered.full


def test_a_dead_letter_is_the_record_as_it_came_and_says_why() -> None:
    about = dead(b"payload", [("ce_type", b"x"), ("empty", None)])
    assert about["ce_type"] == b"x"
    assert about["empty"] is None
    assert about["interlock_reason"] == b"bad"
    assert about["interlock_stage"] == b"event"
    assert about["interlock_origin"] == b"b-event[3]@7"
    assert about["interlock_time"] == b"2023-11-14T22:13:20.123+00:00"
    assert about[ATTEMPTS] == b"1"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"1", b"2"),
        (b"41", b"42"),
        (b"", b"1"),
        (None, b"1"),
        (b"-3", b"1"),
        pytest.param(b"9" * 5000, b"1", id="more digits than int() reads"),
        pytest.param(b"9" * 4300, b"1", id="one digit more than str() writes"),
    ],
)
def test_attempts_of_a_record_that_was_sent_again_are_counted_on(before: bytes | None, after: bytes) -> None:
    about = dead(b"payload", [(ATTEMPTS, before), ("interlock_reason", b"old"), ("own", b"1")])
    assert about[ATTEMPTS] == after
    assert about["interlock_reason"] == b"bad"
    assert about["own"] == b"1"


def test_a_record_without_a_value_can_be_dead_lettered_as_well() -> None:
    assert dead(None, None, None)["interlock_origin"] == b"b-event[3]@7"


def test_a_record_too_large_for_a_dead_letter_is_named_by_size_hash_and_beginning() -> None:
    value = b"v" * MAX_INTERNAL_BYTES
    about = dead(value)
    assert about["interlock_size"] == str(len(value)).encode()
    assert about["interlock_sha256"] == hashlib.sha256(value).hexdigest().encode()


@pytest.mark.parametrize(
    "headers",
    [[("日" * 3_000_000, b"")], [("日", None)] * 1_700_000],
    ids=["three bytes a letter", "many short ones"],
)
def test_headers_of_a_dead_letter_count_as_brokers_count_them(headers: Headers) -> None:
    """A listed topic may hold records of more than 8 MiB; a dead letter of that size is refused for ever."""
    gathered = outputs()
    gathered.dead_letter(Record(TP, 7, 0, b"k", b"v", headers), "event", "bad", 0)
    [output] = gathered.records
    assert record_bytes(output.key, output.value, output.headers or ()) < MAX_INTERNAL_BYTES


def test_a_long_reason_is_cut() -> None:
    assert len(dead(b"", reason="r" * 10**6)["interlock_reason"] or b"") < 5000


HEADERS = st.lists(
    st.tuples(st.sampled_from(["a", "ce_x", "n" * 4000]), st.sampled_from([None, b"", b"h" * 300_000])),
    max_size=150,
)


@settings(max_examples=25, deadline=None)
@given(
    HEADERS, st.sampled_from([None, 0, MAX_VALUE_BYTES, MAX_INTERNAL_BYTES]), st.sampled_from([0, 10**6 * 9])
)
def test_any_record_can_be_dead_lettered(headers: Headers, value: int | None, key: int) -> None:
    """Else the engine could never move past it."""
    gathered = outputs()
    record = Record(TP, 7, 0, b"k" * key, None if value is None else b"v" * value, headers)
    gathered.dead_letter(record, "event", "bad", 0)
    assert size_of(gathered) < MAX_INTERNAL_BYTES


@pytest.mark.parametrize(
    ("record", "missing"),
    [
        (Record(TP, 7, 0, b"k", b"v", None, "x"), b"headers"),
        (Record(TP, 7, -1, None, None, None, "x"), b"headers, key, value"),
        (Record(TP, 7, -1, None, b"v", None, "x"), b"headers"),
        (Record(TP, 7, 0, b"k", b"v", None), None),
    ],
)
def test_a_dead_letter_says_which_parts_of_its_record_the_client_could_not_unpack(
    record: Record, missing: bytes | None
) -> None:
    """A header whose name is not UTF-8 (confluent-kafka): sent again without it, it is another event."""
    gathered = outputs()
    gathered.dead_letter(record, "event", "bad", 0)
    assert dict(gathered.records[0].headers or ()).get(MISSING) == missing
