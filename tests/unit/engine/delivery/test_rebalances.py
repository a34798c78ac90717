"""What a deliverer does before it gives up its partitions."""

from __future__ import annotations

import pytest
from interlock.engine.delivery.answers import Answer

from tests.unit.engine.delivery.setting import Setting


def test_what_ends_before_the_partitions_are_given_up_is_acknowledged_and_the_next_one_waits() -> None:
    setting = Setting()
    setting.fire("f1")
    setting.fire("f2")
    setting.passes()
    setting.on_wait = lambda: setting.answer("f1", Answer(200))
    setting.cluster.rebalance()
    setting.passes(1)
    assert (setting.sent, setting.committed) == (["f1"], 1)
    assert setting.cluster.group.generation == 2, "it has joined again"
    setting.begin()
    setting.passes()
    assert setting.sent == ["f2"]


def test_a_rebalance_waits_for_two_seconds_and_the_delivery_continues() -> None:
    setting = Setting()
    setting.fire("f1")
    setting.passes()
    begun_ms = setting.cluster.now_ms

    def wait() -> None:
        setting.cluster.now_ms += 500

    setting.on_wait = wait
    setting.cluster.rebalance()
    setting.passes(1)
    assert setting.cluster.now_ms - begun_ms == 2000
    setting.passes()
    setting.answer("f1", Answer(200))
    setting.passes()
    assert (setting.sent, setting.committed) == (["f1"], 1)


def test_a_rebalance_does_not_wait_for_a_sink_that_hangs() -> None:
    setting = Setting()
    setting.fire("f1")
    setting.passes()
    setting.cluster.now_ms += 2000
    setting.on_wait = lambda: pytest.fail("it waits")
    setting.cluster.rebalance()
    setting.passes(1)
    assert setting.cluster.group.generation == 2
    setting.passes()
    setting.answer("f1", Answer(200))
    setting.passes()
    assert (setting.sent, setting.committed) == (["f1"], 1), "its answer counts all the same"


def test_a_rebalance_waits_only_as_long_as_an_answer_is_likely() -> None:
    setting = Setting()
    setting.fire("f1")
    setting.passes()
    setting.cluster.now_ms += 1500
    waits: list[int] = []

    def wait() -> None:
        waits.append(100)
        setting.cluster.now_ms += 100

    setting.on_wait = wait
    setting.cluster.rebalance()
    setting.passes(1)
    assert sum(waits) == 500


def test_a_sink_that_is_always_slow_gets_the_time_that_it_takes() -> None:
    setting = Setting()
    setting.fire("f1")
    setting.fire("f2")
    setting.passes()
    setting.cluster.now_ms += 3000
    setting.answer("f1", Answer(200))
    setting.passes()
    assert setting.sent == ["f1", "f2"]
    setting.cluster.now_ms += 2500
    setting.on_wait = lambda: setting.answer("f2", Answer(200))
    setting.cluster.rebalance()
    setting.passes(1)
    setting.begin()
    setting.passes()
    assert setting.sent == []


def test_a_rebalance_never_waits_longer_than_two_seconds_however_slow_a_sink_is() -> None:
    setting = Setting()
    setting.fire("f1")
    setting.fire("f2")
    setting.passes()
    setting.cluster.now_ms += 60_000
    setting.answer("f1", Answer(200))
    setting.passes()
    begun_ms = setting.cluster.now_ms

    def wait() -> None:
        setting.cluster.now_ms += 500
        assert setting.cluster.now_ms - begun_ms <= 2000

    setting.on_wait = wait
    setting.cluster.rebalance()
    setting.passes(1)
    assert setting.sent == ["f1", "f2"]
    assert setting.cluster.now_ms - begun_ms == 2000


def test_one_that_the_group_has_excluded_does_not_wait() -> None:
    setting = Setting()
    setting.fire("f1")
    setting.passes()
    setting.on_wait = lambda: pytest.fail("it waits")
    assert setting.bus.member is not None
    setting.cluster.leave(setting.bus.member)
    setting.passes()
