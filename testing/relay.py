"""`events_of`: the events that a relay writes for what its trigger fires, without Kafka and queue."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from airflow.triggers.base import TriggerEvent

from ..events.errors import EventError
from ..events.plain_text import takes_plain_text
from ..operators.relay import TASK_ID, RelayOperator
from ..triggers.argument_checks import ArgumentChecks
from ..triggers.relay_messages import EventMaker, messages_of
from ..triggers.relay_source import error_fired
from ..triggers.settings import settings
from .task_context import check_dag, context_of

if TYPE_CHECKING:
    from airflow.sdk import DAG

    from ..events.event import Event

_START: Final = datetime(1970, 1, 1, tzinfo=UTC)


@takes_plain_text
def events_of(dag: DAG, *fired: Any) -> list[Event]:
    """Returns the events that the relay `dag` writes, in order.

    dag: made by `relay_dag`. fired: each a `TriggerEvent` or its payload: a text or bytes, a value for JSON,
    or what one of Airflow's triggers fires, such as {"message_batch": [{"MessageId": ..., "Body": ...}]}.
    Raises EventError, with the text of the relay's log, for a message that cannot become an event, also if
    the relay would skip it, and for an error that the trigger fires. Raises ConfigError if `event` of the
    relay cannot be imported.
    """
    check_dag(ArgumentChecks("events_of()"), dag)
    operator: Any = dag.get_task(TASK_ID) if TASK_ID in dag.task_ids else None
    if not isinstance(operator, RelayOperator):
        raise ValueError(f"{dag.dag_id!r} is not a DAG made by relay_dag")
    context = context_of(operator, run_after=_START)
    maker = EventMaker(**operator.attributes_in(context, settings().deployment))
    payloads = [each.payload if isinstance(each, TriggerEvent) else each for each in fired]
    for payload in payloads:
        if (error := error_fired(*operator.inner, payload)) is not None:
            raise EventError(f"the trigger fired {error}: the relay starts it again, and writes no event")
    events: list[Event] = []
    for message in (each for payload in payloads for each in messages_of(payload)):
        if isinstance(message, EventError):
            raise message
        events += maker.events_of(message)
    return events
