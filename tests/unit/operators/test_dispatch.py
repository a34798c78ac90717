"""`dispatch_dag`: invalid arguments, the DAG, and from when on events count."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization, LazyDeserializedDAG
from airflow.utils.file import might_contain_dag
from interlock import absent, at_least, event
from interlock.conditions import ConditionError
from interlock.operators import dispatch as module
from interlock.operators import dispatch_dag
from interlock.operators.target import RunRefused

from tests.unit.operators.dispatching import (
    BEGAN,
    BEGAN_MS,
    DAILY,
    Log,
    action_topic,
    context,
    deferral,
    fired,
    firing,
    resumed,
    since_of,
    task,
)

EXAMPLES = Path(__file__).parents[3] / "dags_examples"


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    return action_topic(monkeypatch)


# -- invalid arguments


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"condition": lambda event: True}, "build it with interlock\\.event"),
        ({"condition": DAILY & event("y")}, "^dispatch_dag 'd': event.* reads no key, but"),
        ({"condition": absent(DAILY, "1h", armed_by="subscription")}, "armed_by"),
        ({"trigger_dag_id": "d"}, "names the dispatcher itself"),
        ({"since": datetime(2026, 1, 1)}, "with a time zone"),  # noqa: DTZ001
        ({"max_runs_in_flight": 0}, "1 or more"),
        ({"max_keys": 0}, "1 or more"),
        ({"renew_after": timedelta(seconds=5)}, "a minute or more"),
        ({"schedule": "@daily"}, "cannot be set"),
        ({"catchup": True}, "cannot be set"),
        ({"max_consecutive_failed_dag_runs": 3}, "cannot be set"),
        ({"dagrun_timeout": timedelta(hours=1)}, "cannot be set"),  # it lost `since` while Kafka was down
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


@pytest.mark.parametrize("native", [False, True])
def test_a_partition_key_of_a_firing_without_the_value_is_never_the_text_none(
    native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "passes_partition_keys", lambda: True)

    def key_of(template: str) -> str | None:
        dag = dispatch_dag(
            "d",
            condition=DAILY,
            trigger_dag_id="t",
            partition_key=template,
            render_template_as_native_obj=native,
        )
        operator: Any = dag.get_task("dispatch")
        found: str | None = operator._run(firing("a", None), {})["partition_key"]
        return found

    with pytest.raises(RunRefused, match="the template of partition_key gave 'None'"):
        key_of("{{ firing.key }}")
    assert key_of("{{ firing.key or '' }}") is None
    assert key_of("none") == "none"


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


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1])
def test_an_integer_in_conf_that_airflow_cannot_send_is_an_import_error(number: int) -> None:
    for value in (number, {"rows": [1, (number,)]}, {number: "a"}):
        with pytest.raises(ValueError, match=rf"conf\['order'\] is .*{number} has more than 64 bits"):
            task(conf={"day": "{{ firing.key }}", "order": value})
    task(conf={"order": [2**64 - 1, -(2**63)]})


def test_names_in_conf_that_json_writes_twice_are_an_import_error() -> None:
    with pytest.raises(ValueError, match=r"conf.order.rows\[0\] has two names that JSON writes as the same"):
        task(conf={"order": {"rows": [{1: "a", "1": "b"}]}})


@pytest.mark.parametrize("argument", ["note", "logical_date"])
@pytest.mark.parametrize("char", ["\0", "\ud800"])
def test_a_template_beside_a_character_that_no_database_holds_is_an_import_error(
    argument: str, char: str
) -> None:
    """It parsed, and then each firing was held."""
    with pytest.raises(ValueError, match=f"'d': {argument} is .*without NUL and lone surrogates"):
        task(**{argument: "{{ firing.key }}" + char})


@pytest.mark.parametrize("leaf", [1, "{{ firing.key }}"])
@pytest.mark.parametrize("levels", [101, 600, 900])
def test_a_conf_of_many_levels_is_an_import_error(levels: int, leaf: Any) -> None:
    """It parsed, and rendering it failed for each firing; or the error was a RecursionError."""
    listed, named = leaf, leaf
    for _ in range(levels):
        listed, named = [listed], {"a": named}
    for conf in ({"deep": listed}, {"deep": named}):
        with pytest.raises(ValueError, match=r"'d': conf\['deep'\] is .*at most 100 levels|JSON value"):
            task(conf=conf)
    task(conf={"deep": [[[{"a": leaf}]]]})


@pytest.mark.parametrize("number", [0, -1, True, "5"])
def test_a_dispatcher_that_may_run_no_task_is_an_import_error(number: Any) -> None:
    """It parsed, and its task stayed scheduled for ever."""
    with pytest.raises(ValueError, match=r"'d': max_active_tasks is .*; give a whole number, 1 or more"):
        task(max_active_tasks=number)


def test_a_dispatcher_without_a_start_date_of_its_own_has_one() -> None:
    """Airflow starts no run of a DAG with start_date=None."""
    made = task(start_date=None).dag
    assert made.start_date is not None
    assert made.start_date < datetime.now(UTC)


@pytest.mark.parametrize("own", [None, datetime(2026, 1, 1, tzinfo=UTC)])
@pytest.mark.parametrize("shared", [datetime(2999, 1, 4, tzinfo=UTC), "2999-01-04"])
def test_a_dispatcher_whose_default_args_have_a_later_start_date_has_its_task_in_each_run(
    shared: Any, own: datetime | None
) -> None:
    """The kind of apache/airflow#38513 and apache/airflow#45081: runs succeed at once, without a task.

    Airflow leaves a task out of runs before its start date.
    """
    made = task(default_args={"start_date": shared}, start_date=own)
    start = datetime(2999, 1, 4, tzinfo=UTC) if own is None else own
    assert (made.dag.start_date, made.start_date) == (start, start)


def test_limits_of_tasks_in_default_args_do_not_keep_a_dispatcher_from_running() -> None:
    """With 0 its task stayed scheduled for ever."""
    made = task(default_args={"max_active_tis_per_dag": 0, "max_active_tis_per_dagrun": 0})
    assert (made.max_active_tis_per_dag, made.max_active_tis_per_dagrun) == (None, None)


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


def test_conditions_with_and_without_keys_are_dispatched(log: Log) -> None:
    for condition in (event("x"), at_least(2, event("x"), event("y"), event("z")), DAILY.expires(after="1h")):
        kwargs, _ = deferral(task(condition).execute, context())
        assert kwargs["durable"]["condition"] == condition.to_json()
