"""`EmitEventOperator`: a task that emits one CloudEvent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseHook, BaseOperator

from ..events.emitter import Emitter
from ..events.errors import EventError
from ..events.event import Event
from ..triggers.settings import DEFAULT_CONNECTION, bus_config
from .identity import event_id, event_source

if TYPE_CHECKING:
    from airflow.sdk import Context


class EmitEventOperator(BaseOperator):
    """Emits one CloudEvent to the bus; succeeds only when the broker has acknowledged it (acks=all).

    type, source, subject, data, extensions: the event; all templated. source defaults to
        `/deployment/dag/task`. data: anything JSON can hold. extensions: CloudEvents extension attributes,
        e.g. `{"partitionkey": "eu"}`.
    delivery_timeout: seconds for the broker to acknowledge.

    The event's id is the same when the task is retried (the event counts once) and another when it is
    cleared. An event that is not valid fails the task with the attributes named; a broker that does not
    acknowledge fails it with the reason, and a retry is safe.

    Returns `{"source", "id", "topic", "partition", "offset"}`.
    """

    template_fields: Sequence[str] = ("type", "source", "subject", "data", "extensions")
    template_fields_renderers: ClassVar[dict[str, str]] = {"data": "json", "extensions": "json"}
    ui_color = "#e3f4d7"

    def __init__(
        self,
        *,
        type: str,  # noqa: A002  # the attribute's name
        source: str | None = None,
        subject: str | None = None,
        data: Any = None,
        extensions: Mapping[str, Any] | None = None,
        kafka_conn_id: str = DEFAULT_CONNECTION,
        bus: str | None = None,
        delivery_timeout: float = 30.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.type = type
        self.source = source
        self.subject = subject
        self.data = data
        self.extensions = extensions
        self.kafka_conn_id = kafka_conn_id
        self.bus = bus
        self.delivery_timeout = delivery_timeout

    def execute(self, context: Context) -> dict[str, Any]:
        config = bus_config(BaseHook.get_connection(self.kafka_conn_id), bus=self.bus)
        event = self._event(context, config.deployment)
        with Emitter(config.client, config.topic("event")) as emitter:
            delivery = emitter.emit(event, timeout_s=self.delivery_timeout)
        self.log.info("Emitted %s, id %s, to %s[%d]@%d.", event.type, event.id, *delivery)
        return {"source": event.source, "id": event.id, **delivery._asdict()}

    def _event(self, context: Context, deployment: str) -> Event:
        reserved = sorted(
            {"id", "source", "specversion", "type", "subject", "data", "time"}
            & (self.extensions or {}).keys()
        )
        if reserved:
            raise EventError(
                f"extensions cannot hold {', '.join(reserved)}: these have arguments of their own"
            )
        return Event.of(
            self.type,
            self.source or event_source(context, deployment),
            id=event_id(context, deployment),
            subject=self.subject,
            data=self.data,
            **(self.extensions or {}),
        )
