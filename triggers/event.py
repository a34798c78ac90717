"""The trigger behind `EventSensor`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.triggers.base import BaseTrigger, TriggerEvent

from ..conditions import from_json
from ..conditions.recipes.fail_on import failure_matchers, is_failure
from ..engine.config import BusConfig
from ..events.visible import visible
from .arguments import serialized
from .connections import NoticeHandler, until_readable
from .moments import seconds_until
from .payload import Payload
from .settings import read_bus_config
from .spans import record_firing
from .stats import airflow_stats
from .task_state import state_of

if TYPE_CHECKING:
    from ..conditions import Condition
    from ..engine.records import ActionRecord, Registration
    from ..engine.runtime.runtime import Runtime
    from ..engine.waiting.notices import Notice
    from ..engine.waiting.waits import FiringForWait, Wait

STATE_S = 25.0  # `on_kill` waits at most this long for the task's state; Airflow allows it 30 s
# After STATE_S the query continues in the background: a first one took 36 s on a busy machine.
MAX_STATE_S = 600.0
STATE_RETRY_S = 2.0  # a locked or restarted database answers soon
# States in Airflow's API in which a task still waits; a retry will register the same wait again.
WAITING_STATES = frozenset({"deferred", "up_for_retry"})
LOOK_S = 30.0  # how long a trigger that starts after its timeout searches for its firing


class EventTrigger(BaseTrigger):
    """Waits until the condition is met, and yields one event: the firing, or that the timeout has passed.

    It opens a wait in the process's runtime and sleeps. It does not fail if Kafka does not answer: it logs
    the problem to the task's log, once per change, and keeps waiting.

    subscription: name of the waiting task instance. condition: `Condition.to_json()`, including `fail_on`.
    key: the correlation key, or None. since_ms: events count from this record timestamp on.
    generation: how many tries had ended at the last clear, 0 if the task was never cleared (ADR 16).
    instance: distinguishes the task instance from one with the same name whose run was deleted (ADR 26).
    timeout_at, resume_not_before: ISO 8601. An earlier firing is delivered at resume_not_before (ADR 6).
    """

    _withdrawing: ClassVar[set[asyncio.Future[None]]] = set()  # asyncio tasks that may outlast `on_kill`
    # Airflow answers one state query at a time. Queries must not occupy the threads of the event loop, which
    # other waits need.
    _state_queries: ClassVar[ThreadPoolExecutor] = ThreadPoolExecutor(1, "interlock-states")

    def __init__(
        self,
        subscription: str,
        condition: dict[str, Any],
        key: str | None,
        since_ms: int,
        kafka_conn_id: str,
        bus: str,
        deployment: str,
        timeout_at: str | None = None,
        resume_not_before: str | None = None,
        generation: int = 0,
        instance: str | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.subscription = subscription
        self.condition = condition
        self.key = key
        self.since_ms = since_ms
        self.kafka_conn_id = kafka_conn_id
        self.bus = bus
        self.deployment = deployment
        self.timeout_at = timeout_at
        self.resume_not_before = resume_not_before
        self.generation = generation
        self.instance = instance
        self._open: tuple[Runtime, Wait] | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return serialized(self)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        from ..engine.waiting.waits import FiringForWait  # a heavy import, not needed to parse a DAG file

        loop = asyncio.get_running_loop()
        config = await self._readable_bus_config()
        if config is None:
            yield await self._timeout(())
            return
        runtime = await self._runtime(config)
        condition = from_json(self.condition)
        arrived: asyncio.Queue[FiringForWait | Notice] = asyncio.Queue()

        def deliver(item: FiringForWait | Notice) -> None:  # runs in the waits' thread
            loop.call_soon_threadsafe(arrived.put_nowait, item)

        look_until = loop.time() + LOOK_S
        wait = runtime.waits.open(self._registration(condition), deliver, self._accepts(condition))
        self._open = runtime, wait
        notices = NoticeHandler(runtime, self._bus_config, self.log)
        try:
            while True:
                item = await self.next_item(arrived, wait, look_until)
                if item is None:
                    yield await self._timeout(runtime.waits.registration_keys(wait))
                    return
                if isinstance(item, FiringForWait):
                    await asyncio.sleep(_seconds_left(self.resume_not_before) or 0)
                    # In a thread: shrinking a large firing would block the event loop of all triggers.
                    payload = await asyncio.to_thread(_payload, item)
                    yield TriggerEvent(payload.to_json())
                    return
                notices.handle(item)
        finally:
            notices.close()
            runtime.waits.close(wait)

    async def on_kill(self) -> None:
        """Removes the registration if a user marked, cleared or deleted the task.

        Airflow also calls this if the trigger moved to another triggerer, for example after this one was
        stopped for longer than `triggerer_health_check_threshold`. Then the wait continues there, and nothing
        is removed. Nothing is removed either if the task's state is unknown for ten minutes: the lease ends
        after a day.
        """
        if self._open is None:
            return
        withdrawing = asyncio.ensure_future(self._withdraw(*self._open))
        self._withdrawing.add(withdrawing)
        withdrawing.add_done_callback(self._withdrawing.discard)
        await asyncio.wait({withdrawing}, timeout=STATE_S)  # does not cancel it

    async def _withdraw(self, runtime: Runtime, wait: Wait) -> None:
        if not await self._still_waits():
            runtime.waits.withdraw(wait)

    async def _still_waits(self) -> bool:
        """Returns whether the task keeps waiting, in another triggerer or try; True if that is unknown."""
        task = self.task_instance
        if task is None:  # in `dag.test()`
            return False
        from tenacity import AsyncRetrying, stop_after_delay, wait_fixed

        query = partial(state_of, task.dag_id, task.run_id, task.task_id, task.map_index)

        async def ask() -> str | None:
            return await asyncio.get_running_loop().run_in_executor(self._state_queries, query)

        retrying = AsyncRetrying(
            wait=wait_fixed(STATE_RETRY_S), stop=stop_after_delay(MAX_STATE_S), reraise=True
        )
        try:
            async with asyncio.timeout(MAX_STATE_S + STATE_RETRY_S):
                state: str | None = await retrying(ask)
        except Exception as e:  # noqa: BLE001  # after any error the registration must stay
            self.log.warning("The task's state is unknown, so its registration stays for a day: %r", e)
            return True
        if state not in WAITING_STATES:
            return False
        self.log.info(
            "The task is still %s: its wait continues elsewhere, and its registration stays.", visible(state)
        )
        return True

    async def _timeout(self, registration_keys: tuple[str, ...]) -> TriggerEvent:
        await asyncio.sleep(_seconds_left(self.resume_not_before) or 0)
        return TriggerEvent(Payload(outcome="timeout", registration_keys=registration_keys).to_json())

    async def _readable_bus_config(self) -> BusConfig | None:
        """Returns the bus as soon as its connection can be read; None after the timeout."""
        left = _seconds_left(self.timeout_at)
        within_s = None if left is None else max(left, LOOK_S)
        return await until_readable(self._bus_config, self.kafka_conn_id, self.log, within_s)

    async def _runtime(self, config: BusConfig) -> Runtime:
        from ..engine.runtime.runtime import Runtime, has_engine

        if self.task_instance is not None:
            return Runtime.of(config, airflow_stats())
        # In `dag.test()` the process may stop at a breakpoint: it runs no engine if the bus has another one.
        elsewhere = await asyncio.to_thread(has_engine, config)
        return Runtime.of(config, airflow_stats(), with_engine=not elsewhere)

    def _registration(self, condition: Condition, generation: int | None = None) -> Registration:
        from ..engine.records import Registration

        generation = self.generation if generation is None else generation
        # After a clear, `fail_on` counts only later events.
        fresh = failure_matchers(condition) if generation else ()
        return Registration.of(
            self.subscription,
            condition,
            self.key,
            self.since_ms,
            generation=generation,
            fresh=fresh,
            instance=self.instance,
        )

    def _accepts(self, condition: Condition) -> Callable[[ActionRecord], bool] | None:
        """Returns a filter for firings of earlier generations: a cleared task accepts those that were met."""
        if not self.generation:
            return None

        def accepts(action: ActionRecord) -> bool:
            firing = action.firing
            return (
                firing.outcome == "met"
                and not is_failure(firing.events)
                and any(
                    self._registration(condition, generation).incarnation == action.incarnation
                    for generation in range(self.generation)
                )
            )

        return accepts

    async def next_item(
        self, arrived: asyncio.Queue[FiringForWait | Notice], wait: Wait, look_until: float
    ) -> FiringForWait | Notice | None:
        """Returns the next firing or notice; None after the timeout."""
        with suppress(asyncio.TimeoutError):
            return await asyncio.wait_for(arrived.get(), _seconds_left(self.timeout_at))
        # Perhaps no triggerer ran at the timeout: a firing from before it still counts.
        clock = asyncio.get_running_loop().time
        while not wait.checked_firings and arrived.empty() and clock() < look_until:  # noqa: ASYNC110  # a thread's flag
            await asyncio.sleep(0.1)
        await asyncio.sleep(0)  # let a firing from just before `checked_firings` arrive in the queue
        return None if arrived.empty() else arrived.get_nowait()

    async def _bus_config(self) -> BusConfig:
        return await read_bus_config(self.kafka_conn_id, self.bus, self.deployment)


def _payload(item: FiringForWait) -> Payload:
    return Payload.of_firing(item.action, item.registration_keys, record_firing(item.action))


def _seconds_left(moment: str | None) -> float | None:
    return None if moment is None else seconds_until(moment)
