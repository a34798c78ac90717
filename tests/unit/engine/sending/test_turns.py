"""Which partitions' reads wait for each other."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from interlock.engine.errors import EngineError, FetchError, UnreachableError
from interlock.engine.sending.turns import PartitionTurns


class Reads:
    """Requests whose reads end when a test says so. begun: their partitions, in order."""

    def __init__(self) -> None:
        self.turns = PartitionTurns()
        self.begun: list[str] = []
        self.admitted: list[str] = []
        self._results: dict[str, asyncio.Future[str]] = {}

    async def request(self, *partitions: str) -> list[str]:
        async with self.turns.admit(partitions):
            self.admitted.append("".join(partitions))
            return [await self.turns.read(each, lambda each=each: self._read(each)) for each in partitions]

    def start(self, *partitions: str) -> asyncio.Task[list[str]]:
        return asyncio.create_task(self.request(*partitions))

    async def fail(self, partition: str) -> None:
        """A request for the partition, whose read fails."""
        task = self.start(partition)
        await settled()
        self.end(partition, UnreachableError(f"{partition} is away"))
        with pytest.raises(UnreachableError):
            await task

    def end(self, partition: str, error: EngineError | None = None) -> None:
        result = self._results.pop(partition)
        if error is None:
            result.set_result(partition)
        else:
            result.set_exception(error)

    async def _read(self, partition: str) -> str:
        self.begun.append(partition)
        assert partition not in self._results
        self._results[partition] = asyncio.get_running_loop().create_future()
        return await self._results[partition]


async def settled() -> None:
    """Until no task can go on by itself."""
    for _ in range(20):
        await asyncio.sleep(0)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 20))


def test_reads_of_one_partition_go_one_by_one_and_others_beside_it() -> None:
    async def check() -> None:
        reads = Reads()
        first, second, other = reads.start("a"), reads.start("a"), reads.start("b")
        await settled()
        assert reads.begun == ["a", "b"]
        reads.end("b")
        assert await other == ["b"]
        reads.end("a")
        assert await first == ["a"]
        await settled()
        reads.end("a")
        assert await second == ["a"]

    run(check())


def test_what_waits_for_a_partition_gets_the_error_of_the_read_before_it() -> None:
    async def check() -> None:
        reads = Reads()
        tasks = [reads.start("a") for _ in range(5)]
        await settled()
        reads.end("a", UnreachableError("a is away"))
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert [(type(each), str(each)) for each in found] == [(UnreachableError, "a is away")] * 5
        assert reads.begun == ["a"]

    run(check())


def test_a_record_that_does_not_exist_is_the_error_of_its_own_request() -> None:
    async def check() -> None:
        reads = Reads()
        first, second = reads.start("a"), reads.start("a")
        await settled()
        reads.end("a", FetchError("gone"))
        with pytest.raises(FetchError):
            await first
        await settled()
        reads.end("a")
        assert await second == ["a"]

    run(check())


def test_stalled_partitions_have_one_turn_together_and_those_that_wait_are_not_admitted() -> None:
    async def check() -> None:
        reads = Reads()
        await reads.fail("a")
        await reads.fail("b")
        reads.admitted.clear()
        first, second, healthy = reads.start("a"), reads.start("b", "c"), reads.start("c")
        await settled()
        assert reads.admitted == ["a", "c"]
        reads.end("c")
        assert await healthy == ["c"]
        reads.end("a", UnreachableError("a is still away"))
        with pytest.raises(UnreachableError, match="still away"):
            await first
        await settled()
        reads.end("b")
        await settled()
        reads.end("c")
        assert await second == ["b", "c"]

    run(check())


def test_what_waits_for_a_stalled_partition_gets_the_error_of_the_next_read_too() -> None:
    async def check() -> None:
        reads = Reads()
        await reads.fail("a")
        tasks = [reads.start("a") for _ in range(5)]
        await settled()
        reads.end("a", UnreachableError("still away"))
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert [str(each) for each in found] == ["still away"] * 5
        assert len(reads.begun) == 2

    run(check())


@pytest.mark.parametrize("error", [None, FetchError("gone")], ids=["read", "gone"])
def test_a_partition_that_answers_is_stalled_no_longer(error: EngineError | None) -> None:
    async def check() -> None:
        reads = Reads()
        await reads.fail("a")
        await reads.fail("b")
        first, waiting = reads.start("a"), reads.start("a")
        await settled()
        reads.end("a", error)
        await asyncio.gather(first, return_exceptions=True)
        await settled()
        still = reads.start("b")  # `waiting` has left the turn of the stalled ones
        await settled()
        assert reads.begun[-2:] == ["a", "b"]
        for each in ("a", "b"):
            reads.end(each)
        assert [await waiting, await still] == [["a"], ["b"]]

    run(check())


def test_a_request_that_is_cancelled_gives_its_turns_back() -> None:
    async def check() -> None:
        reads = Reads()
        await reads.fail("a")
        first, second = reads.start("a"), reads.start("a")
        await settled()
        reads._results.pop("a")
        first.cancel()
        await settled()
        reads.end("a")
        assert await second == ["a"]

    run(check())
