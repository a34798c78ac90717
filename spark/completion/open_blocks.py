"""Nested blocks that listen to one session: exactly one of them emits the event of each query."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Final

from ...events.visible import visible_logger

log = visible_logger(__name__)

_LOCK: Final = threading.Lock()
_OPEN: Final[list[OpenBlock]] = []  # in order of their start
_STREAMS: Final[dict[str, OpenBlock]] = {}  # run of a stream: the closed block that still emits its end
_ENDED: Final[set[str]] = set()  # runs of _STREAMS whose end was emitted, of sessions with an open block


class OpenBlock:
    """A block that listens to a session until `close`. session: see `application.session_of`."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._thread = threading.get_ident()
        self._streams: set[str] = set()
        with _LOCK:
            concurrent = [each for each in _OPEN if each._session == session and each._thread != self._thread]
            _OPEN.append(self)
        if concurrent:
            log.warning(
                "several threads have open completion events of one session: the block that began last emits"
                " the events of all queries, whichever block ran them. Give each thread its own session:"
                " newSession()"
            )

    def close(self) -> None:
        with _LOCK:
            _OPEN.remove(self)
            if not self._session_is_open():
                for run_id in [each for each in _ENDED if _STREAMS[each]._session == self._session]:
                    _forget(run_id)

    def keep_streams(self, running: Iterable[str]) -> bool:
        """Lets this block, which closes, emit the end events of streams that are still running.

        False if it need not, because a block around it listens to the same session and emits them.
        """
        with _LOCK:
            if any(each._session == self._session for each in _OPEN if each is not self):
                return False
            _STREAMS.update({run_id: self for run_id in running if self._emits_end(run_id)})
            return self in _STREAMS.values()

    def emits_query(self) -> bool:
        """Whether this block emits the event of a query that ends now: the block that began last does."""
        with _LOCK:
            return self._is_innermost()

    def emits_stream(self, run_id: str, *, ended: bool) -> bool:
        """Whether this block emits the event of a streaming query's start or end.

        The block that saw the start also emits the end while it listens, since it knows name and rows.
        """
        with _LOCK:
            if not ended:
                if innermost := self._is_innermost():
                    self._streams.add(run_id)
                return innermost
            emits = self._emits_end(run_id)
            if run_id in _STREAMS and emits:
                # Other open blocks may be told of this end later: they must find that it was emitted.
                _ENDED.add(run_id)
                if not self._session_is_open():
                    _forget(run_id)
            return emits

    def _session_is_open(self) -> bool:
        return any(each._session == self._session for each in _OPEN)

    def _emits_end(self, run_id: str) -> bool:
        if run_id in _STREAMS:
            return _STREAMS[run_id] is self
        for block in _OPEN:
            if run_id in block._streams:
                return block is self
        return self._is_innermost()

    def _is_innermost(self) -> bool:
        return next((each for each in reversed(_OPEN) if each._session == self._session), None) is self


def _forget(run_id: str) -> None:
    del _STREAMS[run_id]
    _ENDED.discard(run_id)
