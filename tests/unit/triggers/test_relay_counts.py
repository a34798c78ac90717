"""The metrics of relays: what is counted, and when it is published."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from interlock.engine.errors import NotSent, UnreachableError
from interlock.events.errors import EventError
from interlock.triggers import relay as module
from interlock.triggers import relay_counts
from interlock.triggers.relay_counts import RelayCounts

from tests.unit.triggers.relaying import (
    HERE,
    SHOP,
    Endless,
    Once,
    Producer,
    Queue,
    Silent,
    Unacknowledging,
    a_producer,
    a_relay,
    relayed,
    run,
)

ROOT = Path(__file__).parents[3]
TAGS = {"bus": "b", "deployment": "d"}
BY_ID = SHOP | {"id": "{data.id}"}
OF_FUNCTION: dict[str, str | None] = {**dict.fromkeys(SHOP), "function": f"{__name__}.none_of_tests"}


def none_of_tests(message: Any) -> Any:
    return None


async def refuse(payload: Any, trigger: Any) -> None:
    """Does not acknowledge; the first time it raises."""
    if "refuse" not in Queue.now.steps:
        Queue.now.steps.append("refuse")
        raise OSError("reset")
    Queue.now.acknowledge()


class Metrics:
    def __init__(self) -> None:
        self.names: set[str] = set()
        self.counted: Counter[str] = Counter()
        self.times: list[float] = []
        self.tags: list[dict[str, str]] = []

    def incr(self, stat: str, count: int, *, tags: dict[str, str]) -> None:
        name = stat.removeprefix("interlock.relay.")
        self.names.add(name)
        if count:
            self.counted[name] += count
            self.tags.append(tags)

    def timing(self, stat: str, dt: float, *, tags: dict[str, str]) -> None:
        assert stat == "interlock.relay.write_time"
        self.times.append(dt)
        self.tags.append(tags)

    def gauge(self, stat: str, value: float, *, tags: dict[str, str]) -> None:
        raise NotImplementedError


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> Producer:
    return a_producer(monkeypatch)


@pytest.fixture
def metrics(monkeypatch: pytest.MonkeyPatch, producer: Producer) -> Metrics:
    made = Metrics()
    monkeypatch.setattr(module, "airflow_stats", lambda: made)
    return made


def batch(*bodies: str) -> dict[str, Any]:
    return {"message_batch": [{"MessageId": str(n), "Body": body} for n, body in enumerate(bodies)]}


@pytest.mark.parametrize(
    ("messages", "arguments", "counted"),
    [
        (["a", "b"], {}, {"messages": 2, "events": 2}),
        ([batch("a", "b", "c")], {}, {"messages": 3, "events": 3}),
        (["a"], {"attributes": OF_FUNCTION}, {"messages": 1}),
        (
            [batch('{"id": 1}', "none")],
            {"attributes": BY_ID, "at_invalid": "skip"},
            {"messages": 2, "events": 1, "rejected": 1},
        ),
        (
            [{"message_batch": [{"MessageId": "1", "Body": object()}]}],
            {"at_invalid": "skip"},
            {"messages": 1, "rejected": 1},
        ),
        ([OSError("reset"), "a"], {}, {"messages": 1, "events": 1, "trigger_failures": 1}),
    ],
    ids=["messages", "a batch", "no event", "no id", "unreadable", "a failure"],
)
def test_a_relay_counts_its_messages_events_and_failures(
    messages: list[Any], arguments: dict[str, Any], counted: dict[str, int], metrics: Metrics
) -> None:
    Queue(*messages)
    relayed(Once(), **arguments)
    assert metrics.counted == counted
    assert all(tags == TAGS for tags in metrics.tags)


def test_a_message_that_stops_the_relay_is_counted_as_rejected(metrics: Metrics) -> None:
    Queue("no id")
    with pytest.raises(EventError):
        relayed(Once(), attributes=BY_ID)
    assert metrics.counted == {"rejected": 1}


def test_an_event_that_is_too_large_is_counted_as_rejected(metrics: Metrics, producer: Producer) -> None:
    Queue("a")
    producer.errors = [NotSent("large")]
    relayed(Once(), at_invalid="skip")
    assert metrics.counted == {"messages": 1, "rejected": 1}


def test_each_failed_write_is_counted_and_the_time_contains_all_of_them(
    metrics: Metrics, producer: Producer
) -> None:
    Queue("a")
    producer.errors = [UnreachableError("away"), UnreachableError("away")]
    relayed(Once())
    assert metrics.counted == {"messages": 1, "events": 1, "write_failures": 2}
    assert len(metrics.times) == 1
    assert metrics.times[0] > 0


def test_the_counters_are_there_before_anything_is_counted() -> None:
    """A first message that was rejected was no increase: the counter appeared with it."""
    metrics = Metrics()
    RelayCounts(metrics, TAGS, None).begin()
    assert metrics.names == {*relay_counts.COUNTERS}


def test_a_relay_begins_with_its_counters(metrics: Metrics) -> None:
    Queue()
    with pytest.raises(RuntimeError):
        relayed(Silent())
    assert metrics.names == {*relay_counts.COUNTERS}


def test_a_trigger_that_fails_between_messages_is_counted(metrics: Metrics) -> None:
    Queue("a", "b", OSError("reset"), "c")
    relayed(Endless())
    assert metrics.counted == {"messages": 3, "events": 3, "trigger_failures": 1}


def test_a_trigger_that_fails_still_at_the_end_of_the_run_is_counted(metrics: Metrics) -> None:
    Queue()
    with pytest.raises(RuntimeError):
        relayed(Silent())
    assert metrics.counted == {"trigger_failures": 1}


def test_an_acknowledgement_that_fails_is_counted_and_the_repeat_too(metrics: Metrics) -> None:
    Queue("a")
    relayed(Unacknowledging(), acknowledge=f"{__name__}.refuse")
    assert metrics.counted == {"messages": 2, "events": 2, "trigger_failures": 1}


def test_in_a_triggerer_metrics_name_the_relays_dag(metrics: Metrics) -> None:
    Queue("a")
    relay = a_relay(Once())
    relay.task_instance = SimpleNamespace(task_id="relay", dag_id="orders_relay")  # type: ignore[assignment]
    asyncio.run(run(relay))
    assert metrics.tags == [TAGS | {"dag_id": "orders_relay"}] * 3


def test_a_relay_works_in_an_airflow_without_metrics(
    producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "airflow_stats", lambda: None)
    Queue("a")
    assert relayed(Once())["events"] == 1


def test_counts_are_published_while_the_relay_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_counts, "EVERY_S", 0.0)
    metrics = Metrics()

    async def running() -> None:
        counts = RelayCounts(metrics, TAGS, None)
        for _ in range(2):
            counts.add("events", 3)
            counts.written_in(0.25)
            assert metrics.counted["events"] % 3 == 0
            for _ in range(3):  # its timer is due at once
                await asyncio.sleep(0)
        assert metrics.counted == {"events": 6}
        counts.close()

    asyncio.run(running())
    assert (metrics.counted, metrics.times) == ({"events": 6}, [250.0, 250.0])


def test_a_busy_relay_publishes_a_bounded_number_of_times() -> None:
    metrics = Metrics()

    async def running() -> None:
        counts = RelayCounts(metrics, TAGS, None)
        for n in range(5000):
            counts.written_in(n / 1000)
        assert metrics.times == []
        counts.close()

    asyncio.run(running())
    assert len(metrics.times) == 200
    assert (metrics.times[0], metrics.times[-1]) == (0, 4999)


def test_an_error_of_the_metrics_is_logged_once_and_stops_nothing(
    metrics: Metrics, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise OSError("no such host\x1b")

    monkeypatch.setattr(metrics, "incr", broken)
    monkeypatch.setattr(relay_counts, "EVERY_S", 0.0)
    Queue("a", "b", "c")
    assert relayed(Once())["events"] == 3
    assert capsys.readouterr().out.count("Metrics of the relay could not be published") == 1


def test_the_page_has_a_row_for_each_metric() -> None:
    page = (ROOT / "docs" / "operate" / "operating.md").read_text()
    rows = "".join(line for line in page.splitlines() if line.startswith("| `interlock.relay."))
    code = "".join((ROOT / "triggers" / name).read_text() for name in ("relay.py", "relay_writer.py"))
    counted = set(re.findall(r'_counts\.add\("(\w+)"', code))
    assert set(re.findall(r"`interlock\.relay\.(\w+)`", rows)) == counted | {"write_time"}
    assert counted == {*relay_counts.COUNTERS}


def test_the_inner_trigger_sees_the_task_instance_that_airflow_gives(producer: Producer) -> None:
    Queue("a")
    relay = a_relay(Once())
    relay.task_instance = task = SimpleNamespace(task_id="relay", dag_id="orders_relay")  # type: ignore[assignment]
    assert relay._inner_trigger().task_instance is task
    assert HERE in relay.inner[0]
