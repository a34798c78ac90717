"""Which of the blocks around it tells of a query or a stream: always one of them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest
from interlock.spark.completion.open_blocks import Block


@contextmanager
def listening(session: str) -> Iterator[Block]:
    block = Block(session)
    try:
        yield block
    finally:
        block.close()


def test_the_block_that_began_last_tells_of_a_query_and_after_it_the_one_around_it() -> None:
    with listening("a") as outer:
        with listening("a") as inner:
            assert (outer.tells_query(), inner.tells_query()) == (False, True)
        assert outer.tells_query()


def test_a_block_of_another_session_takes_nothing_away() -> None:
    with listening("a") as one, listening("b") as other:
        assert one.tells_query()
        assert other.tells_query()


def test_the_end_of_a_stream_is_told_by_the_block_in_which_it_began() -> None:
    with listening("a") as outer:
        assert outer.tells_stream("run", ended=False)
        with listening("a") as inner:
            assert not inner.tells_stream("run", ended=True)
            assert outer.tells_stream("run", ended=True)


def test_a_stream_that_outlives_its_block_is_told_by_the_one_around_it() -> None:
    with listening("a") as outer:
        with listening("a") as inner:
            assert not outer.tells_stream("run", ended=False)
            assert inner.tells_stream("run", ended=False)
        assert outer.tells_stream("run", ended=True)


def test_blocks_of_one_session_in_several_threads_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    def listen(session: str) -> None:
        with listening(session):
            pass

    with listening("a"), listening("a"), ThreadPoolExecutor(1) as pool:
        pool.submit(listen, "b").result()
        assert caplog.text == ""
        pool.submit(listen, "a").result()
    assert "Give each thread a session of its own" in caplog.text


def test_of_many_blocks_one_tells_whatever_order_they_end_in() -> None:
    with ExitStack() as stack:
        blocks = [stack.enter_context(listening("a")) for _ in range(5)]
        assert sum(block.tells_query() for block in blocks) == 1
        assert sum(block.tells_stream("unheard of", ended=True) for block in blocks) == 1
