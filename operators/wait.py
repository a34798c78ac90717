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
from ..conditions.nodes.reading import parse_path
from ..conditions.recipes.fail_on import is_failure, with_fail_on
from ..engine.records import ActionRecord, Firing
from ..engine.waiting.acknowledge import acknowledge, remove_registration
from ..triggers.event import EventTrigger
from ..triggers.firing_json import firing_form
from ..triggers.payload import Payload
from ..triggers.settings import DEFAULT_CONNECTION, bus_config, resume_floor, settings
from ..triggers.stats import count_acknowledged, task_stats
from .identity import clears, generation, generation_after, task_identity
from .wait_arguments import NO_KEY, CheckedPartial, OnExpired, check, check_rendered_key

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.definitions.mappedoperator import OperatorPartial

    from ..engine.config import BusConfig


STATE_KEY: Final = "interlock.wait"  # in Airflow's task state store (ADR 17)
STATE_KEPT: Final = timedelta(days=30)  # beside the timeout


class _Began(NamedTuple):
    """When the wait began. instance: tells it from one of its name whose run was deleted (ADR 26).

    generation: how many tries were over at the last clear (ADR 16).
    """

    at: datetime
    instance: str | None
    generation: int


class EventSensor(BaseSensorOperator):
    """Waits, deferred, until `condition` is met, and returns the firing.

    condition: see docs/use/conditions.md. One that makes no sense is an error when the DAG file is parsed.
        Times that run from the registration (`expires(after=)`) begin when the wait is registered.
    fail_on: a condition that ends the wait as failed, without a retry, when it is met first. After the task
        was cleared it counts later events only.
    key: where matchers have `by`: the value that their events must have, e.g. `"{{ ds }}"`. Templated.
        A list for a composite key; another task's output does as well. Compared in its canonical form.
        Without it, the first value for which the condition is met counts.
    since: events count whose record timestamp is at or after it. Default: the earlier of logical date and
        run_after, less the look-back and the largest `offset` of the matchers, where a key is given; else
        run_after. The same for every try, so that a retry, a cleared task and a backfill find their past
        events.
    lookback: the look-back of this wait, a timedelta, in place of `[interlock] lookback_hours`; for waits
        without a key too. Give it where events may be much older than the run, as with a key of last week.
    on_expired: what the task does when the condition's own time (`expires()`) is up and it was not met:
        "fail" (default; it is not retried, for a retry would find the same firing), "skip", or "succeed",
        which returns the firing with the outcome `expired` and what was missing.
    timeout: as of any sensor, all tries together; a clear begins anew. Then the task fails without a retry,
        or is skipped with `soft_fail`.

    Returns (as XCom, at most 48 KiB) `{"version", "firing_id", "outcome", "key", "fired_at", "events":
    {label: [CloudEvent JSON]}, "recorded": {label: [time]}, "missing": []}`; data of events that do not fit
    are replaced by a `dataref`, which `interlock.fetch` reads.

    A broker that cannot be reached, or a topic that is missing, does not fail the task: its log says what
    is wrong, and the wait goes on. Each firing resumes its task once.
    """

    # Airflow shows them as what the task was rendered to; only the key is rendered.
    template_fields: Sequence[str] = ("condition", "fail_on", "key", "since")
    ui_color = "#d7e3f4"

    def __init__(
        self,
        *,
        condition: Condition,
        fail_on: Condition | None = None,
        key: Any = NO_KEY,
        since: datetime | None = None,
        lookback: timedelta | None = None,
        kafka_conn_id: str = DEFAULT_CONNECTION,
        bus: str | None = None,
        on_expired: OnExpired = "fail",
        deferrable: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check(
            self._who,
            condition=condition,
            fail_on=fail_on,
            key=key,
            since=since,
            lookback=lookback,
            on_expired=on_expired,
            deferrable=deferrable,
        )
        self.condition = condition
        self.fail_on = fail_on
        self.key = None if key is NO_KEY else key
        self._key_written = key  # `key` is rendered in place
        self.since = since
        self.lookback = lookback
        self.kafka_conn_id = kafka_conn_id
        self.bus = bus
        self.on_expired = on_expired

    @classmethod
    def partial(cls, **arguments: Any) -> OperatorPartial:
        """As any operator's; `expand` refuses what the constructor would refuse when the task runs."""
        made: OperatorPartial = super().partial(**arguments)
        if cls.__init__ is not EventSensor.__init__:
            return made  # it may take other arguments
        made._expand_called = True  # else it warns that it was dropped
        return CheckedPartial(operator_class=cls, kwargs=made.kwargs, params=made.params)

    @property
    def _who(self) -> str:
        return f"EventSensor {self.task_id!r}"

    def _do_render_template_fields(
        self, parent: Any, template_fields: Iterable[str], *arguments: Any, **more: Any
    ) -> None:
        fields = [name for name in template_fields if name not in ("condition", "fail_on", "since")]
        try:
            super()._do_render_template_fields(parent, fields, *arguments, **more)
        except UndefinedError as error:
            raise ConditionError(
                f"{self._who}: the key {self._key_written!r} cannot be rendered: {error}. A run that was "
                "triggered without a logical date has no `ds`, `ts` and `logical_date`. Trigger it with one "
                "(airflow dags trigger --logical-date), or take the key from what each run has, such as "
                "{{ dag_run.conf['date'] }} or {{ dag_run.run_after | ds }}."
            ) from error

    def execute(self, context: Context) -> NoReturn:
        config = self._config()
        whole = with_fail_on(self.condition, self.fail_on)
        if self._key_written is not NO_KEY:
            check_rendered_key(self._who, whole, self._key_written, self.key)
        key = self._canonical_key()
        since = self._since(context)
        subscription = task_identity(context, config.deployment)
        now = datetime.now(UTC)
        began = self._began(context, now)
        timeout_at = began.at + timedelta(seconds=self.timeout)
        trigger = EventTrigger(
            subscription=subscription,
            condition=whole.to_json(),
            key=key,
            since_ms=int(since.timestamp() * 1000),
            kafka_conn_id=self.kafka_conn_id,
            bus=config.name,
            deployment=config.deployment,
            timeout_at=timeout_at.isoformat(),
            resume_not_before=(now + resume_floor()).isoformat(),
            generation=began.generation,
            instance=began.instance,
        )
        self.log.info(
            "Waiting for %s%s%s, events since %s, until %s. Subscription %s on %s.",
            self.condition,
            "" if self.fail_on is None else f", failing on {self.fail_on}",
            "" if key is None else f" with key {key!r}",
            since.isoformat(timespec="seconds"),
            timeout_at.isoformat(timespec="seconds"),
            subscription,
            config.describe(),
        )
        # No timeout for Airflow's own clock: the trigger keeps the time, and the task removes what it
        # registered.
        self.defer(trigger=trigger, method_name="execute_complete")

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Resumed: acknowledge the firing and return it. AirflowSensorTimeout when the time is over."""
        payload = Payload.from_json(event)
        if payload.outcome == "timeout":
            self._give_up(context, payload.registration_keys)
        action = payload.action_record()
        firing = action.firing
        self.log.info("Firing %s of %s: %s.", firing.id, firing.fired_at, firing.outcome)
        for label, taking_part in _told(firing.events):
            self.log.info("%s: %s", label, taking_part)
        for label, number in firing.left_out.items():
            self.log.warning("%s: %d more, for which the firing has no room", label, number)
        self._acknowledge(action, payload.registration_keys)
        if firing.outcome == "expired":
            firing = _without_fail_on(firing)
            self._expired(firing, context)
        elif is_failure(firing.events):
            text = "fail_on was met, by " + "; ".join(text for _, text in _told(firing.events)) + "."
            self.log.error("%s Clear the task to wait anew; then these count no more.", text)
            raise AirflowFailException(text)
        return firing_form(firing)

    def _since(self, context: Context) -> datetime:
        if self.since is not None:
            return self.since
        run = context["dag_run"]
        run_after: datetime = run.run_after
        if self.key is None:
            return run_after - (self.lookback or timedelta(0))
        # Manual and asset-triggered runs have no logical date in Airflow 3.
        begin = min(run.logical_date or run_after, run_after) - self._largest_offset()
        return begin - (settings().lookback if self.lookback is None else self.lookback)

    def _largest_offset(self) -> timedelta:
        """By how much the earliest event that is waited for is earlier than the key says."""
        paths = (
            path
            for matcher in with_fail_on(self.condition, self.fail_on).matchers
            for path in ((matcher.by,) if isinstance(matcher.by, str) else matcher.by or ())
        )
        return timedelta(milliseconds=max((0, *(parse_path(path).offset_ms for path in paths))))

    def _canonical_key(self) -> str | None:
        return None if self.key is None else canonical_key(self.key)

    def _began(self, context: Context, now: datetime) -> _Began:
        """In this try, or in one before it that no clear came after (ADR 17)."""
        began, own = now, generation(context)
        mark: str | None = secrets.token_hex(8)
        try:
            store = context["task_state_store"]
            found = store.get(STATE_KEY)
            if isinstance(found, dict):
                mark = None if found.get("instance") is None else str(found["instance"])
                own = generation_after(context, found)
                if found.get("generation") == own:
                    began = datetime.fromisoformat(str(found["began"]))
            kept: dict[str, Any] = {
                "generation": own,
                **clears(context),
                "began": began.isoformat(),
                "instance": mark,
            }
            if kept != found:
                store.set(STATE_KEY, kept, retention=timedelta(seconds=self.timeout) + STATE_KEPT)
        except Exception as e:  # noqa: BLE001  # a store that fails must fail no wait
            self.log.warning("The timeout counts from this try: the task state store fails: %s", e)
            return _Began(now, None, generation(context))  # a mark is what no later try would know
        return _Began(began, mark, own)

    def _config(self) -> BusConfig:
        return bus_config(BaseHook.get_connection(self.kafka_conn_id), bus=self.bus)

    def _acknowledge(self, action: ActionRecord, registration_keys: tuple[str, ...]) -> None:
        """The firing is this task's by now: whatever goes wrong here must not take it back."""
        try:
            config = self._config()
            acknowledge(config, action, registration_keys)
            count_acknowledged(task_stats(), config, 1)
        except Exception as e:  # noqa: BLE001
            self.log.warning(
                "The firing %s could not be acknowledged, which changes nothing for this task: it stays as "
                "it is until retention removes it. %s",
                action.firing.id,
                _named(e),
            )

    def _expired(self, firing: Firing, context: Context) -> None:
        """The condition's time was up: raise what `on_expired` says."""
        missing = ", ".join(firing.missing) or "nothing by name"
        text = f"{self.condition} expired; missing: {missing}."
        if firing.incomplete:
            text += " Not all events of before could be judged by then; the engine's log says which."
        self.log.warning("%s", text)
        self._tell_why(context, firing.timer_ms)
        if self.on_expired == "skip" or (self.on_expired == "fail" and self.soft_fail):
            raise AirflowSkipException(text)
        if self.on_expired == "fail":
            raise AirflowFailException(text)

    def _give_up(self, context: Context, registration_keys: tuple[str, ...]) -> NoReturn:
        self.log.warning("%s was not met within %.0f s.", self.condition, self.timeout)
        # First: a worker may be killed while it reads events to tell why, in each of its tries.
        try:
            remove_registration(self._config(), registration_keys)
        except Exception as e:  # noqa: BLE001  # the time is over, whatever happens here
            self.log.warning("The registration stays, and may still fire unheard. %s", _named(e))
        self._tell_why(context)
        raise AirflowSensorTimeout(f"{self.condition} was not met within {self.timeout:.0f} s.")

    def _tell_why(self, context: Context, until_ms: int | None = None) -> None:
        """Log what was missing and what nearly matched. Whatever that meets changes nothing else."""
        from ..engine.admin.hindsight import hindsight

        if self._key_written is NO_KEY and self.condition.keyed:
            return  # each key has a state of its own
        until_ms = until_ms or int(time.time() * 1000)
        try:
            since_ms = int(self._since(context).timestamp() * 1000)
            told = hindsight(self._config(), self.condition, self._canonical_key(), since_ms, until_ms)
        except Exception as e:  # noqa: BLE001
            self.log.warning("What nearly matched cannot be told: %s", e)
        else:
            self.log.info("%s", told)


def _named(error: Exception) -> str:
    """Airflow's errors often hold no more than the name of what is not there."""
    return f"{type(error).__name__}: {error}"


def _told(events: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[tuple[str, str]]:
    """Label and identity of each event."""
    return [(label, _identity(each)) for label, together in events.items() for each in together]


def _identity(form: Mapping[str, Any]) -> str:
    kind, source = form.get("type", "an event too large to be shown"), form.get("source", form.get("dataref"))
    return f"{kind} from {source}, id {form.get('id')}"


def _without_fail_on(firing: Firing) -> Firing:
    """An expiry without the parts of `fail_on`: what was there of them, and that the others were missing."""
    return msgspec.structs.replace(
        firing,
        events={label: events for label, events in firing.events.items() if not is_failure([label])},
        missing=[label for label in firing.missing if not is_failure([label])],
    )
