"""Kafka in memory: logs, transactions, a consumer group; nothing happens in it by itself.

It follows the brokers' rules, one request at a time: each method is an answered request, or one step of what
brokers do by themselves (a marker, a compaction, an expiry). Callers decide what happens when:
`bus.SimulatedBus` makes requests, `world.World` chooses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from interlock.engine.bus import Committed, Headers, Record, Topic, TopicPartition

MAX_METADATA = 4095  # characters
TRANSACTION_TIMEOUT_MS = 15_000
NEVER_JOINED = ("", -1)  # the membership of a consumer that never joined

Decision: TypeAlias = Literal["open", "committed", "aborted"]


class Refused(Exception):
    """A broker's refusal. fatal: the producer cannot be used again."""

    def __init__(self, code: str, *, fatal: bool = False) -> None:
        super().__init__(code)
        self.code, self.fatal = code, fatal


class Entry(NamedTuple):
    """The content of one offset. control: a transaction marker, which no reader sees."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers | None
    transaction: Transaction | None
    control: bool = False


class Transaction:
    """One transaction of one producer epoch; `decision` is made once, markers follow one by one."""

    __slots__ = ("decision", "epoch", "logs", "name", "number", "offsets", "started_ms", "unmarked")

    def __init__(self, name: str, number: int, epoch: int, started_ms: int) -> None:
        self.name, self.number, self.epoch, self.started_ms = name, number, epoch, started_ms
        self.decision: Decision = "open"
        self.logs: list[Log] = []
        self.offsets: dict[TopicPartition, Committed] = {}
        self.unmarked: list[Log | None] = []  # None: the group's offsets

    def __repr__(self) -> str:
        return f"{self.name}#{self.number}"


class Log:
    """One topic partition. `entries` keeps what was removed: readers do not see it, the oracle does.

    `claims`: {offset of a malformed record: the offset that it claims}. Clients believe it.
    """

    __slots__ = ("claims", "entries", "log_append_time", "open", "removed", "start", "tp")

    def __init__(self, tp: TopicPartition, log_append_time: bool) -> None:
        self.tp, self.log_append_time = tp, log_append_time
        self.entries: list[Entry] = []
        self.start = 0  # the low watermark
        self.removed: set[int] = set()  # by compaction
        self.open: dict[Transaction, int] = {}
        self.claims: dict[int, int] = {}

    @property
    def end(self) -> int:
        """The high watermark."""
        return len(self.entries)

    @property
    def stable_end(self) -> int:
        """The last stable offset: the first one of an open transaction, or the end."""
        return min(self.open.values()) if self.open else len(self.entries)

    def visible(self, offset: int) -> bool:
        """Whether the entry is a record for readers of committed records (below the stable end)."""
        entry = self.entries[offset]
        if entry.control or offset in self.removed:
            return False
        return entry.transaction is None or entry.transaction.decision == "committed"

    def read(self, position: int, most: int) -> tuple[list[Record], int]:
        """Committed records from `position` on, and the next position, past control and aborted ones."""
        found: list[Record] = []
        until = self.stable_end
        at = max(position, self.start)
        while at < until and len(found) < most:
            claimed = self.claims.get(at, at) if self.claims else at
            if self.visible(at) and claimed >= position:
                entry = self.entries[at]
                found.append(
                    Record(self.tp, claimed, entry.timestamp_ms, entry.key, entry.value, entry.headers)
                )
            at += 1
        if self.claims and found and found[-1].offset >= at:
            return found, found[-1].offset + 1
        while at < until and not self.visible(at):
            at += 1
        return found, at

    def history(self) -> Iterable[tuple[int, Entry]]:
        """All records that were ever committed here, removed ones included."""
        for offset, entry in enumerate(self.entries):
            if not entry.control and (entry.transaction is None or entry.transaction.decision == "committed"):
                yield offset, entry


@dataclass(slots=True)
class TopicState:
    name: str
    id: str
    compact: bool
    log_append_time: bool
    logs: list[Log]


@dataclass(slots=True)
class Producer:
    """What the transaction coordinator knows of a transactional id."""

    epoch: int = 0
    current: Transaction | None = None  # open, or with markers to be written
    numbers: int = 0


@dataclass(slots=True)
class Member:
    """A member of the group. client: its transactional id, which is its client id too."""

    id: str
    client: str
    topics: tuple[str, ...]
    joined: bool = True
    assignment: tuple[TopicPartition, ...] = ()


@dataclass(slots=True)
class Group:
    """The consumer group, classic and eager: all members give up their partitions before any are assigned."""

    generation: int = 0
    preparing: bool = False
    members: dict[str, Member] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)  # partitions of the topics, as last assigned
    offsets: dict[TopicPartition, Committed] = field(default_factory=dict)
    written: dict[TopicPartition, int] = field(
        default_factory=dict
    )  # place of the commit in the offsets' log
    pending: dict[Transaction, dict[TopicPartition, tuple[int, Committed]]] = field(default_factory=dict)
    history: dict[TopicPartition, list[tuple[Transaction, Committed]]] = field(default_factory=dict)
    places: int = 0


class InFlight(NamedTuple):
    """A request to end a transaction that its client has abandoned, or sent again; it may still arrive.

    It names the producer and its epoch, and no transaction: it ends whichever is open.
    """

    transaction: Transaction
    commit: bool


class Cluster:
    """The brokers. Their time is `now_ms`, which only callers advance."""

    def __init__(self, now_ms: int = 1_000_000_000_000) -> None:
        self.now_ms = now_ms
        self.topics: dict[str, TopicState] = {}
        self.deleted: list[TopicState] = []
        self.producers: dict[str, Producer] = {}
        self.transactions: list[Transaction] = []  # all, ended ones too
        self.group = Group()
        self.in_flight: list[InFlight] = []
        self.altered_ms = now_ms  # when partitions were last added or deleted
        self._made = 0

    # -- topics

    def create(
        self, name: str, partitions: int, *, compact: bool = False, log_append_time: bool = True
    ) -> None:
        self._made += 1
        logs = [Log(TopicPartition(name, p), log_append_time) for p in range(partitions)]
        self.topics[name] = TopicState(name, f"id-{self._made}", compact, log_append_time, logs)

    def add_partitions(self, name: str, partitions: int) -> None:
        self.altered_ms = self.now_ms
        topic = self.topics[name]
        for p in range(len(topic.logs), partitions):
            topic.logs.append(Log(TopicPartition(name, p), topic.log_append_time))

    def delete(self, name: str) -> None:
        """Deletes a topic with its committed offsets."""
        self.altered_ms = self.now_ms
        gone = self.topics.pop(name)
        self.deleted.append(gone)
        for tp in [tp for tp in self.group.offsets if tp.topic == name]:
            del self.group.offsets[tp]
            self.group.history.pop(tp, None)

    def log(self, tp: TopicPartition) -> Log | None:
        topic = self.topics.get(tp.topic)
        if topic is None or tp.partition >= len(topic.logs):
            return None
        return topic.logs[tp.partition]

    def describe(self, name: str) -> Topic | None:
        topic = self.topics.get(name)
        return None if topic is None else Topic(topic.id, len(topic.logs))

    def append(
        self,
        tp: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        headers: Headers | None = None,
        *,
        timestamp_ms: int | None = None,
        transaction: Transaction | None = None,
    ) -> tuple[int, int]:
        """Appends a record. Returns (offset, timestamp). A topic with LogAppendTime ignores timestamp_ms."""
        log = self.log(tp)
        if log is None:
            raise Refused("UNKNOWN_TOPIC_OR_PARTITION")
        stamp = self.now_ms if log.log_append_time or timestamp_ms is None else timestamp_ms
        if transaction is not None and transaction not in log.open:
            log.open[transaction] = len(log.entries)
        log.entries.append(Entry(stamp, key, value, headers, transaction))
        return len(log.entries) - 1, stamp

    def offset_since(self, tp: TopicPartition, timestamp_ms: int) -> int | None:
        """The first entry of any kind with a timestamp at or after the given one."""
        log = self.log(tp)
        if log is None:
            return None
        for offset in range(log.start, log.end):
            if offset not in log.removed and log.entries[offset].timestamp_ms >= timestamp_ms:
                return offset
        return None

    def delete_below(self, tp: TopicPartition, offset: int) -> None:
        log = self.log(tp)
        if log is not None:
            log.start = max(log.start, min(offset, log.end))

    def compact(self, name: str, partition: int, below: int, *, min_lag_ms: int = 0, expired: int = 0) -> int:
        """Compacts the log below an offset to the last record of each key. Returns how many it removed.

        expired: also removes tombstones below this offset, which brokers keep for a day.
        """
        log = self.topics[name].logs[partition]
        below = min(below, log.stable_end, log.end - 1)
        last: dict[bytes | None, int] = {}
        gone = 0
        for offset in range(log.start, below):
            entry = log.entries[offset]
            if entry.timestamp_ms > self.now_ms - min_lag_ms:
                break
            if entry.control or offset in log.removed:
                continue
            if entry.transaction is not None and entry.transaction.decision != "committed":
                log.removed.add(offset)
                continue
            earlier = last.get(entry.key)
            if earlier is not None:
                log.removed.add(earlier)
                gone += 1
            last[entry.key] = offset
        for offset in last.values():
            if offset < expired and log.entries[offset].value is None:
                log.removed.add(offset)
                gone += 1
        return gone

    # -- transactions

    def init_producer(self, name: str) -> bool:
        """Begins an epoch, aborts the id's open transaction. False if its markers must be written first."""
        producer = self.producers.setdefault(name, Producer())
        current = producer.current
        if current is not None:
            if current.decision == "open":
                producer.epoch += 1  # the old one is fenced from here on
                self._decide(current, "aborted")
            if producer.current is not None:
                return False
        producer.epoch += 1
        return True

    def begin(self, name: str, epoch: int) -> Transaction | None:
        """The next transaction of the producer; None while the markers of its last one are being written."""
        producer = self._producer(name, epoch)
        if producer.current is not None:
            return None
        producer.numbers += 1
        transaction = Transaction(name, producer.numbers, epoch, self.now_ms)
        producer.current = transaction
        self.transactions.append(transaction)
        return transaction

    def write(
        self,
        transaction: Transaction,
        tp: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        headers: Headers | None,
    ) -> tuple[int, int]:
        """Writes a record; a zombie's too, to a log in which its marker is not written yet."""
        log = self.log(tp)
        if log is None:
            raise Refused("UNKNOWN_TOPIC_OR_PARTITION")
        if transaction.decision != "open" and log not in transaction.unmarked:
            raise Refused("INVALID_PRODUCER_EPOCH", fatal=True)
        if transaction.decision == "open" and log not in transaction.logs:
            self._producer(transaction.name, transaction.epoch)
            transaction.logs.append(log)
        return self.append(tp, key, value, headers, transaction=transaction)

    def send_offsets(
        self,
        transaction: Transaction,
        offsets: Mapping[TopicPartition, Committed],
        member: str,
        generation: int,
    ) -> None:
        """Adds pending offsets if member and generation are current, or NEVER_JOINED."""
        self._producer(transaction.name, transaction.epoch)
        if transaction.decision != "open":
            raise Refused("INVALID_TXN_STATE", fatal=True)
        if any(len(c.metadata) > MAX_METADATA for c in offsets.values()):
            raise Refused("OFFSET_METADATA_TOO_LARGE")
        if any(self.log(tp) is None for tp in offsets):
            raise Refused("UNKNOWN_TOPIC_OR_PARTITION")
        group = self.group
        if (member, generation) != NEVER_JOINED:
            if member not in group.members:
                raise Refused("UNKNOWN_MEMBER_ID")
            if generation != group.generation:
                raise Refused("ILLEGAL_GENERATION")
        pending = group.pending.setdefault(transaction, {})
        for tp, committed in offsets.items():
            group.places += 1
            pending[tp] = (group.places, committed)
            transaction.offsets[tp] = committed

    def end(self, transaction: Transaction, *, commit: bool) -> None:
        """Decides the transaction; `mark` then writes its markers one by one."""
        self._producer(transaction.name, transaction.epoch)
        if transaction.decision != "open":
            raise Refused("INVALID_TXN_STATE", fatal=True)
        self._decide(transaction, "committed" if commit else "aborted")

    def end_late(self, request: InFlight) -> bool:
        """A request arrives late; True if it decides anything."""
        self.in_flight.remove(request)
        name, epoch = request.transaction.name, request.transaction.epoch
        current = self.producers[name].current
        if current is None:
            return False
        try:
            self._producer(name, epoch)
            self.end(current, commit=request.commit)
        except Refused:
            return False
        return True

    def overdue(self) -> list[Transaction]:
        """Open transactions that have outlived their timeout."""
        return [
            p.current
            for p in self.producers.values()
            if p.current is not None
            and p.current.decision == "open"
            and self.now_ms - p.current.started_ms >= TRANSACTION_TIMEOUT_MS
        ]

    def time_out(self, transaction: Transaction) -> None:
        """The coordinator aborts it, and fences its producer."""
        self.producers[transaction.name].epoch += 1
        self._decide(transaction, "aborted")

    def unmarked(self) -> list[tuple[Transaction, Log | None]]:
        """The markers still to be written; those of one transaction in any order."""
        return [
            (p.current, target)
            for p in self.producers.values()
            if p.current is not None and p.current.decision != "open"
            for target in p.current.unmarked
        ]

    def mark(self, transaction: Transaction, target: Log | None) -> None:
        """Write one marker: of a log, or (None) of the group's offsets."""
        transaction.unmarked.remove(target)
        if target is None:
            self._mark_offsets(transaction)
        else:
            target.open.pop(transaction, None)
            target.entries.append(Entry(self.now_ms, None, None, None, transaction, control=True))
        if not transaction.unmarked:
            producer = self.producers[transaction.name]
            if producer.current is transaction:
                producer.current = None

    def _mark_offsets(self, transaction: Transaction) -> None:
        group = self.group
        pending = group.pending.pop(transaction, {})
        if transaction.decision != "committed":
            return
        for tp, (place, committed) in pending.items():
            if place > group.written.get(tp, -1) and self.log(tp) is not None:
                group.written[tp] = place
                group.offsets[tp] = committed
                group.history.setdefault(tp, []).append((transaction, committed))

    def _decide(self, transaction: Transaction, decision: Decision) -> None:
        transaction.decision = decision
        transaction.unmarked = [*transaction.logs]
        if transaction in self.group.pending:
            transaction.unmarked.append(None)
        if not transaction.unmarked:
            self.producers[transaction.name].current = None

    def _producer(self, name: str, epoch: int) -> Producer:
        producer = self.producers[name]
        if producer.epoch != epoch:
            raise Refused("PRODUCER_FENCED", fatal=True)
        return producer

    # -- the group

    def join(self, member_id: str, client: str, topics: Sequence[str]) -> None:
        """Join, or join again in a rebalance; a member that asks for other topics starts one."""
        group = self.group
        if not group.preparing:
            self.rebalance()
        group.members[member_id] = Member(member_id, client, tuple(topics))
        self._complete()

    def leave(self, member_id: str) -> None:
        """A member left, or its session is over."""
        if self.group.members.pop(member_id, None) is not None:
            self.rebalance()
            self._complete()

    def rebalance(self) -> None:
        """All members have to join again, which each learns at its next poll."""
        self.group.preparing = bool(self.group.members)
        for member in self.group.members.values():
            member.joined = False

    def partitions_changed(self) -> bool:
        """Whether a topic of the group has other partitions than at the last assignment."""
        return any(
            len(self.topics[name].logs) != self.group.counts.get(name, 0)
            if name in self.topics
            else self.group.counts.get(name, 0) != 0
            for member in self.group.members.values()
            for name in member.topics
        )

    def committed(
        self, partitions: Iterable[TopicPartition], *, stable: bool
    ) -> dict[TopicPartition, Committed | None] | None:
        group = self.group
        asked = list(partitions)
        if stable and any(tp in pending for pending in group.pending.values() for tp in asked):
            return None
        return {tp: group.offsets.get(tp) for tp in asked}

    def _complete(self) -> None:
        """When all remaining members have joined, begins the next generation: range assignment."""
        group = self.group
        if not all(member.joined for member in group.members.values()):
            return
        group.preparing = False
        group.generation += 1
        shares: dict[str, list[TopicPartition]] = {member: [] for member in group.members}
        group.counts = {}
        for name in sorted({topic for member in group.members.values() for topic in member.topics}):
            count = group.counts[name] = len(self.topics[name].logs) if name in self.topics else 0
            takers = sorted(member.id for member in group.members.values() if name in member.topics)
            each, more = divmod(count, len(takers))
            at = 0
            for n, taker in enumerate(takers):
                size = each + (n < more)
                shares[taker].extend(TopicPartition(name, p) for p in range(at, at + size))
                at += size
        for member in group.members.values():
            member.assignment = tuple(shares[member.id])
