"""A deliverer over brokers in memory: what the simulation does not come upon, step by step."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest
from interlock.engine.bus import Committed, Output, TopicPartition
from interlock.engine.delivery.answers import Answer
from interlock.engine.delivery.context import DeliveryLimits
from interlock.engine.delivery.ownership import DelivererOwnership
from interlock.engine.delivery.parts import DelivererParts
from interlock.engine.delivery.retry import Retry
from interlock.engine.delivery.sinks import SinkRecord
from interlock.engine.delivery.window import FiringWindow
from interlock.engine.errors import EngineError, UnreachableError
from interlock.engine.records import encode_json

from tests.unit.engine.delivery.firings import SINK, TP, action
from tests.unit.engine.delivery.setting import HOUR_MS, Setting


def test_the_first_deliverer_begins_with_the_first_firing() -> None:
    setting = Setting()
    setting.fire("f1")
    setting.fire("f2", "b")
    setting.passes()
    assert setting.sent == ["f1", "f2"]
    setting.answer("f2", Answer(202))
    setting.passes(ms=1000)
    assert setting.committed == 0
    setting.begin()
    setting.passes()
    assert setting.sent == ["f1"]


def test_a_committed_offset_of_a_topic_that_was_created_again_counts_as_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    setting = Setting()
    setting.fire("f1")
    setting.passes()
    setting.answer("f1", Answer(200))
    setting.passes(ms=1000)
    committed = setting.cluster.group.offsets[TP]
    setting.cluster.delete("b-action")
    setting.cluster.create("b-action", 1, compact=True)
    setting.cluster.group.offsets[TP] = committed
    setting.fire("f2")
    with caplog.at_level(logging.ERROR):
        setting.begin()
        setting.passes()
    assert setting.sent == ["f2"]
    assert "b-action[0] was deleted and created again" in caplog.text


@pytest.mark.parametrize("metadata", ["", "reset by hand", "[]", "{}"])
def test_an_offset_that_somebody_else_committed_counts_as_none(
    metadata: str, caplog: pytest.LogCaptureFixture
) -> None:
    setting = Setting()
    setting.fire("f1")
    setting.passes(ms=1000)
    setting.cluster.group.offsets[TP] = Committed(1, metadata)
    with caplog.at_level(logging.ERROR):
        setting.begin()
        setting.passes()
    assert setting.sent == ["f1"]
    assert (
        "b-action[0] has a committed offset that no deliverer wrote: it is read from its start."
        in caplog.text
    )


def test_firings_that_retention_removed_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    setting = Setting()
    for name in ("f1", "f2", "f3"):
        setting.fire(name, name)
    setting.passes(ms=1000)
    setting.cluster.delete_below(TP, 2)
    with caplog.at_level(logging.ERROR):
        setting.begin()
        setting.passes()
    assert setting.sent == ["f3"]
    assert "b-action[0] begins at offset 2, but not all firings from 0 on were delivered" in caplog.text


def test_a_committed_offset_beyond_the_end_of_a_partition_that_lost_its_last_records_counts_as_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As after an unclean leader election: what is written next would be below it, and never sent."""
    setting = Setting()
    lost = ("f3", "f4", "f5")
    for name in ("f1", "f2", *lost):
        setting.fire(name, name)
    setting.passes()
    for name in ("f1", "f2", *lost):
        setting.answer(name, Answer(200))
    setting.passes(ms=1000)
    assert setting.committed == 11  # five firings, their acknowledgements, and the end of the transaction
    log = setting.cluster.log(TP)
    assert log is not None
    del log.entries[2:]
    with caplog.at_level(logging.ERROR):
        setting.begin()
        setting.passes(ms=1000)
    assert setting.sent == ["f1", "f2"]  # their acknowledgements are lost
    assert "b-action[0] ends at offset 2, but it was read and committed up to 11: its last" in caplog.text
    for name in lost:
        setting.fire(name, name)
    setting.passes(ms=1000)
    assert setting.sent == ["f1", "f2", *lost]
    for name in setting.sent:
        setting.answer(name, Answer(200))
    setting.passes(ms=1000)
    assert setting.committed == log.end


def test_a_dead_letter_that_cannot_be_written_keeps_its_firing_open_and_delays_no_other() -> None:
    setting = Setting()
    setting.bus.refused = "b-dead-letter"
    for name, key in (("f1", "a"), ("f2", "a"), ("f3", "b"), ("f4", "b")):
        setting.fire(name, key)
    setting.passes()
    assert setting.sent == ["f1", "f3"]
    setting.answer("f1", Answer(400))
    setting.answer("f3", Answer(200))
    setting.passes(20, ms=1000)
    assert setting.sent == ["f1", "f3", "f4"]
    assert setting.committed == 0
    setting.bus.refused = ""
    setting.passes(ms=1000)
    assert setting.sent == ["f1", "f3", "f4", "f2"]
    [dead_letter] = setting.written("b-dead-letter")
    assert dead_letter["interlock_stage"] == "delivery"
    assert dead_letter["interlock_reason"] == "the sink refused it: HTTP 400"
    assert dead_letter["interlock_origin"] == "b-action[0]@0"
    assert dead_letter["interlock_attempts"] == "1"
    assert setting.committed == 1


@pytest.mark.parametrize("lane", [100, 1], ids=["all are held", "some are left out"])
@pytest.mark.parametrize("refused", ["b-dead-letter", "b-event"])
def test_a_dead_letter_or_reply_that_cannot_be_written_does_not_hold_up_another_order(
    refused: str, lane: int
) -> None:
    """Nothing of the sink moved until it was written, or it was sent again in the lane of its key."""
    setting = Setting(order="partition")
    setting.begin(DelivererParts(limits=DeliveryLimits(window=FiringWindow(lane=lane))))
    setting.bus.refused = refused
    for name, key in (("f1", "a"), ("f2", "a"), ("f3", "b"), ("f4", "b")):
        setting.fire(name, key)
    setting.passes()
    if refused == "b-event":
        setting.answer("f1", Answer(200), Output(refused, 0, b"", b"{}", None))
    else:
        setting.answer("f1", Answer(400))
    setting.passes()
    setting.define(order="key")
    setting.passes(ms=1000)
    assert setting.sent == ["f1", "f3"]
    setting.answer("f3", Answer(200))
    setting.passes(20, ms=1000)
    assert setting.sent == ["f1", "f3", "f4"]
    assert setting.committed == 0
    setting.cluster.create("b-event", 1)
    setting.bus.refused = ""
    setting.passes(ms=1000)
    assert setting.sent == ["f1", "f3", "f4", "f2"]
    [written] = setting.written(refused)
    if refused == "b-dead-letter":
        assert written["interlock_attempts"] == "1"


@pytest.mark.parametrize("missing", ["b-dead-letter", "b-event"])
def test_while_the_topic_of_dead_letters_or_replies_is_missing_nothing_else_waits_or_is_sent_again(
    missing: str,
) -> None:
    setting = Setting()
    setting.cluster.delete("b-dead-letter")
    for name, key in (("f1", "a"), ("f2", "a"), ("f3", "b"), ("f4", "b"), ("slow", "c")):
        setting.fire(name, key)
    setting.passes()
    if missing == "b-event":
        setting.answer("f1", Answer(200), Output("b-event", None, b"", b"{}", None))
    else:
        setting.answer("f1", Answer(400))
    setting.answer("f3", Answer(200))
    before = setting.cluster.now_ms
    setting.passes(20, ms=1000)
    assert setting.cluster.now_ms - before == 20 * 1000
    assert setting.sent == ["f1", "f3", "slow", "f4"]
    assert setting.committed == 0
    setting.cluster.create(missing, 1)
    setting.passes(ms=1000)
    assert setting.sent == ["f1", "f3", "slow", "f4", "f2"]
    assert len(setting.written(missing)) == 1


def test_a_dead_letter_of_whose_topic_the_brokers_say_nothing_ends_no_deliverer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As without the permission to write to it."""

    def refuse(_: object) -> None:
        raise UnreachableError("Topic authorization failed")

    setting = Setting()
    setting.fire("f1")
    setting.passes()
    with monkeypatch.context() as patch:
        patch.setattr(setting.bus, "topics", refuse)
        setting.answer("f1", Answer(400))
        setting.passes(20, ms=1000)
    assert setting.written("b-dead-letter") == []
    setting.passes(ms=1000)
    assert len(setting.written("b-dead-letter")) == 1


def test_dead_letters_that_cannot_be_written_take_a_bounded_part_of_a_pass() -> None:
    setting = Setting()
    names = [f"f{n:02}" for n in range(20)]
    for name in names:
        setting.fire(name, name)
    setting.passes()
    for name in names:
        setting.answer(name, Answer(400))
    setting.bus.refused, setting.bus.takes_ms = "b-dead-letter", 300
    before = setting.cluster.now_ms
    setting.passes(1)
    assert setting.cluster.now_ms - before < 2000  # else a watchdog would end it, and all would be sent again
    setting.bus.refused, setting.bus.takes_ms = "", 0
    setting.passes(ms=5000)
    assert len(setting.written("b-dead-letter")) == len(names)


def test_what_was_refused_together_with_a_dead_letter_is_tried_alone_in_the_next_passes() -> None:
    """It waited for 5 s, and its lane with it, if the first tries took long."""
    setting = Setting()
    setting.cluster.create("b-event", 1)
    for name, key in (("f1", "a"), ("f2", "b"), ("f3", "c"), ("f4", "b")):
        setting.fire(name, key)
    setting.passes()
    setting.bus.refused, setting.bus.takes_ms = "b-dead-letter", 300
    setting.answer("f1", Answer(400))
    for name in ("f2", "f3"):
        setting.answer(name, Answer(200), Output("b-event", 0, b"", b"{}", None))
    before = setting.cluster.now_ms
    setting.passes(4)
    assert len(setting.written("b-event")) == 2
    assert setting.sent == ["f1", "f2", "f3", "f4"]
    assert setting.cluster.now_ms - before == 2 * 300


def test_a_sink_whose_record_cannot_be_read_was_not_removed() -> None:
    setting = Setting()
    for value in (None, b'{"v": 0}'):
        setting.cluster.append(TopicPartition("b-subscription", 0), b"sink/" + SINK.encode(), value)
    setting.fire("f1")
    setting.passes(ms=1000)
    setting.cluster.now_ms += 25 * HOUR_MS
    setting.passes(ms=1000)
    [dead_letter] = setting.written("b-dead-letter")
    assert dead_letter["interlock_reason"] == "its sink's record cannot be read"


def test_firings_of_a_removed_sink_become_dead_letters_after_a_day() -> None:
    setting = Setting()
    setting.fire("f1")
    setting.cluster.append(TopicPartition("b-subscription", 0), b"sink/" + SINK.encode(), None)
    setting.passes(ms=1000)
    assert (setting.sent, setting.written("b-dead-letter"), setting.committed) == ([], [], 0)
    setting.cluster.now_ms += 25 * HOUR_MS
    setting.passes(ms=1000)
    [dead_letter] = setting.written("b-dead-letter")
    assert dead_letter["interlock_reason"] == "its sink was removed"
    assert (setting.committed or 0) > 0


def test_a_sink_that_comes_back_gets_its_firings() -> None:
    setting = Setting()
    setting.cluster.append(TopicPartition("b-subscription", 0), b"sink/" + SINK.encode(), None)
    setting.fire("f1")
    setting.passes(ms=1000)
    setting.define(order="none")
    setting.passes()
    assert setting.sent == ["f1"]


def test_a_sink_record_that_cannot_be_read_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    setting = Setting()
    setting.cluster.append(TopicPartition("b-subscription", 0), b"sink/" + SINK.encode(), b'{"v":1}')
    setting.fire("f1")
    with caplog.at_level(logging.ERROR):
        setting.passes()
    assert setting.sent == ["f1"]
    assert f"The new record of sink {SINK} is ignored" in caplog.text


def test_one_that_is_stopped_acknowledges_what_is_in_flight_and_starts_nothing() -> None:
    setting = Setting()
    setting.fire("f1")
    setting.fire("f2")
    setting.passes()
    setting.deliverer.stop()
    setting.passes()
    assert not setting.deliverer.is_idle
    setting.answer("f1", Answer(200))
    setting.passes()
    assert setting.deliverer.is_idle
    assert (setting.sent, setting.committed) == (["f1"], 1)


def test_after_a_month_without_deliverers_each_firing_is_tried_before_it_is_given_up() -> None:
    setting = Setting()
    setting.fire("f1")
    setting.cluster.now_ms += 28 * 24 * HOUR_MS
    setting.fire("now", "b")
    for tries in range(1, 4):
        setting.passes(ms=1000)
        assert setting.sent.count("f1") == tries
        setting.answer("f1", Answer(500))
    setting.passes(ms=1000)
    [dead_letter] = setting.written("b-dead-letter")
    assert dead_letter["interlock_reason"] == "given up after 3 failed deliveries; the last failure: HTTP 500"


def test_of_a_sink_that_is_away_all_that_is_too_old_is_given_up_at_once_however_many_keys_wait() -> None:
    """One delivery at a time tries it, every 5 minutes at most: a thousand keys would take days."""
    setting = Setting(max_in_flight=1)
    names = [f"f{n:02}" for n in range(20)]
    for name in names:
        setting.fire(name, name)
    setting.cluster.now_ms += 2 * 24 * HOUR_MS
    setting.fire("now", "z")
    for _ in range(3):
        setting.passes(ms=1000)
        setting.answer(setting.sent[-1], Answer(None, "connection refused", connected=False))
    setting.passes(1)
    reasons = [each["interlock_reason"] for each in setting.written("b-dead-letter")]
    assert len(reasons) == len(names)
    assert all(reason.endswith("the last failure: connection refused") for reason in reasons)


def test_a_changed_policy_counts_for_firings_that_are_parked() -> None:
    setting = Setting()
    setting.fire("f1")
    setting.passes()
    setting.answer("f1", Answer(500))
    setting.passes(1)
    record = SinkRecord(subscription=SINK, connection="other", retry=Retry(jitter=0))
    setting.cluster.append(
        TopicPartition("b-subscription", 0),
        record.key,
        encode_json(msgspec.structs.replace(record, path="/p")),
    )
    setting.passes(ms=1000)
    assert [delivery.sink.connection for delivery in setting.posts.sent] == ["c", "other"]


def test_a_scan_that_has_ended_fetches_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client went on: it held up to 16 MiB, and got each new record of the partition once more."""
    setting = Setting()
    setting.begin(DelivererParts(limits=DeliveryLimits(window=FiringWindow(lane=1))))
    make_reader, reads = setting.bus.reader, []

    def reader(**options: Any) -> Any:
        made = make_reader(**options)
        read = made.read

        def noting(positions: Mapping[TopicPartition, int]) -> None:
            reads.append(positions)
            read(positions)

        monkeypatch.setattr(made, "read", noting)
        return made

    monkeypatch.setattr(setting.bus, "reader", reader)
    for name in ("f1", "f2"):
        setting.fire(name)
    setting.passes()
    setting.answer("f1", Answer(200))
    setting.passes()
    assert setting.sent == ["f1", "f2"]
    assert reads == [{TP: 1}, {}]


class EndsBeforeOffsets(DelivererOwnership):
    """Takes the ends of the partitions before their stable committed offsets."""

    early: Mapping[TopicPartition, int] | None = None

    def stable_committed(
        self, assigned: tuple[TopicPartition, ...]
    ) -> Mapping[TopicPartition, Committed | None] | None:
        if self.early is None:
            self.early = super().ends(assigned)
        return super().stable_committed(assigned)

    def ends(self, assigned: tuple[TopicPartition, ...]) -> Mapping[TopicPartition, int]:
        return self.early or {}


@pytest.mark.parametrize(
    ("ownership", "sent"),
    [
        pytest.param(DelivererOwnership, ["stuck"], id="committed offsets first"),
        pytest.param(EndsBeforeOffsets, ["stuck", "f1"], id="ends first: f1 is sent again"),
    ],
)
def test_what_an_old_owner_still_acknowledges_is_not_sent_again(
    ownership: type[DelivererOwnership], sent: list[str]
) -> None:
    """The old owner sent its offsets before it lost the partition, and its acknowledgement after that."""
    setting = Setting()
    setting.fire("stuck", "b")
    setting.fire("f1")
    cluster = setting.cluster
    cluster.join("old", "old", ["b-action"])
    cluster.init_producer("old")
    transaction = cluster.begin("old", cluster.producers["old"].epoch)
    assert transaction is not None
    offset = Committed(0, json.dumps({"v": 1, "t": cluster.topics["b-action"].id}))
    cluster.send_offsets(transaction, {TP: offset}, "old", cluster.group.generation)
    cluster.leave("old")
    setting.begin(DelivererParts(ownership=ownership))
    setting.passes()
    assert setting.sent == []  # the committed offset is not stable
    acked = action("f1", state="acked")
    cluster.write(transaction, TP, acked.key, encode_json(acked), None)
    cluster.end(transaction, commit=True)
    setting.bus.take_one = True
    setting.passes(20)
    assert setting.sent == sent


def test_lanes_that_need_no_acknowledgement_do_not_wait_for_the_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setting = Setting(max_in_flight=2)
    for name, key in (("f1", "a"), ("f2", "a"), ("f3", "b"), ("f4", "c")):
        setting.fire(name, key)
    setting.passes()
    assert setting.sent == ["f1", "f3"]
    commit, sent_before = setting.bus.commit, []

    def noted(outputs: Sequence[Output], *more: Any) -> int | None:
        sent_before.append([*setting.sent])
        return commit(outputs, *more)

    monkeypatch.setattr(setting.bus, "commit", noted)
    setting.answer("f1", Answer(200))
    setting.passes(1)
    assert sent_before == [["f1", "f3", "f4"]]
    setting.answer("f4", Answer(200))
    setting.passes(1)
    assert setting.sent == ["f1", "f3", "f4", "f2"]


def test_one_that_reads_acknowledgements_of_another_deliverer_sends_nothing_more() -> None:
    setting = Setting()
    for name in ("f1", "f2", "f3"):
        setting.fire(name)
    setting.passes()
    skipped, delivered = action("f1", state="acked"), action("f2", state="acked")
    setting.cluster.append(TP, skipped.key, encode_json(skipped))  # by an administrator
    setting.passes()
    setting.answer("f1", Answer(500))
    setting.passes()
    assert setting.sent == ["f1", "f2"]
    headers = [("interlock_deliverer", b"d7")]
    setting.cluster.append(TP, delivered.key, encode_json(delivered), headers)
    setting.answer("f2", Answer(200))
    with pytest.raises(EngineError, match=r"b-action\[0\] is delivered by d7 now"):
        setting.passes()
    assert setting.sent == ["f1", "f2"]


def test_acknowledgements_of_an_earlier_owner_are_no_sign_of_another_one() -> None:
    setting = Setting()
    setting.fire("f1")
    setting.fire("f2", "b")
    setting.passes()
    setting.answer("f2", Answer(200))
    setting.passes(ms=1000)
    setting.begin()
    setting.passes()
    assert setting.sent == ["f1"]


@pytest.mark.parametrize("sends_offsets", [True, False], ids=["offsets", "an acknowledgement alone"])
def test_the_transaction_of_a_deliverer_that_was_killed_is_ended_by_the_next_one(sends_offsets: bool) -> None:
    """Waits read the same partition, and cannot end it."""
    setting = Setting()
    setting.fire("f1")
    setting.passes()
    setting.answer("f1", Answer(200))
    setting.passes(ms=1000)
    setting.fire("f2")
    cluster, killed = setting.cluster, setting.bus
    assert killed.member is not None
    transaction = cluster.begin("d1", cluster.producers["d1"].epoch)
    assert transaction is not None
    acked = action("f2", state="acked")
    cluster.write(transaction, TP, acked.key, encode_json(acked), None)
    if sends_offsets:
        cluster.send_offsets(transaction, {TP: Committed(2, "")}, killed.member, killed.generation)
    killed.dead = True
    cluster.leave(killed.member)
    setting.begin()
    setting.passes(5, ms=100)
    assert transaction.decision == "open"
    setting.passes(10, ms=100)
    assert (transaction.decision, setting.sent) == ("aborted", ["f2"])
    assert setting.deliverer.dead_deliverers.stats.fenced == 1


def test_a_firing_that_was_given_up_and_is_written_again_is_delivered_again() -> None:
    """As `dead-letters redrive` writes it."""
    setting = Setting()
    setting.fire("f1")
    setting.passes()
    setting.answer("f1", Answer(400))
    setting.passes(ms=1000)
    assert [each["interlock_stage"] for each in setting.written("b-dead-letter")] == ["delivery"]
    setting.fire("f1")
    setting.passes()
    assert setting.sent == ["f1", "f1"]
    first, again = (delivery.firing.record.offset for delivery in setting.posts.sent)
    assert first < again
    setting.answer("f1", Answer(200))
    setting.passes(ms=1000)
    setting.begin()
    setting.passes()
    assert setting.sent == []


def test_brokers_that_do_not_say_what_holds_a_takeover_back_end_no_deliverer(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_answer(*_: object) -> None:
        raise UnreachableError("no answer")

    setting = Setting()
    setting.fire("f1")
    setting.begin()
    monkeypatch.setattr(setting.bus, "stable_offsets", no_answer)
    setting.bus.take_one = True
    with caplog.at_level(logging.WARNING):
        setting.passes(8, ms=300)
    assert caplog.text.count("no answer") == 1
    assert setting.sent == ["f1"]


@pytest.mark.parametrize("answer", [200, 400])
def test_a_transaction_is_bounded_and_the_rest_follows_in_later_passes(
    monkeypatch: pytest.MonkeyPatch, answer: int
) -> None:
    monkeypatch.setattr("interlock.engine.delivery.acknowledgements.MOST_BYTES", 1)
    setting = Setting()
    names = [f"f{number}" for number in range(4)]
    for name in names:
        setting.fire(name, key=name)
    setting.passes()
    assert sorted(setting.sent) == names
    for name in names:
        setting.answer(name, Answer(answer))
    left = []
    for _ in names:
        setting.passes(1)
        left.append(len(setting.deliverer.acknowledgements.done))
    assert left == [3, 2, 1, 0]
    assert setting.committed is not None
    assert setting.committed >= len(names)


def test_a_redriven_firing_that_was_accepted_before_a_rebalance_is_not_sent_again() -> None:
    """The acknowledgement of its first record, which is read again, does not concern the second one."""
    setting = Setting()
    setting.fire("waits", "b")
    setting.fire("f1")
    setting.passes()
    setting.answer("f1", Answer(400))
    setting.passes()
    setting.fire("f1")
    setting.passes()
    assert (setting.sent, setting.committed) == (["waits", "f1", "f1"], 0)
    setting.bus.refused = "b-action"  # so it is known as delivered, and not acknowledged
    setting.answer("f1", Answer(200))
    setting.passes(1)
    setting.cluster.now_ms += 2_000  # the rebalance does not wait for the other delivery
    setting.cluster.rebalance()
    setting.passes(1)
    setting.bus.refused = ""
    setting.passes(ms=1000)
    assert setting.sent == ["waits", "f1", "f1"]
    assert setting.deliverer.acknowledgements.done == {}
