"""What is likely wrong with the records of a topic, for somebody who asks why a condition was not met."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from ...events.event import Event
from ...events.misspelled import holds_event, holds_lineage, is_misspelled
from ...events.plain import TYPE, is_plain
from ..bus import Record
from ..config import BusConfig


class Hints:
    """Counts, for each topic, records without an event, and records of events that are read as plain.

    cloudevents: the listed topics that hold CloudEvents, as their owners say.
    """

    def __init__(self, config: BusConfig, cloudevents: Collection[str] = ()) -> None:
        self._config, self._cloudevents = config, cloudevents
        self._without: Counter[str] = Counter()
        self._latest: dict[str, tuple[Record, Exception]] = {}
        self._plain: Counter[str] = Counter()
        self._in_value: Counter[str] = Counter()
        self._lineage: Counter[str] = Counter()

    def unreadable(self, record: Record, error: Exception) -> None:
        """Note a record without an event. Call this in the order of time, the latest first."""
        self._without[record.source.topic] += 1
        self._latest.setdefault(record.source.topic, (record, error))

    def read(self, record: Record, event: Event) -> None:
        """Note the event of a record."""
        if event.type != TYPE:
            return
        if not is_plain(record.headers) or is_misspelled(record.headers):
            self._plain[record.source.topic] += 1
        elif holds_event(record.value):
            self._in_value[record.source.topic] += 1
        elif holds_lineage(record.value):
            self._lineage[record.source.topic] += 1

    def sentences(self) -> list[str]:
        """A sentence for each topic and each kind of such records, with their number and what to do."""
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
        in_value = [
            f"{number} of the latest records of {topic} have a CloudEvent in JSON as their value, but no "
            f"header content-type with the value application/cloudevents+json{self._and_listed(topic)}: they "
            "count as records of the topic, not as the events that they hold."
            for topic, number in sorted(self._in_value.items())
        ]
        lineage = [
            f"{number} of the latest records of {topic} have an OpenLineage event as their value: they count"
            " as records of the topic. openlineage_run() and dataset_written() match only events that came"
            " through the receiver. Let the client send to it over HTTP, or write"
            f' event(source="{topic}", where="data.eventType == \'COMPLETE\' && data.job.name == ...").'
            for topic, number in sorted(self._lineage.items())
        ]
        return without + plain + in_value + lineage

    def _and_listed(self, topic: str) -> str:
        if topic in self._cloudevents:
            return ""
        command = self._config.command(f"topics add {topic} --cloudevents")
        return f", and the topic is listed as plain ({command})"
