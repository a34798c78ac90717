"""Which of several open blocks emits the events of a query or a stream: always exactly one."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest
from interlock.spark.completion import open_blocks
from interlock.spark.completion.open_blocks import OpenBlock


@contextmanager
def listening(session: str) -> Iterator[OpenBlock]:
    block = OpenBlock(session)
    try:
        yield block
    finally:
        block.close()


def test_the_innermost_open_block_emits_the_event_of_a_query() -> None:
    with listening("a") as outer:
        with listening("a") as inner:
            assert (outer.emits_query(), inner.emits_query()) == (False, True)
        assert outer.emits_query()


def test_blocks_of_different_sessions_are_independent() -> None:
    with listening("a") as one, listening("b") as other:
        assert one.emits_query()
        assert other.emits_query()


def test_the_block_that_saw_a_stream_start_emits_its_end() -> None:
    with listening("a") as outer:
        assert outer.emits_stream("run", ended=False)
        with listening("a") as inner:
            assert not inner.emits_stream("run", ended=True)
            assert outer.emits_stream("run", ended=True)


def test_the_outer_block_emits_the_end_of_a_stream_that_outlives_the_inner_one() -> None:
    with listening("a") as outer:
        with listening("a") as inner:
            assert not outer.emits_stream("run", ended=False)
            assert inner.emits_stream("run", ended=False)
        assert outer.emits_stream("run", ended=True)


def test_blocks_of_one_session_in_several_threads_log_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    def listen(session: str) -> None:
        with listening(session):
            pass

    with listening("a"), listening("a"), ThreadPoolExecutor(1) as pool:
        pool.submit(listen, "b").result()
        assert caplog.text == ""
        pool.submit(listen, "a").result()
    assert "Give each thread its own session" in caplog.text


def test_exactly_one_of_many_blocks_emits() -> None:
    with ExitStack() as stack:
        blocks = [stack.enter_context(listening("a")) for _ in range(5)]
        assert sum(block.emits_query() for block in blocks) == 1
        assert sum(block.emits_stream("fallback_id of", ended=True) for block in blocks) == 1


def test_a_closed_block_emits_the_end_of_its_stream_that_still_runs() -> None:
    """Regression: a streaming query still running at exit got no end event."""
    with listening("a") as block:
        block.emits_stream("still running", ended=False)
        assert block.keep_streams(["still running"])
    with listening("a") as later:
        assert block.emits_stream("still running", ended=True)
        assert not later.emits_stream("still running", ended=True)
        assert later.emits_stream("of this block", ended=True)


def test_a_block_inside_another_leaves_its_running_streams_to_that_one() -> None:
    with listening("a") as outer:
        with listening("a") as inner:
            inner.emits_stream("left to the outer one", ended=False)
            assert not inner.keep_streams(["left to the outer one"])
        assert outer.emits_stream("left to the outer one", ended=True)
        assert outer.keep_streams(["left to the outer one"])
    assert outer.emits_stream("left to the outer one", ended=True)


def test_a_block_without_running_streams_keeps_none() -> None:
    with listening("a") as block:
        assert not block.keep_streams([])


def test_the_end_of_a_closed_blocks_stream_is_forgotten_when_no_open_block_can_still_hear_of_it() -> None:
    names = [f"stream {number} that outlives its block" for number in range(3)]
    with listening("a") as block:
        for name in names:
            block.emits_stream(name, ended=False)
        assert block.keep_streams(names)
    assert block.emits_stream(names[0], ended=True)
    assert names[0] not in open_blocks._STREAMS
    with listening("b"), listening("a") as later:
        with listening("a"):
            assert block.emits_stream(names[1], ended=True)
        assert not later.emits_stream(names[1], ended=True)
    assert not block.emits_stream(names[0], ended=True)
    assert [name for name in names if name in open_blocks._STREAMS] == names[2:]
    assert block.emits_stream(names[2], ended=True)
    assert not open_blocks._STREAMS.keys() & names
    assert not open_blocks._ENDED & set(names)
