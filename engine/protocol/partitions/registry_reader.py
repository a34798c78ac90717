"""Following the registry: reading the subscription topic into the registry and the index."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from ...bus import End, Record, TopicPartition
from ...errors import EngineError
from ...registry.first_read import FirstRead
from ...registry.registry import Change
from ..context import EngineContext
from .missing_records import REGISTRATIONS, require_whole

TAKE_TIMEOUT_S: Final = 0.1
STALL_S: Final = 30.0  # a reader that gets nothing for so long will not get there


class RegistryReader:
    """Reads the registry as it grows. `changed` is called with each change that is more than an addition.

    Reading raises EngineError where it was not read for hours (`Pause`): who goes on must read it from its
    start.
    """

    def __init__(self, context: EngineContext) -> None:
        self._bus, self._registry, self._index = context.bus, context.registry, context.index
        self._monotonic, self._records = context.monotonic, context.limits.registry_records
        self.topic = TopicPartition(context.config.topic("subscription"), 0)
        self._pause = context.parts.pause(self.topic, context.wall, context.monotonic)
        self._reader = self._bus.reader()
        self._reader.read({self.topic: 0})
        self._first: FirstRead | None = None
        self.changed: Callable[[Change], None] = lambda _: None

    def read_whole(self) -> None:
        """An engine judges nothing before it has read the registry to the end it had when it started.

        TopicsError where it does not begin at its first record any more.
        """
        require_whole(self._bus, [self.topic], REGISTRATIONS)
        self._first = FirstRead(self._registry)
        self.read_to_end()
        self._first.finish()
        self._first = None
        for registered in self._registry.between(0, self._registry.position):
            self._index.add(registered, registered.condition, registered.registration.key)

    def read_to_end(self) -> None:
        """Read all that is there now."""
        self.catch_up(self._bus.end_offsets([self.topic])[self.topic])

    def read_new(self) -> None:
        """What has arrived."""
        self._apply(self._take(0))

    def catch_up(self, position: int) -> None:
        """Read at least up to `position`, which is known to exist."""
        deadline = self._monotonic() + STALL_S
        while self._registry.position < position:
            items = self._take(TAKE_TIMEOUT_S)
            self._apply(items)
            if items:
                deadline = self._monotonic() + STALL_S
            elif self._monotonic() > deadline:
                raise EngineError(
                    f"{self.topic} could not be read up to offset {position}: nothing came for "
                    f"{STALL_S:.0f} s, and it stands at {self._registry.position}."
                )

    def _take(self, timeout_s: float) -> list[Record | End]:
        items = self._reader.take(self._records, timeout_s)
        self._pause.look()
        return items

    def _apply(self, items: Iterable[Record | End]) -> None:
        for item in items:
            if self._first is not None:
                self._first.take(item)
                continue
            change = self._registry.apply(item)
            for gone in change.removed:
                self._index.remove(gone)
            for added in change.added:
                self._index.add(added, added.condition, added.registration.key)
            if change.removed or change.bus or change.resumed:
                self.changed(change)

    def close(self) -> None:
        self._reader.close()
