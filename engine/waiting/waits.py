"""The waiters' side: registers what tasks wait for, and follows the action topic for their firings.

It meets the engine only in topics, so it works the same wherever the engine that decides runs.
"""

from __future__ import annotations

import threading
import time
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
from ..registry.pause import Pause
from ..registry.registry import Registered, Registry
from .dispatching import Dispatching
from .latest_firings import Actions, Place, fetch
from .notices import Notice, NoticeBoard
from .registration_writer import Registering, nonce

TAKE = 2000
TAKE_TIMEOUT_S = 0.05  # how long a new wait may stand in the queue before it is registered
REGISTER_AGAIN_S = 30.0
MOST_MISSES = 50  # of a firing whose place was followed; in between its successor has surely come
PROBE_S = 5.0
PART = "The waits"  # as the runtime calls this thread: its next life takes back what ended the last one


class Delivery(NamedTuple):
    """The firing of a wait, and the registry keys to null when it is acknowledged."""

    action: ActionRecord
    registration_keys: tuple[str, ...]


Deliver: TypeAlias = Callable[[Delivery | Notice], None]
Serves: TypeAlias = Callable[[ActionRecord], bool]


@dataclass(eq=False)
class Wait:
    """One open wait; `deliver` is called in the waits' thread and must not block.

    `serves`: whether the firing of another incarnation will do as well; asked once. `looked`: a firing that
    was there when the wait was opened has been delivered.
    """

    registration: Registration
    deliver: Deliver
    serves: Serves | None = None
    looked: bool = False
    registered_at: float | None = None  # or seen in the registry
    misses: int = 0
    own_keys: set[str] = field(default_factory=set)  # registered here; the registry may show them later


@dataclass
class _Followed:
    """What was read so far; made anew with each connection. `first`: until the registry is read once."""

    registry: Registry = field(default_factory=Registry)
    actions: Actions = field(default_factory=Actions)
    unread: set[TopicPartition] = field(default_factory=set)
    first: FirstRead | None = field(init=False)

    def __post_init__(self) -> None:
        self.first = FirstRead(self.registry)

    def follow(self, item: Record | End) -> list[Registered]:
        """Take the next of the registry; what it removed, once the registry was read to an end."""
        if self.first is None:
            return self.registry.apply(item).removed
        self.first.take(item)
        if isinstance(item, End):
            self.first.finish()
            self.first = None
        return []


class Waits:
    """The open waits of this process. `open` and `close` may be called from any thread.

    `dispatching`: the firings of durable subscriptions, from the same topics.

    `run` is the thread's life: it connects, follows the topics, and raises an EngineError when the
    connection is no good; the caller runs it again, with another config if need be. Open waits stay open
    through that.

    clients: of a connection. clock, monotonic: seconds. nonce: a name that nobody else has.
    """

    def __init__(
        self,
        config: BusConfig,
        board: NoticeBoard,
        *,
        clients: Callable[[BusConfig], Clients] = KafkaClients,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        nonce: Callable[[], str] = nonce,
    ) -> None:
        self._config, self._board = config, board
        self._connect, self._clients = clients, clients(config)
        self._clock, self._monotonic, self._nonce = clock, monotonic, nonce
        self.dispatching = Dispatching()
        self._lock = threading.Lock()
        self._opened: deque[Wait] = deque()
        self._withdrawn: deque[Wait] = deque()
        self._waits: dict[str, list[Wait]] = {}  # by incarnation
        self._followed = _Followed()
        self.delivered = 0  # firings that were given to their waits
        self._process = f"{config.deployment}-{nonce()}"

    def open(self, registration: Registration, deliver: Deliver, serves: Serves | None = None) -> Wait:
        """Register, unless that is done already, and deliver the firing once it is there.

        A firing that was there before is delivered at once: whoever waits again gets the same one. serves:
        whether that of another incarnation of the subscription will do as well.
        """
        wait = Wait(registration, deliver, serves)
        with self._lock:
            self._waits.setdefault(registration.incarnation, []).append(wait)
            self._opened.append(wait)
        self._board.listen(wait, deliver)
        return wait

    def close(self, wait: Wait) -> None:
        """Stop delivering. The registration stays: another triggerer may be waiting on it by now."""
        self._board.ignore(wait)
        with self._lock:
            together = self._waits.get(wait.registration.incarnation, [])
            if wait in together:
                together.remove(wait)
            if not together:
                self._waits.pop(wait.registration.incarnation, None)

    def withdraw(self, wait: Wait) -> None:
        """Close, and remove the registration: nobody is to wait on it any more. Done in the next passes."""
        self.close(wait)
        with self._lock:
            self._withdrawn.append(wait)

    def registration_keys(self, wait: Wait) -> tuple[str, ...]:
        """The registry keys to null so that nothing is registered for this wait's subscription any more."""
        keys = self._followed.registry.keys(wait.registration.subscription)
        return tuple(sorted(wait.own_keys.union(key.decode() for key in keys)))

    def run(
        self,
        stop: threading.Event,
        config: BusConfig | None = None,
        well: Callable[[], None] = lambda: None,
    ) -> None:
        """Follow the topics until told to stop; EngineError when the bus cannot be used.

        config: from now on. well: called in each pass in which the topics are read to their ends.
        """
        self._config = config or self._config
        self._clients = clients = self._connect(self._config)
        counts = clients.check()
        followed = _Followed()
        partitions = [TopicPartition(self._config.topic("subscription"), 0)]
        action = self._config.topic("action")
        partitions += [TopicPartition(action, p) for p in range(counts[action])]
        followed.unread.update(partitions)
        reader = clients.reader()
        try:
            registering = Registering(
                self._config,
                clients.writer(),
                self._process,
                monotonic=self._monotonic,
                nonce=self._nonce,
            )
            reader.read(dict.fromkeys(partitions, 0))
            with self._lock:
                self._followed = followed
                self._opened.clear()
                self._opened.extend(w for together in self._waits.values() for w in together)
                for together in self._waits.values():
                    for wait in together:
                        wait.registered_at = None
            self.dispatching.begin()
            probed = self._monotonic()
            pause = Pause(partitions[0], self._clock, self._monotonic)
            while not stop.is_set():
                items = reader.take(TAKE, TAKE_TIMEOUT_S)
                pause.look()  # else a removed registration would be taken for one that stands
                for item in items:
                    self._follow(item)
                if not followed.unread:
                    self._serve_opened(registering)
                    self._serve_withdrawn(registering)
                    self.dispatching.serve(self._followed.registry, registering, clients)
                    well()
                registering.serve()
                if self._monotonic() - probed > PROBE_S:
                    probed = self._monotonic()
                    self._probe(registering)
                    self._register_again()
                    self._lease(registering)
            registering.close()
        finally:
            reader.close()

    def _follow(self, item: Record | End) -> None:
        followed = self._followed
        if isinstance(item, End):
            followed.unread.discard(item.source)
        if item.source.topic == self._config.topic("subscription"):
            self._open_again(followed.follow(item))
        elif isinstance(item, Record):
            self._follow_action(item)

    def _open_again(self, removed: list[Registered]) -> None:
        """What is waited for here was removed, as by an older triggerer that a wait has left: once more.

        Not where another incarnation took its place: the task was cleared or its DAG edited, and this wait
        is about to be closed.
        """
        for registered in removed:
            if self._followed.registry.successor(registered.incarnation) is None:
                with self._lock:
                    self._opened.extend(self._waits.get(registered.incarnation, ()))

    def _follow_action(self, record: Record) -> None:
        self.dispatching.follow(record)
        place = self._followed.actions.follow(record)
        if place is None or self._followed.unread:
            return  # delivered when the registry is read, which tells what the task must remove
        with self._lock:
            waits = list(self._waits.get(place.incarnation, ()))
        for wait in waits:
            self._deliver(wait, record.value or b"")

    def _serve_opened(self, registering: Registering) -> None:
        """Deliver or register the waits that were opened since the last pass."""
        fired: dict[Place, list[Wait]] = {}
        with self._lock:
            opened = [w for w in self._opened if w in self._waits.get(w.registration.incarnation, ())]
            self._opened.clear()
        for wait in opened:
            registration = wait.registration
            place = self._followed.actions.newest(registration.subscription)
            if place is not None and (wait.serves or place.incarnation == registration.incarnation):
                fired.setdefault(place, []).append(wait)
                continue
            wait.registered_at = self._monotonic()
            if self._followed.registry.get(registration.incarnation) is None:
                self._register(wait, registering)
            wait.looked = True
        if fired:
            self._deliver_again(fired)

    def _deliver_again(self, fired: dict[Place, list[Wait]]) -> None:
        """What these waits are opened for was decided before."""
        for place, value in fetch(self._clients, fired, self._monotonic):
            for wait in fired[place]:
                if value is None:
                    # A later record of its key is about to be followed; or the topic's retention has
                    # removed it, and the wait finds its events again.
                    wait.misses += 1
                    if wait.misses >= MOST_MISSES:
                        self._followed.actions.forget(wait.registration.subscription, place)
                    self._opened.append(wait)
                    continue
                if place.incarnation != wait.registration.incarnation and not self._serves(wait, value):
                    wait.serves = None
                    self._opened.append(wait)
                    continue
                self._deliver(wait, value)
                wait.looked = True

    @staticmethod
    def _serves(wait: Wait, value: bytes) -> bool:
        """Whether the wait takes this firing of another incarnation."""
        try:
            action = decode_json(ActionRecord, value, f"The firing of {wait.registration.subscription!r}")
        except RecordError as e:
            log.error("%s", e)
            return False
        return wait.serves is not None and wait.serves(action)

    def _serve_withdrawn(self, registering: Registering) -> None:
        """Remove the registrations of the waits that were withdrawn since the last pass.

        Only those of their own incarnation: a task that was cleared may have registered another by now.
        """
        with self._lock:
            withdrawn = [w for w in self._withdrawn if w.registration.incarnation not in self._waits]
            self._withdrawn.clear()
        for wait in withdrawn:
            own = f"{wait.registration.incarnation}:"
            for key in self.registration_keys(wait):
                if key.startswith(own):
                    registering.remove(key)

    def _register(self, wait: Wait, registering: Registering) -> None:
        key = registering.register(
            wait.registration,
            self._followed.registry.version,
            lambda reason: self._not_registered(wait, reason),  # told again until it is
        )
        if key is not None:
            wait.own_keys.add(key)

    def _lease(self, registering: Registering) -> None:
        with self._lock:
            incarnations = list(self._waits)
        incarnations += self.dispatching.held()
        registering.lease(incarnations, self._followed.registry.version)

    def _not_registered(self, wait: Wait, reason: str) -> None:
        text = f"{wait.registration.subscription!r} cannot be registered, which is tried again: {reason}."
        log.error("%s", text)
        self._tell(wait, Notice(text))

    def _register_again(self) -> None:
        """A registration that the registry does not show after a while was not delivered: once more."""
        now = self._monotonic()
        with self._lock:
            for together in self._waits.values():
                for wait in together:
                    sent = wait.registered_at
                    known = self._followed.registry.get(wait.registration.incarnation) is not None
                    if known:
                        wait.registered_at = now
                    elif sent is not None and now - sent > REGISTER_AGAIN_S:
                        wait.registered_at = None
                        self._opened.append(wait)

    def _deliver(self, wait: Wait, value: bytes) -> None:
        subscription = wait.registration.subscription
        try:
            action = decode_json(ActionRecord, value, f"The firing of {subscription!r}")
        except RecordError as e:
            log.error("%s", e)
            self._tell(wait, Notice(str(e)))
            return
        self.delivered += 1
        self._tell(wait, Delivery(action, self.registration_keys(wait)))

    @staticmethod
    def _tell(wait: Wait, item: Delivery | Notice) -> None:
        try:
            wait.deliver(item)
        except Exception as e:  # noqa: BLE001  # its event loop may be closed; the other waits go on
            log.warning("%r could not be told: %s", wait.registration.subscription, e)

    def _probe(self, registering: Registering) -> None:
        """A client that lost its broker says so only in passing: ask, and tell the waiting tasks."""
        if self._clients.has_error:
            self._board.post(PART, registering.outage())
