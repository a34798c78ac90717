"""Reads Airflow connections in a triggerer; triggers that need the same one at the same time share a read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from ..engine.errors import ConfigError
from ..events.visible import visible

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from ..engine.config import BusConfig
    from ..engine.runtime.runtime import Runtime
    from ..engine.waiting.notices import Notice

FRESH_S: Final = 5.0  # how long later reads share what was read
MAX_PAUSE_S: Final = 15.0  # between two reads of an unreadable connection
READ_AGAIN_S = 15.0  # between two reads of a connection with which something is wrong

Result = TypeVar("Result")


class UnreadableError(ConfigError):
    """The connection could not be read: it does not exist, or Airflow failed. Airflow does not say which."""


class _Read(NamedTuple):
    """What a read of a connection found, and the monotonic time at which it ended."""

    found: Connection | Exception
    at: float


reads: dict[str, asyncio.Task[_Read]] = {}  # the latest read of each connection, by its id


async def read_connection(conn_id: str) -> Connection:
    """Returns the connection, read at most FRESH_S ago. Raises UnreadableError.

    After a restart a thousand waits start at once: they share one query.
    """
    read = reads.get(conn_id)
    if read is None or not _is_usable(read):
        read = reads[conn_id] = asyncio.create_task(_read(conn_id))
    found = (await asyncio.shield(read)).found  # others await the same task
    if isinstance(found, Exception):
        raise UnreadableError(
            f"Connection {conn_id!r} cannot be read: {found}. Create it (type kafka), or name another "
            "one with kafka_conn_id."
        ) from found
    return found


async def until_readable(
    read: Callable[[], Awaitable[Result]], conn_id: str, log: Any, within_s: float | None
) -> Result | None:
    """Calls `read` until it raises no UnreadableError, and returns its result; None after `within_s`.

    An unreadable connection is tried again because the worker could read it a moment ago. Raises ConfigError
    if the connection was read and is not usable.
    """
    from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_random_exponential

    logged: str | None = None

    def log_change(state: RetryCallState) -> None:
        nonlocal logged
        text = str(state.outcome.exception()) if state.outcome else ""
        if text != logged:
            logged = text
            log.warning("%s The trigger tries again.", visible(text))

    retrying = AsyncRetrying(
        retry=retry_if_exception_type(UnreadableError),
        wait=wait_random_exponential(max=MAX_PAUSE_S),
        before_sleep=log_change,
    )
    try:
        async with asyncio.timeout(within_s):
            found: Result = await retrying(read)
    except TimeoutError:
        return None
    if logged is not None:
        log.info("Connection %r can be read now.", conn_id)
    return found


class NoticeHandler:
    """Logs a runtime's notices. Between a notice of a problem and its end, reads the connection regularly.

    An administrator may have corrected it; the runtime then uses the new one. read: returns the bus with the
    current connection.
    """

    def __init__(self, runtime: Runtime, read: Callable[[], Awaitable[BusConfig]], log: Any) -> None:
        self._runtime, self._read, self._log = runtime, read, log
        self._rereading: asyncio.Task[None] | None = None

    def handle(self, notice: Notice) -> None:
        if notice.text is not None:
            self._log.warning("%s The trigger keeps waiting.", visible(notice.text))
            self._rereading = self._rereading or asyncio.create_task(self._read_again())
        else:
            self._log.info("The bus works again.")
            self.close()

    def close(self) -> None:
        if self._rereading is not None:
            self._rereading.cancel()
            self._rereading = None

    async def _read_again(self) -> None:
        while True:
            await asyncio.sleep(READ_AGAIN_S)
            if self._runtime.may_read_connection():
                try:
                    self._runtime.use(await self._read())
                except ConfigError as e:
                    self._log.warning("%s The trigger continues with the earlier connection.", visible(e))
                except Exception as e:  # noqa: BLE001  # of a secrets backend, say: the next reading may succeed
                    self._log.warning("The connection cannot be read again: %s", visible(repr(e)))


def _is_usable(read: asyncio.Task[_Read]) -> bool:
    """Returns whether this read is under way in this event loop, or ended in it at most FRESH_S ago."""
    if read.get_loop() is not asyncio.get_running_loop() or read.cancelled():
        return False
    return not read.done() or time.monotonic() - read.result().at < FRESH_S


async def _read(conn_id: str) -> _Read:
    from airflow.sdk import BaseHook

    try:
        found: Connection | Exception = await BaseHook.aget_connection(conn_id)
    except Exception as e:  # noqa: BLE001  # secrets backends may raise anything
        found = e
    return _Read(found, time.monotonic())
