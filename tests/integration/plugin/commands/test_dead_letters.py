"""`airflow interlock dead-letters` on a real broker: listing dead letters, and sending them again."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from interlock import event
from interlock.engine.admin import redrive as module
from interlock.engine.kafka.transactions import Transactions
from interlock.engine.records.sizes import MAX_INTERNAL_BYTES

from tests.integration.engine.conftest import Bench
from tests.integration.plugin.commands.conftest import Ran

Interlock = Callable[..., Ran]


def send(bench: Bench, kind: str, value: bytes | None, key: bytes = b"k", **headers: bytes) -> None:
    producer = Producer({**bench.config.client, "message.max.bytes": MAX_INTERNAL_BYTES})
    producer.produce(bench.config.topic(kind), value, key, partition=1, headers=list(headers.items()))
    assert producer.flush(20) == 0


def dead_letters(bench: Bench, eventually: Any, count: int) -> list[Any]:
    """The dead letters without redrive records, once there are `count`."""

    def found() -> list[Any]:
        return [r for r in bench.records("dead-letter") if "interlock_reason" in dict(r.headers)]

    return eventually(f"{count} dead letters", lambda: len(found()) >= count and found())


def test_a_redriven_record_is_unchanged_and_its_attempts_continue_to_count(
    bench: Bench, interlock: Interlock, eventually: Any
) -> None:
    with bench.engine():
        send(bench, "event", b"\xffrubbish", own=b"kept")
        dead_letters(bench, eventually, 1)
        [first] = interlock("dead-letters", "list").rows()
        assert (first["stage"], first["attempts"], first["redriven"]) == ("event", 1, "")
        assert first["origin"] == f"{bench.config.topic('event')}[1]@0"
        assert interlock("dead-letters", "redrive", first["place"], "--yes").rows()[0] == first
        dead_letters(bench, eventually, 2)
    again, [once, twice] = (
        bench.records("event"),
        [interlock("dead-letters", "list", "--reason", text).rows()[0] for text in ("no ce_ headers", "")],
    )
    assert [(r.partition, r.key, r.value) for r in again] == [(1, b"k", b"\xffrubbish")] * 2
    assert dict(again[1].headers) == {"own": b"kept", "interlock_attempts": b"1"}
    assert once == twice
    assert (twice["attempts"], twice["origin"]) == (2, f"{bench.config.topic('event')}[1]@1")
    [newest, oldest] = interlock("dead-letters", "list").rows()
    assert newest == twice
    counted = json.loads(interlock("health").out)["dead_letters"]
    assert counted == {"open": 1, "redriven": 1, "complete": True}
    assert oldest["redriven"] != ""
    [shown] = interlock("dead-letters", "show", newest["place"]).rows()
    assert shown["value"] == "hex ff72756262697368"
    assert shown["headers"]["own"] == "kept"
    assert "it has no ce_ headers" in shown["reason"]


def test_what_was_sent_again_is_sent_once_more_only_on_request(
    bench: Bench, interlock: Interlock, eventually: Any
) -> None:
    with bench.engine():
        for n in range(3):
            send(bench, "event", b"rubbish %d" % n)
        dead_letters(bench, eventually, 3)
    assert len(interlock("dead-letters", "redrive", "--all", "--dry-run").rows()) == 3
    assert len(bench.records("event")) == 3
    refused = interlock("dead-letters", "redrive", "--all")
    assert "Send 3 of 3 dead letters again?" in refused.err
    assert "Nothing was sent." in refused.err
    assert len(interlock("dead-letters", "redrive", "--all", answer="y").rows()) == 3
    assert len(bench.records("event")) == 6
    nothing = interlock("dead-letters", "redrive", "--all", "--yes")
    assert nothing.code == 0
    assert "Nothing to send." in nothing.err
    place = interlock("dead-letters", "list", "--limit", "1").rows()[0]["place"]
    assert "--again" in interlock("dead-letters", "redrive", place, "--yes").err
    assert len(bench.records("event")) == 6
    assert len(interlock("dead-letters", "redrive", place, "--yes", "--again").rows()) == 1
    assert len(bench.records("event")) == 7


def test_an_interrupted_redrive_says_what_was_sent_and_the_next_one_sends_the_rest(
    bench: Bench, interlock: Interlock, eventually: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with bench.engine():
        for n in range(5):
            send(bench, "event", b"rubbish %d" % n)
        dead_letters(bench, eventually, 5)
    real, left = Transactions.produce, iter(range(7))  # inside the second transaction

    def produce(*arguments: Any) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt
        real(*arguments)

    monkeypatch.setattr(module, "MOST_DEAD_LETTERS", 2)
    monkeypatch.setattr(Transactions, "produce", produce)
    stopped = interlock("dead-letters", "redrive", "--all", "--yes")
    assert stopped.code == 1
    sent = json.loads(stopped.out)
    assert "Sent again: 2 of 5 dead letters." in stopped.err
    assert "Interrupted." in stopped.err
    assert [r.value for r in bench.records("event")][5:] == [b"rubbish 0", b"rubbish 1"]
    monkeypatch.setattr(Transactions, "produce", real)
    rest = interlock("dead-letters", "redrive", "--all", "--yes").rows()
    assert len(rest) == 3
    assert not {row["place"] for row in sent} & {row["place"] for row in rest}
    assert [r.value for r in bench.records("event")] == 2 * [b"rubbish %d" % n for n in range(5)]


def test_what_one_subscription_could_not_take_goes_to_the_event_topic_only_on_request(
    bench: Bench, interlock: Interlock, eventually: Any
) -> None:
    condition = event("x", by="data.k") & event("y", by="data.k")
    bench.subscribe("narrow", condition, max_keys=1)
    with bench.engine():
        # One open key on each of two trigger partitions: some of these have no room.
        for n in range(6):
            bench.emit("x", id=f"x{n}", data={"k": n})
        found = dead_letters(bench, eventually, 4)
        for n in range(6):
            bench.emit("y", id=f"y{n}", data={"k": n})
        bench.eventually_fired("narrow", 2)
        rows = interlock("dead-letters", "list", "--stage", "trigger", "--reason", "NO ROOM").rows()
        assert {row["type"] for row in rows} <= {"x", "y"}
        assert len(found) >= 4
        refused = interlock("dead-letters", "redrive", rows[-1]["place"], "--yes")
        assert refused.code == 1
        assert "--to-event-topic" in refused.err
        before = len(bench.records("event"))
        nothing = interlock("dead-letters", "redrive", "--all", "--yes")
        assert "Nothing to send." in nothing.err
        assert len(bench.records("event")) == before
        place = next(row for row in rows if row["type"] == "x")
        [row] = interlock("dead-letters", "redrive", place["place"], "--yes", "--to-event-topic").rows()
        ids = [dict(record.headers)["ce_id"].decode() for record in bench.records("event")]
        assert len(ids) == before + 1
        assert ids.count(row["id"]) == 2


def test_a_record_that_was_cut_is_refused_with_where_the_original_is(
    bench: Bench, interlock: Interlock
) -> None:
    origin = f"{bench.config.topic('event')}[1]@3".encode()
    send(
        bench,
        "dead-letter",
        b"begin",
        interlock_reason=b"too large",
        interlock_stage=b"event",
        interlock_origin=origin,
        interlock_size=b"9000000",
        interlock_sha256=b"0",
    )
    refused = interlock("dead-letters", "redrive", "1@0", "--yes")
    assert refused.code == 1
    assert f"read the original at {origin.decode()}" in refused.err
    assert bench.records("event") == []


@pytest.mark.parametrize(
    ("headers", "problem"),
    [
        ({"interlock_stage": b"event", "interlock_origin": b"orders[0]@3"}, "no longer reads topic 'orders'"),
        ({"interlock_stage": b"event", "interlock_origin": b"nonsense"}, "do not say where it came from"),
        ({}, "do not say where it came from"),
    ],
)
def test_a_dead_letter_whose_origin_is_not_named_or_not_read_is_not_redriven(
    bench: Bench, interlock: Interlock, headers: dict[str, bytes], problem: str
) -> None:
    send(bench, "dead-letter", b"v", interlock_reason=b"r", **headers)
    refused = interlock("dead-letters", "redrive", "1@0", "--yes")
    assert refused.code == 1
    assert problem in refused.err


def test_a_match_that_no_engine_can_read_is_not_sent_again(
    bench: Bench, interlock: Interlock, eventually: Any
) -> None:
    with bench.engine():
        send(bench, "trigger", b"rubbish")
        dead_letters(bench, eventually, 1)
    [row] = interlock("dead-letters", "list").rows()
    refused = interlock("dead-letters", "redrive", row["place"], "--yes", "--to-event-topic")
    assert "come after later matches" in refused.err


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("1@7", "dead-letter[1]@7"),
        ("2@0", "no partition 2"),
        ("nonsense", "'nonsense'"),
        ("other[0]@0", "'other[0]@0'"),
    ],
)
def test_a_place_without_a_dead_letter_is_an_error_that_names_it(
    bench: Bench, interlock: Interlock, place: str, problem: str
) -> None:
    for command in ("show", "redrive"):
        refused = interlock("dead-letters", command, place)
        assert refused.code == 1
        assert problem in refused.err


def test_control_characters_of_a_record_do_not_reach_the_terminal(bench: Bench, interlock: Interlock) -> None:
    send(
        bench,
        "dead-letter",
        b"\x1b[31mred [/bold] [red]",
        interlock_reason=b"\x1b]0;title\x07 [/red]",
        interlock_stage=b"event",
        interlock_origin=b"o[0]@0",
    )
    for output in ("table", "plain"):
        for command in (("list",), ("show", "1@0")):
            ran = interlock("dead-letters", *command, output=output)
            assert ran.code == 0, ran.err
            assert "\x1b]0;" not in ran.out
            assert "\\x1b]0;title\\x07" in ran.out
            assert "[/red]" in ran.out


def test_a_redrive_that_the_cluster_refuses_says_why(
    bench: Bench, interlock: Interlock, eventually: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with bench.engine():
        send(bench, "event", b"rubbish")
        dead_letters(bench, eventually, 1)

    def refused(*_: Any) -> None:
        from confluent_kafka import KafkaError

        raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))

    monkeypatch.setattr(Transactions, "produce", refused)
    ran = interlock("dead-letters", "redrive", "--all", "--yes")
    assert ran.code == 1
    assert "Sent again: 0 of 1 dead letter." in ran.err
    assert "Topic authorization failed" in ran.err
