"""`engine.bus.Bus` over simulated brokers; the process may crash at each call and each step of a commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from interlock.engine.bus import Batch, Committed, End, Output, Record, Topic, TopicPartition
from interlock.engine.errors import LostRange, NotReadable, TransactionAborted, UnreachableError

from tests.kit.kafka import Cluster, InFlight, Log, Refused, Transaction

MOST_WAITS = 10_000
METADATA_AGE_MS = 3_000  # a member notices added partitions at most this late


class Host(Protocol):
    """Runs the engines, and makes random choices for them."""

    def pause(self, what: str) -> None:
        """Lets other processes run. Raises UnreachableError for a failed request, or kills the process."""

    def wait(self, what: str) -> None:
        """Like `pause`, when this process cannot continue until another one has done something."""

    def choose(self, most: int) -> int:
        """Returns a random number in [0, most)."""

    def say(self, what: str) -> None:
        """Adds a line to the trace."""

    def note(self, what: str) -> None:
        """Counts a rare situation: a run reports in how many worlds it occurred."""


class Alone:
    """A host without random choices and faults: each pause writes all due transaction markers."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def pause(self, what: str) -> None:
        for transaction, target in self.cluster.unmarked():
            self.cluster.mark(transaction, target)

    def wait(self, what: str) -> None:
        self.pause(what)

    def choose(self, most: int) -> int:
        return 0

    def say(self, what: str) -> None:
        pass

    def note(self, what: str) -> None:
        pass


class Fetching:
    """The positions of a consumer, and the ends that it has reported."""

    def __init__(self, cluster: Cluster, host: Host) -> None:
        self._cluster, self._host = cluster, host
        self.positions: dict[TopicPartition, int] = {}
        # The logs as assigned: a topic that is created again has others, which are not fetched.
        self._logs: dict[TopicPartition, Log | None] = {}
        self._reported_ends: dict[TopicPartition, int] = {}

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        self.positions = dict(positions)
        self._logs = {tp: self._cluster.log(tp) for tp in positions}
        self._reported_ends = {}

    def seek(self, tp: TopicPartition, offset: int) -> bool:
        if tp not in self.positions:
            return False
        self.positions[tp] = offset
        self._reported_ends.pop(tp, None)
        return True

    def take(self, most: int, *, strict: bool) -> list[Record | End]:
        """Returns records and ends: partitions in random order, each cut off anywhere.

        strict: a position outside the log raises LostRange; otherwise reading continues at the log's start.
        """
        taken: list[Record | End] = []
        tps = list(self.positions)
        if len(tps) > 1:
            first = self._host.choose(len(tps))
            tps = tps[first:] + tps[:first]
        for tp in tps:
            log = self._cluster.log(tp)
            if log is None or log is not self._logs[tp]:
                continue
            room = most - len(taken)
            if room <= 0:
                break
            if self._host.choose(2):  # fetched in small pieces
                room = min(room, 1 + self._host.choose(3))
            if self._host.choose(8) == 7:  # its response comes with a later call
                continue
            position = self.positions[tp]
            if not log.start <= position <= log.end:
                if strict:
                    raise LostRange(tp, f"{position} is not in {log.start} to {log.end}")
                position = log.start
            records, after = log.read(position, room - self._host.choose(room))
            taken.extend(records)
            self.positions[tp] = after
            if after == log.stable_end and self._reported_ends.get(tp) != after:
                self._reported_ends[tp] = after
                taken.append(End(tp, after))
        return taken


class SimulatedReader:
    """A reader of committed records without a group."""

    def __init__(self, bus: SimulatedBus) -> None:
        self._bus = bus
        self._fetching = Fetching(bus.cluster, bus.host)

    def read(self, positions: Mapping[TopicPartition, int]) -> None:
        self._bus.check_alive()
        self._bus.recovered |= positions.keys()
        self._fetching.assign(positions)

    def seek(self, tp: TopicPartition, offset: int) -> bool:
        self._bus.check_alive()
        return self._fetching.seek(tp, offset)

    def take(self, most: int, timeout_s: float) -> list[Record | End]:
        self._bus.step("takes from a reader")
        taken = self._fetching.take(most, strict=False)
        if not taken and timeout_s:
            self._bus.wait("finds nothing to read")
            taken = self._fetching.take(most, strict=False)
        return taken

    def close(self) -> None:
        self._fetching.assign({})


class SimulatedBus:
    """One member of the group with one transactional producer."""

    def __init__(self, cluster: Cluster, host: Host, name: str) -> None:
        self.cluster, self.host = cluster, host
        self.transactional_id = name
        self.dead = False
        self.closed = False
        self._topics: tuple[str, ...] = ()
        self._wants_topics: tuple[str, ...] = ()
        self._member: str | None = None
        self._generation = -1
        self._joins = 0
        self._holding = False  # it has partitions, and has not reported them as lost
        self._before_loss: Callable[[object], None] | None = None
        self._fetching = Fetching(cluster, host)
        self.recovered: set[TopicPartition] = set()  # what was read since the assignment
        self._started = True
        self._transaction: Transaction | None = None
        self._initialise(name)
        self._epoch = cluster.producers[name].epoch

    def _initialise(self, name: str) -> None:
        for _ in range(MOST_WAITS):
            if self.cluster.init_producer(name):
                return
            self.wait(f"waits for the last transaction of {name} to end")
        raise UnreachableError(f"{name} could not be initialised.")

    def check_alive(self) -> None:
        """Raises RuntimeError after a crash, or when closed."""
        if self.dead or self.closed:
            raise RuntimeError("this bus is closed")

    @property
    def member(self) -> str | None:
        """Its id in the group."""
        return self._member

    @property
    def generation(self) -> int:
        """The generation in which it has its partitions; -1 while it joins."""
        return self._generation

    @property
    def has_former_assignment(self) -> bool:
        """Whether it reads partitions although its membership is over, or another one has begun."""
        member = self.cluster.group.members.get(self._member or "")
        return self._holding and (member is None or self._generation != self.cluster.group.generation)

    def step(self, what: str) -> None:
        self.check_alive()
        self.host.pause(what)

    def wait(self, what: str) -> None:
        self.host.wait(what)

    # -- the group

    def subscribe(self, topics: Sequence[str], before_loss: Callable[[object], None] | None = None) -> None:
        self.check_alive()
        self._wants_topics, self._before_loss = tuple(topics), before_loss

    def poll(self, most: int, timeout_s: float) -> Batch:
        self.step("polls")
        group, host = self.cluster.group, self.host
        if not self._wants_topics:
            return Batch([])
        member = group.members.get(self._member) if self._member else None
        sees_change = member is not None and not group.preparing and self.cluster.partitions_changed()
        is_noticed = self.cluster.now_ms - self.cluster.altered_ms >= METADATA_AGE_MS
        if sees_change and (is_noticed or host.choose(16) == 1):
            host.say("sees other partitions, and asks for a rebalance")
            self.cluster.rebalance()
        if member is None or self._wants_topics != self._topics or (group.preparing and not member.joined):
            if self._holding and host.choose(4) == 3:
                return self.take_records(most, timeout_s)  # no heartbeat has failed yet
            lost, self._holding = self._holding, False
            if lost and member is not None and self._before_loss is not None:
                self._before_loss(self._membership())
                member = group.members.get(self._member or "")  # it may be excluded by now
            self._fetching.assign({})
            self._join(member is None)
            return Batch([], None, lost, None)
        if self._generation != group.generation and not group.preparing:
            self._generation = group.generation
            self._holding = True
            self._fetching.assign({})
            self.recovered, self._started = set(), False
            host.say(f"is assigned {', '.join(map(str, member.assignment)) or 'nothing'}")
            return Batch([], member.assignment, False, self._membership())
        return self.take_records(most, timeout_s)

    def _join(self, new: bool) -> None:
        if new:
            # range assignment sorts members by id, so the id begins with a random number
            self._joins += 1
            self._member = f"{self.host.choose(1000):03d}-{self.transactional_id}-{self._joins}"
        self._topics = self._wants_topics
        assert self._member is not None
        self._generation = -1
        self.host.say(f"joins as {self._member}")
        self.cluster.join(self._member, self.transactional_id, self._topics)

    def _membership(self) -> object:
        return (self._member, self._generation) if self._generation >= 0 else None

    def take_records(self, most: int, timeout_s: float) -> Batch:
        """What a poll returns if it notices no change of the assignment."""
        taken = self._fetching.take(most, strict=True)
        if not taken and timeout_s:
            self.wait("polls in vain")
            taken = self._fetching.take(most, strict=True)
        return Batch(taken, None, False, self._membership())

    def start(self, positions: Mapping[TopicPartition, int]) -> None:
        self.check_alive()
        self.host.say(f"starts {', '.join(f'{tp}@{offset}' for tp, offset in positions.items())}")
        if not self._started:
            self._started = True
            for tp in positions:
                state = TopicPartition(tp.topic.replace("trigger", "state"), tp.partition)
                if state.topic != tp.topic and state not in self.recovered and self._log(state).end:
                    self.host.note("takeover without a recovery: nobody else had committed")
        self._fetching.assign(positions)

    def seek(self, tp: TopicPartition, offset: int) -> bool:
        self.check_alive()
        self.host.say(f"fetches {tp} again from {offset}")
        return self._fetching.seek(tp, offset)

    def fetched_end(self, tp: TopicPartition) -> int:
        log = self.cluster.log(tp)
        return 0 if log is None or tp not in self._fetching.positions else log.stable_end

    def members(self) -> frozenset[str]:
        self.step("asks for the members")
        return frozenset(member.client for member in self.cluster.group.members.values())

    # -- offsets

    def committed(
        self, partitions: Iterable[TopicPartition], *, stable: bool = True
    ) -> dict[TopicPartition, Committed | None] | None:
        self.step(f"asks for {'stable' if stable else 'any'} committed offsets")
        found = self.cluster.committed(partitions, stable=stable)
        if found is None:
            self.host.say("finds an open transaction with their offsets")
            self.host.note("offsets that are not stable yet")
        return found

    def start_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        self.step("asks for start offsets")
        return {tp: self._log(tp).start for tp in partitions}

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        self.step("asks for end offsets")
        return {tp: self._log(tp).end for tp in partitions}

    def stable_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        self.step("asks for stable offsets")
        return {tp: self._log(tp).stable_end for tp in partitions}

    def offsets_since(
        self, partitions: Iterable[TopicPartition], timestamp_ms: int
    ) -> dict[TopicPartition, int | None]:
        self.step("asks for offsets since a time")
        return {tp: self.cluster.offset_since(self._log(tp).tp, timestamp_ms) for tp in partitions}

    def topics(self, names: Iterable[str]) -> dict[str, Topic | None]:
        self.step("asks for topics")
        return {name: self.cluster.describe(name) for name in names}

    def _log(self, tp: TopicPartition) -> Log:
        log = self.cluster.log(tp)
        if log is None:
            raise NotReadable(tp.topic, f"{tp} does not exist.")
        return log

    def reader(self, *, brief: bool = False) -> SimulatedReader:
        self.check_alive()
        return SimulatedReader(self)

    # -- transactions

    def fence(self, transactional_id: str) -> None:
        self.step(f"fences {transactional_id}")
        self.host.say(f"fences {transactional_id}")
        current = self.cluster.producers.get(transactional_id)
        if current is not None and current.current is not None and current.current.decision == "open":
            self.host.note("fencing of an open transaction")
        self._initialise(transactional_id)

    def commit(
        self, outputs: Sequence[Output], offsets: Mapping[TopicPartition, Committed], membership: object
    ) -> int | None:
        self.check_alive()
        if not offsets or not isinstance(membership, tuple):
            raise TransactionAborted("Not sent: a transaction without offsets or membership is not fenced.")
        try:
            return self._commit(outputs, offsets, membership)
        except Refused as refused:
            if refused.code in ("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"):
                self.host.note("commit of a generation that was over")
            if refused.fatal:
                self.host.note("commit of a fenced producer")
                self.host.say(f"gets {refused.code}")
                raise UnreachableError(f"The transaction failed: {refused.code}.") from refused
            self._abort()
            raise TransactionAborted(f"Transaction aborted: {refused.code}.") from refused

    def _commit(
        self,
        outputs: Sequence[Output],
        offsets: Mapping[TopicPartition, Committed],
        membership: tuple[str, int],
    ) -> int | None:
        cluster, host = self.cluster, self.host
        self.step("begins a transaction")
        for _ in range(MOST_WAITS):
            transaction = cluster.begin(self.transactional_id, self._epoch)
            if transaction is not None:
                break
            self.wait("waits for its last transaction to end")
        else:
            raise UnreachableError("The last transaction does not end.")
        self._transaction = transaction
        host.say(f"begins {transaction}")
        appended: int | None = None
        # The client does not wait for its records before it sends the offsets.
        late = host.choose(len(outputs) + 1) if host.choose(3) == 2 else 0
        for number, output in enumerate((*outputs, None)):
            if number == len(outputs) - late:
                cluster.send_offsets(transaction, offsets, *membership)
                host.say(
                    f"{transaction} sends offsets "
                    + ", ".join(f"{tp}@{c.offset} {c.metadata}" for tp, c in offsets.items())
                )
                if late:
                    self.step("sends the offsets")
            if output is None:
                break
            tp = self._partition(output)
            offset, stamp = cluster.write(transaction, tp, output.key, output.value, output.headers)
            if self._log(tp).log_append_time:
                appended = stamp
            host.say(f"{transaction} writes {tp}@{offset}{_shown(output)}")
            if number >= len(outputs) - late:
                host.note("record written after the offsets")
            self.step("writes")
        try:
            self.step("sends EndTxn")
        except BaseException:
            if host.choose(2):  # the request was on its way, and arrives later
                cluster.in_flight.append(InFlight(transaction, True))
            raise
        cluster.end(transaction, commit=True)
        host.say(f"{transaction} is committed")
        twice = host.choose(8) == 7
        if twice:  # the connection was lost and the client sent it again: the first one may arrive later
            cluster.in_flight.append(InFlight(transaction, True))
            host.note("EndTxn that was sent twice")
        self.step("awaits the answer to EndTxn")
        self._transaction = None
        if twice:
            self.replace_producer()
        return appended

    def replace_producer(self) -> None:
        """As `Transactions` does when its producer has lost a connection."""
        self._initialise(self.transactional_id)
        self._epoch = self.cluster.producers[self.transactional_id].epoch

    def _partition(self, output: Output) -> TopicPartition:
        if output.partition is not None:
            return TopicPartition(output.topic, output.partition)
        topic = self.cluster.topics.get(output.topic)
        if topic is None:
            raise UnreachableError(f"Topic {output.topic!r} does not exist.")
        return TopicPartition(output.topic, sum(output.key or b"") % len(topic.logs))

    def _abort(self) -> None:
        transaction = self._transaction
        if transaction is None:
            return
        self.step("aborts")
        try:
            self.cluster.end(transaction, commit=False)
        except Refused as refused:
            raise UnreachableError(f"The abort failed: {refused.code}.") from refused
        self.host.say(f"{transaction} is aborted")
        self._transaction = None

    def delete_below(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.step("deletes old records")
        for tp, offset in offsets.items():
            self.cluster.delete_below(tp, offset)

    def close(self) -> None:
        if self.closed or self.dead:
            return
        self.closed = True
        if self._member is not None:
            self.cluster.leave(self._member)
        transaction, self._transaction = self._transaction, None
        # if the brokers are unreachable, it stays open until it times out or is fenced
        if transaction is not None and transaction.decision == "open" and not self.host.choose(2):
            try:
                self.cluster.end(transaction, commit=False)
            except Refused:
                return
            self.host.say(f"{transaction} is aborted with its producer")


def _shown(output: Output) -> str:
    if output.key is None:
        return ""
    return f" {output.key!r}" + (" null" if output.value is None else "")
