"""Sends the events of this process: one client and one queue for all blocks that use the same bus.

A job waits for an unresponsive Kafka only once. Blocks that end after that leave their events in the queue,
which is sent as soon as Kafka answers, until the process ends.
"""

from __future__ import annotations

import os
import threading
from typing import Final, NamedTuple

from ...events.emitter import Emitter
from ...events.errors import EmitError
from ...events.event import Event
from ...events.outbox import SHARE, Outbox
from ...events.visible import visible_logger
from ..settings import CompletionSettings
from .process_exit import PROCESS_EXIT, is_program

log = visible_logger(__name__)

NO_EFFECT: Final = "This does not change the job's outcome."
_LOCK: Final = threading.Lock()
SENDERS: Final[dict[object, EventSender]] = {}


class FinalEvent(NamedTuple):
    """An event to send when the process ends. required: the process fails if it is not acknowledged."""

    event: Event
    name: str
    required: bool


class EventSender:
    """Sends events of this process to one topic.

    timeout_s: how long a wait for acknowledgements lasts: longer than the delivery timeout, after which the
    client gives up, so that a wait that fails has the client's reason.
    """

    def __init__(self, settings: CompletionSettings) -> None:
        # Created here, not by the first of the threads that use it.
        self._emitter = Emitter(settings.client, settings.topic)
        self.timeout_s = settings.timeout_s / SHARE
        self._outbox = Outbox(
            lambda: self._emitter,
            self.timeout_s,
            log=log,
            who=f"completion events for {settings.topic}",
            remedy=NO_EFFECT,
            at_exit=False,
        )
        self._where = f"topic {settings.topic} at {settings.client['bootstrap.servers']}"
        self._connect_s: float | None = settings.timeout_s
        # How many events were acknowledged when a wait last timed out.
        self._acknowledged_then: int | None = None
        self._final: list[FinalEvent] = []
        PROCESS_EXIT.add_finisher(self._finish, watch=is_program())

    def connect(self) -> None:
        """Starts to connect in the background, so that the end of the job does not wait for it.

        It also starts the thread that sends, because the end of the process may be too late for that. Raises
        EmitError if the client refuses its settings.
        """
        if self._connect_s is not None:
            self._emitter.connect(self._connect_s)
            self._outbox.start()
            self._connect_s = None  # only after success: refused settings raise in each block

    def put(self, event: Event) -> None:
        """Queues an event; returns at once."""
        self._outbox.put(event)

    def flush(self, timeout_s: float) -> None:
        """Waits up to `timeout_s` until all queued events are acknowledged; 0 s while Kafka is silent."""
        if self._silent or self._outbox.flush(timeout_s):
            return
        self._acknowledged_then = self._outbox.acknowledged
        log.warning(
            "%d completion events are not acknowledged by %s. They are lost unless it answers before the"
            " process ends. %s",
            self._outbox.unacknowledged,
            self._where,
            NO_EFFECT,
        )

    def send(self, event: Event, *, required: bool) -> None:
        """Sends an event and waits for its acknowledgement.

        Raises EmitError after the delivery timeout; while Kafka is silent, at once unless `required`. The
        event then stays in the queue.
        """
        if self._silent and not required:
            self._outbox.put(event, always=True)
            raise EmitError(
                f"{self._where} did not answer an earlier event; this one is sent if it answers before the"
                " process ends"
            )
        if problems := self._outbox.deliver([event], self.timeout_s):
            if self._outbox.unacknowledged:  # otherwise the event was too large
                self._acknowledged_then = self._outbox.acknowledged
            raise EmitError(f"{self._where}: {problems[event.identity]}", [event.identity])

    def send_at_exit(self, event: FinalEvent) -> None:
        self._final.append(event)

    @property
    def _silent(self) -> bool:
        """Whether Kafka has acknowledged nothing since a wait timed out."""
        return self._acknowledged_then is not None and self._acknowledged_then == self._outbox.acknowledged

    def _finish(self) -> bool:
        """Sends all remaining events within one delivery timeout; False if a required one was not sent."""
        problems = self._outbox.deliver([final.event for final in self._final], self.timeout_s)
        self._outbox.flush(0.0 if problems else self.timeout_s)
        success = True
        for final in self._final:
            if (problem := problems.get(final.event.identity)) is None:
                log.info("sent %s of %r", final.event.type, final.name)
            else:
                warn_not_sent(final.name, final.required, problem)
                success = success and not final.required
        return success


def warn_not_sent(name: str, required: bool, problem: object) -> None:
    """Logs that a completion event was not sent."""
    what = "it is required" if required else "the job's outcome does not change"
    log.warning("completion event %r was not sent; %s: %s", name, what, problem)


def sender_for(settings: CompletionSettings) -> EventSender:
    """The sender of this process for these settings; raises EmitError if they name no topic or broker."""
    client = tuple(sorted(settings.client.items()))
    key = (os.getpid(), settings.topic, settings.timeout_s, client)
    with _LOCK:
        found = SENDERS.get(key)
        if found is None:
            found = SENDERS[key] = EventSender(settings)
        return found
