"""How a world's topics are cleaned: compaction, and retention of the source topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from interlock.engine.bus import TopicPartition
from interlock.engine.records import OffsetMetadata, decode_json

from tests.simulation.actors import Actor, AnyWorld
from tests.simulation.producers import Producers
from tests.simulation.topics import ACTION, ORDERS, REGISTRY, STATE
from tests.simulation.users import Users


class Cleaning:
    """The cleaning of one world's topics, as its brokers may do it.

    removed_at: {(partition, offset) of what retention removed: what its partition had applied by then, with
    the scans in progress}.
    actions: {name: what happens by chance}; the numbers choose where. False if it does not apply now.
    """

    def __init__(
        self,
        world: AnyWorld,
        actors: Sequence[Actor],
        producers: Producers,
        users: Users,
        *,
        keeps_registry: bool,
    ) -> None:
        """keeps_registry: never compacts the registry by chance, for worlds with waits.

        Brokers keep a removal for a day, and only of engines is known here whether they have read it.
        """
        self._cluster, self._seen, self._say = world.cluster, world.seen, world.say
        self._actors, self._producers, self._users = actors, producers, users
        self._keeps_registry = keeps_registry
        self.removed_at: dict[tuple[TopicPartition, int], OffsetMetadata] = {}
        self.actions: Mapping[str, Callable[[int, int], bool]] = {
            "compact": self._compact,
            "retain": self._retain,
        }

    def _compact(self, n: int, below: int) -> bool:
        topic = self._cluster.topics[(STATE, STATE, ACTION, REGISTRY.topic)[n % 4]]
        log = topic.logs[n // 4 % len(topic.logs)]
        if not log.end or (log.tp == REGISTRY and self._keeps_registry):
            return False
        below %= log.end + 1
        expired = 0
        if log.tp == REGISTRY:
            below = min(below, self._before_leftovers())
            expired = min(below, self._read_by_all()) if n % 3 == 0 else 0
        gone = self._cluster.compact(topic.name, log.tp.partition, below, expired=expired)
        if gone:
            self._say(f"{log.tp} is compacted: {gone} records are gone")
            self._seen[f"compaction of {topic.name}"] += 1
        return bool(gone)

    def _before_leftovers(self) -> int:
        """Returns where compaction of the registry must stop: at a leftover that is not removed yet."""
        log = self._cluster.topics[REGISTRY.topic].logs[0]
        values = {entry.key: entry.value for _, entry in log.history()}
        left = [at for key, at in self._users.left_over.items() if values[key] is not None]
        return min(left, default=log.end)

    def _read_by_all(self) -> int:
        """Returns how far all running engines have read the registry: brokers keep removals for a day."""
        living = [actor.engine for actor in self._actors if actor.state != "down"]
        return min((0 if engine is None else engine.registry.position for engine in living), default=1 << 62)

    def _retain(self, n: int, below: int) -> bool:
        """Retention removes what was consumed, whether scans have seen it or not."""
        log = self._producers.source_log(n)
        if log.tp.topic == ORDERS:
            return False
        committed = self._cluster.group.offsets.get(log.tp)
        if committed is None or not committed.offset > log.start:
            return False
        until = log.start + 1 + below % (committed.offset - log.start)
        if any(log.tp in transaction for transaction in self._cluster.group.pending.values()):
            return False
        metadata = decode_json(OffsetMetadata, committed.metadata, str(log.tp))
        for offset in range(log.start, until):
            self.removed_at[log.tp, offset] = metadata
        self._seen["retention that overtakes a scan"] += any(at < until for _, _, at in metadata.scans)
        log.start = until
        self._say(f"retention: {log.tp} begins at {until}")
        self._seen["retention"] += 1
        return True
