"""The transactional ids of a process's engines. They show whether a process died or an engine restarted."""

from __future__ import annotations

import uuid

from .config import BusConfig


class ProcessName:
    """A process's name among the engines of a bus, with a counter of the engines that it has started.

    A restarted engine keeps the process name. An engine that replaces a hanging one gets a new process name,
    so others consider the old process dead (docs/understand/engine/suspects.md). Deliverers get their names
    in the same way.
    """

    def __init__(self) -> None:
        self._process, self._engines = "", 0
        self.renew()

    def renew(self) -> None:
        """Take a new process name, because an engine hangs and is replaced."""
        self._process, self._engines = uuid.uuid4().hex[:12], 0

    def next(self, config: BusConfig) -> str:
        """The transactional id of the next engine."""
        self._engines += 1
        return f"{config.id_prefix}-{self._process}.{self._engines}"
