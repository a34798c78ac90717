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


@pytest.mark.parametrize("application", ["local-1795201979099", "spark-application-1795201979099"])
def test_drivers_whose_application_has_the_time_as_its_id_have_different_event_ids(application: str) -> None:
    """Regression: of two drivers in local mode that began in one millisecond, one had no event."""
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


def test_an_application_that_the_cluster_manager_named_has_the_same_event_ids_everywhere() -> None:
    ids = [event_ids("application_1795201979099_0001", "show()") for _ in range(2)]
    assert ids[0] == ids[1]
