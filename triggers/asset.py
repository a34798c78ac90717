"""`ConditionTrigger`: asset events from a condition, for an AssetWatcher (limits: docs/dispatch.md)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from airflow.triggers.base import BaseEventTrigger, TriggerEvent
from airflow.triggers.shared_stream import AdvanceItem, SharedStreamProducer

from ..conditions import Condition, ConditionError, from_json
from ..engine.errors import EngineError
from ..engine.records import DEFAULT_MAX_KEYS, ActionRecord, AtLimit
from .firings import Firings
from .form import asset_payload
from .settings import DEFAULT_CONNECTION, settings

if TYPE_CHECKING:
    from ..engine.config import BusConfig

MOST: Final = 100  # firings that are read at once
MOST_UNSTORED: Final = 500  # beyond it no more are handed over: a subscriber's queue takes 1,024
FULL_S: Final = 0.5
LOOK_S: Final = 30.0
AGAIN_S: Final = 5.0
FOLLOWED_S: Final = 60.0  # by then an acknowledgement was read by whoever follows the action topic


class ConditionTrigger(BaseEventTrigger):
    """For `AssetWatcher(trigger=...)`: each firing of `condition` becomes an asset event with it as payload.

    name: of the subscription, one for each watcher. since: events count from this record timestamp on;
    default: the first registration. max_keys, at_limit: what bounds the open keys.

    A firing is acknowledged once Airflow has stored its asset event. Airflow joins asset events into fewer
    runs, and drops those of paused DAGs: where each firing counts, use `dispatch_dag`.
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
        return ("interlock", self.kafka_conn_id, self.bus, self.subscription)

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> SharedStreamProducer:
        return _Producer(cls(**kwargs))

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        async for payload in shared_stream:
            yield TriggerEvent(payload)

    def run(self) -> AsyncIterator[TriggerEvent]:
        """Not called by a triggerer, which takes the stream."""
        raise NotImplementedError("A ConditionTrigger runs as the trigger of an AssetWatcher only.")


class _Producer(SharedStreamProducer):
    """The firings of one subscription; each is acknowledged when Airflow says that it is stored."""

    def __init__(self, trigger: ConditionTrigger) -> None:
        self._trigger = trigger
        self._firings: Firings | None = None
        self._config: BusConfig | None = None
        self._handed: dict[tuple[int, int], ActionRecord] = {}  # over, and not acknowledged yet
        self._done: dict[
            tuple[int, int], float
        ] = {}  # acknowledged, perhaps not followed yet; the oldest first

    async def open_stream(self) -> AsyncIterator[tuple[Any, Any]]:
        from ..engine.dispatching import Durable
        from ..engine.open_firings import read

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
        self._config = config = await firings.open()
        while True:
            if len(self._handed) >= MOST_UNSTORED:
                await asyncio.sleep(FULL_S)
                continue
            places = firings.take(MOST, self._left_out())
            if not places:
                await firings.news(LOOK_S)
                continue
            for place, action, payload in await asyncio.to_thread(_payloads, config, read, places):
                if payload is None:
                    self._done[place] = time.monotonic()
                    continue
                self._handed[place] = action
                yield payload, place

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        """Acknowledge what was stored; what failed is handed over again."""
        from ..engine.acknowledge import acknowledge_all

        if self._config is None:
            return  # not opened: nothing was handed over
        stored = [item.broker_payload for item in batch if item.outcome.is_clean]
        actions = [self._handed[place] for place in stored]
        while True:
            try:
                await asyncio.to_thread(acknowledge_all, self._config, actions)
                break
            except EngineError as e:  # raised, it would end the stream and hand all over again
                self._trigger.log.warning("%d firings are not acknowledged yet: %s", len(stored), e)
                await asyncio.sleep(AGAIN_S)
        now = time.monotonic()
        self._done.update(dict.fromkeys(stored, now))
        for item in batch:
            self._handed.pop(item.broker_payload, None)

    async def aclose(self) -> None:
        if self._firings is not None:
            self._firings.close()

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
