"""`EmitEventOperator`, a task that emits one CloudEvent, and `emit`, for tasks that do more."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar, Final

from airflow.sdk import BaseHook, BaseOperator

from ..events.emitter import Emitter
from ..events.errors import EventError
from ..events.event import Event
from ..triggers.settings import DEFAULT_CONNECTION, bus_config
from .identity import event_id, event_source

if TYPE_CHECKING:
    from airflow.sdk import Context


log = logging.getLogger(__name__)

# What an event has beside extension attributes; `id` is made, `time` is the record's.
_WITH_ARGUMENTS: Final = frozenset({"id", "source", "specversion", "type", "subject", "data", "time"})


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
        return _emit(
            context,
            self.type,
            self.source,
            self.subject,
            self.data,
            self.extensions,
            0,
            self.kafka_conn_id,
            self.bus,
            self.delivery_timeout,
        )


def emit(
    type: str,  # noqa: A002  # the attribute's name
    *,
    source: str | None = None,
    subject: str | None = None,
    data: Any = None,
    extensions: Mapping[str, Any] | None = None,
    ordinal: int | str | None = None,
    kafka_conn_id: str = DEFAULT_CONNECTION,
    bus: str | None = None,
    delivery_timeout: float = 30.0,
) -> dict[str, Any]:
    """Emit one CloudEvent from inside a running task, as `EmitEventOperator` does; it returns the same.

    ordinal: which of this task's events it is, part of the id. Without it the calls of a try count from 0:
        right where a retry emits the same events in the same order. Give one, such as the region the event is
        about, where the order may change, where threads emit, and in a task that defers or is rescheduled:
        it goes on in another process, where the count would begin anew.

    Returns when the broker has acknowledged. EventError for an event that is not valid, outside of a task,
    and without an ordinal in a task that was resumed; EmitError when it was not acknowledged, and then a
    retry of the task is safe.
    """
    from airflow.sdk import get_current_context

    try:
        context = get_current_context()
    except RuntimeError:
        raise EventError(
            "emit() was called outside of a running task, which gives the event its id: use"
            " interlock.events.Emitter there, with an id of your own"
        ) from None
    if ordinal is None:
        if _is_resumed(context):
            raise EventError(
                "emit() needs ordinal= in a task that was deferred or rescheduled: calls before that were in"
                " another process, and counting would begin anew with their ids. Give a text that says which"
                " of the task's events it is"
            )
        ordinal = _number_of_call(str(context["ti"].id))
    return _emit(
        context, type, source, subject, data, extensions, ordinal, kafka_conn_id, bus, delivery_timeout
    )


def _is_resumed(context: Context) -> bool:
    """Whether an earlier process of this try may have emitted: before a deferral, or in an earlier poke.

    Of a task that is no sensor a reschedule says nothing: so those start whose DAG file was not found.
    """
    ti: Any = context["ti"]
    if getattr(getattr(ti, "_ti_context_from_server", None), "next_method", None):  # no public name tells it
        return True
    return bool(context.get("task_reschedule_count")) and getattr(ti.task, "reschedule", False)


# Of the try that runs in this process: its id, which is new in each try, and the numbers of its calls.
_calls: tuple[str, Iterator[int]] = ("", count())


def _number_of_call(try_id: str) -> int:
    global _calls
    if _calls[0] != try_id:
        _calls = (try_id, count())
    return next(_calls[1])


def _emit(
    context: Context,
    type: str,  # noqa: A002
    source: str | None,
    subject: str | None,
    data: Any,
    extensions: Mapping[str, Any] | None,
    ordinal: int | str,
    kafka_conn_id: str,
    bus: str | None,
    delivery_timeout: float,
) -> dict[str, Any]:
    config = bus_config(BaseHook.get_connection(kafka_conn_id), bus=bus)
    reserved = sorted(_WITH_ARGUMENTS & (extensions or {}).keys())
    if reserved:
        raise EventError(f"extensions cannot hold {', '.join(reserved)}: these have arguments of their own")
    event = Event.of(
        type,
        source or event_source(context, config.deployment),
        id=event_id(context, config.deployment, ordinal),
        subject=subject,
        data=data,
        **(extensions or {}),
    )
    with Emitter(config.client, config.topic("event")) as emitter:
        delivery = emitter.emit(event, timeout_s=delivery_timeout)
    log.info("Emitted %s, id %s, to %s[%d]@%d.", event.type, event.id, *delivery)
    return {"source": event.source, "id": event.id, **delivery._asdict()}
