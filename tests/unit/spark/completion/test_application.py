"""What identifies an application, and so the events of its blocks."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

EVENT_ID = """
    import os, sys
    from datetime import UTC, datetime
    from types import SimpleNamespace
    from interlock.spark.completion.application import describe_context
    from interlock.spark.completion.report import Report

    context = SimpleNamespace(
        applicationId=sys.argv[1], appName="daily orders", sparkUser=lambda: "ada", getConf=lambda: {},
        startTime=1795201979099, version="4.0.0",
    )
    def show():
        print(Report("orders", describe_context(context)).event(None, datetime.now(UTC)).id, flush=True)
    """


def event_ids(application: str, calls: str) -> list[str]:
    """The event ids that a driver of its own shows."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(EVENT_ID) + textwrap.dedent(calls), application],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    "application",
    [
        "local-1795201979099",
        "spark-application-1795201979099",
        "app-20261120060000-0000",
        "application_1795201979099_0001",
    ],
)
def test_each_driver_process_has_event_ids_of_its_own_whatever_the_application_is_called(
    application: str,
) -> None:
    """Of two ends with one id, the second would count as a repeat of the first, and no wait would see it.

    mspnp/spark-monitoring#218: clusters that start in one second give their applications one id. Notebooks
    and jobs of one cluster share its application too.
    """
    fork = """
        show()
        show()
        if not os.fork():
            show()
            os._exit(0)
        os.wait()
        """
    first, again, forked = event_ids(application, fork)
    [other] = event_ids(application, "show()")
    assert first == again
    assert len({first, forked, other}) == 3


def test_two_processes_of_one_spark_connect_session_have_event_ids_of_their_own() -> None:
    """A connection string may name the session, so that runs of different days share it."""
    connect = """
        from interlock.spark.completion.application import describe
        Session = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})
        spark = Session()
        spark.session_id, spark.version, spark.conf = "7c1e", "4.0.0", {}
        print(Report("orders", describe(spark, datetime.now(UTC))).event(None, datetime.now(UTC)).id)
        """
    [first] = event_ids("7c1e", connect)
    [other] = event_ids("7c1e", connect)
    assert first != other
