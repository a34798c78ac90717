"""A process of waits: `python -m bench.peers.host KIND NUMBERS SERVERS BUS`, NUMBERS as in `0,1,2`.

It prints "imported" before the first wait begins, then a line for each wait that is met: its number and the
time of time.monotonic(), which processes of one machine share.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

Wait = Callable[[int], Awaitable[object]]


def connection(name: str, servers: str, **more: object) -> str:
    """Declares a Kafka connection in this process's environment. Returns its id."""
    extra = {"bootstrap.servers": servers, **more}
    os.environ[f"AIRFLOW_CONN_{name.upper()}"] = json.dumps({"conn_type": "kafka", "extra": extra})
    return name


def interlock(servers: str, bus: str) -> Wait:
    import confluent_kafka  # noqa: F401  # before memory is measured, as with the others
    import interlock.engine.runtime.runtime  # noqa: F401
    from interlock import event
    from interlock.triggers.event import EventTrigger

    name = connection("bench", servers)
    condition = event("peer", by="subject", label="peer").to_json()
    since_ms = int(time.time() * 1000)

    async def wait(number: int) -> object:
        trigger = EventTrigger(f"bench/{number}", condition, f"k{number}", since_ms, name, bus, "bench")
        return await _first(trigger.run())

    return wait


def await_message(servers: str, bus: str, **arguments: Any) -> Wait:
    """A consumer group for each wait, since each must see all messages."""
    from airflow.providers.apache.kafka.triggers.await_message import AwaitMessageTrigger

    async def wait(number: int) -> object:
        group = {"group.id": f"{bus}-{number}", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        trigger = AwaitMessageTrigger(
            topics=[f"{bus}-event"],
            apply_function="bench.peers.accepting.only",
            apply_function_kwargs={"key": f"k{number}"},
            kafka_config_id=connection(f"bench_{number}", servers, **group),
            **arguments,
        )
        return await _first(trigger.run())

    return wait


def shared_stream(servers: str, bus: str) -> Wait:
    """Drives the manager as the triggerer does; confirms each event as persisted at once."""
    from airflow.providers.apache.kafka.triggers.shared_stream import KafkaSharedStreamTrigger
    from airflow.triggers.base import TriggerEvent
    from airflow.triggers.shared_stream import SharedStreamManager

    class Only(KafkaSharedStreamTrigger):
        """A custom filter, as in its docs."""

        wanted = ""

        async def filter_shared_stream(
            self, shared_stream: AsyncIterator[Any]
        ) -> AsyncIterator[TriggerEvent]:
            async for value in shared_stream:
                if json.loads(value).get("k") == self.wanted:
                    yield TriggerEvent(value.decode())

    group = {"group.id": bus, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    name = connection("bench", servers, **group)
    manager = SharedStreamManager()

    async def wait(number: int) -> object:
        trigger = Only(topics=[f"{bus}-event"], kafka_config_id=name)
        trigger.wanted = f"k{number}"
        key = trigger.shared_stream_key()
        stream = manager.subscribe(trigger_id=number, trigger=trigger, key=key)
        found = await _first(trigger.filter_shared_stream(stream))
        seq = manager.bind_pending_event(trigger_id=number, key=key)
        if seq is not None:
            manager.confirm_persisted([seq])
        report_met(number)
        await manager.unsubscribe(number, key)
        return found

    return wait


def consumer_loop(servers: str, bus: str) -> Wait:
    """Written by hand in a sensor or task: a consumer in a loop that polls for a second."""
    from confluent_kafka import Consumer

    async def wait(number: int) -> object:
        consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": f"{bus}-{os.getpid()}",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe([f"{bus}-event"])
        while True:  # the process has nothing else to do
            message = consumer.poll(1.0)
            if message is None or message.error() is not None:
                continue
            if json.loads(message.value() or b"{}").get("k") == f"k{number}":
                return message

    return wait


KINDS: dict[str, Callable[[str, str], Wait]] = {
    "interlock": interlock,
    "await": await_message,
    "await-tuned": lambda servers, bus: await_message(
        servers, bus, poll_timeout=0.01, poll_interval=0, commit_offset=False
    ),
    "shared": shared_stream,
    "loop": consumer_loop,
}


async def _first(stream: AsyncIterator[object]) -> object:
    async for event in stream:
        return event
    raise RuntimeError("the trigger ended without an event")


_REPORTED: set[int] = set()


def report_met(number: int) -> None:
    if number not in _REPORTED:
        _REPORTED.add(number)
        print(number, time.monotonic(), flush=True)


async def _host(kind: str, numbers: list[int], servers: str, bus: str) -> None:
    wait = KINDS[kind](servers, bus)
    print("imported", flush=True)
    await asyncio.to_thread(sys.stdin.readline)

    async def one(number: int) -> None:
        try:
            await wait(number)
        except Exception as error:  # noqa: BLE001  # as in a triggerer, a failed wait does not end others
            print("failed", number, repr(error)[:500], flush=True)
        else:
            report_met(number)

    await asyncio.gather(*(one(number) for number in numbers))


if __name__ == "__main__":
    asyncio.run(_host(sys.argv[1], [int(n) for n in sys.argv[2].split(",")], *sys.argv[3:]))
