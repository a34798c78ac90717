"""The blocks that listen to a session, one in the other: what ends in several of them is told by one."""

from __future__ import annotations

import logging
import threading
from typing import Final

log = logging.getLogger(__name__)

_LOCK: Final = threading.Lock()
_OPEN: Final[list[Block]] = []  # as they began


class Block:
    """One that listens to a session, from when it is made until `close`.

    session: what tells the session from others of this process.
    """

    def __init__(self, session: str) -> None:
        self._session = session
        self._thread = threading.get_ident()
        self._streams: set[str] = set()
        with _LOCK:
            beside = [each for each in _OPEN if each._session == session and each._thread != self._thread]
            _OPEN.append(self)
        if beside:
            log.warning(
                "completion events of one session are open in several threads: a query is told by the block"
                " that began last, whichever ran it. Give each thread a session of its own: newSession()"
            )

    def close(self) -> None:
        with _LOCK:
            _OPEN.remove(self)

    def tells_query(self) -> bool:
        """Whether this one tells of a query that ends now: the block that began last does."""
        with _LOCK:
            return self._innermost()

    def tells_stream(self, run_id: str, *, ended: bool) -> bool:
        """Whether this one tells of a streaming query. The block tells its end in which it began, as long as
        that one listens; it knows the name and the rows."""
        with _LOCK:
            if not ended:
                if innermost := self._innermost():
                    self._streams.add(run_id)
                return innermost
            for block in _OPEN:
                if run_id in block._streams:
                    return block is self
            return self._innermost()

    def _innermost(self) -> bool:
        return next((each for each in reversed(_OPEN) if each._session == self._session), None) is self
