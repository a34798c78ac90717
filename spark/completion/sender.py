"""The way out of this process: one client and one queue for all blocks that tell the same bus.

While Kafka does not answer, a job waits for it once: blocks that end after that leave their events in the
queue, where they are sent as soon as it answers, until the process ends.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import Final, NamedTuple

from ...events.emitter import Emitter
from ...events.errors import EmitError
from ...events.event import Event
from ...events.outbox import SHARE, Outbox
from ..settings import Settings
from .process_exit import PROCESS_END, is_program

log = logging.getLogger(__name__)

REMEDY: Final = "The job's result stands."
_LOCK: Final = threading.Lock()
_OUTLETS: Final[dict[object, Outlet]] = {}


class Last(NamedTuple):
    """An event that is told when the process has ended. required: so that it must be acknowledged."""

    event: Event
    name: str
    required: bool


class Outlet:
    """Sends events of this process to one topic."""

    def __init__(self, settings: Settings) -> None:
        # Made here, not by the first of the threads that use it.
        self._emitter = Emitter(settings.client, settings.topic)
        self._timeout_s = settings.timeout_s / SHARE  # the client's answer comes within the settings' own
        self._outbox = Outbox(
            lambda: self._emitter,
            self._timeout_s,
            log=log,
            who=f"completion events for {settings.topic}",
            remedy=REMEDY,
            at_exit=False,
        )
        self._where = f"topic {settings.topic} at {settings.client['bootstrap.servers']}"
        self._connect_s: float | None = settings.timeout_s
        self._silent_since: int | None = None
        self._last: list[Last] = []
        PROCESS_END.last(self._finish, watch=is_program())

    def connect(self) -> None:
        """Connect by itself while the job works, who would else wait for it in the end. EmitError where the
        client refuses its settings."""
        if self._connect_s is not None:
            self._emitter.connect(self._connect_s)
            self._connect_s = None  # where the client refuses its settings, each block is told so

    def put(self, event: Event) -> None:
        """Send it by and by; nothing waits."""
        self._outbox.put(event)

    def flush(self, timeout_s: float) -> None:
        """Wait until all that was put is acknowledged, within the time; not where Kafka is silent."""
        if self._silent or self._outbox.flush(timeout_s):
            return
        self._silent_since = self._outbox.acknowledged
        log.warning(
            "completion events: %d not acknowledged by %s. They are lost unless it answers before the process"
            " ends. %s",
            self._outbox.unacknowledged,
            self._where,
            REMEDY,
        )

    def send(self, event: Event, *, required: bool) -> None:
        """Send it and wait for its acknowledgement; EmitError where there is none within the time, at once
        where Kafka is silent, unless it is `required`. It stays in the queue then."""
        if self._silent and not required:
            self._outbox.put(event, always=True)
            raise EmitError(
                f"{self._where} did not answer before; it is sent if it does before the process ends"
            )
        if problems := self._outbox.deliver([event], self._timeout_s):
            if self._outbox.unacknowledged:  # else it was too large
                self._silent_since = self._outbox.acknowledged
            raise EmitError(f"{self._where}: {problems[event.identity]}", [event.identity])

    def at_end(self, last: Last) -> None:
        """Send it when the process has ended."""
        self._last.append(last)

    @property
    def _silent(self) -> bool:
        """Whether Kafka has acknowledged nothing since it was waited for in vain."""
        return self._silent_since is not None and self._silent_since == self._outbox.acknowledged

    def _finish(self) -> bool:
        """All that is left, within one delivery timeout; False where a required event is not told."""
        problems = self._outbox.deliver([last.event for last in self._last], self._timeout_s)
        self._outbox.flush(0.0 if problems else self._timeout_s)
        well = True
        for last in self._last:
            if (problem := problems.get(last.event.identity)) is None:
                log.info("sent %s of %r", last.event.type, last.name)
            else:
                not_told(last.name, last.required, problem)
                well = well and not last.required
        return well


def not_told(name: str, required: bool, problem: object) -> None:
    """Say that the event of an end was not sent."""
    what = "is required" if required else "the job's result stands"
    log.warning("completion event %r was not sent; %s: %s", name, what, problem)


def outlet_of(settings: Settings) -> Outlet:
    """The outlet of this process for these settings; EmitError where they name no topic or broker."""
    client = tuple(sorted(settings.client.items()))
    key = (os.getpid(), settings.topic, settings.timeout_s, client)
    with _LOCK:
        found = _OUTLETS.get(key)
        if found is None:
            found = _OUTLETS[key] = Outlet(settings)
        return found
