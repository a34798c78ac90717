"""The registry: the registrations in force, computed from the subscription topic's records. No I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final
from weakref import WeakValueDictionary

import msgspec

from ...conditions import Condition, MatcherIndex, canonical_key
from ...events.errors import InterlockError
from ...events.kafka import is_topic
from ..bus import End, Record, TopicPartition
from ..errors import RecordError, UnknownVersion
from ..log import at, log
from ..records import (
    BUS_KEY,
    LEFTOVER,
    BusRecord,
    FailingRecord,
    ProblemRecord,
    Registration,
    RegistrationKey,
    ResumeRecord,
    SourceRecord,
    decode_json,
    is_leftover,
)
from ..records.codec import require_known_version
from ..records.versions import VERSION
from .leases import Leases, is_lease

# The first part of the keys of records that engines do not act on: deliverers and administrators read them.
_NOT_FOR_ENGINES: Final = frozenset((b"sink", b"problem", b"failing"))
_PARTITION: Final = re.compile(r"[0-9]{1,9}")  # `int` refuses more than 4,300 digits


@dataclass(eq=False, slots=True)  # compared and hashed by identity, as the index needs
class Registered:
    """A registration in force. `offset`: of the incarnation's first record; identifies the registration.

    `registration`: from the incarnation's last record; earlier records differ only in their limits.
    """

    registration: Registration
    condition: Condition
    offset: int
    timestamp_ms: int  # of that record, by the brokers' clock; timers of the registration start then
    incarnation: str = field(init=False)  # copied, like `one_shot`: read for each event
    one_shot: bool = field(init=False)

    def __post_init__(self) -> None:
        self.incarnation = self.registration.incarnation
        self.one_shot = self.registration.kind == "one-shot"


@dataclass
class Change:
    """What a registry record changed. `bus`: whether the bus record is another one now.

    `resumed`: the partition of a resume record. `left`: what a lease names no more, with the time at which it
    was last leased.
    """

    added: list[Registered] = field(default_factory=list)
    removed: list[Registered] = field(default_factory=list)
    bus: bool = False
    resumed: TopicPartition | None = None
    left: dict[str, int] = field(default_factory=dict)


def incarnation_of(record: Record) -> str | None:
    """The incarnation of a registration or of its removal.

    None for a record of another kind, and for one that the client could not unpack.
    """
    if record.fault or (record.key or b"").partition(b"/")[2]:  # a lease, or a record about a partition
        return None
    key = RegistrationKey.decode(record.key or b"")
    return None if key is None else key.incarnation


def _without_impossible(record: Record, found: BusRecord) -> BusRecord:
    """The bus record without listed topics whose names no topic can have: no consumer may ask for them."""
    topics = tuple(dict.fromkeys(filter(is_topic, found.topics)))
    if wrong := sorted(set(found.topics).difference(topics)):
        with at(*record.source, record.offset):
            log.error(
                "The bus record lists %r, which no topic can be called: it is left out. `topics add` or "
                "`topics remove` writes the record without it.",
                wrong[0][:80],
            )
    return found if topics == found.topics else msgspec.structs.replace(found, topics=topics)


def _require_own_key(record: Record, incarnation: str, registration: Registration) -> None:
    """Raises RecordError if the key names another incarnation: a null of the key would not remove this."""
    if incarnation != registration.incarnation:
        raise RecordError(
            f"{record}: its key names the incarnation {incarnation!r}, its value "
            f"{registration.incarnation!r}. No Interlock wrote it. To remove it, write a null with its key, "
            f"{record.key!r}, and the header {LEFTOVER[0][0]!r} to the topic."
        )


def _require_indexable(registration: Registration, condition: Condition) -> None:
    """Raises RecordError if an engine's index cannot take the condition.

    Otherwise the registration would end each engine of the bus, again at each start.
    """
    try:
        MatcherIndex.check(condition)
    except Exception as e:
        raise RecordError(
            f"the condition of {registration.subscription!r} cannot be indexed ({type(e).__name__}: {e})."
        ) from e


class Registry:
    """Applies the subscription topic's records in offset order.

    Registering a known incarnation again changes only its limits. Another incarnation of a subscription
    replaces the previous one. A null for any key of an incarnation removes it; its other keys become
    leftovers until they are nulled as well (docs/understand/engine/registry.md "Leftovers"). A damaged record
    is logged and ignored. A record of a version that this release does not read goes into `unknown`: call
    `require_known` before you decide anything.
    """

    # A registration that raises one of these is ignored; other errors end the engine.
    caught: ClassVar[tuple[type[Exception], ...]] = (RecordError, InterlockError)

    def __init__(self) -> None:
        self.position = 0  # offset of the next registry record
        self.bus: BusRecord | None = None
        # Each with its record's offset: a resumption ends with the next source record (see `resumption`).
        self.sources: dict[TopicPartition, tuple[int, SourceRecord]] = {}
        self.resumes: dict[TopicPartition, tuple[int, ResumeRecord]] = {}
        self.problems: dict[TopicPartition, str] = {}
        self.sinks: dict[str, bytes] = {}  # by subscription: the value of its sink record
        # Processes whose engine ends again and again, each with the time of its record.
        self.failing: dict[str, tuple[int, FailingRecord]] = {}
        # {record key: error text} where the newest record has a version that this release does not read, in
        # offset order.
        self.unknown: dict[bytes, str] = {}
        self._by_incarnation: dict[str, Registered] = {}
        self._by_subscription: dict[str, Registered] = {}
        self._order: dict[int, Registered] = {}  # by first offset, in insertion = offset order
        # {subscription: {incarnation: {record key: (offset, timestamp)}}} of all records not removed.
        self._keys: dict[str, dict[str, dict[bytes, tuple[int, int]]]] = {}
        self._leftovers: dict[bytes, tuple[str, int]] = {}  # {record key: (subscription, since when)}
        self._subscription_of: dict[str, str] = {}
        self.leases = Leases()
        self._leased_ms: dict[str, int] = {}  # when an incarnation was leased that `leases` may not name now
        self._failing_ms: dict[bytes, int] = {}  # when a failing record was last written, by record key
        # By JSON form: waits of several runs of a task share one condition, which saves memory.
        self._conditions: WeakValueDictionary[bytes, Condition] = WeakValueDictionary()

    @property
    def version(self) -> int:
        """The version in which records are written: that of the bus record."""
        return VERSION if self.bus is None else self.bus.v

    def require_known(self) -> None:
        """Raises UnknownVersion if a record that engines act on has a version that is not read.

        An engine that ignored a registration, lease, bus, source or resume record would skip events, drop
        states or remove waits. Problem, failing and sink records may be unknown: no engine acts on them.
        """
        for key, text in self.unknown.items():
            if key.partition(b"/")[0] not in _NOT_FOR_ENGINES:
                raise UnknownVersion(text)

    @property
    def is_known(self) -> bool:
        """Whether `require_known` raises nothing."""
        return all(key.partition(b"/")[0] in _NOT_FOR_ENGINES for key in self.unknown)

    def holds_cloudevents(self, topic: str) -> bool:
        """Whether a listed topic holds CloudEvents, as its owner says; if not, its records are plain."""
        return self.bus is not None and topic in self.bus.cloudevents

    def __len__(self) -> int:
        return len(self._by_incarnation)

    def get(self, incarnation: str) -> Registered | None:
        return self._by_incarnation.get(incarnation)

    def by_name(self, subscription: str) -> Registered | None:
        """The registration in force of the subscription with this name."""
        return self._by_subscription.get(subscription)

    def between(self, start: int, end: int) -> list[Registered]:
        """The registrations in force with offsets in [start, end), in order."""
        if start >= end:
            return []
        found = []
        for offset in reversed(self._order):  # callers ask for new ones, at the end
            if offset < start:
                break
            if offset < end:
                found.append(self._order[offset])
        return found[::-1]

    def successor(self, incarnation: str) -> Registered | None:
        """The registration in force of an incarnation's subscription; None if there is none."""
        subscription = self._subscription_of.get(incarnation)
        return None if subscription is None else self._by_subscription.get(subscription)

    def keys(self, subscription: str) -> set[bytes]:
        """The keys of the subscription's records that no null has removed. Nulls for all remove it."""
        return set().union(*self._keys.get(subscription, {}).values())

    def apply(self, item: Record | End) -> Change:
        """Process the next record, or the end of the topic, which moves `position` over gaps.

        Returns what changed; nothing for a record that is ignored, with the reason in the log.
        """
        change = Change()
        if isinstance(item, End):
            self.position = max(self.position, item.offset)
            return change
        self.position = item.offset + 1
        if item.fault:
            with at(*item.source, item.offset):
                log.error("Record %s is ignored: %s", item, item.fault)
            return change
        if self.unknown:
            self.unknown.pop(item.key or b"", None)
        if item.key == BUS_KEY:
            change.bus = self._read_bus_record(item)
            return change
        incarnation = incarnation_of(item)
        if incarnation is None:
            self._read_other(item, change)
            return change
        self._read_registration(incarnation, item, change)
        return change

    def resumption(self, tp: TopicPartition) -> ResumeRecord | None:
        """The resume record of a partition, if no later source record says that it was used."""
        resume = self.resumes.get(tp)
        used = self.sources.get(tp)
        return resume[1] if resume is not None and (used is None or used[0] < resume[0]) else None

    def orphans(self, before_ms: int) -> list[Registered]:
        """One-shot registrations that no process has leased since `before_ms`."""
        found = []
        for incarnation, registered in self._by_incarnation.items():
            if registered.one_shot and self._leased_ms.get(incarnation, before_ms) < before_ms:
                self.note_lease(incarnation, self.leases.last_ms(incarnation))  # so it is not asked for a day
                if self._leased_ms[incarnation] < before_ms:
                    found.append(registered)
        return found

    def leftovers(self, before_ms: int) -> list[tuple[str, bytes]]:
        """(subscription, record key) of each leftover of a removal or replacement before `before_ms`."""
        return [(subscription, key) for key, (subscription, at) in self._leftovers.items() if at < before_ms]

    def old_leases(self, before_ms: int) -> list[bytes]:
        """The keys of leases and failing records not renewed since `before_ms`: their processes have died."""
        failing = [key for key, written_ms in self._failing_ms.items() if written_ms < before_ms]
        return self.leases.old(before_ms) + failing

    def note_lease(self, incarnation: str, at_ms: int) -> None:
        """Note that the incarnation was leased at this time."""
        if incarnation in self._by_incarnation:
            self._leased_ms[incarnation] = max(at_ms, self._leased_ms.get(incarnation, 0))

    def own_text(self, incarnation: str) -> str:
        """An equal text that is in memory already, if there is one."""
        registered = self._by_incarnation.get(incarnation)
        return incarnation if registered is None else registered.incarnation

    def _read_registration(self, incarnation: str, record: Record, change: Change) -> None:
        """Process a record of an incarnation: a registration, or a null that removes one."""
        if record.value is None:
            self._forget_key(incarnation, record.key or b"")
            if is_leftover(record.headers):
                self._begin_later(incarnation, change)
            else:
                self._remove(incarnation, record.timestamp_ms, change)
            return
        read = self._registration_in(incarnation, record, record.value)
        if read is None:
            return
        registration, condition = read
        self._subscription_of[incarnation] = registration.subscription
        keys = self._keys.setdefault(registration.subscription, {}).setdefault(incarnation, {})
        keys.setdefault(record.key or b"", (record.offset, record.timestamp_ms))
        if (known := self._by_incarnation.get(incarnation)) is not None:
            known.registration = registration  # only its limits can differ
            return
        earlier = self._by_subscription.get(registration.subscription)
        if earlier is not None:
            self._remove(earlier.incarnation, record.timestamp_ms, change)
        self._add(Registered(registration, condition, record.offset, record.timestamp_ms), change)

    def _registration_in(
        self, incarnation: str, record: Record, value: bytes
    ) -> tuple[Registration, Condition] | None:
        """What a record registers; None for a record that is ignored, with the reason in the log."""
        try:
            registration = decode_json(Registration, value, str(record))
            condition = self._condition_of(registration)
            condition.check_key(registration.key is not None)
            if registration.key is not None:
                canonical_key(registration.key)
            _require_own_key(record, incarnation, registration)
        except UnknownVersion as e:
            self._note_unknown(record, e)
            return None
        except self.caught as e:
            with at(*record.source, record.offset):
                log.error("Registration at %s is ignored: %s", record, e)
            return None
        return registration, condition

    def _condition_of(self, registration: Registration) -> Condition:
        form = bytes(registration.condition)
        condition = self._conditions.get(form)
        if condition is None:
            condition = registration.build_condition()
            _require_indexable(registration, condition)
            self._conditions[form] = condition
        return condition

    def _read_other(self, record: Record, change: Change) -> None:
        """Process a lease, a failing record, a sink record, or a record about a partition."""
        kind, _, rest = (record.key or b"").decode("utf-8", "replace").partition("/")
        try:
            if is_lease(record.key):
                try:
                    self.leases.apply(record, change.left, self.own_text)
                finally:
                    for incarnation, leased_ms in change.left.items():
                        self.note_lease(incarnation, leased_ms)
                return
            if kind == "failing":  # `failing/{process}`
                self._read_failing(rest, record)
                return
            if kind == "sink":  # `sink/{subscription}`, which deliverers decode
                self.sinks.pop(rest, None)
                if record.value is not None:
                    self.sinks[rest] = record.value
                    require_known_version("SinkRecord", record.value, str(record))
                return
            topic, _, number = rest.rpartition("/")
            if kind not in ("source", "resume", "problem") or _PARTITION.fullmatch(number) is None:
                return
            tp = TopicPartition(topic, int(number))
            if record.value is None:
                kept: dict[str, dict[TopicPartition, Any]]
                kept = {"problem": self.problems, "source": self.sources, "resume": self.resumes}
                kept[kind].pop(tp, None)
            elif kind == "problem":
                self.problems[tp] = decode_json(ProblemRecord, record.value, str(record)).text
            elif kind == "source":
                self.sources[tp] = (record.offset, decode_json(SourceRecord, record.value, str(record)))
            else:
                self.resumes[tp] = (record.offset, decode_json(ResumeRecord, record.value, str(record)))
                change.resumed = tp
        except UnknownVersion as e:
            self._note_unknown(record, e)
        except RecordError as e:
            with at(*record.source, record.offset):
                log.error("Record %s is ignored: %s", record, e)

    def _read_failing(self, process: str, record: Record) -> None:
        key = record.key or b""
        self.failing.pop(process, None)
        self._failing_ms.pop(key, None)
        if record.value is not None:
            self._failing_ms[key] = record.timestamp_ms
            self.failing[process] = record.timestamp_ms, decode_json(FailingRecord, record.value, str(record))

    def _read_bus_record(self, record: Record) -> bool:
        before = self.bus
        try:
            self.bus = _without_impossible(record, decode_json(BusRecord, record.value or b"", str(record)))
        except UnknownVersion as e:
            self._note_unknown(record, e)  # a bus of a later version may have other rules
        except RecordError as e:
            with at(*record.source, record.offset):
                log.error("The bus record is ignored: %s", e)
        return self.bus != before

    def _note_unknown(self, record: Record, error: UnknownVersion) -> None:
        key = record.key or b""
        self.unknown[key] = (
            f"{error} If no Interlock wrote it, write a null with its key, {key!r}, to the topic."
        )

    def _forget_key(self, incarnation: str, key: bytes) -> None:
        self._leftovers.pop(key, None)
        subscription = self._subscription_of.get(incarnation)
        if subscription is None:
            return
        incarnations = self._keys[subscription]
        incarnations[incarnation].pop(key, None)
        if not incarnations[incarnation]:
            del incarnations[incarnation], self._subscription_of[incarnation]
            if not incarnations:
                del self._keys[subscription]

    def _add(self, registered: Registered, change: Change) -> None:
        incarnation = registered.incarnation
        self._by_incarnation[incarnation] = registered
        self._by_subscription[registered.registration.subscription] = registered
        self._order[registered.offset] = registered
        self._leased_ms[incarnation] = max(registered.timestamp_ms, self._leased_ms.get(incarnation, 0))
        change.added.append(registered)

    def _remove(self, incarnation: str, at_ms: int, change: Change) -> None:
        registered = self._by_incarnation.get(incarnation)
        if registered is None:
            return
        self._take_out(registered, change)
        self._leased_ms.pop(incarnation, None)
        subscription = registered.registration.subscription
        for key in self._keys.get(subscription, {}).get(incarnation, ()):
            self._leftovers.setdefault(key, (subscription, at_ms))

    def _begin_later(self, incarnation: str, change: Change) -> None:
        """After a leftover's null: if the registration begins with the leftover, it now begins with its next
        record.

        That is so only for a reader that started after compaction had removed the null which made the record
        a leftover. For all other readers the registration already has the later offset.
        """
        registered = self._by_incarnation.get(incarnation)
        if registered is None:
            return
        keys = self._keys.get(registered.registration.subscription, {}).get(incarnation, {})
        first = min((at for key, at in keys.items() if key not in self._leftovers), default=None)
        if first is not None and first[0] == registered.offset:
            return
        self._take_out(registered, change)
        if first is None:
            self._leased_ms.pop(incarnation, None)
            return
        self._add(Registered(registered.registration, registered.condition, *first), change)
        self._order = dict(sorted(self._order.items()))

    def _take_out(self, registered: Registered, change: Change) -> None:
        del self._by_incarnation[registered.incarnation], self._order[registered.offset]
        subscription = registered.registration.subscription
        if self._by_subscription.get(subscription) is registered:
            del self._by_subscription[subscription]
        change.removed.append(registered)
