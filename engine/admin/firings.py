"""What explanations say of firings: which are open, and which events took part in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from ...conditions import Condition, ConditionError, Seen, State
from ...conditions.evaluate.seen import remembers
from ..following.fired import Fired
from ..following.firings import DurableFirings
from ..registry.registry import Registered


def taken(
    registered: Registered, firings: DurableFirings, events: Iterable[Seen], sink: str = ""
) -> dict[tuple[str, str], str]:
    """{(source, id): a text for the firing in which the event took part}, for the given events only.

    sink: where the firings are delivered, as a text; "" if they are dispatched.
    """
    wanted = {seen.event.identity for seen in events}
    found = {}
    for fired in reversed(firings.last):  # the latest firing of an event counts
        if fired.incarnation != registered.incarnation:
            continue  # for the present meaning of the subscription, the events count again
        if sink:
            so_far = "it was not delivered yet" if fired.open else "it was delivered, given up or skipped"
        else:
            so_far = "its run was not created yet" if fired.open else "its run was created or skipped"
        text = f"firing {fired.id} of {fired.fired_at}; {so_far}"
        for events_of_label in fired.events.values():
            found.update({each.identity: text for each in events_of_label if each.identity in wanted})
    return found


def open_sentence(firings: DurableFirings, sink: str = "") -> str:
    """A sentence about the open firings; "" without any. sink: as for `taken`."""
    count, since_ms = firings.open.count, firings.open.since_ms
    if since_ms is None:
        return ""
    since = datetime.fromtimestamp(since_ms / 1000, UTC).isoformat(timespec="seconds")
    if sink:
        return (
            f"It has fired; open firings that were not delivered yet: {count}, the oldest of {since}. They "
            f"go to {sink}: if they wait for long, the log of the process that delivers says why."
        )
    return (
        f"It has fired; open firings that were not dispatched yet: {count}, the oldest of {since}. The "
        "dispatcher waits for room in its target, or cannot create a run for a firing: see the log of its "
        "task."
    )


def fired_sentence(fired: Fired) -> str:
    """A sentence about the firing of a one-shot subscription."""
    taken = "its task has not received it yet" if fired.open else "its task has received it"
    return f"{fired.subscription!r} fired at {fired.fired_at}: {fired.outcome}, id {fired.id}; {taken}."


def repeats(
    condition: Condition, idle: Mapping[str, bytes], events: Iterable[Seen]
) -> dict[tuple[str, str], str]:
    """{(source, id): ""} of the events that count as seen for their key.

    idle: {key: encoded state} of the keys without partial matches (see `Pending`).
    """
    if not idle:
        return {}
    states: dict[str, State | None] = {}
    found = {}
    for seen in events:
        for key in {matcher.key_of(seen.event) or "" for matcher in condition.matchers}:
            if key not in idle:
                continue
            if key not in states:
                states[key] = _decoded(idle[key])
            state = states[key]
            if state is not None and remembers(
                state.seen, state.last_ms, seen.event.identity, seen.timestamp_ms
            ):
                found[seen.event.identity] = ""
    return found


def _decoded(data: bytes) -> State | None:
    try:
        return State.decode(data)
    except ConditionError:
        return None
