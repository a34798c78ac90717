"""What a deliverer counts and logs of its sinks."""

from __future__ import annotations

import logging

import pytest
from interlock.engine.bus import TopicPartition
from interlock.engine.delivery.answers import Answer
from interlock.engine.delivery.sinks import SinkRecord

from tests.unit.engine.delivery.firings import SINK
from tests.unit.engine.delivery.setting import HOUR_MS, Setting


def test_what_becomes_of_deliveries_is_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "interlock.engine")
    setting = Setting()
    stats = setting.deliverer.stats.of(SINK)
    for name, key in (("f1", "a"), ("f2", "b"), ("f3", "c")):
        setting.fire(name, key)
    setting.passes(ms=1000)
    assert (stats.open, stats.in_flight, stats.paused) == (3, 3, False)
    setting.answer("f1", Answer(200))
    setting.answer("f2", Answer(400))
    setting.answer("f3", Answer(401))
    setting.passes(ms=1000)
    assert (stats.accepted, stats.failed, stats.given_up, len(stats.latency_s)) == (1, 2, 1, 1)
    assert (stats.open, stats.paused) == (1, True)
    setting.passes(ms=1000)
    setting.answer("f3", Answer(200))
    setting.passes(ms=1000)
    assert (stats.accepted, stats.open, stats.in_flight, stats.paused) == (2, 0, 0, False)
    assert [line for line in caplog.messages if "ink" in line or "dead letter" in line] == [
        f"Sink {SINK}: connection c, path '', order key, at most 32 at a time.",
        f"Firing f2 of {SINK} becomes a dead letter: the sink refused it: HTTP 400.",
        f"Sink {SINK} is paused; one delivery at a time tries it: HTTP 401",
        f"Sink {SINK} takes deliveries again.",
    ]


def test_the_age_of_the_firing_that_has_been_open_for_longest_grows_until_it_is_acknowledged() -> None:
    setting = Setting()
    stats = setting.deliverer.stats.of(SINK)
    begun_ms = setting.cluster.now_ms
    setting.fire("f1", "a")
    setting.passes(ms=60_000)
    setting.fire("f2", "b")
    setting.passes(ms=60_000)
    setting.answer("f2", Answer(200))
    setting.passes(ms=60_000)
    age_ms = setting.cluster.now_ms - begun_ms
    assert age_ms - 120_000 < stats.oldest_age <= age_ms  # measured in one of the last passes
    setting.answer("f1", Answer(200))
    setting.passes(ms=1000)
    assert (stats.open, stats.oldest_age) == (0, 0)


def test_a_sink_that_is_removed_while_it_is_paused_does_not_count_as_paused() -> None:
    """The metric stayed 1 until the process ended."""
    setting = Setting()
    setting.fire("f1")
    setting.passes()
    setting.answer("f1", Answer(401))
    setting.passes(ms=1000)
    stats = setting.deliverer.stats.of(SINK)
    assert stats.paused
    assert stats.oldest_age > 0
    setting.cluster.append(
        TopicPartition("b-subscription", 0), SinkRecord(subscription=SINK, connection="c").key, None
    )
    setting.passes(ms=1000)
    assert not stats.paused
    assert stats.oldest_age == 0


def test_what_an_earlier_deliverer_measured_of_a_sink_that_is_gone_does_not_stay() -> None:
    setting = Setting()
    setting.fire("f1")
    setting.passes()
    setting.answer("f1", Answer(401))
    setting.passes(ms=1000)
    stats = setting.deliverer.stats
    assert (stats.of(SINK).paused, stats.of(SINK).open) == (True, 1)
    setting.cluster.append(
        TopicPartition("b-subscription", 0), SinkRecord(subscription=SINK, connection="c").key, None
    )
    setting.cluster.append(TopicPartition("b-subscription", 0), b"bus", None)
    assert setting.cluster.compact("b-subscription", 0, 2) == 1
    setting.begin()
    setting.deliverer.stats = stats  # as `run_deliverer` passes them on after an error
    setting.passes(ms=1000)
    assert (stats.of(SINK).paused, stats.of(SINK).open) == (False, 0)


def test_a_firing_whose_sink_was_removed_is_counted_when_it_is_given_up() -> None:
    setting = Setting()
    setting.fire("f1")
    setting.passes()
    setting.answer("f1", Answer(503))
    setting.cluster.append(
        TopicPartition("b-subscription", 0), SinkRecord(subscription=SINK, connection="c").key, None
    )
    setting.passes()
    setting.passes(ms=25 * HOUR_MS)
    assert setting.deliverer.stats.of(SINK).given_up == 1
