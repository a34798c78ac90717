"""The trigger behind `EventSensor`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.triggers.base import BaseTrigger, TriggerEvent

from ..conditions import from_json
from ..conditions.recipes.fail_on import failure_matchers, is_failure
from ..engine.config import BusConfig
from ..engine.errors import ConfigError
from .connections import until_readable
from .payload import Payload
from .settings import read_bus_config
from .stats import airflow_stats
from .task_state import state_of

if TYPE_CHECKING:
    from ..conditions import Condition
    from ..engine.records import ActionRecord, Registration
    from ..engine.runtime.runtime import Runtime
    from ..engine.waiting.notices import Notice
    from ..engine.waiting.waits import Delivery, Wait

READ_AGAIN_S = 15.0
STATE_S = 25.0  # that `on_kill` takes at most for a task's state; Airflow gives it 30 s
# So long it is asked for beside that: a triggerer's first question has taken 36 s on a busy machine.
STATE_MOST_S = 600.0
STATE_AGAIN_S = 2.0  # between two times it is asked for: a locked or restarted database answers soon
# As Airflow's API tells them; a task that waits to be retried registers the same again.
WAITED_FOR = frozenset({"deferred", "up_for_retry"})
LOOK_S = 30.0  # for how long a trigger that starts too late looks whether its firing is there


class EventTrigger(BaseTrigger):
    """Waits until the condition is met, and yields one event: the firing, or that the time is over.

    Thin: it opens a wait in the process's runtime and sleeps. It never fails because Kafka cannot be
    reached; it writes what is wrong to the task's log, once per change, and goes on waiting.

    subscription: names the waiting task instance. condition: `Condition.to_json()`, with `fail_on` in it.
    key: the correlation key, if one is given. since_ms: events count from this record timestamp on.
    generation: how many tries were over when the task was cleared last, 0 where it never was (ADR 16).
    instance: tells the task instance from one of the same name whose run was deleted (ADR 26).
    timeout_at and resume_not_before: ISO 8601; a firing that is there earlier than the latter is kept until
    then (ADR 6).
    """

    _asking: ClassVar[set[asyncio.Future[None]]] = set()  # for states of tasks, after `on_kill` as well
    # Airflow answers one question at a time. A thousand that wait must not hold up what the loop's own
    # threads do for other waits.
    _questions: ClassVar[ThreadPoolExecutor] = ThreadPoolExecutor(1, "interlock-states")

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
        return (
            "interlock.triggers.event.EventTrigger",
            {
                "subscription": self.subscription,
                "condition": self.condition,
                "key": self.key,
                "since_ms": self.since_ms,
                "kafka_conn_id": self.kafka_conn_id,
                "bus": self.bus,
                "deployment": self.deployment,
                "timeout_at": self.timeout_at,
                "resume_not_before": self.resume_not_before,
                "generation": self.generation,
                "instance": self.instance,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        # With all they import: not when a DAG file is parsed.
        from ..engine.waiting.waits import Delivery

        loop = asyncio.get_running_loop()
        config = await self._readable_bus_config()
        if config is None:
            yield await self._timeout(())
            return
        runtime = await self._runtime(config)
        condition = from_json(self.condition)
        arrived: asyncio.Queue[Delivery | Notice] = asyncio.Queue()

        def deliver(item: Delivery | Notice) -> None:  # called in the waits' thread
            loop.call_soon_threadsafe(arrived.put_nowait, item)

        look_until = loop.time() + LOOK_S
        wait = runtime.waits.open(self._registration(condition), deliver, self._serves(condition))
        self._open = runtime, wait
        trouble: asyncio.Task[None] | None = None
        try:
            while True:
                item = await self._next(arrived, wait, look_until)
                if item is None:
                    yield await self._timeout(runtime.waits.registration_keys(wait))
                    return
                if isinstance(item, Delivery):
                    await asyncio.sleep(_seconds_until(self.resume_not_before) or 0)
                    # A large firing takes a while to fit: not in the loop that all triggers share.
                    payload = await asyncio.to_thread(Payload.of_firing, item.action, item.registration_keys)
                    yield TriggerEvent(payload.to_json())
                    return
                if item.text is not None:
                    self.log.warning("%s The wait goes on.", item.text)
                    trouble = trouble or asyncio.create_task(self._read_connection_again(runtime))
                    continue
                self.log.info("The bus works again.")
                if trouble is not None:
                    trouble.cancel()
                    trouble = None
        finally:
            if trouble is not None:
                trouble.cancel()
            runtime.waits.close(wait)

    async def on_kill(self) -> None:
        """The task was marked, cleared or deleted by a user: nobody waits any more, so nothing is registered.

        Airflow also calls this where the trigger is another triggerer's by now, as after this one stood still
        for longer than `triggerer_health_check_threshold`. The wait goes on there with what it has: nothing
        is removed. Nor is it where the task's state is not told within ten minutes; the lease ends in a day.
        """
        if self._open is None:
            return
        asking = asyncio.ensure_future(self._withdraw(*self._open))
        self._asking.add(asking)
        asking.add_done_callback(self._asking.discard)
        await asyncio.wait({asking}, timeout=STATE_S)  # it goes on where that is not long enough

    async def _withdraw(self, runtime: Runtime, wait: Wait) -> None:
        if not await self._is_waited_for():
            runtime.waits.withdraw(wait)

    async def _is_waited_for(self) -> bool:
        """Whether the task goes on waiting, in another triggerer or try; True where that is not known."""
        task = self.task_instance
        if task is None:  # in `dag.test()`
            return False
        from tenacity import AsyncRetrying, stop_after_delay, wait_fixed

        question = partial(state_of, task.dag_id, task.run_id, task.task_id, task.map_index)

        async def ask() -> str | None:
            return await asyncio.get_running_loop().run_in_executor(self._questions, question)

        again = AsyncRetrying(
            wait=wait_fixed(STATE_AGAIN_S), stop=stop_after_delay(STATE_MOST_S), reraise=True
        )
        try:
            async with asyncio.timeout(STATE_MOST_S + STATE_AGAIN_S):
                state: str | None = await again(ask)
        except Exception as e:  # noqa: BLE001  # whatever it is, what was found so far must stay
            self.log.warning("The task's state is not known, so its registration stays for a day: %r", e)
            return True
        if state not in WAITED_FOR:
            return False
        self.log.info("The task is still %s: its wait goes on elsewhere, and its registration stays.", state)
        return True

    async def _timeout(self, registration_keys: tuple[str, ...]) -> TriggerEvent:
        await asyncio.sleep(_seconds_until(self.resume_not_before) or 0)
        return TriggerEvent(Payload(outcome="timeout", registration_keys=registration_keys).to_json())

    async def _readable_bus_config(self) -> BusConfig | None:
        """The bus, as soon as its connection can be read; None when the time is over before."""
        left = _seconds_until(self.timeout_at)
        within_s = None if left is None else max(left, LOOK_S)
        return await until_readable(self._bus_config, self.kafka_conn_id, self.log, within_s)

    async def _runtime(self, config: BusConfig) -> Runtime:
        from ..engine.runtime.runtime import Runtime, has_engine

        if self.task_instance is not None:
            return Runtime.of(config, airflow_stats())
        # In `dag.test()`, a process that may stand at a breakpoint: with others about it takes no partition.
        elsewhere = await asyncio.to_thread(has_engine, config)
        return Runtime.of(config, airflow_stats(), with_engine=not elsewhere)

    def _registration(self, condition: Condition, generation: int | None = None) -> Registration:
        from ..engine.records import Registration

        generation = self.generation if generation is None else generation
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

    def _serves(self, condition: Condition) -> Callable[[ActionRecord], bool] | None:
        """Whether a task that was cleared takes the firing that it had before: one that was met."""
        if not self.generation:
            return None

        def serves(action: ActionRecord) -> bool:
            firing = action.firing
            return (
                firing.outcome == "met"
                and not is_failure(firing.events)
                and any(
                    self._registration(condition, generation).incarnation == action.incarnation
                    for generation in range(self.generation)
                )
            )

        return serves

    async def _next(
        self, arrived: asyncio.Queue[Delivery | Notice], wait: Wait, look_until: float
    ) -> Delivery | Notice | None:
        """What is delivered next; None when the time is over."""
        with suppress(asyncio.TimeoutError):
            return await asyncio.wait_for(arrived.get(), _seconds_until(self.timeout_at))
        # No triggerer may have run when the time went by: a firing that was there by then still counts.
        clock = asyncio.get_running_loop().time
        while not wait.looked and arrived.empty() and clock() < look_until:  # noqa: ASYNC110  # a thread's flag
            await asyncio.sleep(0.1)
        await asyncio.sleep(0)  # what was delivered just before `looked` is put now
        return None if arrived.empty() else arrived.get_nowait()

    async def _read_connection_again(self, runtime: Runtime) -> None:
        """While something is wrong: what an administrator mends in the connection takes effect by itself."""
        while True:
            await asyncio.sleep(READ_AGAIN_S)
            if runtime.may_read_connection():
                try:
                    runtime.use(await self._bus_config())
                except ConfigError as e:
                    self.log.warning("%s The wait goes on with the connection as it was.", e)

    async def _bus_config(self) -> BusConfig:
        return await read_bus_config(self.kafka_conn_id, self.bus, self.deployment)


def _seconds_until(moment: str | None) -> float | None:
    """Seconds from now, 0 for a moment that is over; None where there is none."""
    if moment is None:
        return None
    left = datetime.fromisoformat(moment) - datetime.now(UTC)
    return max(0.0, left.total_seconds())
