"""Deliveries through `HttpPosts` without a deliverer."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from ipaddress import ip_network
from itertools import count
from types import TracebackType
from typing import Any, Final, Self

import msgspec
from interlock.engine.config import BusConfig
from interlock.engine.delivery.firings import OpenFiring
from interlock.engine.delivery.posts import Delivery, Ended
from interlock.engine.delivery.retry import Retry
from interlock.engine.delivery.sinks import SinkRecord
from interlock.engine.errors import FetchError
from interlock.engine.sending.posts import HttpPosts, PostOptions
from interlock.engine.sending.target import SinkTarget, TargetError
from interlock.events.event import Event

LOOPBACK: Final = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
CONFIG: Final = BusConfig("b", "airflow", {"bootstrap.servers": "nowhere:9092"})
WAIT_S: Final = 20.0  # until a test that hangs fails


class Posting:
    """As a context manager it makes deliveries. targets: by connection id; exceptions among them are raised.

    fetched: the events behind datarefs.
    """

    def __init__(
        self,
        targets: Mapping[str, SinkTarget | Exception],
        fetched: Mapping[str, Event | Exception] | None = None,
        **options: Any,
    ) -> None:
        self.targets, self._fetched = {**targets}, fetched or {}
        self.looked_up: list[str] = []
        self._numbers = count(1)
        self._some = threading.Condition()
        self._ended: dict[int, Ended] = {}
        self.posts = HttpPosts(
            CONFIG,
            self._lookup,
            self._tell,
            PostOptions(**{"fetch": self._fetch, "allowed": LOOPBACK} | options),
        )

    @classmethod
    def to(cls, url: str, **members: Any) -> Self:
        """Deliveries to this address, with the connection `c`."""
        return cls({"c": SinkTarget(url=url, **members)})

    def start(self, firing: OpenFiring, timeout_s: float = 10.0, **members: Any) -> int:
        """Begins a delivery; returns its number. members: of the sink's record."""
        given = {"connection": "c", "replies": True, "retry": Retry(timeout_s=timeout_s), **members}
        record = SinkRecord(subscription=firing.subscription, **given)
        number = next(self._numbers)
        self.posts.start(Delivery(number, record, firing))
        return number

    def wait(self, number: int) -> Ended:
        with self._some:
            if not self._some.wait_for(lambda: self._take(number), WAIT_S):
                raise AssertionError(f"delivery {number} has not ended within {WAIT_S:g} s")
            return self._ended.pop(number)

    def deliver(self, firing: OpenFiring, timeout_s: float = 10.0, **members: Any) -> Ended:
        return self.wait(self.start(firing, timeout_s, **members))

    def _take(self, number: int) -> bool:
        self._ended |= {each.number: each for each in self.posts.ended()}
        return number in self._ended

    def _tell(self) -> None:
        with self._some:
            self._some.notify_all()

    def _lookup(self, connection: str) -> SinkTarget:
        self.looked_up.append(connection)
        found = self.targets.get(connection, TargetError(f"Connection {connection!r} does not exist."))
        if isinstance(found, Exception):
            raise found
        return found

    def _fetch(self, dataref: str) -> Event:
        found = self._fetched.get(dataref, FetchError(f"{dataref}: no record has this offset."))
        if isinstance(found, Exception):
            raise found
        return found

    def __enter__(self) -> Self:
        self.posts.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.posts.close()


def form(data: object = None, **attributes: object) -> dict[str, object]:
    """An event in a firing."""
    members = {
        "specversion": "1.0",
        "id": "e1",
        "source": "/orders",
        "type": "com.example.ordered",
        **attributes,
    }
    return members if data is None else {**members, "data": data}


def encoded(value: object) -> bytes:
    return msgspec.json.encode(value)
