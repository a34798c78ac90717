"""A task that keeps a durable subscription registered: what `dispatch_dag` and `deliver_dag` share."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final

from airflow.sdk import BaseHook, BaseOperator

from ..conditions import Condition, ConditionError
from ..engine.records import AtLimit
from ..events.plain_text import own
from ..events.visible import visible
from ..triggers.argument_checks import ArgumentChecks
from ..triggers.settings import bus_config
from .templates import environment_of
from .wait_arguments import bound_arguments, check_rendered_values, check_unbound
from .wait_log import tab_address

if TYPE_CHECKING:
    from airflow.sdk import Context

    from ..engine.config import BusConfig

STATE_KEPT: Final = timedelta(days=30)


class DurableOperator(BaseOperator):
    """Base class of the tasks of `dispatch_dag` and `deliver_dag`.

    kind: the middle part of the subscription's name, `{deployment}/{kind}/{dag_id}`. function: what the
    author calls; for errors.
    """

    function: ClassVar[str]
    kind: ClassVar[str]

    def __init__(
        self,
        *,
        condition: Condition,
        param_values: Mapping[str, Any] | None,
        since: datetime | None,
        renew_after: timedelta,
        max_keys: int,
        at_limit: AtLimit,
        kafka_conn_id: str,
        bus: str | None,
        **kwargs: Any,
    ) -> None:
        try:
            super().__init__(**kwargs)
        except Exception as e:  # of many types
            raise ValueError(f"{self.function}: Airflow refuses an argument in default_args: {e}") from e
        checks = ArgumentChecks(self.who)
        checkable = check_unbound(checks, condition, None, param_values, self.get_template_env)
        try:
            checkable.check_key(key_given=False)
        except ConditionError as e:
            raise ConditionError(f"{self.who}: {e}") from None
        checks.moment("since", since)
        checks.duration("renew_after", renew_after, timedelta(minutes=1), "a minute")
        checks.limits(max_keys, at_limit)
        checks.connection(kafka_conn_id)
        checks.name_of("bus", bus)
        checks.templates("param_values", param_values, environment_of(self))
        self.condition = condition
        self.param_values = own(param_values)
        self.since = since
        self.renew_after = renew_after
        self.max_keys = max_keys
        self.at_limit: AtLimit = at_limit
        self.kafka_conn_id = kafka_conn_id
        self.bus = bus

    @property
    def who(self) -> str:
        """What errors begin with."""
        return f"{self.function} {self.dag_id!r}"

    def _do_render_template_fields(self, *_: Any, **__: Any) -> None:
        """Does nothing: Airflow shows the fields as written, and they are rendered where they are used."""

    def _bound(self, context: Context) -> Condition:
        """Returns the condition with the values of its parameters, rendered for this run."""
        values = self.render_template(self.param_values, context)
        check_rendered_values(self.who, self.param_values, values)
        try:
            return bound_arguments(self.condition, None, values)[0]
        except ConditionError as e:
            raise ConditionError(f"{self.who}: {e}") from None

    def _durable(self, context: Context, config: BusConfig, since: datetime) -> dict[str, Any]:
        """Returns the arguments of `Durable`. since: used if the author gives none and none is registered."""
        return {
            "subscription": self._subscription(config),
            "condition": self._bound(context).to_json(),
            "since_ms": int((self.since or since).timestamp() * 1000),
            "since_given": self.since is not None,
            "max_keys": self.max_keys,
            "at_limit": self.at_limit,
        }

    def _default_since(self, context: Context, now: datetime) -> datetime:
        """Returns the `since` to register with if none is given: the start of the run, in all its tries.

        Returns `now` if an earlier try has found the subscription registered: if it is registered no longer,
        somebody has cancelled it, and does not want earlier events.
        """
        with suppress(Exception):  # an error of the store must not lose events
            if context["task_state_store"].get(self._state_key):
                return now
        run = context["dag_run"]
        return run.start_date or run.run_after

    def _note_registration(self, context: Context) -> None:
        """Stores that it is registered, for `_default_since` of a later try."""
        try:
            context["task_state_store"].set(self._state_key, True, retention=STATE_KEPT)
        except Exception as e:  # noqa: BLE001  # an error of the store must not fail a firing
            self.log.warning(
                "The task state store failed: %s. If the subscription is cancelled, events from before that"
                " may count.",
                visible(e),
            )

    def _log_tab(self, context: Context) -> None:
        self.log.info("The tab Wait shows its open keys and its firings: %s", visible(tab_address(context)))

    def _warn_not_registered(self, since: str) -> None:
        self.log.warning(
            "The subscription is not registered yet. This run continues until it is. Events since %s count.",
            visible(since),
        )

    @property
    def _state_key(self) -> str:
        """In Airflow's task state store: True once registered."""
        return f"interlock.{self.kind}"

    def _subscription(self, config: BusConfig) -> str:
        return f"{config.deployment}/{self.kind}/{self.dag_id}"

    def _config(self) -> BusConfig:
        return bus_config(BaseHook.get_connection(self.kafka_conn_id), bus=self.bus)
