"""`EventSensor`: a task that waits until a condition over events is met."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias, get_args

from airflow.sdk import BaseHook, BaseSensorOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSensorTimeout, AirflowSkipException

from ..conditions import Condition, ConditionError, canonical_key, from_json
from ..engine.acknowledge import acknowledge, remove_registration
from ..engine.errors import EngineError
from ..engine.records import ActionRecord, Firing
from ..triggers.event import EventTrigger
from ..triggers.payload import Payload
from ..triggers.settings import DEFAULT_CONNECTION, bus_config, resume_floor, settings
from .identity import task_identity

if TYPE_CHECKING:
    from airflow.sdk import Context

    from ..engine.config import BusConfig


OnExpired: TypeAlias = Literal["fail", "skip", "succeed"]


class EventSensor(BaseSensorOperator):
    """Waits, deferred, until `condition` is met, and returns the firing.

    condition: see docs/conditions.md. One that makes no sense is an error when the DAG file is parsed, and
        Times that run from the registration (`expires(after=)`) begin when the wait is registered.
    key: where matchers have `by`: the value that their events must have, e.g. `"{{ ds }}"`. Templated.
        A list for a composite key; another task's output does as well. Compared in its canonical form.
        Without it, the first value for which the condition is met counts.
    since: events count whose record timestamp is at or after it. Default: the earlier of logical date and
        run_after, less `[interlock] lookback_hours`, where a key is given; else run_after. The same for
        every try, so that a retry, a cleared task and a backfill find their past events.
    on_expired: what the task does when the condition's own time (`expires()`) is up and it was not met:
        "fail" (default; it is not retried, for a retry would find the same firing), "skip", or "succeed",
        which returns the firing with the outcome `expired` and what was missing.
    timeout: as of any sensor, counted from the start of each try; then the task fails, or is skipped with
        `soft_fail`.

    Returns (as XCom, at most 48 KiB) `{"firing_id", "outcome", "key", "fired_at", "events": {label:
    [CloudEvent JSON]}, "missing": []}`; data of events that do not fit are replaced by a `dataref`.

    A broker that cannot be reached, or a topic that is missing, does not fail the task: its log says what
    is wrong, and the wait goes on. Each firing resumes its task once.
    """

    template_fields: Sequence[str] = ("key",)
    ui_color = "#d7e3f4"

    def __init__(
        self,
        *,
        condition: Condition,
        key: Any = None,
        since: datetime | None = None,
        kafka_conn_id: str = DEFAULT_CONNECTION,
        bus: str | None = None,
        on_expired: OnExpired = "fail",
        deferrable: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        who = f"EventSensor {self.task_id!r}"
        if not isinstance(condition, Condition):
            raise ConditionError(
                f"{who}: condition must be made with interlock.event() and its like, or "
                "with Condition.parse() from a text, or Condition.from_json() from JSON; got "
                f"{type(condition).__name__}."
            )
        # A condition travels to the engine as JSON: what would not come back equal is an error here.
        if from_json(condition.to_json()) != condition:
            raise ConditionError(
                f"{who}: the condition does not survive being written as JSON. "
                "Build it with the names of interlock.conditions only."
            )
        if isinstance(key, (str, list, tuple)) and not key:
            raise ConditionError(f"{who}: key is empty; give one, or leave it out.")
        condition.check_key(key is not None)
        if isinstance(key, (str, list, tuple)):  # anything else is rendered first, such as an XComArg
            _check_key_parts(who, condition, key)
        if on_expired not in get_args(OnExpired):
            choices = ", ".join(map(repr, get_args(OnExpired)))
            raise ValueError(f"{who}: on_expired is {on_expired!r}; give one of {choices}.")
        if not deferrable:
            raise ValueError(
                f"{who}: deferrable=False is not supported; it waits in the triggerer "
                "and holds no worker slot."
            )
        if since is not None and not isinstance(since, datetime):
            raise ValueError(
                f"{who}: since is a value of type {type(since).__name__}; give an aware "
                "datetime. It is not templated."
            )
        if since is not None and since.tzinfo is None:
            raise ValueError(f"{who}: since={since} has no time zone; give one.")
        self.condition = condition
        self.key = key
        self._key_given = key is not None
        self.since = since
        self.kafka_conn_id = kafka_conn_id
        self.bus = bus
        self.on_expired = on_expired

    def execute(self, context: Context) -> NoReturn:
        config = self._config()
        if self._key_given and _none_in(self.key):
            raise ConditionError(
                f"EventSensor {self.task_id!r}: the key was rendered to None; without one, events of any key "
                "would count."
            )
        key: str | None = None
        if self.key is not None:
            _check_key_parts(f"EventSensor {self.task_id!r}", self.condition, self.key)
            key = canonical_key(self.key)
        since = self._since(context)
        subscription = task_identity(context, config.deployment)
        now = datetime.now(UTC)
        trigger = EventTrigger(
            subscription=subscription,
            condition=self.condition.to_json(),
            key=key,
            since_ms=int(since.timestamp() * 1000),
            kafka_conn_id=self.kafka_conn_id,
            bus=config.name,
            deployment=config.deployment,
            timeout_at=(now + timedelta(seconds=self.timeout)).isoformat(),
            resume_not_before=(now + resume_floor()).isoformat(),
        )
        self.log.info(
            "Waiting for %s%s, events since %s. Subscription %s on %s.",
            self.condition,
            "" if key is None else f" with key {key!r}",
            since.isoformat(timespec="seconds"),
            subscription,
            config.describe(),
        )
        # No timeout for Airflow's own clock: the trigger keeps the time, and removes what it registered.
        self.defer(trigger=trigger, method_name="execute_complete")

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """Resumed: acknowledge the firing and return it. AirflowSensorTimeout when the time is over."""
        payload = Payload.from_json(event)
        if payload.outcome == "timeout":
            self._give_up(payload.registration_keys)
        action = payload.action_record()
        firing = action.firing
        for label, events in firing.events.items():
            for taking_part in events:
                self.log.info(
                    "%s: %s from %s, id %s",
                    label,
                    taking_part.get("type", "an event too large to be shown"),
                    taking_part.get("source", taking_part.get("dataref")),
                    taking_part.get("id"),
                )
        self._acknowledge(action, payload.registration_keys)
        if firing.outcome == "expired":
            self._expired(firing)
        return {
            "firing_id": firing.id,
            "outcome": firing.outcome,
            "key": firing.key,
            "fired_at": firing.fired_at,
            "events": firing.events,
            "missing": firing.missing,
        }

    def _since(self, context: Context) -> datetime:
        if self.since is not None:
            return self.since
        run = context["dag_run"]
        run_after: datetime = run.run_after
        if self.key is None:
            return run_after
        # Manual and asset-triggered runs have no logical date in Airflow 3.
        return min(run.logical_date or run_after, run_after) - settings().lookback

    def _config(self) -> BusConfig:
        return bus_config(BaseHook.get_connection(self.kafka_conn_id), bus=self.bus)

    def _acknowledge(self, action: ActionRecord, registration_keys: tuple[str, ...]) -> None:
        """The firing is this task's by now: a broker that is away must not take it back."""
        from airflow.sdk.observability import stats

        try:
            config = self._config()
            acknowledge(config, action, registration_keys)
        except EngineError as e:
            self.log.warning(
                "The firing %s is not acknowledged, which delays nothing: %s", action.firing.id, e
            )
            return
        stats.incr("interlock.acknowledged", tags={"bus": config.name, "deployment": config.deployment})

    def _expired(self, firing: Firing) -> None:
        """The condition's time was up: raise what `on_expired` says."""
        missing = ", ".join(firing.missing) or "nothing by name"
        text = f"{self.condition} expired; missing: {missing}."
        if firing.incomplete:
            text += " Not all events of before could be judged by then; the engine's log says which."
        if self.on_expired == "succeed":
            self.log.warning("%s", text)
        elif self.on_expired == "skip" or self.soft_fail:
            raise AirflowSkipException(text)
        else:
            raise AirflowFailException(text)

    def _give_up(self, registration_keys: tuple[str, ...]) -> NoReturn:
        try:
            remove_registration(self._config(), registration_keys)
        except EngineError as e:
            self.log.warning("The registration stays, and may still fire unheard: %s", e)
        raise AirflowSensorTimeout(f"{self.condition} was not met within {self.timeout:.0f} s.")


def _check_key_parts(who: str, condition: Condition, key: object) -> None:
    given = len(key) if isinstance(key, (list, tuple)) else 1
    if given != condition.key_parts:
        raise ConditionError(
            f"{who}: key has {given} value(s), and the matchers read {condition.key_parts}: give a list with"
            " one for each path in by=, in their order."
        )


def _none_in(key: object) -> bool:
    return key is None or (isinstance(key, (list, tuple)) and None in key)
