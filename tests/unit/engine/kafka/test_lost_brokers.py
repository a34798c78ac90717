"""A client that is silent is compared with a new one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError
from interlock.engine.config import BusConfig
from interlock.engine.errors import UnreachableError
from interlock.engine.kafka import lost_brokers as module
from interlock.engine.kafka.clients import ClientErrors
from interlock.engine.kafka.lost_brokers import SILENT_S, LostBrokers
from interlock.engine.kafka.reader import KafkaReader
from interlock.engine.kafka.wait_clients import KafkaWriter

from .clients import CONFIG, failure


class Cluster:
    """A cluster, a client of it, and the time. own, others: whether it answers the client, and new ones."""

    def __init__(self) -> None:
        self.own = self.others = True
        self.asked = 0
        self.now = 1000.0

    def list_topics(self, topic: str, timeout: float) -> None:
        assert topic == CONFIG.topic("subscription")
        self.asked += 1
        if not self.own:
            raise failure(KafkaError._TRANSPORT)

    def require_answer(self, config: BusConfig, timeout_s: float) -> None:
        if not self.others:
            raise UnreachableError("no answer")

    # what a consumer and a producer have beside it

    def poll(self, timeout_s: float) -> Any:
        return None

    def consume(self, most: int, timeout_s: float) -> list[Any]:
        return []


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()
    monkeypatch.setattr(module, "require_answer", made.require_answer)
    monkeypatch.setattr(module.time, "monotonic", lambda: made.now)
    return made


def test_a_client_that_is_not_answered_although_others_are_is_given_up(cluster: Cluster) -> None:
    lost = LostBrokers(CONFIG, cluster)
    cluster.own = False
    lost.check(silent=True)
    cluster.now += SILENT_S
    with pytest.raises(UnreachableError, match="has lost its brokers"):
        lost.check(silent=True)


def test_while_nobody_is_answered_the_client_stays(cluster: Cluster) -> None:
    lost = LostBrokers(CONFIG, cluster)
    cluster.own = cluster.others = False
    for asked in range(1, 4):
        cluster.now += SILENT_S
        lost.check(silent=True)
        assert cluster.asked == asked
    cluster.others = True
    cluster.now += SILENT_S
    with pytest.raises(UnreachableError):
        lost.check(silent=True)


def test_a_client_is_asked_only_when_it_was_silent_for_long_and_then_not_at_once_again(
    cluster: Cluster,
) -> None:
    lost = LostBrokers(CONFIG, cluster)
    cluster.now += SILENT_S - 1
    lost.check(silent=False)
    cluster.now += SILENT_S - 1
    lost.check(silent=True)
    assert cluster.asked == 0
    cluster.now += 1
    for _ in range(3):
        lost.check(silent=True)
    assert cluster.asked == 1


def _serving() -> Callable[[int, float], object]:
    writer = KafkaWriter(CONFIG, ClientErrors())
    return lambda _, timeout_s: writer.serve(timeout_s)


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda: KafkaReader(CONFIG).take, id="reader"),
        pytest.param(_serving, id="writer"),
    ],
)
def test_readers_and_writers_report_that_they_have_lost_their_brokers(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, use: Callable[[], Callable[[int, float], object]]
) -> None:
    monkeypatch.setattr("interlock.engine.kafka.reader.connect", lambda *_, **__: cluster)
    monkeypatch.setattr("interlock.engine.kafka.wait_clients.connect", lambda *_, **__: cluster)
    cluster.own = False
    poll = use()
    poll(10, 0)
    cluster.now += SILENT_S
    with pytest.raises(UnreachableError, match="has lost its brokers"):
        poll(10, 0)
