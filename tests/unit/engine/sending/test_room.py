"""Who gets room, in which order; and that all is given back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

from interlock.engine.sending.room import HeldRoom, Room


class Asking:
    """Tasks that ask for room, and hold it until `end`."""

    def __init__(self, total: int) -> None:
        self.room = Room(total)
        self.admitted: list[str] = []
        self.held: dict[str, HeldRoom] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ends: dict[str, asyncio.Event] = {}

    async def ask(self, name: str, size: int, sink: str = "") -> None:
        """sink: by default the first letter of the name."""
        self._ends[name] = asyncio.Event()
        self._tasks[name] = asyncio.create_task(self._hold(name, sink or name[0], size))
        await settled()

    async def _hold(self, name: str, sink: str, size: int) -> None:
        async with self.room.hold(sink, size) as self.held[name]:
            self.admitted.append(name)
            await self._ends[name].wait()

    async def end(self, *names: str) -> None:
        for name in names:
            self._ends[name].set()
        await settled()

    async def cancel(self, *names: str) -> None:
        for name in names:
            self._tasks[name].cancel()
        await settled()


async def settled() -> None:
    for _ in range(8):
        await asyncio.sleep(0)


def run(work: Callable[[Asking], Awaitable[None]], total: int = 100) -> None:
    async def whole() -> None:
        asking = Asking(total)
        await work(asking)
        await asking.end(*asking._ends)
        assert (asking.room.used, asking.room._by_sink, [*asking.room._waiting]) == (0, {}, [])

    asyncio.run(whole())


def test_who_asks_for_more_than_is_left_waits() -> None:
    async def work(asking: Asking) -> None:
        await asking.ask("a", 60)
        await asking.ask("b", 50)
        assert asking.admitted == ["a"]
        await asking.end("a")
        assert asking.admitted == ["a", "b"]

    run(work)


def test_nobody_overtakes_a_sink_that_holds_nothing() -> None:
    async def work(asking: Asking) -> None:
        await asking.ask("a", 60)
        await asking.ask("b", 50)
        await asking.ask("c", 10)
        assert asking.admitted == ["a"]
        await asking.end("a")
        assert asking.admitted == ["a", "b", "c"]

    run(work)


def test_what_is_larger_than_all_room_goes_alone() -> None:
    async def work(asking: Asking) -> None:
        await asking.ask("a", 10)
        await asking.ask("b", 500)
        await asking.ask("c", 10)
        assert asking.admitted == ["a"]
        await asking.end("a")
        assert asking.admitted == ["a", "b"]
        await asking.end("b")
        assert asking.admitted == ["a", "b", "c"]

    run(work)


def test_a_sink_that_answers_slowly_leaves_room_to_others() -> None:
    async def work(asking: Asking) -> None:
        for number in range(20):
            await asking.ask(f"slow{number}", 10)
        assert len(asking.admitted) == 5
        await asking.ask("b", 10)
        await asking.ask("b2", 10)
        assert asking.admitted[5:] == ["b", "b2"]

    run(work)


def test_the_firings_of_a_sink_keep_their_order() -> None:
    async def work(asking: Asking) -> None:
        await asking.ask("a1", 40)
        await asking.ask("a2", 40)
        await asking.ask("a3", 1)
        assert asking.admitted == ["a1"]
        await asking.end("a1")
        assert asking.admitted == ["a1", "a2", "a3"]

    run(work)


def test_what_is_not_needed_after_all_goes_to_others() -> None:
    async def work(asking: Asking) -> None:
        await asking.ask("a", 100)
        await asking.ask("b", 90)
        asking.held["a"].keep(10)
        await settled()
        assert asking.admitted == ["a", "b"]

    run(work)


def test_one_that_gives_up_its_turn_holds_up_nobody() -> None:
    async def work(asking: Asking) -> None:
        await asking.ask("a", 60)
        await asking.ask("b", 50)
        await asking.ask("c", 10)
        await asking.cancel("b")
        assert asking.admitted == ["a", "c"]

    run(work)


def test_one_that_is_cancelled_just_when_it_gets_room_gives_it_back() -> None:
    async def work(asking: Asking) -> None:
        await asking.ask("a", 100)
        await asking.ask("b", 100)
        asking.held["a"].keep(0)  # admits b
        asking._tasks["b"].cancel()
        await settled()
        await asking.ask("c", 100)
        assert asking.admitted == ["a", "c"]

    run(work)


def test_one_that_is_cancelled_just_before_it_would_get_room_does_not_hold_up_others() -> None:
    async def work(asking: Asking) -> None:
        await asking.ask("a", 100)
        await asking.ask("b", 100)
        await asking.ask("c", 100)
        asking._tasks["b"].cancel()
        asking.held["a"].keep(0)
        await settled()
        assert asking.admitted == ["a", "c"]

    run(work)


def test_everyone_has_a_turn_whatever_they_ask_and_the_total_is_kept() -> None:
    for seed in range(200):
        chance = Random(seed)

        async def work(asking: Asking, chance: Random = chance) -> None:
            open_ones: list[str] = []
            for number in range(30):
                name = f"{chance.choice('abcd')}{number}"
                await asking.ask(name, chance.choice((1, 10, 40, 100, 150)))
                open_ones.append(name)
                assert asking.room.used <= 100 or len(asking.room._by_sink) == 1
                if chance.random() < 0.3:
                    await asking.cancel(gone := open_ones.pop(chance.randrange(len(open_ones))))
                    asking.admitted = [each for each in asking.admitted if each != gone]
            while open_ones:
                held = [name for name in open_ones if name in asking.admitted]
                assert held, "nobody holds room, and all wait"
                await asking.end(held[0])
                open_ones.remove(held[0])

        run(work)
