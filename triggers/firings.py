"""Registers a durable subscription and follows its open firings, from the event loop of a triggerer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from ..engine.config import BusConfig
from .connections import NoticeHandler
from .stats import airflow_stats

if TYPE_CHECKING:
    from ..engine.runtime.runtime import Runtime
    from ..engine.waiting.dispatching import Durable, MoreFirings, Stream
    from ..engine.waiting.notices import Notice

_NOT_OPENED: Final = "Call open() first."
POLL_S: Final = 30.0  # after so long the caller looks itself, should a notification be lost


class SubscriptionFirings:
    """The open firings of a durable subscription. Call `open` first and `close` at the end.

    read_config: returns the bus with the current connection; raises ConfigError if that is not usable.
    It does not fail if Kafka does not answer: it logs the problem, once per change, and keeps trying.
    """

    def __init__(self, durable: Durable, read_config: Callable[[], Awaitable[BusConfig]], log: Any) -> None:
        self.durable = durable
        self._read_config = read_config
        self._log = log
        self._arrived: asyncio.Queue[MoreFirings | Notice] = asyncio.Queue()
        self._runtime: Runtime | None = None
        self._stream: Stream | None = None
        self._notices: NoticeHandler | None = None

    async def open(self) -> BusConfig:
        """Registers the subscription. Raises ConfigError if the connection is missing or not usable."""
        from ..engine.runtime.runtime import Runtime

        config = await self._read_config()
        self._runtime = runtime = Runtime.of(config, airflow_stats())
        self._notices = NoticeHandler(runtime, self._read_config, self._log)
        loop = asyncio.get_running_loop()

        def deliver(item: MoreFirings | Notice) -> None:  # runs in the waits' thread
            loop.call_soon_threadsafe(self._arrived.put_nowait, item)

        self._stream = runtime.waits.dispatching.open(self.durable, deliver)
        runtime.board.listen(self, deliver)
        return config

    @property
    def config(self) -> BusConfig:
        """The bus with the current connection, which may have been corrected since `open`."""
        if self._runtime is None:
            raise RuntimeError(_NOT_OPENED)
        return self._runtime.config

    @property
    def registered(self) -> bool:
        """Whether the subscription has been registered since `open`, by this object or another."""
        return self._stream is not None and self._stream.registered

    @property
    def replaced(self) -> bool:
        """Whether another stream replaced this one, so that `take` returns nothing.

        See `Dispatching.is_replaced`.
        """
        if self._runtime is None or self._stream is None:
            return False
        return self._runtime.waits.dispatching.is_replaced(self._stream)

    def take(
        self, most: int, without: Collection[tuple[int, int]] = (), gone: Collection[tuple[int, int]] = ()
    ) -> list[tuple[int, int]]:
        """Returns (partition, offset) of the first open firings, at most `most`; they stay open.

        without: those to leave out. gone: those whose records do not exist any more, which are forgotten.
        """
        if self._runtime is None or self._stream is None:
            return []
        places = self._runtime.waits.dispatching.take(self._stream, most, without, gone)
        return [(place.source.partition, place.offset) for place in places]

    async def wait_for_more(self, timeout_s: float) -> None:
        """Returns when there may be firings to take; after `timeout_s`, and after POLL_S, in any case."""
        from ..engine.waiting.notices import Notice

        if self._notices is None:
            raise RuntimeError(_NOT_OPENED)
        with suppress(TimeoutError, asyncio.TimeoutError):
            async with asyncio.timeout(min(timeout_s, POLL_S)):
                while isinstance(item := await self._arrived.get(), Notice):
                    self._notices.handle(item)
                while not self._arrived.empty():  # there may be hundreds of notifications
                    if isinstance(item := self._arrived.get_nowait(), Notice):
                        self._notices.handle(item)

    def close(self) -> None:
        if self._notices is not None:
            self._notices.close()
        if self._runtime is not None and self._stream is not None:
            self._runtime.board.stop_listening(self)
            self._runtime.waits.dispatching.close(self._stream)
