"""The Spark application, and the Airflow task that submitted it, as a completion event describes them."""

from __future__ import annotations

import getpass
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_SEPARATOR: Final = "\0"  # occurs in no value: settings come through a command line or an environment
# Airflow's own names; SparkSubmitOperator passes them to a driver on its own machine (client mode).
_AIRFLOW = {
    "dag_id": "AIRFLOW_CTX_DAG_ID",
    "run_id": "AIRFLOW_CTX_DAG_RUN_ID",
    "task_id": "AIRFLOW_CTX_TASK_ID",
    "try_number": "AIRFLOW_CTX_TRY_NUMBER",
    "map_index": "AIRFLOW_CTX_MAP_INDEX",
}


@dataclass(frozen=True)
class Application:
    """One attempt of a Spark application, as its session describes it.

    id: the cluster manager's; None if no driver reported.
    attempt: its attempt id; None where there is none (local, standalone, Spark Connect).
    session: id of the Spark Connect session, None for a classic one. Sessions of one Connect server share its
        application, so the session is part of the identity.
    started_at: start of the application; under Spark Connect, when this process began to use the session.
    fallback_id: identifies the attempt if `id` is None.
    process: identifies the driver's process; None if no driver reported. `id` is not enough: clusters name
        applications by the time of their start, and processes may share an application (notebooks of one
        cluster, clients of one Connect server).
    """

    id: str | None
    name: str
    user: str | None = None
    attempt: str | None = None
    session: str | None = None
    started_at: datetime | None = None
    spark_version: str | None = None
    fallback_id: str = ""
    process: str | None = None

    @property
    def identity(self) -> tuple[str, ...]:
        if self.id is None:
            return ("", self.fallback_id)
        process = () if self.process is None else (self.process,)
        return (self.id, self.attempt or "", self.session or "", *process)

    def to_data(self, ended_at: datetime) -> dict[str, object]:
        started = self.started_at
        return {
            "id": self.id,
            "name": self.name,
            "user": self.user,
            "attempt": self.attempt,
            "started_at": None if started is None else started.isoformat(),
            "duration_ms": None if started is None else milliseconds(started, ended_at),
            "spark_version": self.spark_version,
        }


def milliseconds(begin: datetime, end: datetime) -> int:
    """The time between, at least 0: the clock may be set back meanwhile."""
    return max(0, round((end - begin).total_seconds() * 1000))


def describe(spark: SparkSession, now: datetime) -> Application:
    """Returns the application of a session, classic or Spark Connect. A stopped session raises."""
    if not is_connect(spark):
        return describe_context(spark.sparkContext)
    session = str(spark.session_id)  # type: ignore[attr-defined]  # a Connect session's
    return Application(
        id=spark.conf.get("spark.app.id", None) or session,
        name=spark.conf.get("spark.app.name", None) or "spark",
        user=_user(spark),
        session=session,
        started_at=now,
        spark_version=spark.version,
        process=_process(os.getpid()),
    )


def describe_context(context: SparkContext) -> Application:
    """Returns the application of a classic context. A stopped context raises."""
    return Application(
        id=context.applicationId,
        name=str(context.appName),
        user=context.sparkUser(),
        attempt=context.getConf().get("spark.app.attempt.id", None),
        started_at=datetime.fromtimestamp(context.startTime / 1000, UTC),
        spark_version=context.version,
        process=_process(os.getpid()),
    )


@cache
def _process(_pid: int) -> str:
    """An id of this process: random, since in containers all drivers may have the same pid."""
    return uuid.uuid4().hex


def session_of(spark: SparkSession) -> str:
    """Identifies the session within this process. Listeners belong to one session."""
    if is_connect(spark):
        return str(spark.session_id)  # type: ignore[attr-defined]  # a Connect session's
    return str(spark._jsparkSession.hashCode())  # two Python sessions may share one JVM session


def configuration_of(spark: SparkSession) -> dict[str, str]:
    """All settings of a session."""
    if is_connect(spark):
        return dict(spark.conf.getAll)
    # One call: PySpark calls the JVM twice for each setting, some 100 ms in all.
    text = spark._jsparkSession.conf().getAll().mkString(_SEPARATOR)
    return dict(_setting(line) for line in text.split(_SEPARATOR) if line)


def _setting(line: str) -> tuple[str, str]:
    name, _, value = line.partition(" -> ")
    return name, value


def airflow_task(environment: Mapping[str, str]) -> dict[str, object]:
    """The Airflow task instance that runs this process; empty outside Airflow."""
    found: dict[str, object] = {
        name: environment[variable] for name, variable in _AIRFLOW.items() if environment.get(variable)
    }
    for name in ("try_number", "map_index"):
        text = str(found.get(name, ""))
        if text.lstrip("-").isdigit():
            found[name] = int(text)
    return found


def is_connect(spark: object) -> bool:
    # By class: `sparkContext` of a Connect session raises, and only after a round trip.
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _user(spark: SparkSession) -> str:
    client = getattr(spark, "client", None)
    try:
        return str(getattr(client, "_user_id", None) or getpass.getuser())
    except (KeyError, OSError):  # no such user, as in many containers
        return "unknown"
