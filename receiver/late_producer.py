"""A writer that opens its producer at the first event."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from ..engine.config import BusConfig
from ..engine.errors import ConfigError, UnreachableError
from ..engine.kafka.event_producer import EventProducer
from ..events.event import Event


class LateProducer:
    """Writes events to the bus that `read` returns.

    For a server that others configure and fork: it holds no Kafka client until it needs one, and starts
    without a usable connection. Make it in the event loop that serves. read: called in a thread, at the
    first event and again at later ones until it succeeds; may raise ConfigError. timeout_s: EventProducer's.
    """

    def __init__(self, read: Callable[[], BusConfig], timeout_s: float) -> None:
        self._read, self._timeout_s = read, timeout_s
        self._opening: asyncio.Task[EventProducer] | None = None  # the latest; all writes share it

    async def write(self, events: Sequence[Event]) -> None:
        """As EventProducer's. Raises UnreachableError also if the connection cannot be read or used."""
        try:
            producer = await asyncio.shield(self._opened())
        except ConfigError as error:
            raise UnreachableError(str(error)) from error
        await producer.write(events)

    async def close(self) -> None:
        """Returns when the due acknowledgements have come, or EventProducer's limit has passed."""
        if self._opening is not None:
            with suppress(ConfigError, UnreachableError):
                await asyncio.to_thread((await self._opening).close)

    def _opened(self) -> asyncio.Task[EventProducer]:
        opening = self._opening
        if opening is None or (opening.done() and opening.exception() is not None):
            opening = self._opening = asyncio.create_task(self._open())
        return opening

    async def _open(self) -> EventProducer:
        config = await asyncio.to_thread(self._read)
        loop = asyncio.get_running_loop()
        # In a thread too: a client that needs a token blocks until it has one.
        return await asyncio.to_thread(EventProducer, config, loop, self._timeout_s)
