"""Which partitions of the action topic this deliverer has, and taking them over."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import msgspec

from ..bus import Committed, TopicPartition
from ..errors import EngineError
from ..log import log
from ..protocol.partitions.lifecycle import BLOCKED, OPEN, RECOVERING, Lifecycle
from ..records import DeliveryMetadata, encode_json
from ..records.versions import VERSION
from .context import DelivererContext
from .firings import OpenFiring
from .partition import ActionPartition


class DelivererOwnership:
    """The partitions that the group assigned to this deliverer, and the state of each.

    lifecycle: the states, of which deliverers use three: recovering while a partition is read to its end,
    blocked while a transaction that may change its committed offset is open, open when its firings are
    delivered. partitions: the recovering and the open ones.

    registry_end: up to where the registry must be read before a partition opens.
    """

    def __init__(self, context: DelivererContext) -> None:
        self.context, self.bus = context, context.bus
        self._action = context.config.topic("action")
        self._registry = TopicPartition(context.config.topic("subscription"), 0)
        self.assigned: tuple[TopicPartition, ...] | None = None  # None: not known
        self.lifecycle = Lifecycle(context.monotonic)
        self.partitions: dict[TopicPartition, ActionPartition] = {}
        self.committed: dict[TopicPartition, int] = {}  # as this deliverer committed them
        self.problems: dict[TopicPartition, str] = {}  # as committed with the offsets; "" for none
        self.registry_end = 0
        self._topic_id = ""

    @property
    def open(self) -> list[ActionPartition]:
        """The partitions whose firings are delivered."""
        return [self.partitions[tp] for tp in self.lifecycle.among(OPEN)]

    def is_open(self, tp: TopicPartition) -> bool:
        return self.lifecycle.state(tp) is OPEN

    @property
    def blocked(self) -> list[TopicPartition]:
        """The partitions whose committed offsets are not stable."""
        return self.lifecycle.among(BLOCKED)

    def assign(self, assigned: tuple[TopicPartition, ...] | None) -> None:
        """Another assignment begins (None: it is not known yet). Drops all partitions."""
        self.partitions, self.committed, self.problems = {}, {}, {}
        self.assigned = assigned
        self.lifecycle.assign(assigned or ())

    def take_over(self) -> Collection[Committed | None]:
        """Start to read the assigned partitions, once their committed offsets are stable.

        The offsets are read before the ends (1, 2), so that what an old owner acknowledged is below the
        offset or below the end. Returns what is committed, if reading starts now; else nothing.
        """
        if not self.assigned or self.partitions:
            return ()
        committed = self.stable_committed(self.assigned)  # 1
        if committed is None:
            self.lifecycle.move_all(self.assigned, BLOCKED)
            return ()
        self.lifecycle.move_all(self.assigned, RECOVERING)
        ends = self.ends(self.assigned)  # 2
        starts = self.bus.start_offsets(self.assigned)
        topic = self.bus.topics([self._action])[self._action]
        self._topic_id = "" if topic is None else topic.id
        self.registry_end = self.bus.end_offsets([self._registry])[self._registry]
        positions = {tp: self._start_of(tp, committed[tp], starts[tp], ends[tp]) for tp in self.assigned}
        for tp, position in positions.items():
            self.partitions[tp] = self.context.parts.partition(self.context, tp, position, ends[tp])
        self.bus.start(positions)
        return committed.values()

    def stable_committed(
        self, assigned: tuple[TopicPartition, ...]
    ) -> Mapping[TopicPartition, Committed | None] | None:
        """The committed offsets; None while a transaction that may change one is open."""
        return self.bus.committed(assigned)

    def ends(self, assigned: tuple[TopicPartition, ...]) -> Mapping[TopicPartition, int]:
        """The ends of the partitions: others may have acknowledged firings below them."""
        return self.bus.end_offsets(assigned)

    def is_recovered(self, partition: ActionPartition) -> bool:
        return partition.is_recovered

    def recovered(self, registry_position: int) -> Iterator[ActionPartition]:
        """Opens the partitions that are read to their ends, and yields each."""
        if registry_position < self.registry_end:
            return
        for tp in self.lifecycle.among(RECOVERING):
            partition = self.partitions.get(tp)
            if partition is not None and self.is_recovered(partition):
                self.lifecycle.move(tp, OPEN)
                yield partition

    def check(self) -> None:
        """Raises EngineError if another deliverer has acknowledged firings of a partition since the takeover.

        Its group has excluded this one, which has not noticed. It must not follow the other one, whose
        acknowledgements would let it send the next firing of each lane.
        """
        for tp, partition in self.partitions.items():
            if partition.other_owner:
                raise EngineError(
                    f"{tp} is delivered by {partition.other_owner} now: joining the group again."
                )

    def held(self, firing: OpenFiring) -> OpenFiring | None:
        """The same firing, as its partition holds it now; None if the partition is not open or does not."""
        tp = firing.record.source
        return self.partitions[tp].get(firing.key) if self.is_open(tp) else None

    def may_hold(self, firing: OpenFiring) -> bool:
        """Whether the firing is held, or may be found in what is still to be read."""
        tp = firing.record.source
        partition = self.partitions.get(tp)
        if partition is None:
            return self.assigned is None or self.lifecycle.state(tp) in (RECOVERING, BLOCKED)
        return not self.is_open(tp) or partition.is_scanning or partition.get(firing.key) is not None

    def is_whole(self, tp: TopicPartition) -> bool:
        """Whether all open firings of the partition are held."""
        return self.is_open(tp) and not self.partitions[tp].left_out

    def metadata(self, offset: int, problem: str = "") -> Committed:
        """An offset with its metadata, ready to be committed. problem: of its partition, for `health`."""
        found = DeliveryMetadata(
            v=VERSION, topic_id=self._topic_id, committer=self.bus.transactional_id, problem=problem
        )
        return Committed(offset, encode_json(found).decode())

    def _start_of(self, tp: TopicPartition, committed: Committed | None, start: int, end: int) -> int:
        if committed is None:
            return start
        found = delivery_metadata(committed)
        if found is None or found.topic_id != self._topic_id:
            foreign = "has a committed offset that no deliverer wrote"
            why = foreign if found is None else "was deleted and created again"
            log.error("%s %s: it is read from its start.", tp, why)
            return start
        if committed.offset > end:  # new firings would be below it, and never sent
            log.error(
                "%s ends at offset %d, but it was read and committed up to %d: its last records were lost. "
                "It is read from its start, and what is not acknowledged there is sent again.",
                tp,
                end,
                committed.offset,
            )
            return start
        if committed.offset < start:
            log.error(
                "%s begins at offset %d, but not all firings from %d on were delivered: "
                "retention has removed some.",
                tp,
                start,
                committed.offset,
            )
        return max(committed.offset, start)


def delivery_metadata(committed: Committed) -> DeliveryMetadata | None:
    """What a deliverer committed with an offset; None if something else committed it, as a tool may."""
    try:
        found = msgspec.json.decode(committed.metadata or "", type=DeliveryMetadata)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return found if found.topic_id else None
