"""What must be true of waiting tasks when a world is at rest, judged from the logs and what Airflow stored.

The checks: `lost` (each wait stays registered, and gets its firing), `once` (a task is resumed once, with a
firing of its own incarnation), `acked` (only firings that a task has are acknowledged), `left` (a task that
is done leaves no registry key that it knew), `lease` (registrations with a lease stay, others are removed).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from interlock.engine.bus import TopicPartition
from interlock.engine.records import ActionRecord, decode_json, partition_of
from interlock.engine.registry.leases import is_lease

from tests.kit.kafka import Entry
from tests.simulation.oracle import Oracle, Violation
from tests.simulation.topics import ACTION, REGISTRY
from tests.simulation.waiters import Resumed, keys_in_force
from tests.simulation.waiting import Waiting
from tests.simulation.world import World


def judge_waits(world: World) -> Iterator[Violation]:
    """After a drain."""
    if world.waiting is None:
        return
    yield from _lost(world, world.waiting)
    yield from _once(world, world.waiting)
    yield from _acked(world, world.waiting)
    yield from _left(world, world.waiting)


def places(world: World) -> Mapping[str, int]:
    """{incarnation: registry offset} of the registrations that tasks wait for."""
    assert world.waiting is not None
    waited = {task.registration.incarnation for task in world.waiting.tasks if task.state == "deferred"}
    return {
        instance.registration.incarnation: instance.offset
        for instance in Oracle(world).instances
        if instance.in_force and instance.registration.incarnation in waited
    }


def judge_kept(world: World, before: Mapping[str, int]) -> Iterator[Violation]:
    """After a day: a registration that a task has waited for all the time was never removed."""
    assert world.waiting is not None
    now = places(world)
    for task in world.waiting.tasks:
        incarnation = task.registration.incarnation if task.state == "deferred" else ""
        if incarnation in before and now.get(incarnation) != before[incarnation]:
            yield Violation(
                "lease", f"{incarnation[:6]}@{before[incarnation]} is waited for, and was removed"
            )


def is_registered(world: World, incarnation: str) -> bool:
    """Whether a registration of the incarnation is in force."""
    return any(
        instance.in_force and instance.registration.incarnation == incarnation
        for instance in Oracle(world).instances
    )


def judge_gone(world: World) -> Iterator[Violation]:
    """Two days after the last process that waited was killed."""
    for instance in Oracle(world).instances:
        if instance.in_force and instance.registration.kind == "one-shot":
            yield Violation("lease", f"{instance} is still registered, although nobody waits for it")
    last = {entry.key or b"": entry.value for _, entry in _history(world, REGISTRY)}
    for key, value in last.items():
        if is_lease(key) and not _is_of_users(key) and value is not None:
            yield Violation("lease", f"{key!r} of a process that is gone is in the registry")


def _is_of_users(key: bytes) -> bool:
    """Whether a lease is that of `Users`."""
    return key.split(b"/")[1] == b"p"


def _lost(world: World, waiting: Waiting) -> Iterator[Violation]:
    in_force = {i.registration.incarnation for i in Oracle(world).instances if i.in_force}
    for task in waiting.tasks:
        if task.state == "done":
            continue
        if task.state != "deferred":
            if task.since_ms is not None:
                yield Violation("lost", f"{task.name} is {task.state}")
            continue
        incarnation = task.registration.incarnation
        newest = None
        for log in world.cluster.topics[ACTION].logs:
            for _, entry in log.history():
                if entry.key == task.name.encode() and entry.value is not None:
                    newest = decode_json(ActionRecord, entry.value, str(log.tp))
        if newest is not None and newest.incarnation == incarnation:
            yield Violation("lost", f"{task.name} has not got its firing {newest.firing.id[:6]}")
        elif incarnation not in in_force:
            yield Violation("lost", f"{task.name} waits for {incarnation[:6]}, which is not registered")


def _once(world: World, waiting: Waiting) -> Iterator[Violation]:
    for resumed in waiting.resumptions:
        action = resumed.action
        own, other = resumed.incarnation[:6], action.incarnation[:6]
        if own != other:
            yield Violation("once", f"{resumed.task} waits for {own}, and got a firing of {other}")
        fired = any(
            entry.transaction is not None and entry_action.firing.id == action.firing.id
            for entry, entry_action in _actions(world, resumed)
        )
        if not fired:
            yield Violation(
                "once", f"{resumed.task} was resumed with {action.firing.id[:6]}, which was not fired"
            )
    done = [resumed.incarnation for resumed, _ in waiting.finished]
    for incarnation in {each for each in done if done.count(each) > 1}:
        yield Violation("once", f"{incarnation[:6]} finished {done.count(incarnation)} times")


def _acked(world: World, waiting: Waiting) -> Iterator[Violation]:
    ends: dict[tuple[str, int], int] = {}  # of a firing's partition when its task was first resumed with it
    for resumed in waiting.resumptions:
        for partition, end in enumerate(resumed.ends):
            ends.setdefault((resumed.action.firing.id, partition), end)
    names = {task.name.encode() for task in waiting.tasks}
    acked = set()
    for log in world.cluster.topics[ACTION].logs:
        for offset, entry in log.history():
            if entry.key not in names or entry.value is None:
                continue
            action = decode_json(ActionRecord, entry.value, f"{log.tp}@{offset}")
            if action.state == "acked":
                acked.add(action.firing.id)
                end = ends.get((action.firing.id, log.tp.partition))
                if end is None or offset < end:
                    yield Violation("acked", f"{log.tp}@{offset} is acknowledged, and no task had it by then")
    for resumed, acknowledged in waiting.finished:
        if acknowledged and resumed.action.firing.id not in acked:
            yield Violation("acked", f"{resumed.action.firing.id[:6]} of {resumed.task} is not acknowledged")


def _left(world: World, waiting: Waiting) -> Iterator[Violation]:
    for resumed, acknowledged in waiting.finished:
        left = resumed.known.intersection(keys_in_force(world.cluster, resumed.incarnation, 1 << 62))
        if acknowledged and left:
            yield Violation("left", f"{resumed.task} is done, and left {sorted(left)}, which it knew")


def _actions(world: World, resumed: Resumed) -> Iterator[tuple[Entry, ActionRecord]]:
    tp = TopicPartition(ACTION, partition_of("one-shot", resumed.task, "", world.triggers))
    for offset, entry in _history(world, tp):
        if entry.key == resumed.task.encode() and entry.value is not None:
            yield entry, decode_json(ActionRecord, entry.value, f"{tp}@{offset}")


def _history(world: World, tp: TopicPartition) -> Iterable[tuple[int, Entry]]:
    log = world.cluster.log(tp)
    assert log is not None
    return log.history()
