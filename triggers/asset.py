"""`ConditionTrigger`: asset events from a condition, for an AssetWatcher (limits: docs/use/dispatch.md)."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import time
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from airflow.triggers.base import BaseEventTrigger, TriggerEvent
from airflow.triggers.shared_stream import AdvanceItem, SharedStreamProducer

from ..conditions import Condition, ConditionError, from_json
from ..engine.errors import ConfigError, EngineError
from ..engine.records import DEFAULT_MAX_KEYS, ActionRecord, AtLimit
from ..events.plain_text import takes_plain_text
from ..events.visible import visible
from .argument_checks import ArgumentChecks
from .arguments import serialized
from .firing_json import asset_payload
from .firings import SubscriptionFirings
from .settings import DEFAULT_CONNECTION, read_bus_config, settings
from .spans import record_firing
from .stats import airflow_stats, count_acknowledged

if TYPE_CHECKING:
    from ..engine.config import BusConfig

MAX_BATCH: Final = 100  # firings in one read
MAX_UNSTORED: Final = 500  # firings handed over and not stored yet; a subscriber's queue holds 1,024
FULL_S: Final = 0.5  # pause while MAX_UNSTORED firings are not stored
POLL_S: Final = 30.0  # pause if no firing is open, unless one is reported
RETRY_S: Final = 5.0  # pause before a retry; doubles with each further one
MAX_RETRY_S: Final = 60.0
FOLLOWED_S: Final = 60.0  # by then the readers of the action topic have read an acknowledgement
# Airflow ends the old trigger of an edited watcher within seconds. If both are active for longer, two
# watchers have the same name.
REPLACED_S: Final = 60.0


class ConditionTrigger(BaseEventTrigger):
    """For `AssetWatcher(trigger=...)`: each firing of `condition` becomes an asset event with it as payload.

    name: of the subscription; each watcher needs its own. If several have the same name, only the one that
        started last hands firings over.
    since: events count if their record timestamp is at or after it. Default: the start of the trigger that
        registered the subscription; earlier events do not count, so give `since` if they must.
    max_keys, at_limit: limit the open keys.

    A firing is acknowledged once Airflow reports that its asset event is stored. Airflow may start one run
    for several asset events in quick succession, leave the rest to the next event's run, and drop the asset
    events of paused DAGs. If each firing must have a run, use `dispatch_dag`.
    """

    @takes_plain_text
    def __init__(
        self,
        name: str,
        condition: Condition | dict[str, Any],
        *,
        since: datetime | str | None = None,
        kafka_conn_id: str = DEFAULT_CONNECTION,
        bus: str | None = None,
        deployment: str | None = None,
        max_keys: int = DEFAULT_MAX_KEYS,
        at_limit: AtLimit = "dead-letter",
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        checks = ArgumentChecks("ConditionTrigger")
        checks.text("name", name, "a name without '/'")
        if "/" in name:
            checks.fail("name", name, "a name without '/'")
        checks = ArgumentChecks(f"ConditionTrigger {name!r}")
        condition = checks.condition("condition", _read(checks.who, condition))
        try:
            condition.check_key(key_given=False)
        except ConditionError as e:
            raise ConditionError(f"{checks.who}: {e}") from None
        checks.can_be_met(condition)
        if isinstance(since, str):
            try:
                since = datetime.fromisoformat(since)
            except ValueError:
                checks.fail("since", since, "a datetime with a time zone, or its ISO 8601 text")
        checks.moment("since", since)
        checks.connection(kafka_conn_id)
        checks.name_of("bus", bus)
        checks.name_of("deployment", deployment)
        checks.limits(max_keys, at_limit)
        default = settings()
        self.name = name
        self.condition = condition
        self.since = since
        self.kafka_conn_id = kafka_conn_id
        self.bus = bus or default.bus
        self.deployment = deployment or default.deployment
        self.max_keys = max_keys
        self.at_limit: AtLimit = at_limit

    def serialize(self) -> tuple[str, dict[str, Any]]:
        since = None if self.since is None else self.since.isoformat()
        return serialized(self, condition=self.condition.to_json(), since=since)

    @property
    def subscription(self) -> str:
        return f"{self.deployment}/asset/{self.name}"

    def shared_stream_key(self) -> Hashable:
        # The key contains all arguments: an edited trigger starts before the replaced one ends. On the same
        # stream the edited trigger would get firings of the old condition until the triggerer ends.
        arguments = json.dumps(self.serialize()[1], sort_keys=True)
        return ("interlock", self.subscription, hashlib.sha256(arguments.encode()).hexdigest())

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> SharedStreamProducer:
        return _Producer(cls(**kwargs))

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        async for handed in shared_stream:
            yield TriggerEvent(handed.payload)
            handed.queued += 1  # not reached if the trigger ends before the triggerer has queued the event

    def run(self) -> AsyncIterator[TriggerEvent]:
        """Never called: a triggerer uses the shared stream."""
        raise NotImplementedError("A ConditionTrigger can only be the trigger of an AssetWatcher.")


def _read(who: str, condition: object) -> object:
    """Returns the condition of its JSON form, in which Airflow stores it."""
    if not isinstance(condition, dict):
        return condition
    try:
        return from_json(condition)
    except ConditionError as e:
        raise ConditionError(f"{who}: condition: {e}") from None


class _Retry:
    """Log lines and pauses of an operation that is retried: one line per change, increasing pauses."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self._text = ""
        self._pause_s = 0.0

    def failed(self, text: str) -> float:
        """Logs the text unless it was the last one logged; returns the seconds until the next try."""
        if text != self._text:
            self._text = text
            self._log.warning("%s Trying again.", visible(text))
        self._pause_s = min(max(RETRY_S, 2 * self._pause_s), MAX_RETRY_S)
        return self._pause_s

    def succeeded(self, text: str) -> None:
        """Logs the text if the operation had failed."""
        if self._text:
            self._log.info("%s", visible(text))
        self._text, self._pause_s = "", 0.0


class _Handed:
    """A firing that was handed over to the shared stream.

    queued: how many triggers have continued after yielding its event, which the triggerer has queued by then.
    Airflow 3.3.2 counts an event as stored even if its trigger ended before the event was queued.
    """

    def __init__(self, action: ActionRecord, payload: dict[str, Any]) -> None:
        self.action, self.payload = action, payload
        self.queued = 0


class _Producer(SharedStreamProducer):
    """The firings of one subscription; acknowledges each when Airflow reports that it is stored.

    If Kafka does not answer or the connection is not usable, stream and acknowledgement retry and do not end:
    Airflow would restart the stream, and unacknowledged firings would be handed over again.
    """

    def __init__(self, trigger: ConditionTrigger) -> None:
        self._trigger = trigger
        self._firings: SubscriptionFirings | None = None
        self._handed: dict[tuple[int, int], _Handed] = {}  # handed over, not acknowledged
        # {place: when it was acknowledged}, the oldest first; readers of the topic may not have seen it yet.
        self._acknowledged: dict[tuple[int, int], float] = {}
        # Of what is retried: reading firings, storing asset events (by Airflow), acknowledging.
        self._reading, self._storing, self._acknowledging = (_Retry(trigger.log) for _ in range(3))
        self._not_before = 0.0  # monotonic time before which nothing is handed over
        self._report_replaced_at: float | None = None
        self._ended = asyncio.Event()

    async def open_stream(self) -> AsyncIterator[tuple[Any, Any]]:
        from ..engine.waiting.dispatching import Durable
        from ..engine.waiting.open_firings import read

        trigger = self._trigger
        since = time.time() if trigger.since is None else trigger.since.timestamp()
        durable = Durable(
            subscription=trigger.subscription,
            condition=trigger.condition.to_json(),
            since_ms=int(since * 1000),
            since_given=trigger.since is not None,
            max_keys=trigger.max_keys,
            at_limit=trigger.at_limit,
        )
        read_config = partial(read_bus_config, trigger.kafka_conn_id, trigger.bus, trigger.deployment)
        self._firings = firings = SubscriptionFirings(durable, read_config, trigger.log)
        gone: set[tuple[int, int]] = set()  # places without a record, to be forgotten at the next `take`
        try:
            await self._open(firings)
            while True:
                self._report_if_replaced(firings)
                while (left := self._not_before - time.monotonic()) > 0:
                    await firings.wait_for_more(left)
                if len(self._handed) >= MAX_UNSTORED:
                    await firings.wait_for_more(FULL_S)
                    continue
                places = firings.take(MAX_BATCH, self._excluded(), gone)
                gone.clear()
                if not places:
                    await firings.wait_for_more(POLL_S)
                    continue
                try:
                    found = await asyncio.to_thread(
                        _payloads, firings.config, read, places, trigger.subscription
                    )
                except EngineError as e:
                    self._pause(self._reading.failed(f"Firings cannot be read: {e}"))
                    continue
                self._reading.succeeded("Firings are read again.")
                for place, action, payload in found:
                    if payload is None:
                        gone.add(place)
                        continue
                    self._handed[place] = handed = _Handed(action, payload)
                    yield handed, place
        finally:
            self._ended.set()

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        """Acknowledges stored firings; the others are handed over again after a pause.

        Acknowledges nothing once another stream has replaced this one: Airflow drops what the trigger of an
        edited watcher still yields, and reports it as stored. The new trigger hands over the open firings.
        """
        from ..engine.waiting.acknowledge import acknowledge_all

        if self._firings is None:
            return  # the stream was not opened, so nothing was handed over
        if self._firings.replaced:
            for item in batch:
                self._handed.pop(item.broker_payload, None)
            return
        stored = [
            item.broker_payload
            for item in batch
            if item.outcome.is_clean and self._handed[item.broker_payload].queued >= item.outcome.acked
        ]
        actions = [self._handed[place].action for place in stored]
        while True:
            try:
                config = self._firings.config
                await asyncio.to_thread(acknowledge_all, config, actions)
                count_acknowledged(airflow_stats(), config, len(actions))
                break
            except EngineError as e:
                pause_s = self._acknowledging.failed(f"Firings cannot be acknowledged: {e}")
            if self._ended.is_set():
                # The end of the stream waits for this call. The next stream hands them over again.
                self._trigger.log.warning("%d firings stay unacknowledged.", len(stored))
                return
            with suppress(TimeoutError, asyncio.TimeoutError):
                await asyncio.wait_for(self._ended.wait(), pause_s)
        self._acknowledging.succeeded("Firings are acknowledged again.")
        if len(stored) == len(batch):
            self._storing.succeeded("Asset events are stored again.")
        else:
            self._pause(self._storing.failed("Airflow has not stored the asset events of some firings."))
        now = time.monotonic()
        self._acknowledged.update(dict.fromkeys(stored, now))
        for item in batch:
            self._handed.pop(item.broker_payload, None)

    async def aclose(self) -> None:
        if self._firings is not None:
            self._firings.close()

    async def _open(self, firings: SubscriptionFirings) -> None:
        retry = _Retry(self._trigger.log)
        while True:
            try:
                await firings.open()
                break
            except ConfigError as e:
                await asyncio.sleep(retry.failed(str(e)))
        retry.succeeded("The connection can be used.")

    def _report_if_replaced(self, firings: SubscriptionFirings) -> None:
        """Logs an error, once, if another stream has replaced this one for longer than an edit takes."""
        now = time.monotonic()
        if not firings.replaced:
            self._report_replaced_at = None
        elif self._report_replaced_at is None:
            self._report_replaced_at = now + REPLACED_S
        elif now >= self._report_replaced_at:
            self._report_replaced_at = math.inf
            self._trigger.log.error(
                "This watcher hands no firings over: another watcher of deployment %r is also named %r, has "
                "another condition, since or limits, and started later. Give each watcher its own name.",
                self._trigger.deployment,
                self._trigger.name,
            )

    def _pause(self, pause_s: float) -> None:
        self._not_before = max(self._not_before, time.monotonic() + pause_s)

    def _excluded(self) -> set[tuple[int, int]]:
        """Returns the places that must not be taken again."""
        old = time.monotonic() - FOLLOWED_S
        while self._acknowledged and next(iter(self._acknowledged.values())) < old:
            del self._acknowledged[next(iter(self._acknowledged))]
        return {*self._handed, *self._acknowledged}


def _payloads(
    config: BusConfig,
    read: Callable[[BusConfig, list[tuple[int, int]]], Iterable[ActionRecord | None]],
    places: list[tuple[int, int]],
    subscription: str,
) -> list[tuple[tuple[int, int], Any, dict[str, Any] | None]]:
    """Returns (place, record, payload of the asset event) of each firing.

    The payload is None if the record is gone, or holds a firing of another subscription because the
    connection was edited after the place was taken. Slow: call it in a thread. read: `open_firings.read`,
    which ends before a record of a later version.
    """
    made = []
    for place, action in zip(places, read(config, places), strict=False):
        payload = None
        if action is not None and action.subscription == subscription:
            record_firing(action)
            payload = asset_payload(action.firing)
        made.append((place, action, payload))
    return made
