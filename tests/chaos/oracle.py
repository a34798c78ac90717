"""The oracle's process: reads a bus with its own consumer, and judges: `python -m tests.chaos.oracle`.

It does not import interlock.engine. It reads requests from stdin, one per line: `settle SECONDS` (after the
load: wait until all is read, committed, due and fired), `judge SECONDS [TIME, ...]` (after that engines only
close states; the times are those when faults began and ended), `deliveries SECONDS FILE` (waits until all
firings for sinks are acknowledged, and compares them with the sink's log). It answers each with one line of
JSON on stdout, and logs to stderr.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from .backlog import Backlog
from .clients import lost_brokers
from .deliveries import compare, read_arrivals, unacknowledged
from .judge import first_lines, judge, reconcile
from .log import Log, Rec, read_offset_metadata
from .model import Model

KINDS = ("event", "subscription", "trigger", "state", "action", "dead-letter")
LOOK_S = 2.0  # interval of the search for new partitions, and for a backlog
SOON_MS = 60_000  # wait for timers that are due within this


class Follower(threading.Thread):
    """Reads all committed records of the bus's topics from the beginning, until `stop`.

    Engines purge the trigger topic and compact the others during the run, so records must be read before.
    lost: sentences about records that were removed unread.
    """

    def __init__(self, servers: str, bus: str) -> None:
        super().__init__(name="follower", daemon=True)
        self.log = Log(bus)
        self.lock = threading.Lock()
        self.lost: list[str] = []
        self.ends: dict[tuple[str, int], int] = {}  # the last end it reached
        self.backlog = Backlog()
        self._listed: set[str] = set()
        self._over = threading.Event()
        self._servers = servers
        self._admin = self._new_admin()
        self._consumer = self._new_consumer()
        self._known: set[tuple[str, int]] = set()

    def _new_admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self._servers, "log_level": 2})

    def _new_consumer(self) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": f"{self.log.bus}-chaos-oracle",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 50,
                "reconnect.backoff.max.ms": 500,
                "log_level": 2,  # the run itself stops the broker
            }
        )

    def run(self) -> None:
        looked = 0.0
        while not self._over.is_set():
            if time.monotonic() - looked > LOOK_S:
                self._look()
                looked = time.monotonic()
            for message in self._consumer.consume(2000, 0.1):
                self._take(message)
        self._consumer.close()

    def stop(self) -> None:
        self._over.set()
        self.join(10)

    def _look(self) -> None:
        wanted = {self.log.topic(kind) for kind in KINDS} | self._listed
        try:
            topics = self._admin.list_topics(timeout=5).topics
        except KafkaException:
            self._admin = self._new_admin()  # the broker is away, or this client has lost it
            return
        if lost_brokers(self._consumer, self._servers):
            self._replace_consumer()
        found = {
            (name, p)
            for name in wanted & topics.keys()
            if not topics[name].error
            for p in topics[name].partitions
        }
        new = found - self._known
        if new:
            self._consumer.incremental_assign([TopicPartition(topic, p, 0) for topic, p in sorted(new)])
            self._known = self._known | new  # a new set: another thread may be reading this one

    def _replace_consumer(self) -> None:
        places = self._consumer.position([TopicPartition(*at) for at in self._known])
        self._consumer = self._new_consumer()
        self._consumer.incremental_assign(
            [TopicPartition(at.topic, at.partition, max(at.offset, 0)) for at in places]
        )
        _say("its consumer had lost the brokers: it goes on with a new one")

    def _take(self, message: Any) -> None:
        error = message.error()
        at = (message.topic(), message.partition())
        if error is None:
            record = Rec(
                *at,
                message.offset(),
                message.timestamp()[1],
                message.key(),
                message.value(),
                tuple(message.headers() or ()),
            )
            with self.lock:
                self.log.add(record)
            if record.key == b"bus" and record.value:
                self._listed |= set(json.loads(record.value).get("topics", ()))
        elif error.code() == KafkaError._PARTITION_EOF:
            self.ends[at] = message.offset()
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:
            self.lost.append(f"{at[0]}[{at[1]}]: records were removed before they were read: {error.str()}")

    def snapshot(self) -> Log:
        """A copy of the log so far."""
        with self.lock:
            copy = Log(self.log.bus)
            copy.partitions = {tp: list(records) for tp, records in self.log.partitions.items()}
        return copy

    # -- what waits for the engines?

    def watch(self, group: str) -> None:
        """Looks for a backlog, in a thread of its own, until `stop`."""
        while not self._over.wait(LOOK_S):
            try:
                ends = {tp: end for tp, end in self._high_watermarks().items() if self._consumed(tp[0])}
                committed = self._committed(group, list(ends), stable=False)
            except (KafkaException, TimeoutError):
                continue  # the broker is away
            offsets = {tp: found[0] for tp, found in committed.items() if found is not None}
            self.backlog.look(offsets, ends, int(time.time() * 1000))

    # -- is everything done?

    def undone(self, group: str) -> list[str]:
        """Sentences about work that the engines have not finished; empty if all is done."""
        try:
            ends = self._high_watermarks()
            committed = self._committed(group, [tp for tp in ends if self._consumed(tp[0])])
        except KafkaException as e:
            return [f"the broker does not answer: {e}"]
        sentences = []
        registry = (self.log.topic("subscription"), 0)
        for tp, end in ends.items():
            name = f"{tp[0]}[{tp[1]}]"
            if self.ends.get(tp, 0 if end == 0 else -1) < end:
                sentences.append(f"{name} is read to {self.ends.get(tp)} of {end}: a transaction is open")
            elif self._consumed(tp[0]):
                sentences += self._behind(name, tp, committed.get(tp), ends[registry])
        return sentences

    def _behind(
        self, name: str, tp: tuple[str, int], committed: tuple[int, str] | None, registry_end: int
    ) -> list[str]:
        records = self.log.partitions.get(tp, [])
        last = records[-1].offset + 1 if records else 0
        if committed is None:
            return [f"{name} has no stable committed offset"] if records else []
        offset, text = committed
        if offset < last:
            return [f"{name} is committed to {offset} of {last}"]
        metadata = read_offset_metadata(text)
        registrations = self.log.partitions.get((self.log.topic("subscription"), 0), [])
        place = registrations[-1].offset + 1 if registrations else 0
        if metadata.get("R", 0) < place:
            return [f"{name} has applied the registry to {metadata.get('R')} of {place}"]
        if metadata.get("g"):
            return [f"{name} is scanned: {metadata['g']}"]
        return []

    def _consumed(self, topic: str) -> bool:
        return topic in self._listed or topic in (self.log.topic("event"), self.log.topic("trigger"))

    def _high_watermarks(self) -> dict[tuple[str, int], int]:
        asked = {TopicPartition(topic, p): OffsetSpec.latest() for topic, p in self._known}
        futures = self._admin.list_offsets(
            asked, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=10
        )
        return {(tp.topic, tp.partition): future.result(11).offset for tp, future in futures.items()}

    def _committed(
        self, group: str, tps: list[tuple[str, int]], *, stable: bool = True
    ) -> dict[tuple[str, int], tuple[int, str] | None]:
        """stable: a partition with an open transaction has no offset."""
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(*tp) for tp in tps])
        futures = self._admin.list_consumer_group_offsets([asked], require_stable=stable, request_timeout=10)
        return {
            (p.topic, p.partition): None if p.error or p.offset < 0 else (p.offset, p.metadata or "")
            for p in futures[group].result(11).topic_partitions
        }


class Oracle:
    """Answers the requests."""

    def __init__(self, follower: Follower, group: str, keep: Path | None = None) -> None:
        self._follower, self._group, self._keep = follower, group, keep

    def settle(self, seconds: float) -> dict[str, Any]:
        """Waits until nothing is left to do or the time is over. (Later timers may be hours away.)"""
        deadline = time.monotonic() + seconds
        while undone := self._undone():
            if time.monotonic() > deadline:
                return {"settled": False, "why": undone[:10]}
            time.sleep(0.5)
        _say("all is read and committed")
        model = Model(self._follower.snapshot())
        while True:
            now = int(time.time() * 1000)
            following = model.advance(now)
            if following is None or following > now + SOON_MS:
                break
            time.sleep(max(0.05, (following - now) / 1000))
        _say("all timers are due")
        while left := reconcile(self._follower.snapshot(), model, int(time.time() * 1000)):
            if time.monotonic() > deadline:
                return {"settled": False, "why": [f"{len(left)} keys have not fired as expected"]}
            time.sleep(2)
        return {"settled": True, "why": []}

    def judge(self, seconds: float, fault_times: list[int]) -> dict[str, Any]:
        """The verdict. Waits up to `seconds` for leaked keys to be closed. fault_times: see `Log`."""
        deadline = time.monotonic() + seconds
        while True:
            undone = self._undone()
            if undone and time.monotonic() < deadline:
                time.sleep(0.5)
                continue
            log, now = self._follower.snapshot(), int(time.time() * 1000)
            log.fault_times = sorted({*fault_times, *self._follower.backlog.times_ms})
            verdict = judge(log, now)
            if not verdict.differences.leaked_keys or time.monotonic() > deadline:
                break
            time.sleep(2)
        _say(f"engines worked off a backlog at {len(self._follower.backlog.times_ms)} looks")
        for line in first_lines(verdict.differences):
            _say(line)
        if self._keep is not None and verdict.differences:
            log.save(self._keep)
            _say(f"the log is in {self._keep}: python -m tests.chaos.judge {self._keep}")
        for line in (*self._follower.lost, *undone):
            _say(f"not judged: {line}")
        return {
            "events": verdict.events,
            "firings": verdict.firings,
            "fired_by_node": dict(sorted(verdict.fired_by_node.items())),
            "fired_by_life": dict(sorted(verdict.fired_by_life.items())),
            "timers_late_s": _spread(verdict.timers_late_ms),
            **verdict.differences.counts(),
            "undone": [*self._follower.lost, *undone],
        }

    def deliveries(self, seconds: float, sink_log: Path) -> dict[str, Any]:
        """The differences between the firings for sinks and what arrived there."""
        deadline = time.monotonic() + seconds
        while (left := unacknowledged(self._follower.snapshot())) and time.monotonic() < deadline:
            time.sleep(0.5)
        found = compare(self._follower.snapshot(), read_arrivals(sink_log))
        for line in (*left[:5], *found.missing[:5], *found.disordered[:5], *found.unexpected[:5]):
            _say(line)
        return {
            **{name: getattr(found, name) for name in ("firings", "dead_letters", "repeated")},
            **{name: len(getattr(found, name)) for name in ("missing", "disordered", "unexpected")},
            "open": len(left),
        }

    def _undone(self) -> list[str]:
        """Checks twice, since a commit between two requests may create new work."""
        return self._follower.undone(self._group) or self._again()

    def _again(self) -> list[str]:
        time.sleep(1.5)
        return self._follower.undone(self._group)


def _spread(late_ms: list[int]) -> dict[str, float]:
    ordered = sorted(late_ms) or [0]
    at = {"p50": len(ordered) // 2, "p99": len(ordered) * 99 // 100, "most": len(ordered) - 1}
    return {name: ordered[place] / 1000 for name, place in at.items()}


def _say(line: str) -> None:
    print(f"oracle: {line}", file=sys.stderr, flush=True)


def main(servers: str, bus: str, group: str, keep: str) -> None:
    follower = Follower(servers, bus)
    follower.start()
    threading.Thread(target=follower.watch, args=(group,), name="backlog", daemon=True).start()
    oracle = Oracle(follower, group, Path(keep))
    for line in sys.stdin:
        order, seconds, *more = line.split(maxsplit=2)
        if order == "settle":
            answer = oracle.settle(float(seconds))
        elif order == "deliveries":
            answer = oracle.deliveries(float(seconds), Path(json.loads(more[0])))
        else:
            answer = oracle.judge(float(seconds), json.loads(more[0]))
        print(json.dumps(answer), flush=True)
    follower.stop()


if __name__ == "__main__":
    if any(name.startswith("interlock.engine") for name in sys.modules):
        sys.exit("oracle: it must not import the engine")
    main(*sys.argv[1:5])
    os._exit(0)
