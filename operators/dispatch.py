"""`dispatch_dag`: one run of a DAG for every firing of a condition (protocol: docs/use/dispatch.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn

from airflow.sdk import DAG, BaseHook, BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from ..conditions import Condition, ConditionError, from_json
from ..engine.records import DEFAULT_MAX_KEYS, ActionRecord, AtLimit, Firing
from ..engine.waiting.acknowledge import acknowledge_all
from ..triggers.dispatch import DispatchTrigger
from ..triggers.settings import DEFAULT_CONNECTION, bus_config, resume_floor
from ..triggers.stats import count_acknowledged, task_stats
from .run_arguments import run_of
from .run_creation import Open, Pass
from .target import Target, passes_partition_keys

if TYPE_CHECKING:
    from airflow.sdk import Context

    from ..engine.config import BusConfig

TASK_ID: Final = "dispatch"
STATE_KEY: Final = "interlock.dispatch"  # in Airflow's task state store: that a registration was seen
STATE_KEPT: Final = timedelta(days=30)
ACKNOWLEDGE_EVERY: Final = 50
MOST_HELD: Final = 1000  # firings that cannot be mapped; their places travel in the trigger
# A target that is missing must not end the run: @continuous would start the next one at once.
RETRIES: Final = 1000
RETRY_DELAY: Final = timedelta(seconds=10)  # a broker that restarts is back by then
MAX_RETRY_DELAY: Final = timedelta(minutes=5)
START: Final = datetime(2020, 1, 1, tzinfo=UTC)  # @continuous wants one that is over
_OURS: Final = ("schedule", "catchup", "max_active_runs", "max_consecutive_failed_dag_runs")

_NO_RUN: Final = (
    "firings have no run yet: the lines above say which and why. Mend what they name, such as the arguments "
    "of dispatch_dag; they are tried again."
)

Places = Sequence[Sequence[int]]


def dispatch_dag(
    dag_id: str,
    *,
    condition: Condition,
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
    """A DAG that starts one run of `trigger_dag_id` for each firing of `condition`.

    None is lost and none is repeated, whatever is paused, killed or down, for the 30 days that firings are
    kept. The run's id is `dispatch__` and the firing's.

    conf: of the run; default: the firing, in the form that EventSensor returns. logical_date: an ISO 8601
        text; without it runs have none. note, partition_key: of the run. All four are templates that see
        `firing`, e.g. `logical_date="{{ firing.key }}"`.
    since: events count whose record timestamp is at or after it; default: when the dispatcher's first run
        began, however late the subscription was registered in it.
    max_runs_in_flight: so many runs of the target may be queued or running; beyond that firings wait.
    renew_after: a run of the dispatcher ends then, and the next one takes what was edited. One whose
        subscription is not registered by then goes on, so that `since` stays.
    max_keys, at_limit: what bounds the open keys of the condition.
    dag_arguments: as of any DAG, such as tags and default_args.

    An edited condition is another subscription under the same name: what was half met is dropped.
    """
    for name in _OURS:
        if name in dag_arguments:
            raise ValueError(f"dispatch_dag {dag_id!r}: {name} is not for you to set; leave it out.")
    dag_arguments.setdefault("start_date", START)
    with DAG(
        dag_id,
        schedule="@continuous",
        catchup=False,
        max_active_runs=1,
        # Runs fail as long as a firing is held: [core] would have Airflow pause the dispatcher after some.
        max_consecutive_failed_dag_runs=0,
        **dag_arguments,
    ) as dag:
        DispatchOperator(
            task_id=TASK_ID,
            condition=condition,
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
            retries=RETRIES,
            retry_delay=RETRY_DELAY,
            retry_exponential_backoff=2,
            max_retry_delay=MAX_RETRY_DELAY,
            # Whatever default_args say: after a failed run the next one would wait for ever.
            depends_on_past=False,
            wait_for_downstream=False,
        )
    return dag


class DispatchOperator(BaseOperator):
    """The one task of a dispatcher; arguments as of `dispatch_dag`."""

    # Airflow shows them as they are written: nothing is rendered before a firing is there.
    template_fields: Sequence[str] = (
        "condition",
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
        condition: Condition,
        trigger_dag_id: str,
        conf: Mapping[str, Any] | None,
        logical_date: str | None,
        note: str | None,
        partition_key: str | None,
        since: datetime | None,
        max_runs_in_flight: int,
        renew_after: timedelta,
        max_keys: int,
        at_limit: AtLimit,
        kafka_conn_id: str,
        bus: str | None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        who = f"dispatch_dag {self.dag_id!r}"
        if not isinstance(condition, Condition):
            raise ConditionError(
                f"{who}: condition must be made with interlock.event() and its like; got "
                f"{type(condition).__name__}."
            )
        if from_json(condition.to_json()) != condition:
            raise ConditionError(f"{who}: the condition does not survive being written as JSON.")
        condition.check_key(key_given=False)
        if trigger_dag_id == self.dag_id:
            raise ValueError(f"{who}: trigger_dag_id names the dispatcher itself; name another DAG.")
        if since is not None and (not isinstance(since, datetime) or since.tzinfo is None):
            raise ValueError(f"{who}: since is {since!r}; give a datetime with a time zone.")
        for name, number in (("max_runs_in_flight", max_runs_in_flight), ("max_keys", max_keys)):
            if not isinstance(number, int) or number < 1:
                raise ValueError(f"{who}: {name} is {number!r}; give a number, 1 or more.")
        if renew_after < timedelta(minutes=1):
            raise ValueError(f"{who}: renew_after is {renew_after}; give a minute or more.")
        if partition_key is not None and not passes_partition_keys():
            raise ValueError(
                f"{who}: partition_key is given, and this version of Airflow does not let a task set it: the "
                "run would have none. Put it into conf."
            )
        self.condition = condition
        self.trigger_dag_id = trigger_dag_id
        self.conf = conf
        self.logical_date = logical_date
        self.note = note
        self.partition_key = partition_key
        self.since = since
        self.max_runs_in_flight = max_runs_in_flight
        self.renew_after = renew_after
        self.max_keys = max_keys
        self.at_limit: AtLimit = at_limit
        self.kafka_conn_id = kafka_conn_id
        self.bus = bus

    def _do_render_template_fields(self, *_: Any, **__: Any) -> None:
        pass

    def execute(self, context: Context) -> NoReturn:
        now = datetime.now(UTC)
        self.log.info(
            "One run of %r for each firing of %s. Subscription %s on %s.",
            self.trigger_dag_id,
            self.condition,
            self._subscription(self._config()),
            self._config().describe(),
        )
        self._defer(since=_began(context, now), renew_at=now + self.renew_after)

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
        """Create the runs of what fired; then defer again, or end when it is time. Gives their number.

        `dag.test()` drops all that was deferred with and hands on `event` alone: then one pass is the run.
        """
        from ..engine.waiting.open_firings import read

        places = [(place[0], place[1]) for place in event["places"]]
        registered = event.get("registered", True)  # a trigger of before says nothing
        if registered:
            self._note_registration(context)
        if not places:
            return self._renew(since, held, created, registered)
        config = self._config()
        target = Target(self.trigger_dag_id)
        there: list[Open] = []
        gone: list[list[int]] = []
        for place, action in zip(places, read(config, places), strict=True):
            if action is None or action.state != "fired":
                gone.append(list(place))
            else:
                there.append(Open(place, action))
        if gone:
            self.log.warning(
                "%d firings are not there any more: acknowledged meanwhile, or older than 30 days.", len(gone)
            )

        def create(action: ActionRecord) -> bool:
            firing = action.firing
            new = target.create(**self._run(firing, context))
            told = "created" if new else "was there"
            self.log.info(
                "Run dispatch__%s of %r: %s, key %s.", firing.id, self.trigger_dag_id, told, firing.key
            )
            return new

        this = Pass(create, self.max_runs_in_flight - target.in_flight(), blocked, self.log)
        done: list[ActionRecord] = []
        try:
            for action in this.over(there):
                done.append(action)
                if len(done) >= ACKNOWLEDGE_EVERY:
                    _acknowledge(config, done)
                    done = []
        finally:
            _acknowledge(config, done)
        held = [*map(list, held), *map(list, this.held)]
        created += this.created
        if len(held) > MOST_HELD:
            raise AirflowException(f"{len(held)} {_NO_RUN} There are too many to go on without them.")
        # However much is still to be done.
        if not renew_at or datetime.now(UTC) >= datetime.fromisoformat(renew_at):
            return self._renew(since, held, created, registered)
        return self._defer(
            since=datetime.now(UTC) if registered else datetime.fromisoformat(since),
            renew_at=datetime.fromisoformat(renew_at),
            held=held,
            gone=gone,
            created=created,
            blocked=sorted(this.blocked),
        )

    def _defer(
        self,
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
            durable={
                "subscription": self._subscription(config),
                "condition": self.condition.to_json(),
                "since_ms": int((self.since or since).timestamp() * 1000),
                "since_given": self.since is not None,
                "max_keys": self.max_keys,
                "at_limit": self.at_limit,
            },
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

    def _renew(self, since: str, held: Places, created: int, registered: bool) -> int:
        """End, for the next run to begin. It would have another `since`: with nothing registered, go on."""
        if registered or not since or self.since is not None:
            if held:
                raise AirflowFailException(f"{len(held)} {_NO_RUN} {created} runs were created.")
            return created
        self.log.warning(
            "The subscription is not registered yet. This run goes on until it is; events count from %s on.",
            since,
        )
        if held:
            self.log.error("%d %s", len(held), _NO_RUN)
        return self._defer(
            since=datetime.fromisoformat(since),
            renew_at=datetime.now(UTC) + self.renew_after,
            created=created,
        )

    def _note_registration(self, context: Context) -> None:
        """For later tries: what they find registered no more was cancelled, or edited."""
        try:
            context["task_state_store"].set(STATE_KEY, True, retention=STATE_KEPT)
        except Exception as e:  # noqa: BLE001  # a store that fails must fail no firing
            self.log.warning(
                "The task state store fails; a cancelled subscription may count events of before: %s", e
            )

    def _run(self, firing: Firing, context: Context) -> dict[str, Any]:
        """The arguments of the firing's run; RunRefused where there are none."""
        return run_of(
            firing,
            context,
            self.render_template,
            conf=self.conf,
            logical_date=self.logical_date,
            note=self.note,
            partition_key=self.partition_key,
        )

    def _subscription(self, config: BusConfig) -> str:
        return f"{config.deployment}/dispatch/{self.dag_id}"

    def _config(self) -> BusConfig:
        return bus_config(BaseHook.get_connection(self.kafka_conn_id), bus=self.bus)


def _began(context: Context, now: datetime) -> datetime:
    """From when on events count where nothing is registered: when the run began, the same in all its tries.

    Once a registration was seen in it, from now on: whoever cancelled it does not want what was before.
    """
    with suppress(Exception):  # a store that fails must not lose events
        if context["task_state_store"].get(STATE_KEY):
            return now
    run = context["dag_run"]
    return run.start_date or run.run_after


def _acknowledge(config: BusConfig, actions: list[ActionRecord]) -> None:
    """An EngineError while the broker is away: the next try finds the runs, and acknowledges then."""
    acknowledge_all(config, actions)
    count_acknowledged(task_stats(), config, len(actions))
