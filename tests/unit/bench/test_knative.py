"""What Knative's receiver is told: it serves this machine only, and writes as the receiver does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from interlock.engine.config import BusConfig

from bench.receiver.knative import configured

BUS = BusConfig(name="bench", client={"bootstrap.servers": "127.0.0.1:9092"})


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return configured(tmp_path, BUS)


def test_events_of_the_path_go_to_the_event_topic(environment: dict[str, str]) -> None:
    (resource,) = json.loads(Path(environment["DATA_PLANE_CONFIG_FILE_PATH"]).read_text())["resources"]
    assert resource["ingress"] == {"path": "/events"}
    assert resource["topics"] == ["bench-event"]
    assert resource["bootstrapServers"] == "127.0.0.1:9092"


def test_it_listens_on_the_loopback_address(environment: dict[str, str]) -> None:
    assert "host=127.0.0.1" in Path(environment["HTTPSERVER_CONFIG_FILE_PATH"]).read_text().split()


def test_a_request_is_answered_when_all_replicas_have_its_record(environment: dict[str, str]) -> None:
    settings = Path(environment["PRODUCER_CONFIG_FILE_PATH"]).read_text().split()
    assert {"acks=all", "enable.idempotence=true"} <= set(settings)


def test_it_cannot_reach_a_kubernetes_of_the_user(environment: dict[str, str]) -> None:
    assert environment["KUBERNETES_MASTER"].startswith("http://127.0.0.1:")
    assert not Path(environment["KUBECONFIG"]).exists()


def test_each_file_and_folder_that_is_named_exists(environment: dict[str, str]) -> None:
    named = [text for name, text in environment.items() if name.endswith("_PATH") and "PROBE" not in name]
    assert len(named) == 5
    assert all(Path(text).exists() for text in named)
