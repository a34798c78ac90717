"""What a wait waits for, what came, and what its firing was, in sentences. Pure.

Times are RFC 3339 in UTC: a terminal shows them so, a browser in its own zone. Texts of events are made
visible; none but their sources and labels is in a sentence, except those of `near_words`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ...conditions import Explanation
from ...conditions.explanation.node import EventRef, Explained
from ...conditions.explanation.wording import about, counted, moment, printed
from ..following.fired import EventPlace, Fired
from ..records.registration import Kind
from .explaining import SubscriptionReport
from .sinks import is_delivered
from .undelivered import LATE_MS

SOON_MS: Final = 15 * 60_000
HALF_MET_MS: Final = 60 * 60_000
NOT_TAKEN_MS: Final = LATE_MS
_MOST_NAMED: Final = 5
_WRAPPERS: Final = frozenset({"within", "reset", "expires", "ordered"})
_LEAVES: Final = frozenset({"event", "count"})


def words_of(report: SubscriptionReport) -> list[str]:
    """What a registered subscription waits for, what came and what is missing."""
    registered, explanation = report.registered, report.explanation
    since = moment(registered.timestamp_ms)
    if not registered.one_shot:
        first = f"{_purpose(report)}, since {since}."
        # Without an open key nothing is missing: it has fired, or no event has come yet.
        is_idle = registered.condition.keyed and not report.key_count
        if explanation is None or (explanation.key is None and is_idle):
            return [first, _of_keys(report)]
        of_key = "" if explanation.key is None else f"Of key {printed(explanation.key)}: "
        return [first, f"{of_key}{_parts_words(explanation)}."]
    if explanation is None:
        return [f"Waits since {since} for its events, by keys that they bring.", _of_keys(report)]
    of_key = "" if explanation.key is None else f" of key {printed(explanation.key)}"
    return [f"Waits since {since} for {demand(explanation.tree)}{of_key}.", f"{_parts_words(explanation)}."]


def near_words(explanation: Explanation) -> list[str]:
    """For each missing part the event that came nearest, and why it does not count. Has texts of events."""
    return [
        f"Nearest to {printed(each.label)}: {each.misses[0]}."
        for each in explanation.near_misses[:_MOST_NAMED]
        if each.misses
    ]


def late_words(explanation: Explanation) -> str:
    """What is late about a wait that has not fired; "" if nothing is. It is late in two cases:

    L1  It expires within SOON_MS, and something is missing.
    L2  Some of its events came, others are missing, and the last one came HALF_MET_MS ago or earlier.
    """
    if explanation.met or not explanation.missing:
        return ""
    of_key = "" if explanation.key is None else f"Of key {printed(explanation.key)}, "
    missing = f"{of_key}{_missing_words(explanation.missing)}"
    due = explanation.due_ms
    if explanation.tree.kind == "expires" and due is not None and due - explanation.now_ms <= SOON_MS:
        return f"{missing}, and the wait expires at {moment(due)}."
    came = [_stamp(event) for leaf in _leaves(explanation.tree) for event in leaf.events]
    if came and explanation.now_ms - max(came) >= HALF_MET_MS:
        return f"{missing}; the last of its events came at {moment(max(came))}."
    return ""


def not_taken_words(subscription: str, kind: Kind, since_ms: int, now_ms: int) -> str:
    """What is late about a firing that nobody has taken for NOT_TAKEN_MS; "" if it is younger.

    subscription, kind: whose firing it is. since_ms: when it was written.
    """
    if now_ms - since_ms < NOT_TAKEN_MS:
        return ""
    at = moment(since_ms)
    if kind == "one-shot":
        return f"It fired at {at}, and its task has not continued."
    if is_delivered(subscription):
        return f"Its firing of {at} was not delivered yet."
    return f"Its firing of {at} was not taken yet."


def words_of_firing(firing: Fired, continued_ms: int | None = None) -> list[str]:
    """When it fired, by which events, and whether it was taken.

    continued_ms: when the task continued that had waited for it; None if that is not known.
    """
    at = moment(firing.fired_ms)
    came = _listed([_taken(label, events) for label, events in firing.events.items() if events])
    without = _missing_words(firing.missing)
    if firing.outcome == "met":
        first = f"Fired at {at}: {came}." if came else f"Fired at {at}, without an event."
    else:
        details = "; ".join(filter(None, (came, without)))
        first = f"{firing.outcome.capitalize()} at {at}: {details or 'nothing came'}."
    return [first, _what_became_of(firing, continued_ms)]


def came_ms(event: EventPlace) -> int:
    """When an event was written to its topic; its own time if its record has no timestamp."""
    return event.written_ms if event.written_ms > 0 else event.time_ms


def parts_of(tree: Explained) -> tuple[int, int]:
    """(How many parts of the condition are met, how many it needs)."""
    node = _inside(tree)
    if node.need is None:
        return (1 if node.met else 0), 1
    return min(node.have or 0, node.need), node.need


def demand(tree: Explained) -> str:
    """How many events the condition needs: "2 events", "1 of 3 events"; in general words if it is nested."""
    node = _inside(tree)
    if node.kind in _LEAVES:
        return counted(node.need or 1, "event", "events")
    number = len(node.of)
    if all(each.kind == "event" for each in node.of):
        if node.kind == "all":
            return counted(number, "event", "events")
        if node.kind == "sequence":
            return f"{number} events in their order"
        if node.kind in ("any", "at_least"):
            return f"{node.need or 1} of {number} events"
    return "the events of its condition"


def _purpose(report: SubscriptionReport) -> str:
    name = report.registered.registration.subscription
    if report.sink or is_delivered(name):
        return f"Delivers each firing to {report.sink or 'a sink that was removed'}"
    kind = name.split("/")[1:2]
    if kind == ["dispatch"]:
        return "Starts a run for each firing"
    if kind == ["asset"]:
        return "Writes an asset event for each firing"
    return "Is registered, and fires again and again"


def _of_keys(report: SubscriptionReport) -> str:
    if not report.keys:
        return "No key is open."
    nearest = report.keys[0]
    missing = _missing_words(nearest.missing) or "nothing is missing"
    opened = "1 key is open" if report.key_count == 1 else f"{report.key_count} keys are open"
    return f"{opened}; of {printed(nearest.key)}, the nearest to firing, {missing}."


def _parts_words(explanation: Explanation) -> str:
    came: list[str] = []
    missing: list[str] = []
    for leaf in _leaves(explanation.tree):
        [label] = leaf.labels or (leaf.title,)
        if leaf.events:
            came.append(_came(leaf, label))
        elif leaf.met:
            continue
        elif leaf.apart:
            came.append(f"{printed(label)} is missing: {leaf.apart[0]}")
        else:
            missing.append(label)
    if explanation.waiting_count:
        came.append(_waiting(explanation))
    node = _inside(explanation.tree)
    is_choice = node.kind in ("any", "at_least") and len(missing) > (node.need or 1) - (node.have or 0)
    words = _missing_words(missing, "or" if is_choice else "and")
    if not came and missing:
        return f"Nothing came yet: {words}"
    if not missing and not explanation.missing and not explanation.waiting_count:
        due = explanation.due_ms
        came.append("nothing is missing" + ("" if due is None else f": it is decided at {moment(due)}"))
    return "; ".join(filter(None, [*came, words]))


def _waiting(explanation: Explanation) -> str:
    number, until = explanation.waiting_count, explanation.waiting_until_ms
    end = "in a moment, in the order of time" if until is None else f"at {moment(until)}"
    return f"{counted(number, 'event', 'events')} came and {'counts' if number == 1 else 'count'} {end}"


def _came(leaf: Explained, label: str) -> str:
    last = max(leaf.events, key=_stamp)
    at = f"{moment(_stamp(last))} from {printed(last.source)}"
    if (leaf.need or 1) == 1:
        return f"{printed(label)} came at {at}"
    return f"{leaf.have} of {leaf.need} {printed(label)} came, the last at {at}"


def _stamp(event: EventRef) -> int:
    """When it came; its own time if its record has no stamp."""
    if event.timestamp_ms is not None and event.timestamp_ms >= 0:
        return event.timestamp_ms
    return event.time_ms or 0


def _taken(label: str, events: Sequence[EventPlace]) -> str:
    last = max(events, key=came_ms)
    more = "" if len(events) == 1 else f" and {len(events) - 1} more"
    return f"{printed(label)} came at {moment(came_ms(last))} from {printed(last.source)}{more}"


def _what_became_of(firing: Fired, continued_ms: int | None) -> str:
    if firing.kind != "one-shot":
        if is_delivered(firing.subscription):
            return "It was not delivered yet." if firing.open else "It was delivered, given up or skipped."
        return "Its run was not created yet." if firing.open else "Its run was created, or it was skipped."
    if continued_ms is not None and continued_ms >= firing.fired_ms:
        later = about(continued_ms - firing.fired_ms)
        return f"The task continued at {moment(continued_ms)}, {later} later."
    return "The task has not taken it yet." if firing.open else "The task has taken it."


def _missing_words(labels: Sequence[str], join: str = "and") -> str:
    """ "rates is missing", "orders and rates are missing", "orders or rates is missing"; "" for none."""
    if not labels:
        return ""
    named = [printed(label) for label in labels[:_MOST_NAMED]]
    if len(labels) > _MOST_NAMED:
        named.append(f"{len(labels) - _MOST_NAMED} more")
    return f"{_listed(named, join)} {'is' if len(labels) == 1 or join == 'or' else 'are'} missing"


def _listed(texts: Sequence[str], join: str = "and") -> str:
    if len(texts) < 2:
        return "".join(texts)
    return f"{', '.join(texts[:-1])} {join} {texts[-1]}"


def _inside(tree: Explained) -> Explained:
    """The node inside windows, expiry and order."""
    while tree.kind in _WRAPPERS and len(tree.of) == 1:
        [tree] = tree.of
    return tree


def _leaves(tree: Explained) -> Iterator[Explained]:
    """The matchers that the condition still needs, or that are met; none that are negated."""
    if tree.kind == "not" or not tree.needed:
        return
    if tree.kind in _LEAVES:
        yield tree
    yield from _all_leaves(tree.of)


def _all_leaves(nodes: Iterable[Explained]) -> Iterator[Explained]:
    for node in nodes:
        yield from _leaves(node)
