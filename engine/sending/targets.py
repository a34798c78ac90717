"""The targets of connections: looked up in a thread, kept, and looked up again."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor
from dataclasses import dataclass
from time import monotonic
from typing import Final, NamedTuple, TypeAlias

from ..log import log
from .target import Target, TargetError

Lookup: TypeAlias = Callable[[str], Target]

FRESH_S: Final = 60.0  # then a connection is looked up again; the old target is used meanwhile
AGAIN_S: Final = 5.0  # the least time between lookups after a failure, or when a sink denies the credentials
LOOKUP_S: Final = 30.0


class Resolved(NamedTuple):
    """A target, its TLS context (None without TLS), and when the files of that context were changed."""

    target: Target
    tls: ssl.SSLContext | None
    changed: tuple[int, ...]


@dataclass(eq=False)
class _Entry:
    found: Resolved | None = None
    error: TargetError | None = None
    looked_at: float = float("-inf")
    task: asyncio.Task[None] | None = None
    warned: str = ""


class Targets:
    """Looks up targets for the tasks of one event loop. lookup: may block; called in `thread`.

    A lookup that raises TargetError says that the connection cannot be used: its deliveries wait. After any
    other error the old target is used.
    """

    def __init__(self, lookup: Lookup, thread: Executor, now: Callable[[], float] = monotonic) -> None:
        self._lookup, self._thread, self._now = lookup, thread, now
        self._entries: dict[str, _Entry] = {}

    async def get(self, connection: str) -> Resolved:
        """The target, at once if it was looked up before. Raises TargetError."""
        entry = self._entries.get(connection)
        if entry is None:
            entry = self._entries[connection] = _Entry()
        is_usable = entry.found is not None and entry.error is None
        if self._now() - entry.looked_at >= (FRESH_S if is_usable else AGAIN_S):
            self._start(connection, entry)
        if not is_usable and entry.task is not None:
            try:
                async with asyncio.timeout(LOOKUP_S):
                    await asyncio.shield(entry.task)
            except TimeoutError:
                text = f"Connection {connection!r} could not be looked up within {LOOKUP_S:g} s."
                raise TargetError(text) from None
        if entry.error is not None:
            raise entry.error
        if entry.found is None:
            raise TargetError(f"Connection {connection!r} was not looked up yet.")
        return entry.found

    def doubt(self, connection: str) -> None:
        """Look a connection up again, because its sink denied the credentials: they may have been changed."""
        entry = self._entries.get(connection)
        if entry is not None and self._now() - entry.looked_at >= AGAIN_S:
            self._start(connection, entry)

    def _start(self, connection: str, entry: _Entry) -> None:
        if entry.task is None:
            entry.task = asyncio.create_task(self._look_up(connection, entry))

    async def _look_up(self, connection: str, entry: _Entry) -> None:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(self._thread, self._resolved, connection, entry.found)
        except TargetError as e:
            entry.error = e
        except Exception as e:  # noqa: BLE001  # of any kind; its text may have the connection's URI
            text = f"Connection {connection!r} could not be looked up: {type(e).__name__}."
            if entry.found is None:
                entry.error = TargetError(text)
            elif text != entry.warned:
                log.warning("%s Deliveries use the connection as it was last read.", text)
            entry.warned = text
        else:
            entry.found, entry.error, entry.warned = found, None, ""
        finally:
            entry.looked_at = self._now()
            entry.task = None

    def _resolved(self, connection: str, before: Resolved | None) -> Resolved:
        try:
            target = self._lookup(connection)
        except CancelledError:  # it would cancel the tasks that wait, whose deliveries would never end
            raise TimeoutError from None
        changed = target.tls.changed()
        if before is not None and (before.target, before.changed) == (target, changed):
            return before
        return Resolved(target, target.tls.context() if target.needs_tls else None, changed)
