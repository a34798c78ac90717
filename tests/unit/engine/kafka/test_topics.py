"""How each topic of a bus must be made."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicCollection
from confluent_kafka.admin import ConfigResource
from interlock.engine.config import BusConfig
from interlock.engine.errors import TopicsError, UnreachableError
from interlock.engine.kafka import clients
from interlock.engine.kafka import topics as module
from interlock.engine.kafka.topics import TopicSpec, check, check_settings, create, specs, write_registry
from interlock.engine.records.sizes import MAX_VALUE_BYTES
from interlock.engine.waiting.latest_firings import KEPT_MS

from .clients import FakeProducer, failure

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "nowhere"})
BY_NAME: dict[str, TopicSpec] = {spec.name: spec for spec in specs(CONFIG, 8)}


def test_a_bus_has_six_topics_of_the_given_partitions_and_one_registry_partition() -> None:
    assert {name: spec.partitions for name, spec in BY_NAME.items()} == {
        "b-event": 8,
        "b-trigger": 8,
        "b-state": 8,
        "b-action": 8,
        "b-subscription": 1,
        "b-dead-letter": 8,
    }


def test_the_log_stamps_events_and_matches_are_never_removed_by_time() -> None:
    assert BY_NAME["b-event"].settings["message.timestamp.type"] == "LogAppendTime"
    assert "message.timestamp.type" in BY_NAME["b-event"].required
    assert BY_NAME["b-trigger"].settings["retention.ms"] == "-1"
    assert BY_NAME["b-trigger"].settings["retention.bytes"] == "-1"
    assert {"retention.ms", "retention.bytes"} <= BY_NAME["b-trigger"].required


@pytest.mark.parametrize("kind", ["state", "action", "subscription"])
def test_what_is_kept_by_key_is_compacted_in_small_segments(kind: str) -> None:
    spec = BY_NAME[f"b-{kind}"]
    assert spec.settings["cleanup.policy"].startswith("compact")
    assert int(spec.settings["segment.bytes"]) <= 64 * 1024 * 1024
    assert "cleanup.policy" in spec.required


def test_firings_are_kept_as_long_as_events_and_not_for_ever() -> None:
    action = BY_NAME["b-action"].settings
    assert action["cleanup.policy"] == "compact,delete"
    assert int(action["retention.ms"]) == KEPT_MS == int(BY_NAME["b-event"].settings["retention.ms"])


def test_a_reader_that_lags_less_than_a_day_sees_each_removal() -> None:
    assert BY_NAME["b-subscription"].settings["min.compaction.lag.ms"] == str(24 * 3600 * 1000)


@pytest.mark.parametrize("kind", ["trigger", "state", "action", "dead-letter"])
def test_internal_topics_take_the_largest_value_the_engine_writes(kind: str) -> None:
    assert int(BY_NAME[f"b-{kind}"].settings["max.message.bytes"]) >= MAX_VALUE_BYTES + 64 * 1024


def test_each_required_setting_is_one_that_is_set() -> None:
    for spec in BY_NAME.values():
        assert spec.required <= spec.settings.keys()


@pytest.mark.parametrize("partitions", [0, -1, 1001])
def test_a_number_of_partitions_that_makes_no_bus_is_refused(partitions: int) -> None:
    with pytest.raises(TopicsError, match=f"cannot have {partitions} partitions"):
        create(CONFIG, partitions=partitions)


@pytest.mark.parametrize("within_a_report", [False, True])
def test_a_refused_registry_record_is_an_error_with_the_clusters_reason(
    within_a_report: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fatal error, as of a broker without idempotent producers; it may come out of a delivery report."""

    class Producer(FakeProducer):
        def flush(self, timeout_s: float) -> int:
            fatal = failure(KafkaError._UNSUPPORTED_FEATURE, fatal=True, reason="not supported by any broker")
            if within_a_report:
                raise SystemError("returned a result with an exception set") from fatal
            raise fatal

    def connect(kind: object, config: object, errors: object, **settings: Any) -> Producer:
        return Producer(settings)

    monkeypatch.setattr(clients, "connect", connect)
    with pytest.raises(UnreachableError, match="refuses registry records: not supported by any broker"):
        write_registry(CONFIG, {b"bus": None})


class FakeAdmin:
    """A cluster with the topics of a bus, less some, and with a setting or two of them altered."""

    def __init__(self, missing: str = "", altered: tuple[str, str, str | None] = ("", "", "")) -> None:
        self.topics = {name: spec for name, spec in BY_NAME.items() if name != missing}
        self.altered = altered

    def describe_topics(self, asked: TopicCollection, **_: object) -> dict[str, Any]:
        return {name: self._described(name) for name in asked.topic_names}

    def _described(self, name: str) -> Future[Any]:
        answer: Future[Any] = Future()
        if spec := self.topics.get(name):
            answer.set_result(SimpleNamespace(partitions=[None] * spec.partitions))
        else:
            answer.set_exception(failure(KafkaError.UNKNOWN_TOPIC_OR_PART))
        return answer

    def create_topics(self, wanted: list[Any], **_: object) -> dict[str, Future[None]]:
        """Creates none: all exist."""
        answers: dict[str, Future[None]] = {topic.topic: Future() for topic in wanted}
        for answer in answers.values():
            answer.set_exception(failure(KafkaError.TOPIC_ALREADY_EXISTS))
        return answers

    def describe_configs(self, resources: list[ConfigResource], **_: object) -> dict[ConfigResource, Any]:
        return {resource: self._settings(resource.name) for resource in resources}

    def _settings(self, name: str) -> Future[dict[str, Any]]:
        topic, key, value = self.altered
        settings = {**self.topics[name].settings, **({key: value} if name == topic else {})}
        answer: Future[dict[str, Any]] = Future()
        answer.set_result({key: SimpleNamespace(value=value) for key, value in settings.items()})
        return answer


class SilentAdmin(FakeAdmin):
    """A cluster that no longer answers."""

    def _described(self, name: str) -> Future[Any]:
        answer: Future[Any] = Future()
        answer.set_exception(failure(KafkaError._TIMED_OUT))
        return answer


class StuckAdmin(FakeAdmin):
    """A cluster that does not answer a request to create topics."""

    def create_topics(
        self, wanted: list[Any], *, operation_timeout: float, request_timeout: float = 60.0
    ) -> dict[str, Any]:
        """Like the client: a request fails after its timeout, 60 s by default."""

        def result(timeout: float) -> None:
            raise failure(KafkaError._TIMED_OUT) if timeout > request_timeout else TimeoutError

        return {topic.topic: SimpleNamespace(result=result) for topic in wanted}


def test_a_request_to_create_topics_that_gets_no_answer_is_an_error_that_names_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "admin_client", lambda *_: StuckAdmin())
    with pytest.raises(TopicsError, match="Topic 'b-event' cannot be created: why"):
        create(CONFIG)


@pytest.mark.parametrize(
    "admin", [SilentAdmin(), FakeAdmin(missing="b-trigger")], ids=["no answer", "without a topic"]
)
def test_a_bus_whose_partitions_are_not_known_gets_no_bus_record(
    admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its topics were created by an earlier call, which ended before it wrote the record."""
    monkeypatch.setattr(module, "admin_client", lambda *_: admin)
    monkeypatch.setattr(module, "bus_record", lambda _: None)
    monkeypatch.setattr(module, "write_bus_record", pytest.fail)
    with pytest.raises(UnreachableError):
        create(CONFIG)


@pytest.mark.parametrize(
    ("admin", "problem"),
    [
        (FakeAdmin(missing="b-dead-letter"), "Topic 'b-dead-letter' is missing, or this user may not descr"),
        (FakeAdmin(altered=("b-dead-letter", "cleanup.policy", "compact")), "has cleanup.policy=compact"),
    ],
)
def test_a_missing_or_altered_dead_letter_topic_is_a_problem_and_stops_no_engine(
    admin: FakeAdmin, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "admin_client", lambda _config: admin)
    assert check(CONFIG, dead_letters=False) == {
        name: spec.partitions for name, spec in BY_NAME.items() if name != "b-dead-letter"
    }
    check_settings(CONFIG)
    with pytest.raises(TopicsError, match=problem):
        check(CONFIG)


@pytest.mark.parametrize("dead_letters", [True, False])
def test_any_other_missing_or_altered_topic_is_an_error_for_all(
    dead_letters: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "admin_client", lambda _config: FakeAdmin(missing="b-state"))
    with pytest.raises(TopicsError, match="Topic 'b-state' is missing"):
        check(CONFIG, dead_letters=dead_letters)
    altered = FakeAdmin(altered=("b-trigger", "retention.ms", "1"))
    monkeypatch.setattr(module, "admin_client", lambda _config: altered)
    with pytest.raises(TopicsError, match=r"'b-trigger' has retention\.ms=1"):
        check(CONFIG, dead_letters=dead_letters)


def test_a_setting_that_the_brokers_do_not_have_is_no_setting_to_correct(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Redpanda took a setting without a word and did not have it (redpanda-data/redpanda#24991)."""
    lacking = FakeAdmin(altered=("b-state", "min.cleanable.dirty.ratio", None))
    monkeypatch.setattr(module, "admin_client", lambda _config: lacking)
    with pytest.raises(TopicsError, match="'b-state': the brokers do not name the setting") as e:
        check(CONFIG)
    assert "use Apache Kafka" in str(e.value)
