"""`dispatch_dag`: invalid arguments, and exactly one run for each firing wherever a round ends."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred
from airflow.sdk.observability import stats
from airflow.serialization.serialized_objects import DagSerialization, LazyDeserializedDAG
from airflow.utils.file import might_contain_dag
from interlock import absent, at_least, event
from interlock.conditions import ConditionError
from interlock.engine.errors import UnreachableError
from interlock.engine.records import ActionRecord, FiringRecord
from interlock.operators import dispatch as module
from interlock.operators import dispatch_dag
from interlock.operators.target import RunRefused, TargetFails, TargetRefuses

from tests.kit.state_store import StateStore

EXAMPLES = Path(__file__).parents[3] / "dags_examples"
DAILY = event("x", by="data.day", label="x")
PLACE = dict[tuple[int, int], ActionRecord]
BEGAN = datetime(2026, 11, 20, 6, tzinfo=UTC)
BEGAN_MS = int(BEGAN.timestamp() * 1000)


class Log:
    """The action topic: open and acknowledged firings."""

    def __init__(self) -> None:
        self.records: PLACE = {}
        self.acknowledged: list[str] = []
        self.unreachable = False

    def fire(self, *firings: FiringRecord) -> None:
        for firing in firings:
            record = ActionRecord(
                subscription="s", kind="durable", incarnation="i", state="fired", firing=firing
            )
            self.records[0, len(self.records)] = record

    def read(self, _: Any, places: Any) -> Any:
        return [self.records.get(place) for place in places]

    def acknowledge(self, _: Any, actions: Any) -> None:
        if actions and self.unreachable:
            raise UnreachableError("the broker is away")
        self.acknowledged += [action.firing.id for action in actions]

    def open(self) -> list[list[int]]:
        """Returns the places that a trigger would yield."""
        return [list(at) for at, record in self.records.items() if record.firing.id not in self.acknowledged]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    made = Log()
    monkeypatch.setattr("interlock.engine.waiting.open_firings.read", made.read)
    monkeypatch.setattr(module, "acknowledge_all", made.acknowledge)
    return made


def firing(name: str, key: str | None = "2026-11-20", **more: Any) -> FiringRecord:
    events = {"x": [{"specversion": "1.0", "id": name, "data": {"market": "lse"}}]}
    given = {"fired_at": "at", "events": events, "origins": {"x": [{"timestamp_ms": 0}]}, **more}
    return FiringRecord(id=name, outcome="met", key=key, **given)


def task(condition: Any = DAILY, **arguments: Any) -> Any:
    return dispatch_dag("d", condition=condition, trigger_dag_id="t", **arguments).task_dict["dispatch"]


def context(began: datetime | None = BEGAN) -> Any:
    """The context of one run of the dispatcher, the same in all its tries."""
    run = SimpleNamespace(start_date=began, run_after=BEGAN - timedelta(seconds=3))
    return {"dag_run": run, "task_state_store": StateStore()}


def deferral(of: Any, *arguments: Any, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The kwargs of the trigger and of `resume`."""
    with pytest.raises(TaskDeferred) as raised:
        of(*arguments, **kwargs)
    assert (raised.value.method_name, raised.value.timeout) == ("resume", None)
    return raised.value.trigger.serialize()[1], raised.value.kwargs or {}


def fired(places: Any, *, registered: bool = True) -> dict[str, Any]:
    """The event of a trigger with these open firings; without one it is time to renew."""
    return {"outcome": "fired" if places else "renew", "places": places, "registered": registered}


def resumed(operator: Any, places: Any, kept: dict[str, Any] | None = None) -> Any:
    """Runs a round over these places, and returns the next deferral."""
    kept = kept or deferral(operator.execute, context())[1]
    return deferral(operator.resume, context(), event=fired(places), **kept)


# -- invalid arguments


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"condition": lambda event: True}, "build it with interlock\\.event"),
        ({"condition": DAILY & event("y")}, "reads no key, but"),
        ({"condition": absent(DAILY, "1h", armed_by="subscription")}, "armed_by"),
        ({"trigger_dag_id": "d"}, "names the dispatcher itself"),
        ({"since": datetime(2026, 1, 1)}, "with a time zone"),  # noqa: DTZ001
        ({"max_runs_in_flight": 0}, "1 or more"),
        ({"max_keys": 0}, "1 or more"),
        ({"renew_after": timedelta(seconds=5)}, "a minute or more"),
        ({"schedule": "@daily"}, "cannot be set"),
        ({"catchup": True}, "cannot be set"),
        ({"max_consecutive_failed_dag_runs": 3}, "cannot be set"),
    ],
)
def test_invalid_arguments_of_dispatch_dag_are_import_errors_with_the_reason(
    arguments: dict[str, Any], sentence: str
) -> None:
    with pytest.raises((ValueError, ConditionError), match=sentence):
        dispatch_dag("d", **{"condition": DAILY, "trigger_dag_id": "t", **arguments})


def test_a_partition_key_is_refused_if_airflow_would_drop_it(
    monkeypatch: pytest.MonkeyPatch, supervisor: Any, log: Log
) -> None:
    with pytest.raises(ValueError, match="does not pass a partition_key from a task"):
        task(partition_key="{{ firing.key }}")
    monkeypatch.setattr(module, "passes_partition_keys", lambda: True)
    log.fire(firing("a"))
    resumed(task(partition_key="{{ firing.key }}"), log.open())
    assert supervisor.runs["dispatch__a"].partition_key == "2026-11-20"


# -- the DAG


def test_the_dispatcher_is_one_continuous_dag_whose_failures_are_tried_again() -> None:
    dag = dispatch_dag("d", condition=DAILY, trigger_dag_id="t", tags=["mine"])
    assert isinstance(dag, DAG)
    assert (dag.max_active_runs, dag.catchup, dag.tags) == (1, False, {"mine"})
    assert type(dag.timetable).__name__ == "ContinuousTimetable"
    [one] = dag.tasks
    assert one.retries == 1000


def test_no_number_of_failed_runs_pauses_the_dispatcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after Airflow reads the DAG from its database, where 0 might be treated as "not given"."""
    monkeypatch.setenv("AIRFLOW__CORE__MAX_CONSECUTIVE_FAILED_DAG_RUNS_PER_DAG", "3")
    assert DAG("other").max_consecutive_failed_dag_runs == 3
    dag = dispatch_dag("d", condition=DAILY, trigger_dag_id="t")
    stored = json.loads(json.dumps(DagSerialization.to_dict(dag)))
    read = DagSerialization.from_dict(stored)
    assert (dag.max_consecutive_failed_dag_runs, read.max_consecutive_failed_dag_runs) == (0, 0)
    # As the DAG processor writes it into the DAG's row.
    assert LazyDeserializedDAG(data=stored).max_consecutive_failed_dag_runs == 0


def test_a_failed_run_of_the_dispatcher_does_not_block_the_next() -> None:
    one = task(default_args={"depends_on_past": True, "wait_for_downstream": True, "owner": "me"})
    assert (one.depends_on_past, one.wait_for_downstream, one.owner) == (False, False, "me")


def test_a_file_that_only_dispatches_is_parsed_in_safe_mode() -> None:
    path = str(EXAMPLES / "settle_on_trades.py")
    assert "import airflow" not in Path(path).read_text()
    assert might_contain_dag(path, safe_mode=True)
    bag = DagBag(path, safe_mode=True)
    assert bag.import_errors == {}
    assert list(bag.dags) == ["settle_on_trades"]
    assert bag.dags["settle_on_trades"].fileloc == path


def test_it_defers_with_the_triggers_arguments_and_no_secret(log: Log) -> None:
    kwargs, kept = deferral(task(max_runs_in_flight=7, max_keys=5).execute, context())
    assert kwargs["durable"]["subscription"] == "airflow/dispatch/d"
    assert kwargs["durable"]["condition"] == DAILY.to_json()
    assert (kwargs["durable"]["since_given"], kwargs["durable"]["max_keys"]) == (False, 5)
    assert (kwargs["trigger_dag_id"], kwargs["max_runs_in_flight"], kwargs["held"]) == ("t", 7, [])
    assert "hush" not in str(kwargs)
    assert kept["renew_at"] == kwargs["renew_at"]


def test_a_given_since_is_passed_to_the_trigger(supervisor: Any, log: Log) -> None:
    since = datetime(2026, 11, 1, tzinfo=UTC)
    kwargs, _ = deferral(task(since=since).execute, context())
    assert (kwargs["durable"]["since_ms"], kwargs["durable"]["since_given"]) == (1793491200000, True)
    first, kept = deferral(task().execute, context())
    edited, _ = resumed(task(since=since), [[0, 99]], kept)
    assert (edited["durable"]["since_ms"], edited["durable"]["since_given"]) == (1793491200000, True)
    assert edited["renew_at"] == first["renew_at"]


def since_of(kwargs: dict[str, Any]) -> int:
    return int(kwargs["durable"]["since_ms"])


@pytest.mark.parametrize("began", [BEGAN, None])
def test_without_a_since_events_count_from_the_start_of_the_run_in_all_its_tries(
    log: Log, began: datetime | None
) -> None:
    """Producers get acknowledgements even while the first try cannot register."""
    given, operator = context(began), task()
    expected = began or given["dag_run"].run_after
    tries = [since_of(deferral(operator.execute, given)[0]) for _ in range(2)]
    assert tries == [int(expected.timestamp() * 1000)] * 2


def test_a_run_that_is_not_registered_at_renew_at_continues_with_its_since(
    supervisor: Any, log: Log, capsys: pytest.CaptureFixture[str]
) -> None:
    """For example without the right to write registrations. The next run would have another `since`."""
    given, operator = context(), task()
    first, kept = deferral(operator.execute, given)
    again, kept = deferral(operator.resume, given, event=fired([], registered=False), **kept)
    assert again["durable"] == first["durable"]
    assert datetime.fromisoformat(again["renew_at"]) > datetime.fromisoformat(first["renew_at"])
    output = capsys.readouterr().out
    assert f"not registered yet. This run continues until it is. Events since {BEGAN.isoformat()}" in output
    assert since_of(deferral(operator.execute, given)[0]) == BEGAN_MS  # for a retry
    assert operator.resume(given, event=fired([]), **kept) == 0


def test_a_run_that_is_not_registered_continues_after_earlier_firings_too(supervisor: Any, log: Log) -> None:
    """Firings of an earlier condition. Held firings are tried again, as in the next run."""
    log.fire(firing("bad", "soon"), firing("good"))
    given, operator = context(), task(logical_date="{{ firing.key }}")
    _, kept = deferral(operator.execute, given)
    kwargs, kept = deferral(operator.resume, given, event=fired(log.open(), registered=False), **kept)
    assert (log.acknowledged, kwargs["held"], since_of(kwargs)) == (["good"], [[0, 0]], BEGAN_MS)
    kept["renew_at"] = datetime.now(UTC).isoformat()
    kwargs, kept = deferral(operator.resume, given, event=fired(log.open(), registered=False), **kept)
    assert (kwargs["held"], kept["held"], kept["created"], since_of(kwargs)) == ([], [], 1, BEGAN_MS)


def test_a_run_with_a_given_since_ends_at_renew_at_registered_or_not(log: Log) -> None:
    operator = task(since=BEGAN)
    _, kept = deferral(operator.execute, context())
    assert operator.resume(context(), event=fired([], registered=False), **kept) == 0


def test_after_a_cancel_no_earlier_event_counts_in_the_next_round_or_try(supervisor: Any, log: Log) -> None:
    """Otherwise they would fire again with other ids."""
    given, operator = context(), task()
    before = int(datetime.now(UTC).timestamp() * 1000)
    _, kept = deferral(operator.execute, given)
    kwargs, _ = deferral(operator.resume, given, event=fired([[0, 99]]), **kept)
    assert since_of(kwargs) >= before
    assert since_of(deferral(operator.execute, given)[0]) >= before


def test_an_error_of_the_state_store_fails_no_round_and_loses_no_event(supervisor: Any, log: Log) -> None:
    log.fire(firing("a"))
    given, operator = {**context(), "task_state_store": None}, task()
    kwargs, kept = deferral(operator.execute, given)
    assert since_of(kwargs) == BEGAN_MS
    deferral(operator.resume, given, event=fired(log.open()), **kept)
    assert log.acknowledged == ["a"]


# -- a round


def test_each_firing_gets_a_run_in_order_and_is_acknowledged(supervisor: Any, log: Log) -> None:
    log.fire(*(firing(f"f{n}") for n in range(120)))
    kwargs, kept = resumed(task(max_runs_in_flight=500), log.open())
    assert list(supervisor.runs) == [f"dispatch__f{n}" for n in range(120)]
    assert log.acknowledged == [f"f{n}" for n in range(120)]
    assert (kwargs["held"], kwargs["gone"], kept["created"]) == ([], [], 120)
    run = supervisor.runs["dispatch__f7"]
    assert (run.dag_id, run.logical_date, run.note) == ("t", None, None)
    assert run.conf == {
        "version": 1, "firing_id": "f7", "outcome": "met", "key": "2026-11-20", "fired_at": "at",
        "events": {"x": [{"specversion": "1.0", "id": "f7", "data": {"market": "lse"}}]},
        "recorded": {"x": ["1970-01-01T00:00:00.000+00:00"]}, "missing": [],
    }  # fmt: skip


def test_firings_are_counted_when_they_are_acknowledged(
    supervisor: Any, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[Any] = []
    monkeypatch.setattr(stats, "incr", lambda name, count, *, tags: counted.append((name, count, tags)))
    log.fire(*(firing(f"f{n}") for n in range(60)))
    log.unreachable = True
    operator = task()
    kept = deferral(operator.execute, context())[1]
    with pytest.raises(UnreachableError):
        operator.resume(context(), event=fired(log.open()), **kept)
    assert counted == []
    log.unreachable = False
    resumed(operator, log.open(), kept)
    tags = {"bus": "interlock", "deployment": "airflow"}
    assert counted == [("interlock.acknowledged", n, tags) for n in (50, 10)]
    assert len(log.acknowledged) == 60


@pytest.mark.parametrize(
    "conf",
    [
        {f"k{n}": "x" * 1000 for n in range(100)},
        {"list": ["x" * 1000] * 60, "key": "{{ firing.key }}", "more": "x" * 6000},
        {"nested": {"rows": ["x" * 40_000, "{{ firing.key }}"]}, "more": "x" * 40_000},
    ],
    ids=["members", "beside a template", "nested"],
)
def test_a_conf_that_is_too_large_as_a_whole_is_an_import_error(conf: dict[str, Any]) -> None:
    """It parsed, and then each firing was held."""
    with pytest.raises(
        ValueError, match=r"'d': conf is .* bytes without its templates.*at most 65536 in all"
    ):
        task(conf=conf)


def test_a_conf_that_may_fit_is_no_error(supervisor: Any, log: Log) -> None:
    log.fire(firing("a"))
    conf = {"x": "x" * 60_000, "y": "{{ firing.key or '" + "y" * 9000 + "' }}"}
    resumed(task(conf=conf), log.open())
    assert supervisor.runs["dispatch__a"].conf == {"x": "x" * 60_000, "y": "2026-11-20"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tags": 5}, "tags is 5; give a list of texts"),
        ({"tags": "daily"}, "tags is 'daily'; give a list of texts"),
        ({"tags": [5]}, "tags is .*; give a list of texts"),
        ({"default_args": 5}, "default_args is 5; give a dict"),
        ({"default_args": ["a"]}, "default_args is .*; give a dict"),
        ({"default_args": {"pool_slots": 0}}, "Airflow refuses an argument in default_args"),
        ({"nosuch": 5}, "Airflow refuses the arguments of the DAG, nosuch: .*nosuch"),
        ({"start_date": 5}, "Airflow refuses the arguments of the DAG, start_date"),
    ],
)
def test_an_argument_of_the_dag_that_airflow_refuses_is_in_our_error(
    given: dict[str, Any], message: str
) -> None:
    """They ended in Airflow's TypeErrors, which name no dispatcher."""
    with pytest.raises(ValueError, match=f"dispatch_dag.*: {message}"):
        task(**given)
    task(tags=["a"], default_args={"owner": "ada"})


def test_a_failing_template_is_named_with_the_existing_labels() -> None:
    operator = task(conf={"day": "{{ firing.key }}", "market": "{{ firing.events.x[0].data.markt }}"})
    with pytest.raises(RunRefused, match=r"template of conf\['market'\] failed: UndefinedError.*labels: \w"):
        operator._run(firing("1", "2026-11-20"), {})


def test_a_logical_date_that_renders_to_nothing_is_none() -> None:
    operator = task(logical_date="{{ firing.key if firing.key[:2] == '20' else '' }}")
    dates = [operator._run(firing("1", key), {})["logical_date"] for key in ("2026-11-20", "not a date")]
    assert dates == [datetime(2026, 11, 20, tzinfo=UTC), None]


@pytest.mark.parametrize(("key", "day"), [("2026-11", 1), ("2026-W47", 16), ("2026-11-20", 20)])
def test_the_logical_date_of_a_month_or_week_is_its_first_day(key: str, day: int) -> None:
    """The firings of a condition by month() were held."""
    operator = task(logical_date="{{ firing.key }}")
    assert operator._run(firing("1", key), {})["logical_date"] == datetime(2026, 11, day, tzinfo=UTC)


def test_conf_note_and_logical_date_come_from_the_event(supervisor: Any, log: Log) -> None:
    log.fire(firing("a"), firing("b", "20261121"), firing("c", "2026-11-20T06:00:00+02:00"))
    operator = task(
        conf={"market": "{{ firing.events.x[0].data.market }}", "n": 1},
        logical_date="{{ firing.key }}",
        note="{{ firing.outcome }} {{ 'x' * 2000 }}",
    )
    resumed(operator, log.open())
    runs = list(supervisor.runs.values())
    assert [run.conf for run in runs] == [{"market": "lse", "n": 1}] * 3
    dates = [datetime(2026, 11, 20), datetime(2026, 11, 21), datetime(2026, 11, 20, 4)]  # noqa: DTZ001
    assert [run.logical_date for run in runs] == [date.replace(tzinfo=UTC) for date in dates]
    assert runs[0].note is not None
    assert runs[0].note.startswith("met xx")
    assert len(runs[0].note) == 1000


def test_a_template_has_the_record_time_of_an_event_without_time(supervisor: Any, log: Log) -> None:
    origins = {"x": [{"topic": "t", "partition": 0, "offset": 5, "timestamp_ms": 1795154400123}]}
    log.fire(firing("a", origins=origins))
    resumed(task(conf={"at": "{{ firing.recorded.x[0] }}"}), log.open())
    assert supervisor.runs["dispatch__a"].conf == {"at": "2026-11-20T06:00:00.123+00:00"}


def test_event_data_is_not_rendered(supervisor: Any, log: Log) -> None:
    log.fire(firing("a", "{{ 1 + 1 }}"))
    resumed(task(conf={"key": "{{ firing.key }}"}), log.open())
    assert supervisor.runs["dispatch__a"].conf == {"key": "{{ 1 + 1 }}"}


def test_firings_of_one_date_get_distinct_dates_in_their_order(supervisor: Any, log: Log) -> None:
    log.fire(*(firing(f"f{n}") for n in range(3)))
    resumed(task(logical_date="{{ firing.key }}"), log.open())
    assert [run.logical_date.microsecond for run in supervisor.runs.values()] == [0, 1, 2]


def test_no_more_runs_are_created_than_may_be_in_flight(supervisor: Any, log: Log) -> None:
    log.fire(*(firing(f"f{n}") for n in range(5)))
    operator = task(max_runs_in_flight=2)
    _, kept = resumed(operator, log.open())
    assert log.acknowledged == ["f0", "f1"]
    resumed(operator, log.open(), kept)
    assert log.acknowledged == ["f0", "f1"]  # for example if the target is paused
    supervisor.over.add("dispatch__f0")
    resumed(operator, log.open(), kept)
    assert log.acknowledged == ["f0", "f1", "f2"]


def test_a_failed_run_does_not_block_the_next_of_its_key(supervisor: Any, log: Log) -> None:
    operator = task(max_runs_in_flight=1)
    log.fire(firing("first"), firing("second"))
    resumed(operator, log.open())
    supervisor.over.add("dispatch__first")  # it has ended, so Airflow does not count it
    resumed(operator, log.open())
    assert list(supervisor.runs) == ["dispatch__first", "dispatch__second"]


@pytest.mark.parametrize("killed_after", range(8))
def test_a_worker_that_is_killed_anywhere_repeats_and_loses_no_run(
    supervisor: Any, log: Log, killed_after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ACKNOWLEDGE_EVERY", 3)
    log.fire(*(firing(f"f{n}") for n in range(7)))
    operator = task()
    supervisor.killed_after = killed_after
    log.unreachable = True  # a killed process does not acknowledge
    with pytest.raises((KeyboardInterrupt, UnreachableError)):
        resumed(operator, log.open())
    supervisor.killed_after, log.unreachable = None, False
    resumed(operator, log.open())
    assert list(supervisor.runs) == [f"dispatch__f{n}" for n in range(7)]
    assert log.acknowledged == [f"f{n}" for n in range(7)]


def test_an_unreachable_broker_fails_the_try_and_nothing_is_acknowledged_before_its_run(
    supervisor: Any, log: Log
) -> None:
    log.fire(firing("a"))
    log.unreachable = True
    with pytest.raises(UnreachableError):
        resumed(task(), log.open())
    assert log.acknowledged == []
    assert list(supervisor.runs) == ["dispatch__a"]


def test_a_target_that_refuses_runs_fails_the_try_and_created_runs_are_acknowledged(
    supervisor: Any, log: Log
) -> None:
    log.fire(firing("a"), firing("b"))
    supervisor.refusals = [None, supervisor.refusal(404, "not_found", "Dag 't' not found")]
    with pytest.raises(TargetRefuses, match="Dag 't' not found"):
        resumed(task(), log.open())
    assert log.acknowledged == ["a"]


def test_firings_that_do_not_exist_any_more_are_skipped_and_counted(supervisor: Any, log: Log) -> None:
    log.fire(firing("a"))
    kwargs, _ = resumed(task(), [[0, 0], [3, 17]])
    assert (kwargs["gone"], kwargs["held"]) == ([[3, 17]], [])
    assert log.acknowledged == ["a"]


# -- firings that cannot be mapped


@pytest.mark.parametrize(
    ("arguments", "bad"),
    [
        ({"logical_date": "{{ firing.key }}"}, firing("bad", "soon")),
        ({"logical_date": "{{ firing.key }}"}, firing("bad", None)),
        ({"logical_date": "{{ firing.key }}"}, firing("bad", "0001-01-01T00:00:00+05:00")),
        ({"logical_date": "{{ firing.key }}"}, firing("bad", "9999-12-31T23:00:00-05:00")),
        ({"conf": {"n": 1}, "note": "{{ firing.key }}"}, firing("bad", "a\0b")),
        ({"conf": {"n": 1}, "note": "{{ firing.key }}"}, firing("bad", "a\ud800b")),
        ({"conf": {"x": "{{ firing.events.x[0].data.market }}"}}, firing("bad", events={}, origins={})),
        ({"conf": {"x": "{{ firing.key * 90 }}"}}, firing("bad", "k" * 1000)),
        ({}, firing("bad", "a\0b")),
        ({}, firing("bad", "a\ud800b")),
    ],
)
def test_a_firing_that_cannot_be_mapped_is_held_and_the_others_continue(
    supervisor: Any, log: Log, arguments: dict[str, Any], bad: FiringRecord
) -> None:
    log.fire(bad, firing("good"))
    kwargs, kept = resumed(task(**arguments), log.open())
    assert list(supervisor.runs) == ["dispatch__good"]
    assert log.acknowledged == ["good"]
    assert kwargs["held"] == [[0, 0]]
    with pytest.raises(AirflowFailException, match="1 firings have no run yet"):
        task(**arguments).resume(context(), event=fired([]), **kept)


def test_a_refused_run_is_held_and_the_others_continue(supervisor: Any, log: Log) -> None:
    log.fire(firing("bad"), firing("good"))
    supervisor.refusals = [supervisor.refusal(400, "value_error", "before the start_date")]
    kwargs, _ = resumed(task(), log.open())
    assert list(supervisor.runs) == ["dispatch__good"]
    assert kwargs["held"] == [[0, 0]]


# -- firings with which Airflow fails


def test_a_firing_with_which_airflow_always_fails_is_held_with_its_key_and_the_others_continue(
    supervisor: Any, log: Log
) -> None:
    log.fire(firing("bad", "a"), firing("a2", "a"), firing("b", "b"), firing("c", "c"))
    supervisor.fails_with = {"dispatch__bad"}
    operator = task()
    kwargs, kept = resumed(operator, log.open())
    assert (sorted(log.acknowledged), kwargs["held"]) == (["b", "c"], [[0, 0], [0, 1]])
    log.fire(firing("a3", "a"), firing("d", "d"))  # a later round of the same run
    kwargs, kept = resumed(operator, [[0, 4], [0, 5]], kept)
    assert (sorted(log.acknowledged), kwargs["held"]) == (["b", "c", "d"], [[0, 0], [0, 1], [0, 4]])
    with pytest.raises(AirflowFailException, match="3 firings have no run yet"):
        operator.resume(context(), event=fired([]), **kept)
    supervisor.fails_with = set()
    resumed(operator, log.open())  # the next run
    assert log.acknowledged[-3:] == ["bad", "a2", "a3"]


def test_a_held_firing_without_a_key_blocks_no_other(supervisor: Any, log: Log) -> None:
    log.fire(firing("bad", None), firing("good", None), firing("better", None))
    supervisor.fails_with = {"dispatch__bad"}
    kwargs, _ = resumed(task(event("x")), log.open())
    assert (sorted(log.acknowledged), kwargs["held"]) == (["better", "good"], [[0, 0]])


def test_if_airflow_fails_with_all_probes_the_target_is_the_cause(supervisor: Any, log: Log) -> None:
    log.fire(*(firing(f"f{n}", f"k{n}") for n in range(100)))
    supervisor.fails_with = {f"dispatch__f{n}" for n in range(100)}
    with pytest.raises(TargetFails):
        resumed(task(), log.open())
    assert (supervisor.queries, log.acknowledged) == (5, [])  # one of them counts the runs
    supervisor.fails_with = set()
    resumed(task(), log.open())
    assert log.acknowledged == [f"f{n}" for n in range(100)]


@pytest.mark.parametrize("others", [[], ["a2"]])
def test_a_firing_without_another_key_to_compare_with_is_tried_again(
    supervisor: Any, log: Log, others: list[str]
) -> None:
    log.fire(*(firing(name, "a") for name in ("bad", *others)))
    supervisor.fails_with = {"dispatch__bad"}
    with pytest.raises(TargetFails):
        resumed(task(), log.open())
    log.fire(firing("good", "b"))
    resumed(task(), log.open())
    assert log.acknowledged == ["good"]


def test_bad_firings_at_the_front_do_not_block_the_others_for_ever(supervisor: Any, log: Log) -> None:
    log.fire(
        *(firing(f"bad{n}", f"bad{n}") for n in range(10)), *(firing(f"f{n}", f"k{n}") for n in range(10))
    )
    supervisor.fails_with = {f"dispatch__bad{n}" for n in range(10)}
    for _ in range(1000):  # a try fails if all its probes are bad
        try:
            kwargs, _ = resumed(task(), log.open())
        except TargetFails:
            continue
        if len(kwargs["held"]) == 10:
            break
    assert sorted(log.acknowledged) == [f"f{n}" for n in range(10)]


def test_a_firing_that_succeeds_the_second_time_is_not_held(supervisor: Any, log: Log) -> None:
    log.fire(firing("a", "a"), firing("a2", "a"), firing("b", "b"))
    supervisor.refusals = [supervisor.refusal(500, "Internal Server Error")]
    kwargs, _ = resumed(task(), log.open())
    assert (log.acknowledged, kwargs["held"]) == (["b", "a", "a2"], [])


def test_an_existing_run_does_not_prove_that_airflow_creates_others(supervisor: Any, log: Log) -> None:
    log.fire(firing("b", "b"))
    resumed(task(), log.open())
    log.acknowledged.clear()
    log.fire(firing("bad", "a"))
    supervisor.fails_with = {"dispatch__bad"}
    with pytest.raises(TargetFails):
        resumed(task(), [[0, 1], [0, 0]])
    assert log.acknowledged == ["b"]


def test_a_firing_that_cannot_be_mapped_proves_nothing_either_and_is_held(supervisor: Any, log: Log) -> None:
    log.fire(firing("bad", "2026-11-20"), firing("soon", "soon"), firing("good", "2026-11-21"))
    supervisor.fails_with = {"dispatch__bad"}
    kwargs, _ = resumed(task(logical_date="{{ firing.key }}"), log.open())
    assert log.acknowledged == ["good"]
    assert sorted(kwargs["held"]) == [[0, 0], [0, 1]]


def test_probes_do_not_exceed_the_targets_room(supervisor: Any, log: Log) -> None:
    log.fire(firing("bad", "a"), firing("b", "b"), firing("c", "c"))
    supervisor.fails_with = {"dispatch__bad"}
    kwargs, kept = resumed(task(max_runs_in_flight=1), log.open())
    assert (len(supervisor.runs), kwargs["held"]) == (1, [])
    supervisor.over |= set(supervisor.runs)
    resumed(task(max_runs_in_flight=1), log.open(), kept)
    assert sorted(log.acknowledged) == ["b", "c"]


def test_a_correction_in_the_dag_file_takes_effect_in_the_next_run(supervisor: Any, log: Log) -> None:
    log.fire(firing("a", "soon"))
    resumed(task(logical_date="{{ firing.key }}"), log.open())
    resumed(task(), log.open())
    assert log.acknowledged == ["a"]


def test_too_many_that_cannot_be_mapped_are_tried_again_later(
    supervisor: Any, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_HELD", 2)
    log.fire(*(firing(f"f{n}", "soon") for n in range(3)))
    operator = task(logical_date="{{ firing.key }}")
    _, kept = deferral(operator.execute, context())
    with pytest.raises(AirflowException, match="3 firings have no run yet") as raised:
        operator.resume(context(), event=fired(log.open()), **kept)
    assert not isinstance(raised.value, AirflowFailException)  # so that it is retried


def test_a_run_of_the_dispatcher_ends_at_renew_at(supervisor: Any, log: Log) -> None:
    operator = task()
    log.fire(firing("a"))
    _, kept = resumed(operator, log.open())
    assert operator.resume(context(), event=fired([]), **kept) == 1


def test_a_run_of_the_dispatcher_ends_at_renew_at_even_if_firings_never_end(
    supervisor: Any, log: Log
) -> None:
    operator = task()
    log.fire(firing("a"))
    _, kept = deferral(operator.execute, context())
    kept["renew_at"] = datetime.now(UTC).isoformat()
    assert operator.resume(context(), event=fired(log.open()), **kept) == 1
    assert log.acknowledged == ["a"]


def test_dag_test_which_passes_only_the_event_makes_one_round(supervisor: Any, log: Log) -> None:
    log.fire(firing("a"), firing("b"))
    assert task().resume(context(), event=fired(log.open())) == 2
    assert log.acknowledged == ["a", "b"]
    assert task().resume(context(), event=fired([])) == 0


def test_dag_test_fails_if_a_firing_is_held(supervisor: Any, log: Log) -> None:
    log.fire(firing("bad", "soon"), firing("good"))
    operator = task(logical_date="{{ firing.key }}")
    with pytest.raises(AirflowFailException, match="1 firings have no run yet"):
        operator.resume(context(), event=fired(log.open()))
    assert log.acknowledged == ["good"]


def test_conditions_with_and_without_keys_are_dispatched(log: Log) -> None:
    for condition in (event("x"), at_least(2, event("x"), event("y"), event("z")), DAILY.expires(after="1h")):
        kwargs, _ = deferral(task(condition).execute, context())
        assert kwargs["durable"]["condition"] == condition.to_json()
