"""What is likely wrong with the records of a topic, for whoever asks why a wait was not met."""

from __future__ import annotations

from collections import Counter

from ...events.event import Event
from ...events.misspelled import is_misspelled
from ...events.plain import TYPE, is_plain
from ..bus import Record
from ..config import BusConfig


class Hints:
    """Counts, for each topic, records without an event, and records of CloudEvents that are read as plain."""

    def __init__(self, config: BusConfig) -> None:
        self._config = config
        self._without: Counter[str] = Counter()
        self._latest: dict[str, tuple[Record, Exception]] = {}
        self._plain: Counter[str] = Counter()

    def unreadable(self, record: Record, error: Exception) -> None:
        """Note a record without an event. Call this in the order of time, the latest first."""
        self._without[record.source.topic] += 1
        self._latest.setdefault(record.source.topic, (record, error))

    def read(self, record: Record, event: Event) -> None:
        """Note the event of a record."""
        if event.type == TYPE and (not is_plain(record.headers) or is_misspelled(record.headers)):
            self._plain[record.source.topic] += 1

    def sentences(self) -> list[str]:
        without = [
            f"{number} of the latest records of {topic} hold no event, the last one "
            f"{self._latest[topic][0]}: {self._latest[topic][1]}"
            for topic, number in sorted(self._without.items())
        ]
        plain = [
            f"{number} of the latest records of {topic} have headers of CloudEvents, but the topic is listed "
            "as plain: they count as records of the topic, not as the events that they name. If its owner "
            f"says they are CloudEvents, run: {self._config.command(f'topics add {topic} --cloudevents')}"
            for topic, number in sorted(self._plain.items())
        ]
        return without + plain
