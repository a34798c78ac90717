"""`dispatch_dag`: one run of a DAG for each firing of a condition (protocol: docs/use/dispatch.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn

from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from ..conditions import Condition
from ..engine.records import DEFAULT_MAX_KEYS, ActionRecord, AtLimit, FiringRecord
from ..engine.waiting.acknowledge import acknowledge_all
from ..events.plain_text import own, takes_plain_text
from ..events.visible import visible
from ..triggers.argument_checks import ArgumentChecks
from ..triggers.dispatch import DispatchTrigger
from ..triggers.settings import DEFAULT_CONNECTION, resume_floor
from ..triggers.spans import record_run
from ..triggers.stats import count_acknowledged, task_stats
from .continuous import TASK_ARGUMENTS, check_dag_id, continuous_dag
from .durable import DurableOperator
from .run_arguments import RunTemplates, run_arguments
from .run_creation import FiringToRun, RunCreator
from .target import Target, passes_partition_keys
from .templates import environment_of

if TYPE_CHECKING:
    from airflow.sdk import Context

    from ..engine.config import BusConfig

TASK_ID: Final = "dispatch"
ACKNOWLEDGE_EVERY: Final = 50
MAX_HELD: Final = 1000  # firings without a run; the trigger's arguments contain their places

_NO_RUN: Final = (
    "firings have no run yet: the log lines above name each with its reason. Correct the cause, such as an "
    "argument of dispatch_dag. The firings are tried again."
)

MAX_IN_FLIGHT: Final = 1_000_000

Places = Sequence[Sequence[int]]


@takes_plain_text
def dispatch_dag(
    dag_id: str,
    *,
    condition: Condition,
    param_values: Mapping[str, Any] | None = None,
    trigger_dag_id: str,
    conf: Mapping[str, Any] | None = None,
    logical_date: str | None = None,
    note: str | None = None,
    partition_key: str | None = None,
    since: datetime | None = None,
    max_runs_in_flight: int = 100,
    renew_after: timedelta = timedelta(minutes=15),
    max_keys: int = DEFAULT_MAX_KEYS,
    at_limit: AtLimit = "dead-letter",
    kafka_conn_id: str = DEFAULT_CONNECTION,
    bus: str | None = None,
    **dag_arguments: Any,
) -> DAG:
    """Returns a DAG, the dispatcher, that starts one run of `trigger_dag_id` for each firing of `condition`.

    Each firing gets exactly one run, whatever is paused, killed or down, for the 30 days that firings are
    kept. The run id is `dispatch__` plus the firing's id.

    conf: conf of the run; default: the firing, in the form that EventSensor returns. logical_date: ISO 8601
        text; without it runs have no logical date. note, partition_key: of the run. All four are templates
        that can use `firing`, e.g. `logical_date="{{ firing.key }}"`.
    since: events count if their record timestamp is at or after it. Default: the start of the dispatcher's
        first run, even if the subscription was registered later.
    max_runs_in_flight: how many runs of the target may be queued or running; more firings wait.
    renew_after: a run of the dispatcher ends after this time, and the next one uses the edited DAG file. A
        run whose subscription is not registered by then continues, so that `since` does not change.
    max_keys, at_limit: limit the open keys of the condition.
    param_values: {name: value} for the parameters of the condition, as for EventSensor; rendered for the run
        of the dispatcher. A value that changes from run to run is an edited condition each time.
    dag_arguments: arguments of the DAG, such as tags and default_args.

    An edited condition is a new incarnation of the subscription: partly met keys are dropped.
    """
    with continuous_dag("dispatch_dag", dag_id, dag_arguments) as dag:
        DispatchOperator(
            task_id=TASK_ID,
            condition=condition,
            param_values=param_values,
            trigger_dag_id=trigger_dag_id,
            conf=conf,
            logical_date=logical_date,
            note=note,
            partition_key=partition_key,
            since=since,
            max_runs_in_flight=max_runs_in_flight,
            renew_after=renew_after,
            max_keys=max_keys,
            at_limit=at_limit,
            kafka_conn_id=kafka_conn_id,
            bus=bus,
            **TASK_ARGUMENTS,
        )
    return dag


class DispatchOperator(DurableOperator):
    """The task of a dispatcher; arguments as in `dispatch_dag`."""

    function = "dispatch_dag"
    kind = "dispatch"
    # Airflow shows them as written: they are rendered for each firing, not for the task.
    template_fields: Sequence[str] = (
        "condition",
        "param_values",
        "trigger_dag_id",
        "conf",
        "logical_date",
        "note",
        "partition_key",
        "since",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"conf": "json"}
    ui_color = "#d7e3f4"

    def __init__(
        self,
        *,
        trigger_dag_id: str,
        conf: Mapping[str, Any] | None,
        logical_date: str | None,
        note: str | None,
        partition_key: str | None,
        max_runs_in_flight: int,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        checks = ArgumentChecks(self.who, rendered=("logical_date", "note", "partition_key"))
        check_dag_id(checks, "trigger_dag_id", trigger_dag_id)
        if trigger_dag_id == self.dag_id:
            raise ValueError(f"{self.who}: trigger_dag_id names the dispatcher itself; name another DAG.")
        checks.whole_number("max_runs_in_flight", max_runs_in_flight, 1, MAX_IN_FLIGHT)
        if partition_key is not None and not passes_partition_keys():
            raise ValueError(
                f"{self.who}: this version of Airflow does not pass a partition_key from a task to a run. "
                "Put it into conf instead."
            )
        RunTemplates(conf, logical_date, note, partition_key).check(
            checks, environment_of(self), self.condition
        )
        self.trigger_dag_id = trigger_dag_id
        self.conf = own(conf)
        self.logical_date = logical_date
        self.note = note
        self.partition_key = partition_key
        self.max_runs_in_flight = max_runs_in_flight

    def execute(self, context: Context) -> NoReturn:
        now = datetime.now(UTC)
        self.log.info(
            "Creating one run of %r for each firing of %s. Subscription %s on %s.",
            self.trigger_dag_id,
            visible(self._bound(context)),
            visible(self._subscription(self._config())),
            visible(self._config().describe()),
        )
        self._log_tab(context)
        self._defer(context, since=self._default_since(context, now), renew_at=now + self.renew_after)

    def resume(
        self,
        context: Context,
        event: dict[str, Any],
        since: str = "",
        renew_at: str = "",
        held: Places = (),
        created: int = 0,
        blocked: Sequence[str] = (),
    ) -> int:
        """Creates the runs of open firings, then defers again or ends. Returns how many runs it created.

        `dag.test()` passes only `context` and `event`: then the task ends instead of deferring again.
        """
        places = [(place[0], place[1]) for place in event["places"]]
        registered = event["registered"]
        if registered:
            self._note_registration(context)
        if not places:
            return self._renew(context, since, held, created, registered)
        config = self._config()
        firings, gone = _read(config, self._subscription(config), places)
        if gone:
            self.log.warning(
                "%d firings do not exist any more: they were acknowledged, are older than 30 days, or are on "
                "the bus that was used before.",
                len(gone),
            )
        creator = self._create_runs(context, config, firings, blocked)
        held = [*map(list, held), *map(list, creator.held)]
        created += creator.created
        if len(held) > MAX_HELD:
            raise AirflowException(f"{len(held)} {_NO_RUN} There are too many of them to continue.")
        # End on time even if firings are left.
        if not renew_at or datetime.now(UTC) >= datetime.fromisoformat(renew_at):
            return self._renew(context, since, held, created, registered)
        return self._defer(
            context,
            since=datetime.now(UTC) if registered else datetime.fromisoformat(since),
            renew_at=datetime.fromisoformat(renew_at),
            held=held,
            gone=gone,
            created=created,
            blocked=sorted(creator.blocked),
        )

    def _create_runs(
        self, context: Context, config: BusConfig, firings: Sequence[FiringToRun], blocked: Sequence[str]
    ) -> RunCreator:
        """Creates the runs of these firings while the target has room, and acknowledges the firings.

        Returns the creator, which knows how many runs are new, and which firings are held.
        """
        target = Target(self.trigger_dag_id)

        def create(action: ActionRecord) -> bool:
            firing = action.firing
            run = self._run(firing, context)
            new = target.create(**run)
            if new:
                record_run(action, self.trigger_dag_id, run["run_id"])
            self.log.info(
                "Run dispatch__%s of %r: %s, key %s.",
                visible(firing.id),
                self.trigger_dag_id,
                visible("created" if new else "exists already"),
                visible(firing.key),
            )
            return new

        creator = RunCreator(create, self.max_runs_in_flight - target.in_flight(), blocked, self.log)
        done: list[ActionRecord] = []
        try:
            for action in creator.create_runs(firings):
                done.append(action)
                if len(done) >= ACKNOWLEDGE_EVERY:
                    _acknowledge(config, done)
                    done = []
        finally:
            _acknowledge(config, done)
        return creator

    def _defer(
        self,
        context: Context,
        *,
        since: datetime,
        renew_at: datetime,
        held: Places = (),
        gone: Places = (),
        created: int = 0,
        blocked: Sequence[str] = (),
    ) -> NoReturn:
        config = self._config()
        trigger = DispatchTrigger(
            durable=self._durable(context, config, since),
            trigger_dag_id=self.trigger_dag_id,
            max_runs_in_flight=self.max_runs_in_flight,
            kafka_conn_id=self.kafka_conn_id,
            bus=config.name,
            deployment=config.deployment,
            resume_not_before=(datetime.now(UTC) + resume_floor()).isoformat(),
            renew_at=renew_at.isoformat(),
            held=held,
            gone=gone,
        )
        kept = {
            "since": since.isoformat(),
            "renew_at": renew_at.isoformat(),
            "held": list(held),
            "created": created,
            "blocked": list(blocked),
        }
        self.defer(trigger=trigger, method_name="resume", kwargs=kept)

    def _renew(self, context: Context, since: str, held: Places, created: int, registered: bool) -> int:
        """Ends the task, so that the next run begins. If nothing is registered, defers to keep `since`."""
        if registered or not since or self.since is not None:
            if held:
                raise AirflowFailException(f"{len(held)} {_NO_RUN} {created} runs were created.")
            return created
        self._warn_not_registered(since)
        if held:
            self.log.error("%d %s", len(held), visible(_NO_RUN))
        return self._defer(  # without those held, so that all are tried again, as by the next run
            context,
            since=datetime.fromisoformat(since),
            renew_at=datetime.now(UTC) + self.renew_after,
            created=created,
        )

    def _run(self, firing: FiringRecord, context: Context) -> dict[str, Any]:
        """Returns the arguments of the firing's run. Raises RunRefused if it cannot have a run."""
        templates = RunTemplates(self.conf, self.logical_date, self.note, self.partition_key)
        return run_arguments(firing, context, self.render_template, templates)


def _read(
    config: BusConfig, subscription: str, places: Sequence[tuple[int, int]]
) -> tuple[list[FiringToRun], list[list[int]]]:
    """Returns the subscription's open firings at these places, and the places without one.

    The trigger may have found the places on another bus, if the connection or `bus` was edited since: then
    firings of other subscriptions may lie there.
    Ends before the first firing that a later version wrote: that one and those after it stay open.
    """
    from ..engine.waiting.open_firings import read

    found: list[FiringToRun] = []
    gone: list[list[int]] = []
    for place, action in zip(places, read(config, places), strict=False):
        if action is None or action.state != "fired" or action.subscription != subscription:
            gone.append(list(place))
        else:
            found.append(FiringToRun(place, action))
    return found, gone


def _acknowledge(config: BusConfig, actions: list[ActionRecord]) -> None:
    """Raises EngineError if the broker does not answer; the next try finds the runs and acknowledges them."""
    acknowledge_all(config, actions)
    count_acknowledged(task_stats(), config, len(actions))
