"""What a process's engines are called: others can tell a process that ended from one that goes on."""

from __future__ import annotations

import uuid

from .config import BusConfig


class Identity:
    """A process's name among the engines of a bus, and the number of its lives: clients made anew.

    docs/understand/engine/suspects.md: a life that hangs takes its process's name with it.
    """

    def __init__(self) -> None:
        self._process, self._life = "", 0
        self.renew()

    def renew(self) -> None:
        """A life hangs and is given up: to others its process has ended."""
        self._process, self._life = uuid.uuid4().hex[:12], 0

    def next(self, config: BusConfig) -> str:
        """The transactional id of the next life."""
        self._life += 1
        return f"{config.group}-{config.deployment}-{self._process}.{self._life}"
