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
from typing import TYPE_CHECKING, Any, Final

from airflow.triggers.base import BaseEventTrigger, TriggerEvent
from airflow.triggers.shared_stream import AdvanceItem, SharedStreamProducer

from ..conditions import Condition, ConditionError, from_json
from ..engine.errors import ConfigError, EngineError
from ..engine.records import DEFAULT_MAX_KEYS, ActionRecord, AtLimit
from .firing_json import asset_payload
from .firings import Firings
from .settings import DEFAULT_CONNECTION, settings
from .stats import airflow_stats, count_acknowledged

if TYPE_CHECKING:
    from ..engine.config import BusConfig

MOST: Final = 100  # firings that are read at once
MOST_UNSTORED: Final = 500  # beyond it no more are handed over: a subscriber's queue takes 1,024
FULL_S: Final = 0.5
LOOK_S: Final = 30.0
AGAIN_S: Final = 5.0  # before what went wrong is tried again, and twice as long each further time
MOST_AGAIN_S: Final = 60.0
FOLLOWED_S: Final = 60.0  # by then an acknowledgement was read by whoever follows the action topic
# What another has the place of for longer is no trigger that an edit replaced: Airflow ends those in seconds.
REPLACED_S: Final = 60.0


class ConditionTrigger(BaseEventTrigger):
    """For `AssetWatcher(trigger=...)`: each firing of `condition` becomes an asset event with it as payload.

    name: of the subscription, one for each watcher: of several the last to begin hands over. since: events
    count from this record timestamp on; default: when the trigger began that could register it, and what came
    before, while none could, does not count: give one where it must. max_keys, at_limit: what bounds the open
    keys.

    A firing is acknowledged once Airflow says that its asset event is stored. Airflow starts one run for
    asset events that come close together, leaves all but the first to the next event's run, and drops those
    of paused DAGs: where each firing counts, use `dispatch_dag`.
    """

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
        who = f"ConditionTrigger {name!r}"
        if isinstance(condition, dict):
            condition = from_json(condition)
        if not isinstance(condition, Condition):
            raise ConditionError(f"{who}: condition must be made with interlock.event() and its like.")
        condition.check_key(key_given=False)
        if not name or "/" in name or "\0" in name:
            raise ValueError(f"{who}: give a name without '/'.")
        if isinstance(since, str):
            since = datetime.fromisoformat(since)
        if since is not None and since.tzinfo is None:
            raise ValueError(f"{who}: since={since} has no time zone; give one.")
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
        return (
            "interlock.triggers.asset.ConditionTrigger",
            {
                "name": self.name,
                "condition": self.condition.to_json(),
                "since": None if self.since is None else self.since.isoformat(),
                "kafka_conn_id": self.kafka_conn_id,
                "bus": self.bus,
                "deployment": self.deployment,
                "max_keys": self.max_keys,
                "at_limit": self.at_limit,
            },
        )

    @property
    def subscription(self) -> str:
        return f"{self.deployment}/asset/{self.name}"

    def shared_stream_key(self) -> Hashable:
        # All arguments: an edited trigger begins before the one that it replaces is ended. In one stream with
        # it, it would get the firings of the old condition, for as long as the triggerer lives.
        arguments = json.dumps(self.serialize()[1], sort_keys=True)
        return ("interlock", self.subscription, hashlib.sha256(arguments.encode()).hexdigest())

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> SharedStreamProducer:
        return _Producer(cls(**kwargs))

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        async for handed in shared_stream:
            yield TriggerEvent(handed.payload)
            handed.kept += 1  # not if the trigger is ended before the triggerer has put the event aside

    def run(self) -> AsyncIterator[TriggerEvent]:
        """Not called by a triggerer, which takes the stream."""
        raise NotImplementedError("A ConditionTrigger runs as the trigger of an AssetWatcher only.")


class _Trouble:
    """Something that is tried again: told once per change, after longer and longer pauses."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self._text = ""
        self._pause_s = 0.0

    def told(self, text: str) -> float:
        """Say it, unless that is what was said last; the seconds until the next try."""
        if text != self._text:
            self._text = text
            self._log.warning("%s It is tried again.", text)
        self._pause_s = min(max(AGAIN_S, 2 * self._pause_s), MOST_AGAIN_S)
        return self._pause_s

    def over(self, text: str) -> None:
        if self._text:
            self._log.info("%s", text)
        self._text, self._pause_s = "", 0.0


class _Handed:
    """A firing on its way through the shared stream; `kept`: how many triggers' events of it are put aside.

    Airflow 3.3.2 takes one that was yielded, and not put aside before its trigger was ended, for stored.
    """

    def __init__(self, action: ActionRecord, payload: dict[str, Any]) -> None:
        self.action, self.payload = action, payload
        self.kept = 0


class _Producer(SharedStreamProducer):
    """The firings of one subscription; each is acknowledged when Airflow says that it is stored.

    Neither the stream nor an acknowledgement ends because Kafka cannot be reached or the connection is no
    good: Airflow would start the stream anew, and what is not acknowledged would be handed over again.
    """

    def __init__(self, trigger: ConditionTrigger) -> None:
        self._trigger = trigger
        self._firings: Firings | None = None
        self._handed: dict[tuple[int, int], _Handed] = {}  # over, and not acknowledged yet
        # Acknowledged, perhaps not followed yet; the oldest first.
        self._done: dict[tuple[int, int], float] = {}
        self._reading, self._storing, self._acknowledging = (_Trouble(trigger.log) for _ in range(3))
        self._not_before = 0.0  # nothing is handed over until then
        self._replaced_until: float | None = None  # without a word about it
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
        self._firings = firings = Firings(
            durable, trigger.kafka_conn_id, trigger.bus, trigger.deployment, trigger.log
        )
        try:
            await self._open(firings)
            while True:
                self._look_for_another(firings)
                while (left := self._not_before - time.monotonic()) > 0:
                    await firings.news(left)
                if len(self._handed) >= MOST_UNSTORED:
                    await firings.news(FULL_S)
                    continue
                places = firings.take(MOST, self._left_out())
                if not places:
                    await firings.news(LOOK_S)
                    continue
                try:
                    found = await asyncio.to_thread(_payloads, firings.config, read, places)
                except EngineError as e:
                    self._wait(self._reading.told(f"Firings cannot be read: {e}"))
                    continue
                self._reading.over("Firings are read again.")
                for place, action, payload in found:
                    if payload is None:
                        self._done[place] = time.monotonic()
                        continue
                    self._handed[place] = handed = _Handed(action, payload)
                    yield handed, place
        finally:
            self._ended.set()

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        """Acknowledge what was stored; what was not is handed over again, after a pause.

        Nothing is acknowledged once another has the place of this stream. Airflow drops what the trigger of
        an edited watcher still yields, and calls it stored: the new trigger has it as well, if it is open.
        """
        from ..engine.waiting.acknowledge import acknowledge_all

        if self._firings is None:
            return  # not opened: nothing was handed over
        if self._firings.replaced:
            for item in batch:
                self._handed.pop(item.broker_payload, None)
            return
        stored = [
            item.broker_payload
            for item in batch
            if item.outcome.is_clean and self._handed[item.broker_payload].kept >= item.outcome.acked
        ]
        actions = [self._handed[place].action for place in stored]
        while True:
            try:
                config = self._firings.config
                await asyncio.to_thread(acknowledge_all, config, actions)
                count_acknowledged(airflow_stats(), config, len(actions))
                break
            except EngineError as e:
                pause_s = self._acknowledging.told(f"Firings cannot be acknowledged: {e}")
            if self._ended.is_set():
                # Whoever ended the stream waits for this. The next stream hands them over once more.
                self._trigger.log.warning("%d firings stay unacknowledged.", len(stored))
                return
            with suppress(TimeoutError, asyncio.TimeoutError):
                await asyncio.wait_for(self._ended.wait(), pause_s)
        self._acknowledging.over("Firings are acknowledged again.")
        if len(stored) == len(batch):
            self._storing.over("Asset events are stored again.")
        else:
            self._wait(self._storing.told("Airflow has not stored the asset events of some firings."))
        now = time.monotonic()
        self._done.update(dict.fromkeys(stored, now))
        for item in batch:
            self._handed.pop(item.broker_payload, None)

    async def aclose(self) -> None:
        if self._firings is not None:
            self._firings.close()

    async def _open(self, firings: Firings) -> None:
        trouble = _Trouble(self._trigger.log)
        while True:
            try:
                await firings.open()
                break
            except ConfigError as e:
                await asyncio.sleep(trouble.told(str(e)))
        trouble.over("The connection can be used.")

    def _look_for_another(self, firings: Firings) -> None:
        """Say it, once, where another has had the place of this stream for longer than an edit takes."""
        now = time.monotonic()
        if not firings.replaced:
            self._replaced_until = None
        elif self._replaced_until is None:
            self._replaced_until = now + REPLACED_S
        elif now >= self._replaced_until:
            self._replaced_until = math.inf
            self._trigger.log.error(
                "This watcher hands nothing over: another one of the deployment %r is named %r too, has "
                "another condition, since or limits, and was begun later. Give each a name of its own.",
                self._trigger.deployment,
                self._trigger.name,
            )

    def _wait(self, pause_s: float) -> None:
        self._not_before = max(self._not_before, time.monotonic() + pause_s)

    def _left_out(self) -> set[tuple[int, int]]:
        old = time.monotonic() - FOLLOWED_S
        while self._done and next(iter(self._done.values())) < old:
            del self._done[next(iter(self._done))]
        return {*self._handed, *self._done}


def _payloads(
    config: BusConfig,
    read: Callable[[BusConfig, list[tuple[int, int]]], Iterable[ActionRecord | None]],
    places: list[tuple[int, int]],
) -> list[tuple[tuple[int, int], Any, dict[str, Any] | None]]:
    """In a thread: reading, and fitting large firings, take a while."""
    made = []
    for place, action in zip(places, read(config, places), strict=True):
        made.append((place, action, None if action is None else asset_payload(action.firing)))
    return made
