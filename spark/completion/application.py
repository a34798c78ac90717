"""What a completion event says about the Spark application and the Airflow task that submitted it."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_BETWEEN: Final = "\0"  # in no value: the settings came through a command line or an environment
# Airflow's own names; SparkSubmitOperator hands them down to a driver that runs beside it (client mode).
_AIRFLOW = {
    "dag_id": "AIRFLOW_CTX_DAG_ID",
    "run_id": "AIRFLOW_CTX_DAG_RUN_ID",
    "task_id": "AIRFLOW_CTX_TASK_ID",
    "try_number": "AIRFLOW_CTX_TRY_NUMBER",
    "map_index": "AIRFLOW_CTX_MAP_INDEX",
}


@dataclass(frozen=True)
class Application:
    """One attempt of a Spark application, as its session shows it.

    id: the cluster manager's; None where no driver was heard of. attempt: its attempt id, None where it has
        none (local, standalone, Spark Connect).
    session: id of the Spark Connect session, None for a classic one. Sessions of one Connect server share its
        application, so the session belongs to the identity of what ended.
    started_at: start of the application; of the session's use here under Spark Connect, which tells no more.
    unheard: what tells the attempt from others where there is no id.
    """

    id: str | None
    name: str
    user: str | None = None
    attempt: str | None = None
    session: str | None = None
    started_at: datetime | None = None
    spark_version: str | None = None
    unheard: str = ""

    @property
    def identity(self) -> tuple[str, ...]:
        if self.id is None:
            return ("", self.unheard)
        return (self.id, self.attempt or "", self.session or "")

    def to_data(self, ended_at: datetime) -> dict[str, object]:
        began = self.started_at
        return {
            "id": self.id,
            "name": self.name,
            "user": self.user,
            "attempt": self.attempt,
            "started_at": None if began is None else began.isoformat(),
            "duration_ms": None if began is None else round((ended_at - began).total_seconds() * 1000),
            "spark_version": self.spark_version,
        }


def describe(spark: SparkSession, now: datetime) -> Application:
    """The application of a session, classic or Spark Connect. Asked while the session lives, as a stopped one
    answers nothing."""
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
    )


def describe_context(context: SparkContext) -> Application:
    """The application of a classic context, asked while it lives."""
    return Application(
        id=context.applicationId,
        name=str(context.appName),
        user=context.sparkUser(),
        attempt=context.getConf().get("spark.app.attempt.id", None),
        started_at=datetime.fromtimestamp(context.startTime / 1000, UTC),
        spark_version=context.version,
    )


def session_of(spark: SparkSession) -> str:
    """What tells this session from others of the process; listeners are those of one session."""
    if is_connect(spark):
        return str(spark.session_id)  # type: ignore[attr-defined]  # a Connect session's
    return str(spark._jsparkSession.hashCode())  # the object's own: two of Python may share one of the JVM


def configuration_of(spark: SparkSession) -> dict[str, str]:
    """All settings of a session."""
    if is_connect(spark):
        return dict(spark.conf.getAll)
    # In one call: PySpark asks the JVM twice for each setting, which adds up to a tenth of a second.
    text = spark._jsparkSession.conf().getAll().mkString(_BETWEEN)
    return dict(_setting(line) for line in text.split(_BETWEEN) if line)


def _setting(line: str) -> tuple[str, str]:
    name, _, value = line.partition(" -> ")
    return name, value


def airflow_task(environment: Mapping[str, str]) -> dict[str, object]:
    """The Airflow task instance this process runs for; empty outside of Airflow."""
    found: dict[str, object] = {
        name: environment[variable] for name, variable in _AIRFLOW.items() if environment.get(variable)
    }
    for name in ("try_number", "map_index"):
        text = str(found.get(name, ""))
        if text.lstrip("-").isdigit():
            found[name] = int(text)
    return found


def is_connect(spark: object) -> bool:
    # By class: asking a Connect session for sparkContext raises, and only after a round trip.
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _user(spark: SparkSession) -> str:
    client = getattr(spark, "client", None)
    try:
        return str(getattr(client, "_user_id", None) or getpass.getuser())
    except (KeyError, OSError):  # no such user, as in many containers
        return "unknown"
