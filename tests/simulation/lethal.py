"""Records that kill each process which works on them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any, Final

from interlock.engine.bus import Record, TopicPartition
from interlock.engine.protocol.parts import EngineParts
from interlock.engine.protocol.poison import suspects

from tests.simulation.actors import AnyWorld, Crash
from tests.simulation.topics import EVENT, TRIGGER

WIDTHS: Final = suspects.WIDTHS
AT_ONCE_ALONE: Final = ()
SHARE: Final = 0.15  # of the worlds, which may have such records


class LethalRecords:
    """The lethal records of a world.

    places: partitions and offsets at which a record, if there is one, is lethal; empty in most worlds.
    killed: {place: how many processes the record there has killed}.
    """

    def __init__(self, seed: int | str, world: AnyWorld) -> None:
        """Call `finish` when the world is over."""
        self._world = world
        self.places = self._choose(Random(f"lethal {seed}"))
        self.killed: Counter[tuple[TopicPartition, int]] = Counter()

    def _choose(self, rng: Random) -> frozenset[tuple[TopicPartition, int]]:
        if rng.random() >= SHARE:
            return frozenset()
        if rng.random() < 0.6:  # so that a suspect is tried alone after the first end of a process
            suspects.WIDTHS = AT_ONCE_ALONE
        topics = self._world.cluster.topics
        choices = [(name, len(topics[name].logs)) for name in (EVENT, TRIGGER)]
        return frozenset(
            (TopicPartition(name, rng.randrange(count)), rng.randrange(8))
            for name, count in rng.choices(choices, k=rng.choice((1, 1, 2)))
        )

    def into(self, parts: EngineParts) -> EngineParts:
        """Returns the parts of an engine that these records kill."""
        source_task: Any = parts.source_task
        trigger_task: Any = parts.trigger_task
        die_of = self._die_of

        class Matches(source_task):  # type: ignore[misc]
            def match(self, record: Record, *rest: Any) -> bool:
                die_of(record)
                return bool(super().match(record, *rest))

        class Processes(trigger_task):  # type: ignore[misc]
            def process(self, record: Record, *rest: Any) -> None:
                die_of(record)
                super().process(record, *rest)

        return replace(parts, source_task=Matches, trigger_task=Processes)

    def _die_of(self, record: Record) -> None:
        place = record.source, record.offset
        if place in self.places:
            self.killed[place] += 1
            self._world.say(f"{record} kills the process that works on it")
            self._world.seen["record that kills"] += 1
            raise Crash

    def finish(self) -> None:
        """Engines try suspects again as they do outside of worlds."""
        suspects.WIDTHS = WIDTHS
