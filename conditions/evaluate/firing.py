"""The firing: the decision that a condition is met, or that its time is up; and its id."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from itertools import chain
from typing import Final, Literal

import msgspec

from .state import Match

MET: Final = "met"
EXPIRED: Final = "expired"


class Part(msgspec.Struct, frozen=True, array_like=True):
    """One event's share in a firing: the label of its matcher in the condition, and the event."""

    label: str
    match: Match


class Firing(msgspec.Struct, frozen=True, array_like=True):
    """The decision for one key.

    taking_part: in the order of their matchers, those of one matcher by time (C5). missing: labels of the
    parts that were not there, for the outcome `expired`. timer_ms: the due time that brought the firing, ms
    since the epoch; None where a match did.
    """

    outcome: Literal["met", "expired"]
    taking_part: tuple[Part, ...]
    missing: tuple[str, ...] = ()
    timer_ms: int | None = None


def decided_ms(firing: Firing, tick_ms: int) -> int:
    """When a firing that a tick at `tick_ms` brought was decided, ms since the epoch.

    The due time, or one millisecond after the stamp of the match that met an ordered condition (W5), however
    much later the tick came.
    """
    if firing.timer_ms is not None:
        return firing.timer_ms
    return min(tick_ms, max(part.match.timestamp_ms for part in firing.taking_part) + 1)


def firing_id(
    incarnation: str, key: str, outcome: str, parts: Iterable[Part], timer_ms: int | None = None
) -> str:
    """The id of a firing, 32 hex characters: the same for the same decision, however often it is taken.

    A hash of incarnation, key, outcome, the sorted (source, id) of the events, and the due time if there is
    one; order, labels, positions in the log and times of the parts do not enter.
    """
    attributes = [part.match.event.attributes for part in parts]
    identities = sorted({(each["source"], each["id"]) for each in attributes})
    # each text is preceded by its length in bytes: no two lists of texts give the same bytes
    framed = f"{len(incarnation)}:{incarnation}{len(key)}:{key}{len(outcome)}:{outcome}"
    for source, id_ in identities:
        framed += f"{len(source)}:{source}{len(id_)}:{id_}"
    if not framed.isascii():
        texts = (incarnation, key, outcome, *chain.from_iterable(identities))
        framed = "".join([f"{len(text.encode())}:{text}" for text in texts])
    if timer_ms is not None:  # an odd number of texts: never the ids of other events
        framed += f"{len(str(timer_ms))}:{timer_ms}"
    return hashlib.sha256(framed.encode()).hexdigest()[:32]
