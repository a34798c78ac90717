"""`deliver_dag`: sends each firing of a condition to an HTTP service (docs/use/deliver.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

import msgspec
from airflow.sdk import DAG

from ..conditions import Condition, ConditionError
from ..engine.delivery.firings import Order
from ..engine.delivery.retry import MOST_TRIES, Retry
from ..engine.delivery.shown_path import shown_path
from ..engine.delivery.sinks import (
    MOST_CONNECTION,
    MOST_PATH,
    Send,
    SinkRecord,
    default_send,
    is_connection,
    is_path,
)
from ..engine.records import DEFAULT_MAX_KEYS, AtLimit
from ..events.plain_text import own, takes_plain_text
from ..events.visible import visible
from ..triggers.argument_checks import ArgumentChecks, is_rendered_later
from ..triggers.deliver import DeliverTrigger
from ..triggers.settings import DEFAULT_CONNECTION, resume_floor, settings
from .continuous import TASK_ARGUMENTS, continuous_dag
from .durable import DurableOperator
from .wait_arguments import bound_arguments

if TYPE_CHECKING:
    from airflow.sdk import Context

    from ..engine.config import BusConfig

TASK_ID: Final = "deliver"
Format: TypeAlias = Literal["binary", "json"]

MAX_IN_FLIGHT: Final = 1024  # as `SinkRecord` has it
_SECONDS: Final = "seconds as a number, 0 to 2,592,000"
_RETRY: Final = {
    "backoff": "'exponential' or 'linear'",
    "delay_s": _SECONDS,
    "most_delay_s": _SECONDS,
    "jitter": "a number from 0 to 1",
    "retry_after_most_s": _SECONDS,
    "timeout_s": "seconds as a number, above 0 and at most 3,600",
    "tries": "a whole number, 1 to 1,000,000, or None",
    "give_up_after_s": "seconds as a number, above 0 and at most 2,505,600",
    "least_tries": "a whole number, 1 to 1,000,000",
}


@takes_plain_text
def deliver_dag(
    dag_id: str,
    *,
    condition: Condition,
    param_values: Mapping[str, Any] | None = None,
    conn_id: str,
    path: str = "",
    send: Send | None = None,
    format: Format = "binary",  # noqa: A002  # Knative's word
    order: Order = "key",
    max_in_flight: int = 32,
    replies: bool = False,
    retry: Mapping[str, Any] | None = None,
    since: datetime | None = None,
    renew_after: timedelta = timedelta(minutes=15),
    max_keys: int = DEFAULT_MAX_KEYS,
    at_limit: AtLimit = "dead-letter",
    kafka_conn_id: str = DEFAULT_CONNECTION,
    bus: str | None = None,
    **dag_arguments: Any,
) -> DAG:
    """Returns a DAG that keeps a sink registered: each firing of `condition` is sent to an HTTP service.

    Triggerers, or `airflow interlock deliver`, send the firings. While the DAG is paused, that command sends
    them, and so do triggerers that were sending before. Each firing is accepted by the service, or becomes a
    dead letter with the reason. It may be sent more than once: its id is the same each time.

    conn_id: Airflow connection of type http, with the service's address and credentials.
    path: added to the connection's address, such as "/events"; may have a query.
    send: "event", the event itself, for a firing that has exactly one; or "firing", a CloudEvent whose data
        is the firing. Default: "event" if the condition is a single matcher, else "firing".
    format: "binary", attributes as headers and data as body; or "json", all of it in a JSON body.
    order: which firings wait for each other: "key" (those with one key), "partition", or "none".
    max_in_flight: the most deliveries at a time, in each process that sends.
    replies: whether an event in the service's answer is written to the bus. It may have any type except
        Interlock's own.
    retry: when a failed delivery is tried again, and when it is given up: any of `backoff` ("exponential" or
        "linear"), `delay_s`, `most_delay_s`, `jitter`, `retry_after_most_s`, `timeout_s`, `tries`,
        `give_up_after_s` and `least_tries`; docs/use/deliver.md has their meaning and defaults.
    since: events count if their record timestamp is at or after it. Default: the start of the DAG's first
        run, even if the subscription was registered later.
    renew_after: a run of the DAG ends after this time, and the next one uses the edited DAG file.
    max_keys, at_limit: limit the open keys of the condition.
    param_values: {name: value} for the parameters of the condition, as for `dispatch_dag`.
    dag_arguments: arguments of the DAG, such as tags and default_args.

    Another connection, path, order or retry applies to the next delivery, also of firings that wait. An
    edited condition is a new incarnation of the subscription: partly met keys are dropped.
    """
    with continuous_dag("deliver_dag", dag_id, dag_arguments) as dag:
        DeliverOperator(
            task_id=TASK_ID,
            condition=condition,
            param_values=param_values,
            conn_id=conn_id,
            path=path,
            send=send,
            format=format,
            order=order,
            max_in_flight=max_in_flight,
            replies=replies,
            retry=retry,
            since=since,
            renew_after=renew_after,
            max_keys=max_keys,
            at_limit=at_limit,
            kafka_conn_id=kafka_conn_id,
            bus=bus,
            **TASK_ARGUMENTS,
        )
    return dag


class DeliverOperator(DurableOperator):
    """The task of `deliver_dag`, with its arguments."""

    function = "deliver_dag"
    kind = "deliver"
    # Airflow shows them as written; only param_values are rendered.
    template_fields: Sequence[str] = (
        "condition",
        "param_values",
        "conn_id",
        "path",
        "order",
        "retry",
        "since",
    )
    ui_color = "#f4e3d7"

    def __init__(
        self,
        *,
        conn_id: str,
        path: str,
        send: Send | None,
        format: Format,  # noqa: A002
        order: Order,
        max_in_flight: int,
        replies: bool,
        retry: Mapping[str, Any] | None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        checks = ArgumentChecks(self.who)
        _check_connection(checks, conn_id)
        _check_path(checks, path)
        if send is not None:
            checks.choice("send", send, get_args(Send))
        checks.choice("format", format, get_args(Format))
        checks.choice("order", order, get_args(Order))
        checks.whole_number("max_in_flight", max_in_flight, 1, MAX_IN_FLIGHT)
        if not isinstance(replies, bool):
            checks.fail("replies", replies, "True or False")
        _check_retry(checks, retry)
        self.conn_id = conn_id
        self.path = path
        self.send = send
        self.format: Format = format
        self.order: Order = order
        self.max_in_flight = max_in_flight
        self.replies = replies
        self.retry = own(retry)

    def execute(self, context: Context) -> None:
        now, config = datetime.now(UTC), self._config()
        self.log.info(
            "Each firing of %s is sent to connection %r%s. Subscription %s on %s.",
            visible(self._bound(context)),
            self.conn_id,
            visible(f", path {shown_path(self.path)}" if self.path else ""),
            visible(self._subscription(config)),
            visible(config.describe()),
        )
        self._log_tab(context)
        self._defer(context, self._default_since(context, now))

    def resume(self, context: Context, event: dict[str, Any], since: str = "") -> None:
        """Ends the run, so that the next one begins. If nothing is registered, defers to keep `since`.

        `dag.test()` passes only `context` and `event`: then the task ends.
        """
        if event["registered"]:
            self._note_registration(context)
        elif since and self.since is None:
            self._warn_not_registered(since)
            self._defer(context, datetime.fromisoformat(since))

    def _defer(self, context: Context, since: datetime) -> None:
        now, config = datetime.now(UTC), self._config()
        self.defer(
            trigger=DeliverTrigger(
                durable={**self._durable(context, config, since), "sink": self._sink(config)},
                kafka_conn_id=self.kafka_conn_id,
                bus=config.name,
                deployment=config.deployment,
                resume_not_before=(now + resume_floor()).isoformat(),
                renew_at=(now + self.renew_after).isoformat(),
            ),
            method_name="resume",
            kwargs={"since": since.isoformat()},
        )

    def backtested(self) -> tuple[Condition, SinkRecord, datetime | None]:
        """Returns the condition, the sink and `since` for a backtest, which has no run of the DAG.

        Raises ConditionError if `param_values` has templates: only a run has their values.
        """
        values = self.param_values
        if isinstance(values, Mapping) and any(map(is_rendered_later, values.values())):
            raise ConditionError(
                f"{self.who}: param_values has templates, whose values only a run of the DAG has: give the"
                " condition with values, and the sink as JSON"
            )
        sink = self._record(f"{settings().deployment}/{self.kind}/{self.dag_id}")
        return bound_arguments(self.condition, None, values)[0], sink, self.since

    def _sink(self, config: BusConfig) -> dict[str, Any]:
        """Returns the members of the sink record."""
        found: dict[str, Any] = msgspec.to_builtins(self._record(self._subscription(config)))
        return found

    def _record(self, subscription: str) -> SinkRecord:
        return SinkRecord(
            subscription=subscription,
            connection=self.conn_id,
            path=self.path,
            order=self.order,
            max_in_flight=self.max_in_flight,
            replies=self.replies,
            retry=msgspec.convert(dict(self.retry or {}), Retry),
            send=self.send or default_send(self.condition),
            format=self.format,
        )


def _check_connection(checks: ArgumentChecks, conn_id: object) -> None:
    give = "the id of an Airflow connection of type http"
    checks.text("conn_id", conn_id, give, most=MOST_CONNECTION)
    if not is_connection(str(conn_id)):
        checks.fail("conn_id", conn_id, give)


def _check_path(checks: ArgumentChecks, path: object) -> None:
    give = 'a path such as "/events", percent-encoded, which is added to the connection\'s address'
    checks.text("path", path, give, most=MOST_PATH, empty=True)
    if not is_path(str(path)):
        checks.fail("path", path, give)


def _check_retry(checks: ArgumentChecks, retry: object) -> None:
    names = ", ".join(_RETRY)
    if retry is None:
        return
    if not isinstance(retry, Mapping):
        checks.fail("retry", retry, f"a dict with any of {names}")
    for name in retry:
        if name not in _RETRY:
            checks.fail("retry's member", name, f"one of {names}")
    for name, value in retry.items():
        try:
            msgspec.convert({name: value}, Retry)
        except msgspec.ValidationError:
            checks.fail(f"retry[{name!r}]", value, _RETRY[name])
        if name in ("tries", "least_tries") and (value or 1) > MOST_TRIES:
            checks.fail(f"retry[{name!r}]", value, _RETRY[name])
    found = msgspec.convert(dict(retry), Retry)
    if found.delay_s > found.most_delay_s:
        if "delay_s" in retry:
            give = f"at most most_delay_s, {found.most_delay_s:g}, or raise that"
            checks.fail("retry['delay_s']", retry["delay_s"], give)
        give = f"at least delay_s, {found.delay_s:g}, or lower that"
        checks.fail("retry['most_delay_s']", retry["most_delay_s"], give)
