"""The waits of a process: registers what tasks wait for, and delivers their firings from the action topic.

Waits and engines communicate only through topics, so the engines may run in any process.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from ..bus import Clients, End, Record, TopicPartition
from ..config import BusConfig
from ..errors import RecordError
from ..kafka.wait_clients import KafkaClients
from ..log import log
from ..records import ActionRecord, Registration, decode_json
from ..registry.first_read import FirstRead
from ..registry.pause import ReadPause
from ..registry.registry import Registered, Registry
from .dispatching import Dispatching
from .environment import WaitEnvironment
from .latest_firings import FiringRef, LatestFirings, fetch
from .lease_writer import ProcessLeases
from .notices import Notice, NoticeBoard
from .registration_writer import RegistrationWriter

TAKE = 2000
TAKE_TIMEOUT_S = 0.05  # the longest that a new wait is queued before it is registered
REGISTER_AGAIN_S = 30.0
MOST_MISSES = 50  # attempts to read a firing whose record is gone; meanwhile its successor should arrive
PROBE_S = 5.0
COMPONENT = "The waits"  # on the notice board; the runtime uses it for the same thread


class FiringForWait(NamedTuple):
    """A firing for a wait, and the registry keys that its acknowledgement removes."""

    action: ActionRecord
    registration_keys: tuple[str, ...]


Deliver: TypeAlias = Callable[[FiringForWait | Notice], None]
Accepts: TypeAlias = Callable[[ActionRecord], bool]


@dataclass(eq=False)
class Wait:
    """An open wait. `deliver` is called in the waits' thread and must not block.

    `accepts`: whether the wait takes a firing of another incarnation; called once. `checked_firings`: whether
    the firing that the topic had when the wait was opened has been delivered; also True if there was none.
    `misses`: how often that firing's record could not be found.
    """

    registration: Registration
    deliver: Deliver
    accepts: Accepts | None = None
    checked_firings: bool = False
    registered_at: float | None = None  # when it was registered, or last seen in the registry
    misses: int = 0
    own_keys: set[str] = field(default_factory=set)  # written here; the registry may not have them yet


@dataclass
class _TopicsRead:
    """What one connection has read of the topics. `first`: set until the registry is read to its end."""

    registry: Registry = field(default_factory=Registry)
    firings: LatestFirings = field(default_factory=LatestFirings)
    unread: set[TopicPartition] = field(default_factory=set)
    first: FirstRead | None = field(init=False)

    def __post_init__(self) -> None:
        self.first = FirstRead(self.registry)

    def follow(self, item: Record | End) -> list[Registered]:
        """Process the registry's next item. Returns removals, but none until the first read to the end."""
        if self.first is None:
            return self.registry.apply(item).removed
        self.first.take(item)
        if isinstance(item, End):
            self.first.finish()
            self.first = None
        return []


class Waits:
    """The open waits of this process. `open` and `close` may be called from any thread.

    `dispatching`: the firings of durable subscriptions, from the same topics. `delivered`: how many firings
    waits have got. `clients`: of the current connection.

    `run` is the thread's loop: it connects, follows the topics, and raises EngineError if the connection
    fails. The caller runs it again, with another config if need be; open waits stay open. A run that hung
    ends, and leaves everything as it is, once another thread runs the loop.
    """

    def __init__(
        self,
        config: BusConfig,
        board: NoticeBoard,
        clients: Callable[[BusConfig], Clients] = KafkaClients,
        environment: WaitEnvironment = WaitEnvironment(),  # noqa: B008  # immutable
    ) -> None:
        self._config, self._board = config, board
        self._connect, self.clients = clients, clients(config)
        self._environment, self._monotonic = environment, environment.monotonic
        self.dispatching = Dispatching(self._monotonic)
        self._lock = threading.Lock()
        self._opened: deque[Wait] = deque()
        self._withdrawn: deque[Wait] = deque()
        self._waits: dict[str, list[Wait]] = {}  # by incarnation
        self._topics = _TopicsRead()
        self.delivered = 0
        self._leases = ProcessLeases(f"{config.deployment}-{environment.nonce()}")

    def open(self, registration: Registration, deliver: Deliver, accepts: Accepts | None = None) -> Wait:
        """Register the subscription unless it is registered, and deliver its firing.

        If the topic has a firing already, it is delivered at once: a repeated wait gets the same firing.
        accepts: whether the wait takes the firing of another incarnation of the subscription.
        """
        wait = Wait(registration, deliver, accepts)
        with self._lock:
            self._waits.setdefault(registration.incarnation, []).append(wait)
            self._opened.append(wait)
        self._board.listen(wait, deliver)
        return wait

    @property
    def in_use(self) -> bool:
        """Whether a wait or a dispatcher's stream is open."""
        with self._lock:
            return bool(self._waits) or self.dispatching.in_use

    def close(self, wait: Wait) -> None:
        """Stop delivering. The registration stays, because another triggerer may already wait on it."""
        self._board.stop_listening(wait)
        with self._lock:
            together = self._waits.get(wait.registration.incarnation, [])
            if wait in together:
                together.remove(wait)
            if not together:
                self._waits.pop(wait.registration.incarnation, None)

    def withdraw(self, wait: Wait) -> None:
        """Close the wait and remove its registration, in the next passes."""
        self.close(wait)
        with self._lock:
            self._withdrawn.append(wait)

    def registration_keys(self, wait: Wait) -> tuple[str, ...]:
        """The registry keys of all registrations of this wait's subscription."""
        keys = self._topics.registry.keys(wait.registration.subscription)
        return tuple(sorted(wait.own_keys.union(key.decode() for key in keys)))

    def run(
        self,
        stop: threading.Event,
        config: BusConfig | None = None,
        on_healthy: Callable[[], None] = lambda: None,
    ) -> None:
        """Follow the topics until `stop`. Raises EngineError if the bus cannot be used.

        config: used from now on. on_healthy: called in each pass in which the topics are read to their ends.
        """
        self._config = config or self._config
        self.clients = clients = self._connect(self._config)
        counts = clients.check()
        followed = _TopicsRead()
        partitions = [TopicPartition(self._config.topic("subscription"), 0)]
        action = self._config.topic("action")
        partitions += [TopicPartition(action, p) for p in range(counts[action])]
        followed.unread.update(partitions)
        reader = clients.reader()
        try:
            registrations = RegistrationWriter(
                self._config,
                clients.writer(),
                self._leases,
                self._environment,
            )
            reader.read(dict.fromkeys(partitions, 0))
            with self._lock:
                self._topics = followed
                self._opened.clear()
                self._opened.extend(w for together in self._waits.values() for w in together)
                for together in self._waits.values():
                    for wait in together:
                        wait.registered_at = None
            self.dispatching.begin()
            probed = self._monotonic()
            pause = ReadPause(partitions[0], self._environment.clock, self._monotonic)

            def is_over() -> bool:
                """Called after each call that may hang: by then another thread may run these waits."""
                return stop.is_set() or registrations.is_replaced

            while not is_over():
                items = reader.take(TAKE, TAKE_TIMEOUT_S)
                if is_over():
                    break
                pause.check()  # after a long pause removals of registrations may have been missed
                for item in items:
                    self._follow(item)
                if followed.first is None:
                    followed.registry.require_known()
                if not followed.unread:
                    self._serve_opened(registrations)
                    if is_over():
                        break
                    self._serve_withdrawn(registrations)
                    self.dispatching.serve(followed.registry, registrations, clients)
                    if is_over():
                        break
                    on_healthy()
                registrations.serve()
                if self._monotonic() - probed > PROBE_S:
                    probed = self._monotonic()
                    self._probe(registrations)
                    self.register_again()
                    if followed.first is None:  # before, the version to write is not known
                        self._lease(registrations)
            if not registrations.is_replaced:
                registrations.close(followed.registry if followed.first is None else None)
        finally:
            reader.close()

    def _follow(self, item: Record | End) -> None:
        followed = self._topics
        if isinstance(item, End):
            followed.unread.discard(item.source)
        if item.source.topic == self._config.topic("subscription"):
            self._open_again(followed.follow(item))
        elif isinstance(item, Record):
            self.follow_firing(item)

    def _open_again(self, removed: list[Registered]) -> None:
        """Register again what was removed, such as by an earlier triggerer, if a wait for it is open here.

        Do not if another incarnation replaced it: then the task was cleared or its DAG edited, and this wait
        is about to be closed.
        """
        for registered in removed:
            if self._topics.registry.successor(registered.incarnation) is None:
                with self._lock:
                    self._opened.extend(self._waits.get(registered.incarnation, ()))

    def follow_firing(self, record: Record) -> None:
        """Process the action topic's next record: deliver a firing to the waits that are open for it."""
        self.dispatching.follow(record)
        ref = self._topics.firings.follow(record)
        if ref is None or self._topics.unread:
            return  # delivered after the registry is read, because the task must know the keys to remove
        with self._lock:
            waits = list(self._waits.get(ref.incarnation, ()))
        for wait in waits:
            self.deliver_firing(wait, record.value or b"", str(record))

    def _serve_opened(self, registrations: RegistrationWriter) -> None:
        """Deliver or register the waits that were opened since the last pass."""
        fired: dict[FiringRef, list[Wait]] = {}
        with self._lock:
            opened = [w for w in self._opened if w in self._waits.get(w.registration.incarnation, ())]
            self._opened.clear()
        for wait in opened:
            registration = wait.registration
            ref = self.newest_firing(registration.subscription)
            if ref is not None and (wait.accepts or ref.incarnation == registration.incarnation):
                fired.setdefault(ref, []).append(wait)
                continue
            wait.registered_at = self._monotonic()
            if self._topics.registry.get(registration.incarnation) is None:
                self._register(wait, registrations)
            wait.checked_firings = True
        if fired:
            self._deliver_earlier(fired, registrations)

    def newest_firing(self, subscription: str) -> FiringRef | None:
        """The subscription's newest firing in the action topic, of any incarnation."""
        return self._topics.firings.newest(subscription)

    def _deliver_earlier(self, fired: dict[FiringRef, list[Wait]], registrations: RegistrationWriter) -> None:
        """Deliver firings that were written before these waits were opened."""
        for ref, value in fetch(self.clients, fired, self._monotonic):
            if registrations.is_replaced:
                return  # the other thread serves all open waits, and may not know their keys yet
            for wait in fired[ref]:
                if value is None:
                    # A later record of its key is about to arrive; or retention has removed the record, and
                    # the wait registers again and finds its events.
                    wait.misses += 1
                    if wait.misses >= MOST_MISSES:
                        self._topics.firings.forget(wait.registration.subscription, ref)
                    self._opened.append(wait)
                    continue
                if ref.incarnation != wait.registration.incarnation and not self._accepts(wait, ref, value):
                    wait.accepts = None
                    self._opened.append(wait)
                    continue
                self.deliver_firing(wait, value, ref.place)
                wait.checked_firings = True

    @staticmethod
    def _accepts(wait: Wait, ref: FiringRef, value: bytes) -> bool:
        """Whether the wait accepts this firing of another incarnation."""
        try:
            action = decode_json(ActionRecord, value, _named(wait, ref.place))
        except RecordError as e:
            log.error("%s", e)
            return False
        return wait.accepts is not None and wait.accepts(action)

    def _serve_withdrawn(self, registrations: RegistrationWriter) -> None:
        """Remove the registrations of the waits that were withdrawn since the last pass.

        Only those of their own incarnation: a cleared task may already have registered another one.
        """
        with self._lock:
            withdrawn = [w for w in self._withdrawn if w.registration.incarnation not in self._waits]
            self._withdrawn.clear()
        for wait in withdrawn:
            own = f"{wait.registration.incarnation}:"
            for key in self.registration_keys(wait):
                if key.startswith(own):
                    registrations.remove(key)

    def _register(self, wait: Wait, registrations: RegistrationWriter) -> None:
        key = registrations.register(
            wait.registration,
            self._topics.registry.version,
            lambda reason: self._not_registered(wait, reason),
        )
        if key is not None:
            wait.own_keys.add(key)

    def _lease(self, registrations: RegistrationWriter) -> None:
        with self._lock:
            waited = set(self._waits)
        waited.update(self.dispatching.dispatched_incarnations())
        registrations.lease(waited, self._topics.registry)

    def _not_registered(self, wait: Wait, reason: str) -> None:
        text = f"{wait.registration.subscription!r} could not be registered: {reason}. Interlock retries it."
        log.error("%s", text)
        self._deliver(wait, Notice(text))

    def register_again(self) -> None:
        """Register again what the registry does not contain after REGISTER_AGAIN_S."""
        now = self._monotonic()
        with self._lock:
            for together in self._waits.values():
                for wait in together:
                    sent = wait.registered_at
                    known = self._topics.registry.get(wait.registration.incarnation) is not None
                    if known:
                        wait.registered_at = now
                    elif sent is not None and now - sent > REGISTER_AGAIN_S:
                        wait.registered_at = None
                        self._opened.append(wait)

    def deliver_firing(self, wait: Wait, value: bytes, place: str) -> None:
        """Deliver a firing, as the action topic has it at this place.

        If it cannot be read the wait gets a notice, and gets the firing from a process that can read it.
        """
        try:
            action = decode_json(ActionRecord, value, _named(wait, place))
        except RecordError as e:
            log.error("%s", e)
            self._deliver(wait, Notice(str(e)))
            return
        self.delivered += 1
        self._deliver(wait, FiringForWait(action, self.registration_keys(wait)))

    @staticmethod
    def _deliver(wait: Wait, item: FiringForWait | Notice) -> None:
        try:
            wait.deliver(item)
        except Exception as e:  # noqa: BLE001  # its event loop may be closed; the other waits continue
            log.warning(
                "A firing or notice did not reach the wait of %r: %s", wait.registration.subscription, e
            )

    def _probe(self, registrations: RegistrationWriter) -> None:
        """If a client has reported an error, check the cluster and post the outage, or its end."""
        if self.clients.has_error:
            self._board.post(COMPONENT, registrations.outage())


def _named(wait: Wait, place: str) -> str:
    return f"The firing of {wait.registration.subscription!r}, {place},"
