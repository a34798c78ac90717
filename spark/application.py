"""What a completion event says about the Spark application and the Airflow task that submitted it."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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

    attempt: the cluster manager's attempt id, None where it has none (local, standalone, Spark Connect).
    session: id of the Spark Connect session, None for a classic one. Sessions of one Connect server share its
        application, so the session belongs to the identity of what ended.
    started_at: start of the application; of the session's use here under Spark Connect, which tells no more.
    """

    id: str
    name: str
    user: str
    attempt: str | None
    session: str | None
    started_at: datetime
    spark_version: str

    @property
    def identity(self) -> tuple[str, ...]:
        return (self.id, self.attempt or "", self.session or "")

    def to_data(self, ended_at: datetime) -> dict[str, object]:
        return {
            "id": self.id,
            "name": self.name,
            "user": self.user,
            "attempt": self.attempt,
            "started_at": self.started_at.isoformat(),
            "duration_ms": round((ended_at - self.started_at).total_seconds() * 1000),
            "spark_version": self.spark_version,
        }


def describe(spark: SparkSession, now: datetime) -> Application:
    """The application of a session, classic or Spark Connect. Asked while the session lives, as a stopped one
    answers nothing."""
    session = getattr(spark, "session_id", None) if _is_connect(spark) else None
    user, started_at = _user(spark), now
    if session is None:
        context = spark.sparkContext
        user = context.sparkUser()
        started_at = datetime.fromtimestamp(context.startTime / 1000, UTC)
    return Application(
        id=_setting(spark, "spark.app.id") or session or "unknown",
        name=_setting(spark, "spark.app.name") or "spark",
        user=user,
        attempt=_setting(spark, "spark.app.attempt.id"),
        session=session,
        started_at=started_at,
        spark_version=spark.version,
    )


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


def _is_connect(spark: SparkSession) -> bool:
    # By class: asking a Connect session for sparkContext raises, and only after a round trip.
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _setting(spark: SparkSession, name: str) -> str | None:
    return spark.conf.get(name, None)


def _user(spark: SparkSession) -> str:
    client = getattr(spark, "client", None) if _is_connect(spark) else None
    try:
        return str(getattr(client, "_user_id", None) or getpass.getuser())
    except (KeyError, OSError):  # no such user, as in many containers
        return "unknown"
