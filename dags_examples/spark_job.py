"""How the example DAGs submit a PySpark job: with the brokers for its completion event."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

JOBS = Path(__file__).parent / "jobs"
# The Airflow variable with the folder that jobs read and write.
DATA = "{{ var.value.interlock_examples_data }}"
BROKERS = "{{ conn.kafka_default.extra_dejson['bootstrap.servers'] }}"


def spark_job(job: str, arguments: list[str], **operator: Any) -> SparkSubmitOperator:
    """Submits `jobs/<job>.py` through the connection spark_default."""
    return SparkSubmitOperator(
        task_id=job,
        name=job,
        application=str(JOBS / f"{job}.py"),
        application_args=arguments,
        conf={
            # The brokers of the connection that the sensors use. Never put passwords here, since the command
            # line shows them; put them into a file, spark.interlock.client.config.file.
            "spark.interlock.bootstrap.servers": BROKERS,
        },
        # The job needs the packages of this environment; Spark's default is `python3`.
        env_vars={"PYSPARK_PYTHON": sys.executable},
        **operator,
    )
