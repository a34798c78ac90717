"""Whether a client has lost a connection with a request under way, or given up waiting for an answer."""

from __future__ import annotations

import logging
import re
from typing import Final

# A connection that never stood carried no request: a server's second address may refuse every time.
_STOOD: Final = re.compile(r"in state (UP|REAUTH)\b")


class Losses:
    """The logger of one client, which hands its lines on.

    `seen`: whether a request of it may have been sent twice. librdkafka repeats one whose connection was lost
    and tells neither the caller nor `error_cb`: only its log has it (2.16.0: facility FAIL at level INFO,
    identical ones once in 30 s, so the first counts for good; REQTMOUT). The line is queued before the
    request is sent again, and comes with the client's next `poll`.
    """

    def __init__(self, to: logging.Logger) -> None:
        self.seen = False
        self._to = to

    def log(self, level: int, message: str, *args: object) -> None:
        """As `Logger.log`; the client's facility, name and line are the arguments."""
        facility, line = (args[0], args[-1]) if args else ("", "")
        if facility == "REQTMOUT" or (facility == "FAIL" and _STOOD.search(str(line))):
            self.seen = True
        self._to.log(level, message, *args)
