"""What each kind of error of a transactional client means for the commit."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, TIMESTAMP_CREATE_TIME, KafkaError
from interlock.engine.bus import Committed, Output, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.errors import EngineError, TransactionAborted, UnreachableError
from interlock.engine.kafka import transactions
from interlock.engine.kafka.clients import ClientErrors
from interlock.engine.kafka.lost_connections import LostConnections
from interlock.engine.kafka.transactions import Transactions
from interlock.engine.records.sizes import MAX_INTERNAL_BYTES

from .clients import CONFIG, FakeProducer, failure, fake_producers

OUTPUTS = [
    Output("b-trigger", 0, None, b"m"),
    Output("b-state", 0, b"k", b"s"),
    Output("b-dead-letter", 0, None, b"d"),
]
OFFSETS = {TopicPartition("b-event", 0): Committed(5, "{}")}
MEMBER = b"the group metadata"
WELL = ["begin", "produce", "produce", "produce", "offsets", "commit", "poll"]
LOST = "[thrd:1]: b/1: Disconnected: connection closed by peer (after 5ms in state UP)"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[FakeProducer]:
    """The producers made so far."""
    return fake_producers(monkeypatch)


@pytest.fixture
def bus(made: list[FakeProducer]) -> Transactions:
    opened = Transactions(CONFIG, ClientErrors(), "b-engine-1")
    made[0].calls.clear()
    return opened


def test_a_commit_writes_all_sends_the_offsets_and_returns_the_brokers_time(
    bus: Transactions, made: list[FakeProducer]
) -> None:
    assert bus.commit(OUTPUTS, OFFSETS, MEMBER) == 77
    assert made[0].calls == WELL
    assert [topic for topic, _ in made[0].reports] == ["b-state"], "one report is asked for, no more"


def test_the_producers_settings_are_those_the_protocols_need(
    bus: Transactions, made: list[FakeProducer]
) -> None:
    """Its times lie below the transaction's timeout, and markers are not waited for."""
    settings = dict(made[0].settings)
    assert isinstance(settings.pop("logger"), LostConnections)
    assert settings == {
        "transactional_id": "b-engine-1",
        "transaction_timeout_ms": 15_000,
        "acks": "all",
        "retry_backoff_ms": 1,
        "retry_backoff_max_ms": 10,
        "delivery_timeout_ms": 10_000,
        "socket_timeout_ms": 12_000,
        "log_connection_close": True,
        "linger_ms": 0,
        "compression_type": "lz4",
        "message_max_bytes": MAX_INTERNAL_BYTES,
        "partitioner": "murmur2_random",
    }
    most_ms = (transactions.TIMEOUT_S + transactions.LAST_STEP_S) * 1000
    assert settings["socket_timeout_ms"] > most_ms, "the client repeats nothing for want of an answer"


@pytest.mark.parametrize("name", ["acks", "request.required.acks"])
def test_the_client_itself_waits_for_all_replicas_whatever_the_connection_says(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a word of ours librdkafka would refuse the connection's value beside a transactional id."""
    monkeypatch.setattr(transactions, "repeated", lambda *_: None)  # no broker is asked
    extra = {"bootstrap.servers": "192.0.2.1:1", name: "0"}
    listed = BusConfig.from_extra(extra, name="b", deployment="d", connection="c")
    assert name not in listed.client
    for config in (listed, BusConfig(name="b", client=extra)):
        Transactions(config, ClientErrors(), "b-engine-1")


def test_the_time_of_a_topic_with_create_time_is_not_returned(
    bus: Transactions, made: list[FakeProducer]
) -> None:
    made[0].report_time = (TIMESTAMP_CREATE_TIME, 77)
    assert bus.commit(OUTPUTS, OFFSETS, MEMBER) is None
    assert bus.commit([], OFFSETS, MEMBER) is None


@pytest.mark.parametrize(
    ("offsets", "membership"),
    [
        ({}, MEMBER),
        (OFFSETS, None),
        ({TopicPartition("b-event", 0): Committed(OFFSET_INVALID, "")}, MEMBER),
    ],
)
def test_what_the_group_would_not_fence_is_not_sent(
    bus: Transactions, made: list[FakeProducer], offsets: Any, membership: Any
) -> None:
    with pytest.raises(TransactionAborted, match="not fenced"):
        bus.commit(OUTPUTS, offsets, membership)
    assert made[0].calls == []


def test_a_retriable_error_of_the_commit_repeats_that_call_alone(
    bus: Transactions, made: list[FakeProducer]
) -> None:
    made[0].fails["commit"] = [failure(KafkaError._TIMED_OUT, retriable=True)] * 2
    bus.commit(OUTPUTS, OFFSETS, MEMBER)
    assert made[0].calls == [*WELL[:-1], "commit", "commit", "poll"]


@pytest.mark.parametrize("code", [KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._AUTHENTICATION])
@pytest.mark.parametrize(("retriable", "abort"), [(True, False), (False, True)])
def test_a_producer_whose_offsets_had_no_answer_is_not_used_again(
    bus: Transactions, made: list[FakeProducer], code: int, retriable: bool, abort: bool
) -> None:
    made[0].fails["offsets"] = [failure(code, retriable=retriable, abort=abort)]
    with pytest.raises(UnreachableError):
        bus.commit(OUTPUTS, OFFSETS, MEMBER)
    assert made[0].calls == WELL[:-2]


def test_a_commit_without_an_answer_is_unknown_and_never_called_aborted(
    bus: Transactions, made: list[FakeProducer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "TIMEOUT_S", 0.1)
    made[0].fails["commit"] = [failure(KafkaError._TIMED_OUT, retriable=True)] * 1000
    with pytest.raises(UnreachableError, match="starts again from the committed offsets"):
        bus.commit(OUTPUTS, OFFSETS, MEMBER)
    assert "abort" not in made[0].calls


def loses(producer: FakeProducer, facility: str, line: str) -> None:
    """The producer's next poll brings this line of its log."""
    producer.on_poll.append(lambda: producer.settings["logger"].log(20, "%s [%s] %s", facility, "name", line))


@pytest.mark.parametrize(("facility", "line"), [("FAIL", LOST), ("REQTMOUT", "Timed out EndTxnRequest")])
def test_a_producer_that_may_have_sent_a_request_twice_is_replaced_when_its_transaction_is_over(
    bus: Transactions, made: list[FakeProducer], facility: str, line: str
) -> None:
    loses(made[0], facility, line)
    assert bus.commit(OUTPUTS, OFFSETS, MEMBER) == 77
    assert made[0].calls == WELL
    assert bus.commit(OUTPUTS, OFFSETS, MEMBER) == 77
    assert made[1].settings["transactional_id"] == "b-engine-1"
    assert made[1].calls == ["init", *WELL]
    assert len(made) == 2


def test_a_producer_that_may_have_sent_a_request_twice_is_replaced_before_a_transaction_without_offsets(
    bus: Transactions, made: list[FakeProducer]
) -> None:
    bus.send(OUTPUTS[:1])
    loses(made[0], "FAIL", LOST)
    bus.send(OUTPUTS[:1])
    sends = ["poll", "begin", "produce", "commit"]
    assert made[0].calls == [*sends, "poll"]
    assert made[1].settings["transactional_id"] == "b-engine-1"
    assert made[1].calls == ["init", *sends[1:]]


@pytest.mark.parametrize("step", ["begin", "produce", "commit"])
def test_a_transaction_without_offsets_that_fails_says_why_and_is_aborted_at_the_end(
    bus: Transactions, made: list[FakeProducer], step: str
) -> None:
    made[0].fails[step] = [failure(KafkaError.TOPIC_AUTHORIZATION_FAILED, abort=True, reason="no right")]
    with pytest.raises(EngineError, match="failed: no right"):
        bus.send(OUTPUTS[:1])
    bus.close()
    assert ("abort" in made[0].calls) == (step != "begin")


def test_a_producer_that_lost_a_connection_and_aborts_is_replaced(
    bus: Transactions, made: list[FakeProducer]
) -> None:
    made[0].fails["offsets"] = [failure(KafkaError.ILLEGAL_GENERATION, abort=True)]
    loses(made[0], "FAIL", LOST)
    with pytest.raises(TransactionAborted):
        bus.commit(OUTPUTS, OFFSETS, MEMBER)
    assert made[1].calls == ["init"]


def test_a_producer_that_cannot_be_replaced_makes_new_clients(
    bus: Transactions, made: list[FakeProducer], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(self: FakeProducer, timeout: float) -> None:
        raise failure(KafkaError._TRANSPORT)

    loses(made[0], "FAIL", LOST)
    monkeypatch.setattr(FakeProducer, "init_transactions", never)
    with pytest.raises(UnreachableError):
        bus.commit(OUTPUTS, OFFSETS, MEMBER)


def test_a_fatal_error_that_the_client_reports_between_transactions_makes_new_clients(
    bus: Transactions, made: list[FakeProducer]
) -> None:
    made[0].fails["poll"] = [failure(KafkaError._FATAL, fatal=True), failure(KafkaError._FATAL, fatal=True)]
    with pytest.raises(UnreachableError):
        bus.commit(OUTPUTS, OFFSETS, MEMBER)
    assert made[0].calls == WELL
    with pytest.raises(UnreachableError):
        bus.send(OUTPUTS[:1])


@pytest.mark.parametrize(
    ("facility", "line"),
    [
        ("FAIL", "[thrd:1]: b/1: Connect to ipv6#[::1]:1 failed: refused (after 0ms in state CONNECT)"),
        ("GETPID", "Failed to acquire transactional PID: Coordinator load in progress: retrying"),
    ],
)
def test_an_address_that_refuses_and_a_coordinator_that_loads_replace_nothing(
    bus: Transactions, made: list[FakeProducer], facility: str, line: str
) -> None:
    loses(made[0], facility, line)
    bus.commit(OUTPUTS, OFFSETS, MEMBER)
    assert len(made) == 1


def test_a_connection_that_wants_a_silent_client_does_not_hide_what_it_loses(
    made: list[FakeProducer], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[BusConfig] = []

    def connect(kind: object, config: BusConfig, errors: object, **own: Any) -> FakeProducer:
        taken.append(config)
        return FakeProducer(own)

    monkeypatch.setattr(transactions, "connect", connect)
    client = {"bootstrap.servers": "nowhere", "log_level": "0"}
    Transactions(BusConfig(name="b", client=client), ClientErrors(), "b-engine-1")
    assert taken[0].client == {"bootstrap.servers": "nowhere"}


@pytest.mark.parametrize(
    "code", [KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.MSG_SIZE_TOO_LARGE]
)
def test_an_error_that_requires_an_abort_gets_one_and_the_bus_remains_usable(
    bus: Transactions, made: list[FakeProducer], code: int
) -> None:
    made[0].fails["offsets"] = [failure(code, abort=True)]
    with pytest.raises(TransactionAborted):
        bus.commit(OUTPUTS, OFFSETS, MEMBER)
    assert made[0].calls[-3:] == ["offsets", "abort", "poll"]
    assert bus.commit(OUTPUTS, OFFSETS, MEMBER) == 77


def test_an_abort_that_fails_leaves_the_outcome_open(bus: Transactions, made: list[FakeProducer]) -> None:
    made[0].fails["offsets"] = [failure(KafkaError.ILLEGAL_GENERATION, abort=True)]
    made[0].fails["abort"] = [failure(KafkaError._FENCED, fatal=True)]
    with pytest.raises(UnreachableError):
        bus.commit(OUTPUTS, OFFSETS, MEMBER)


@pytest.mark.parametrize("step", ["begin", "offsets", "commit"])
def test_a_fatal_or_unclassified_error_gives_the_producer_up(
    bus: Transactions, made: list[FakeProducer], step: str
) -> None:
    for fatal in (True, False):
        made[0].fails[step] = [failure(KafkaError._FENCED, fatal=fatal)]
        with pytest.raises(UnreachableError):
            bus.commit(OUTPUTS, OFFSETS, MEMBER)
    assert "abort" not in made[0].calls


def test_a_fatal_error_raised_in_a_callback_makes_the_producer_unusable(
    bus: Transactions, made: list[FakeProducer]
) -> None:
    made[0].fails["commit"] = [SystemError("returned a result with an exception set")]
    with pytest.raises(UnreachableError, match="exception set"):
        bus.commit(OUTPUTS, OFFSETS, MEMBER)


@pytest.mark.parametrize("step", ["begin", "produce", "commit", "poll"])
def test_a_fatal_error_raised_in_a_callback_while_records_are_sent_without_offsets_is_an_engine_error(
    bus: Transactions, made: list[FakeProducer], step: str
) -> None:
    """It ended `dead-letters redrive` with a traceback."""
    made[0].fails[step] = [SystemError("returned a result with an exception set")]
    with pytest.raises(EngineError, match="exception set"):
        bus.send(OUTPUTS[:1])


def test_a_fatal_error_raised_in_a_callback_during_an_abort_leaves_the_outcome_open(
    bus: Transactions, made: list[FakeProducer]
) -> None:
    made[0].fails["offsets"] = [failure(KafkaError.ILLEGAL_GENERATION, abort=True)]
    made[0].fails["abort"] = [SystemError("returned a result with an exception set")]
    with pytest.raises(UnreachableError, match="exception set"):
        bus.commit(OUTPUTS, OFFSETS, MEMBER)


def test_a_fatal_error_raised_in_a_callback_before_a_producer_is_initialised_makes_new_clients(
    made: list[FakeProducer], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: FakeProducer, timeout: float) -> None:
        raise SystemError("returned a result with an exception set")

    monkeypatch.setattr(FakeProducer, "init_transactions", fails)
    with pytest.raises(UnreachableError, match="exception set"):
        Transactions(CONFIG, ClientErrors(), "b-engine-1")


def test_a_full_queue_is_waited_for(bus: Transactions, made: list[FakeProducer]) -> None:
    made[0].fails["produce"] = [BufferError(), BufferError()]
    bus.commit(OUTPUTS[:1], OFFSETS, MEMBER)
    assert made[0].calls == ["begin", "produce", "poll", "produce", "poll", "produce", *WELL[-3:]]


def test_a_record_that_the_client_refuses_aborts_and_the_text_says_which_topic_and_what_to_do(
    bus: Transactions, made: list[FakeProducer]
) -> None:
    made[0].fails["produce"] = [failure(KafkaError.MSG_SIZE_TOO_LARGE, reason="Message size too large")]
    with pytest.raises(TransactionAborted, match=r"'b-trigger'.*Message size too large.*max\.message\.bytes"):
        bus.commit(OUTPUTS, OFFSETS, MEMBER)
    assert made[0].calls == ["begin", "produce", "abort", "poll"]


def test_a_record_refused_because_an_earlier_one_failed_has_the_earlier_ones_reason(
    bus: Transactions, made: list[FakeProducer]
) -> None:
    made[0].fails["produce"] = [failure(KafkaError._STATE)]
    made[0].fails["offsets"] = [
        failure(
            KafkaError.TOPIC_AUTHORIZATION_FAILED, abort=True, reason="b-state: Topic authorization failed"
        )
    ]
    with pytest.raises(
        TransactionAborted, match=r"b-state: Topic authorization failed.*docs/operate/operating\.md"
    ):
        bus.commit(OUTPUTS, OFFSETS, MEMBER)
    assert made[0].calls == ["begin", "produce", "offsets", "abort", "poll"]


def test_offsets_that_are_not_sent_because_a_record_fails_have_its_reason(
    bus: Transactions, made: list[FakeProducer]
) -> None:
    made[0].fails["offsets"] = [
        failure(KafkaError._STATE),
        failure(KafkaError.MSG_SIZE_TOO_LARGE, abort=True, reason="b-state: Message size too large"),
    ]
    with pytest.raises(TransactionAborted, match=r"b-state: Message size too large.*max\.message\.bytes"):
        bus.commit(OUTPUTS, OFFSETS, MEMBER)
    assert made[0].calls == [*WELL[:-2], "offsets", "abort", "poll"]


def test_only_ids_of_the_buss_engines_are_fenced(bus: Transactions, made: list[FakeProducer]) -> None:
    bus.fence("somebody-else")
    assert len(made) == 1
    bus.fence("b-engine-dead")
    assert made[1].settings["transactional_id"] == "b-engine-dead"
    assert made[1].calls == ["init"]


def test_closing_ends_an_open_transaction_and_never_waits_in_the_clients_own_close(
    bus: Transactions, made: list[FakeProducer]
) -> None:
    made[0].fails["commit"] = [failure(KafkaError._FENCED, fatal=True)]
    with pytest.raises(UnreachableError):
        bus.commit(OUTPUTS, OFFSETS, MEMBER)
    bus.close()
    assert made[0].calls[-2:] == ["purge", "abort"]
    bus.close()


def test_what_its_own_producer_cannot_abort_is_ended_by_initialising_the_id_again(
    bus: Transactions, made: list[FakeProducer]
) -> None:
    made[0].fails["commit"] = [failure(KafkaError._FENCED, fatal=True)]
    made[0].fails["abort"] = [failure(KafkaError._CONFLICT)]
    with pytest.raises(UnreachableError):
        bus.commit(OUTPUTS, OFFSETS, MEMBER)
    bus.close()
    assert made[1].settings["transactional_id"] == "b-engine-1"
    assert made[1].calls == ["init"]


def test_a_closed_bus_without_an_open_transaction_initialises_nothing(
    bus: Transactions, made: list[FakeProducer]
) -> None:
    bus.commit(OUTPUTS, OFFSETS, MEMBER)
    bus.close()
    assert made[0].calls == [*WELL, "purge"]
    assert len(made) == 1


def test_offsets_that_the_client_never_sends_ask_for_new_clients_and_its_producer_is_left_alone(
    bus: Transactions, made: list[FakeProducer], monkeypatch: pytest.MonkeyPatch
) -> None:
    returns = threading.Event()
    monkeypatch.setattr(made[0], "send_offsets_to_transaction", lambda *_: returns.wait())
    monkeypatch.setattr(transactions, "HANGS_S", 0.05)
    with pytest.raises(UnreachableError, match="send_offsets_to_transaction has not returned"):
        bus.commit(OUTPUTS, OFFSETS, MEMBER)
    bus.close()
    assert made[0].calls == ["begin", "produce", "produce", "produce"]
    assert made[1].settings["transactional_id"] == "b-engine-1"
    assert made[1].calls == ["init"], "which ends the open transaction"
    returns.set()
