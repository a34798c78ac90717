"""Durable subscriptions whose firings this process dispatches: registering them, and finding open firings.

A dispatcher takes references to open firings, reads the firings (`open_firings.read`), and acknowledges them.
Until then it gets the same references again. For a subscription with a sink this module only writes the sink
record, and then the registration; deliverers take its firings (docs/understand/engine/sinks.md).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import msgspec

from ...conditions import from_json
from ..bus import Clients, Record, TopicPartition
from ..log import log
from ..records import AtLimit, Registration
from ..records.codec import UNREADABLE
from ..registry.registry import Registered, Registry
from .latest_firings import FiringRef
from .notices import Notice
from .open_firings import OpenFirings, read_from
from .registration_writer import RegistrationWriter

REGISTER_AGAIN_S: Final = 30.0


class MoreFirings:
    """A message to a dispatcher: there may be firings to take."""


MORE_FIRINGS: Final = MoreFirings()
Deliver: TypeAlias = Callable[[MoreFirings | Notice], None]


@dataclass(frozen=True, kw_only=True)
class Durable:
    """A durable subscription as its DAG defines it.

    since_ms: events count from this record timestamp on. Unless `since_given`, a registration of the same
    condition keeps its own since_ms. sink: the members of its sink record (`delivery.sinks.SinkRecord`); None
    if its firings are dispatched.
    """

    subscription: str
    condition: dict[str, Any]
    since_ms: int
    since_given: bool
    max_keys: int
    at_limit: AtLimit
    sink: dict[str, Any] | None = None

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

    def has_same_meaning(self, registered: Registration) -> bool:
        """Whether the registration has the same meaning; limits may differ."""
        same_since = not self.since_given or registered.since_ms == self.since_ms
        return same_since and self.registration(registered.since_ms).incarnation == registered.incarnation

    def has_sink(self, written: bytes | None) -> bool:
        """Whether the sink record has this value, in any version. True for a subscription without a sink."""
        if self.sink is None:
            return True
        try:
            found = msgspec.json.decode(written or b"null")
        except UNREADABLE:
            return False
        return isinstance(found, dict) and {**found, "v": 0} == {**self.sink, "v": 0}

    def sink_value(self, version: int) -> bytes:
        return msgspec.json.encode({**(self.sink or {}), "v": version}, order="deterministic")


@dataclass(eq=False)
class Stream:
    """A dispatcher that takes a subscription's firings. `deliver` is called in the waits' thread.

    state: opened (not registered yet), sent (to the registry), served (registered), cancelled, or replaced.
    """

    durable: Durable
    deliver: Deliver
    state: Literal["opened", "sent", "served", "cancelled", "replaced"] = "opened"
    sent_at: float = 0.0
    sink_sent_at: float | None = None
    sink: bytes | None = None  # the value of its sink record, once it was read
    incarnation: str = ""  # of the stream's registration
    registered: bool = False  # whether the registry ever had the stream's registration

    def has_sink(self, written: bytes | None) -> bool:
        """As `Durable.has_sink`, which decodes the value."""
        if written is not None and written is self.sink:
            return True
        same = self.durable.has_sink(written)
        self.sink = written if same else None
        return same


class Dispatching:
    """The open streams of this process. `open`, `close`, `take` and `is_replaced` are thread-safe.

    The other methods run in the waits' thread, which reads the topics.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._streams: dict[str, list[Stream]] = {}
        self._open = OpenFirings()
        self._read_to_end = False  # the topics, since `begin`
        self._reading_again: set[str] = set()  # subscriptions whose firings that did not fit are being read

    def open(self, durable: Durable, deliver: Deliver) -> Stream:
        """Register the subscription unless it is registered. `deliver` is called when there may be firings.

        Of several streams of one subscription only the last opened one takes firings, until it is closed:
        Airflow starts an edited trigger before it ends the one that it replaces.
        """
        stream = Stream(durable, deliver)
        with self._lock:
            self._streams.setdefault(durable.subscription, []).append(stream)
        return stream

    @property
    def in_use(self) -> bool:
        """Whether a stream is open."""
        with self._lock:
            return bool(self._streams)

    def close(self, stream: Stream) -> None:
        """Close the stream. The durable registration stays."""
        with self._lock:
            streams = self._streams.get(stream.durable.subscription, [])
            was_last = streams[-1:] == [stream]
            if stream in streams:
                streams.remove(stream)
            if streams and was_last:
                streams[-1].state = "opened"
            if not streams:
                self._streams.pop(stream.durable.subscription, None)

    def take(
        self,
        stream: Stream,
        most: int,
        without: Collection[tuple[int, int]] = (),
        gone: Collection[tuple[int, int]] = (),
    ) -> list[FiringRef]:
        """The first open firings, also of earlier conditions. Repeats them until they are acknowledged.

        without: (partition, offset) pairs to leave out. gone: pairs for which `read` found no record.
        """
        name = stream.durable.subscription
        with self._lock:
            if self._is_replaced(stream) or not self._read_to_end or name in self._reading_again:
                return []
            self._open.forget(name, gone)
            return self._open.oldest(name, most, without)

    def is_replaced(self, stream: Stream) -> bool:
        """Whether a later stream, or a registration with another meaning, has replaced this stream."""
        with self._lock:
            return self._is_replaced(stream)

    def _is_replaced(self, stream: Stream) -> bool:
        last = self._streams.get(stream.durable.subscription, [])[-1:]
        return stream.state == "replaced" or last != [stream]

    # -- in the waits' thread

    def dispatched_incarnations(self) -> list[str]:
        """The incarnations that are dispatched here. Leases name them, so commands can show the process."""
        with self._lock:
            return [stream.incarnation for stream in self._newest_streams() if stream.state == "served"]

    def begin(self) -> None:
        """Reset: the topics are about to be read from their starts."""
        with self._lock:
            self._open, self._read_to_end, self._reading_again = OpenFirings(), False, set()
            for stream in self._newest_streams():
                stream.sink_sent_at = None
                if stream.state not in ("cancelled", "replaced"):
                    stream.state = "opened"

    def follow(self, record: Record) -> None:
        """Process the next record of the action topic."""
        with self._lock:
            name = self._open.follow(record)
            streams = [s for s in self._streams.get(name or "", [])[-1:] if s.state == "served"]
            streams = [s for s in streams if s.durable.sink is None]
        for stream in streams:
            _deliver(stream, MORE_FIRINGS)

    def serve(self, registry: Registry, registrations: RegistrationWriter, clients: Clients) -> None:
        """Called when the topics are read to their ends: register streams, read firings that did not fit."""
        self._read_to_end = True
        if not self._streams:
            return
        with self._lock:
            streams = self._newest_streams()
        for stream in streams:
            self._advance(stream, registry, registrations)
        for name in {
            s.durable.subscription for s in streams if s.state == "served" and s.durable.sink is None
        }:
            with self._lock:
                starts = self._open.take_left_out(name)
                if starts:
                    self._reading_again.add(name)
            if starts:
                self._read_again(name, starts, clients)

    def _newest_streams(self) -> list[Stream]:
        return [streams[-1] for streams in self._streams.values()]

    def _advance(self, stream: Stream, registry: Registry, registrations: RegistrationWriter) -> None:
        """Advance the stream's state: register it, or find that it is registered, cancelled or replaced."""
        durable, now = stream.durable, self._monotonic()
        found, sink = registry.by_name(durable.subscription), registry.sinks.get(durable.subscription)
        has_sink = stream.has_sink(sink)
        if has_sink and found is not None:
            if stream.state == "served" and stream.incarnation == found.incarnation:
                return
            if durable.has_same_meaning(found.registration):
                _set_limits(durable, found, registry, registrations)
                stream.state, stream.incarnation, stream.registered = "served", found.incarnation, True
                _deliver(stream, MORE_FIRINGS)
                return
        if stream.state in ("served", "cancelled"):
            before, stream.state = stream.state, "cancelled" if found is None else "replaced"
            if stream.state != before:
                _deliver(stream, Notice(_why_ended(durable.subscription, found, sink, has_sink)))
        elif stream.state == "replaced":
            return
        elif not has_sink:
            if _is_due(stream.sink_sent_at, now):
                stream.sink_sent_at = now
                value = durable.sink_value(registry.version)
                registrations.write_sink(durable.subscription, value, lambda why: _refused(stream, why))
        elif stream.state == "opened" or _is_due(stream.sent_at, now):
            if found is not None and stream.state == "opened":
                log.warning(
                    "%r gets another condition: pending matches of the previous condition are dropped.",
                    durable.subscription,
                )
            stream.state, stream.sent_at = "sent", now
            registrations.register(
                durable.registration(), registry.version, lambda why: _refused(stream, why)
            )

    def _read_again(self, name: str, starts: Mapping[TopicPartition, int], clients: Clients) -> None:
        """Runs in the waits' thread, which reads no topic meanwhile, so no record is missed.

        If it hangs, another thread takes over and calls `begin`. So this one adds only to earlier objects.
        """
        with self._lock:
            firings, reading = self._open, self._reading_again
        try:
            for record in read_from(clients, starts):
                if (record.key or b"").startswith(f"{name}\0".encode()):
                    with self._lock:
                        firings.follow(record)
        finally:
            with self._lock:
                reading.discard(name)
                streams = self._streams.get(name, [])[-1:]
        for stream in streams:
            _deliver(stream, MORE_FIRINGS)


def _is_due(sent_at: float | None, now: float) -> bool:
    """Whether to send a record, or to send it again because the registry does not show it."""
    return sent_at is None or now - sent_at >= REGISTER_AGAIN_S


def _why_ended(subscription: str, found: Registered | None, sink: bytes | None, has_sink: bool) -> str:
    if found is None:
        return f"Subscription {subscription!r} was cancelled."
    if has_sink:
        return f"Subscription {subscription!r} has another condition now."
    return f"The sink of {subscription!r} {'was removed' if sink is None else 'has other options now'}."


def _set_limits(
    durable: Durable, found: Registered, registry: Registry, registrations: RegistrationWriter
) -> None:
    """If the limits differ, register the same incarnation again with the new ones."""
    if (found.registration.max_keys, found.registration.at_limit) != (durable.max_keys, durable.at_limit):
        again = durable.registration(found.registration.since_ms)
        registrations.register(
            again, registry.version, lambda why: log.error("%r keeps its limits: %s", again.subscription, why)
        )


def _refused(stream: Stream, why: str) -> None:
    text = f"{stream.durable.subscription!r} could not be registered: {why}. Interlock retries it."
    log.error("%s", text)
    _deliver(stream, Notice(text))


def _deliver(stream: Stream, item: MoreFirings | Notice) -> None:
    try:
        stream.deliver(item)
    except Exception as e:  # noqa: BLE001  # its event loop may be closed; the others continue
        log.warning("A message did not reach the trigger of %r: %s", stream.durable.subscription, e)
