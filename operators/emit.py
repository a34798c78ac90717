"""`EmitEventOperator`, a task that emits one CloudEvent, and `emit`, for tasks that do more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar, Final

from airflow.sdk import BaseHook, BaseOperator
from jinja2 import UndefinedError

from ..events.attributes import shown
from ..events.emitter import Emitter
from ..events.errors import EventError
from ..events.event import Event
from ..events.plain_text import own, plain_text, takes_plain_text
from ..events.visible import visible_logger
from ..triggers.argument_checks import ArgumentChecks, without_outputs
from ..triggers.settings import DEFAULT_CONNECTION, bus_config
from .identity import event_id, event_source
from .templates import check_defined, environment_of, gave_nothing, instead_of_undefined, is_missing

if TYPE_CHECKING:
    from airflow.sdk import Context


log = visible_logger(__name__)

# Not allowed in `extensions`: they have arguments, or are set here (`id`), or come from the record (`time`).
_RESERVED: Final = frozenset({"id", "source", "specversion", "type", "subject", "data", "time"})

_TEXTS: Final = ("type", "source", "subject")  # attributes that are texts and not empty
_MAX_ORDINAL: Final = 2**63


class EmitEventOperator(BaseOperator):
    """Emits one CloudEvent to the bus; succeeds only when the broker has acknowledged it (acks=all).

    type, source, subject, data, extensions: the event; all templated. source defaults to
        `/deployment/dag/task`. data: any JSON value. extensions: CloudEvents extension attributes, e.g.
        `{"partitionkey": "eu"}`.
    delivery_timeout: seconds for the broker to acknowledge.

    The event's id is the same in retries of the task, so that the event counts once, and a new one after a
    clear. An invalid event fails the task with an error that names the attributes. If the broker does not
    acknowledge the event, the task fails with the reason, and a retry is safe.

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
        super().__init__(**plain_text(kwargs))
        type, source, subject, data = map(own, (type, source, subject, data))  # noqa: A001
        extensions, kafka_conn_id, bus = map(own, (extensions, kafka_conn_id, bus))
        checks = ArgumentChecks(f"EmitEventOperator {self.task_id!r}", self.template_fields)
        arguments = _Arguments(type, source, subject, data, extensions, kafka_conn_id, bus, delivery_timeout)
        arguments.check(checks)
        for name, value in (("type", type), ("source", source), ("subject", subject), ("data", data)):
            checks.templates(name, value, environment_of(self))
        checks.templates("extensions", extensions, environment_of(self))
        self.type = type
        self.source = source
        self.subject = subject
        self.data = data
        self.extensions = extensions
        # The arguments are rendered in place.
        self._written = {"type": type, "source": source, "subject": subject, "extensions": extensions}
        self.kafka_conn_id = kafka_conn_id
        self.bus = bus
        self.delivery_timeout = delivery_timeout

    def execute(self, context: Context) -> dict[str, Any]:
        self._check_rendered()
        arguments = _Arguments(
            self.type, self.source, self.subject, self.data, self.extensions, self.kafka_conn_id, self.bus,
            self.delivery_timeout,
        )  # fmt: skip
        return arguments.emit(context, 0)

    def _check_rendered(self) -> None:
        """Raises EventError if a template gave nothing: an event with the subject "None" meets no wait."""
        who = f"EmitEventOperator {self.task_id!r}"
        try:
            check_defined([self.type, self.source, self.subject, self.data, self.extensions])
        except UndefinedError as error:
            raise EventError(f"{who}: {error}. {instead_of_undefined(error)}") from error
        written, found = self._written["extensions"], self.extensions
        empty = [name for name in _TEXTS if is_missing(self._written[name], getattr(self, name))]
        if isinstance(written, Mapping) and isinstance(found, Mapping):  # an extension may be empty
            empty += [name for name in written if is_missing(written[name], found.get(name), ("None", None))]
        if empty:
            raise EventError(gave_nothing(who, empty))


@takes_plain_text
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
    """Emits one CloudEvent from inside a running task, and returns the same as `EmitEventOperator`.

    ordinal: identifies the event among this task's events; part of the id. By default the calls of a try are
        numbered from 0, which is right if a retry emits the same events in the same order. Give an ordinal,
        such as the region that the event is about, if the order may change, if threads emit, and in a task
        that defers or is rescheduled: it continues in another process, where the numbers start at 0 again.

    Returns when the broker has acknowledged the event. Raises EventError for an invalid event, outside of a
    task, and without an ordinal in a resumed task; raises EmitError if the event was not acknowledged. A
    retry of the task is safe then.
    """
    from airflow.sdk import get_current_context

    arguments = _Arguments(type, source, subject, data, extensions, kafka_conn_id, bus, delivery_timeout)
    checks = ArgumentChecks("emit()")
    arguments.check(checks)
    if isinstance(ordinal, int) and not isinstance(ordinal, bool):
        checks.whole_number("ordinal", ordinal, -_MAX_ORDINAL, _MAX_ORDINAL)
    else:
        checks.text("ordinal", ordinal, "a whole number or a text", none=True)
    try:
        context = get_current_context()
    except RuntimeError:
        raise EventError(
            "emit() was called outside of a running task, and the event's id comes from the task: use"
            " interlock.events.Emitter with an id of your own"
        ) from None
    if ordinal is None:
        if _is_resumed(context):
            raise EventError(
                "emit() needs ordinal= in a task that was deferred or rescheduled: earlier calls were in"
                " another process, so numbering would repeat their ids. Give a text that identifies the event"
                " among the task's events"
            )
        ordinal = _number_of_call(str(context["ti"].id))
    return arguments.emit(context, ordinal)


@dataclass(frozen=True)
class _Arguments:
    """Arguments of `emit` and of `EmitEventOperator`."""

    type: str
    source: str | None
    subject: str | None
    data: Any
    extensions: Mapping[str, Any] | None
    kafka_conn_id: str
    bus: str | None
    delivery_timeout: float

    def check(self, checks: ArgumentChecks) -> None:
        """Raises ValueError or EventError for what cannot be emitted, as far as the values are known."""
        checks.connection(self.kafka_conn_id)
        checks.name_of("bus", self.bus)
        checks.delivery_timeout(self.delivery_timeout)

        def or_instead(name: str, value: Any, instead: Any) -> Any:
            return instead if checks.is_unknown(name, value) else value

        extensions = {} if checks.is_unknown("extensions", self.extensions) else self._extensions(checks.who)
        try:
            data = self.data if isinstance(self.data, bytes) else without_outputs(self.data)
        except RecursionError:
            raise EventError(f"{checks.who}: data is nested too deeply, or contains itself") from None
        try:
            Event.of(
                or_instead("type", self.type, "x"),
                "x" if self.source in (None, "") else or_instead("source", self.source, "x"),
                id="x",
                subject=or_instead("subject", self.subject, None),
                data=data,
                **{name: or_instead("extensions", value, None) for name, value in extensions.items()},
            )
        except EventError as e:
            raise EventError([f"{checks.who}: {problem}" for problem in e.problems]) from None

    def _extensions(self, who: str = "") -> dict[str, Any]:
        given = {} if self.extensions is None else self.extensions
        begin = f"{who}: " if who else ""
        if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
            raise EventError(
                f"{begin}extensions is {shown(given)}: give a dict of attribute names and values, such as"
                ' {"partitionkey": "eu"}'
            )
        if reserved := sorted(_RESERVED & given.keys()):
            raise EventError(
                f"{begin}extensions cannot contain {', '.join(reserved)}: use the arguments for these"
            )
        return dict(given)

    def emit(self, context: Context, ordinal: int | str) -> dict[str, Any]:
        config = bus_config(BaseHook.get_connection(self.kafka_conn_id), bus=self.bus)
        event = Event.of(
            self.type,
            self.source or event_source(context, config.deployment),
            id=event_id(context, config.deployment, ordinal),
            subject=self.subject,
            data=self.data,
            **self._extensions(),
        )
        with Emitter(config.client, config.topic("event")) as emitter:
            delivery = emitter.emit(event, timeout_s=self.delivery_timeout)
        log.info("Emitted %s, id %s, to %s[%d]@%d.", event.type, event.id, *delivery)
        return {"source": event.source, "id": event.id, **delivery._asdict()}


def _is_resumed(context: Context) -> bool:
    """Returns whether an earlier process of this try may have emitted: before a deferral, or in a poke.

    The reschedule count matters for sensors only: Airflow also reschedules a task whose DAG file was not
    found.
    """
    ti: Any = context["ti"]
    if getattr(getattr(ti, "_ti_context_from_server", None), "next_method", None):  # has no public name
        return True
    return bool(context.get("task_reschedule_count")) and getattr(ti.task, "reschedule", False)


# The try that runs in this process: its id (Airflow gives each try a new one), and the numbers of its calls.
_calls: tuple[str, Iterator[int]] = ("", count())


def _number_of_call(try_id: str) -> int:
    global _calls
    if _calls[0] != try_id:
        _calls = (try_id, count())
    return next(_calls[1])
