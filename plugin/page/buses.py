"""The buses that the page shows: those of the connections in `[interlock] page_connections`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from ...engine.admin.progress import EnginesProgress
from ...engine.config import BusConfig
from ...engine.errors import EngineError
from ...engine.following.follower import Follower
from ...engine.following.read_model import ReadModel
from ...engine.reading.sources import LastEvents, last_events
from ...engine.registry.facts import BusFacts
from .asking import Questions

T = TypeVar("T")
EVENTS: Final = 2000  # the latest ones: for near misses, and the list of events
EVENTS_BYTES: Final = 16 * 1024 * 1024
_CONFIG_FRESH_S: Final = 30.0  # a secrets backend may be asked over the network
_EVENTS_FRESH_S: Final = 3.0
_PROGRESS_FRESH_S: Final = 5.0


class NoBus(EngineError):
    """The page shows no bus of this connection."""


@dataclass(frozen=True)
class Bus:
    """A bus that the page shows: its read model, and questions that go to Kafka."""

    conn_id: str
    config: BusConfig
    follower: Follower
    questions: Questions

    def model(self) -> ReadModel:
        """The read model. Raises StillReading, or EngineError (see `Follower.model`)."""
        return self.follower.model()

    def ask(self, what: Hashable, read: Callable[[], T], fresh_s: float) -> T:
        """A question about this bus (see `Questions.ask`)."""
        return self.questions.ask((self.config.contents, what), read, fresh_s)

    def latest(self, facts: BusFacts) -> LastEvents:
        """About the EVENTS latest events, read some seconds ago at most. Raises EngineError or NotNow."""

        def read() -> LastEvents:
            return last_events(self.config, facts, EVENTS, EVENTS_BYTES)

        return self.ask("latest events", read, _EVENTS_FRESH_S)

    def progress(self, facts: BusFacts) -> EnginesProgress:
        """How far the engines have read, some seconds ago at most. Raises EngineError or NotNow."""
        listed = () if facts.bus is None else facts.bus.topics
        return self.ask("progress", lambda: EnginesProgress.read(self.config, listed), _PROGRESS_FRESH_S)


class Buses:
    """The buses of the page's connections. Thread-safe. Reads and connects when it is asked.

    conn_ids: the connections; the first is the default. read: returns the bus of a connection; may raise
    ConfigError, and may block.
    """

    def __init__(self, conn_ids: Sequence[str], read: Callable[[str], BusConfig]) -> None:
        self.conn_ids = tuple(conn_ids)
        self.questions = Questions()
        self._read = read
        self._lock = threading.Lock()
        self._known: dict[str, Bus] = {}

    def bus(self, conn_id: str | None) -> Bus:
        """The bus of a connection; None or "": of the first one.

        Raises NoBus if the page does not show it; ConfigError, or NotNow, if the connection cannot be read.
        """
        conn_id = conn_id or self.conn_ids[0]
        if conn_id not in self.conn_ids:
            shown = ", ".join(map(repr, self.conn_ids))
            raise NoBus(
                f"The page shows no bus of connection {conn_id!r}; [interlock] page_connections: {shown}."
            )
        config = self.questions.ask(("connection", conn_id), lambda: self._read(conn_id), _CONFIG_FRESH_S)
        with self._lock:
            known = self._known.get(conn_id)
            if known is None or known.config.contents != config.contents:
                if known is not None:
                    known.follower.close()
                known = self._known[conn_id] = Bus(conn_id, config, Follower(config), self.questions)
            return known

    def close(self) -> None:
        """End the threads of the read models. Idempotent."""
        with self._lock:
            for bus in self._known.values():
                bus.follower.close()
            self._known.clear()
