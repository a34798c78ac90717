"""The trigger behind `relay_dag`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Literal

from airflow.triggers.base import BaseTrigger, TriggerEvent

from ..engine.errors import ConfigError, NotSent
from ..events.errors import EventError
from ..events.visible import visible
from .arguments import serialized
from .connections import until_readable
from .moments import seconds_to_read, seconds_until
from .relay_counts import RelayCounts
from .relay_messages import EventMaker, imported, messages_of
from .relay_source import Fired, error_fired, fired_by
from .relay_writer import EventWriter
from .settings import read_bus_config
from .stats import airflow_stats

if TYPE_CHECKING:
    from tenacity import RetryCallState

    from ..engine.config import BusConfig
    from ..events.event import Event

AtInvalid = Literal["stop", "skip"]

MAX_RESTART_PAUSE_S = 60.0
SETTLE_S = 5.0  # how long the inner trigger may take at `renew_at` to acknowledge what was written last


class RelayTrigger(BaseTrigger):
    """Runs another trigger again and again, and writes what it fires as events, until `renew_at`.

    It lets the inner trigger continue only when all in-sync replicas have the events of what it fired, so at
    most one of its events is in flight. It keeps trying while Kafka does not answer. If the inner trigger
    fails, or fires an error as some of Airflow's do, it starts again after a pause; it raises the error if
    the inner trigger still fails at `renew_at`. It raises at once for a message that cannot become an event,
    unless `at_invalid` is "skip".

    inner: the trigger's class path and the arguments of its constructor.
    attributes: the arguments of `EventMaker`. acknowledge: import path of what is called after the write.
    resume_not_before, renew_at: ISO 8601. It yields one event, after both (ADR 6).
    """

    def __init__(
        self,
        inner: Sequence[Any],
        attributes: Mapping[str, str | None],
        acknowledge: str | None,
        at_invalid: AtInvalid,
        kafka_conn_id: str,
        bus: str,
        deployment: str,
        resume_not_before: str,
        renew_at: str,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.inner = list(inner)
        self.attributes = dict(attributes)
        self.acknowledge = acknowledge
        self.at_invalid = at_invalid
        self.kafka_conn_id = kafka_conn_id
        self.bus = bus
        self.deployment = deployment
        self.resume_not_before = resume_not_before
        self.renew_at = renew_at
        self._written = self._skipped = 0
        self._failure: BaseException | None = None  # of the inner trigger, which is to start again

    def __repr__(self) -> str:
        """Without the inner trigger's arguments, which may be secret: Airflow logs triggers."""
        return f"<{type(self).__name__} of {self.inner[0]}>"

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return serialized(self)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        within_s = seconds_to_read(self.renew_at)
        config = await until_readable(self._bus_config, self.kafka_conn_id, self.log, within_s)
        if config is not None:
            self._counts = RelayCounts(airflow_stats(), self._tags(), self.log)
            self._counts.begin()
            writer = EventWriter(config, self._bus_config, self.log, self._counts)
            try:
                while seconds_until(self.renew_at):
                    self._failure = None
                    await self._run_until_it_works(writer)
            finally:
                self._counts.close()
                await writer.close()
        await asyncio.sleep(seconds_until(self.resume_not_before))
        yield TriggerEvent({"outcome": "renew", "events": self._written, "skipped": self._skipped})

    async def _run_until_it_works(self, writer: EventWriter) -> None:
        """Runs the inner trigger; again, after a pause, if it fails before it has finished a message."""
        from tenacity import AsyncRetrying, retry_if_exception, wait_random_exponential

        maker = EventMaker(**self.attributes)
        retrying = AsyncRetrying(
            retry=retry_if_exception(_is_retried),
            wait=wait_random_exponential(max=MAX_RESTART_PAUSE_S),
            stop=lambda _: not seconds_until(self.renew_at),
            before_sleep=self._note_failure,
            reraise=True,
        )
        async for attempt in retrying:
            if self._failure is not None and not seconds_until(self.renew_at):
                raise self._failure
            with attempt:
                try:
                    await self._run_once(maker, writer)
                except Exception as e:
                    if _is_retried(e):
                        self._counts.add("trigger_failures")
                    raise

    async def _run_once(self, maker: EventMaker, writer: EventWriter) -> None:
        """Returns when the inner trigger ends, at `renew_at`, or if it fails after a finished message."""
        relayed = 0
        inner = self._inner_trigger()
        async with aclosing(fired_by(inner)) as source:
            while True:
                left = seconds_until(self.renew_at)
                try:
                    async with asyncio.timeout(max(left, SETTLE_S if relayed else 0.0)) as limit:
                        fired = await anext(source)
                    if (error := error_fired(self.inner[0], self.inner[1], fired.payload)) is not None:
                        raise RuntimeError(f"it fired {error}")
                except StopAsyncIteration:
                    if not relayed:
                        raise RuntimeError("it ended without a message") from None
                    return
                except Exception as e:
                    if limit.expired():
                        return
                    if relayed < 2:  # its first message is finished only when it fires the second one
                        raise
                    self._counts.add("trigger_failures")
                    self.log.warning("The inner trigger failed, and starts again: %s", visible(repr(e)))
                    return
                await self._relay(fired, inner, maker, writer)
                relayed += 1
                if not left:  # the inner trigger is never without messages
                    return

    async def _relay(self, fired: Fired, inner: BaseTrigger, maker: EventMaker, writer: EventWriter) -> None:
        """Returns when the bus has the events of what the inner trigger fired, and it is acknowledged."""
        events: list[Event] = []
        messages, begun = messages_of(fired.payload, fired.position), time.monotonic()
        for message in messages:
            if isinstance(message, EventError):
                self._refuse("a message", message)
                continue
            try:
                events += maker.events_of(message)
            except EventError as e:
                self._refuse(f"message {message.id or message.digest}", e)
        if events:
            await self._write(writer, events)
            self._counts.written_in(time.monotonic() - begun)
        self._counts.add("messages", len(messages))
        if self.acknowledge is not None:
            done = imported(self.acknowledge)(fired.payload, inner)
            if isawaitable(done):
                await done

    async def _write(self, writer: EventWriter, events: Sequence[Event]) -> None:
        try:
            await writer.write(events)
        except NotSent as e:
            if len(events) == 1:
                self._refuse(f"event {events[0].id}", e)
                return
            for event in events:
                await self._write(writer, [event])
            return
        self._written += len(events)
        self._counts.add("events", len(events))

    def _refuse(self, what: str, error: EventError | NotSent) -> None:
        """Logs and counts what cannot become an event. Raises the error unless it is to be skipped."""
        self._counts.add("rejected")
        if self.at_invalid == "stop":
            self.log.error(
                "The relay stops at %s: %s. Correct the arguments of relay_dag or the source, or let it skip"
                ' such messages: at_invalid="skip".',
                visible(what),
                visible(error),
            )
            raise error
        self._skipped += 1
        self.log.error("Skipped %s: %s", visible(what), visible(error))

    def _note_failure(self, state: RetryCallState) -> None:
        error = self._failure = state.outcome.exception() if state.outcome else None
        pause_s = state.next_action.sleep if state.next_action else 0.0
        self.log.warning(
            "The inner trigger failed, and starts again in %.0f s: %s", pause_s, visible(repr(error))
        )

    def _inner_trigger(self) -> BaseTrigger:
        """Returns a new instance, as Airflow makes one for each run. Raises ConfigError if it cannot."""
        path, arguments = self.inner
        try:
            made: BaseTrigger = imported(path)(**arguments)
        except ConfigError:
            raise
        except Exception as e:
            raise ConfigError(f"The trigger {path} cannot be made: {e!r}. Check its arguments.") from e
        made.trigger_id = self.trigger_id
        made.task_instance = self.task_instance
        return made

    def _tags(self) -> dict[str, str]:
        tags = {"bus": self.bus, "deployment": self.deployment}
        task = self.task_instance  # None outside a triggerer
        return tags if task is None else {**tags, "dag_id": task.dag_id}

    async def _bus_config(self) -> BusConfig:
        return await read_bus_config(self.kafka_conn_id, self.bus, self.deployment)


def _is_retried(error: BaseException) -> bool:
    """Returns whether the inner trigger starts again after this error; not after a cancellation."""
    return isinstance(error, Exception) and not isinstance(error, (EventError, NotSent, ConfigError))
