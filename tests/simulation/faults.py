"""Engines and brokers that each lack one rule of the protocols; several suites plant these faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from interlock.engine.bus import Committed, Output, Record, TopicPartition
from interlock.engine.protocol.outputs import Outputs
from interlock.engine.protocol.parts import EngineParts
from interlock.engine.protocol.tasks.evaluator import Evaluator
from interlock.engine.protocol.tasks.scans import Scans
from interlock.engine.protocol.tasks.source_task import SourceTask
from interlock.engine.protocol.tasks.store import KeyStates, Store
from interlock.engine.protocol.tasks.trigger_task import TriggerTask
from interlock.engine.records import MatchTarget
from interlock.engine.registry.registry import Registered

from tests.kit.bus import SimulatedBus
from tests.kit.kafka import Cluster, Transaction
from tests.kit.made_of import MadeOf


class ClusterWithoutFence(Cluster):
    """Accepts the offsets of former members."""

    def send_offsets(
        self,
        transaction: Transaction,
        offsets: Mapping[TopicPartition, Committed],
        member: str,
        generation: int,
    ) -> None:
        if self.group.members:
            member, generation = next(iter(self.group.members)), self.group.generation
        super().send_offsets(transaction, offsets, member, generation)


NO_FENCE: Final = MadeOf(cluster=ClusterWithoutFence)


class BusWithTwoTransactions(SimulatedBus):
    """Commits outputs and offsets one after the other."""

    def commit(
        self, outputs: Sequence[Output], offsets: Mapping[TopicPartition, Committed], membership: object
    ) -> int | None:
        first = next(iter(offsets))
        appended: int | None = None
        if outputs:
            current = self.cluster.group.offsets.get(first, Committed(0, ""))
            appended = super().commit(outputs, {first: current}, membership)
        super().commit([], offsets, membership)
        return appended


TWO_TRANSACTIONS: Final = MadeOf(bus=BusWithTwoTransactions)


class StoreThatKeepsAnAbortedPass(Store):
    def rollback(self) -> None:
        self.committed()


NO_ROLLBACK: Final = MadeOf(parts=EngineParts(store=StoreThatKeepsAnAbortedPass))


class SourceThatCommitsTooMuch(SourceTask):
    """Commits an offset beyond what it has read."""

    def commit_into(self, outputs: Outputs, committer: str, number: int) -> None:
        super().commit_into(outputs, committer, number)
        committed = outputs.offsets[self.tp]
        outputs.offsets[self.tp] = Committed(committed.offset + 1, committed.metadata)


OFFSET_TOO_FAR: Final = MadeOf(parts=EngineParts(source_task=SourceThatCommitsTooMuch))


class StoreThatLosesARecord(Store):
    """Does not write the last of the states that a pass has changed."""

    def write(self, outputs: Outputs, partition: int) -> None:
        before = len(outputs.records)
        super().write(outputs, partition)
        if len(outputs.records) > before:
            outputs.records.pop()


STATE_NOT_WRITTEN: Final = MadeOf(parts=EngineParts(store=StoreThatLosesARecord))


class ScansThatHoldNothingBack(Scans):
    """Registrations see live events while a scan still brings them up to date."""

    def covers(self, registry_offset: int) -> bool:
        return False


LIVE_DURING_ITS_SCAN: Final = MadeOf(parts=EngineParts(scans=ScansThatHoldNothingBack))


class EvaluatorThatLeavesOneShotsOpen(Evaluator):
    def fire(self, registered: Registered, kept: KeyStates, *rest: Any) -> None:
        super().fire(registered, kept, *rest)
        kept.closed = False


ONE_SHOT_STAYS_OPEN: Final = MadeOf(parts=EngineParts(evaluator=EvaluatorThatLeavesOneShotsOpen))


class SourceThatIgnoresSince(SourceTask):
    """Matches events with registrations that ask for later ones only."""

    def targets(self, record: Record, *rest: Any) -> list[tuple[Registered, MatchTarget]]:
        return super().targets(msgspec.structs.replace(record, timestamp_ms=1 << 53), *rest)


SINCE_IGNORED: Final = MadeOf(parts=EngineParts(source_task=SourceThatIgnoresSince))


class TaskWithoutMarks(TriggerTask):
    """Forgets up to where it has evaluated each source partition."""

    def step_targets(self, source: str, targets: list[MatchTarget], *rest: Any) -> None:
        kept = self.store.get(targets[0].incarnation)
        if kept is not None:
            kept.marks.clear()
        super().step_targets(source, targets, *rest)


NO_MARKS: Final = MadeOf(parts=EngineParts(trigger_task=TaskWithoutMarks))
