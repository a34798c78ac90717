"""The rights that `topics create --dry-run` prints are enough, on a broker that checks them."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from ipaddress import ip_network
from typing import Any

import msgspec
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from interlock import Event, event, fetch
from interlock.engine.admin.access import Role, needed
from interlock.engine.admin.dead_letters import DeadLetters, Selection
from interlock.engine.admin.doctor import diagnose
from interlock.engine.admin.explaining import why_not_met
from interlock.engine.admin.findings import AirflowInfo
from interlock.engine.admin.listed_topics import add_topics
from interlock.engine.config import BusConfig
from interlock.engine.delivery.sinks import SinkRecord
from interlock.engine.errors import TopicsError, UnreachableError
from interlock.engine.following.subscriptions import Subscriptions
from interlock.engine.kafka.admin import Admin
from interlock.engine.kafka.topics import check, create
from interlock.engine.records import Registration
from interlock.engine.runtime.delivering import Delivering
from interlock.engine.runtime.runtime import has_engine
from interlock.engine.sending.posts import HttpPosts, PostOptions
from interlock.engine.sending.target import SinkTarget
from interlock.engine.waiting.acknowledge import acknowledge, acknowledge_all, remove_registration
from interlock.engine.waiting.dispatching import Durable
from interlock.engine.waiting.notices import Notice
from interlock.engine.waiting.open_firings import read
from interlock.engine.waiting.waits import FiringForWait
from interlock.events import Emitter
from interlock.events.errors import EmitError
from interlock.plugin.broker import LocalBroker
from interlock.plugin.broker.ports import free_ports

from tests.kit.sinks import Sink, answer

from .conftest import running

TOPIC, GROUP, TXN = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
READ, WRITE = AclOperation.READ, AclOperation.WRITE
ACL_FIELDS = ("restype", "name", "resource_pattern_type", "principal", "host", "operation", "permission_type")
BUS = BusConfig(name="bus", client={"bootstrap.servers": "one:1"})
LISTED = "raw"  # a topic that the bus reads beside its own
RESOURCES = {"topic": TOPIC, "group": GROUP, "transactional-id": TXN}
OPERATIONS = {
    "Read": READ,
    "Write": WRITE,
    "Describe": AclOperation.DESCRIBE,
    "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS,
    "Delete": AclOperation.DELETE,
}


def rights(*roles: Role) -> list[tuple[ResourceType, str, AclOperation]]:
    """What `topics create --dry-run` prints for these roles; a prefix ends with a star."""
    return [
        (RESOURCES[acl.resource], acl.name + "*" * (acl.pattern == "prefixed"), OPERATIONS[operation])
        for acl in needed(BUS, [LISTED], roles)
        for operation in acl.operations
    ]


RIGHTS = {
    "emitter": rights("emit"),
    "triggerer": rights("engine"),
    "worker": rights("wait"),
    "deliverer": rights("deliver"),
}


def binding(name: str, kind: ResourceType, pattern: str, operation: AclOperation) -> AclBinding:
    matching = ResourcePatternType.PREFIXED if pattern.endswith("*") else ResourcePatternType.LITERAL
    who, allow = f"User:{name}", AclPermissionType.ALLOW
    return AclBinding(kind, pattern.removesuffix("*"), matching, who, "*", operation, allow)


@pytest.fixture(scope="module")
def guarded(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Callable[..., BusConfig], AdminClient]]:
    """A broker with users that have RIGHTS and no others: (gives the bus as a user reaches it, an admin)."""
    plain, sasl, controller = free_ports(3)
    users = " ".join(f'user_{name}="{name}-secret"' for name in RIGHTS)
    properties = {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},SASL://127.0.0.1:{sasl},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{plain},SASL://127.0.0.1:{sasl}",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }

    def reached_by(name: str, password: str | None = None) -> BusConfig:
        client = {"bootstrap.servers": f"127.0.0.1:{sasl}", "security.protocol": "SASL_PLAINTEXT"}
        client |= {"sasl.mechanism": "PLAIN", "sasl.username": name}
        client["sasl.password"] = password or f"{name}-secret"
        return BusConfig(name="bus", client=client)

    with LocalBroker(tmp_path_factory.mktemp("acl"), port=plain, properties=properties) as broker:
        plain_bus = BusConfig(name="bus", client={"bootstrap.servers": broker.bootstrap_servers})
        create(plain_bus, partitions=2)
        admin = AdminClient(dict(plain_bus.client))
        stamped = {"message.timestamp.type": "LogAppendTime"}
        admin.create_topics([NewTopic(LISTED, 1, config=stamped)])[LISTED].result()
        add_topics(plain_bus, [LISTED])
        producer = Producer(dict(plain_bus.client))
        producer.produce(LISTED, b'{"rows": 4}')
        assert producer.flush(30) == 0
        bindings = [binding(name, *right) for name, rights in RIGHTS.items() for right in rights]
        for future in admin.create_acls(bindings).values():
            future.result()
        yield reached_by, admin


@pytest.fixture
def user(guarded: Any) -> Callable[..., BusConfig]:
    """`user("triggerer")` is the bus as that user reaches it."""
    reached_by: Callable[..., BusConfig] = guarded[0]
    return reached_by


@contextmanager
def without(admin: AdminClient, *taken: AclBinding) -> Iterator[None]:
    """Takes these rights away inside the block, and gives them back after it."""
    for each in taken:
        exact = AclBindingFilter(*(getattr(each, name) for name in ACL_FIELDS))
        [removed] = [future.result() for future in admin.delete_acls([exact]).values()]
        assert len(removed) == 1
    try:
        yield
    finally:
        for given in admin.create_acls(list(taken)).values():
            given.result()


class Received:
    def __init__(self) -> None:
        self.items: list[Any] = []

    def __call__(self, item: Any) -> None:
        self.items.append(item)

    def notices(self) -> list[Notice]:
        return [item for item in self.items if isinstance(item, Notice)]

    def firing(self) -> FiringForWait | None:
        return next((item for item in self.items if isinstance(item, FiringForWait)), None)


def test_emitter_triggerer_and_worker_work_with_the_rights_listed(user: Any, eventually: Any) -> None:
    with running(user("triggerer")) as runtime:
        received = Received()
        runtime.waits.open(Registration.of("w", event("x"), None, 0), received)
        with Emitter(user("emitter").client, "bus-event") as emitter:
            emitter.emit(Event.of("x", "/test"))
        eventually("the wait fires", received.firing)
        firing = received.firing()
        acknowledge(user("worker"), firing.action, firing.registration_keys)
    assert [item.text for item in received.items if not isinstance(item, FiringForWait)] == []


def registered(user: Any) -> set[str]:
    return {each.registration.subscription for each in Subscriptions.read(user("triggerer")).all()}


def test_a_workers_tasks_fetch_look_back_and_dispatch_with_the_rights_listed(
    user: Any, unique_name: Callable[[str], str], eventually: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, name = user("worker"), unique_name("t")
    connection = {"conn_type": "kafka", "extra": dict(worker.client)}
    monkeypatch.setenv("AIRFLOW_CONN_WORKER", json.dumps(connection))
    happened = Event.of(name, "/test", subject="s", data={"rows": 3})
    with Emitter(user("emitter").client, "bus-event") as emitter:
        own = "kafka:{}/{}/{}".format(*emitter.emit(happened))
    assert fetch(own, kafka_conn_id="worker", bus="bus") == happened
    assert fetch(f"kafka:{LISTED}/0/0", kafka_conn_id="worker", bus="bus").payload == {"rows": 4}

    missed = event(name) & event(source=LISTED, where="data.rows == 5")
    why = why_not_met(worker, missed, None, 0, int(time.time() * 1000) + 60_000)
    assert name in why
    assert LISTED in why

    with running(user("triggerer")) as runtime:
        durable = Durable(
            subscription=name, condition=event(name, by="subject").to_json(), since_ms=0, since_given=False,
            max_keys=10, at_limit="dead-letter",
        )  # fmt: skip
        stream = runtime.waits.dispatching.open(durable, lambda _: None)
        [place] = eventually("it fires", lambda: runtime.waits.dispatching.take(stream, 1))
        assert has_engine(worker)
        [action] = read(worker, [(place.source.partition, place.offset)])
        acknowledge_all(worker, [action])
        eventually("it is acknowledged", lambda: not runtime.waits.dispatching.take(stream, 1))
        wait = runtime.waits.open(Registration.of(f"{name}-over", event(f"{name}-2"), None, 0), Received())
        eventually("it is registered", lambda: f"{name}-over" in registered(user))
        runtime.waits.close(wait)
        remove_registration(worker, runtime.waits.registration_keys(wait))
        assert f"{name}-over" not in registered(user)


@pytest.mark.long
def test_a_deliverer_delivers_gives_up_and_writes_replies_with_the_rights_listed(
    user: Any, unique_name: Callable[[str], str], eventually: Any
) -> None:
    name, deliverer = unique_name("t"), user("deliverer")
    record = SinkRecord(subscription=f"airflow/deliver/{name}", connection="any", send="event", replies=True)
    durable = Durable(
        subscription=record.subscription, condition=event(name, by="subject").to_json(), since_ms=0,
        since_given=False, max_keys=10, at_limit="dead-letter", sink=msgspec.to_builtins(record),
    )  # fmt: skip

    def posts(config: BusConfig, on_ended: Callable[[], None]) -> HttpPosts:
        allowed = [ip_network("127.0.0.0/8")]
        return HttpPosts(config, lambda _: SinkTarget(url=sink.url), on_ended, PostOptions(allowed))

    reply = {"ce-specversion": "1.0", "ce-id": "r", "ce-type": f"{name}-reply", "ce-source": "/sink"}
    large = {"rows": "x" * 100_000}  # which stay in their record: the deliverer reads them there
    with Sink() as sink, running(user("triggerer")) as runtime:
        replied = Received()
        runtime.waits.open(Registration.of(f"{name}-w", event(f"{name}-reply"), None, 0), replied)
        stream = runtime.waits.dispatching.open(durable, lambda _: None)
        eventually("it is registered", lambda: stream.registered)
        delivering = Delivering(deliverer, posts)
        delivering.start()
        try:
            with Emitter(user("emitter").client, "bus-event") as emitter:
                sink.answer(answer(200, reply))
                emitter.emit(Event.of(name, "/test", subject="a", data=large))
                eventually("the reply is an event", replied.firing)
                assert json.loads(sink.received[0].body) == large
                sink.answer(answer(400))
                emitter.emit(Event.of(name, "/test", subject="b"))
                eventually("it is refused", lambda: len(sink.received) == 2)
        finally:
            delivering.stop()
    with closing(DeadLetters(user("triggerer"))) as dead_letters:
        [dead_letter] = dead_letters.find(Selection(stage="delivery"))
    assert dead_letter.subscription == record.subscription
    assert [loop.failures for loop in delivering._loops] == [0]


def test_an_emitter_may_do_nothing_else(user: Any) -> None:
    with pytest.raises((UnreachableError, TopicsError)):
        check(user("emitter"))
    with Emitter(user("emitter").client, "bus-action") as emitter, pytest.raises(EmitError):
        emitter.emit(Event.of("x", "/test"), timeout_s=5)


def test_a_topics_settings_are_none_for_a_user_without_the_right_to_see_them(user: Any) -> None:
    def retention(name: str) -> str | None:
        with closing(Admin(user(name))) as admin:
            settings = admin.settings("bus-event")
        return None if settings is None else settings["retention.ms"]

    assert retention("triggerer") == str(30 * 24 * 3_600_000)
    assert retention("worker") is None


def wrong(config: BusConfig, role: Role) -> list[str]:
    """What the doctor finds wrong with the rights for a role."""
    found = diagnose(config, AirflowInfo("3.3.2"), [role])
    return [each.text for each in found if (each.check, each.level) == ("access", "wrong")]


def test_the_doctor_finds_what_a_user_may_not_do_and_nothing_where_all_is_allowed(user: Any) -> None:
    for name, role in (
        ("triggerer", "engine"),
        ("worker", "wait"),
        ("emitter", "emit"),
        ("deliverer", "deliver"),
    ):
        assert wrong(user(name), role) == []
    lacks = " ".join(wrong(user("worker"), "engine"))
    for finding in (
        "engine: topic 'bus-state' cannot be described: Broker: Topic authorization failed.",
        "engine: allow DescribeConfigs on topic 'bus-event'",
        "Allow Write on transactional ids with the prefix 'bus-engine-' and Read on group 'bus-engine'",
    ):
        assert finding in lacks, lacks


def test_the_doctor_finds_a_right_that_is_missing_on_a_listed_topic(guarded: Any, eventually: Any) -> None:
    reached_by, admin = guarded
    taken, worker = binding("worker", TOPIC, LISTED, READ), reached_by("worker")
    with without(admin, taken):
        lacking = [f"wait: allow Read on topic '{LISTED}' to the user of this connection."]
        eventually("it is found", lambda: wrong(worker, "wait") == lacking)
    eventually("nothing is wrong", lambda: wrong(worker, "wait") == [])


@pytest.mark.long
def test_a_wrong_password_is_reported_without_it_and_mended_in_place(user: Any, eventually: Any) -> None:
    before = set(threading.enumerate())  # with those of other tests' outboxes
    with running(user("triggerer", "not-the-password")) as runtime:
        received = Received()
        runtime.waits.open(Registration.of("w2", event("y"), None, 0), received)
        [notice] = eventually("the wait gets a notice", lambda: received.items)
        assert "Authentication failed" in notice.text
        assert "not-the-password" not in notice.text
        runtime.use(user("triggerer"))
        with Emitter(user("emitter").client, "bus-event") as emitter:
            emitter.emit(Event.of("y", "/test"))
        eventually("the wait fires", received.firing)
    left = set(threading.enumerate()) - before
    assert not [thread.name for thread in left if thread.name.startswith("interlock-")]


def produce_rubbish(client: Any, admin: AdminClient) -> None:
    """A record in each partition that must become a dead letter before the next one is read."""
    producer = Producer(dict(client))
    for partition in admin.list_topics("bus-event", timeout=10).topics["bus-event"].partitions:
        producer.produce("bus-event", b"rubbish", partition=partition)
    assert producer.flush(30) == 0


@pytest.mark.parametrize(
    ("right", "notice"),
    [
        ((TOPIC, "bus-state", WRITE), "bus-state|[Aa]uthorization"),
        ((TOPIC, "bus-action", WRITE), "bus-action|[Aa]uthorization"),
        ((TOPIC, "bus-trigger", READ), "[Aa]uthorization|TOPIC_AUTHORIZATION"),
        ((GROUP, "bus-engine", READ), "[Gg]roup.*authorization|authorization.*group"),
        ((TXN, "bus-engine-*", WRITE), "[Tt]ransactional.*[Aa]uthorization"),
        ((TOPIC, "bus-dead-letter", WRITE), "nor written to the dead-letter topic.*[Aa]uthorization"),
    ],
    ids=[
        "write state",
        "write action",
        "read trigger",
        "read group",
        "write transactional id",
        "write dead-letter",
    ],
)
def test_a_right_that_is_taken_away_is_reported_and_work_continues_once_it_is_given_back(
    guarded: Any, right: Any, notice: str, unique_name: Callable[[str], str], eventually: Any
) -> None:
    reached_by, admin = guarded
    taken = binding("triggerer", *right)
    event_type = unique_name("t")
    with running(reached_by("triggerer")) as runtime:
        before, after = Received(), Received()
        with Emitter(reached_by("emitter").client, "bus-event") as emitter:
            runtime.waits.open(Registration.of(f"{event_type}-before", event(event_type), None, 0), before)
            emitter.emit(Event.of(event_type, "/test"))
            eventually("the wait fires", before.firing)
            runtime.waits.open(
                Registration.of(f"{event_type}-after", event(f"{event_type}2"), None, 0), after
            )
            with without(admin, taken):
                if taken.name == "bus-dead-letter":
                    produce_rubbish(reached_by("emitter").client, admin)
                emitter.emit(Event.of(f"{event_type}2", "/test"))
                eventually(
                    "the wait gets a notice",
                    lambda: any(re.search(notice, item.text or "") for item in after.notices()),
                )
                assert after.firing() is None
            eventually("the wait fires", after.firing)


@pytest.mark.parametrize(
    "operations",
    [[READ], [READ, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS]],
    ids=["read", "all there is"],
)
def test_a_listed_topic_that_may_not_be_read_is_reported_and_continues_once_it_may(
    guarded: Any, operations: list[AclOperation], unique_name: Callable[[str], str], eventually: Any
) -> None:
    reached_by, admin = guarded
    rights = [binding("triggerer", TOPIC, LISTED, operation) for operation in operations]
    refused = "Read" if operations == [READ] else "Describe"
    expected_text = f"Topic '{LISTED}' is not read: the brokers refuse {refused}"
    (broker,) = admin.list_topics(timeout=10).brokers.values()
    producer = Producer({"bootstrap.servers": f"{broker.host}:{broker.port}"})
    name = unique_name("t")
    conditions = {
        "first": event(source=LISTED, subject=f"{name}-first"),
        "second": event(source=LISTED, subject=f"{name}-second"),
        "before": event(f"{name}-before"),
        "after": event(f"{name}-after"),
    }
    waits = {wait: Received() for wait in conditions}
    with running(reached_by("triggerer")) as runtime:
        for wait, condition in conditions.items():
            runtime.waits.open(Registration.of(f"{name}-{wait}", condition, None, 0), waits[wait])
        with Emitter(reached_by("emitter").client, "bus-event") as emitter:
            producer.produce(LISTED, b"{}", f"{name}-first")
            emitter.emit(Event.of(f"{name}-before", "/test"))
            eventually("both fire", lambda: waits["first"].firing() and waits["before"].firing())
            with without(admin, *rights):
                producer.produce(LISTED, b"{}", f"{name}-second")
                assert producer.flush(30) == 0
                eventually(
                    "a wait gets a notice",
                    lambda: any(expected_text in (notice.text or "") for notice in waits["after"].notices()),
                )
                emitter.emit(Event.of(f"{name}-after", "/test"))
                eventually("the other topics continue", waits["after"].firing)
                assert waits["second"].firing() is None
            eventually("it continues", waits["second"].firing)
        assert runtime._counts()["restarts"] == 0
