"""The cost of an event in the engine's two hops, on records in memory, without a client.

A figure is the least of all turns, since other load of the machine only adds to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, cast

from interlock.conditions import Condition, event
from interlock.engine.bus import Bus, Committed, Record, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.protocol.context import EngineContext, EngineLimits
from interlock.engine.protocol.outputs import Outputs
from interlock.engine.protocol.parts import EngineParts
from interlock.engine.protocol.tasks.source_task import SourceTask
from interlock.engine.protocol.tasks.start import TaskStart
from interlock.engine.protocol.tasks.trigger_task import TriggerTask
from interlock.engine.records import Registration, RegistrationKey, encode_json
from interlock.events import Event, kafka
from interlock.events.completions import DagRun, DagRunCompletion

from ..lines import report
from .load import OPEN, PAIR, event_of, unmatched

CONFIG: Final = BusConfig(name="b", client={"bootstrap.servers": "nowhere"})
PROVING: Final = BusConfig(
    name="b",
    client={
        **CONFIG.client,
        "interlock.proof.secret": "s" * 48,
        "interlock.proof.from": "2020-01-01T00:00:00Z",
    },
)
EVENTS, TRIGGERS, SUBSCRIPTIONS = (
    TopicPartition(f"b-{kind}", 0) for kind in ("event", "trigger", "subscription")
)
NOW_MS: Final = 1_800_000_000_000
PARTS: Final = EngineParts(limits=EngineLimits(ttl_ms=86_400_000))
TURNS: Final = 7
PASS: Final = 2_500  # records of the trigger hop between two commits


class Hops:
    """An engine that owns one partition of each hop, with the pair and `others` more subscriptions."""

    def __init__(self, others: int = 0, config: BusConfig = CONFIG) -> None:
        context = EngineContext.of(
            cast(Bus, None), config, PARTS
        )  # the hops read and write nothing themselves
        self.registry, self.index = context.registry, context.index
        self._register("pair", PAIR)
        for number in range(others):
            self._register(f"d{number}", event(f"com.example.n{number}"))
        self._source = SourceTask(TaskStart(EVENTS, Committed(0, ""), 1), context)
        self._trigger = TriggerTask(TaskStart(TRIGGERS, Committed(0, ""), 1), context)
        self._source.apply(self.registry.position, None)
        self._trigger.apply()
        self.outputs = Outputs(CONFIG, self.registry.version)

    def _register(self, name: str, condition: Condition) -> None:
        registration = Registration.of(name, condition, None, 0, kind="durable")
        key = RegistrationKey(registration.incarnation, "n").encode()
        record = Record(SUBSCRIPTIONS, self.registry.position, 0, key, encode_json(registration), None)
        for added in self.registry.apply(record).added:
            self.index.add(added, added.condition, None)

    def match(self, record: Record) -> None:
        """The event hop: puts a record of the trigger topic into `outputs` if the event matches."""
        self._source.match(record, self.outputs, NOW_MS)

    def commit(self) -> None:
        """Commits the trigger hop's changes, as at the end of a pass."""
        self._trigger.commit_into(self.outputs, "bench", 1)
        self._trigger.committed()
        self.outputs = Outputs(CONFIG, self.registry.version)

    def process(self, record: Record) -> None:
        """The trigger hop: steps the states of the record's keys; puts firings into `outputs`."""
        self._trigger.process(record, TriggerTask.decode(record), self.outputs, NOW_MS)

    def matches(self, records: list[Record]) -> list[Record]:
        """The records of the trigger topic that the event hop writes for these records."""
        self.outputs = Outputs(CONFIG, self.registry.version)
        for record in records:
            self.match(record)
        made = [output.value for output in self.outputs.records]
        self.outputs = Outputs(CONFIG, self.registry.version)
        return [Record(TRIGGERS, n, NOW_MS + n, None, value, None) for n, value in enumerate(made)]


def records(events: list[Event]) -> list[Record]:
    """The events as records of the event topic."""
    return [Record(EVENTS, n, NOW_MS + n, *kafka.encode(each)) for n, each in enumerate(events)]


Work = Callable[[], None]


def own_event(number: int) -> Event:
    """An event of one of Interlock's own types, as the listener emits it: 470 bytes of data."""
    moment = datetime(2026, 11, 20, 6, 0, 0, number % 1_000_000, UTC)
    run = DagRun(
        deployment="prod",
        dag_id="rates_ingest",
        run_id=f"scheduled__2026-11-20T06:00:00.{number:06}+00:00",
        run_type="scheduled",
        run_after=moment,
        logical_date=moment,
        data_interval_start=moment,
        data_interval_end=moment,
    )
    return DagRunCompletion(run=run, state="success", started_at=moment, ended_at=moment).event()


def event_hop(events: list[Event], others: int, config: BusConfig = CONFIG) -> Callable[[], Work]:
    """The event hop for these events among `others` subscriptions. With proofs, own events have theirs."""

    def prepare() -> Work:
        sign = (lambda each: each) if config.proof is None else config.proof.signed
        hops, given = Hops(others, config), records([sign(each) for each in events])

        def work() -> None:
            for record in given:
                hops.match(record)

        return work

    return prepare


def trigger_hop(events: list[Event], pass_of: int | None = None) -> Callable[[], Work]:
    """The trigger hop for the matches of these events. pass_of: records per commit; None: no commits."""

    def prepare() -> Work:
        hops = Hops()
        given = hops.matches(records(events))
        assert len(given) == len(events), "each event should match the pair"

        def work() -> None:
            for number, record in enumerate(given, 1):
                hops.process(record)
                if pass_of is not None and number % pass_of == 0:
                    hops.commit()

        return work

    return prepare


def run(_at: str) -> None:
    """Measures microseconds of processor time per event, for each hop."""
    names = [f"{n}" for n in range(OPEN)]
    pairs = [event_of(f"pair.{half}", name, name) for half in ("first", "second") for name in names]
    completions = [own_event(number) for number in range(len(pairs))]
    works = {
        "event hop, an event that matches nothing": event_hop(list(unmatched(len(pairs))), 0),
        "event hop, an event of a pair": event_hop(pairs, 0),
        "trigger hop, an event of a pair, its state written": trigger_hop(pairs, PASS),
        "event hop, an own event that matches nothing": event_hop(completions, 0),
        "event hop, an own event with its proof": event_hop(completions, 0, PROVING),
        "event hop, another event on a bus with proofs": event_hop(list(unmatched(len(pairs))), 0, PROVING),
    }
    least = dict.fromkeys(works, float("inf"))
    for _ in range(TURNS):
        for name, prepare in works.items():
            work = prepare()
            began = time.thread_time()
            work()
            least[name] = min(least[name], (time.thread_time() - began) / len(pairs) * 1e6)
    first = next(iter(least.values()))
    for name, figure in least.items():
        report(name, figure, "us/event", figure / first)
