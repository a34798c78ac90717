"""A test's sink on loopback, to which deliverers send over HTTP, and the deliveries that arrive there."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from ipaddress import ip_network
from types import TracebackType
from typing import NamedTuple, Self

from interlock.engine.config import BusConfig
from interlock.engine.sending.posts import HttpPosts, PostOptions
from interlock.engine.sending.target import SinkTarget

from tests.kit.sinks import Behaviour, Received, Sink, answer

HOLD_S = 60.0


def posts(config: BusConfig, on_ended: Callable[[], None]) -> HttpPosts:
    """Deliveries to sinks on loopback. The connection of a sink's record is its address."""
    loopback = [ip_network("127.0.0.0/8")]
    return HttpPosts(config, lambda url: SinkTarget(url=url), on_ended, PostOptions(loopback))


class Arrival(NamedTuple):
    """A delivery. sequence: the offset of the firing, which grows within its key."""

    firing: str
    key: str
    sequence: int

    @classmethod
    def of(cls, received: Received) -> Self:
        attributes = received.attributes
        return cls(attributes["id"], attributes["subject"], int(attributes["interlocksequence"]))


class Arrivals:
    """As a context manager it is a sink that answers 202, or the status that `statuses` has for the key.

    After `hold` it answers nothing until `release`.
    """

    def __init__(self) -> None:
        self.statuses: dict[str, int] = {}
        self.accepted: list[str] = []
        self._released = threading.Event()
        self._released.set()
        self._sink = Sink(self._behave)

    def __enter__(self) -> Self:
        self._sink.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
        self._sink.__exit__(kind, error, trace)

    @property
    def url(self) -> str:
        return self._sink.url

    def hold(self) -> None:
        self._released.clear()

    def release(self) -> None:
        self._released.set()

    @property
    def arrived(self) -> list[Arrival]:
        return [Arrival.of(received) for received in [*self._sink.received]]

    @property
    def firings(self) -> list[str]:
        return [arrival.firing for arrival in self.arrived]

    def assert_in_order(self) -> None:
        """The firings of each key came in their order: no sequence is lower than the one before it."""
        last: dict[str, int] = {}
        arrived = self.arrived
        for arrival in arrived:
            assert arrival.sequence >= last.get(arrival.key, -1), arrived
            last[arrival.key] = arrival.sequence

    def _behave(self, received: Received) -> Behaviour:
        async def behave(writer: asyncio.StreamWriter) -> bool:
            await asyncio.to_thread(self._released.wait, HOLD_S)
            arrival = Arrival.of(received)
            status = self.statuses.get(arrival.key, 202)
            if status == 202:
                self.accepted.append(arrival.firing)
            return await answer(status)(writer)

        return behave
