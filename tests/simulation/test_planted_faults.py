"""Rules taken out of the protocols one by one: the hunt finds each within a stated number of worlds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
from interlock.engine.bus import Topic, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.protocol.context import EngineLimits
from interlock.engine.protocol.loop import Engine
from interlock.engine.protocol.partitions.ownership import Ownership
from interlock.engine.protocol.partitions.registry_reader import RegistryReader
from interlock.engine.protocol.parts import EngineParts
from interlock.engine.protocol.poison.suspects import Suspects
from interlock.engine.protocol.tasks.evaluator import Evaluator
from interlock.engine.protocol.tasks.scans import Scans
from interlock.engine.protocol.tasks.store import KeyStates
from interlock.engine.protocol.tasks.trigger_task import TriggerTask, runs_from_registration
from interlock.engine.protocol.timers.cut import Cut, Cuts
from interlock.engine.protocol.timers.progress import Progress
from interlock.engine.records import MatchTarget, OffsetMetadata
from interlock.engine.registry.pause import ReadPause
from interlock.engine.registry.registry import Registered, Registry

from tests.kit.bus import SimulatedBus
from tests.kit.made_of import MadeOf
from tests.simulation import faults, lethal
from tests.simulation.finding import assert_found, often
from tests.simulation.hunt import DAYS, FORGOTTEN, REMADE
from tests.simulation.topics import STATE, TRIGGER

Patch = pytest.MonkeyPatch


def test_a_commit_without_a_fence_is_found() -> None:
    assert_found(300, "I2", "I3", "I4", "I6", kept=20, made_of=faults.NO_FENCE)


class BusThatKeepsItsProducer(SimulatedBus):
    def replace_producer(self) -> None:
        pass


def test_a_producer_that_is_kept_when_its_connection_was_lost_is_found(monkeypatch: Patch) -> None:
    often(monkeypatch, {"late end": 150})
    made_of = MadeOf(bus=BusThatKeepsItsProducer)
    assert_found(2000, "I1", "I2", "I3", "I4", "I5", "I6", kept=73, made_of=made_of)


class EndsBeforeStableOffsets(Ownership):
    """Takes step 2 of a takeover before step 1."""

    early: Mapping[TopicPartition, int] | None = None

    def assign(self, partitions: tuple[TopicPartition, ...]) -> None:
        self.early = None
        super().assign(partitions)

    def stable_offsets(self, partitions: Collection[TopicPartition]) -> Any:
        if self.early is None:
            bus: Any = self.bus
            self.early = {log.tp: log.end for log in bus.cluster.topics[STATE].logs}
        return super().stable_offsets(partitions)

    def state_ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        early = self.early or {}
        return {tp: min(end, early.get(tp, end)) for tp, end in super().state_ends(partitions).items()}


def test_a_takeover_that_reads_the_end_before_the_stable_offset_is_found() -> None:
    parts = EngineParts(ownership=EndsBeforeStableOffsets)
    assert_found(2000, "I6", "I10", "timers", kept=1097, made_of=MadeOf(parts=parts))


def test_registrations_that_are_live_before_their_scan_ends_are_found() -> None:
    assert_found(300, "I3", "I4", kept=0, made_of=faults.LIVE_DURING_ITS_SCAN)


class CutsWithoutWaiting(Cuts):
    def sources_reached(self, cut: Cut) -> bool:
        self.progress.update({}, self.registry.position, 0.0)
        return True


def test_a_tick_without_a_cut_is_found() -> None:
    assert_found(300, "timers", kept=11, made_of=MadeOf(parts=EngineParts(cuts=CutsWithoutWaiting)))


class AlwaysReady(Progress):
    def ready(self, offset: int) -> bool:
        return True


def test_a_tick_for_registrations_that_are_not_yet_applied_everywhere_is_found(monkeypatch: Patch) -> None:
    often(monkeypatch, {"register": 150})
    assert_found(2000, "timers", kept=122, made_of=MadeOf(parts=EngineParts(progress=AlwaysReady)))


class CutsOverKnownPartitions(Cuts):
    """Never looks at the topics again, so partitions added since the first cut are not waited for."""

    known: dict[str, Topic] | None = None

    def source_topics(self) -> dict[str, Topic]:
        if self.known is None:
            self.known = super().source_topics()
        return self.known


def test_a_cut_that_misses_partitions_added_later_is_found(monkeypatch: Patch) -> None:
    often(monkeypatch, {"partition": 60})
    assert_found(2000, "timers", kept=1096, made_of=MadeOf(parts=EngineParts(cuts=CutsOverKnownPartitions)))


class BusWithStableEnds(SimulatedBus):
    """Returns the last stable offset instead of the high watermark."""

    topic: str

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        ends = super().end_offsets(partitions)
        return {tp: self.stable_end(tp) if tp.topic == self.topic else end for tp, end in ends.items()}

    def stable_end(self, tp: TopicPartition) -> int:
        log = self.cluster.log(tp)
        assert log is not None
        return log.stable_end


class BusWithStableTriggerEnds(BusWithStableEnds):
    topic = TRIGGER


def test_a_cut_that_takes_the_committed_end_of_the_trigger_topic_is_found() -> None:
    assert_found(5000, "timers", kept=84, made_of=MadeOf(bus=BusWithStableTriggerEnds))


class BusWithStableStateEnds(BusWithStableEnds):
    topic = STATE


def test_a_recovery_up_to_the_committed_end_of_the_states_is_found() -> None:
    made_of = MadeOf(bus=BusWithStableStateEnds)
    assert_found(4000, "I2", "I3", "I6", "I10", "timers", kept=757, made_of=made_of)


def test_events_before_since_that_count_are_found() -> None:
    assert_found(300, "I3", "I6", kept=0, made_of=faults.SINCE_IGNORED)


class ScansThatJoinAnything(Scans):
    def add(self, start: int, end: int, first: int) -> None:
        last = self.groups[-1] if self.groups else None
        if last is not None and last.end == start:
            last.end = end
        else:
            super().add(start, end, first)


def test_a_registration_that_joins_a_scan_beyond_its_first_offset_is_found() -> None:
    made_of = MadeOf(parts=EngineParts(scans=ScansThatJoinAnything))
    assert_found(2000, "I3", "I4", kept=0, made_of=made_of)


def test_a_one_shot_that_is_not_closed_is_found() -> None:
    assert_found(100, "I6", "I10", kept=0, made_of=faults.ONE_SHOT_STAYS_OPEN)


def test_an_offset_that_is_skipped_is_found() -> None:
    assert_found(20, "I2", "I3", kept=0, made_of=faults.OFFSET_TOO_FAR)


def test_outputs_and_offsets_in_separate_transactions_are_found() -> None:
    assert_found(40, "I1", "I3", "I6", kept=0, made_of=faults.TWO_TRANSACTIONS)


def test_a_state_record_that_is_not_written_is_found() -> None:
    assert_found(300, "I6", "I10", "timers", kept=0, made_of=faults.STATE_NOT_WRITTEN)


class ReaderThatDoesNotCatchUp(RegistryReader):
    def catch_up(self, position: int) -> None:
        if self.registry.position == 0:
            super().catch_up(position)


def test_a_match_evaluated_before_the_registry_was_read_is_found() -> None:
    made_of = MadeOf(parts=EngineParts(registry_reader=ReaderThatDoesNotCatchUp))
    assert_found(8000, "I3", "I6", "I10", "timers", kept=319, made_of=made_of)


class TaskThatOpensTimersAgain(TriggerTask):
    def apply(self) -> None:
        super().apply()
        for registered in self.registry.between(0, self.registry.position):
            kept = self.store.get(registered.incarnation)
            opens = runs_from_registration(registered.condition)
            if kept is not None and opens and not kept.closed and kept.get(kept.single or "") is None:
                self.store.drop(registered.incarnation)
                self.states_of(registered)


def test_timers_that_are_opened_twice_are_found() -> None:
    made_of = MadeOf(parts=EngineParts(trigger_task=TaskThatOpensTimersAgain))
    assert_found(1000, "I6", "timers", kept=0, made_of=made_of)


def test_state_that_is_kept_although_another_owner_committed_is_found() -> None:
    parts = EngineParts(is_mine=lambda task, found: found is not None)
    assert_found(1000, "I2", "I3", "I6", kept=22, made_of=MadeOf(parts=parts))


def test_a_pass_that_is_not_rolled_back_is_found() -> None:
    assert_found(1000, "I6", "I10", "timers", kept=20, made_of=faults.NO_ROLLBACK)


class EngineThatKeepsItsBacklog(Engine):
    def drop_backlog(self) -> None:
        pass


def test_records_of_a_deleted_topic_that_wait_in_an_engine_are_found() -> None:
    made_of = MadeOf(engine=EngineThatKeepsItsBacklog)
    assert_found(4000, "I1", "I2", "I3", "I4", "I6", "KeyError", kept=168, turn=REMADE, made_of=made_of)


class EvaluatorOfSingleMatchers(Evaluator):
    def match(self, registered: Registered, kept: KeyStates, target: MatchTarget, *rest: Any) -> None:
        for number in target.matchers:
            single = msgspec.structs.replace(target, matchers=(number,))
            super().match(registered, kept, single, *rest)


def test_an_event_whose_matchers_are_stepped_one_by_one_is_found() -> None:
    made_of = MadeOf(parts=EngineParts(evaluator=EvaluatorOfSingleMatchers))
    assert_found(1000, "I6", "I10", "timers", kept=6, made_of=made_of)


def test_repeats_that_the_marks_do_not_drop_are_found() -> None:
    assert_found(1000, "I6", "I10", "timers", kept=24, turn=FORGOTTEN, made_of=faults.NO_MARKS)


class TaskThatLeavesStates(TriggerTask):
    def forget(self, incarnations: Iterable[str]) -> None:
        pass


def test_states_that_a_removal_leaves_behind_are_found() -> None:
    made_of = MadeOf(parts=EngineParts(trigger_task=TaskThatLeavesStates))
    assert_found(200, "I10", kept=93, made_of=made_of)


class RegistryWithoutLeftovers(Registry):
    def leftovers(self, before_ms: int) -> list[tuple[str, bytes]]:
        return []


def test_leftovers_of_a_removal_that_stay_for_ever_are_found() -> None:
    made_of = MadeOf(parts=EngineParts(registry=RegistryWithoutLeftovers))
    assert_found(2000, "I2", "I3", "I6", "I10", "timers", kept=12, turn=DAYS, made_of=made_of)


class UnnoticedPause(ReadPause):
    def check(self) -> None:
        pass


def test_an_engine_that_continues_after_days_of_suspension_is_found() -> None:
    made_of = MadeOf(parts=EngineParts(read_pause=UnnoticedPause))
    assert_found(2000, "I2", "I3", "I6", "I10", "timers", kept=108, turn=DAYS, made_of=made_of)


class ReaderUntilTheBusIsKnown(RegistryReader):
    def read_whole(self) -> None:
        while self.registry.bus is None:
            self.catch_up(self.registry.position + 1)


def test_an_engine_that_begins_before_the_registry_is_read_is_found() -> None:
    parts = EngineParts(registry_reader=ReaderUntilTheBusIsKnown, limits=EngineLimits(registry_records=1))
    made_of = MadeOf(parts=parts)
    assert_found(4000, "I3", "I6", "I10", "timers", kept=780, turn=DAYS, made_of=made_of)


class SuspectsThatBlameAnyone(Suspects):
    """Assumes that each earlier engine has ended its process."""

    def take_over(self, metadata: OffsetMetadata, offset: int, *_: Any, unread: bool) -> None:
        without_end = msgspec.structs.replace(metadata, ended_cleanly=msgspec.UNSET)
        super().take_over(without_end, offset, "", (), unread=unread)


def test_a_count_of_processes_that_survived_or_were_stopped_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(lethal, "SHARE", 1.0)
    made_of = MadeOf(parts=EngineParts(suspects=SuspectsThatBlameAnyone))
    assert_found(1000, "attempts", kept=0, made_of=made_of)


class SuspectsThatKeepTheCount(Suspects):
    """Counts the processes that ended before a success as well."""

    def begin(self, offset: int) -> bool:
        with self.kept_count():
            return super().begin(offset)

    def dead_lettered(self, offset: int) -> None:
        with self.kept_count():
            super().dead_lettered(offset)

    def processed(self) -> bool:
        with self.kept_count():
            return super().processed()

    @contextmanager
    def kept_count(self) -> Iterator[None]:
        ended = self.records.ended if self.records is not None else ()
        yield
        if self.records is not None:
            self.records = msgspec.structs.replace(self.records, ended=ended)


def test_a_count_that_a_success_does_not_clear_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(lethal, "SHARE", 1.0)
    made_of = MadeOf(parts=EngineParts(suspects=SuspectsThatKeepTheCount))
    assert_found(300, "I8", kept=0, made_of=made_of)


class SuspectsInMemory(Suspects):
    """Does not commit that a suspect is being tried."""

    def metadata(self) -> dict[str, Any]:
        metadata = super().metadata()
        if self.records is not None:
            metadata["suspects"] = msgspec.structs.replace(self.records, trying=False)
        return metadata


def test_a_suspect_that_is_tried_before_the_try_is_committed_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(lethal, "SHARE", 1.0)
    made_of = MadeOf(parts=EngineParts(suspects=SuspectsInMemory))
    assert_found(100, "attempts", "Stuck", kept=0, made_of=made_of)


class EngineThatCountsWithoutFence(Engine):
    """An engine that lost the partition overwrites the owner's count and offset with its own old ones."""

    def __init__(self, bus: SimulatedBus, config: BusConfig, **given: Any) -> None:
        self.group = bus.cluster.group
        super().__init__(bus, config, **given)

    def begin_suspects(self) -> bool:
        if self.membership is not None and self.group.members:
            self.membership = (next(iter(self.group.members)), self.group.generation)
        return super().begin_suspects()


def test_a_count_in_a_transaction_without_the_fence_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(lethal, "SHARE", 1.0)
    made_of = MadeOf(engine=EngineThatCountsWithoutFence)
    assert_found(1000, "I2", "I3", "I6", "I8", "attempts", kept=992, made_of=made_of)


def test_without_a_fault_nothing_is_found() -> None:
    with pytest.raises(pytest.fail.Exception, match="not found"):
        assert_found(30, "I1", "I2", "I3", "I4", "I6", "I8", "I10", "timers", kept=0)
