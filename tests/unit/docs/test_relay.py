"""What docs/use/relay.md shows does what the page says."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from interlock.triggers.relay_messages import Message

PAGE = (Path(__file__).parents[3] / "docs" / "use" / "relay.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    found: dict[str, Any] = {"__name__": "page"}
    for block in BLOCKS:
        exec(compile(block, "page", "exec"), found)
    return found


class Client:
    """Notes what it is asked for, as the hooks of SQS and Pub/Sub."""

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Client]:
        yield self

    async def get_async_conn(self) -> Any:
        return self.connection()

    async def acknowledge(self, **asked: Any) -> None:
        self.asked = asked

    delete_message_batch = acknowledge


def test_the_relay_of_the_page_is_a_dag(names: dict[str, Any]) -> None:
    assert names["orders"].task_ids == ["relay"]


def test_the_function_of_the_page_makes_an_event_of_an_order_and_none_of_a_test(
    names: dict[str, Any],
) -> None:
    event = names["order_event"](Message(b'{"id": "7", "shop": "s", "order": {"sum": 1}}'))
    assert (event.id, event.subject, event.payload) == ("7", "s", {"sum": 1})
    assert names["order_event"](Message(b'{"test": true}')) is None
    assert names["order_event"](Message(b"hello")) is None


def test_the_functions_of_the_page_acknowledge_what_was_fired(names: dict[str, Any]) -> None:
    client = Client()
    sqs = SimpleNamespace(hook=client, sqs_queue="https://sqs/q")
    batch = [{"MessageId": f"m{n}", "ReceiptHandle": f"r{n}", "Body": ""} for n in range(2)]
    asyncio.run(names["delete_from_sqs"]({"message_batch": batch}, sqs))
    assert client.asked == {
        "QueueUrl": "https://sqs/q",
        "Entries": [{"Id": "0", "ReceiptHandle": "r0"}, {"Id": "1", "ReceiptHandle": "r1"}],
    }
    pubsub = SimpleNamespace(hook=client, project_id="p", subscription="s")
    asyncio.run(names["acknowledge_to_pubsub"]({"message": [{"ack_id": "a"}]}, pubsub))
    assert client.asked == {"project_id": "p", "subscription": "s", "ack_ids": ["a"]}
