"""The interface through which a deliverer sends firings to sinks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ..bus import Output
from .answers import Answer
from .firings import OpenFiring
from .sinks import SinkRecord


class Delivery(NamedTuple):
    """One request with one firing. number: unique in this deliverer."""

    number: int
    sink: SinkRecord
    firing: OpenFiring


class Ended(NamedTuple):
    """A delivery that has ended. reply: the event of a 200 answer, as a record; else None."""

    number: int
    answer: Answer
    reply: Output | None = None


class Posts(Protocol):
    """Makes deliveries. Neither method blocks."""

    def start(self, delivery: Delivery) -> None: ...

    def ended(self) -> Sequence[Ended]:
        """The deliveries that have ended since the last call."""
