"""The search for near misses: recent events that nearly met a matcher, with the reason why they did not.

It runs on demand over the given events. Its work is limited by the number of events, of terms evaluated and
of bytes of data read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from ...events.event import Event
from .matcher_search import EXPRESSION_TERMS, MatcherSearch, MissingMatcher, StateFacts
from .near_miss import NearMisses
from .records import Record, readable

__all__ = ["EXPRESSION_TERMS", "MissingMatcher", "Searched", "StateFacts", "search"]

MAX_EVENTS: Final = 10_000
# Terms evaluated for all events and matchers together; one in CEL or CESQL counts as EXPRESSION_TERMS.
MAX_TERMS: Final = 200_000
MAX_DATA_BYTES: Final = 32 * 1024 * 1024


class Searched(NamedTuple):
    """The result of a search; complete: False if a limit ended it."""

    near_misses: tuple[NearMisses, ...]
    looked_at: int
    complete: bool
    unreadable: int


def search(
    wanted: Sequence[MissingMatcher], events: Iterable[Event | Record], facts: StateFacts, most: int
) -> Searched:
    """The `most` closest near misses of each matcher wanted, among the first MAX_EVENTS events."""
    searches = [MatcherSearch(each, facts) for each in wanted]
    looked_at = terms = data_bytes = unreadable = 0
    complete = True
    for number, each in enumerate(events):
        if number >= MAX_EVENTS or terms >= MAX_TERMS or data_bytes >= MAX_DATA_BYTES:
            complete = False
            break
        record = readable(each)
        if record is None:
            unreadable += 1
            continue
        looked_at += 1
        for one in searches:
            cost, reads_data = one.look_at(record)
            terms += cost
            data_bytes += len(record.event.data or b"") if reads_data else 0
    return Searched(tuple(one.result(most) for one in searches), looked_at, complete, unreadable)
