"""What is sent of firings whose data are elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from ...events.event import Event
from ...events.tracing import Tracing
from ..config import BusConfig
from ..delivery.answers import Answer, Verdict
from ..delivery.posts import Attempt
from ..errors import EngineError, FetchError
from ..reading.references import References
from .content import MOST_RESOLVED_BYTES, Content
from .room import Room
from .spans import Request, request_of
from .threads import DaemonThreads

ROOM_BYTES: Final = 64 * 1024 * 1024
# Asked for before the size is known: the most data of a firing in base64, and the rest of its body.
MOST_BYTES: Final = 12 * 1024 * 1024


class ReferredData:
    """Reads the data of firings in a thread, when there is room. For the tasks of one event loop. Close it.

    fetch: the event behind a `dataref`; default: read from the bus; may block. room_bytes: for the bodies of
    all requests with such data.
    """

    def __init__(
        self,
        config: BusConfig,
        fetch: Callable[[str], Event] | None,
        room_bytes: int,
        tracing: Tracing | None,
    ) -> None:
        self._references = References(config)
        self._fetch = fetch or self._references.event
        self._thread = DaemonThreads(1, "interlock-references")
        self._room = Room(room_bytes)
        self._tracing = tracing

    @asynccontextmanager
    async def request(self, attempt: Attempt) -> AsyncIterator[Request | Answer]:
        """What is sent of a firing with references; an answer if its data cannot be read."""
        async with self._room.hold(attempt.sink.subscription, MOST_BYTES) as held:
            found = await self._request(attempt)
            held.keep(0 if isinstance(found, Answer) else len(found.sent.body))
            yield found

    def close(self) -> None:
        """Does not wait for what is being read."""
        self._thread.submit(self._references.close)
        self._thread.shutdown()

    async def _request(self, attempt: Attempt) -> Request | Answer:
        content = Content(attempt.sink, attempt.firing)
        return await self._resolve(content) or request_of(attempt.firing, content, self._tracing)

    async def _resolve(self, content: Content) -> Answer | None:
        """Read the data of references, as far as they fit. Returns an answer if something is not readable."""
        loop = asyncio.get_running_loop()
        left = MOST_RESOLVED_BYTES
        for reference in content.references():
            try:
                event = await loop.run_in_executor(self._thread, self._fetch, reference.dataref)
                left -= len(event.data or b"")
                if left >= 0:
                    content.resolve(reference, event)
            except FetchError as e:
                return Answer(None, f"its data cannot be read: {e}", ruling=Verdict.REFUSED)
            except EngineError as e:
                return Answer(None, f"its data cannot be read: {e}", ruling=Verdict.RETRY)
            if left < 0:
                break
        return None
