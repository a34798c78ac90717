"""Rules of the protocols, each taken out by a function that patches the code; several suites plant them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from interlock.engine.bus import Committed, Output, TopicPartition
from interlock.engine.protocol.tasks.evaluator import Evaluator
from interlock.engine.protocol.tasks.scans import Scans
from interlock.engine.protocol.tasks.source_task import SourceTask
from interlock.engine.protocol.tasks.store import Store

from tests.kit.bus import SimulatedBus
from tests.kit.kafka import Cluster

Patch = pytest.MonkeyPatch


def wrap(patch: Patch, owner: type, name: str, around: Callable[..., Any]) -> None:
    """`around(original, self, *arguments)` takes the place of a method."""
    original = getattr(owner, name)
    patch.setattr(owner, name, lambda self, *args, **kwargs: around(original, self, *args, **kwargs))


def the_fence_of_a_commit(patch: Patch) -> None:
    def unfenced(
        original: Any, self: Cluster, transaction: Any, offsets: Any, member: str, generation: int
    ) -> None:
        if self.group.members:
            member, generation = next(iter(self.group.members)), self.group.generation
        original(self, transaction, offsets, member, generation)

    wrap(patch, Cluster, "send_offsets", unfenced)


def one_transaction_for_outputs_and_offsets(patch: Patch) -> None:
    def apart(
        original: Any,
        self: SimulatedBus,
        outputs: Sequence[Output],
        offsets: Mapping[TopicPartition, Committed],
        membership: object,
    ) -> int | None:
        first = next(iter(offsets))
        appended: int | None = None
        if outputs:
            current = self.cluster.group.offsets.get(first, Committed(0, ""))
            appended = original(self, outputs, {first: current}, membership)
        original(self, [], offsets, membership)
        return appended

    wrap(patch, SimulatedBus, "commit", apart)


def taking_a_pass_back(patch: Patch) -> None:
    patch.setattr(Store, "rollback", Store.committed)


def no_offset_beyond_what_was_read(patch: Patch) -> None:
    def beyond(original: Any, self: SourceTask, outputs: Any, committer: str, number: int) -> None:
        original(self, outputs, committer, number)
        committed = outputs.offsets[self.tp]
        outputs.offsets[self.tp] = Committed(committed.offset + 1, committed.metadata)

    wrap(patch, SourceTask, "commit_into", beyond)


def writing_the_state(patch: Patch) -> None:
    def forgetful(original: Any, self: Store, outputs: Any, partition: int) -> None:
        before = len(outputs.records)
        original(self, outputs, partition)
        if len(outputs.records) > before:
            outputs.records.pop()

    wrap(patch, Store, "write", forgetful)


def live_only_when_the_scan_has_met(patch: Patch) -> None:
    patch.setattr(Scans, "covers", lambda self, place: False)


def closing_a_one_shot(patch: Patch) -> None:
    def open_again(original: Any, self: Any, registered: Any, kept: Any, *rest: Any) -> None:
        original(self, registered, kept, *rest)
        kept.closed = False

    wrap(patch, Evaluator, "fire", open_again)
