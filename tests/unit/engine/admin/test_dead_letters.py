"""Dead letters: whether each may be sent again."""

from __future__ import annotations

import pytest
from interlock.engine.admin.dead_letters import DeadLetter, Readers
from interlock.engine.bus import Record, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.protocol.outputs import Outputs
from interlock.engine.records import ActionRecord, FiringRecord, encode_json
from interlock.engine.records.sizes import MAX_INTERNAL_BYTES
from msgspec.structs import replace

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "nowhere"})
ORDERS = TopicPartition("orders", 1)


def dead_letter_of(record: Record, stage: str = "event") -> DeadLetter:
    gathered = Outputs(CONFIG, 1)
    gathered.dead_letter(record, stage, record.fault, 0)
    [output] = gathered.records
    return DeadLetter.of(
        Record(TopicPartition("b-dead-letter", 0), 3, 9, output.key, output.value, output.headers)
    )


def refusal(dead_letter: DeadLetter) -> str:
    return dead_letter.refusal(CONFIG, Readers(["b-event", "orders"], ["s"]), to_event_topic=True, again=True)


def test_a_record_without_its_headers_is_not_sent_again() -> None:
    """A header whose name is not UTF-8: on a listed topic the rest would be a plain record, an event."""
    dead_letter = dead_letter_of(
        Record(ORDERS, 7, 0, b"k", b"{}", None, "the Kafka client cannot read its headers")
    )
    assert dead_letter.reason == "the Kafka client cannot read its headers"
    assert refusal(dead_letter) == (
        "the Kafka client could not unpack it, so the dead letter has no headers: let its producer send a "
        "correct record; the original is at orders[1]@7"
    )


def test_a_record_with_all_its_parts_may_be_sent_again() -> None:
    assert refusal(dead_letter_of(Record(ORDERS, 7, 0, b"k", b"{}", []))) == ""


@pytest.mark.parametrize(
    ("partitions", "expected"),
    [
        ({}, ""),
        ({"orders": 2}, ""),
        ({"orders": 1}, "topic 'orders' has no partition 1, only 0 to 0: it was created again"),
        ({"orders": 0}, "topic 'orders' does not exist any more"),
    ],
)
def test_a_record_whose_partition_is_gone_is_not_sent_again(
    partitions: dict[str, int], expected: str
) -> None:
    """With it, `redrive --all` sent none of the others: their transaction failed each time."""
    dead_letter = dead_letter_of(Record(ORDERS, 7, 0, b"k", b"{}", []))
    found = dead_letter.refusal(CONFIG, Readers(["orders"], (), partitions))
    assert found.startswith(expected) if expected else found == ""


def test_an_unreadable_record_in_the_dead_letter_topic_itself_is_listed_with_its_fault() -> None:
    record = Record(TopicPartition("b-dead-letter", 0), 3, 9, b"k", b"v", None, "cannot be unpacked")
    dead_letter = DeadLetter.of(record)
    assert (dead_letter.reason, dead_letter.event_type, dead_letter.attempts) == ("cannot be unpacked", "", 0)
    assert refusal(dead_letter) == "its headers do not say where it came from"


@pytest.mark.parametrize("raw", [b"9" * 5000, "²".encode(), b"", None, b"-1"])
def test_a_number_of_attempts_that_is_none_is_listed_as_0(raw: bytes | None) -> None:
    """Anybody who may write to the topic chooses it, and int() refuses more than 4,300 digits."""
    record = Record(TopicPartition("b-dead-letter", 0), 3, 9, b"k", b"v", [("interlock_attempts", raw)])
    assert DeadLetter.of(record).attempts == 0


# -- firings that could not be delivered


def firing(state: str = "fired", subscription: str = "s", data: str = "") -> Record:
    made = FiringRecord(
        id="f1", outcome="met", key="k", fired_at="at", events={"x": [{"data": data}]}, origins={}
    )
    action = ActionRecord(
        subscription=subscription,
        kind="durable",
        incarnation="i",
        state=state,
        firing=made,  # type: ignore[arg-type]
    )
    return Record(TopicPartition("b-action", 3), 7, 0, action.key, encode_json(action), [])


def test_a_firing_is_delivered_again_through_its_own_partition_of_the_action_topic() -> None:
    dead_letter = dead_letter_of(firing(), "delivery")
    assert (dead_letter.subscription, dead_letter.event_id, dead_letter.event_type) == ("s", "f1", "")
    assert refusal(dead_letter) == ""
    assert dead_letter.target(CONFIG) == ("b-action", 3)


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (firing(subscription="gone"), "the sink of 'gone' was removed"),
        (firing("acked"), "it holds no firing of a sink"),
        (replace(firing(), key=b"s"), "it holds no firing of a sink"),
        (replace(firing(), value=b"{"), "it holds no firing of a sink"),
        (
            replace(firing(), value=b'{"v":9,"state":"fired","firing":{"id":"f","key":null}}'),
            "holds no firing",
        ),
        (replace(firing(), value=None), "it holds no firing of a sink"),
        (replace(firing(), source=ORDERS), "it holds no firing of a sink of this bus"),
        (firing(data="x" * MAX_INTERNAL_BYTES), "it was too large"),
    ],
    ids=["no sink", "acked", "a wait", "unreadable", "later version", "no value", "elsewhere", "too large"],
)
def test_what_no_deliverer_would_take_is_not_sent_again(record: Record, expected: str) -> None:
    """Anybody who may write to the dead-letter topic chooses it."""
    assert expected in refusal(dead_letter_of(record, "delivery"))
