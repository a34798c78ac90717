"""The waiters' side: registers what tasks wait for, and follows the action topic for their firings.

It meets the engine only in topics, so it works the same wherever the engine that decides runs.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec

from .bus import End, Record, TopicPartition
from .config import BusConfig
from .errors import RecordError, UnreachableError
from .kafka.clients import ClientErrors, connect
from .kafka.reader import KafkaReader
from .kafka.topics import check
from .log import log
from .notices import Notice, NoticeBoard
from .protocol.registry import Registry
from .records import (
    ActionRecord,
    LeaseRecord,
    Registration,
    RegistrationKey,
    decode_json,
    encode_json,
)

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Producer

TAKE = 2000
TAKE_TIMEOUT_S = 0.05  # how long a new wait may stand in the queue before it is registered
REGISTER_AGAIN_S = 30.0
LEASE_S = 300.0  # beside a day, after which a registration that no lease names is removed
PROBE_S = 5.0
FLUSH_S = 1.0
FETCH_S = 10.0
PART = "The waits"  # as the runtime calls this thread: its next life takes back what ended the last one


class Delivery(NamedTuple):
    """The firing of a wait, and the registry keys to null when it is acknowledged."""

    action: ActionRecord
    registration_keys: tuple[str, ...]


Deliver: TypeAlias = Callable[[Delivery | Notice], None]


@dataclass(eq=False)
class Wait:
    """One open wait; `deliver` is called in the waits' thread and must not block.

    `looked`: a firing that was there when the wait was opened has been delivered.
    """

    registration: Registration
    deliver: Deliver
    looked: bool = False
    registered_at: float | None = None  # or seen in the registry
    own_keys: set[str] = field(default_factory=set)  # registered here; the registry may show them later


class _ActionHead(msgspec.Struct):
    """The part of an action record that tells whose it is."""

    incarnation: str


class _Place(NamedTuple):
    """Where the newest firing of a subscription stands. The firings themselves are not kept in memory."""

    incarnation: str
    source: TopicPartition
    offset: int


@dataclass
class _Followed:
    """What was read so far; made anew with each connection."""

    registry: Registry = field(default_factory=Registry)
    actions: dict[str, _Place] = field(default_factory=dict)  # by subscription
    unread: set[TopicPartition] = field(default_factory=set)


class Waits:
    """The open waits of this process. `open` and `close` may be called from any thread.

    `run` is the thread's life: it connects, follows the topics, and raises an EngineError when the
    connection is no good; the caller runs it again, with another config if need be. Open waits stay open
    through that.
    """

    def __init__(self, config: BusConfig, board: NoticeBoard) -> None:
        self._config, self._board = config, board
        self._errors = ClientErrors()
        self._lock = threading.Lock()
        self._opened: deque[Wait] = deque()
        self._waits: dict[str, list[Wait]] = {}  # by incarnation
        self._followed = _Followed()
        self._process = f"{config.deployment}-{uuid.uuid4().hex[:12]}"  # as its leases are named
        self._leased_at = -LEASE_S

    def open(self, registration: Registration, deliver: Deliver) -> Wait:
        """Register, unless that is done already, and deliver the firing once it is there.

        A firing that was there before is delivered at once: whoever waits again gets the same one.
        """
        wait = Wait(registration, deliver)
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
        from confluent_kafka import Producer

        self._config = config or self._config
        self._errors = errors = ClientErrors()
        counts = check(self._config)
        followed = _Followed()
        partitions = [TopicPartition(self._config.topic("subscription"), 0)]
        action = self._config.topic("action")
        partitions += [TopicPartition(action, p) for p in range(counts[action])]
        followed.unread.update(partitions)
        reader = KafkaReader(self._config, errors)
        try:
            producer = connect(
                Producer,
                self._config,
                errors,
                enable_idempotence=True,
                acks="all",
                linger_ms=5,
                compression_type="lz4",
            )
            reader.read(dict.fromkeys(partitions, 0))
            with self._lock:
                self._followed = followed
                self._opened.clear()
                self._opened.extend(w for together in self._waits.values() for w in together)
                for together in self._waits.values():
                    for wait in together:
                        wait.registered_at = None
            probed = time.monotonic()
            while not stop.is_set():
                for item in reader.take(TAKE, TAKE_TIMEOUT_S):
                    self._follow(item)
                if not followed.unread:
                    self._serve_opened(producer)
                    well()
                producer.poll(0)
                if time.monotonic() - probed > PROBE_S:
                    probed = time.monotonic()
                    self._probe(errors, producer)
                    self._register_again()
                    self._lease(producer)
            self._end_lease(producer)
            producer.flush(FLUSH_S)
        finally:
            reader.close()

    def _follow(self, item: Record | End) -> None:
        followed = self._followed
        if isinstance(item, End):
            followed.unread.discard(item.source)
        if item.source.topic == self._config.topic("subscription"):
            followed.registry.apply(item)
        elif isinstance(item, Record):
            self._follow_action(item)

    def _follow_action(self, record: Record) -> None:
        subscription = (record.key or b"").decode("utf-8", "replace")
        if record.value is None:
            self._followed.actions.pop(subscription, None)
            return
        if "\0" in subscription:
            return  # a firing of a durable subscription, which no task waits for
        try:
            head = msgspec.json.decode(record.value, type=_ActionHead)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as e:
            log.error("%s holds no valid ActionRecord, nobody is told of it: %s", record, e)
            return
        self._followed.actions[subscription] = _Place(head.incarnation, record.source, record.offset)
        if self._followed.unread:
            return  # delivered when the registry is read, which tells what the task must remove
        with self._lock:
            waits = list(self._waits.get(head.incarnation, ()))
        for wait in waits:
            self._deliver(wait, record.value)

    def _serve_opened(self, producer: Producer) -> None:
        """Deliver or register the waits that were opened since the last pass."""
        while True:
            with self._lock:
                if not self._opened:
                    return
                wait = self._opened.popleft()
                if wait not in self._waits.get(wait.registration.incarnation, ()):
                    continue
            registration = wait.registration
            place = self._followed.actions.get(registration.subscription)
            if place is not None and place.incarnation == registration.incarnation:
                self._deliver(wait, self._fetch(place))
            else:
                wait.registered_at = time.monotonic()
                if self._followed.registry.get(registration.incarnation) is None:
                    self._register(wait, producer)
            wait.looked = True

    def _fetch(self, place: _Place) -> bytes:
        """The firing at a place: for a wait that was opened after its firing was written."""
        reader = KafkaReader(self._config, self._errors)
        try:
            reader.read({place.source: place.offset})
            deadline = time.monotonic() + FETCH_S
            while time.monotonic() < deadline:
                for item in reader.take(1, 0.5):
                    if isinstance(item, Record) and item.offset == place.offset and item.value is not None:
                        return item.value
                    # A later one of its key took its place meanwhile, and is on its way to this wait.
                    raise UnreachableError(
                        f"The firing at {place.source}@{place.offset} is not there any more."
                    )
        finally:
            reader.close()
        raise UnreachableError(f"The firing at {place.source}@{place.offset} could not be read.")

    def _register(self, wait: Wait, producer: Producer) -> None:
        from confluent_kafka import KafkaException

        def told(error: KafkaError | None, _: object) -> None:
            if error is not None:
                self._not_registered(wait, error.str())

        key = RegistrationKey(wait.registration.incarnation, uuid.uuid4().hex[:12]).encode()
        try:
            registration = wait.registration.in_format(self._followed.registry.format)
        except RecordError as e:  # told again until the bus is upgraded
            self._not_registered(wait, str(e))
            return
        while True:
            try:
                producer.produce(
                    self._config.topic("subscription"),
                    encode_json(registration),
                    key,
                    partition=0,
                    on_delivery=told,
                )
                break
            except BufferError:
                producer.poll(0.1)
            except KafkaException as e:
                if e.args[0].fatal():
                    raise UnreachableError(f"The producer of registrations failed: {e.args[0].str()}.") from e
                self._not_registered(wait, e.args[0].str())
                return
        wait.own_keys.add(key.decode())

    def _lease(self, producer: Producer) -> None:
        """Say now and then what is waited for here; else it would be taken for forgotten after a day."""
        now = time.monotonic()
        if now - self._leased_at < LEASE_S:
            return
        with self._lock:
            incarnations = sorted(self._waits)
        if not incarnations and self._leased_at < 0:
            return
        lease = LeaseRecord(
            v=self._followed.registry.format,
            deployment=self._config.deployment,
            incarnations=incarnations,
        )
        if self._produce(producer, self._lease_key, encode_json(lease)):
            self._leased_at = now

    def _end_lease(self, producer: Producer) -> None:
        if self._leased_at >= 0:
            self._produce(producer, self._lease_key, None)
            self._leased_at = -LEASE_S

    @property
    def _lease_key(self) -> bytes:
        return f"lease/{self._process}".encode()

    def _produce(self, producer: Producer, key: bytes, value: bytes | None) -> bool:
        """A record of the registry whose loss costs nothing: it is written again."""
        from confluent_kafka import KafkaException

        try:
            producer.produce(self._config.topic("subscription"), value, key, partition=0)
        except (BufferError, KafkaException) as e:
            log.warning("A lease could not be written, which is tried again: %s", e)
            return False
        return True

    def _not_registered(self, wait: Wait, reason: str) -> None:
        text = f"{wait.registration.subscription!r} cannot be registered, which is tried again: {reason}."
        log.error("%s", text)
        self._tell(wait, Notice(text))

    def _register_again(self) -> None:
        """A registration that the registry does not show after a while was not delivered: once more."""
        now = time.monotonic()
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
        self._tell(wait, Delivery(action, self.registration_keys(wait)))

    @staticmethod
    def _tell(wait: Wait, item: Delivery | Notice) -> None:
        try:
            wait.deliver(item)
        except Exception as e:  # noqa: BLE001  # its event loop may be closed; the other waits go on
            log.warning("%r could not be told: %s", wait.registration.subscription, e)

    def _probe(self, errors: ClientErrors, producer: Producer) -> None:
        """A client that lost its broker says so only in passing: ask, and tell the waiting tasks."""
        if errors.last is None:
            return
        from confluent_kafka import KafkaException

        try:
            producer.list_topics(timeout=2.0)
        except KafkaException as e:
            self._board.post(PART, str(errors.unreachable(self._config, e.args[0].str())))
        else:
            errors.clear()
            self._board.post(PART, None)
