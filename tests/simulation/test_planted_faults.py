"""Rules taken out of the protocols one by one: the hunt finds each within a stated number of worlds."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec
import pytest
from interlock.engine.bus import Topic, TopicPartition
from interlock.engine.protocol.context import Limits
from interlock.engine.protocol.loop import Engine
from interlock.engine.protocol.partitions.ownership import Ownership
from interlock.engine.protocol.partitions.registry_reader import RegistryReader
from interlock.engine.protocol.parts import Parts
from interlock.engine.protocol.poison.suspects import Suspects
from interlock.engine.protocol.tasks.evaluator import Evaluator
from interlock.engine.protocol.tasks.scans import Scans
from interlock.engine.protocol.tasks.source_task import SourceTask
from interlock.engine.protocol.tasks.trigger_task import TriggerTask, runs_from_registration
from interlock.engine.protocol.timers.cut import Cut, Cuts
from interlock.engine.protocol.timers.progress import Progress
from interlock.engine.records import Target
from interlock.engine.registry.pause import Pause
from interlock.engine.registry.registry import Registry

from tests.kit.bus import SimulatedBus
from tests.simulation import faults, world
from tests.simulation.actors import MadeOf
from tests.simulation.faults import wrap
from tests.simulation.finding import assert_found, often
from tests.simulation.hunt import DAYS, FORGOTTEN, REMADE
from tests.simulation.world import STATE, TRIGGER

Patch = pytest.MonkeyPatch


def test_a_commit_without_a_fence_is_found(monkeypatch: Patch) -> None:
    faults.the_fence_of_a_commit(monkeypatch)
    assert_found(300, "I2", "I3", "I4", "I6", kept=5)


def test_a_producer_that_is_kept_when_its_connection_was_lost_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(SimulatedBus, "replace_producer", lambda self: None)
    often(monkeypatch, "late_end", 150)
    assert_found(2000, "I1", "I2", "I3", "I4", "I5", "I6", kept=85)


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


def test_ends_taken_before_the_stable_offsets_are_found() -> None:
    parts = Parts(ownership=EndsBeforeStableOffsets)
    assert_found(2000, "I6", "I10", "timers", kept=1097, made_of=MadeOf(parts=parts))


def test_registrations_that_are_live_before_their_scan_has_met_are_found(monkeypatch: Patch) -> None:
    faults.live_only_when_the_scan_has_met(monkeypatch)
    assert_found(300, "I3", "I4", kept=0)


class CutsWithoutWaiting(Cuts):
    def sources_reached(self, cut: Cut) -> bool:
        self.progress.look({}, self.registry.position, 0.0)
        return True


def test_a_tick_without_a_cut_is_found() -> None:
    assert_found(300, "timers", kept=1, made_of=MadeOf(parts=Parts(cuts=CutsWithoutWaiting)))


class AlwaysReady(Progress):
    def ready(self, place: int) -> bool:
        return True


def test_a_cut_that_does_not_look_at_registrations_is_found(monkeypatch: Patch) -> None:
    often(monkeypatch, "register", 150)
    assert_found(2000, "timers", kept=9, made_of=MadeOf(parts=Parts(progress=AlwaysReady)))


class CutsOverKnownPartitions(Cuts):
    """Never looks at the topics again, so partitions added since the first cut are not waited for."""

    known: dict[str, Topic] | None = None

    def source_topics(self) -> dict[str, Topic]:
        if self.known is None:
            self.known = super().source_topics()
        return self.known


def test_a_cut_over_the_partitions_that_were_known_is_found(monkeypatch: Patch) -> None:
    often(monkeypatch, "partition", 60)
    assert_found(2000, "timers", kept=1096, made_of=MadeOf(parts=Parts(cuts=CutsOverKnownPartitions)))


def test_a_cut_that_takes_the_committed_end_of_the_trigger_topic_is_found(monkeypatch: Patch) -> None:
    def stable(original: Any, self: SimulatedBus, partitions: Any) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = original(self, partitions)
        return {tp: self._log(tp).stable_end if tp.topic == TRIGGER else end for tp, end in found.items()}

    wrap(monkeypatch, SimulatedBus, "end_offsets", stable)
    assert_found(5000, "timers", kept=84)


def test_a_recovery_up_to_the_committed_end_of_the_states_is_found(monkeypatch: Patch) -> None:
    def stable(original: Any, self: SimulatedBus, partitions: Any) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = original(self, partitions)
        return {tp: self._log(tp).stable_end if tp.topic == STATE else end for tp, end in found.items()}

    wrap(monkeypatch, SimulatedBus, "end_offsets", stable)
    assert_found(4000, "I2", "I3", "I6", "I10", "timers", kept=757)


def test_events_of_before_since_that_count_are_found(monkeypatch: Patch) -> None:
    def at_any_time(original: Any, self: Any, record: Any, *rest: Any) -> Any:
        return original(self, record._replace(timestamp_ms=2**53), *rest)

    wrap(monkeypatch, SourceTask, "targets", at_any_time)
    assert_found(300, "I3", "I6", kept=0)


def test_scans_that_are_joined_behind_the_first_offset_of_a_member_are_found(monkeypatch: Patch) -> None:
    def anywhere(original: Any, self: Any, start: int, end: int, first: int) -> None:
        last = self.groups[-1] if self.groups else None
        if last is not None and last.end == start:
            last.end = end
        else:
            original(self, start, end, first)

    wrap(monkeypatch, Scans, "add", anywhere)
    assert_found(2000, "I3", "I4", kept=0)


def test_a_one_shot_that_is_not_closed_is_found(monkeypatch: Patch) -> None:
    faults.closing_a_one_shot(monkeypatch)
    assert_found(100, "I6", "I10", kept=0)


def test_an_offset_that_is_skipped_is_found(monkeypatch: Patch) -> None:
    faults.no_offset_beyond_what_was_read(monkeypatch)
    assert_found(20, "I2", "I3", kept=0)


def test_outputs_and_offsets_in_transactions_of_their_own_are_found(monkeypatch: Patch) -> None:
    faults.one_transaction_for_outputs_and_offsets(monkeypatch)
    assert_found(100, "I1", "I3", "I6", kept=0)


def test_a_state_record_that_is_not_written_is_found(monkeypatch: Patch) -> None:
    faults.writing_the_state(monkeypatch)
    assert_found(300, "I6", "I10", "timers", kept=0)


def test_a_match_judged_before_the_registry_was_read_is_found(monkeypatch: Patch) -> None:
    def whole_only(original: Any, self: Any, position: int) -> None:
        if self._registry.position == 0:
            original(self, position)

    wrap(monkeypatch, RegistryReader, "catch_up", whole_only)
    assert_found(8000, "I3", "I6", "I10", "timers", kept=319)


def test_timers_that_are_opened_twice_are_found(monkeypatch: Patch) -> None:
    def again(original: Any, self: Any) -> None:
        original(self)
        for registered in self.registry.between(0, self.registry.position):
            kept = self.store.get(registered.incarnation)
            opens = runs_from_registration(registered.condition)
            if kept is not None and opens and not kept.closed and kept.get(kept.single or "") is None:
                self.store.drop(registered.incarnation)
                self.kept_for(registered)

    wrap(monkeypatch, TriggerTask, "apply", again)
    assert_found(1000, "I6", "timers", kept=0)


def test_state_that_is_kept_although_another_owner_committed_is_found() -> None:
    parts = Parts(is_mine=lambda task, found: found is not None)
    assert_found(1000, "I2", "I3", "I6", kept=22, made_of=MadeOf(parts=parts))


def test_a_pass_that_is_not_taken_back_is_found(monkeypatch: Patch) -> None:
    faults.taking_a_pass_back(monkeypatch)
    assert_found(1000, "I6", "I10", "timers", kept=1)


class EngineThatKeepsItsBacklog(Engine):
    def drop_backlog(self) -> None:
        pass


def test_records_of_a_deleted_topic_that_wait_in_an_engine_are_found() -> None:
    made_of = MadeOf(engine=EngineThatKeepsItsBacklog)
    assert_found(4000, "I1", "I2", "I3", "I4", "I6", "KeyError", kept=168, turn=REMADE, made_of=made_of)


def test_an_event_whose_matchers_are_stepped_one_by_one_is_found(monkeypatch: Patch) -> None:
    def one_by_one(
        original: Any, self: Evaluator, registered: Any, kept: Any, target: Target, *rest: Any
    ) -> None:
        for number in target.matchers:
            single = msgspec.structs.replace(target, matchers=(number,))
            original(self, registered, kept, single, *rest)

    wrap(monkeypatch, Evaluator, "match", one_by_one)
    assert_found(1000, "I6", "I10", "timers", kept=6)


def test_repeats_that_the_marks_do_not_drop_are_found(monkeypatch: Patch) -> None:
    def forgotten(original: Any, self: Any, source: str, targets: Any, *rest: Any) -> None:
        kept = self.store.get(targets[0].incarnation)
        if kept is not None:
            kept.marks.clear()
        original(self, source, targets, *rest)

    wrap(monkeypatch, TriggerTask, "reach", forgotten)
    assert_found(1000, "I6", "I10", "timers", kept=24, turn=FORGOTTEN)


def test_what_a_removal_leaves_over_for_ever_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Registry, "leftovers", lambda self, before_ms: [])
    assert_found(2000, "I2", "I3", "I6", "I10", "timers", kept=12, turn=DAYS)


def test_states_that_a_removal_leaves_behind_are_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(TriggerTask, "forget", lambda self, incarnations: None)
    assert_found(200, "I10", kept=93)


def test_an_engine_that_goes_on_after_days_asleep_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Pause, "look", lambda self: None)
    assert_found(2000, "I2", "I3", "I6", "I10", "timers", kept=108, turn=DAYS)


def test_an_engine_that_begins_before_the_registry_is_read_is_found(monkeypatch: Patch) -> None:
    def until_the_bus_is_known(self: Any) -> None:
        while self._registry.bus is None:
            self.catch_up(self._registry.position + 1)

    monkeypatch.setattr(RegistryReader, "read_whole", until_the_bus_is_known)
    parts = Parts(limits=Limits(registry_records=1))
    assert_found(4000, "I3", "I6", "I10", "timers", kept=780, turn=DAYS, made_of=MadeOf(parts=parts))


def test_processes_that_went_on_or_stopped_and_are_counted_are_found(monkeypatch: Patch) -> None:
    def all_are_gone(original: Any, self: Suspects, metadata: Any, at: int, *_: Any, unread: bool) -> None:
        original(self, msgspec.structs.replace(metadata, e=msgspec.UNSET), at, "", (), unread=unread)

    monkeypatch.setattr(world, "LETHAL", 1.0)
    wrap(monkeypatch, Suspects, "take_over", all_are_gone)
    assert_found(1000, "attempts", kept=0)


def test_a_count_that_a_success_does_not_clear_is_found(monkeypatch: Patch) -> None:
    def kept(original: Any, self: Suspects, *rest: Any) -> Any:
        ended = self.trial.ended if self.trial is not None else ()
        answer = original(self, *rest)
        if self.trial is not None:
            self.trial = msgspec.structs.replace(self.trial, ended=ended)
        return answer

    monkeypatch.setattr(world, "LETHAL", 1.0)
    wrap(monkeypatch, Suspects, "begin", kept)
    wrap(monkeypatch, Suspects, "dead_lettered", kept)
    wrap(monkeypatch, Suspects, "passed", kept)
    assert_found(300, "I8", kept=0)


def test_a_try_that_is_not_committed_before_it_is_found(monkeypatch: Patch) -> None:
    def in_memory_only(original: Any, self: Suspects) -> dict[str, Any]:
        said: dict[str, Any] = original(self)
        if self.trial is not None:
            said["a"] = msgspec.structs.replace(self.trial, trying=False)
        return said

    monkeypatch.setattr(world, "LETHAL", 1.0)
    wrap(monkeypatch, Suspects, "metadata", in_memory_only)
    assert_found(100, "attempts", "Stuck", kept=0)


def test_a_count_in_a_transaction_without_the_fence_is_found(monkeypatch: Patch) -> None:
    """Who lost the partition writes its own count, and its old offset, over those of the owner."""

    def unfenced(original: Any, self: Any) -> bool:
        group = self._bus.cluster.group
        if self.membership is not None and group.members:
            self.membership = (next(iter(group.members)), group.generation)
        return bool(original(self))

    monkeypatch.setattr(world, "LETHAL", 1.0)
    wrap(monkeypatch, Engine, "begin_trials", unfenced)
    assert_found(1000, "I2", "I3", "I6", "I8", "attempts", kept=992)


def test_without_a_fault_nothing_is_found() -> None:
    with pytest.raises(pytest.fail.Exception, match="not found"):
        assert_found(100, "I1", "I2", "I3", "I4", "I6", "I8", "I10", "timers", kept=0)
