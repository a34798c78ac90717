"""Questions that are asked again, and those whose answer is final."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AclOperation
from interlock.engine.bus import Topic, TopicPartition
from interlock.engine.errors import NotReadable, UnreachableError
from interlock.engine.kafka import admin as module
from interlock.engine.kafka.admin import Admin

from .clients import CONFIG, failure

HERE = TopicPartition("orders", 0)


class FakeAdminClient:
    """`answers`: what the next questions are answered with; the last one answers all that follow."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.asked = 0
        self.groups: list[Any] = []
        self.leader: str | None = "another broker"  # of partition 1
        # The allowed operations of each described topic, or the brokers' refusal.
        self.described: dict[str, Any] = {"orders": [AclOperation.READ, AclOperation.DESCRIBE]}

    def list_offsets(self, asked: dict[Any, Any], **_: object) -> dict[Any, Future[Any]]:
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        found: Future[Any] = Future()
        if isinstance(answer, Exception):
            found.set_exception(answer)
        else:
            found.set_result(SimpleNamespace(offset=answer))
        return dict.fromkeys(asked, found)

    def list_groups(self, group: str, timeout: float) -> list[Any]:
        return self.groups

    def describe_topics(self, asked: Any, **_: object) -> dict[str, Future[Any]]:
        found: dict[str, Future[Any]] = {name: Future() for name in self.described}
        for name, answer in self.described.items():
            if isinstance(answer, list) and answer and isinstance(answer[0], Exception):
                answer = answer.pop(0)
            if isinstance(answer, Exception):
                found[name].set_exception(answer)
            else:
                brokers = [
                    SimpleNamespace(id=0, leader="a broker"),
                    SimpleNamespace(id=1, leader=self.leader),
                ]
                description = SimpleNamespace(topic_id="t", partitions=brokers, authorized_operations=answer)
                found[name].set_result(description)
        return found


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeAdminClient:
    made = FakeAdminClient()
    monkeypatch.setattr(module, "connect", lambda *_, **__: made)
    monkeypatch.setattr(module, "wait_fixed", lambda _: lambda state: 0)
    return made


@pytest.fixture
def admin(client: FakeAdminClient) -> Admin:
    return Admin(CONFIG)


@pytest.mark.parametrize(
    "code",
    [
        KafkaError._NOENT,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,
    ],
    ids=["no leader yet", "another leader", "no leader for now", "a leader that is new", "a lost disk"],
)
@pytest.mark.parametrize(
    "ask",
    [Admin.start_offsets, Admin.end_offsets, Admin.stable_offsets, lambda a, tps: a.offsets_since(tps, 0)],
)
def test_the_query_for_offsets_is_repeated_while_the_leader_moves(
    admin: Admin, client: FakeAdminClient, code: int, ask: Callable[[Admin, list[TopicPartition]], Any]
) -> None:
    client.answers = [failure(code), failure(code), 7]
    assert ask(admin, [HERE]) == {HERE: 7}
    assert client.asked == 3


@pytest.mark.parametrize(
    "code", [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._TIMED_OUT]
)
def test_any_other_refusal_is_final(admin: Admin, client: FakeAdminClient, code: int) -> None:
    client.answers = [failure(code)]
    with pytest.raises(UnreachableError):
        admin.end_offsets([HERE])
    assert client.asked == 1


@pytest.mark.parametrize(
    ("answer", "described"),
    [
        (KafkaError.UNKNOWN_TOPIC_OR_PART, None),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, None),
        (KafkaError._NOENT, failure(KafkaError.UNKNOWN_TOPIC_OR_PART)),
        (KafkaError._NOENT, failure(KafkaError.TOPIC_AUTHORIZATION_FAILED)),
    ],
    ids=["not there", "refused", "no leader: not there", "no leader: refused"],
)
def test_a_topic_that_cannot_be_read_is_named_at_once(
    admin: Admin, client: FakeAdminClient, answer: int, described: Exception | None
) -> None:
    client.answers = [failure(answer)]
    client.described = {"orders": described}
    with pytest.raises(NotReadable) as refused:
        admin.end_offsets([HERE])
    assert refused.value.topic == "orders"
    assert client.asked == 1


REFUSED = failure(KafkaError.TOPIC_AUTHORIZATION_FAILED)


@pytest.mark.parametrize(
    ("operations", "topic"),
    [
        ([AclOperation.READ, AclOperation.DESCRIBE], Topic("t", 2)),
        ([AclOperation.ALL], Topic("t", 2)),
        ([], Topic("t", 2)),
        (None, Topic("t", 2)),
        ([AclOperation.DESCRIBE], Topic("t", 2, "Read")),
        (REFUSED, Topic("", 0, "Describe")),
    ],
    ids=["read", "all", "no operations", "none", "describe alone", "refused"],
)
def test_what_a_broker_refuses_of_a_listed_topic_is_part_of_the_answer(
    admin: Admin, client: FakeAdminClient, operations: Any, topic: Topic
) -> None:
    client.described = {"orders": operations}
    assert admin.topics(["orders"], others=["orders"]) == {"orders": topic}


def test_partitions_without_a_leader_are_reported_for_listed_topics(
    admin: Admin, client: FakeAdminClient
) -> None:
    client.leader = None
    assert admin.topics(["orders"], others=["orders"]) == {"orders": Topic("t", 2, leaderless=(1,))}
    assert admin.topics(["orders"]) == {"orders": Topic("t", 2)}


@pytest.mark.parametrize("code", [KafkaError.LEADER_NOT_AVAILABLE, KafkaError._NOENT])
def test_a_topic_that_nobody_leads_when_the_time_is_up_is_named(
    admin: Admin, client: FakeAdminClient, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REQUEST_TIMEOUT_S", 0.15)
    client.answers = [failure(code)]
    with pytest.raises(NotReadable) as unled:
        admin.end_offsets([HERE])
    assert unled.value.topic == "orders"
    assert client.asked > 1


def test_a_refusal_of_a_topic_of_the_buss_own_is_an_error(admin: Admin, client: FakeAdminClient) -> None:
    client.described = {"orders": REFUSED}
    with pytest.raises(UnreachableError):
        admin.topics(["orders"])


def group(*assignments: bytes, error: KafkaError | None = None) -> SimpleNamespace:
    members = [
        SimpleNamespace(client_id=f"engine-{n}", client_host="/here", assignment=assignment)
        for n, assignment in enumerate(assignments)
    ]
    return SimpleNamespace(id="b-engine", error=error, members=members)


ONE_PARTITION = b"\0\0" + b"\0\0\0\1" + b"\0\x06orders" + b"\0\0\0\1" + b"\0\0\0\3" + b"\xff\xff\xff\xff"


def test_a_group_whose_coordinator_does_not_answer_is_not_reported_as_empty(
    admin: Admin, client: FakeAdminClient
) -> None:
    client.groups = [group(error=failure(KafkaError.COORDINATOR_LOAD_IN_PROGRESS).args[0])]
    with pytest.raises(UnreachableError):
        admin.members()


@pytest.mark.parametrize(
    "form", [b"\0", b"\0\0\xff", ONE_PARTITION[:-8], b"\0\0\0\0\0\1\0\1\xff" + b"\0" * 4]
)
def test_a_member_whose_assignment_cannot_be_read_is_a_member(
    admin: Admin, client: FakeAdminClient, form: bytes
) -> None:
    client.groups = [group(form, ONE_PARTITION)]
    assert admin.members() == {"engine-0", "engine-1"}
    assert [member.partitions for member in admin.group_members()] == [(), (TopicPartition("orders", 3),)]


def test_a_topics_query_is_repeated_while_its_leader_moves(admin: Admin, client: FakeAdminClient) -> None:
    client.described = {"orders": [failure(KafkaError.LEADER_NOT_AVAILABLE), AclOperation.READ]}
    assert admin.topics(["orders"]) == {"orders": Topic("t", 2)}
