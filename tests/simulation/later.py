"""Continues a world: a day of compaction and sleeping engines, lost offsets, a deleted topic, lost waits."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

from interlock.engine.protocol import outputs
from interlock.engine.protocol.housekeeping import LEFTOVER_MS, ORPHANS_S, TOPICS_S
from interlock.engine.records import ResumeRecord, encode_json, is_leftover, registry_key
from interlock.engine.registry.pause import MOST_PAUSE_S

from tests.simulation.actors import Actor
from tests.simulation.oracle import Oracle, Violation
from tests.simulation.topics import EVENT, ORDERS, REGISTRY, TRIGGER
from tests.simulation.users import HOUR_MS
from tests.simulation.waits_oracle import is_registered, judge_gone, judge_kept, judge_waits, places
from tests.simulation.world import FEW, World

LAG_MS: Final = 24 * HOUR_MS
WEEK_MS: Final = 7 * LAG_MS
SWEEPS_MS: Final = 2 * int(ORPHANS_S * 1000)
AWAKE_MS: Final = int(MOST_PAUSE_S * 1000) - HOUR_MS
NOTICED_MS: Final = int(TOPICS_S * 1000) + 1
DAY_ROUNDS: Final = 30  # each lasts an hour; a lease is compared twice before it lets go of a wait
EVENTS: Final = 6
STEPS: Final = 12


def days(world: World) -> None:
    """A day goes by; some engines sleep through it, some are restarted after it, the others continue."""
    rng = Random(f"days {world.seed}")
    asleep = [actor for actor in world.actors[1:] if rng.random() < 0.5]
    _a_day(world, rng, asleep)
    world.seen["days went by"] += 1
    world.seen["engine that slept for a day"] += bool(asleep)
    for actor in world.actors:
        if actor.state == "paused":
            world.act(("resume", world.actors.index(actor), 0))
        elif rng.random() < 0.5:
            world.act(("crash", world.actors.index(actor), 0))
    for _ in range(3):  # so that some own new partitions only
        world.act(("partition", 0, 2 * rng.randrange(1 << 15) + 1))
    _emit(world, rng)
    _come_back(world, rng)
    world.drain()


def forget(world: World) -> None:
    """All engines are away for a week, the group's offsets expire, an administrator resumes the partitions.

    Skipped if a match is a dead letter: no mark records it, so it would be evaluated if written again.
    """
    if any(tp.topic == TRIGGER for tp, _ in world.lethal.places):
        return
    rng = Random(f"forget {world.seed}")
    _a_day(world, rng, [])
    world.say("-- the offsets of the group expire")
    for number in range(len(world.actors)):
        world.act(("crash", number, 0))
    world.cluster.now_ms += WEEK_MS
    world.cluster.in_flight.clear()
    world.end_the_dead()
    world.act(("lease", 0, 0))
    group = world.cluster.group
    for tp in [*group.offsets]:
        if rng.random() < 0.8:
            del group.offsets[tp]
            world.forgotten[tp] = len(group.history[tp])
    _resume(world, EVENT, ORDERS, TRIGGER)
    world.seen["group whose offsets expired"] += 1
    _emit(world, rng)
    _come_back(world, rng)
    world.drain()


def remake(world: World) -> None:
    """A listed topic is deleted while an engine holds its records; it is created again, or delisted."""
    # A look-back that begins before an owner has noticed would read the new topic, for half a minute.
    world.drain()
    if not world.producers.listed:
        world.act(("list", 0, 0))
        world.settle()
    rng = Random(f"remake {world.seed}")
    outputs.MAX_PASS_RECORDS = FEW
    cluster = world.cluster
    logs = cluster.topics[ORDERS].logs
    for _ in range(2 * EVENTS):
        world.producers.emit(rng.choice(logs), rng)
    for number in range(len(world.actors)):
        world.act(("into", number, rng.randrange(2)))
    cluster.delete(ORDERS)
    world.say(f"-- {ORDERS} is deleted")
    if rng.random() < 0.3:
        world.producers.delist(len(logs))
        world.seen["deleted topic taken off the list"] += 1
    else:
        cluster.create(ORDERS, len(logs), log_append_time=logs[0].log_append_time)
        for _ in range(2 * EVENTS):
            world.producers.emit(rng.choice(cluster.topics[ORDERS].logs), rng)
        _resume(world, ORDERS)
        world.seen["deleted topic created again"] += 1
    cluster.now_ms += NOTICED_MS


def leave_alone(world: World) -> Iterator[Violation]:
    """A day of waiting, in which one wait is given up; then all triggerers are killed, for two days."""
    assert world.waiting is not None
    rng = Random(f"leave alone {world.seed}")
    world.say("-- a day of waiting")
    world.waiting.add()
    world.settle()
    abandoned = world.waiting.abandon()
    world.waiting.add()
    world.settle()
    before = places(world)
    for number in range(DAY_ROUNDS):
        world.cluster.now_ms += HOUR_MS
        world.go_round()
        if number == DAY_ROUNDS - 8 and abandoned is not None and not is_registered(world, abandoned):
            yield Violation("lease", f"{abandoned[:6]} was removed before nobody had leased it for a day")
    _sweep(world)
    yield from judge_kept(world, before)
    if abandoned is not None:
        world.seen["wait that was given up by a process that goes on"] += 1
        if is_registered(world, abandoned):
            yield Violation("lease", f"{abandoned[:6]} is still registered, although nobody waits for it")
    _emit(world, rng)
    world.drain()
    yield from judge_waits(world)
    world.say("-- nobody waits for two days")
    world.waiting.add()
    world.settle()
    world.waiting.finish()
    world.with_triggerers = False
    for _ in range(2 * LAG_MS // AWAKE_MS):
        world.cluster.now_ms += AWAKE_MS
        world.go_round()
    _sweep(world)
    yield from judge_gone(world)
    log = world.cluster.topics[REGISTRY.topic].logs[0]
    world.cluster.compact(REGISTRY.topic, 0, log.end, min_lag_ms=LAG_MS, expired=log.end)
    world.with_triggerers = True
    _emit(world, rng)
    world.drain()
    world.seen["waits that were left alone for days"] += 1
    yield from judge_waits(world)
    yield from Oracle(world).judge()


def _sweep(world: World) -> None:
    """Engines learn the brokers' time, and remove registrations that nobody waits for."""
    for _ in range(3):
        world.cluster.now_ms += SWEEPS_MS
        world.settle()


def _resume(world: World, *names: str) -> None:
    """An administrator resumes all stopped partitions from their starts."""
    for name in names:
        topic = world.cluster.topics[name]
        for log in topic.logs:
            record = ResumeRecord(topic_id=topic.id, offset=0)
            world.cluster.append(REGISTRY, registry_key("resume", *log.tp), encode_json(record))


def _a_day(world: World, rng: Random, asleep: list[Actor]) -> None:
    """Registrations race with removals; a day later the registry is compacted, and removals are gone."""
    for _ in range(2):
        world.act(("race", rng.randrange(1 << 16), rng.randrange(1 << 16)))
    world.settle()
    for actor in asleep:
        world.act(("pause", world.actors.index(actor), 0))
        if actor.bus is not None and actor.bus.member is not None:
            world.cluster.leave(actor.bus.member)
            actor.troubled.add(actor.process)
    if asleep and rng.random() < 0.7:
        world.act(("remove", rng.randrange(1 << 16), 0))
    for ms in (2 * LEFTOVER_MS, SWEEPS_MS, SWEEPS_MS):  # first partitions move and engines learn the time
        world.cluster.now_ms += ms
        world.settle()
    for _ in range(1 + LAG_MS // AWAKE_MS):
        world.act(("lease", 0, 0))
        world.cluster.now_ms += AWAKE_MS
        world.go_round()
    log = world.cluster.topics[REGISTRY.topic].logs[0]
    cleared = [offset for offset, entry in log.history() if is_leftover(entry.headers)]
    until = rng.choice((log.end, *cleared[:1]))  # a log is cleaned up to the beginning of any segment
    world.cluster.compact(REGISTRY.topic, 0, until, min_lag_ms=LAG_MS, expired=until)
    world.say("-- a day has gone by, and the registry is compacted")


def _come_back(world: World, rng: Random) -> None:
    """Engines continue with random choices, so they read the registry in pieces too."""
    for actor in world.actors:
        actor.by_chance = True
    for _ in range(STEPS):
        number = rng.randrange(len(world.actors))
        world.act(("boot", number, 0))
        world.act(("run", number, 16))
        world.act(("mark", rng.randrange(1 << 16), 1))


def _emit(world: World, rng: Random) -> None:
    for n in range(EVENTS):
        world.act(("emit", rng.randrange(1 << 16), rng.randrange(1 << 16)))
        if n % 2 and all(actor.state == "up" for actor in world.actors):
            world.go_round()
