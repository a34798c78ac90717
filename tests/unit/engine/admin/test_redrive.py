"""Sending dead letters again: what a transaction has, and what happens when a connection is lost."""

from __future__ import annotations

import pytest
from interlock.engine.admin import redrive as module
from interlock.engine.admin.dead_letters import DeadLetter, Readers
from interlock.engine.admin.redrive import planned, redrive
from interlock.engine.bus import Record, TopicPartition

from tests.unit.engine.kafka.clients import CONFIG, FakeProducer, fake_producers

ORDERS, DEAD_LETTERS = TopicPartition("orders", 1), TopicPartition("b-dead-letter", 0)
LOST = "[thrd:1]: b/1: Disconnected: connection closed by peer (after 5ms in state UP)"


def dead_letter(offset: int) -> tuple[DeadLetter, Record]:
    found = DeadLetter(DEAD_LETTERS, offset, 0, "event", "rubbish", (ORDERS, 7), attempts=1)
    return found, Record(DEAD_LETTERS, offset, 0, b"k", b"rubbish", ())


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[FakeProducer]:
    """The producers made so far."""
    monkeypatch.setattr(module, "MOST_DEAD_LETTERS", 2)
    return fake_producers(monkeypatch)


def test_an_end_of_a_transaction_that_the_client_may_repeat_cannot_end_the_next_one(
    made: list[FakeProducer],
) -> None:
    """Its epoch is over: a late copy would have committed half of the next dead letters."""
    sent = redrive(CONFIG, [dead_letter(n) for n in range(3)])
    assert [each.offset for each in next(sent)] == [0, 1]
    [first] = made
    first.on_poll.append(lambda: first.settings["logger"].log(20, "%s [%s] %s", "FAIL", "name", LOST))
    assert [each.offset for each in next(sent)] == [2]
    assert [producer.calls.count("commit") for producer in made] == [1, 1]
    assert made[1].settings["transactional_id"] == first.settings["transactional_id"]
    assert made[1].calls[0] == "init"


def test_what_is_planned_says_where_each_would_go_or_why_it_stays_the_oldest_first() -> None:
    letters = [
        DeadLetter(
            DEAD_LETTERS, offset, 9 - offset, stage, "r", None if stage == "lost" else (ORDERS, offset), 0
        )
        for offset, stage in enumerate(("event", "lost", "trigger"))
    ]
    found = planned(CONFIG, letters, Readers(["orders"]))
    assert [(each.dead_letter.offset, each.to) for each in found] == [
        (2, "b-event"),
        (1, "b-event"),
        (0, "orders[1]"),
    ]
    assert [each.refused.partition(" ")[0] for each in found] == ["only", "its", ""]
