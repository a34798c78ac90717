"""What is sent of firings whose data are elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Final

from ...events.event import Event
from ...events.tracing import Tracing
from ..config import BusConfig
from ..delivery.answers import Answer, Verdict
from ..delivery.posts import Delivery
from ..errors import EngineError, FetchError
from ..reading.references import SharedReferences
from .content import Content
from .room import Room
from .spans import Request, request_of
from .threads import DaemonThreads
from .turns import PartitionTurns

ROOM_BYTES: Final = 64 * 1024 * 1024
# Asked for before the size is known: the most data of a firing in base64, and the rest of its body.
MOST_BYTES: Final = 12 * 1024 * 1024
# A partition that does not answer occupies a thread for 10 s or more. Each may have clients of its own.
THREADS: Final = 4


class ReferredData:
    """Reads the data of firings in threads, when there is room. For the tasks of one event loop. Close it.

    A partition that does not answer delays only requests with data in it, or in other such partitions. fetch:
    the event behind a `dataref`; default: read from the bus; may block, and is called in several threads.
    room_bytes: for the bodies of all requests with such data.
    """

    def __init__(
        self,
        config: BusConfig,
        fetch: Callable[[str], Event] | None,
        room_bytes: int,
        tracing: Tracing | None,
    ) -> None:
        self._references = SharedReferences(config)
        self._fetch = fetch or self._references.event
        self._threads = DaemonThreads(THREADS, "interlock-references")
        self._turns = PartitionTurns()
        self._room = Room(room_bytes)
        self._tracing = tracing

    @asynccontextmanager
    async def request(self, delivery: Delivery) -> AsyncIterator[Request | Answer]:
        """What is sent of a firing with references; an answer if its data cannot be read."""
        content = Content(delivery.sink, delivery.firing)
        async with AsyncExitStack() as until_answered:
            try:
                async with self._turns.admit({_partition(each.dataref) for each in content.references()}):
                    room = self._room.hold(delivery.sink.subscription, MOST_BYTES)
                    held = await until_answered.enter_async_context(room)
                    await self._resolve(content)
            except FetchError as e:
                found: Request | Answer = _unread(e, Verdict.REFUSED)
            except EngineError as e:
                found = _unread(e, Verdict.RETRY)
            else:
                found = request_of(delivery.firing, content, self._tracing)
                held.keep(len(found.sent.body))
                del content  # it holds the data too, and the room counts only the body from here on
            yield found

    def close(self) -> None:
        """Does not wait for what is being read."""
        self._threads.submit(self._references.close)
        self._threads.shutdown()

    async def _resolve(self, content: Content) -> None:
        """Read the data of references, as far as they fit. Raises EngineError if one cannot be read."""
        loop = asyncio.get_running_loop()
        for reference in content.references():
            dataref = reference.dataref
            event = await self._turns.read(
                _partition(dataref), partial(loop.run_in_executor, self._threads, self._fetch, dataref)
            )
            if not content.resolve(reference, event):
                break


def _partition(dataref: str) -> str:
    """`kafka:topic/partition`, of a dataref with an offset."""
    return dataref.rpartition("/")[0]


def _unread(error: EngineError, ruling: Verdict) -> Answer:
    return Answer(None, f"its data cannot be read: {error}", ruling=ruling)
