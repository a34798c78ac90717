"""How far the engines have read the sources, for all registrations and for one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final, Literal

from ...conditions.explanation.records import Record
from ..bus import TopicPartition
from ..config import BusConfig
from ..kafka.admin import Admin
from ..kafka.positions import Position, positions
from ..protocol.partitions.missing_records import inspect_commit
from ..records import OffsetMetadata

Stage = Literal["not applied", "scan", "live"]


@dataclass(frozen=True)
class EnginesProgress:
    """How far the engines have read a bus. members: whether it has an engine. trigger: the topic's name."""

    members: bool
    positions: Sequence[Position]
    trigger: str

    @classmethod
    def read(cls, config: BusConfig, listed: Sequence[str]) -> EnginesProgress:
        """The progress now. Raises UnreachableError.

        Read it before the state: then what was processed is in the state.
        """
        with closing(Admin(config)) as admin:
            return cls(bool(admin.group_members()), positions(admin, config, listed), config.topic("trigger"))

    def of(self, offset: int) -> RegistrationProgress:
        """The progress of the registration at this offset of the registry."""
        return RegistrationProgress(
            self.members,
            {each.tp: (each, _stage(each, offset)) for each in self.positions if not self._is_trigger(each)},
            sum(_lag(each) for each in self.positions if self._is_trigger(each)),
        )

    def _is_trigger(self, position: Position) -> bool:
        return position.tp.topic == self.trigger


@dataclass(frozen=True)
class RegistrationProgress:
    """The positions of the sources, and how far a registration is applied there.

    members: whether the bus has an engine. matches: how many matches are not processed yet.
    """

    members: bool
    sources: Mapping[TopicPartition, tuple[Position, Stage]]
    matches: int

    @property
    def events(self) -> int:
        """How many events are not read yet, at most."""
        return sum(_lag(position) for position, _ in self.sources.values())

    def partitions(self, stage: Stage) -> int:
        """How many partitions are at this stage for the registration."""
        return sum(found == stage for _, found in self.sources.values())

    def was_read(self, record: Record) -> bool | None:
        """Whether the record was read for the registration and its match processed; None if not known."""
        if record.topic is None or record.partition is None or record.offset is None:
            return None
        position, stage = self.sources.get(TopicPartition(record.topic, record.partition), _NO_SOURCE)
        if position is None or stage == "scan":
            return None
        if position.committed is None:
            return None if position.listed else False
        if stage == "not applied" or record.offset >= position.committed.offset:
            return False
        return None if self.matches else True


_NO_SOURCE: Final[tuple[Position | None, Stage]] = (None, "not applied")


def _lag(position: Position) -> int:
    return position.size if position.lag is None else position.lag


def _stage(position: Position, offset: int) -> Stage:
    """How far the registration at this offset is applied in a partition of a source."""
    known = inspect_commit(position.committed, position.topic.id, position.low, position.end, in_use=False)
    return stage_of(known.metadata, offset)


def stage_of(metadata: OffsetMetadata, offset: int) -> Stage:
    """The stage of a registration: "scan" while its earlier events are read for it, "live" after that."""
    if offset >= metadata.applied:
        return "not applied"
    return "scan" if any(start <= offset < end for start, end, _ in metadata.scans) else "live"
