"""A loop thread: its runs, the notices about them, and replacing a thread that hangs."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest
from interlock.engine.config import BusConfig
from interlock.engine.errors import EngineError
from interlock.engine.runtime import loop_thread as module
from interlock.engine.runtime import watchdog as watchdog_module
from interlock.engine.runtime.loop_thread import Loop, LoopRun, LoopThread, frames
from interlock.engine.runtime.watchdog import AGAIN_S, LOOK_S, SILENT_S, START_S, Watchdog
from interlock.engine.waiting.notices import Notice, NoticeBoard

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "one:1"})
OTHER = BusConfig(name="b", client={"bootstrap.servers": "two:2"})


@pytest.fixture
def notices() -> list[Notice]:
    return []


@pytest.fixture
def board(notices: list[Notice]) -> NoticeBoard:
    board = NoticeBoard()
    board.listen("me", notices.append)
    return board


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PAUSE_S", 0.01)
    monkeypatch.setattr(module, "HEALTHY_AFTER_S", -1.0)


def run_through(board: NoticeBoard, *each: Loop) -> LoopThread:
    """Run these loops one after the other, and stop after the last."""
    left = list(each)

    def body(run: LoopRun) -> None:
        if not left:
            loop.stop()
            return
        left.pop(0)(run)

    loop = LoopThread("The loop", body, CONFIG, board)
    loop.start()
    loop.join(30)
    assert not left
    return loop


def fails(text: str, *, healthy_before: bool = False) -> Loop:
    def body(run: LoopRun) -> None:
        if healthy_before:
            run.report_healthy()
        raise EngineError(text)

    return body


def is_healthy(run: LoopRun) -> None:
    run.report_healthy()


@pytest.mark.usefixtures("quick")
def test_an_error_is_posted_and_cleared_when_the_next_run_is_healthy(
    board: NoticeBoard, notices: list[Notice]
) -> None:
    loop = run_through(board, fails("no topic"), is_healthy)
    assert notices == [Notice("no topic"), Notice(None)]
    assert loop.failures == 1


@pytest.mark.usefixtures("quick")
def test_a_loop_that_keeps_failing_is_posted_once_and_never_healthy(
    board: NoticeBoard, notices: list[Notice], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HEALTHY_AFTER_S", 60.0)
    run_through(board, *[fails("still broken", healthy_before=True)] * 5)
    assert notices == [Notice("still broken")]


@pytest.mark.usefixtures("quick")
def test_pauses_start_small_again_after_a_good_time(
    board: NoticeBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[int] = []

    def wait(**_: Any) -> Callable[[Any], float]:
        def pause(state: Any) -> float:
            attempts.append(state.attempt_number)
            return 0.0

        return pause

    monkeypatch.setattr(module, "wait_random_exponential", wait)
    new_trouble = fails("new trouble", healthy_before=True)
    run_through(board, fails("a"), fails("b"), new_trouble, fails("c"), is_healthy)
    assert attempts == [1, 2, 1]


@pytest.mark.usefixtures("quick")
def test_any_exception_is_posted_and_ends_only_the_run(board: NoticeBoard, notices: list[Notice]) -> None:
    def breaks(run: LoopRun) -> None:
        raise KeyError("a mistake")

    run_through(board, breaks, is_healthy)
    assert notices == [Notice("'a mistake'"), Notice(None)]


@pytest.mark.usefixtures("quick")
def test_another_config_ends_the_run_and_the_next_one_has_that_config(board: NoticeBoard) -> None:
    seen: list[BusConfig] = []

    def body(run: LoopRun) -> None:
        seen.append(run.config)
        if len(seen) == 2:
            loop.stop()
            return
        loop.use(OTHER)
        assert run.is_set()

    loop = LoopThread("The loop", body, CONFIG, board)
    loop.start()
    loop.join(30)
    assert seen == [CONFIG, OTHER]


@pytest.mark.parametrize("changes", [True, False])
def test_a_run_that_must_end_during_the_pause_after_an_error_does_not_begin_again(
    board: NoticeBoard, changes: bool
) -> None:
    """It did: a stop then waited for brokers that were away, and a wrong password was tried once more."""
    seen: list[BusConfig] = []

    def body(run: LoopRun) -> None:
        seen.append(run.config)
        if run.config is OTHER:
            loop.stop()
            return
        raise EngineError("no answer")

    def in_pause(_: Notice) -> None:
        if changes:
            loop.use(OTHER)
        else:
            loop.stop()

    loop = LoopThread("The loop", body, CONFIG, board)
    board.listen("in pause", in_pause)
    loop.start()
    loop.join(30)
    assert seen == ([CONFIG, OTHER] if changes else [CONFIG])
    assert loop.failures == 1


class Hanging:
    """The first run makes some passes and hangs until `returns` is set; the second one works."""

    def __init__(self) -> None:
        self.passes = 2
        self.hangs, self.returns, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.second, self.over = threading.Event(), threading.Event()
        self.runs: list[LoopRun] = []

    def __call__(self, run: LoopRun) -> None:
        self.runs.append(run)
        if len(self.runs) > 1:
            self.second.set()
            self.over.wait(30)
            return
        for _ in range(self.passes):
            run.is_set()
        self.hangs.set()
        self.returns.wait(30)
        try:
            run.post("The loop", "a text of the abandoned run")
            raise EngineError("an error of the abandoned run")
        finally:
            self.ended.set()


@pytest.fixture
def body() -> Iterator[Hanging]:
    made = Hanging()
    yield made
    made.returns.set()
    made.over.set()


def looks(watchdog: Watchdog, seconds: float) -> None:
    for _ in range(int(seconds / LOOK_S)):
        watchdog.look()


def hung(board: NoticeBoard, body: Hanging) -> LoopThread:
    """A loop whose first run hangs."""
    loop = LoopThread("The loop", body, CONFIG, board)
    loop.start()
    assert body.hangs.wait(30)
    return loop


def is_replaced_after(watchdog: Watchdog, loop: LoopThread, patience_s: float) -> None:
    """The watchdog replaces the loop when it has hung for so long, and not before."""
    before = loop.replaced
    watchdog.look()
    looks(watchdog, patience_s - LOOK_S)
    assert loop.replaced == before
    watchdog.look()
    assert loop.replaced == before + 1


def test_a_loop_without_a_pass_for_a_minute_is_replaced_and_posted(
    board: NoticeBoard, notices: list[Notice], body: Hanging, caplog: pytest.LogCaptureFixture
) -> None:
    loop = hung(board, body)
    is_replaced_after(Watchdog([loop]), loop, SILENT_S)
    assert body.second.wait(30)
    assert body.runs[0].abandoned
    assert not body.runs[1].abandoned
    [notice] = notices
    assert "The loop made no progress for 60 s and is replaced" in str(notice.text)
    assert "self.returns.wait(30)" in caplog.text  # where it hangs
    loop.stop()


def test_from_its_replacement_on_a_loop_hangs_until_the_abandoned_thread_ends(
    board: NoticeBoard, body: Hanging, eventually: Any
) -> None:
    """A supervisor restarts the process meanwhile."""
    loop = hung(board, body)
    watchdog = Watchdog([loop])
    watchdog.look()
    looks(watchdog, SILENT_S - LOOK_S)
    assert watchdog.problem is None
    watchdog.look()
    assert body.second.wait(30)
    watchdog.look()
    assert watchdog.problem == "The loop: a thread hangs. The log has its stack."
    body.returns.set()
    eventually("the abandoned thread ends", lambda: loop.hung == 0)
    watchdog.look()
    assert watchdog.problem is None
    loop.stop()


def test_a_watchdog_that_does_not_look_is_a_problem_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    watchdog = Watchdog([])
    monkeypatch.setattr(watchdog_module, "STALE_S", -1.0)
    assert watchdog.problem == "The watchdog has not run for 0 s."
    monkeypatch.undo()
    assert watchdog.problem is None


def test_a_loop_is_ready_after_a_good_pass_and_not_when_it_ends_fails_or_stands_still(
    monkeypatch: pytest.MonkeyPatch, board: NoticeBoard
) -> None:
    ready: list[bool] = []

    def body(run: LoopRun) -> None:
        ready.append(loop.is_ready)
        run.report_healthy()
        ready.append(loop.is_ready)
        with monkeypatch.context() as later:
            later.setattr(module, "READY_S", -1.0)
            ready.append(loop.is_ready)
        if len(ready) == 3:
            raise EngineError("the brokers are gone")
        run.report_healthy()
        loop.stop()
        ready.append(loop.is_ready)

    loop = LoopThread("The loop", body, CONFIG, board)
    assert not loop.is_ready
    loop.start()
    loop.join(30)
    assert ready == [False, True, False, False, True, False, False]


def test_an_abandoned_thread_that_returns_ends_and_posts_nothing(
    board: NoticeBoard, notices: list[Notice], body: Hanging, eventually: Any
) -> None:
    loop = hung(board, body)
    loop.replace("hangs.")
    assert body.second.wait(30)
    assert loop.hung == 1
    body.returns.set()
    assert body.ended.wait(30)
    eventually("the old thread ends", lambda: loop.hung == 0)
    assert notices == [Notice("The loop hangs.")]
    assert len(body.runs) == 2
    assert loop.failures == 0
    loop.stop()


def test_the_first_pass_may_take_longer_and_each_thread_that_hangs_doubles_the_patience(
    board: NoticeBoard, body: Hanging
) -> None:
    body.passes = 0
    loop = hung(board, body)
    watchdog = Watchdog([loop])
    is_replaced_after(watchdog, loop, START_S)
    assert body.second.wait(30)
    is_replaced_after(watchdog, loop, 2 * START_S)
    loop.stop()


class AllHang:
    """Each body hangs until `returns` is set."""

    def __init__(self) -> None:
        self.hangs, self.returns = threading.Semaphore(0), threading.Event()

    def __call__(self, run: LoopRun) -> None:
        self.hangs.release()
        self.returns.wait(30)

    def hangs_and_is_looked_at(self, watchdog: Watchdog) -> None:
        """Wait for one more that hangs, and let its whole patience go by."""
        assert self.hangs.acquire(timeout=30)
        watchdog.look()
        looks(watchdog, START_S * 2.0 ** watchdog.loops[0].hung)


@pytest.fixture
def all_hang() -> Iterator[AllHang]:
    body = AllHang()
    yield body
    body.returns.set()


def test_when_a_third_thread_hangs_end_process_is_called_instead_of_starting_a_fourth(
    board: NoticeBoard, all_hang: AllHang
) -> None:
    reasons: list[str] = []
    loop = LoopThread("The loop", all_hang, CONFIG, board)
    watchdog = Watchdog([loop], reasons.append)
    loop.start()
    for _ in range(2):
        all_hang.hangs_and_is_looked_at(watchdog)
    assert (loop.replaced, reasons) == (2, [])
    all_hang.hangs_and_is_looked_at(watchdog)
    assert loop.replaced == 2
    [reason] = reasons
    assert reason.startswith("The loop made no progress for 1200 s, and 2 earlier threads still hang")
    assert "self.returns.wait(30)" in reason  # where it hangs
    loop.stop()


def test_threads_that_hung_and_returned_are_not_counted_among_the_three(
    board: NoticeBoard, eventually: Any
) -> None:
    reasons: list[str] = []
    runs: list[AllHang] = []

    def body(run: LoopRun) -> None:
        runs[-1](run)

    loop = LoopThread("The loop", body, CONFIG, board)
    watchdog = Watchdog([loop], reasons.append)
    for number in range(1, 5):
        runs.append(AllHang())
        if number == 1:
            loop.start()
        runs[-1].hangs_and_is_looked_at(watchdog)
        assert loop.replaced == number
        runs[-1].returns.set()
        eventually("it ends", lambda: loop.hung == 0)
    assert reasons == []
    loop.stop()


def test_in_a_process_with_other_work_each_thread_that_hangs_is_replaced(
    board: NoticeBoard, all_hang: AllHang
) -> None:
    loop = LoopThread("The loop", all_hang, CONFIG, board)
    watchdog = Watchdog([loop])
    loop.start()
    for _ in range(4):
        all_hang.hangs_and_is_looked_at(watchdog)
    assert loop.replaced == 4
    loop.stop()


def test_a_loop_that_makes_passes_is_left_alone(board: NoticeBoard) -> None:
    goes_on, over = threading.Event(), threading.Event()

    def body(run: LoopRun) -> None:
        run.is_set()
        goes_on.set()
        over.wait(30)

    loop = LoopThread("The loop", body, CONFIG, board)
    watchdog = Watchdog([loop])
    loop.start()
    assert goes_on.wait(30)
    run = loop.progress[0]
    for _ in range(3):
        looks(watchdog, SILENT_S - LOOK_S)
        run.is_set()
    assert loop.replaced == 0
    loop.stop()
    over.set()


def test_a_loop_that_hangs_while_its_connection_changes_is_replaced_as_well(
    board: NoticeBoard, body: Hanging
) -> None:
    loop = hung(board, body)
    watchdog = Watchdog([loop])
    loop.use(OTHER)
    watchdog.look()
    looks(watchdog, START_S)
    assert body.second.wait(30)
    assert body.runs[1].config is OTHER
    assert body.runs[0].abandoned
    loop.stop()


class WithoutThreads(LoopThread):
    none_left = False

    def start_thread(self) -> None:
        if self.none_left:
            raise RuntimeError("can't start new thread")
        super().start_thread()


def test_a_loop_that_no_thread_can_be_started_for_is_tried_again_and_the_others_are_watched(
    board: NoticeBoard, body: Hanging, caplog: pytest.LogCaptureFixture
) -> None:
    other_body = Hanging()
    loop, other = WithoutThreads("a", body, CONFIG, board), LoopThread("b", other_body, CONFIG, board)
    watchdog = Watchdog([loop, other])
    loop.start()
    other.start()
    assert body.hangs.wait(30)
    assert other_body.hangs.wait(30)
    loop.none_left = True
    looks(watchdog, SILENT_S + LOOK_S)
    loop.none_left = False
    assert other.replaced == 1
    assert "a could not be replaced" in caplog.text
    assert not body.second.is_set()
    looks(watchdog, AGAIN_S)
    assert body.second.wait(30)
    assert loop.replaced == 1
    loop.stop()
    other.stop()
    loop.join(0)
    other_body.returns.set()
    other_body.over.set()


def test_if_no_thread_can_be_started_the_abandoned_one_continues_when_it_returns(
    board: NoticeBoard, body: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = hung(board, body)

    def no_thread(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as without:
        without.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(RuntimeError):
            loop.replace("hangs.")
    body.returns.set()
    assert body.second.wait(30)
    loop.stop()


@pytest.mark.parametrize("collects", [True, False])
@pytest.mark.parametrize("can_stop", [True, False])
def test_nothing_is_collected_while_the_frames_of_all_threads_are_taken_where_that_can_stop_the_process(
    can_stop: bool, collects: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken() -> dict[int, FrameType]:
        assert gc.isenabled() is (collects and not can_stop)
        return {}

    monkeypatch.setattr(module, "CAN_BLOCK", can_stop)
    monkeypatch.setattr(sys, "_current_frames", taken)
    try:
        if not collects:
            gc.disable()
        assert frames() == {}
        assert gc.isenabled() is collects
    finally:
        gc.enable()


def test_garbage_collection_stays_off_until_the_last_caller_has_the_frames(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first_inside, second_inside = threading.Event(), threading.Event()
    collects: list[bool] = []

    def taken() -> dict[int, FrameType]:
        if threading.current_thread() is first:
            first_inside.set()
            second_inside.wait(0.3)  # which it is not as long as this one is
        else:
            second_inside.set()
            first.join(30)
            collects.append(gc.isenabled())
        return {}

    monkeypatch.setattr(module, "CAN_BLOCK", True)
    monkeypatch.setattr(sys, "_current_frames", taken)
    first = threading.Thread(target=frames)
    try:
        first.start()
        assert first_inside.wait(30)
        frames()
        assert collects == [False]
        assert gc.isenabled()
    finally:
        gc.enable()
