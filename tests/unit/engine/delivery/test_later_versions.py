"""A deliverer that reads sinks and firings of a later version."""

from __future__ import annotations

import logging

import pytest
from interlock.engine.bus import TopicPartition
from interlock.engine.delivery.answers import Answer
from interlock.engine.delivery.firings import subscription_of
from interlock.engine.delivery.ownership import delivery_metadata
from interlock.engine.delivery.sinks import SinkRecord
from interlock.engine.records import encode_json, versions

from tests.unit.engine.delivery.firings import SINK, TP, action
from tests.unit.engine.delivery.setting import HOUR_MS, Setting


def later_sink(setting: Setting, log: pytest.LogCaptureFixture) -> None:
    """A later release changes the sink; "f1" fires then."""
    record = SinkRecord(v=99, subscription=SINK, connection="elsewhere")
    with log.at_level(logging.INFO, "interlock.engine"):
        setting.cluster.append(TopicPartition("b-subscription", 0), record.key, encode_json(record))
        setting.passes()
        setting.fire("f1")
        setting.passes(ms=1000)


def test_firings_of_a_sink_of_a_later_version_wait_and_are_not_sent_as_the_earlier_record_says(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """They were sent to the earlier address, or became dead letters after a day."""
    setting = Setting()
    setting.passes()
    later_sink(setting, caplog)
    setting.cluster.now_ms += 25 * HOUR_MS
    setting.passes(ms=1000)
    assert (setting.sent, setting.written("b-dead-letter"), setting.committed) == ([], [], 0)
    [line] = [record.getMessage() for record in caplog.records if "version" in record.getMessage()]
    assert "b-subscription[0]@1 holds a SinkRecord of version 99; this Interlock reads 1. Upgrade" in line
    assert "was removed" not in caplog.text


def test_a_sink_that_can_be_read_again_gets_its_firings(caplog: pytest.LogCaptureFixture) -> None:
    setting = Setting()
    later_sink(setting, caplog)
    setting.define()
    setting.passes()
    assert setting.sent == ["f1"]


def later_firing(setting: Setting, name: str, state: str = "fired") -> None:
    written = action(name, state=state, v=99)
    setting.cluster.append(TP, written.key, encode_json(written))


def problem_in(setting: Setting) -> str:
    """What the deliverer committed as the problem of its partition."""
    found = delivery_metadata(setting.cluster.group.offsets[TP])
    assert found is not None
    return found.problem


def test_a_firing_of_a_later_version_holds_back_its_sink_and_no_other_and_the_metadata_say_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It ended the deliverer, again and again, so that no sink got anything."""
    setting = Setting()
    other = subscription_of("airflow", "t")
    record = SinkRecord(subscription=other, connection="c")
    setting.cluster.append(TopicPartition("b-subscription", 0), record.key, encode_json(record))
    setting.fire("f1")
    with caplog.at_level(logging.ERROR, "interlock.engine"):
        later_firing(setting, "f2")
        setting.fire("f3", "b")
        written = action("g1", subscription=other)
        setting.cluster.append(TP, written.key, encode_json(written))
        setting.passes()
        for name in ("f1", "g1"):
            setting.answer(name, Answer(200))
        setting.passes(20, ms=1000)
    assert (setting.sent, setting.committed) == (["f1", "g1"], 1)
    [line] = [record.getMessage() for record in caplog.records]
    assert "b-action[0]@1 holds an ActionRecord of version 99; this Interlock reads 1. Upgrade" in line
    problem = problem_in(setting)
    assert problem.startswith("b-action[0]@1 holds an ActionRecord of version 99")
    assert f"the firings of {SINK} wait" in problem


def test_a_process_that_reads_the_later_version_delivers_all_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setting = Setting()
    later_firing(setting, "f1")
    setting.fire("f2")
    setting.passes(ms=1000)
    assert (setting.sent, setting.committed) == ([], 0)
    monkeypatch.setattr(versions, "VERSION", 99)
    monkeypatch.setattr(versions, "FIRST_VERSION", 1)
    monkeypatch.setattr(versions, "versions_read", lambda: range(1, 100))
    setting.begin()
    setting.passes()
    setting.answer("f1", Answer(200))
    setting.passes(ms=1000)
    assert setting.sent == ["f1", "f2"]
    assert problem_in(setting) == ""


def test_what_a_later_version_held_back_goes_on_when_its_firing_is_removed() -> None:
    """An administrator skips it, or a later release has acknowledged and swept it."""
    setting = Setting()
    later_firing(setting, "f1")
    setting.fire("f2")
    setting.passes(ms=1000)
    setting.cluster.append(TP, action("f1").key, None)
    setting.passes(10, ms=1000)
    assert setting.sent == ["f2"]
    setting.answer("f2", Answer(200))
    setting.passes(ms=1000)
    assert problem_in(setting) == ""
    assert (setting.committed or 0) > 2


def test_what_may_be_the_acknowledgement_of_a_firing_holds_it_and_what_follows_it_back() -> None:
    """Another process has delivered it, or an administrator skipped it: a later release knows."""
    setting = Setting()
    setting.fire("f1")
    setting.fire("f2", "b")
    later_firing(setting, "f1", "acked")
    setting.passes(10, ms=1000)
    assert (setting.sent, setting.committed) == ([], 0)
