"""`EventSensor`: a task that waits until a condition over events is met."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import msgspec
from airflow.sdk import BaseHook, BaseSensorOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSensorTimeout, AirflowSkipException
from jinja2 import UndefinedError

from ..conditions import Condition, ConditionError, canonical_key
from ..conditions.nodes.key import written_key
from ..conditions.nodes.paths import parse_path
from ..conditions.nodes.zoned import key_offset, zoned_key
from ..conditions.recipes.fail_on import is_failure, with_fail_on
from ..engine.records import ActionRecord, FiringRecord
from ..engine.waiting.acknowledge import acknowledge, remove_registration
from ..events.plain import is_tombstone
from ..events.plain_text import own, plain_text
from ..events.visible import visible, visible_lines
from ..triggers.event import EventTrigger
from ..triggers.firing_json import task_result
from ..triggers.payload import Payload
from ..triggers.settings import DEFAULT_CONNECTION, bus_config, resume_floor, settings
from ..triggers.spans import record_resumed
from ..triggers.stats import count_acknowledged, task_stats
from .failure import details
from .identity import clears, generation, generation_after, task_identity
from .templates import check_defined, instead_of_undefined
from .time_zone import in_zone_of, zone_of
from .wait_arguments import (
    NO_KEY,
    CheckedPartial,
    OnExpired,
    WaitArguments,
    bound_arguments,
    check_key_of_run,
    check_rendered_key,
    check_rendered_values,
    check_timeout,
)
from .wait_log import firing_line, tab_address

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.definitions.mappedoperator import OperatorPartial

    from ..engine.config import BusConfig


STATE_KEY: Final = "interlock.wait"  # in Airflow's task state store (ADR 17)
_NOT_RENDERED: Final = frozenset({"condition", "fail_on", "since"})
_FIRST: Final = datetime(1970, 1, 1, tzinfo=UTC)  # no record is older
STATE_KEPT: Final = timedelta(days=30)  # in addition to the timeout


class _Start(NamedTuple):
    """When the wait started.

    instance: distinguishes it from a wait with the same name whose run was deleted (ADR 26).
    generation: how many tries had ended at the last clear (ADR 16).
    """

    at: datetime
    instance: str | None
    generation: int


class EventSensor(BaseSensorOperator):
    """Waits, deferred, until `condition` is met, and returns the firing.

    condition: see docs/use/conditions.md. An invalid one is an import error of the DAG file. Durations that
        start at the registration (`expires(after=)`) start when the wait is registered.
    fail_on: a condition that fails the task, without a retry, if it is met first. After the task was cleared,
        it counts only later events.
    param_values: {name: value} for the parameters of `condition` and `fail_on`, such as
        `{"customer": "{{ dag_run.conf['customer'] }}"}` for `event(subject=param("customer"))`. Templated.
        The values are fixed when the wait is registered.
    key: for matchers with `by`: the value that their events must have, e.g. `"{{ ds }}"`. Templated. A list
        for a composite key. May be another task's output. Compared in its canonical form. `day("{{ ts }}")`
        is the day of the run in the DAG's time zone, or in that of `tz=`; also hour, week, month. Without a
        key, the first one for which the condition is met counts.
    since: events count if their record timestamp is at or after it. Default with a key: the earlier of
        logical date and run_after, minus the look-back and the largest `offset` of the matchers. Default
        without a key: run_after. It is the same for every try, so that a retry, a cleared task and a backfill
        find their past events.
    lookback: the look-back of this wait, a timedelta, instead of `[interlock] lookback_hours`; also for waits
        without a key. Give it if events may be much older than the run, for example with a key of last week.
    on_expired: what the task does if the condition expires (`expires()`): "fail" (default; no retry, because
        a retry would find the same firing), "skip", or "succeed", which returns the firing with the outcome
        `expired` and the missing labels.
    timeout: as for any sensor, for all tries together; a clear starts it again. After it the task fails
        without a retry, or is skipped with `soft_fail`.

    Returns (as XCom, at most 48 KiB) `{"version", "firing_id", "outcome", "key", "fired_at", "events":
    {label: [CloudEvent JSON]}, "recorded": {label: [time]}, "missing": []}`. If an event's data does not fit,
    a `dataref` replaces it, which `interlock.fetch` reads.

    A broker that does not answer, or a missing topic, does not fail the task: its log says what is wrong, and
    the wait continues. Each firing resumes its task once.
    """

    # The UI shows these fields; only param_values and key are rendered.
    template_fields: Sequence[str] = ("condition", "fail_on", "param_values", "key", "since")
    ui_color = "#d7e3f4"

    def __init__(
        self,
        *,
        condition: Condition,
        fail_on: Condition | None = None,
        param_values: Mapping[str, Any] | None = None,
        key: Any = NO_KEY,
        since: datetime | None = None,
        lookback: timedelta | None = None,
        kafka_conn_id: str = DEFAULT_CONNECTION,
        bus: str | None = None,
        on_expired: OnExpired = "fail",
        deferrable: bool = True,
        **kwargs: Any,
    ) -> None:
        # Before Airflow's constructor, whose errors do not name it.
        check_timeout(f"EventSensor {kwargs.get('task_id')!r}", kwargs.get("timeout"))
        super().__init__(**plain_text(kwargs))
        param_values, key, on_expired = map(own, (param_values, key, on_expired))
        kafka_conn_id, bus = plain_text(kafka_conn_id), plain_text(bus)
        dag = self.get_dag()
        condition, fail_on = in_zone_of(dag, condition), in_zone_of(dag, fail_on)
        arguments = WaitArguments(
            condition, fail_on, param_values, key, since, lookback, kafka_conn_id, bus, on_expired, deferrable
        )
        rendered = set(type(self).template_fields) - _NOT_RENDERED
        arguments.check(self._who, rendered, dag)
        self.condition = condition
        self.fail_on = fail_on
        self.param_values = param_values
        self._values_written = param_values  # `param_values` is rendered in place
        self.key = None if key is NO_KEY else key
        self._key_written = key  # `key` is rendered in place
        self.since = since
        self.lookback = lookback
        self.kafka_conn_id = kafka_conn_id
        self.bus = bus
        self.on_expired = on_expired

    @classmethod
    def partial(cls, **arguments: Any) -> OperatorPartial:
        """As for any operator, but `expand` also raises errors that the constructor would raise later."""
        made: OperatorPartial = super().partial(**plain_text(arguments))
        if cls.__init__ is not EventSensor.__init__:
            return made  # a subclass may have other arguments
        made._expand_called = True  # otherwise it warns when it is dropped
        return CheckedPartial(operator_class=cls, kwargs=made.kwargs, params=made.params)

    @property
    def _who(self) -> str:
        return f"EventSensor {self.task_id!r}"

    def _do_render_template_fields(
        self, parent: Any, template_fields: Iterable[str], *arguments: Any, **more: Any
    ) -> None:
        fields = [name for name in template_fields if name not in _NOT_RENDERED]
        for name in fields:
            try:
                super()._do_render_template_fields(parent, [name], *arguments, **more)
                check_defined(getattr(parent, name))
            except UndefinedError as error:
                written = self._values_written if name == "param_values" else self._key_written
                raise ConditionError(
                    f"{self._who}: {'the key' if name == 'key' else name} {written!r} cannot be rendered: "
                    f"{error}. {instead_of_undefined(error)}"
                ) from error

    def execute(self, context: Context) -> NoReturn:
        config = self._config()
        check_rendered_values(self._who, self._values_written, self.param_values)
        condition, fail_on = self._bound()
        combined = with_fail_on(condition, fail_on)
        if self._key_written is not NO_KEY:
            check_rendered_key(self._who, combined, self._key_written, self.key)
        key = self._canonical_key()
        if key is not None:
            check_key_of_run(self._who, (condition, fail_on), self._key_written, self._computed_key())
        since = self._since(context)
        subscription = task_identity(context, config.deployment)
        now = datetime.now(UTC)
        start = self._start(context, now)
        timeout_at = start.at + timedelta(seconds=self.timeout)
        trigger = EventTrigger(
            subscription=subscription,
            condition=combined.to_json(),
            key=key,
            since_ms=int(since.timestamp() * 1000),
            kafka_conn_id=self.kafka_conn_id,
            bus=config.name,
            deployment=config.deployment,
            timeout_at=timeout_at.isoformat(),
            resume_not_before=(now + resume_floor()).isoformat(),
            generation=start.generation,
            instance=start.instance,
        )
        self.log.info(
            "Waiting for %s%s%s, events since %s, until %s. Subscription %s on %s.",
            visible(condition),
            visible("" if fail_on is None else f", failing on {fail_on}"),
            visible("" if key is None else f" with key {self._written(key)!r}"),
            visible(since.isoformat(timespec="seconds")),
            visible(timeout_at.isoformat(timespec="seconds")),
            visible(subscription),
            visible(config.describe()),
        )
        self.log.info("The tab Wait shows what is met and what is missing: %s", visible(tab_address(context)))
        # No `timeout=`: the trigger watches the time, so that the resumed task can remove its registration.
        self.defer(trigger=trigger, method_name="execute_complete")

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Acknowledges the firing and returns it. Raises AirflowSensorTimeout after the timeout."""
        payload = Payload.from_json(event)
        if payload.outcome == "timeout":
            self._time_out(context, payload.registration_keys)
        action = payload.action_record()
        firing = action.firing
        self.log.info("%s", visible(firing_line(firing, datetime.now(UTC))))
        for label, identity in _identities(firing.events):
            self.log.info("%s: %s", visible(label), visible(identity))
        for label, number in firing.left_out.items():
            self.log.warning("%s: %d more events do not fit into the firing", visible(label), number)
        self._acknowledge(action, payload.registration_keys)
        record_resumed(payload.traceparent, action, context)
        if firing.outcome == "expired":
            firing = _without_fail_on(firing)
            self._expired(firing, context)
        elif is_failure(firing.events):
            failed = (_failure(each) for together in firing.events.values() for each in together)
            text = f"fail_on was met by {'; '.join(failed)}."
            self.log.error("%s To wait again without these events, clear the task.", visible(text))
            raise AirflowFailException(text)
        return task_result(firing, self._written(firing.key))

    def _since(self, context: Context) -> datetime:
        if self.since is not None:
            return self.since
        run = context["dag_run"]
        run_after: datetime = run.run_after
        if self.key is None:
            return run_after - (self.lookback or timedelta(0))
        # Manual and asset-triggered runs have no logical date in Airflow 3.
        begin = min(run.logical_date or run_after, run_after)
        lookback = settings().lookback if self.lookback is None else self.lookback
        try:
            return begin - (self._largest_offset() + key_offset(self.key) + lookback)
        except OverflowError:  # a run of the year 1, or a look-back of thousands of years
            return _FIRST

    def _largest_offset(self) -> timedelta:
        """Returns the largest `offset` of the matchers: how long before the key's date an event may come."""
        paths = (
            path
            for matcher in with_fail_on(*self._bound()).matchers
            for path in ((matcher.by,) if isinstance(matcher.by, str) else matcher.by or ())
        )
        return max((parse_path(path).reach for path in paths), default=timedelta(0))

    def _written(self, registered: str | None) -> str | None:
        """Returns the key as the DAG's author writes it; None if that is not the registered key.

        It is another one if the DAG was edited while the task waited, and none if there is no key.
        """
        try:
            if self.key is None or self._canonical_key() != registered:
                return None
            return written_key(self._computed_key())
        except ConditionError:
            return None

    def _bound(self) -> tuple[Condition, Condition | None]:
        """Returns `condition` and `fail_on` with the values of this run."""
        try:
            return bound_arguments(self.condition, self.fail_on, self.param_values)
        except ConditionError as e:
            raise ConditionError(f"{self._who}: {e}") from None

    def _shown(self) -> str:
        """Returns the text of `condition` with the values of this run, as the wait is registered."""
        try:
            return str(self._bound()[0])
        except ConditionError:  # the DAG file was edited meanwhile
            return str(self.condition)

    def _canonical_key(self) -> str | None:
        if self.key is None:
            return None
        return canonical_key(self._computed_key())

    def _computed_key(self) -> Any:
        """Returns the rendered key with its days, hours, weeks and months computed."""
        return zoned_key(self.key, zone_of(self.get_dag()))

    def _start(self, context: Context, now: datetime) -> _Start:
        """Returns the start of the first try since the last clear, and stores it for later tries (ADR 17)."""
        began, current = now, generation(context)
        instance = secrets.token_hex(8)
        try:
            store = context["task_state_store"]
            found = store.get(STATE_KEY)
            if isinstance(found, dict):
                instance, current = str(found["instance"]), generation_after(context, found)
                if found["generation"] == current:
                    began = datetime.fromisoformat(str(found["began"]))
            kept: dict[str, Any] = {
                "generation": current,
                **clears(context),
                "began": began.isoformat(),
                "instance": instance,
            }
            if kept != found:
                store.set(STATE_KEY, kept, retention=timedelta(seconds=self.timeout) + STATE_KEPT)
        except Exception as e:  # noqa: BLE001  # an error of the store must not fail the wait
            self.log.warning(
                "The timeout counts from this try, because the task state store failed: %s", visible(e)
            )
            return _Start(now, None, generation(context))  # no instance: later tries could not read it
        return _Start(began, instance, current)

    def _config(self) -> BusConfig:
        return bus_config(BaseHook.get_connection(self.kafka_conn_id), bus=self.bus)

    def _acknowledge(self, action: ActionRecord, registration_keys: tuple[str, ...]) -> None:
        """Acknowledges the firing. An error must not fail the task, which has the firing already."""
        try:
            config = self._config()
            acknowledge(config, action, registration_keys)
            count_acknowledged(task_stats(), config, 1)
        except Exception as e:  # noqa: BLE001
            self.log.warning(
                "The firing %s could not be acknowledged. This does not affect the task; retention removes "
                "the firing later. %s",
                visible(action.firing.id),
                visible(_with_type(e)),
            )

    def _expired(self, firing: FiringRecord, context: Context) -> None:
        """Logs the expiry, and raises an exception according to `on_expired`."""
        missing = f"; missing: {', '.join(firing.missing)}" if firing.missing else ""
        text = f"{self._shown()} expired{missing}."
        if firing.incomplete:
            text += " Some earlier events were not evaluated in time; the engine's log names them."
        self.log.warning("%s", visible(text))
        self._log_near_misses(context, firing.timer_ms)
        if self.on_expired == "skip" or (self.on_expired == "fail" and self.soft_fail):
            raise AirflowSkipException(text)
        if self.on_expired == "fail":
            raise AirflowFailException(text)

    def _time_out(self, context: Context, registration_keys: tuple[str, ...]) -> NoReturn:
        shown = self._shown()
        self.log.warning("%s was not met within %.0f s.", visible(shown), self.timeout)
        # Remove the registration first: the worker may be killed while it searches events for the log.
        try:
            remove_registration(self._config(), registration_keys)
        except Exception as e:  # noqa: BLE001  # the timeout stands, whatever happens here
            self.log.warning(
                "The registration could not be removed. It expires by itself. %s", visible(_with_type(e))
            )
        self._log_near_misses(context)
        raise AirflowSensorTimeout(f"{shown} was not met within {self.timeout:.0f} s.")

    def _log_near_misses(self, context: Context, until_ms: int | None = None) -> None:
        """Logs what was missing and what nearly matched. An error is only logged."""
        from ..engine.admin.explaining import why_not_met

        if self._key_written is NO_KEY and self.condition.keyed:
            return  # each key has a state of its own, and there may be thousands
        until_ms = until_ms or int(time.time() * 1000)
        try:
            since_ms = int(self._since(context).timestamp() * 1000)
            condition, _ = self._bound()
            text = why_not_met(self._config(), condition, self._canonical_key(), since_ms, until_ms)
        except Exception as e:  # noqa: BLE001
            self.log.warning("The search for events that nearly matched failed: %s", visible(e))
        else:
            self.log.info("%s", visible_lines(text))


def _with_type(error: Exception) -> str:
    """Returns type and text: the text of Airflow's errors is often only the name of what is missing."""
    return f"{type(error).__name__}: {error}"


def _identities(events: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[tuple[str, str]]:
    """Returns label and identity of each event."""
    return [(label, _identity(each)) for label, together in events.items() for each in together]


def _identity(form: Mapping[str, Any]) -> str:
    kind, source = form.get("type", "an event too large to be shown"), form.get("source", form.get("dataref"))
    rest = ", a tombstone, which has no data" if is_tombstone(form) else ""
    return visible(f"{kind} from {source}, id {form.get('id')}{rest}")


def _failure(form: Mapping[str, Any]) -> str:
    """Returns the event's identity, and what it says of the failure."""
    more = details(form)
    return f"{_identity(form)} ({visible(more)})" if more else _identity(form)


def _without_fail_on(firing: FiringRecord) -> FiringRecord:
    """Returns the expired firing without events and missing labels of `fail_on`."""
    return msgspec.structs.replace(
        firing,
        events={label: events for label, events in firing.events.items() if not is_failure([label])},
        missing=[label for label in firing.missing if not is_failure([label])],
    )
