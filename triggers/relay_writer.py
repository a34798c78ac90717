"""Writes a relay's events, and keeps trying while Kafka does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..engine.errors import ConfigError, NoRoom, UnreachableError
from ..events.visible import visible

if TYPE_CHECKING:
    from tenacity import RetryCallState

    from ..engine.config import BusConfig
    from ..engine.kafka.event_producer import EventProducer
    from ..events.event import Event
    from .relay_counts import RelayCounts

WRITE_S: Final = 30.0  # how long the client tries to write an event before the relay gives it the event again
MAX_PAUSE_S = 30.0


class EventWriter:
    """Writes events to the bus.

    read_config: returns the bus with the current connection. counts: gets each write that failed.

    The caller awaits each write, so a relay takes no more from its source than Kafka takes.
    """

    def __init__(
        self,
        config: BusConfig,
        read_config: Callable[[], Awaitable[BusConfig]],
        log: Any,
        counts: RelayCounts,
    ) -> None:
        self._config, self._read_config, self._log, self._counts = config, read_config, log, counts
        self._producer: EventProducer | None = None
        self._problem: str | None = None

    async def write(self, events: Sequence[Event]) -> None:
        """Returns when all in-sync replicas have every event.

        Raises NotSent if one is too large, ConfigError if the client refuses the connection's properties.
        """
        from tenacity import AsyncRetrying, retry_if_exception_type, wait_random_exponential

        retrying = AsyncRetrying(
            retry=retry_if_exception_type((NoRoom, UnreachableError)),
            wait=wait_random_exponential(max=MAX_PAUSE_S),
            before_sleep=self._note,
        )
        async for attempt in retrying:
            with attempt:
                await (await self._current()).write(events)
        if self._problem is not None:
            self._problem = None
            self._log.info("The bus works again.")

    async def close(self) -> None:
        """Waits a few seconds for acknowledgements that are due."""
        producer, self._producer = self._producer, None
        if producer is not None:
            await asyncio.to_thread(producer.close)

    async def _current(self) -> EventProducer:
        """Returns the producer; after a problem one with the connection as it is now."""
        from ..engine.kafka.event_producer import EventProducer  # not needed to parse a DAG file

        if self._problem is not None:
            try:
                config = await self._read_config()
            except ConfigError as e:
                self._log.warning("%s The relay continues with the earlier connection.", visible(e))
            else:
                if config != self._config:
                    await self.close()
                    self._config = config
        if self._producer is None:
            loop = asyncio.get_running_loop()
            self._producer = await asyncio.to_thread(EventProducer, self._config, loop, WRITE_S)
        return self._producer

    async def _note(self, state: RetryCallState) -> None:
        self._counts.add("write_failures")
        problem = str(state.outcome.exception()) if state.outcome else ""
        if problem != self._problem:
            self._problem = problem
            self._log.warning("%s The relay keeps trying, and takes no more messages.", visible(problem))
