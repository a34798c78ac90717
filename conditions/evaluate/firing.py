"""The firing: the decision that a condition is met or has expired; and its id."""

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
    """An event that takes part in a firing, with the label of its matcher."""

    label: str
    match: Match


class Firing(msgspec.Struct, frozen=True, array_like=True):
    """The decision for one key that a condition is met or has expired.

    taking_part: in the order of their matchers, those of one matcher by time (C5). missing: for the outcome
    `expired`, the labels of the matchers without enough events. timer_ms: the due time at which it fired, ms
    since the epoch; None if a match made it fire.
    """

    outcome: Literal["met", "expired"]
    taking_part: tuple[Part, ...]
    missing: tuple[str, ...] = ()
    timer_ms: int | None = None


def decided_ms(firing: Firing, tick_ms: int) -> int:
    """When the firing of the tick `tick_ms` was decided; ms since the epoch.

    It is the due time; for an ordered condition without a due time, a millisecond after the stamp of the
    last match (W5). The result does not depend on how late the tick came.
    """
    if firing.timer_ms is not None:
        return firing.timer_ms
    return min(tick_ms, max(part.match.timestamp_ms for part in firing.taking_part) + 1)


def firing_id(
    incarnation: str, key: str, outcome: str, parts: Iterable[Part], timer_ms: int | None = None
) -> str:
    """The id of a firing, 32 hex characters; the same decision always has the same id.

    It is a hash of incarnation, key, outcome, the sorted (source, id) of the events, and the due time if
    there is one. Order, labels, offsets and times of the parts do not matter.
    """
    attributes = [part.match.event.attributes for part in parts]
    identities = sorted({(each["source"], each["id"]) for each in attributes})
    # each text is preceded by its length in bytes, so different lists of texts give different bytes
    framed = f"{len(incarnation)}:{incarnation}{len(key)}:{key}{len(outcome)}:{outcome}"
    for source, id_ in identities:
        framed += f"{len(source)}:{source}{len(id_)}:{id_}"
    if not framed.isascii():
        texts = (incarnation, key, outcome, *chain.from_iterable(identities))
        framed = "".join([f"{len(text.encode())}:{text}" for text in texts])
    if timer_ms is not None:  # with a timer the number of texts is even, else odd, so the ids differ
        framed += f"{len(str(timer_ms))}:{timer_ms}"
    return hashlib.sha256(framed.encode()).hexdigest()[:32]
