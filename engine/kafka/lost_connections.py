"""Whether a client has lost a connection with a request in flight, or a request has timed out."""

from __future__ import annotations

import logging
import re
from typing import Final

# A failed attempt to connect does not count: it carried no request. Some addresses of a broker always fail.
_ESTABLISHED: Final = re.compile(r"in state (UP|REAUTH)\b")


class LostConnections:
    """A logger for one client. It forwards the client's lines to another logger.

    `seen`: whether the client may have sent a request twice. librdkafka repeats a request whose connection
    was lost, and reports that only in its log (2.16.0: facility REQTMOUT, or FAIL at level INFO; `seen` is
    never reset, because an identical FAIL line is logged only once in 30 s). The line is queued before the
    request is repeated, and arrives with the client's next `poll`.
    """

    def __init__(self, to: logging.Logger) -> None:
        self.seen = False
        self._to = to

    def log(self, level: int, message: str, *args: object) -> None:
        """Like `Logger.log`; the arguments are the client's facility, name and line."""
        facility, line = (args[0], args[-1]) if args else ("", "")
        if facility == "REQTMOUT" or (facility == "FAIL" and _ESTABLISHED.search(str(line))):
            self.seen = True
        self._to.log(level, message, *args)
