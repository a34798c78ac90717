"""What the comparison page says of Airflow and its Kafka provider, checked with the installed packages."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.models.trigger import Trigger
from airflow.providers.apache.kafka.plugins import event_producer
from airflow.providers.apache.kafka.triggers import await_message
from airflow.sdk import AssetOrTimeSchedule, PartitionedAssetTimetable, RollupMapper  # noqa: F401 - named there
from interlock.testing import fires, record

PAGE = (Path(__file__).parents[3] / "docs/decide/comparison.md").read_text()
AT = "2026-11-20T06:00:00Z"


def sent(monkeypatch: pytest.MonkeyPatch, dag_id: str, event: str) -> dict[str, Any]:
    """The message of the provider's listener when a run of this DAG ends."""
    values: list[bytes] = []
    producer = SimpleNamespace(
        produce=lambda topic, *, key, value, on_delivery: values.append(value), poll=lambda _: 0
    )
    monkeypatch.setattr(event_producer, "_get_producer", lambda: producer)
    monkeypatch.setattr(event_producer, "_check_topic_exists", lambda: True)
    monkeypatch.setattr(event_producer, "_dag_run_events_enabled", lambda: True)
    day = datetime(2026, 11, 20, tzinfo=UTC)
    run = SimpleNamespace(dag_id=dag_id, run_id="r1", run_type="scheduled", logical_date=day)
    event_producer._produce_message(event, dag_id, "r1", event_producer._get_dr_payload(run, ""))
    [value] = values
    message: dict[str, Any] = json.loads(value)
    return message


def test_the_condition_of_the_page_is_met_by_the_message_of_that_dags_success_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    [source] = [
        each for each in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "airflow.events" in each
    ]
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(source, "comparison.md", "exec"), names)
    condition = names["orders"]
    of = [("orders", "dag_run.success"), ("orders", "dag_run.failed"), ("rates", "dag_run.success")]
    messages = [sent(monkeypatch, dag_id, event) for dag_id, event in of]
    met = [bool(fires(condition, [record("airflow.events", message, at=AT)])) for message in messages]
    assert met == [True, False, False]
    assert not {"partition_key", "conf"} & messages[0].keys()


def test_the_provider_commits_a_message_before_it_hands_it_over(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    message = SimpleNamespace(error=lambda: None, value=lambda: b"x")
    consumer = SimpleNamespace(poll=lambda _: message, commit=lambda **_: calls.append("commit"))
    hook = SimpleNamespace(get_consumer=lambda: consumer)
    monkeypatch.setattr(await_message, "KafkaConsumerHook", lambda **_: hook)

    async def first() -> None:
        async for _ in await_message.AwaitMessageTrigger(topics=["t"]).run():
            calls.append("handed over")

    asyncio.run(first())
    assert calls == ["commit", "handed over"]


def test_a_watcher_gives_its_asset_event_no_partition_key() -> None:
    assert "partition_key" not in inspect.getsource(Trigger.submit_event)
