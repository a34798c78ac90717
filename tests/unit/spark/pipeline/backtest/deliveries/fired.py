"""Firings of a rehearsal as the rows that Spark gives to a task, each event beside its firing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from interlock import Condition, Event
from interlock.conditions import rehearse
from interlock.spark.pipeline.backtest.deliveries.requests import DELIVERIES, Requests
from interlock.spark.pipeline.backtest.deliveries.sink import SinkQuestion, sink_of
from interlock.spark.pipeline.backtest.question import Question

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NAMES = tuple(each.split()[0] for each in DELIVERIES.split(", "))
Row = tuple[Any, ...]


def ms(moment: datetime) -> int:
    return round((moment - EPOCH).total_seconds() * 1000)


def asked(condition: Condition, partitions: int | None = None, **arguments: Any) -> SinkQuestion:
    """The question with a sink that has these arguments of `deliver_dag`."""
    given = {"dag_id": "ship", "conn_id": "crm", "path": "/orders", **arguments}
    return SinkQuestion(Question.of(condition), sink_of(json.dumps(given), condition), partitions)


def rows(condition: Condition, events: Iterable[Event]) -> Iterator[Row]:
    """The rows of the firings on these events."""
    for number, firing in enumerate(rehearse(condition, events)):
        fired = (firing.key, firing.outcome, ms(firing.fired_at), firing.timer_ms, list(firing.missing))
        for place, part in enumerate(firing.taking_part):
            match = part.match
            origin = (match.topic, match.partition, match.offset, match.timestamp_ms)
            yield (
                number,
                place,
                *fired,
                part.label,
                *origin,
                [*match.event.attributes.items()],
                match.event.data,
            )
        if not firing.taking_part:
            yield number, None, *fired, *(None,) * 7


def delivered(question: SinkQuestion, given: Iterable[Row]) -> list[dict[str, Any]]:
    """The deliveries for these rows."""
    requests = Requests(question)
    for row in given:
        requests.take(row)
    requests.end()
    found: list[dict[str, Any]] = requests.pop_batch().to_pylist()
    return found
