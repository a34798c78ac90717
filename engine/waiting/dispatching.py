"""The durable subscriptions whose firings this process hands on: registering them, and telling of firings.

Whoever hands firings on takes their places, reads them (`open_firings.read`), and acknowledges them; until
then they are given again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from ...conditions import from_json
from ..bus import Clients, Record, TopicPartition
from ..log import log
from ..records import AtLimit, Registration
from ..registry.registry import Registered, Registry
from .latest_firings import Place
from .notices import Notice
from .open_firings import OpenFirings, read_from
from .registration_writer import Registering

REGISTER_AGAIN_S: Final = 30.0


class News:
    """That firings may be there to be taken."""


NEWS: Final = News()
Deliver: TypeAlias = Callable[[News | Notice], None]


@dataclass(frozen=True, kw_only=True)
class Durable:
    """What a durable subscription is to be. Equal in condition to what is registered, it is that.

    since_ms: events count from this record timestamp on; unless `since_given`, it holds only where nothing is
    registered yet, or another condition.
    """

    subscription: str
    condition: dict[str, Any]
    since_ms: int
    since_given: bool
    max_keys: int
    at_limit: AtLimit

    def registration(self, since_ms: int | None = None) -> Registration:
        return Registration.of(
            self.subscription,
            from_json(self.condition),
            None,
            self.since_ms if since_ms is None else since_ms,
            kind="durable",
            max_keys=self.max_keys,
            at_limit=self.at_limit,
        )

    def is_meant_by(self, registered: Registration) -> bool:
        """Whether this registration is the subscription's own, its limits aside."""
        same_since = not self.since_given or registered.since_ms == self.since_ms
        return same_since and self.registration(registered.since_ms).incarnation == registered.incarnation


@dataclass(eq=False)
class Stream:
    """One reading of a subscription's open firings; `deliver` is called in the waits' thread."""

    durable: Durable
    deliver: Deliver
    state: Literal["opened", "sent", "served", "cancelled", "replaced"] = "opened"
    sent_at: float = 0.0
    incarnation: str = ""  # of the registration that is this stream's
    registered: bool = False  # whether it was ever seen


class Dispatching:
    """The open streams of this process. `open`, `close` and `take` may be called from any thread.

    The rest belongs to the thread of the waits, which reads the topics.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._streams: dict[str, list[Stream]] = {}
        self._open = OpenFirings()
        self._whole = False
        self._reading_again: set[str] = set()

    def open(self, durable: Durable, deliver: Deliver) -> Stream:
        """Register, unless that is done already; then `deliver` tells whenever there is something to take.

        Of the streams of one subscription the last that was opened has its place, and the others take nothing
        until it is closed: Airflow begins an edited trigger before it ends the one that it replaces.
        """
        stream = Stream(durable, deliver)
        with self._lock:
            self._streams.setdefault(durable.subscription, []).append(stream)
        return stream

    def close(self, stream: Stream) -> None:
        """The registration stays: it is durable."""
        with self._lock:
            together = self._streams.get(stream.durable.subscription, [])
            had_its_place = together[-1:] == [stream]
            if stream in together:
                together.remove(stream)
            if together and had_its_place:
                together[-1].state = "opened"
            if not together:
                self._streams.pop(stream.durable.subscription, None)

    def take(
        self,
        stream: Stream,
        most: int,
        without: Collection[tuple[int, int]] = (),
        gone: Collection[tuple[int, int]] = (),
    ) -> list[Place]:
        """The first open firings, also those of earlier conditions; the same ones until acknowledged.

        without: partitions and offsets to leave out; gone: those where `read` found nothing.
        """
        name = stream.durable.subscription
        with self._lock:
            if self._is_replaced(stream) or not self._whole or name in self._reading_again:
                return []
            self._open.forget(name, gone)
            return self._open.oldest(name, most, without)

    def is_replaced(self, stream: Stream) -> bool:
        """Whether another has its place: a stream opened later, or what was registered in another meaning."""
        with self._lock:
            return self._is_replaced(stream)

    def _is_replaced(self, stream: Stream) -> bool:
        last = self._streams.get(stream.durable.subscription, [])[-1:]
        return stream.state == "replaced" or last != [stream]

    # -- in the waits' thread

    def held(self) -> list[str]:
        """The incarnations whose firings are handed on here: leases name them, for whoever asks where."""
        with self._lock:
            return [stream.incarnation for stream in self._last() if stream.state == "served"]

    def begin(self) -> None:
        """The topics are read from their starts."""
        with self._lock:
            self._open, self._whole = OpenFirings(), False
            for stream in self._last():
                if stream.state not in ("cancelled", "replaced"):
                    stream.state = "opened"

    def follow(self, record: Record) -> None:
        """Take the next record of the action topic."""
        with self._lock:
            news = self._open.follow(record)
            streams = [s for s in self._streams.get(news or "", [])[-1:] if s.state == "served"]
        for stream in streams:
            _tell(stream, NEWS)

    def serve(self, registry: Registry, registering: Registering, clients: Clients) -> None:
        """The topics are read to their ends: register what was opened, read again what did not fit."""
        self._whole = True
        if not self._streams:
            return
        with self._lock:
            streams = self._last()
        for stream in streams:
            self._look_up(stream, registry, registering)
        for name in {s.durable.subscription for s in streams if s.state == "served"}:
            with self._lock:
                starts = self._open.again(name)
                if starts:
                    self._reading_again.add(name)
            if starts:
                self._read_again(name, starts, clients)

    def _last(self) -> list[Stream]:
        return [together[-1] for together in self._streams.values()]

    def _look_up(self, stream: Stream, registry: Registry, registering: Registering) -> None:
        """Where the stream's registration stands: it is there, or sent, or another took its place."""
        durable = stream.durable
        found = registry.named(durable.subscription)
        if found is not None and stream.state == "served" and stream.incarnation == found.incarnation:
            return
        if found is not None and durable.is_meant_by(found.registration):
            _set_limits(durable, found, registry, registering)
            stream.state, stream.incarnation, stream.registered = "served", found.incarnation, True
            _tell(stream, NEWS)
            return
        if stream.state in ("served", "cancelled"):
            before, stream.state = stream.state, "cancelled" if found is None else "replaced"
            if stream.state != before:
                done = "was cancelled" if found is None else "has another condition by now"
                _tell(stream, Notice(f"Subscription {durable.subscription!r} {done}."))
            return
        now = time.monotonic()
        if stream.state == "replaced" or (stream.state == "sent" and now - stream.sent_at < REGISTER_AGAIN_S):
            return
        if found is not None and stream.state == "opened":
            log.warning(
                "%r gets another condition: what was half met under the one before is dropped.",
                durable.subscription,
            )
        stream.state, stream.sent_at = "sent", now
        registering.register(durable.registration(), registry.version, lambda why: _refused(stream, why))

    def _read_again(self, name: str, starts: Mapping[TopicPartition, int], clients: Clients) -> None:
        """In the waits' thread, so that the other reader stands still: nothing is missed in between."""
        try:
            for record in read_from(clients, starts):
                if (record.key or b"").startswith(f"{name}\0".encode()):
                    with self._lock:
                        self._open.follow(record)
        finally:
            with self._lock:
                self._reading_again.discard(name)
                streams = self._streams.get(name, [])[-1:]
        for stream in streams:
            _tell(stream, NEWS)


def _set_limits(durable: Durable, found: Registered, registry: Registry, registering: Registering) -> None:
    """Limits are no part of what a registration means: the same one again, with others."""
    if (found.registration.max_keys, found.registration.at_limit) != (durable.max_keys, durable.at_limit):
        again = durable.registration(found.registration.since_ms)
        registering.register(
            again, registry.version, lambda why: log.error("%r keeps its limits: %s", again.subscription, why)
        )


def _refused(stream: Stream, why: str) -> None:
    text = f"{stream.durable.subscription!r} cannot be registered, which is tried again: {why}."
    log.error("%s", text)
    _tell(stream, Notice(text))


def _tell(stream: Stream, item: News | Notice) -> None:
    try:
        stream.deliver(item)
    except Exception as e:  # noqa: BLE001  # its event loop may be closed; the others go on
        log.warning("%r could not be told: %s", stream.durable.subscription, e)
