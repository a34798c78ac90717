"""Spark reads a bus over each kind of secured connection, and shows no secrets."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from interlock.engine.config import BusConfig
from interlock.engine.kafka.topics import create
from interlock.spark.pipeline import PipelineError, job, packages
from interlock.spark.pipeline.connector import java_properties
from interlock.spark.pipeline.source import FOLDER, JAVA_FILE, connected
from interlock.spark.settings import BUS, CLIENT_FILE, client_file_text

from tests.integration.spark.conftest import SUBMIT
from tests.kit.listeners import Listeners, listeners

CANARY = "canary-"  # prefix of every secret of this module
PASSWORD, PASSPHRASE = f'{CANARY}pass"word\\', f"{CANARY}passphrase"
SETTINGS = (BUS, CLIENT_FILE, JAVA_FILE, FOLDER)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listeners]:
    with listeners(tmp_path_factory.mktemp("site"), {}) as running:
        running.set_scram_secret("triggerer", PASSWORD)
        running.authority.issue("triggerer", passphrase=PASSPHRASE)
        yield running


@pytest.fixture
def settings(spark: Any) -> Iterator[Callable[[Mapping[str, str]], None]]:
    """Sets the session's `spark.interlock.*` settings."""

    def put(values: Mapping[str, str]) -> None:
        for name, value in values.items():
            spark.conf.set(name, value)

    yield put
    for name in SETTINGS:
        spark.conf.unset(name)


def of(site: Listeners, listener: str) -> dict[str, str]:
    more = {
        "MTLS": {
            "ssl_certificate_location": str(site.folder / "triggerer.pem"),
            "ssl_key_location": str(site.folder / "triggerer-key.pem"),
            "ssl_key_password": PASSPHRASE,
        },
        "SCRAM": {"sasl_username": "triggerer", "sasl_password": PASSWORD},
    }
    return site.client(listener, **more.get(listener, {}))


def bus_with_events(client: Mapping[str, str], name: str) -> None:
    create(BusConfig(name=name, client=dict(client)), partitions=2)
    producer = Producer(dict(client))
    for number in range(3):
        producer.produce(f"{name}-event", str(number).encode(), b"k", headers={"ce_id": str(number)})
    assert producer.flush(30) == 0


@pytest.mark.parametrize(
    "listener", ["TLS", *(pytest.param(each, marks=pytest.mark.long) for each in ("MTLS", "SCRAM"))]
)
def test_a_bus_is_read_through_the_listener_and_no_plan_or_environment_shows_a_secret(
    site: Listeners,
    spark: Any,
    settings: Callable[[Mapping[str, str]], None],
    listener: str,
    unique_name: Callable[[str], str],
    tmp_path: Path,
) -> None:
    name, client = unique_name("bus"), of(site, listener)
    bus_with_events(client, name)
    file = tmp_path / "client.properties"
    file.write_text(client_file_text(client))
    settings({BUS: name, CLIENT_FILE: str(file)})
    with connected(spark) as bus:
        assert bus.sources(spark) == (f"{name}-event",)
        assert bus.topic_ids(spark, [f"{name}-event", f"{name}-none"]).keys() == {f"{name}-event"}
        events = bus.batch(spark, [f"{name}-event"])
        assert sorted(bytes(row.value) for row in events.collect()) == [b"0", b"1", b"2"]
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            events.explain(extended=True)
            bus.stream(spark, [f"{name}-event"]).explain(extended=True)
        printed.write(str(spark.sparkContext.getConf().getAll()) + str(spark.conf.getAll) + repr(bus))
    assert f"{name}-event" in printed.getvalue()
    assert CANARY not in printed.getvalue()
    assert "BEGIN" not in printed.getvalue()


def test_a_file_of_java_properties_replaces_the_translation(
    site: Listeners,
    spark: Any,
    settings: Callable[[Mapping[str, str]], None],
    unique_name: Callable[[str], str],
    tmp_path: Path,
) -> None:
    name, client = unique_name("bus"), of(site, "SCRAM")
    bus_with_events(client, name)
    file = tmp_path / "java.properties"
    lines = java_properties(client)
    lines["sasl.jaas.config"] = lines["sasl.jaas.config"].replace("\\", "\\\\")
    certificates = lines["ssl.truststore.certificates"].replace("\n", "\\n")
    lines["ssl.truststore.certificates"] = certificates
    file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    settings({BUS: name, JAVA_FILE: str(file)})
    with connected(spark) as bus:
        assert bus.batch(spark, [f"{name}-event"]).count() == 3
        assert bus.topic_ids(spark, [f"{name}-event"])


def test_records_are_read_between_two_times(
    bootstrap_servers: str,
    spark: Any,
    settings: Callable[[Mapping[str, str]], None],
    unique_name: Callable[[str], str],
    tmp_path: Path,
) -> None:
    name = unique_name("bus")
    client = {"bootstrap.servers": bootstrap_servers}
    bus_with_events(client, name)
    file = tmp_path / "client.properties"
    file.write_text(client_file_text(client))
    settings({BUS: name, CLIENT_FILE: str(file)})
    with connected(spark) as bus:
        topic = [f"{name}-event"]
        found = bus.batch(spark, topic).selectExpr("unix_millis(timestamp) AS ms").collect()
        stamps = sorted(row.ms for row in found)
        assert bus.batch(spark, topic, since_ms=stamps[0]).count() == 3
        assert bus.batch(spark, topic, since_ms=stamps[-1] + 1).count() == 0
        assert bus.batch(spark, topic, until_ms=stamps[0]).count() == 0
        assert bus.batch(spark, topic, until_ms=stamps[-1] + 1).count() == 3


def test_a_missing_bus_is_an_error_that_says_what_to_do(
    bootstrap_servers: str, spark: Any, settings: Callable[[Mapping[str, str]], None], tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(client_file_text({"bootstrap.servers": bootstrap_servers}))
    settings({BUS: "nowhere", CLIENT_FILE: str(file)})
    with pytest.raises(PipelineError, match="bus 'nowhere': a topic does not exist"), connected(spark) as bus:
        bus.sources(spark)


def test_unresponsive_brokers_and_a_wrong_login_are_errors_that_say_so(
    site: Listeners, spark: Any, settings: Callable[[Mapping[str, str]], None], tmp_path: Path
) -> None:
    file = tmp_path / "java.properties"
    impatient = "default.api.timeout.ms=2000\nrequest.timeout.ms=1000\n"
    file.write_text(f"bootstrap.servers=127.0.0.1:9\n{impatient}")
    settings({BUS: "away", JAVA_FILE: str(file)})
    with pytest.raises(PipelineError, match="bus 'away': the brokers do not answer"), connected(spark) as bus:
        bus.sources(spark)
    client = {**of(site, "SCRAM"), "sasl.password": f"{CANARY}wrong"}
    other = tmp_path / "client.properties"
    other.write_text(client_file_text(client))
    spark.conf.unset(JAVA_FILE)
    settings({CLIENT_FILE: str(other)})
    with (
        pytest.raises(PipelineError, match="the brokers refuse the login") as caught,
        connected(spark) as bus,
    ):
        bus.sources(spark)
    assert CANARY not in str(caught.value)


@pytest.mark.long
def test_a_job_without_the_connector_says_which_package_to_add(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    conf = f"spark.interlock.bootstrap.servers={bootstrap_servers}"
    command = [str(SUBMIT), "--master", "local[1]", "--conf", conf, job("archive")]
    done = subprocess.run(
        [*command, "--archive", str(tmp_path / "archive")],
        cwd=tmp_path,  # Spark leaves files where it runs
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    # spark-submit prints the driver's stderr to its own stdout
    assert f"archive: Spark has no Kafka connector: add --packages {packages()}" in done.stdout
