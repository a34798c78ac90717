"""What a sink's answer to a delivery means."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum, auto
from typing import Final, NamedTuple

_SECONDS = re.compile(r"[0-9]+\Z")  # without a limit, as in HTTP; the retry policy has one
_RETRIED: Final = frozenset({404, 408, 409, 429})
_DENIED: Final = frozenset({401, 403, 407, 410})
_CONGESTED: Final = frozenset({429, 503})


class Verdict(Enum):
    """What follows from an answer.

    DELIVERED: the firing is acknowledged. RETRY: it is tried again. REFUSED: this firing will never be
    accepted. DENIED: the sink accepts nothing from this sender, or refuses this firing: `SinkLanes` decides.
    UNREACHABLE: there was no connection, so no firing could be delivered.
    """

    DELIVERED = auto()
    RETRY = auto()
    REFUSED = auto()
    DENIED = auto()
    UNREACHABLE = auto()


class Answer(NamedTuple):
    """The end of one delivery. status: None without an HTTP answer; `text` then is the reason.

    connected: whether the request may have reached the sink. retry_after_s: from its Retry-After. ruling: a
    verdict that does not follow from the status, with its reason in `text`: the answer has a reply that
    cannot be written, or the request could not be made.

    For a dead letter: destination is the sink's address, without anything that may be a secret; excerpt has
    the first bytes of the answer's body, if the status is not 2xx. Do not log either.
    """

    status: int | None
    text: str = ""
    connected: bool = True
    retry_after_s: float | None = None
    ruling: Verdict | None = None
    destination: str = ""
    excerpt: bytes = b""

    @property
    def verdict(self) -> Verdict:
        """What follows from the answer.

        Knative's data-plane specification retries neither 401, 403 nor 410, and nor does its dispatcher.

        A status outside 100 to 599 counts as 5xx (RFC 9110, section 15).

        Redirects are not followed, as CloudEvents' webhook specification demands: 3xx is a refusal.
        """
        if self.ruling is not None:
            return self.ruling
        status = self.status
        if status is None:
            return Verdict.RETRY if self.connected else Verdict.UNREACHABLE
        if 200 <= status < 300:
            return Verdict.DELIVERED
        if status in _DENIED:
            return Verdict.DENIED
        if status in _RETRIED or not 100 <= status < 500:
            return Verdict.RETRY
        return Verdict.REFUSED

    @property
    def is_congestion(self) -> bool:
        """Whether fewer deliveries at a time may help: 429, 503, or no answer after a connection."""
        if self.ruling is not None:
            return False
        return self.connected if self.status is None else self.status in _CONGESTED

    def __str__(self) -> str:
        if self.status is None:
            return self.text or "no answer"
        return f"HTTP {self.status}, {self.text}" if self.ruling is not None else f"HTTP {self.status}"


def retry_after(header: str | None, now_ms: int) -> float | None:
    """Seconds to wait, from the value of a Retry-After header: a number or an HTTP date.

    None if there is none, or none that can be read; then the policy's own delay applies. A time in the past
    is 0. now_ms: the time of the answer: its Date header, else the clock that the caller trusts most.
    """
    text = (header or "").strip(" \t")
    if _SECONDS.match(text):
        return float(text)
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if at.tzinfo is None:  # "-0000": an HTTP date is always in UTC
        at = at.replace(tzinfo=UTC)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return max(0.0, (at - epoch).total_seconds() - now_ms / 1000)
