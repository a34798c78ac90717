"""`HttpPosts`: sends firings to sinks with aiohttp, in a thread and an event loop of its own."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from types import TracebackType
from typing import Final, Self

from ...events.event import Event
from ...events.tracing import Tracing, process_tracing
from ..bus import Output
from ..config import BusConfig
from ..delivery.addresses import Network
from ..delivery.answers import Answer, Verdict
from ..delivery.posts import Delivery, Ended
from ..errors import EngineError
from ..log import log
from .client import SinkClient
from .connector import Connector
from .content import Content
from .referred import ROOM_BYTES, ReferredData
from .sink import HttpSink
from .spans import Request, request_of
from .target import TargetError
from .targets import Lookup, Targets
from .threads import DaemonThreads

IDLE_S: Final = 600.0  # a client that was not used for so long is closed when another one is opened
_CLOSE_S: Final = 5.0
# Lookups that hang must not delay those of other sinks.
_NAME_THREADS: Final = 32
_CONNECTION_THREADS: Final = 32


@dataclass(frozen=True)
class PostOptions:
    """Options of `HttpPosts`. allowed: networks that deliveries may reach although they are not public.

    fetch, room_bytes: see `ReferredData`.
    """

    allowed: Collection[Network] = ()
    fetch: Callable[[str], Event] | None = None
    room_bytes: int = ROOM_BYTES


class HttpPosts:
    """Makes deliveries over HTTP: `delivery.posts.Posts`. Its thread runs while it is entered.

    lookup: the target of an Airflow connection; may block, is called in several threads, and raises
    TargetError if the connection cannot be used. on_ended: called in a thread of this object when `ended` has
    something new. All methods are thread-safe; `start` and `ended` do not block. Its threads do not keep the
    process alive.
    """

    def __init__(
        self,
        config: BusConfig,
        lookup: Lookup,
        on_ended: Callable[[], None] = lambda: None,
        options: PostOptions = PostOptions(),
    ) -> None:
        self._topic = config.topic("event")
        self._allowed, self._on_ended = tuple(options.allowed), on_ended
        self._tracing = process_tracing()
        self._data = ReferredData(config, options.fetch, options.room_bytes, self._tracing)
        self._waiting: deque[Delivery] = deque()
        self._ended: deque[Ended] = deque()
        self._is_woken = self._is_reported = False
        self._failure: BaseException | None = None
        self._names = DaemonThreads(_NAME_THREADS, "interlock-names")
        self._connections = DaemonThreads(_CONNECTION_THREADS, "interlock-connections")
        self._targets = Targets(lookup, self._connections)
        self._sinks: dict[str, HttpSink] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._loop = _new_loop()
        self._end = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="interlock-posts", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self, delivery: Delivery) -> None:
        self._waiting.append(delivery)
        if not self._is_woken:
            self._is_woken = True
            try:
                self._loop.call_soon_threadsafe(self._begin)
            except RuntimeError:  # the loop is closed; `ended` says why
                self._is_woken = False

    def ended(self) -> Sequence[Ended]:
        """The deliveries that have ended since the last call. Raises EngineError if no more will end."""
        if self._failure is not None:
            raise EngineError(f"The thread that makes deliveries has ended: {self._failure!r}.")
        self._is_reported = False
        return [self._ended.popleft() for _ in range(len(self._ended))]

    def close(self, timeout_s: float = _CLOSE_S) -> None:
        """Cancels what is in flight, and waits up to the timeout until its connections are closed."""
        if self._thread.ident is None:  # never opened
            self._loop.close()
            return
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(timeout_s)

    # -- in the thread

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as e:  # noqa: BLE001  # `ended` raises it
            self._failure = e
            log.exception("The thread that makes deliveries has ended")
            self._on_ended()
        finally:
            if left := asyncio.all_tasks(self._loop):  # after a failure
                for task in left:
                    task.cancel()
                self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            asyncio.set_event_loop(None)
            self._loop.close()

    async def _serve(self) -> None:
        try:
            await self._end.wait()
        finally:
            for task in (tasks := [*self._tasks]):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.gather(*self._closing, return_exceptions=True)
            for sink in self._sinks.values():
                await sink.close()
            self._data.close()
            for threads in (self._names, self._connections):
                threads.shutdown(cancel_futures=True)

    def _begin(self) -> None:
        self._is_woken = False
        while self._waiting:
            task = self._loop.create_task(self._deliver(self._waiting.popleft()))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _deliver(self, delivery: Delivery) -> None:
        try:
            answer, reply = await self._answer(delivery)
        except Exception as e:  # noqa: BLE001  # an error in this code stops no other delivery
            log.exception("A delivery to %s failed", delivery.sink.subscription)
            text = f"the request could not be made: {type(e).__name__}"
            answer, reply = Answer(None, text, ruling=Verdict.RETRY), None
        self._ended.append(Ended(delivery.number, answer, reply))
        if not self._is_reported:
            self._is_reported = True
            self._loop.call_soon(self._on_ended)  # once for all that end in this turn of the loop

    async def _answer(self, delivery: Delivery) -> tuple[Answer, Output | None]:
        try:
            sink = await self._sink(delivery)
        except TargetError as e:
            return Answer(None, str(e), connected=False), None
        sink.in_flight += 1
        try:
            request = _request(delivery, self._tracing)
            if request is not None:
                answer, reply = await sink.post(*request)
            else:
                async with self._data.request(delivery) as found:
                    if isinstance(found, Answer):
                        return found, None
                    answer, reply = await sink.post(*found)
        finally:
            sink.in_flight -= 1
            self._retire(sink)
        if answer.verdict is Verdict.DENIED:
            self._targets.doubt(delivery.sink.connection)
        return answer, reply

    def _open_client(self, tls: ssl.SSLContext | None) -> SinkClient:
        return SinkClient(Connector(self._allowed, tls, self._names))

    async def _sink(self, delivery: Delivery) -> HttpSink:
        """The sink with the delivery's record, and with its connection as it is now. Raises TargetError."""
        record = delivery.sink
        found = await self._targets.get(record.connection)
        sink = self._sinks.get(record.subscription)
        is_same = sink is not None and (sink.record is record or sink.record == record)
        if sink is None or not is_same or sink.resolved is not found:
            self._retire_idle()
            made = HttpSink(record, found, self._open_client, self._topic)
            self._sinks[record.subscription] = made
            if sink is not None:
                self._retire(sink)
            sink = made
        sink.used_at = monotonic()
        return sink

    def _retire(self, sink: HttpSink) -> None:
        """Close a sink that was replaced, unless a delivery to it is in flight."""
        if not sink.in_flight and self._sinks.get(sink.record.subscription) is not sink:
            task = self._loop.create_task(sink.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def _retire_idle(self) -> None:
        before = monotonic() - IDLE_S
        for name, sink in [*self._sinks.items()]:
            if not sink.in_flight and sink.used_at < before:
                del self._sinks[name]
                self._retire(sink)


def _request(delivery: Delivery, tracing: Tracing | None) -> Request | None:
    """What is sent of a firing; None if its data must be read first."""
    content = Content(delivery.sink, delivery.firing)
    return None if any(content.references()) else request_of(delivery.firing, content, tracing)


def _new_loop() -> asyncio.AbstractEventLoop:
    """An event loop of uvloop, which is installed for the receiver's server; of asyncio if it is missing."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        return asyncio.new_event_loop()
    return new_event_loop()
