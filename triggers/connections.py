"""Airflow connections as a triggerer reads them: once for all triggers that want the same one at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from ..engine.errors import ConfigError

if TYPE_CHECKING:
    from airflow.sdk import Connection

FRESH_S: Final = 5.0  # so long an answer serves those who ask after it
MOST_WAIT_S: Final = 15.0  # between two readings of a connection that was not told

Read = TypeVar("Read")


class UnreadableError(ConfigError):
    """The connection was not told. That passes, unless nobody ever made it: Airflow does not tell which."""


class _Answer(NamedTuple):
    found: Connection | Exception
    at: float


_reads: dict[str, asyncio.Task[_Answer]] = {}  # the latest of each connection


async def read_connection(conn_id: str) -> Connection:
    """The connection as it reads now, or read at most FRESH_S ago; UnreadableError, likewise.

    A thousand waits begin at once after a restart: one question is under way at a time, for all of them.
    """
    read = _reads.get(conn_id)
    if read is None or not _serves(read):
        read = _reads[conn_id] = asyncio.create_task(_read(conn_id))
    answer = await asyncio.shield(read)  # others wait for it as well
    if isinstance(answer.found, Exception):
        raise UnreadableError(
            f"Connection {conn_id!r} cannot be read: {answer.found}. Create it (type kafka), or name another "
            "one with kafka_conn_id."
        ) from answer.found
    return answer.found


async def until_readable(
    read: Callable[[], Awaitable[Read]], conn_id: str, log: Any, within_s: float | None
) -> Read | None:
    """What `read` gives as soon as the connection can be read; None when that is not within `within_s`.

    The worker has read it a moment ago, so what is wrong will pass. ConfigError: it was read, and is no good.
    """
    from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_random_exponential

    said: str | None = None

    def say(state: RetryCallState) -> None:
        nonlocal said
        text = str(state.outcome.exception()) if state.outcome else ""
        if text != said:
            said = text
            log.warning("%s It is read again until the time is over.", text)

    again = AsyncRetrying(
        retry=retry_if_exception_type(UnreadableError),
        wait=wait_random_exponential(max=MOST_WAIT_S),
        before_sleep=say,
    )
    try:
        async with asyncio.timeout(within_s):
            found: Read = await again(read)
    except TimeoutError:
        return None
    if said is not None:
        log.info("Connection %r can be read now.", conn_id)
    return found


def _serves(read: asyncio.Task[_Answer]) -> bool:
    """Whether it is under way in this loop, or its answer is fresh."""
    if read.get_loop() is not asyncio.get_running_loop() or read.cancelled():
        return False
    return not read.done() or time.monotonic() - read.result().at < FRESH_S


async def _read(conn_id: str) -> _Answer:
    from airflow.sdk import BaseHook

    try:
        found: Connection | Exception = await BaseHook.aget_connection(conn_id)
    except Exception as e:  # noqa: BLE001  # of the secrets backends, whatever they are
        found = e
    return _Answer(found, time.monotonic())
