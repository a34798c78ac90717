"""Firings that wait for the record of their sink."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from .firings import OpenFiring
from .retry import Retry
from .sinks import Sinks


class WithoutSink:
    """The open firings of subscriptions without a sink: its record is not read yet, or was removed."""

    def __init__(self, sinks: Sinks) -> None:
        self._sinks = sinks
        self._firings: dict[bytes, OpenFiring] = {}

    def add(self, firing: OpenFiring) -> None:
        self._firings[firing.key] = firing

    def remove(self, firing: OpenFiring) -> None:
        self._firings.pop(firing.key, None)

    def clear(self) -> None:
        self._firings = {}

    def of(self, subscription: str) -> list[OpenFiring]:
        """Those of a subscription, in the order of their places."""
        found = [firing for firing in self._firings.values() if firing.subscription == subscription]
        return sorted(found, key=lambda firing: firing.place)

    def overdue(self, now_ms: int, done: Collection[bytes]) -> Iterator[tuple[OpenFiring, str]]:
        """Those that are older than the default `give_up_after_s`, each with the reason why it is given up.

        done: keys of firings that only need their acknowledgement.
        """
        most_ms = Retry().give_up_after_s * 1000
        for firing in self._firings.values():
            if (
                firing.subscription not in self._sinks.unknown  # a process that is upgraded delivers it
                and firing.key not in done
                and now_ms - firing.record.timestamp_ms >= most_ms
            ):
                is_unreadable = firing.subscription in self._sinks.unreadable
                yield firing, "its sink's record cannot be read" if is_unreadable else "its sink was removed"
