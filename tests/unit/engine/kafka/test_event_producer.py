from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from confluent_kafka import KafkaError, KafkaException
from interlock.engine.config import BusConfig
from interlock.engine.errors import ConfigError, NoRoom, NotSent, UnreachableError
from interlock.engine.kafka import event_producer
from interlock.engine.kafka.event_producer import EventProducer
from interlock.events import Event

from tests.unit.engine.kafka.clients import CONFIG

UNKNOWN_TOPIC = KafkaException(KafkaError(KafkaError._UNKNOWN_TOPIC, "no such topic"))
# As librdkafka's client raises it: `produce` without a reason and not marked as fatal, `poll` once with both.
REFUSED = KafkaException(KafkaError(KafkaError._FATAL, "Unable to produce message: Local: Fatal error"))
FATAL = KafkaException(KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "out of order", fatal=True))


class Client:
    """Takes `room` records, then refuses with `refusal`; reports what it took on request.

    may_be_made: awaited by its constructor.
    """

    asked: ClassVar[int] = 0  # how many records all clients were given, also those that they refused

    def __init__(self, room: int = 1000, refusal: Exception | None = None) -> None:
        self.taken: list[Any] = []
        self.may_be_made = threading.Event()
        self.may_be_made.set()
        self.settings: dict[str, Any] = {}
        self._room, self._refusal = room, refusal or BufferError("queue full")
        self._due: queue.Queue[Callable[[], None]] = queue.Queue()

    def __len__(self) -> int:
        return len(self.taken)

    def produce(self, _topic: str, _value: Any, _key: Any, _partition: int, callback: Any, *_: Any) -> None:
        Client.asked += 1
        if self._room == 0:
            raise self._refusal
        self._room -= 1
        self.taken.append(callback)

    def report(self, error: KafkaError | None = None) -> None:
        for each in self.taken:
            self._due.put(lambda each=each: each(error, None))
        self.taken = []

    def fail(self, error: Exception) -> None:
        def raised() -> None:
            raise error

        self._due.put(raised)

    def poll(self, timeout: float) -> int:
        try:
            self._due.get(timeout=timeout or None, block=timeout > 0)()
        except queue.Empty:
            return 0
        return 1


def run(
    monkeypatch: pytest.MonkeyPatch,
    clients: Sequence[Client | Exception],
    check: Callable[[EventProducer], Awaitable[None]],
    config: BusConfig = CONFIG,
) -> None:
    """clients: what making each one gives, in this order."""
    left = list(clients)

    def connect(*_: Any, **settings: Any) -> Client:
        made = left.pop(0)
        if isinstance(made, Exception):
            raise made
        assert made.may_be_made.wait(5), "the event loop waits for the client"
        made.settings = settings
        return made

    monkeypatch.setattr(event_producer, "connect", connect)
    monkeypatch.setattr(event_producer, "POLL_S", 0.01)

    async def made() -> None:
        async with asyncio.timeout(20):  # of a write that never ends
            producer = EventProducer(config, asyncio.get_running_loop(), 10)
            try:
                await check(producer)
            finally:
                producer.close()

    asyncio.run(made())
    assert not left


def test_events_of_interlocks_own_types_get_a_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """A receiver's credential may write them: then the receiver is their emitter."""
    client = Client()
    sent: list[dict[str, bytes]] = []

    def produce(*arguments: Any) -> None:
        sent.append(dict(arguments[-1]))
        client.taken.append(arguments[4])

    monkeypatch.setattr(client, "produce", produce)
    secret = {"interlock.proof.secret": "s" * 32}
    config = replace(CONFIG, client={**CONFIG.client, **secret})

    async def check(producer: EventProducer) -> None:
        own = Event.of("interlock.airflow.dag_run.succeeded", "/s")
        task = asyncio.create_task(producer.write([own, *events(1)]))
        for _ in range(5):
            await asyncio.sleep(0)
        client.report()
        await task

    run(monkeypatch, [client], check, config)
    assert ["ce_interlockproof" in headers for headers in sent] == [True, False]


def events(number: int) -> list[Event]:
    return [Event.of("t", "/s", id=str(each)) for each in range(number)]


async def begun(producer: EventProducer, number: int) -> asyncio.Task[None]:
    """A write that a client has been asked for, or that has failed before that."""
    asked = Client.asked
    task = asyncio.create_task(producer.write(events(number)))
    while Client.asked == asked and not task.done():  # noqa: ASYNC110  # a client may be made first
        await asyncio.sleep(0)
    for _ in range(5):
        await asyncio.sleep(0)
    return task


def test_a_write_ends_when_every_event_is_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client()

    async def check(producer: EventProducer) -> None:
        tasks = [await begun(producer, 3), await begun(producer, 1)]
        assert not any(task.done() for task in tasks)
        client.report()
        await asyncio.gather(*tasks)
        await producer.write([])

    run(monkeypatch, [client], check)


def test_a_write_beside_several_others_waits_for_more_records_and_a_lone_one_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_once, together = Client(), Client()

    async def check(producer: EventProducer) -> None:
        for _ in range(2):  # the clients stay
            tasks = [await begun(producer, 1) for _ in range(5)]
            assert [len(at_once.taken), len(together.taken)] == [2, 3]
            together.report()
            at_once.report()
            await asyncio.gather(*tasks)
        assert at_once.settings["linger_ms"] == 0 < together.settings["linger_ms"]

    run(monkeypatch, [at_once, together], check)


def test_one_event_that_is_not_acknowledged_fails_the_write(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client()

    async def check(producer: EventProducer) -> None:
        task = await begun(producer, 2)
        lost = client.taken.pop()
        client.report()
        client.taken = [lost]
        client.report(KafkaError(KafkaError._MSG_TIMED_OUT))
        with pytest.raises(UnreachableError, match="did not acknowledge"):
            await task

    run(monkeypatch, [client], check)


def test_an_event_that_is_too_large_is_refused_before_any_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client()

    async def check(producer: EventProducer) -> None:
        large = Event.of("t", "/s", data=b"x" * 1024 * 1024)
        with pytest.raises(NotSent, match="dataref"):
            await producer.write([*events(1), large])
        assert not client.taken

    run(monkeypatch, [client], check)


@pytest.mark.parametrize("room", [0, 1, 2])
@pytest.mark.parametrize(
    ("refusal", "raised"),
    [(BufferError("full"), NoRoom), (UNKNOWN_TOPIC, UnreachableError)],
    ids=["full", "unknown topic"],
)
def test_a_refused_write_ends_when_the_client_holds_none_of_its_events(
    monkeypatch: pytest.MonkeyPatch, room: int, refusal: Exception, raised: type[Exception]
) -> None:
    client = Client(room, refusal)

    async def check(producer: EventProducer) -> None:
        task = await begun(producer, 3)
        assert task.done() == (room == 0)
        client.report()
        with pytest.raises(raised):
            await task

    run(monkeypatch, [client], check)


def test_after_a_refusal_for_a_fatal_error_another_client_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Client(1, REFUSED), Client()

    async def check(producer: EventProducer) -> None:
        task = await begun(producer, 2)
        other = await begun(producer, 1)
        assert not task.done()
        first.report(KafkaError(KafkaError._PURGE_QUEUE))  # what the first client held
        with pytest.raises(UnreachableError, match="Fatal error"):
            await task
        second.report()
        await other

    run(monkeypatch, [first, second], check)


@pytest.mark.parametrize("code", [KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT])
def test_a_fatal_error_ends_the_writes_with_its_reason_and_the_next_one_has_another_client(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    first, second = Client(), Client()

    async def check(producer: EventProducer) -> None:
        tasks = [await begun(producer, 2), await begun(producer, 1)]
        first.fail(FATAL)
        first.report(KafkaError(code))
        for task in tasks:
            with pytest.raises(UnreachableError, match="out of order"):
                await task
        task = await begun(producer, 1)
        second.report()
        await task

    run(monkeypatch, [first, second], check)


def test_after_a_write_that_was_not_acknowledged_in_time_another_client_writes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client that has lost its brokers never writes again (librdkafka issue 5301)."""
    first, second = Client(), Client()

    async def check(producer: EventProducer) -> None:
        task = await begun(producer, 1)
        first.report(KafkaError(KafkaError._MSG_TIMED_OUT))
        with pytest.raises(UnreachableError, match="did not acknowledge"):
            await task
        task = await begun(producer, 1)
        second.report()
        await task

    run(monkeypatch, [first, second], check)


def test_closing_waits_for_all_clients_together(monkeypatch: pytest.MonkeyPatch) -> None:
    clients, waited = [Client(1, REFUSED), Client(), Client()], [0.0]
    monkeypatch.setattr(event_producer, "monotonic", lambda: sum(waited))

    async def check(producer: EventProducer) -> None:
        tasks = [await begun(producer, 1)]
        with pytest.raises(UnreachableError):
            await producer.write(events(1))
        tasks += [await begun(producer, 1), await begun(producer, 1)]
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "join", lambda _, timeout: waited.append(timeout))
            producer.close()
        assert sum(waited) == event_producer.CLOSE_S
        for client in clients:
            client.report()
        await asyncio.gather(*tasks)

    run(monkeypatch, clients, check)


def test_an_acknowledgement_after_the_loop_has_closed_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    client, producers = Client(), []

    async def check(producer: EventProducer) -> None:
        producers.append(producer)
        monkeypatch.setattr(event_producer, "CLOSE_S", 0.0)
        (await begun(producer, 1)).cancel()

    run(monkeypatch, [client], check)
    monkeypatch.setattr(event_producer, "CLOSE_S", 20.0)
    client.report()
    client.report()
    producers[0].close()  # an error in the thread fails the test


def test_a_cancelled_write_disturbs_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client()

    async def check(producer: EventProducer) -> None:
        cancelled, other = await begun(producer, 2), await begun(producer, 1)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        client.report()
        await other

    run(monkeypatch, [client], check)


def test_a_further_client_is_made_beside_the_event_loop_and_once_for_all_writes_that_need_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its constructor may wait ten seconds for a token; the API server stood still meanwhile."""
    at_once, together = Client(), Client()
    together.may_be_made.clear()

    async def check(producer: EventProducer) -> None:
        tasks = [await begun(producer, 1) for _ in range(2)]
        tasks += [asyncio.create_task(producer.write(events(1))) for _ in range(3)]
        await asyncio.sleep(0.01)
        at_once.report()
        await asyncio.gather(*tasks[:2])
        together.may_be_made.set()
        await taken(together, 3)
        together.report()
        await asyncio.gather(*tasks)

    run(monkeypatch, [at_once, together], check)


def test_a_client_that_is_made_for_cancelled_writes_serves_later_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = Client(0, REFUSED), Client()
    second.may_be_made.clear()

    async def check(producer: EventProducer) -> None:
        with pytest.raises(UnreachableError):
            await producer.write(events(1))
        cancelled = asyncio.create_task(producer.write(events(1)))
        await asyncio.sleep(0.01)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        second.may_be_made.set()
        task = await begun(producer, 1)
        second.report()
        await task

    run(monkeypatch, [first, second], check)


def test_a_client_that_is_made_after_the_closing_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Client(0, REFUSED), Client()
    second.may_be_made.clear()

    async def check(producer: EventProducer) -> None:
        with pytest.raises(UnreachableError):
            await producer.write(events(1))
        cancelled = asyncio.create_task(producer.write(events(1)))
        await asyncio.sleep(0.01)
        cancelled.cancel()
        await asyncio.to_thread(producer.close)
        second.may_be_made.set()

    run(monkeypatch, [first, second], check)  # the loop's threads end before it does
    threads = [each for each in threading.enumerate() if each.name == "interlock-acknowledgements"]
    for thread in threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize("error", [ConfigError("a file is missing"), UnreachableError("no token")])
def test_a_further_client_that_cannot_be_made_now_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The connection was good for the first client, so a certificate's file is being replaced, say."""
    first, second = Client(0, REFUSED), Client()

    async def check(producer: EventProducer) -> None:
        with pytest.raises(UnreachableError):
            await producer.write(events(1))
        with pytest.raises(UnreachableError, match=str(error)):
            await producer.write(events(1))
        task = await begun(producer, 1)
        second.report()
        await task

    run(monkeypatch, [first, error, second], check)


TOO_LARGE = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)


async def taken(client: Client, records: int) -> None:
    while len(client.taken) < records:  # noqa: ASYNC110  # the poll thread's acknowledgements come first
        await asyncio.sleep(0)


@pytest.mark.parametrize("code", [KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE])
def test_an_event_that_the_brokers_refuse_also_alone_is_too_large(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    client, lone = Client(), Client()

    async def check(producer: EventProducer) -> None:
        task = await begun(producer, 2)
        client.report(KafkaError(code))
        await taken(lone, 2)
        lone.report(KafkaError(code))
        with pytest.raises(NotSent, match=r"max\.message\.bytes of the topic .*dataref"):
            await task

    run(monkeypatch, [client, lone], check)


def test_an_event_that_was_refused_in_a_batch_with_others_is_written_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client, lone = Client(), Client()

    async def check(producer: EventProducer) -> None:
        for _ in range(2):
            task = await begun(producer, 2)
            client.report(TOO_LARGE)
            await taken(lone, 2)
            lone.report()
            await task

    run(monkeypatch, [client, lone], check)


def test_an_event_that_the_client_finds_too_large_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(0, KafkaException(TOO_LARGE))

    async def check(producer: EventProducer) -> None:
        with pytest.raises(NotSent, match="dataref"):
            await (await begun(producer, 1))

    run(monkeypatch, [client], check)


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "Allow this connection's user to write to the topic "),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, "Allow this connection's user to write to the topic "),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, "Create the topic "),
        (KafkaError._UNKNOWN_TOPIC, "Create the topic "),
        (KafkaError._MSG_TIMED_OUT, "Check the brokers and the topic "),
    ],
)
def test_a_topic_that_cannot_be_written_is_named(
    monkeypatch: pytest.MonkeyPatch, code: int, advice: str
) -> None:
    client = Client()

    async def check(producer: EventProducer) -> None:
        task = await begun(producer, 1)
        client.report(KafkaError(code))
        with pytest.raises(UnreachableError, match=advice + CONFIG.topic("event")):
            await task

    run(monkeypatch, [client], check)


def test_a_large_write_lets_other_tasks_run(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(10_000)

    async def check(producer: EventProducer) -> None:
        task, turns = asyncio.create_task(producer.write(events(5000))), 0
        while len(client.taken) < 5000:
            await asyncio.sleep(0)
            turns += 1
        assert turns > 20
        client.report()
        await task

    run(monkeypatch, [client], check)
