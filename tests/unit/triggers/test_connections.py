"""Many triggers that read connections at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest
from airflow.sdk import BaseHook, Connection
from interlock.triggers import connections
from interlock.triggers.connections import FRESH_S, UnreadableError, read_connection


class Backend:
    """Answers when `open`; counts queries. found: {connection id: answer}; an exception is raised."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.queries: list[str] = []
        self.found: dict[str, Connection | Exception] = {
            name: Connection(conn_id=name, conn_type="kafka") for name in ("c", "d")
        }
        monkeypatch.setattr(BaseHook, "aget_connection", self.get)
        monkeypatch.setattr("time.monotonic", lambda: self.now)
        monkeypatch.setattr(connections, "reads", {})

    async def get(self, conn_id: str) -> Connection:
        self.queries.append(conn_id)
        self.open = asyncio.Event()
        await self.open.wait()
        found = self.found[conn_id]
        if isinstance(found, Exception):
            raise found
        return found

    async def answer(self, *reads: Awaitable[Any]) -> list[Any]:
        """Returns the answers of readers that all start before the backend answers."""
        tasks = [asyncio.ensure_future(read) for read in reads]
        for _ in range(3):
            await asyncio.sleep(0)
        self.open.set()
        return await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Backend:
    return Backend(monkeypatch)


def test_many_readers_of_one_connection_share_a_query(backend: Backend) -> None:
    async def work() -> None:
        found = await backend.answer(*(read_connection("c") for _ in range(1000)))
        assert found == [backend.found["c"]] * 1000

    asyncio.run(work())
    assert backend.queries == ["c"]


@pytest.mark.parametrize("bad", [False, True])
def test_an_answer_or_an_error_is_reused_for_seconds_and_then_read_again(backend: Backend, bad: bool) -> None:
    good = backend.found["c"]
    if bad:
        backend.found["c"] = OSError("the backend is away")

    async def work() -> None:
        for _ in range(3):
            [answer] = await backend.answer(read_connection("c"))
            if bad:
                assert isinstance(answer, UnreadableError)
                assert "'c' cannot be read: the backend is away." in str(answer)
            else:
                assert answer is good
        assert backend.queries == ["c"]
        backend.now += FRESH_S
        backend.found["c"] = good
        assert await backend.answer(read_connection("c")) == [good]

    asyncio.run(work())
    assert backend.queries == ["c", "c"]


def test_each_connection_has_its_own_query(backend: Backend) -> None:
    async def work() -> None:
        for name in ("c", "d"):
            assert await backend.answer(read_connection(name)) == [backend.found[name]]

    asyncio.run(work())
    assert backend.queries == ["c", "d"]


def test_a_cancelled_reader_does_not_cancel_the_query_of_others(backend: Backend) -> None:
    async def work() -> None:
        given_up = asyncio.ensure_future(read_connection("c"))
        await asyncio.sleep(0)
        other = asyncio.ensure_future(read_connection("c"))
        await asyncio.sleep(0)
        given_up.cancel()
        assert await backend.answer(other) == [backend.found["c"]]

    asyncio.run(work())
    assert backend.queries == ["c"]


def test_a_query_in_another_event_loop_is_not_shared(backend: Backend) -> None:
    async def begun() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(read_connection("c")), 0)

    async def work() -> None:
        assert await backend.answer(read_connection("c")) == [backend.found["c"]]

    with asyncio.Runner() as other:
        other.run(begun())
        asyncio.run(work())
    assert backend.queries == ["c", "c"]
