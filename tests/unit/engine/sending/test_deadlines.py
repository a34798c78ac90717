"""`Deadlines` beside `asyncio.timeout`, on a loop whose time passes at once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from interlock.engine.sending.deadlines import Deadlines

SECONDS = 30.0


class FastLoop(asyncio.SelectorEventLoop):
    """Its time jumps to the next timer when nothing else is to be done."""

    now = 0.0
    timers = 0

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: object, *args: object, **more: object) -> asyncio.TimerHandle:
        self.timers += 1
        return super().call_at(when, callback, *args, **more)  # type: ignore[arg-type]

    def _run_once(self) -> None:
        waiting = [handle.when() for handle in self._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]
        if waiting and not self._ready:  # type: ignore[attr-defined]
            self.now = max(self.now, min(waiting))
        super()._run_once()  # type: ignore[misc]


def run(main: Callable[[FastLoop], Awaitable[None]]) -> None:
    loop = FastLoop()
    try:
        loop.run_until_complete(main(loop))  # type: ignore[arg-type]
    finally:
        loop.close()


def test_they_end_what_a_timeout_of_its_own_ends_and_at_the_same_time() -> None:
    async def main(loop: FastLoop) -> None:
        deadlines, chance = Deadlines(SECONDS), random.Random(28)
        ended: dict[tuple[str, int], tuple[str, float]] = {}

        async def request(name: str, number: int, start: float, lasts: float) -> None:
            await asyncio.sleep(start)
            timeout = deadlines.begin() if name == "shared" else asyncio.timeout(SECONDS)
            try:
                async with timeout:
                    await asyncio.sleep(lasts)
                ended["answered", number] = name, loop.now
            except TimeoutError:
                ended["late", number] = name, loop.now
            finally:
                if name == "shared":
                    deadlines.end(timeout)

        given = [(chance.uniform(0, 200), chance.choice([1, 20, 29.5, 31, 500])) for _ in range(60)]
        found = []
        for name in ("own", "shared"):
            begun = loop.now
            await asyncio.gather(*(request(name, number, *each) for number, each in enumerate(given)))
            found.append({key: round(at - begun, 6) for key, (_, at) in ended.items()})
            ended.clear()
        assert found[0] == found[1]
        assert {what for what, _ in found[0]} == {"answered", "late"}

    run(main)


def test_requests_that_end_in_time_need_no_timer_of_their_own() -> None:
    async def main(loop: FastLoop) -> None:
        deadlines = Deadlines(SECONDS)
        for _ in range(100):
            timeout = deadlines.begin()
            async with timeout:
                pass
            deadlines.end(timeout)
        assert loop.timers == 1

    run(main)


def test_a_cancelled_request_is_cancelled_and_not_late() -> None:
    async def main(_: FastLoop) -> None:
        deadlines = Deadlines(SECONDS)

        async def request() -> None:
            timeout = deadlines.begin()
            try:
                async with timeout:
                    await asyncio.sleep(2 * SECONDS)
            finally:
                deadlines.end(timeout)

        task = asyncio.ensure_future(request())
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()

    run(main)
