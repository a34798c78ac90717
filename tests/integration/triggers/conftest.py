"""One real Airflow for the tests of this folder, and one broker that its waits reach."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from interlock.engine.config import BusConfig
from interlock.engine.kafka.admin import Admin
from interlock.engine.kafka.topics import create
from interlock.plugin.broker import LocalBroker

from local.airflow import MIGRATED, LocalAirflow, free_port

HERE = Path(__file__).parent
DAGS = {
    "waits.py": """
        from __future__ import annotations

        from airflow.sdk import DAG
        from interlock import event
        from interlock.operators import EmitEventOperator, EventSensor

        pair = event("first.half", by="data.day") & event("second.half", by="data.day")

        with DAG("pair", schedule=None):
            EventSensor(task_id="wait", condition=pair, key="{{ ds }}")

        with DAG("no_topics", schedule=None):
            EventSensor(task_id="wait", condition=event("anything"), bus="elsewhere")

        with DAG("no_broker", schedule=None):
            EventSensor(task_id="wait", condition=event("anything"), kafka_conn_id="kafka_down")

        with DAG("short", schedule=None):
            EventSensor(task_id="wait", condition=event("never.sent"), timeout=3)

        with DAG("emits", schedule=None):
            EmitEventOperator(task_id="good", type="emitted", data={"run": "{{ run_id }}"})
            EmitEventOperator(task_id="bad", type="emitted", subject="Not-A-Name{{ '%c' % 7 }}")
            EmitEventOperator(task_id="down", type="emitted", kafka_conn_id="kafka_down", delivery_timeout=2)
        """,
    "sensors.py": """
        from __future__ import annotations

        from interlock.operators import EventSensor

        class Once(EventSensor):
            # it fails when it is resumed for the first time
            def execute_complete(self, context, event):
                found = super().execute_complete(context, event)
                store = context["task_state_store"]
                before = store.get("found")
                if before is None:
                    store.set("found", found)
                    raise ValueError("a deliberate failure")
                return {"before": before, "after": found}
        """,
    "rows.py": """
        from __future__ import annotations

        import os
        import signal
        from datetime import UTC, datetime, timedelta

        from airflow.sdk import DAG, Asset
        from interlock import event
        from interlock.operators import EmitEventOperator, EventSensor
        from sensors import Once

        row = event("row", by="data.row")
        # a scheduler that lags behind fails tasks that are resumed soon (ADR 6)
        again = {"retries": 3, "retry_delay": timedelta(seconds=1)}

        for dag_id in ("cleared", "marked", "paused", "deleted", "tested", "beside"):
            with DAG(dag_id, schedule=None, default_args=again):
                EventSensor(task_id="wait", condition=row, key=dag_id)

        with DAG("failing", schedule=None, default_args=again):
            failed = event("row.failed", by="data.row")
            EventSensor(task_id="wait", condition=row, fail_on=failed, key="failing")

        with DAG("made_again", schedule=None, default_args=again):
            EventSensor(task_id="wait", condition=row.expires(after="2s"), key="made_again")

        with DAG("emitting", schedule=None, default_args=again):
            emit = EmitEventOperator(task_id="emit", type="row", data={"row": "{{ run_id }}"})
            emit >> EventSensor(task_id="wait", condition=row, key="{{ run_id }}")

        with DAG("execution_timeout", schedule=None, default_args=again):
            EventSensor(
                task_id="wait", condition=row, key="execution_timeout", execution_timeout=timedelta(seconds=8)
            )

        class Timed(EventSensor):
            # deferred with a time of Airflow's own, as no wait is; a shorter one may end before a scheduler
            # that lags behind has noted the deferral, and then the task fails for another reason (ADR 6)
            def defer(self, **arguments):
                super().defer(timeout=timedelta(seconds=8), **arguments)

        with DAG("timed_by_airflow", schedule=None):
            Timed(task_id="wait", condition=row, key="timed_by_airflow")

        with DAG("retried", schedule=None, default_args=again):
            Once(task_id="wait", condition=row, key="retried")

        class Killed(EventSensor):
            # in its first try before it defers, in its second when it is resumed
            def execute(self, context):
                self._die_once(context, "first")
                super().execute(context)

            def execute_complete(self, context, event):
                self._die_once(context, "resumed")
                return super().execute_complete(context, event)

            def _die_once(self, context, moment):
                store = context["task_state_store"]
                if store.get(moment) is None:
                    store.set(moment, True)
                    os.kill(os.getpid(), signal.SIGKILL)

        with DAG("killed", schedule=None, default_args=again):
            Killed(task_id="wait", condition=row, key="killed")

        # an end: else Airflow would start a run of today
        begin, end = (datetime(2024, 5, day, tzinfo=UTC) for day in (17, 18))

        with DAG("backfilled", schedule="@daily", start_date=begin, end_date=end, default_args=again):
            EventSensor(task_id="wait", condition=row, key="{{ ds }}")

        with DAG("updated", schedule=[Asset("updated_asset")], default_args=again):
            EventSensor(task_id="wait", condition=row, key="updated")
            EventSensor(task_id="partition", condition=row, key="{{ dag_run.partition_key }}", retries=0)

        class Elsewhere(EventSensor):
            # each try has a process of its own, and this one is in another deployment
            def execute(self, context):
                os.environ["AIRFLOW__INTERLOCK__DEPLOYMENT"] = "elsewhere"
                super().execute(context)

        with DAG("shared", schedule=None, default_args=again):
            EventSensor(task_id="wait", condition=row, key="shared")
            Elsewhere(task_id="elsewhere", condition=row, key="shared")

        with DAG("mapped", schedule=None, default_args=again):
            EventSensor.partial(task_id="wait", condition=row).expand(key=[f"mapped-{n}" for n in range(8)])
        """,
    "edited.py": """
        from __future__ import annotations

        from datetime import timedelta

        from airflow.sdk import DAG
        from interlock import event
        from interlock.operators import EventSensor
        from sensors import Once

        EDITION = "first"
        met, failed = (event(f"row.{kind}.{EDITION}", by="data.row") for kind in ("met", "failed"))

        with DAG("edited", schedule=None, default_args={"retries": 3, "retry_delay": timedelta(seconds=1)}):
            EventSensor(task_id="wait", condition=met, fail_on=failed, key=f"wait-{EDITION}")
            EventSensor(task_id="fails", condition=met, fail_on=failed, key=f"fails-{EDITION}")
            Once(task_id="again", condition=met, fail_on=failed, key=f"again-{EDITION}")
        """,
    "edited_end.py": """
        from __future__ import annotations

        from datetime import timedelta

        from airflow.sdk import DAG
        from interlock import event
        from interlock.operators import EventSensor

        row, failed, never = (event(kind, by="data.row") for kind in ("row", "row.failed", "never.sent"))

        again = {"retries": 3, "retry_delay": timedelta(seconds=1)}

        with DAG("edited_end", schedule=None, default_args=again):
            half = (row & never).expires(after="1s", armed_by="event")
            EventSensor(task_id="wait", condition=half, key="edited_end", on_expired="fail")
            EventSensor(task_id="soft", condition=never, fail_on=failed, key="edited_end", soft_fail=False)
        """,
    **dict.fromkeys(
        ("edited_asset.py", "moved_asset.py"),
        """
        from __future__ import annotations

        from pathlib import Path

        from airflow.sdk import DAG, Asset, AssetWatcher, task
        from interlock import event
        from interlock.triggers.asset import ConditionTrigger

        NAME = Path(__file__).stem
        EDITION, ASSET = "first", NAME
        trigger = ConditionTrigger(NAME, event(f"{NAME}.{EDITION}", by="subject"))
        asset = Asset(ASSET, watchers=[AssetWatcher(name="interlock", trigger=trigger)])

        with DAG(NAME, schedule=[asset]):

            @task
            def take() -> None:
                pass

            take()
        """,
    ),
    "queued.py": """
        from __future__ import annotations

        import os

        # For the tasks of this file alone: the triggerer takes what has no queue.
        os.environ["AIRFLOW__TRIGGERER__QUEUES_ENABLED"] = "True"

        from datetime import timedelta

        from airflow.sdk import DAG
        from interlock import event
        from interlock.operators import EventSensor, dispatch_dag

        with DAG("queued", schedule=None, default_args={"retries": 3, "retry_delay": timedelta(seconds=1)}):
            EventSensor(task_id="wait", condition=event("queued"), queue="apart")

        dispatch_dag(
            "dispatch_queued",
            condition=event("never.sent"),
            trigger_dag_id="queued",
            default_args={"queue": "apart"},
        )
        """,
    "broken_condition.py": """
        from __future__ import annotations

        from airflow.sdk import DAG
        from interlock.operators import EventSensor

        with DAG("broken_condition", schedule=None):
            EventSensor(task_id="wait", condition=lambda event: True)
        """,
    "broken_and.py": """
        from __future__ import annotations

        from airflow.sdk import DAG
        from interlock import event
        from interlock.operators import EventSensor

        with DAG("broken_and", schedule=None):
            EventSensor(task_id="wait", condition=event("a") and event("b"))
        """,
}


SITE = pytest.StashKey["Site"]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Any:
    """Stops the Airflow behind the last test of this folder: it would take half a core from all that follow.

    A fixture of scope "package" would not: without an __init__.py it lasts as long as the session.
    """
    torn_down = yield
    if (site := item.session.stash.get(SITE, None)) and (
        nextitem is None or HERE not in nextitem.path.parents
    ):
        site.airflow.stop()
    return torn_down


class Site:
    """The Airflow, its broker, and the port where a broker is missing at first."""

    def __init__(self, airflow: LocalAirflow, broker: LocalBroker, port_down: int) -> None:
        self.airflow, self.broker, self.port_down = airflow, broker, port_down
        self.api, self.plugins = airflow.api, airflow.home / "plugins"
        self.bus = BusConfig(client={"bootstrap.servers": broker.bootstrap_servers})

    def deferred(self, dag_id: str, **arguments: Any) -> str:
        """Start a run and return its id when its wait is deferred."""
        self.api.unpause(dag_id)
        run_id: str = self.api.trigger(dag_id, **arguments)
        self.api.wait_for_task(dag_id, run_id, "wait", "deferred", timeout_s=180)
        return run_id

    def members(self) -> frozenset[str]:
        """The engines that share the bus."""
        admin = Admin(self.bus)
        try:
            return admin.members()
        finally:
            admin.close()

    def log(self, dag_id: str, run_id: str, task_id: str = "wait") -> str:
        """The task's log as its author sees it, details of errors included, in one text."""
        return "\n".join(str(line) for line in self.api.log(dag_id, run_id, task_id))


@pytest.fixture(scope="session")
def site(
    request: pytest.FixtureRequest,
    broker: LocalBroker,
    tmp_path_factory: pytest.TempPathFactory,
    eventually: Any,
) -> Iterator[Site]:
    """Airflow with the DAGs above; the bus `interlock` is there, the bus `elsewhere` is not."""
    folder = tmp_path_factory.mktemp("airflow")
    dags = folder / "dags"
    dags.mkdir()
    for name, text in DAGS.items():
        (dags / name).write_text(textwrap.dedent(text))
    for path in (*(HERE / "dags").glob("*.py"), HERE.parents[2] / "dags_examples" / "settle_on_trades.py"):
        shutil.copy(path, dags)
    (folder / "home" / "plugins").mkdir(parents=True)  # before a process notes that it is missing
    port_down = free_port()

    def kafka(servers: str) -> dict[str, Any]:
        return {"conn_type": "kafka", "extra": {"bootstrap.servers": servers}}

    create(BusConfig(client={"bootstrap.servers": broker.bootstrap_servers}), partitions=4)
    with LocalAirflow(
        folder / "home",
        dags,
        migrated=MIGRATED,
        connections={
            "kafka_default": kafka(broker.bootstrap_servers),
            "kafka_down": kafka(f"127.0.0.1:{port_down}"),
        },
        settings={
            # a killed triggerer's waits move sooner than after Airflow's default of 30 s
            ("triggerer", "triggerer_health_check_threshold"): "6",
            # between the scheduler's looks for deferred tasks whose time is over; 15 s by default
            ("scheduler", "trigger_timeout_check_interval"): "1",
            # many DAGs at once on a busy machine
            ("interlock", "resume_margin"): "8",
        },
    ) as airflow:
        files = {path.name for path in dags.glob("*.py")} - {"sensors.py"}  # which has no DAG
        eventually("each DAG file was parsed", lambda: files <= airflow.api.files(), 180)
        made = Site(airflow, broker, port_down)
        request.session.stash[SITE] = made
        yield made
