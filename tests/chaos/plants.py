"""Faults planted in the engine itself: the oracle must detect each of them.

Each patches one decision of the protocols in the present process.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from typing import Any

PLANTS: dict[str, Callable[[], None]] = {}
# The findings that the oracle must report for it, at least.
SEEN_AS = {
    "skip an offset": ("missing",),
    "commit outside the transaction": ("duplicated",),
    "drop a state record": ("missing", "unexpected"),
    "tick without the cut": ("missing", "unexpected"),
    "look back after live": ("unexpected",),
    "leave states behind": ("leaked_keys",),
    "hold timers back while events come": ("late",),
}


def plant(name: str) -> None:
    """Plants this fault in the engine; KeyError for an unknown one."""
    PLANTS[name]()


def _plant(name: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def add(planter: Callable[[], None]) -> Callable[[], None]:
        PLANTS[name] = planter
        return planter

    return add


@_plant("skip an offset")
def _skip() -> None:
    from interlock.engine.protocol.tasks.source_task import SourceTask

    match = SourceTask.match

    def skips(self: SourceTask, record: Any, outputs: Any, now_ms: int) -> None:
        if record.offset % 97 == 13:
            self.position = record.offset + 1
        else:
            match(self, record, outputs, now_ms)

    SourceTask.match = skips  # type: ignore[method-assign]


@_plant("commit outside the transaction")
def _outside() -> None:
    """Sometimes outputs are sent outside the transaction, which is aborted."""
    from interlock.engine.errors import TransactionAborted
    from interlock.engine.kafka.transactions import Transactions

    commit = Transactions.commit

    def leaks(self: Transactions, outputs: Any, offsets: Any, membership: object) -> Any:
        from confluent_kafka import Producer

        if any(o.topic.endswith("-trigger") for o in outputs) and random.random() < 0.02:
            producer = Producer(dict(self._config.client))
            for o in outputs:
                producer.produce(
                    o.topic, o.value, o.key, partition=-1 if o.partition is None else o.partition
                )
            producer.flush(5)
            raise TransactionAborted("planted")
        return commit(self, outputs, offsets, membership)

    Transactions.commit = leaks  # type: ignore[method-assign]


@_plant("drop a state record")
def _drop() -> None:
    """Detected when another engine takes over the partition."""
    from interlock.engine.protocol.outputs import Outputs

    write = Outputs.write

    def drops(self: Outputs, kind: str, partition: int, key: bytes | None, value: bytes | None) -> None:
        if kind != "state" or value is None or random.random() > 0.05:
            write(self, kind, partition, key, value)

    Outputs.write = drops  # type: ignore[method-assign]


@_plant("tick without the cut")
def _tick() -> None:
    from interlock.engine.protocol.timers.cut import Cuts

    def at_once(self: Cuts, tasks: Mapping[Any, Any], outputs: Any) -> set[Any]:
        touched = set()
        now_ms = self._clock.now_ms()
        for task in tasks.values():
            due = task.due_at()
            if self._clock.known and due is not None and due <= now_ms:
                task.tick(now_ms, outputs, now_ms, lambda _: True, False)
                touched.add(task.tp)
        return touched

    Cuts.advance = at_once  # type: ignore[method-assign]


@_plant("look back after live")
def _live_first() -> None:
    """A registration sees live events although a scan is still looking back for it."""
    from interlock.engine.protocol.tasks.scans import Scans

    Scans.covers = lambda self, place: False  # type: ignore[method-assign]


@_plant("leave states behind")
def _leave() -> None:
    from interlock.engine.protocol.tasks.trigger_task import TriggerTask

    TriggerTask.forget = lambda self, incarnations: None  # type: ignore[method-assign]


@_plant("hold timers back while events come")
def _hold_back() -> None:
    """A cut advances only when no source partition has had a record for eight seconds."""
    from interlock.engine.protocol.tasks.source_task import SourceTask
    from interlock.engine.protocol.timers.cut import Cuts

    advance, match = Cuts.advance, SourceTask.match
    last = [0.0]

    def advances(self: Cuts, tasks: Any, outputs: Any) -> Any:
        return advance(self, tasks, outputs) if time.monotonic() - last[0] > 8 else set()

    def matches(self: SourceTask, *args: Any) -> bool:
        last[0] = time.monotonic()
        return match(self, *args)

    Cuts.advance = advances  # type: ignore[method-assign]
    SourceTask.match = matches  # type: ignore[method-assign]
