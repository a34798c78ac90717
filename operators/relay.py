"""`relay_dag`: writes the messages of a queue to the bus as events (docs/use/relay.md)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NoReturn

from airflow.sdk import DAG, BaseHook, BaseOperator
from airflow.triggers.base import BaseTrigger

from ..events.plain_text import takes_plain_text
from ..events.visible import visible
from ..triggers.argument_checks import ArgumentChecks
from ..triggers.relay import AtInvalid, RelayTrigger
from ..triggers.relay_messages import EventMaker
from ..triggers.settings import DEFAULT_CONNECTION, bus_config, resume_floor
from .continuous import TASK_ARGUMENTS, continuous_dag
from .identity import event_source

if TYPE_CHECKING:
    from airflow.sdk import Context

TASK_ID: Final = "relay"
_IMPORT_PATH: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")
_AT_INVALID: Final = ("stop", "skip")


@takes_plain_text
def relay_dag(
    dag_id: str,
    *,
    trigger: BaseTrigger,
    type: str | None = None,  # noqa: A002  # the attribute's name
    source: str | None = None,
    subject: str | None = None,
    id: str | None = None,  # noqa: A002
    event: str | None = None,
    acknowledge: str | None = None,
    at_invalid: AtInvalid = "stop",
    renew_after: timedelta = timedelta(minutes=15),
    kafka_conn_id: str = DEFAULT_CONNECTION,
    bus: str | None = None,
    **dag_arguments: Any,
) -> DAG:
    """Returns a DAG, the relay, that writes each message of a queue to the bus as an event.

    The triggerer runs `trigger` again and again, and lets it continue after a message only when all in-sync
    replicas have the event. So what the trigger acknowledges after its `yield` is written at least once, and
    a repeat counts once. docs/use/relay.md says which of Airflow's triggers acknowledge before it.

    trigger: any of Airflow's, such as `MessageQueueTrigger(scheme="sqs", ...)`.
    type, source, subject, id: of the event; texts with `{data.NAME}`, a member of the message's JSON body,
        and `{message.NAME}`, what the trigger says about the message. source defaults to
        `/deployment/dag/relay`, id to a digest of the body and the queue's own message id.
    event: instead of these four, the import path of a function that gets the message, with `data`, `text`,
        `body`, `fields` and `id`, and returns an `Event`, a list of them, or None for no event.
    acknowledge: import path of a function, which may be async. When the events are written, it is called with
        what the trigger fired and with the trigger. For triggers that do not acknowledge by themselves.
    at_invalid: what happens at a message that cannot become an event, such as one without a value for the id:
        "stop" fails the task, which tries again later; "skip" logs an error and continues.
    renew_after: a run of the relay ends after this time, and the next one uses the edited DAG file.
    dag_arguments: arguments of the DAG, such as tags and default_args.
    """
    with continuous_dag("relay_dag", dag_id, dag_arguments) as dag:
        RelayOperator(
            task_id=TASK_ID,
            trigger=trigger,
            type=type,
            source=source,
            subject=subject,
            id=id,
            event=event,
            acknowledge=acknowledge,
            at_invalid=at_invalid,
            renew_after=renew_after,
            kafka_conn_id=kafka_conn_id,
            bus=bus,
            **TASK_ARGUMENTS,
        )
    return dag


class RelayOperator(BaseOperator):
    """The task of a relay; arguments as in `relay_dag`."""

    ui_color = "#e3f4d7"

    def __init__(
        self,
        *,
        trigger: BaseTrigger,
        type: str | None,  # noqa: A002
        source: str | None,
        subject: str | None,
        id: str | None,  # noqa: A002
        event: str | None,
        acknowledge: str | None,
        at_invalid: AtInvalid,
        renew_after: timedelta,
        kafka_conn_id: str,
        bus: str | None,
        **kwargs: Any,
    ) -> None:
        try:
            super().__init__(**kwargs)
        except Exception as e:  # of many types
            raise ValueError(f"relay_dag: Airflow refuses an argument in default_args: {e}") from e
        checks = ArgumentChecks(f"relay_dag {self.dag_id!r}")
        _check_trigger(checks, trigger)
        _check_attributes(checks, type=type, source=source, subject=subject, id=id, function=event)
        for name, path in (("event", event), ("acknowledge", acknowledge)):
            checks.text(name, path, "the import path of a function: package.module.function", none=True)
            if path is not None and not _IMPORT_PATH.fullmatch(path):
                checks.fail(name, path, "the import path of a function: package.module.function")
        checks.choice("at_invalid", at_invalid, _AT_INVALID)
        checks.duration("renew_after", renew_after, timedelta(minutes=1), "a minute")
        checks.connection(kafka_conn_id)
        checks.name_of("bus", bus)
        # Not `trigger`: Airflow would show the arguments of its constructor.
        self._trigger = trigger
        self.attributes = {"type": type, "source": source, "subject": subject, "id": id, "function": event}
        self.acknowledge = acknowledge
        self.at_invalid: AtInvalid = at_invalid
        self.renew_after = renew_after
        self.kafka_conn_id = kafka_conn_id
        self.bus = bus

    @property
    def inner(self) -> tuple[str, dict[str, Any]]:
        """The trigger's class path and the arguments of its constructor."""
        return self._trigger.serialize()

    def execute(self, context: Context) -> NoReturn:
        config = bus_config(BaseHook.get_connection(self.kafka_conn_id), bus=self.bus)
        now = datetime.now(UTC)
        inner = self.inner
        self.log.info("Relaying from %s to %s.", visible(inner[0]), visible(config.describe()))
        self.defer(
            trigger=RelayTrigger(
                inner=inner,
                attributes=self.attributes_in(context, config.deployment),
                acknowledge=self.acknowledge,
                at_invalid=self.at_invalid,
                kafka_conn_id=self.kafka_conn_id,
                bus=config.name,
                deployment=config.deployment,
                resume_not_before=(now + resume_floor()).isoformat(),
                renew_at=(now + self.renew_after).isoformat(),
            ),
            method_name="resume",
        )

    def attributes_in(self, context: Context, deployment: str) -> dict[str, str | None]:
        """Returns the arguments of EventMaker, with the default source."""
        if self.attributes["function"] is None and self.attributes["source"] is None:
            return {**self.attributes, "source": event_source(context, deployment)}
        return dict(self.attributes)

    def resume(self, context: Context, event: dict[str, Any]) -> int:  # noqa: ARG002  # Airflow passes it
        """Ends the run, so that the next one begins. Returns how many events its last triggerer wrote."""
        written, skipped = int(event["events"]), int(event["skipped"])
        self.log.info("%d events were written.", written)
        if skipped:
            self.log.warning("%d messages were skipped: the trigger's log lines name each.", skipped)
        return written


def _check_trigger(checks: ArgumentChecks, trigger: object) -> None:
    """Raises ValueError for what is no trigger, or cannot be stored."""
    if not isinstance(trigger, BaseTrigger):
        checks.fail("trigger", trigger, "one of Airflow's triggers, such as MessageQueueTrigger(scheme=...)")
    try:
        path, arguments = trigger.serialize()
    except Exception as e:  # of many types
        raise ValueError(f"{checks.who}: the trigger cannot be serialized: {type(e).__name__}: {e}") from e
    if not isinstance(path, str) or not _IMPORT_PATH.fullmatch(path) or not isinstance(arguments, dict):
        raise ValueError(
            f"{checks.who}: serialize() of the trigger does not return a class path and the arguments of the"
            " constructor."
        )


def _check_attributes(
    checks: ArgumentChecks,
    *,
    function: str | None,
    **texts: str | None,
) -> None:
    given = [name for name, text in texts.items() if text is not None]
    if function is not None:
        if given:
            raise ValueError(f"{checks.who}: give event or {', '.join(given)}, not both.")
        return
    if texts["type"] is None:
        raise ValueError(
            f'{checks.who}: give the type of the events, such as type="com.shop.order", or, as event, the'
            " import path of a function that makes them."
        )
    for name in given:
        text = texts[name]
        checks.text(name, text, "a text, with placeholders such as {data.NAME}", most=2048)
    try:
        maker = EventMaker(function=None, **texts)
    except ValueError as e:
        raise ValueError(f"{checks.who}: {str(e).removesuffix('.')}.") from None
    problems = maker.problems()
    if problems:
        raise ValueError(f"{checks.who}: {'; '.join(problems)}.")
