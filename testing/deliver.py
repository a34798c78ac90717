"""`requests_of`: the requests that deliveries would make for given events, without Kafka and a service."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ..conditions.rehearsal import Given, Moment, played
from ..engine.bus import Record, TopicPartition
from ..engine.config import BusConfig
from ..engine.delivery.sinks import SinkRecord
from ..engine.records import Registration
from ..engine.sending.expected import METHOD, expected_path, expected_request
from ..events.http import decode
from ..events.plain_text import takes_plain_text
from ..operators.deliver import TASK_ID, DeliverOperator
from ..triggers.argument_checks import ArgumentChecks
from ..triggers.settings import settings
from .firing import as_ms, written_of_rehearsed
from .task_context import check_dag, context_of

if TYPE_CHECKING:
    from airflow.sdk import DAG

    from ..conditions import Rehearsed
    from ..events.event import Event

_START: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class DeliveryRequest:
    """A request of a delivery. at: when its firing was decided.

    path: with the query, as it is added to the address of the connection `conn_id`. headers: names in lower
    case; without those of the connection, such as its credentials, and those that any HTTP request has.
    """

    conn_id: str
    path: str
    headers: dict[str, str]
    body: bytes
    at: datetime
    method: str = METHOD

    @cached_property
    def event(self) -> Event:
        """The CloudEvent in the request, as the service reads it; `event.payload` are its data."""
        headers = [(name.encode(), text.encode()) for name, text in self.headers.items()]
        [found] = decode(headers, self.body)
        return found


@takes_plain_text
def requests_of(dag: DAG, events: Iterable[Given], *, until: Moment | None = None) -> list[DeliveryRequest]:
    """Returns the requests that deliveries of `dag` make for these events, in the order of the firings.

    Each is there once, as if the service accepted it. dag: made by `deliver_dag`. events, until: as for
    `rehearse`.
    """
    check_dag(ArgumentChecks("requests_of()"), dag)
    operator: Any = dag.get_task(TASK_ID) if TASK_ID in dag.task_ids else None
    if not isinstance(operator, DeliverOperator):
        raise ValueError(f"{dag.dag_id!r} is not a DAG made by deliver_dag")
    bus = BusConfig(deployment=settings().deployment, client={"bootstrap.servers": "none"})
    sink = msgspec.convert(operator._sink(bus), SinkRecord)
    condition = operator._bound(context_of(operator, run_after=_START))
    since_ms = as_ms(operator.since or _START)
    registration = Registration.of(sink.subscription, condition, None, since_ms, kind="durable")
    moments = {"start": None, "since": operator.since, "until": until}
    firings = played("requests_of", condition, events, None, moments).firings
    return [
        _request(sink, number, firing, written_of_rehearsed(registration, condition, firing, firing.fired_at))
        for number, firing in enumerate(firings)
    ]


def _request(
    sink: SinkRecord, number: int, firing: Rehearsed, written: tuple[bytes, bytes]
) -> DeliveryRequest:
    """number: stands for the offset of the firing's record."""
    matches = [part.match for part in firing.taking_part]
    events = {f"kafka:{one.topic}/{one.partition}/{one.offset}": one.event for one in matches}
    action = Record(TopicPartition("rehearsal", 0), number, as_ms(firing.fired_at), *written, None)
    found = expected_request(sink, action, events.__getitem__)
    return DeliveryRequest(
        conn_id=sink.connection,
        path=expected_path(sink),
        headers={name.lower(): text for name, text in found.headers},
        body=found.body,
        at=firing.fired_at,
    )
