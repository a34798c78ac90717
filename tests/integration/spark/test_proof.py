"""The end of a real Spark job on a bus that takes such events only with a proof, and a real engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from interlock import spark_application
from interlock.engine.admin.dead_letters import DeadLetters, Selection
from interlock.spark import __main__ as wrapper
from interlock.spark.settings import CLIENT_FILE, client_file_text

from tests.integration.engine.conftest import Bench, bench  # noqa: F401  # a fixture

from .conftest import Jobs
from .test_exit import submitted  # noqa: F401  # a fixture

pytestmark = pytest.mark.long
SECRET = {"interlock.proof.secret": "canary-of-the-proof" * 3}
FROM = {"interlock.proof.from": "2020-01-01T00:00:00Z"}
JOB = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.appName("app").getOrCreate()
assert spark.range(7).count() == 7
"""


@pytest.fixture
def bus(bench: Bench) -> str:  # noqa: F811
    """All topics of a bus, instead of the event topic alone."""
    return bench.config.name


@pytest.fixture
def alone(jobs: Jobs) -> Callable[[dict[str, str]], None]:
    """Runs the job by spark-submit, with a client file."""

    def run(properties: dict[str, str]) -> None:
        file = jobs.folder / "client.properties"
        file.write_text(client_file_text({"bootstrap.servers": jobs.servers, **properties}))
        jobs.settings[CLIENT_FILE] = str(file)
        process = jobs.submit(str(Path(wrapper.__file__)), str(jobs.write(JOB)))
        output, _ = process.communicate(timeout=180)
        assert process.returncode == 0, output[-3000:]
        assert "canary" not in output

    return run


@pytest.fixture
def in_a_task(jobs: Jobs, submitted: Callable[..., Exception | None]) -> Callable[[dict[str, str]], None]:  # noqa: F811
    """Runs the job by SparkSubmitEventOperator, which emits the event itself."""

    def run(properties: dict[str, str]) -> None:
        jobs.client = properties
        assert submitted(str(jobs.write(JOB))) is None

    return run


@pytest.mark.parametrize("way", ["alone", "in_a_task"])
def test_only_the_end_of_a_job_with_the_secret_counts(
    way: str,
    bench: Bench,  # noqa: F811
    jobs: Jobs,
    request: pytest.FixtureRequest,
    eventually: Any,
) -> None:
    run, plain = request.getfixturevalue(way), bench.config
    bench.subscribe("each", spark_application("app", by="data.application.id"))
    run({})
    run(SECRET)
    forged, proven = (record.json()["application"]["id"] for record in jobs.events())

    bench.config = replace(plain, client={**plain.client, **SECRET, **FROM})
    with bench.engine(), closing(DeadLetters(plain)) as dead_letters:
        [firing] = bench.eventually_fired("each", 1)
        [dead_letter] = eventually("a dead letter", lambda: dead_letters.find(Selection()))
    assert firing["firing"]["key"] == proven != forged
    assert "only with a proof of its emitters" in dead_letter.reason
    records = [record for kind in ("event", "action", "dead-letter") for record in bench.records(kind)]
    assert not [each for each in records if b"canary" in b"".join(_parts(each))]


def _parts(record: Any) -> Iterator[bytes]:
    yield record.value or b""
    yield from (value or b"" for _, value in record.headers)
