"""Reading the registry: whole at the start, and again by a new engine after too long a pause."""

from __future__ import annotations

import pytest
from interlock import event
from interlock.conditions import parse
from interlock.conditions.filters.filter import MAX_VALUE_CHARS
from interlock.engine.errors import EngineError, RecordError
from interlock.engine.protocol import context
from interlock.engine.protocol.partitions.registry_reader import RegistryReader
from interlock.engine.protocol.parts import EngineParts
from interlock.engine.records import Registration
from interlock.engine.registry.pause import MOST_PAUSE_S
from interlock.engine.registry.registry import Registry

from tests.kit.pool import CONFIG, REGISTRY, TRIGGER, Pool, RecordingBus

WAIT = Registration.of("wait", event("x") & event("y"), None, 0)


class Clocks:
    """Both clocks of a process, which a test sets."""

    def __init__(self) -> None:
        self.wall_s, self.monotonic_s = 1_000_000.0, 1_000.0

    def monotonic(self) -> float:
        return self.monotonic_s

    def follow(self, pool: Pool) -> tuple[RegistryReader, Registry]:
        parts = EngineParts(clocks=context.Clocks(lambda: self.wall_s, self.monotonic))
        made = context.EngineContext.of(RecordingBus(pool.cluster, "follower"), CONFIG, parts)
        return RegistryReader(made), made.registry


class Leases(Clocks):
    """Clocks that advance half a second whenever the reader asks; a lease is written each 20 s."""

    def __init__(self, pool: Pool) -> None:
        super().__init__()
        self._pool = pool

    def monotonic(self) -> float:
        self.monotonic_s += 0.5
        assert self.monotonic_s < 1_600, "the reader waits for ever"
        if self.monotonic_s % 20 == 0:
            self._pool.lease(WAIT)
        return self.monotonic_s


@pytest.mark.parametrize("clock", ["wall_s", "monotonic_s"])
def test_a_registry_that_was_not_read_for_hours_is_an_error_before_anything_new_is_read(clock: str) -> None:
    clocks, pool = Clocks(), Pool()
    following, registry = clocks.follow(pool)
    following.read_whole()
    position = registry.position
    setattr(clocks, clock, getattr(clocks, clock) + MOST_PAUSE_S)
    following.read_new()  # the longest pause that is allowed
    pool.register(WAIT)
    setattr(clocks, clock, getattr(clocks, clock) + MOST_PAUSE_S + 1)
    with pytest.raises(EngineError, match=r"b-subscription\[0\] was not read for 6\.0 hours"):
        following.read_new()
    assert registry.position == position


def test_waiting_for_the_end_of_the_registry_after_hours_is_an_error_as_well() -> None:
    clocks, pool = Clocks(), Pool()
    following, _ = clocks.follow(pool)
    clocks.wall_s += MOST_PAUSE_S + 1
    with pytest.raises(EngineError, match="Interlock reads it again from its start"):
        following.catch_up(pool.log(REGISTRY).end)


def test_a_position_beyond_the_registrys_end_is_an_error_at_once_though_leases_come() -> None:
    """Each lease began the 30 s again that the reader waits, so a false match stopped the engine for ever."""
    pool = Pool(WAIT)
    clocks = Leases(pool)
    following, _ = clocks.follow(pool)
    following.read_whole()
    before = clocks.monotonic_s
    with pytest.raises(RecordError, match=r"Offset 1099511627775 of b-subscription\[0\] is needed; it ends"):
        following.catch_up(2**40)
    assert clocks.monotonic_s - before < 10


def test_a_position_that_open_transactions_hide_is_awaited_for_thirty_seconds() -> None:
    pool = Pool(WAIT)
    clocks = Leases(pool)
    following, registry = clocks.follow(pool)
    following.read_whole()
    RecordingBus(pool.cluster, "dead")
    transaction = pool.cluster.begin("dead", pool.cluster.producers["dead"].epoch)
    pool.cluster.write(transaction, REGISTRY, b"k", b"v", None)
    before = clocks.monotonic_s
    with pytest.raises(EngineError, match=f"up to offset {registry.position + 1}: no record came for 30 s"):
        following.catch_up(registry.position + 1)
    assert clocks.monotonic_s - before < 60


def test_a_clock_that_is_set_back_is_no_pause() -> None:
    clocks, pool = Clocks(), Pool()
    following, registry = clocks.follow(pool)
    clocks.wall_s -= 30 * MOST_PAUSE_S
    following.read_whole()
    assert registry.position == pool.log(REGISTRY).end


def test_a_registry_that_lost_its_end_is_an_error_before_earlier_records_are_applied_again() -> None:
    """The client began at the start again, and put what later records remove in force until they came."""
    clocks, pool = Clocks(), Pool(WAIT)
    following, registry = clocks.follow(pool)
    pool.remove(WAIT)
    pool.register(Registration.of("other", event("x"), None, 0))
    following.read_whole()
    end = pool.log(REGISTRY).end
    del pool.log(REGISTRY).entries[-1:]
    with pytest.raises(
        EngineError, match=rf"b-subscription\[0\] gave offset 0 after {end - 1}: .* its start"
    ):
        following.read_new()
    assert registry.position == end
    assert registry.get(WAIT.incarnation) is None


def test_after_a_loss_of_the_registrys_end_the_next_engine_has_what_is_left() -> None:
    pool = Pool(WAIT)
    pool.start()
    pool.register(Registration.of("other", event("x"), None, 0))
    pool.run()
    del pool.log(REGISTRY).entries[-1:]
    with pytest.raises(EngineError, match="lost"):
        pool.run()
    pool.kill()
    registry = pool.start("two").registry
    assert registry.by_name("wait") is not None
    assert registry.by_name("other") is None


def test_an_engine_that_slept_through_a_removal_and_its_compaction_does_not_fire_what_was_removed() -> None:
    pool = Pool(WAIT)
    pool.boot()
    pool.emit("x")
    pool.run()
    pool.remove(WAIT)
    end = pool.log(REGISTRY).end
    pool.lease(WAIT)
    pool.cluster.compact(REGISTRY.topic, 0, end, expired=end)
    pool.cluster.now_ms += 60 * 3_600_000
    pool.emit("y")
    with pytest.raises(EngineError):
        pool.run()
    pool.kill()
    pool.start("two")
    assert pool.fired() == []
    assert pool.committed(TRIGGER).offset == pool.log(TRIGGER).end


def test_a_wait_for_a_long_text_in_where_ends_no_engine_and_is_in_force() -> None:
    """Each engine ended with it, and each that was started again."""
    text = "s" * (MAX_VALUE_CHARS + 1)
    condition = parse(f"""event("t", where="event.subject == '{text}'")""")
    clocks, pool = Clocks(), Pool(WAIT)
    running, registry = clocks.follow(pool)
    running.read_whole()
    pool.register(long := Registration.of("long", condition, None, 0))
    running.read_new()
    following, read_later = clocks.follow(pool)
    following.read_whole()
    for each in (registry, read_later):
        assert each.get(long.incarnation) is not None
