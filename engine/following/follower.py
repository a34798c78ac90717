"""Follows the topics of a bus in a thread, and keeps a read model of them."""

from __future__ import annotations

import os

from ..config import BusConfig
from .pace import Pace
from .read_model import ReadModel
from .watch import Watch


class Follower:
    """Keeps the read model of one bus in this process. Thread-safe; does no I/O until `model` is called.

    The thread starts with the first `model()`. It ends, and frees the memory, when nobody asked for
    `pace.idle_s`; the next `model()` starts it anew. After a fork the child starts a thread of its own. When
    brokers go away, it continues with what it has read and follows on when they are back
    (`ReadModel.stale_since_ms`).
    """

    def __init__(self, config: BusConfig, pace: Pace | None = None) -> None:
        self.config = config
        self.pace = pace or Pace()
        # By process id: neither the threads nor the locks of a process that forks are of use in its child.
        self._watches: dict[int, Watch] = {}

    def model(self) -> ReadModel:
        """The read model. Returns at once; do not keep it: the next question calls `model()` again.

        Raises StillReading until the topics were read to their ends; EngineError if they cannot be read: no
        such bus (TopicsError), brokers that do not answer (UnreachableError), records of a later version
        (UnknownVersion). The thread tries again every few seconds.
        """
        return self._watch().model()

    def close(self) -> None:
        """End the thread of this process. Idempotent; `model()` would start it again."""
        self._watch().close()

    def _watch(self) -> Watch:
        pid = os.getpid()
        return self._watches.get(pid) or self._watches.setdefault(pid, Watch(self.config, self.pace))
