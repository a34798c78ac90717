"""The trigger of a relay: the order of its steps, failures, and where it is cancelled."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from airflow.sdk import Connection
from airflow.sdk.serde import deserialize, serialize
from interlock.engine.errors import ConfigError, NoRoom, NotSent, UnreachableError
from interlock.events.errors import EventError
from interlock.triggers import relay as module
from interlock.triggers import relay_source
from interlock.triggers.relay import RelayTrigger

from tests.unit.triggers.connecting import GOOD, Connections, in_seconds
from tests.unit.triggers.relaying import (
    HERE,
    SHOP,
    Endless,
    Once,
    Producer,
    Queue,
    Shared,
    Silent,
    Unacknowledging,
    a_producer,
    a_relay,
    relayed,
    run,
)

EACH_IN_TURN = [
    "take a",
    "write a",
    "acknowledge a",
    "clean up",
    "take b",
    "write b",
    "acknowledge b",
    "clean up",
]


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> Producer:
    return a_producer(monkeypatch)


async def cancelled(relay: RelayTrigger, producer: Producer) -> None:
    """Cancels the relay while it writes, as Airflow does when a triggerer stops."""
    task = asyncio.create_task(run(relay))
    await producer.is_writing.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_it_survives_airflows_serialization_with_the_inner_triggers_arguments() -> None:
    relay = a_relay(Once("hush"))
    path, kwargs = relay.serialize()
    restored = RelayTrigger(**deserialize(json.loads(json.dumps(serialize(kwargs)))))  # type: ignore[arg-type]
    assert path == f"{RelayTrigger.__module__}.{RelayTrigger.__name__}"
    assert list(restored.inner) == [f"{HERE}.Once", {"secret": "hush", "first": False}]


def test_its_text_in_logs_has_no_argument_of_the_inner_trigger() -> None:
    assert "hush" not in repr(a_relay(Once("hush")))


def test_a_trigger_that_ends_after_one_message_runs_again_for_each(producer: Producer) -> None:
    queue = Queue("a", "b")
    assert relayed(Once()) == {"outcome": "renew", "events": 2, "skipped": 0}
    assert queue.steps == EACH_IN_TURN


def test_a_trigger_that_fires_on_continues_only_after_the_write(producer: Producer) -> None:
    queue = Queue("a", "b")
    relayed(Endless())
    assert queue.steps == EACH_IN_TURN[:3] + EACH_IN_TURN[4:]


def test_a_shared_stream_advances_after_the_write(producer: Producer) -> None:
    queue = Queue("a", "other", "b")
    relayed(Shared())
    assert queue.steps == [
        "take a", "write a", "acknowledge a", "take other", "acknowledge other", "take b", "write b",
        "acknowledge b", "close", "clean up",
    ]  # fmt: skip


def test_equal_messages_of_a_stream_with_positions_are_two_events(producer: Producer) -> None:
    Queue("a", "a")
    relayed(Shared())
    assert len({event.id for event in producer.events}) == 2


def test_equal_messages_without_an_id_are_one_event(producer: Producer) -> None:
    Queue("a", "a")
    relayed(Once())
    assert (len(producer.events), len({event.id for event in producer.events})) == (2, 1)


def test_what_acknowledges_for_the_trigger_is_called_after_the_write(producer: Producer) -> None:
    queue = Queue("a")
    relayed(Unacknowledging(), acknowledge=f"{HERE}.acknowledge")
    assert queue.steps == ["take a", "write a", "call with a", "acknowledge a", "clean up"]


@pytest.mark.parametrize("inner", [Once(), Endless(), Shared()], ids=lambda inner: type(inner).__name__)
def test_a_message_whose_write_is_cancelled_is_still_held_and_repeats_as_the_same_event(
    inner: Once, producer: Producer
) -> None:
    queue = Queue("a")

    async def both() -> None:
        producer.free = asyncio.Event()
        await cancelled(a_relay(inner), producer)
        assert "acknowledge a" not in queue.steps
        assert list(queue.messages) == ["a"]
        assert "clean up" in queue.steps
        assert producer.closed == 1
        producer.free.set()
        await run(a_relay(inner))
        Queue("a")
        await run(a_relay(inner))

    asyncio.run(both())
    assert producer.written == ["a", "a"]
    assert len({event.identity for event in producer.events}) == 1


def test_a_message_is_not_taken_while_the_bus_does_not_take_the_last_one(producer: Producer) -> None:
    queue = Queue("a", "b")

    async def both() -> None:
        producer.free = asyncio.Event()
        task = asyncio.create_task(run(a_relay(Endless())))
        await producer.is_writing.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        assert queue.steps == ["take a"]
        producer.free.set()
        await task

    asyncio.run(both())
    assert producer.written == ["a", "b"]


@pytest.mark.parametrize("error", [UnreachableError("away"), NoRoom("full")], ids=lambda e: type(e).__name__)
def test_a_write_is_tried_until_the_bus_answers(error: Exception, producer: Producer) -> None:
    queue = Queue("a", "b")
    producer.errors = [error, error, None, error]
    assert relayed(Once())["events"] == 2
    assert queue.steps == EACH_IN_TURN


def test_a_write_that_is_under_way_ends_also_after_the_time_to_renew(producer: Producer) -> None:
    queue = Queue("a")
    relay = a_relay(Once())

    async def both() -> None:
        producer.free = asyncio.Event()
        task = asyncio.create_task(run(relay))
        await producer.is_writing.wait()
        relay.renew_at = in_seconds(0)
        producer.free.set()
        await task

    asyncio.run(both())
    assert queue.steps == EACH_IN_TURN[:4]


def test_an_acknowledgement_may_go_on_after_the_time_to_renew_if_the_write_ended_just_before(
    producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was cancelled at the time to renew, and only a write that ended later left it its 5 s."""
    queue = Queue("a")
    given: list[float] = []
    timeout = asyncio.timeout

    def noted(seconds: float) -> asyncio.Timeout:
        given.append(seconds)
        return timeout(seconds)

    monkeypatch.setattr(module, "SETTLE_S", 5.0)
    monkeypatch.setattr(module, "seconds_until", lambda _: 0.0 if "acknowledge a" in queue.steps else 0.1)
    monkeypatch.setattr(module.asyncio, "timeout", noted)
    relayed(Endless())
    assert queue.steps == EACH_IN_TURN[:4]
    assert given[-2:] == [0.1, 5.0]


def test_an_inner_trigger_that_fails_starts_again(producer: Producer) -> None:
    Queue(OSError("reset"), OSError("reset"), "a", OSError("reset"), "b")
    assert relayed(Endless()) == {"outcome": "renew", "events": 2, "skipped": 0}
    assert producer.written == ["a", "b"]


@pytest.mark.parametrize("status", ["error", "timeout"])
def test_an_error_that_one_of_airflows_triggers_fires_is_no_event(
    producer: Producer, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    """The kind of apache/airflow#54804: each failed poll started a run."""
    monkeypatch.setattr(relay_source, "OF_AIRFLOW", HERE)
    Queue({"status": status, "message": "no project_id"}, "a", {"status": status}, {"status": "success"})
    assert relayed(Endless(first=True)) == {"outcome": "renew", "events": 2, "skipped": 0}
    assert producer.written == ["a", '{"status":"success"}']


def test_a_message_that_says_error_is_an_event_where_the_author_makes_it(producer: Producer) -> None:
    failed = {"status": "error", "message": "disk full"}
    Queue(failed)
    assert relayed(Endless(first=True)) == {"outcome": "renew", "events": 1, "skipped": 0}
    kafka = "airflow.providers.apache.kafka.triggers.await_message.AwaitMessageTrigger"
    assert relay_source.error_fired(kafka, {"apply_function": "shop.kept"}, failed) is None
    assert relay_source.error_fired(kafka, {}, failed) == "error: disk full"
    batch = {"status": "error", "message": [{"message": {"data": "YQ=="}}]}
    assert relay_source.error_fired(kafka, {}, batch) is None


def test_an_inner_trigger_that_fails_still_at_the_time_to_renew_fails_the_task(producer: Producer) -> None:
    class Last(OSError):
        def __repr__(self) -> str:  # in the log line before the pause
            relay.renew_at = in_seconds(0)
            return "Last()"

    Queue(OSError("reset"), Last(), "a")
    relay = a_relay(Once())
    with pytest.raises(Last):
        asyncio.run(run(relay))
    assert producer.written == []


def test_an_inner_trigger_that_ends_without_a_message_has_failed(producer: Producer) -> None:
    Queue()
    with pytest.raises(RuntimeError, match="ended without a message"):
        relayed(Silent())


def test_an_idle_relay_ends_at_the_time_to_renew(producer: Producer, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Queue()
    monkeypatch.setattr(module, "seconds_until", lambda _: 0.0 if queue.steps else 0.001)
    assert relayed(Endless()) == {"outcome": "renew", "events": 0, "skipped": 0}
    assert queue.steps == ["clean up"]


def test_a_queue_that_is_never_empty_does_not_keep_a_relay_beyond_its_time(producer: Producer) -> None:
    queue = Queue("a", "b", "c", "d")
    relay = a_relay(Endless())
    queue_first = queue.first

    def first() -> Any:
        relay.renew_at = in_seconds(0)
        return queue_first()

    queue.first = first  # type: ignore[method-assign]
    asyncio.run(run(relay))
    assert producer.written == ["a", "b"]
    assert list(queue.messages) == ["b", "c", "d"]


def test_a_message_that_cannot_become_an_event_stops_the_relay_and_stays_in_the_source(
    producer: Producer,
) -> None:
    queue = Queue('{"id": 1}', "no id")
    with pytest.raises(EventError, match=r"it has no id, which comes from \{data\.id\}"):
        relayed(Once(), attributes=SHOP | {"id": "{data.id}"})
    assert (producer.written, list(queue.messages)) == (['{"id": 1}'], ["no id"])


def test_a_message_that_cannot_become_an_event_is_skipped_if_told_so(producer: Producer) -> None:
    queue = Queue("no id", '{"id": 1}')
    found = relayed(Once(), attributes=SHOP | {"id": "{data.id}"}, at_invalid="skip")
    assert found == {"outcome": "renew", "events": 1, "skipped": 1}
    assert not queue.messages


def test_an_event_that_is_too_large_is_skipped_alone(producer: Producer) -> None:
    batch = [{"MessageId": str(n), "Body": str(n)} for n in range(3)]
    Queue({"status": "success", "message_batch": batch})
    producer.errors = [NotSent("large"), None, NotSent("large")]
    found = relayed(Once(), at_invalid="skip")
    assert (producer.written, found["events"], found["skipped"]) == (["0", "2"], 2, 1)


def test_a_message_that_cannot_be_read_is_skipped_alone(producer: Producer) -> None:
    """The whole batch was skipped, and acknowledged."""
    batch = [
        {"MessageId": str(n), "Body": body}
        for n, body in enumerate(["0", "\ud800", {"x": float("nan")}, "3"])
    ]
    Queue({"status": "success", "message_batch": batch})
    found = relayed(Once(), at_invalid="skip")
    assert (producer.written, found["events"], found["skipped"]) == (["0", "3"], 2, 2)


def test_the_messages_of_a_batch_are_written_before_it_is_acknowledged(producer: Producer) -> None:
    batch = [{"MessageId": str(n), "Body": str(n)} for n in range(2)]
    queue = Queue({"status": "success", "message_batch": batch})
    relayed(Once())
    assert [step.split()[0] for step in queue.steps] == ["take", "write", "write", "acknowledge", "clean"]


def test_a_trigger_that_cannot_be_made_is_an_error_that_names_it(producer: Producer) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.Trigger cannot be imported"):
        asyncio.run(run(a_relay(Once(), inner=["nowhere.Trigger", {}])))
    with pytest.raises(ConfigError, match=r"Once cannot be made.*unknown"):
        asyncio.run(run(a_relay(Once(), inner=[f"{HERE}.Once", {"unknown": 1}])))


def test_a_corrected_connection_is_used_after_a_problem(
    producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Connection(conn_id="kafka_default", conn_type="kafka", extra='{"bootstrap.servers": "y:1"}')
    Connections(monkeypatch, GOOD, other)
    Queue("a", "b")
    producer.errors = [UnreachableError("away")]
    relayed(Once())
    assert (producer.made, producer.closed, producer.written) == (2, 2, ["a", "b"])
