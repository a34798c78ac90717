"""The asset route: how Airflow's watcher uses the trigger, and when a firing is acknowledged."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest
import structlog
from airflow.sdk import Asset, AssetWatcher
from airflow.triggers.base import BaseEventTrigger
from airflow.triggers.shared_stream import AdvanceItem, AdvanceOutcome, SharedStreamManager
from interlock import event
from interlock.conditions import ConditionError
from interlock.triggers import asset as module
from interlock.triggers.asset import ConditionTrigger

from tests.unit.triggers.watching import Topic, Watched, acknowledged, others_run, taken_from

CONDITION = event("x", by="subject")
STORED, FAILED = AdvanceOutcome(acked=1, failed=0), AdvanceOutcome(acked=0, failed=1)


def test_a_watcher_accepts_it_and_it_survives_serialization() -> None:
    trigger = ConditionTrigger("close", CONDITION, since=datetime(2026, 11, 1, tzinfo=UTC))
    Asset("a", watchers=[AssetWatcher(name="w", trigger=trigger)])
    path, kwargs = trigger.serialize()
    assert path == f"{ConditionTrigger.__module__}.{ConditionTrigger.__name__}"
    again = ConditionTrigger(**json.loads(json.dumps(kwargs)))
    assert again.serialize() == (path, kwargs)
    assert again.subscription == "airflow/asset/close"
    assert BaseEventTrigger.hash(path, kwargs) == BaseEventTrigger.hash(*again.serialize())
    assert again.shared_stream_key() == trigger.shared_stream_key()


EDITS = (
    {"name": "other"},
    {"condition": event("y", by="subject")},
    {"since": datetime(2026, 11, 2, tzinfo=UTC)},
    {"max_keys": 7},
    {"at_limit": "drop-oldest"},
    {"kafka_conn_id": "other"},
    {"bus": "other"},
    {"deployment": "other"},
)


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: next(iter(edit)))
def test_an_edited_trigger_has_another_stream(edit: dict[str, Any]) -> None:
    given: dict[str, Any] = {"name": "n", "condition": CONDITION}
    before, after = ConditionTrigger(**given), ConditionTrigger(**{**given, **edit})
    assert before.shared_stream_key() != after.shared_stream_key()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"condition": lambda event: True}, "build it with interlock\\.event"),
        ({"condition": CONDITION & event("y")}, "^ConditionTrigger 'n': event.* reads no key, but"),
        ({"name": ""}, "give a name"),
        ({"name": "a/b"}, "give a name"),
        ({"since": datetime(2026, 1, 1)}, "time zone"),  # noqa: DTZ001
    ],
)
def test_invalid_arguments_are_an_import_error_with_the_reason(
    arguments: dict[str, Any], sentence: str
) -> None:
    with pytest.raises((ValueError, ConditionError), match=sentence):
        ConditionTrigger(**{"name": "n", "condition": CONDITION, **arguments})


def test_it_cannot_be_the_trigger_of_a_task() -> None:
    with pytest.raises(NotImplementedError, match="AssetWatcher"):
        ConditionTrigger("n", CONDITION).run()


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Topic:
    return Topic(monkeypatch)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The log lines of triggers."""
    lines: list[str] = []

    class Log:
        def say(self, text: str, *arguments: Any) -> None:
            lines.append(text % arguments)

        info = warning = error = say

    monkeypatch.setattr(ConditionTrigger, "log", Log())
    return lines


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries without a pause."""
    monkeypatch.setattr(module, "RETRY_S", 0.0)


def producer() -> Any:
    trigger = ConditionTrigger("n", CONDITION)
    return ConditionTrigger.create_shared_stream_producer(trigger.serialize()[1])


def test_a_firing_is_acknowledged_only_after_its_asset_event_is_stored(topic: Topic) -> None:
    async def story() -> None:
        made = producer()
        stream = made.open_stream()
        handed = await taken_from(stream, 3)
        assert [name for name, _ in handed] == ["a", "b", "c"]
        assert topic.acknowledged == []
        await made.advance([AdvanceItem(place, STORED) for _, place in handed[:2]])
        assert topic.acknowledged == ["a", "b"]
        assert topic.counted == [2]
        await made.aclose()

    asyncio.run(story())
    assert topic.closed == topic.opened


@pytest.mark.usefixtures("at_once")
def test_a_firing_whose_asset_event_was_not_stored_is_handed_over_again(topic: Topic) -> None:
    async def story() -> None:
        made = producer()
        stream = made.open_stream()
        [(_, first), (_, second), _] = await taken_from(stream, 3)
        await made.advance([AdvanceItem(first, STORED), AdvanceItem(second, FAILED)])
        [(name, _)] = await taken_from(stream, 1)
        assert name == "b"

    asyncio.run(story())
    assert topic.acknowledged == ["a"]


def test_unstored_firings_are_handed_over_again_after_a_pause(topic: Topic) -> None:
    unsubscribed = AdvanceOutcome(acked=0, failed=0)  # without any subscriber

    async def story() -> None:
        made = producer()
        stream = made.open_stream()
        handed = await taken_from(stream, 3)
        await made.advance([AdvanceItem(place, unsubscribed) for _, place in handed])
        again = asyncio.create_task(taken_from(stream, 1))
        await others_run()
        assert not again.done()
        again.cancel()

    asyncio.run(story())


def test_pauses_increase_up_to_a_minute_and_each_change_is_logged_once(log: list[str]) -> None:
    retry = module._Retry(ConditionTrigger("n", CONDITION).log)
    assert [retry.failed("One.") for _ in range(3)] == [5.0, 10.0, 20.0]
    assert [retry.failed("Other.") for _ in range(3)] == [40.0, 60.0, 60.0]
    retry.succeeded("Well.")
    retry.succeeded("Well.")
    assert retry.failed("Other.") == 5.0
    assert log == [
        "One. Trying again.", "Other. Trying again.", "Well.", "Other. Trying again.",
    ]  # fmt: skip


def test_firings_that_do_not_exist_any_more_are_skipped_and_forgotten(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They filled the list of open firings in memory, so that later ones were never handed over."""
    monkeypatch.setattr(module, "MAX_BATCH", 1)
    topic.ids[1] = ""

    async def story() -> list[str]:
        return [name for name, _ in await taken_from(producer().open_stream(), 2)]

    assert asyncio.run(story()) == ["a", "c"]
    assert topic.forgotten == {(0, 1)}


def test_firings_wait_while_too_many_are_not_stored(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_UNSTORED", 2)
    monkeypatch.setattr(module, "MAX_BATCH", 1)
    monkeypatch.setattr(module, "FULL_S", 0.0)

    async def story() -> None:
        made = producer()
        stream = made.open_stream()
        handed = await taken_from(stream, 2)
        third = asyncio.create_task(taken_from(stream, 1))
        await others_run()
        assert not third.done()
        await made.advance([AdvanceItem(place, STORED) for _, place in handed])
        assert [name for name, _ in await third] == ["c"]

    asyncio.run(story())


@pytest.mark.usefixtures("at_once")
def test_an_unreachable_broker_is_waited_for_and_nothing_is_repeated(topic: Topic) -> None:
    topic.failing_acknowledgements = 2

    async def story() -> None:
        made = producer()
        stream = made.open_stream()
        [(_, first)] = await taken_from(stream, 1)
        await made.advance([AdvanceItem(first, STORED)])

    asyncio.run(story())
    assert (topic.acknowledged, topic.failing_acknowledgements, topic.counted) == (["a"], 0, [1])


@pytest.mark.usefixtures("at_once")
def test_a_firing_of_another_subscription_is_not_handed_over(topic: Topic) -> None:
    """The connection was edited after the place was taken, or the topic was created again."""
    topic.foreign = {"a"}

    async def story() -> list[str]:
        return [name for name, _ in await taken_from(producer().open_stream(), 2)]

    assert asyncio.run(story()) == ["b", "c"]


@pytest.mark.usefixtures("at_once")
def test_firings_that_cannot_be_read_do_not_end_the_stream(topic: Topic, log: list[str]) -> None:
    topic.failing_reads = 3

    async def story() -> list[str]:
        return [name for name, _ in await taken_from(producer().open_stream(), 3)]

    assert asyncio.run(story()) == ["a", "b", "c"]
    assert log == [
        "Firings cannot be read: The broker is away. Trying again.",
        "Firings are read again.",
    ]
    # Each time with the current connection, which may have been corrected.
    assert topic.configs == ["config 0", "config 1", "config 2", "config 3"]


@pytest.mark.usefixtures("at_once")
def test_an_unusable_connection_does_not_end_the_stream(topic: Topic, log: list[str]) -> None:
    topic.failing_opens = 2

    async def story() -> list[str]:
        return [name for name, _ in await taken_from(producer().open_stream(), 1)]

    assert asyncio.run(story()) == ["a"]
    assert log == ["Connection 'c' cannot be read. Trying again.", "The connection can be used."]


def test_a_stream_ends_without_waiting_for_an_unreachable_broker(topic: Topic) -> None:
    topic.failing_acknowledgements = 10_000

    async def story() -> None:
        manager = SharedStreamManager(log=structlog.get_logger())
        trigger = Watched(manager, ConditionTrigger("n", CONDITION), 1)
        numbers = await trigger.hands_over("a")
        more = trigger.asks_for_more()
        manager.confirm_persisted(numbers)
        async with asyncio.timeout(30):
            while topic.failing_acknowledgements == 10_000:  # noqa: ASYNC110  # a thread's count
                await asyncio.sleep(0)
            more.cancel()
            await manager.stop_all()

    asyncio.run(story())
    assert (topic.acknowledged, topic.closed) == ([], topic.opened)


def test_airflows_stream_acknowledges_each_firing_once_its_asset_event_is_stored(topic: Topic) -> None:
    """With the triggerer's own manager, called as the triggerer calls it."""

    async def story() -> None:
        manager = SharedStreamManager(log=structlog.get_logger())
        trigger = Watched(manager, ConditionTrigger("n", CONDITION), 1)
        numbers = await trigger.hands_over("a", "b", "c")
        more = trigger.asks_for_more()  # at once, as the triggerer does
        manager.confirm_persisted(numbers[:2])
        await acknowledged(topic, "a", "b")
        manager.confirm_persisted(numbers[2:])
        await acknowledged(topic, "a", "b", "c")
        more.cancel()
        await manager.stop_all()

    asyncio.run(story())
    assert topic.closed == topic.opened


@pytest.mark.parametrize("edit", EDITS[1:5], ids=lambda edit: next(iter(edit)))
def test_an_edited_watcher_hands_over_unacknowledged_and_new_firings(
    topic: Topic, edit: dict[str, Any]
) -> None:
    """In Airflow's order: the new trigger starts before the old one ends."""
    given: dict[str, Any] = {"name": "n", "condition": CONDITION}
    before, after = ConditionTrigger(**given), ConditionTrigger(**{**given, **edit})

    async def story() -> None:
        manager = SharedStreamManager(log=structlog.get_logger())
        old = Watched(manager, before, 1)
        of_the_old = await old.hands_over("a", "b")
        waiting = old.asks_for_more()
        new = Watched(manager, after, 2)
        of_the_new = await new.hands_over("a", "b", "c")
        topic.ids.append("d")
        # Airflow dropped them, because the asset does not have the old watcher any more.
        manager.confirm_persisted(of_the_old)
        await others_run()
        waiting.cancel()
        await old.ends()
        assert topic.acknowledged == []
        of_the_new += await new.hands_over("d")
        waiting = new.asks_for_more()
        manager.confirm_persisted(of_the_new)
        await acknowledged(topic, "a", "b", "c", "d")
        waiting.cancel()
        await manager.stop_all()

    asyncio.run(story())
    arguments = [(d.condition, d.since_given, d.max_keys, d.at_limit) for d in topic.opened]
    assert arguments == [
        (t.condition.to_json(), t.since is not None, t.max_keys, t.at_limit) for t in (before, after)
    ]
    assert topic.closed == topic.opened


def test_of_two_watchers_with_one_name_one_hands_over_and_the_other_logs_an_error(
    topic: Topic, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REPLACED_S", 0.0)
    one, other = CONDITION, event("y", by="subject")

    async def story() -> None:
        manager = SharedStreamManager(log=structlog.get_logger())
        first = Watched(manager, ConditionTrigger("n", one), 1)
        await first.hands_over("a", "b", "c")
        waiting = first.asks_for_more()
        await Watched(manager, ConditionTrigger("n", other), 2).hands_over("a", "b", "c")
        await others_run()
        waiting.cancel()
        await manager.stop_all()

    asyncio.run(story())
    [line] = log
    assert line == (
        "This watcher hands no firings over: another watcher of deployment 'airflow' is also named 'n', has "
        "another condition, since or limits, and started later. Give each watcher its own name."
    )


def test_an_edit_does_not_log_an_error_about_another_watcher(topic: Topic, log: list[str]) -> None:
    async def story() -> None:
        manager = SharedStreamManager(log=structlog.get_logger())
        old = Watched(manager, ConditionTrigger("n", CONDITION), 1)
        await old.hands_over("a", "b", "c")
        waiting = old.asks_for_more()
        await Watched(manager, ConditionTrigger("n", event("y", by="subject")), 2).hands_over("a")
        await others_run()
        waiting.cancel()
        await old.ends()
        await manager.stop_all()

    asyncio.run(story())
    assert log == []


def test_a_firing_is_not_acknowledged_if_its_trigger_ends_before_its_event_is_queued(
    topic: Topic,
) -> None:
    """Between the two Airflow's triggerer writes to its log, and takes what has no number yet for stored."""

    async def story() -> None:
        trigger = Watched(
            SharedStreamManager(log=structlog.get_logger()), ConditionTrigger("n", CONDITION), 1
        )
        assert (await trigger.asks_for_more()).payload["firing_id"] == "a"
        await trigger.ends()

    asyncio.run(story())
    assert (topic.acknowledged, topic.closed) == ([], topic.opened)


def test_each_firing_becomes_one_asset_event(topic: Topic) -> None:
    async def story() -> list[Any]:
        shared = (handed async for handed, _ in producer().open_stream())
        events = ConditionTrigger("n", CONDITION).filter_shared_stream(shared)
        return [(await anext(events)).payload["firing_id"] for _ in range(3)]

    assert asyncio.run(story()) == ["a", "b", "c"]
