"""Lookups of connections: which of them are made, and whose result counts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import pytest
from interlock.engine.sending.target import SinkTarget, TargetError
from interlock.engine.sending.targets import AGAIN_S, FRESH_S, MOST_LOOKUPS, Resolved, Targets

OLD, NEW = SinkTarget(url="http://old.example"), SinkTarget(url="http://new.example")


class Lookups:
    """Threads in which nothing runs: a test says what each lookup finds, and when. Time is `now`."""

    def __init__(self) -> None:
        self.begun: list[Future[Any]] = []
        self.now = 0.0

    def submit(self, call: Any, connection: str, before: Any) -> Future[Any]:
        self.begun.append(made := Future())
        return made

    def find(self, number: int, found: SinkTarget | BaseException) -> None:
        future = self.begun[number]
        if isinstance(found, BaseException):
            future.set_exception(found)
        else:
            future.set_result(Resolved(found, None, ()))

    def targets(self, most_s: float = 0.0) -> Targets:
        """With a time limit of 0 each lookup that has not ended is one that takes too long."""
        return Targets(lambda _: OLD, self, lambda: self.now, most_s)  # type: ignore[arg-type]


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


async def settled() -> None:
    """What other threads have told the loop has been processed."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_lookup_that_takes_too_long_has_failed() -> None:
    async def work() -> None:
        lookups = Lookups()
        targets = lookups.targets()
        with pytest.raises(TargetError, match="'c' could not be looked up within 0 s"):
            await targets.get("c")
        with pytest.raises(TargetError, match="within 0 s"):  # at once: it is too early for another one
            await targets.get("c")
        assert len(lookups.begun) == 1

    run(work())


def test_what_a_lookup_finds_too_late_is_used() -> None:
    async def work() -> None:
        lookups = Lookups()
        targets = lookups.targets()
        with pytest.raises(TargetError):
            await targets.get("c")
        lookups.find(0, OLD)
        await settled()
        assert (await targets.get("c")).target == OLD

    run(work())


def test_another_lookup_replaces_one_that_hangs_and_its_late_result_changes_nothing() -> None:
    async def work() -> None:
        lookups = Lookups()
        targets = lookups.targets()
        with pytest.raises(TargetError):
            await targets.get("c")
        lookups.now += AGAIN_S
        with pytest.raises(TargetError):
            await targets.get("c")
        lookups.find(1, NEW)
        await settled()
        lookups.find(0, OLD)
        await settled()
        assert (await targets.get("c")).target == NEW

    run(work())


def test_a_connection_has_at_most_two_lookups_that_hang() -> None:
    async def work() -> None:
        lookups = Lookups()
        targets = lookups.targets()
        for _ in range(MOST_LOOKUPS + 2):
            with pytest.raises(TargetError):
                await targets.get("c")
            lookups.now += AGAIN_S
        assert len(lookups.begun) == MOST_LOOKUPS
        with pytest.raises(TargetError):
            await targets.get("other")
        assert len(lookups.begun) == MOST_LOOKUPS + 1
        lookups.find(0, ValueError())
        await settled()
        lookups.now += AGAIN_S
        with pytest.raises(TargetError):
            await targets.get("c")
        assert len(lookups.begun) == MOST_LOOKUPS + 2

    run(work())


def test_while_a_later_lookup_hangs_the_target_that_is_known_is_used(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work() -> None:
        lookups = Lookups()
        targets = lookups.targets()
        with pytest.raises(TargetError):
            await targets.get("c")
        lookups.find(0, OLD)
        await settled()
        for _ in range(4):
            lookups.now += FRESH_S
            assert (await targets.get("c")).target == OLD
            await settled()
        assert len(lookups.begun) == 1 + MOST_LOOKUPS

    with caplog.at_level(logging.WARNING):
        run(work())
    assert (
        caplog.text.count(
            "could not be looked up within 0 s. Deliveries use the connection as it was last read."
        )
        == 1
    )


def test_deliveries_wait_for_one_lookup_together() -> None:
    async def work() -> None:
        lookups = Lookups()
        targets = lookups.targets(3600)
        waiting = [asyncio.create_task(targets.get("c")) for _ in range(3)]
        await settled()
        assert not any(each.done() for each in waiting)
        lookups.find(0, NEW)
        assert [(await each).target for each in waiting] == [NEW] * 3
        assert len(lookups.begun) == 1

    run(work())


def test_a_lookup_for_which_there_is_no_thread_has_failed() -> None:
    class NoThreads(Lookups):
        def submit(self, call: Any, connection: str, before: Any) -> Future[Any]:
            raise RuntimeError("can't start new thread")

    async def work() -> None:
        with pytest.raises(TargetError, match="'c' could not be looked up: can't start new thread"):
            await NoThreads().targets().get("c")

    run(work())


def test_a_lookup_that_fails_after_a_refusal_does_not_say_that_the_connection_is_used(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work() -> None:
        lookups = Lookups()
        targets = lookups.targets()
        for number, found in enumerate((OLD, TargetError("no such connection"), OSError())):
            lookups.now += FRESH_S + AGAIN_S
            with suppress(TargetError):
                await targets.get("c")
            await settled()
            lookups.find(number, found)
            await settled()
        with pytest.raises(TargetError, match="no such connection"):
            await targets.get("c")

    with caplog.at_level(logging.WARNING):
        run(work())
    assert "OSError. Deliveries use" not in caplog.text
