"""The runtime: lives of its parts, what waiting tasks are told of them, and a changed connection."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from interlock.engine import runtime as module
from interlock.engine.config import BusConfig
from interlock.engine.errors import EngineError
from interlock.engine.notices import Notice
from interlock.engine.runtime import Runtime

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "one:1"})
OTHER = BusConfig(name="b", client={"bootstrap.servers": "two:2"})


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Runtime:
    monkeypatch.setattr(module, "MOST_WAIT_S", 0.01)
    monkeypatch.setattr(module, "WELL_AFTER_S", -1.0)
    return Runtime(CONFIG)


def lives(runtime: Runtime, *each: Callable[..., Any]) -> None:
    """Run these lives one after the other, as a thread does, and stop after the last."""
    left = list(each)

    def life(over: threading.Event, config: BusConfig, well: Callable[[], None]) -> None:
        if not left:
            runtime._stopped = True
            return
        left.pop(0)(over, config, well)

    runtime._live("The part", life)


def fails(text: str) -> Callable[..., None]:
    def life(over: threading.Event, config: BusConfig, well: Callable[[], None]) -> None:
        raise EngineError(text)

    return life


def is_well(over: threading.Event, config: BusConfig, well: Callable[[], None]) -> None:
    well()


def test_what_ended_a_life_is_told_and_taken_back_when_the_next_is_well(runtime: Runtime) -> None:
    heard: list[Notice] = []
    runtime.board.listen("me", heard.append)
    lives(runtime, fails("no topic"), is_well)
    assert heard == [Notice("no topic"), Notice(None)]


def test_a_part_that_fails_again_and_again_is_told_once_and_never_well(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WELL_AFTER_S", 60.0)

    def well_then_fails(over: threading.Event, config: BusConfig, well: Callable[[], None]) -> None:
        well()
        raise EngineError("still broken")

    heard: list[Notice] = []
    runtime.board.listen("me", heard.append)
    lives(runtime, *[well_then_fails] * 5)
    assert heard == [Notice("still broken")]


def test_pauses_start_small_again_after_a_good_time(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[int] = []

    def wait(**_: Any) -> Callable[[Any], float]:
        def pause(state: Any) -> float:
            attempts.append(state.attempt_number)
            return 0.0

        return pause

    monkeypatch.setattr(module, "wait_random_exponential", wait)

    def well_then_fails(over: threading.Event, config: BusConfig, well: Callable[[], None]) -> None:
        well()
        raise EngineError("new trouble")

    lives(runtime, fails("a"), fails("b"), well_then_fails, fails("c"), is_well)
    assert attempts == [1, 2, 1]


def test_a_changed_connection_gives_the_next_life_its_config_and_the_same_one_does_not(
    runtime: Runtime,
) -> None:
    seen: list[BusConfig] = []

    def sees(over: threading.Event, config: BusConfig, well: Callable[[], None]) -> None:
        seen.append(config)
        runtime.use(CONFIG)
        assert not over.is_set()
        runtime.use(OTHER)
        assert over.is_set()

    lives(runtime, sees, lambda over, config, well: seen.append(config))
    assert seen == [CONFIG, OTHER]


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(Runtime, "start", lambda self: None)
    monkeypatch.setattr(module, "_runtimes", {})
    monkeypatch.setattr(module.atexit, "register", lambda call: None)
    return


@pytest.mark.usefixtures("no_threads")
def test_a_rotated_secret_keeps_the_runtime_and_its_open_waits() -> None:
    first = Runtime.of(CONFIG)
    assert Runtime.of(OTHER) is first
    assert first.config is OTHER
    elsewhere = BusConfig(name="b", client=dict(OTHER.client), connection="kafka_other")
    assert Runtime.of(elsewhere) is not first


def test_of_all_troubled_waits_one_reads_the_connection_now_and_then(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    assert [runtime.may_read_connection() for _ in range(3)] == [True, False, False]
    now[0] += module.READ_AGAIN_S
    assert runtime.may_read_connection()
