"""A real node: starts, keeps its data, refuses what it must, and never outlives its parent."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from interlock.plugin.broker import BrokerError, LocalBroker
from interlock.plugin.broker.jars import KAFKA_VERSION, cache_directory


def _eventually(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline, f"not within 20 s: {what}"
        time.sleep(0.05)


def _end_offset(servers: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "unused"})
    try:
        return consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=15)[1]
    finally:
        consumer.close()


@pytest.mark.long
def test_a_stopped_or_killed_broker_comes_back_on_its_port_with_its_records(tmp_path: Path) -> None:
    with LocalBroker(tmp_path / "a folder ü") as broker:
        servers, first = broker.bootstrap_servers, broker.pid
        admin = AdminClient({"bootstrap.servers": servers})
        admin.create_topics([NewTopic("kept", 1, 1)])["kept"].result(15)
        producer = Producer({"bootstrap.servers": servers})
        producer.produce("kept", b"1")
        assert producer.flush(15) == 0
        broker.restart()
        assert broker.pid not in (None, first)
        assert broker.bootstrap_servers == servers
        assert _end_offset(servers, "kept") == 1
        broker.kill()
        assert broker.pid is None
        broker.start()
        assert _end_offset(servers, "kept") == 1
        pid = broker.pid
    assert not psutil.pid_exists(pid or 0)
    assert "Kafka Server started" in broker.log.read_text()


def test_the_jvm_gets_the_options_in_kafka_opts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KAFKA_OPTS", "-Done='a b' -XX:+NoSuchOption")
    with pytest.raises(BrokerError, match="Unrecognized VM option 'NoSuchOption'"):
        LocalBroker(tmp_path).start()


def test_an_occupied_port_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BrokerError, match=rf"cannot listen on \S+:{port}: .*in use.*another port"):
            LocalBroker(tmp_path, port=port).start()


def test_a_directory_in_use_by_another_broker_is_refused_with_the_brokers_reason(
    broker: LocalBroker,
) -> None:
    second = LocalBroker(broker.directory)
    with pytest.raises(BrokerError, match=r"in use by the broker"):
        second.start()
    assert second.pid is None
    assert AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=30).brokers


def test_a_directory_kafka_cannot_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BrokerError, match="does not accept a comma in its directory's name"):
        LocalBroker(tmp_path / "a, b").start()


def test_a_setting_kafka_refuses_is_an_error_with_kafkas_words(tmp_path: Path) -> None:
    broker = LocalBroker(tmp_path, properties={"num.io.threads": "none"})
    with pytest.raises(BrokerError, match=r"num\.io\.threads"):
        broker.start()
    assert broker.pid is None


def test_a_directory_of_a_later_kafka_is_an_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fake node prints what Kafka prints for records that it cannot read; no later Kafka is fetched."""
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        '#!/bin/sh\ncase "$*" in\n'
        "-version) echo 'openjdk version \"17.0.9\"' >&2;;\n"
        "*kafka.Kafka*) echo 'Caused by: org.apache.kafka.common.errors.UnsupportedVersionException: "
        "Can'\"'\"'t read version 4 of BrokerEndpoint'; exit 1;;\nesac\n"
    )
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    with pytest.raises(
        BrokerError, match=rf"A Kafka later than {KAFKA_VERSION} created .*: .*`--kafka-version`"
    ):
        LocalBroker(tmp_path / "broker").start()


def test_a_tampered_jar_is_refused_and_nothing_started(
    broker: LocalBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "interlock" / cache_directory().name
    shutil.copytree(cache_directory(), cache, copy_function=os.link)
    tampered = cache / f"kafka_2.13-{KAFKA_VERSION}.jar"
    whole = tampered.read_bytes()
    tampered.unlink()  # the link; the cache itself is left alone
    tampered.write_bytes(whole[:-1] + b"\0\0")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    second = LocalBroker(tmp_path / "data")
    with pytest.raises(BrokerError, match=rf"SHA-512: {re.escape(tampered.name)}\."):
        second.start()
    assert second.pid is None
    assert not (tmp_path / "data").exists()


def test_the_broker_ends_with_its_parent_even_when_that_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, time; from interlock.plugin.broker import LocalBroker\n"
        "print(LocalBroker(sys.argv[1]).start().pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as parent:
        try:
            assert parent.stdout is not None
            pid = int(parent.stdout.readline())
            assert psutil.pid_exists(pid)
        finally:
            parent.kill()
    _eventually(lambda: not psutil.pid_exists(pid), f"process {pid} ends")


def test_the_command_says_how_to_connect_and_ends_at_ctrl_c(tmp_path: Path) -> None:
    # a shell starts what runs in the background with Ctrl-C ignored, and all that begins there inherits it
    command = [
        "env", "--default-signal=INT", sys.executable, "-m", "airflow", "interlock", "broker", "--port", "0",
        "--ephemeral",
    ]  # fmt: skip
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmp_path)}
    ) as shown:
        try:
            assert shown.stdout is not None
            lines: list[str] = []
            for line in shown.stdout:
                lines.append(line.rstrip())
                if "Ctrl-C" in line:
                    break
            text = "\n".join(lines)
            address = next(x for x in lines if x.startswith("bootstrap.servers=")).partition("=")[2]
            assert f'"bootstrap.servers": "{address}"' in text
            assert f"data in {tmp_path}" in text
            AdminClient({"bootstrap.servers": address}).list_topics(timeout=15)
            shown.send_signal(2)
            assert shown.wait(20) == 0
        finally:
            shown.kill()
    assert list(tmp_path.iterdir()) == []
