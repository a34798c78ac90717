"""Why a subscription has not fired, or an ended wait was not met: state, near misses, problems of the bus.

Reads only the topics, so the answer does not depend on where it runs. Writes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from ...conditions import (
    Absent,
    Condition,
    ConditionError,
    Expires,
    Explanation,
    Not,
    Quiet,
    Seen,
    State,
    canonical_key,
    explain,
    explain_rehearsal,
)
from ...conditions.explanation.wording import counted
from ...conditions.nodes.timers import moment_text
from ...events.visible import visible
from ..config import BusConfig
from ..errors import EngineError, HasFired, NoSubscription
from ..following.states import Pending
from ..following.subscriptions import Subscriptions
from ..following.view import BusView
from ..kafka.admin import Admin
from ..kafka.topics import read_registry
from ..protocol.tasks.trigger_task import single_key
from ..reading.sources import LastEvents, last_events
from ..registry.leases import LeaseHolder
from ..registry.registry import Registered
from .deliveries import deliveries, groups
from .firings import fired_sentence, open_sentence, repeats, taken
from .pending import missing
from .progress import EnginesProgress, RegistrationProgress
from .sinks import destination

DEFAULT_EVENTS: Final = 2000
MOST_EVENTS: Final = 10_000
WHY_NOT_MET_EVENTS: Final = 5000  # that `why_not_met` reads
MOST_KEYS: Final = 20  # shown for a subscription with several keys


@dataclass(frozen=True)
class OpenKey:
    """One of several keys with pending matches. last_ms: the timestamp of its latest event."""

    key: str
    events: int
    missing: tuple[str, ...]
    last_ms: int | None


@dataclass(frozen=True)
class SubscriptionReport:
    """Why a subscription has not fired.

    closed: it has fired, and is not acknowledged. explanation: for its only key, or the requested one; None
    if it has several keys. `keys` then has at most MOST_KEYS of the `key_count` keys, those with the least
    missing first. notes: what else delays it. unread: how many of the records that were searched hold no
    CloudEvent. sink: where it delivers, as a text; "" for others. searched: the events that were searched.
    """

    registered: Registered
    holders: tuple[LeaseHolder, ...]
    closed: bool
    explanation: Explanation | None
    keys: tuple[OpenKey, ...]
    key_count: int
    notes: tuple[str, ...]
    unread: int = 0
    sink: str = ""
    searched: tuple[Seen, ...] = ()


@dataclass(frozen=True)
class Outside:
    """What an explanation takes into account that is in no view of a bus.

    progress: of the engines; None if it is not known. latest: the events to search for near misses. notes:
    sentences about what else delays the subscription.
    """

    progress: EnginesProgress | None = None
    latest: LastEvents = field(default_factory=lambda: LastEvents([], 0, []))
    notes: Sequence[str] = ()


def explain_subscription(
    view: BusView, name: str, key: str | None = None, events: int = DEFAULT_EVENTS
) -> SubscriptionReport:
    """Reports on the subscription called `name`, or the only one whose name contains it.

    key: which of several keys to explain, in any form that compares equal. events: about how many of the
    latest events to search for near misses, at most MOST_EVENTS. Raises EngineError if there is no such
    subscription or key; HasFired if it is no longer registered and the action topic has its firing.
    """
    config, subscriptions = view.config, view.subscriptions
    try:
        registered = subscriptions.find(name)
    except NoSubscription:
        fired = view.fired_wait(name)
        if fired is None:
            raise
        raise HasFired(f"{fired_sentence(fired)} It is no longer registered.") from None
    wanted = wanted_key(registered, key)
    listed = () if subscriptions.bus is None else subscriptions.bus.topics
    progress = EnginesProgress.read(config, listed)
    pending = view.pending_of([registered], wanted)[registered.incarnation]
    latest = LastEvents([], 0, [])
    if has_one_key(pending, wanted):
        latest = last_events(config, subscriptions, min(max(events, 0), MOST_EVENTS))
    notes: Sequence[str] = ()
    if destination(subscriptions, registered.registration.subscription):
        deployment = registered.registration.subscription.partition("/")[0]
        _, problems = deliveries(config, subscriptions, groups(config, subscriptions, deployment))
        notes = [text for _, text in problems]
    return report_on(view, registered, pending, wanted, Outside(progress, latest, notes))


def has_one_key(pending: Pending, wanted: str | None) -> bool:
    """Whether a report explains one key; otherwise it lists the open ones. wanted: from `wanted_key`."""
    return wanted is not None or len(pending.keys) <= 1


def report_on(
    view: BusView, registered: Registered, pending: Pending, wanted: str | None, outside: Outside
) -> SubscriptionReport:
    """Reports on a registered subscription.

    pending: of the wanted key, read after the engines' progress. wanted: from `wanted_key`. Raises
    EngineError if the state record of the key is damaged.
    """
    subscriptions, name = view.subscriptions, registered.registration.subscription
    notes = list(_notes_of(registered, pending, subscriptions))
    progress = None if outside.progress is None else outside.progress.of(registered.offset)
    if progress is not None:
        notes += _delays(view.config, subscriptions, progress)
    if wanted is None and len(pending.keys) == 1:
        [wanted] = pending.keys
    seen, unread, hints = outside.latest
    notes += [*hints, *outside.notes]
    sink = destination(subscriptions, name)
    counted_before: dict[tuple[str, str], str] = {}
    if not registered.one_shot:
        firings = view.durable_firings(registered)
        notes[:0] = filter(None, [open_sentence(firings, sink)])
        counted_before = {
            **repeats(registered.condition, pending.idle, seen),
            **taken(registered, firings, seen, sink),
        }
    if pending.closed:
        fired = view.fired_wait(name)
        notes.insert(0, "It has fired." if fired is None else fired_sentence(fired))
    explained: Explanation | None = None
    if has_one_key(pending, wanted):
        state = _state_of(view.config, registered, pending, wanted or "")
        if state.since_ms is None:  # the engine filters earlier events before `step`
            state = msgspec.structs.replace(state, since_ms=registered.registration.since_ms)
        explained = explain(
            registered.condition,
            state,
            subscriptions.now_ms,
            seen,
            key=wanted or None,
            fired=counted_before,
            was_read=None if progress is None else progress.was_read,
        )
    return SubscriptionReport(
        registered,
        tuple(subscriptions.held_by(registered)),
        pending.closed,
        explained,
        () if explained is not None else open_keys(registered, pending),
        len(pending.keys),
        tuple(notes),
        unread,
        sink,
        tuple(seen),
    )


def _state_of(config: BusConfig, registered: Registered, pending: Pending, key: str) -> State:
    """The state of a key. Raises EngineError if its record is damaged."""
    try:
        return pending.state(registered, key)
    except ConditionError as error:
        of_key = f"key {key!r} of " if key else ""
        name, topic = registered.registration.subscription, config.topic("state")
        raise EngineError(
            f"The state record of {of_key}{name!r} in {topic!r} is damaged ({error}): its events become dead "
            f"letters. To begin anew: {config.command(f'subscriptions cancel {name}')}"
        ) from None


def why_not_met(
    config: BusConfig, condition: Condition, key: str | None, since_ms: int, until_ms: int
) -> str:
    """Why a wait that has ended was not met, as a text: what matched, was missing and nearly matched.

    Applies the condition to about the last WHY_NOT_MET_EVENTS events. key: the wait's. Raises EngineError if
    the events cannot be read.
    """
    since_ms = max(1, since_ms)
    Admin(config).close()  # raises UnreachableError sooner than the reader would
    events, _, hints = last_events(config, read_registry(config), WHY_NOT_MET_EVENTS)
    waited = condition.of if isinstance(condition, Expires) else condition  # the expiry itself has passed
    explained = explain_rehearsal(
        waited,
        events,
        key=key if waited.keyed else None,  # only fail_on may use the key
        start=moment_text(since_ms) if waited.plan.watches_from_the_start else None,
        since=moment_text(since_ms),
        until=moment_text(until_ms),
    )
    judged = f"Judged by the last {len(events)} events of {config.describe()}: {explained}"
    return "\n".join((judged, *map(visible, hints)))


def open_keys(registered: Registered, pending: Pending, most: int = MOST_KEYS) -> tuple[OpenKey, ...]:
    """The `most` keys with the largest states. Those with the fewest missing labels come first."""
    sizes = sorted(pending.keys.items(), key=lambda item: len(item[1]), reverse=True)
    found = []
    for key, data in sizes[:most]:
        try:
            state = State.decode(data)
        except ConditionError:
            continue
        found.append(OpenKey(key, len(state.matches), missing(registered, state), state.last_ms))
    return tuple(sorted(found, key=lambda each: (len(each.missing), -each.events)))


def wanted_key(registered: Registered, key: str | None) -> str | None:
    """The canonical form of the key to explain; "" for a condition without keys, None for all keys."""
    own, name = single_key(registered), registered.registration.subscription
    if key is None:
        return own
    if own == "":
        raise EngineError(f"The condition of {name!r} has no keys: omit --key.")
    asked: Any = key
    if registered.condition.key_parts > 1:
        try:
            asked = json.loads(key)
        except (ValueError, RecursionError):
            asked = None
        if not isinstance(asked, list):
            raise EngineError(
                f"A key of {name!r} has {registered.condition.key_parts} values: write them as a JSON list."
            )
    try:
        canonical = canonical_key(asked)
    except ConditionError as error:
        raise EngineError(f"--key: {error}") from None
    if own is not None and canonical != own:
        raise EngineError(f"{name!r} waits for key {own!r} only, not for {canonical!r}.")
    return canonical


def watches_silence(condition: Condition) -> bool:
    """Whether it has `absent`, `.quiet()` or `~`, and the order of partitions decides if it fires (V4)."""
    return not condition.merge_independent and _has_silence(condition)


def _has_silence(condition: Condition) -> bool:
    return isinstance(condition, (Absent, Not, Quiet)) or any(map(_has_silence, condition.operands))


def _notes_of(registered: Registered, pending: Pending, subscriptions: Subscriptions) -> Iterable[str]:
    if watches_silence(registered.condition) and subscriptions.partitions > 1:
        yield (
            "It waits for silence (absent, quiet or ~). If events of one key are in several partitions, a "
            "silence can be missed around a failover of an engine: use .ordered(), or let producers give the "
            "events of a key the same partitionkey or subject."
        )
    if pending.unreadable:
        yield (f"State records that cannot be read: {pending.unreadable}. Run the version that wrote them.")
    if pending.idle:
        yield (
            f"Keys without pending matches, because they fired or were reset: {len(pending.idle)}. For an "
            "hour repeats of their events are recognised."
        )
    if registered.one_shot and not subscriptions.refusal(registered):
        yield (
            "No process has a current lease for it: the task is gone, or no triggerer runs its trigger. A "
            "triggerer that starts the trigger continues with this state."
        )


def _delays(config: BusConfig, subscriptions: Subscriptions, progress: RegistrationProgress) -> list[str]:
    """What delays the subscription: no engine, stopped partitions, unprocessed records."""
    notes = []
    if not progress.members:
        notes.append(f"The bus has no engine. Start a triggerer, or run: {config.command('engine')}")
    notes += [f"{tp}: {text}" for tp, text in sorted(subscriptions.problems.items())]
    if behind := progress.partitions("not applied"):
        notes.append(
            f"Source partitions where its registration is not applied yet: {behind}. The engines are behind."
        )
    if scanned := progress.partitions("scan"):
        notes.append(f"Source partitions still scanned for earlier events: {scanned}.")
    if progress.events or progress.matches:
        most = f"{counted(progress.events, 'event', 'events')} and "
        most += counted(progress.matches, "match", "matches")
        notes.append(f"Not processed yet: at most {most}.")
    return notes
