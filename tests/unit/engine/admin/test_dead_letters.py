"""Dead letters: whether each may be sent again."""

from __future__ import annotations

import pytest
from interlock.engine.admin.dead_letters import DeadLetter
from interlock.engine.bus import Record, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.protocol.outputs import Outputs

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "nowhere"})
ORDERS = TopicPartition("orders", 1)


def letter_of(record: Record, stage: str = "event") -> DeadLetter:
    gathered = Outputs(CONFIG, 1)
    gathered.dead_letter(record, stage, record.fault, 0)
    [output] = gathered.records
    return DeadLetter.of(
        Record(TopicPartition("b-dead-letter", 0), 3, 9, output.key, output.value, output.headers)
    )


def refusal(letter: DeadLetter) -> str:
    return letter.refusal(CONFIG, ["b-event", "orders"], to_event_topic=True, again=True)


def test_a_record_without_its_headers_is_not_sent_again() -> None:
    """A header whose name is not UTF-8: on a listed topic the rest would be a plain record, an event."""
    letter = letter_of(Record(ORDERS, 7, 0, b"k", b"{}", None, "the Kafka client cannot read its headers"))
    assert letter.reason == "the Kafka client cannot read its headers"
    assert refusal(letter) == (
        "the Kafka client could not unpack it, so the dead letter has no headers: let its producer send a "
        "correct record; the original is at orders[1]@7"
    )


def test_a_record_with_all_its_parts_may_be_sent_again() -> None:
    assert refusal(letter_of(Record(ORDERS, 7, 0, b"k", b"{}", []))) == ""


def test_an_unreadable_record_in_the_dead_letter_topic_itself_is_listed_with_its_fault() -> None:
    record = Record(TopicPartition("b-dead-letter", 0), 3, 9, b"k", b"v", None, "cannot be unpacked")
    letter = DeadLetter.of(record)
    assert (letter.reason, letter.event_type, letter.attempts) == ("cannot be unpacked", "", 0)
    assert refusal(letter) == "its headers do not say where it came from"


@pytest.mark.parametrize("raw", [b"9" * 5000, "²".encode(), b"", None, b"-1"])
def test_a_number_of_attempts_that_is_none_is_listed_as_0(raw: bytes | None) -> None:
    """Anybody who may write to the topic chooses it, and int() refuses more than 4,300 digits."""
    record = Record(TopicPartition("b-dead-letter", 0), 3, 9, b"k", b"v", [("interlock_attempts", raw)])
    assert DeadLetter.of(record).attempts == 0
