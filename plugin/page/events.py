"""`GET /events`: the latest events of a bus. `GET /event`: one of them, and who takes it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from typing import Annotated, Any, Final, NamedTuple

from fastapi import APIRouter, HTTPException, Query
from starlette.responses import Response

from ...conditions import Seen
from ...conditions.explanation.records import reference
from ...conditions.explanation.wording import clean
from ...engine.admin.takers import Takers, takers_of
from ...engine.bus import Record, TopicPartition
from ...engine.config import BusConfig
from ...engine.following.owner import owner_of
from ...engine.following.read_model import ReadModel, Rows
from ...engine.kafka.admin import Admin
from ...engine.reading.sources import event_of, read_between
from ...engine.registry.facts import BusFacts
from ...engine.registry.registry import Registered
from ...events.attributes import CORE
from ...events.errors import EventError
from ...events.event import Event
from .answers import Asked, Asks
from .rows import ids
from .waits import Limit, Text

router = APIRouter()
Number = Annotated[int, Query(ge=0, le=2**62)]
# Of each kind, that are compared with an event: one whose condition no other has takes half a millisecond.
_MOST_SUBSCRIPTIONS: Final = 500
_MOST_KEYS: Final = 3
_TAKERS_FRESH_S: Final = 10.0
_MOST_DATA_CHARS: Final = 64 * 1024
_MOST_TEXT_CHARS: Final = 2048
_EVENT_FRESH_S: Final = 60.0  # a record does not change
_LACKING: Final = "see events: they belong to no DAG, so it needs the right to read all DAGs"


@router.get("/events")
def events(
    asks: Asks,
    since: Number = 0,
    type: Text = "",  # noqa: A002  # CloudEvents' words
    source: Text = "",
    subject: Text = "",
    search: Text = "",
    limit: Limit = 50,
) -> Response:
    """The newest first, of about the latest 2,000. A filter is a part of the attribute, in any case."""
    asks.rights.require(asks.rights.reads_all, _LACKING)
    texts = asks.rights.reads_texts()
    facts = asks.model().subscriptions
    latest = asks.bus.latest(facts)
    wanted = {"type": type, "source": source} | ({"subject": subject} if texts else {})
    rows: list[dict[str, Any]] = []
    for seen in latest.events:
        if (seen.timestamp_ms or 0) < since:
            continue
        if _has(seen.event, wanted) and _is_found(seen.event, search, texts):
            rows.append(_listed(seen, texts))
            if len(rows) == limit:
                break
    oldest = min((seen.timestamp_ms or 0 for seen in latest.events), default=0)
    return asks.answer(
        {
            "rows": rows,
            "unreadable": latest.unreadable,
            "looked_at": len(latest.events),
            "complete": len(rows) < limit and oldest <= since,
            "may": {"read_texts": texts},
        }
    )


@router.get("/event")
def event(
    asks: Asks, topic: Annotated[str, Query(min_length=1, max_length=249)], partition: Number, offset: Number
) -> Response:
    """One event, and the registered subscriptions that it meets and nearly meets."""
    asks.rights.require(asks.rights.reads_all, _LACKING)
    texts = asks.rights.reads_texts()
    model = asks.model()
    facts = model.subscriptions
    place = TopicPartition(topic, partition)
    if topic != asks.bus.config.topic("event") and topic not in _listed_topics(facts):
        raise HTTPException(404, f"The bus reads no topic {topic!r}.")
    seen = asks.bus.ask(
        ("event", place, offset), lambda: _read(asks.bus.config, facts, place, offset), _EVENT_FRESH_S
    )
    if seen is None:
        raise HTTPException(
            404, f"There is no event at {place}@{offset}: retention removed it, or it is not a CloudEvent."
        )
    compared = asks.bus.ask(("takers", place, offset), lambda: _compared(model, seen), _TAKERS_FRESH_S)
    found = compared.takers
    nearly = [
        {
            "subscription": each.registered.registration.subscription,
            "label": each.label,
            "because": each.miss.reason()
            if texts
            else f"{each.miss.why}: {each.miss.term or ''}".rstrip(": "),
        }
        for each in found.nearly
    ]
    return asks.answer(
        {
            "event": _whole(seen) if texts else _listed(seen, texts),
            "met": [_named(each, asks) for each in found.met],
            "nearly": nearly,
            "left_out": found.left_out,
            "subscriptions": {"shown": compared.shown, "all": compared.all},
        }
    )


def _read(config: BusConfig, facts: BusFacts, place: TopicPartition, offset: int) -> Seen | None:
    """The event at a position; None if there is none."""
    with closing(Admin(config)) as admin:
        topic = admin.topics([place.topic], others=_listed_topics(facts))[place.topic]
        if topic is None or place.partition >= topic.partitions:
            return None
        low, end = admin.start_offsets([place])[place], admin.end_offsets([place])[place]
    if not low <= offset < end:
        return None
    cloudevents = () if facts.bus is None else facts.bus.cloudevents
    for record in read_between(config, {place: offset}, {place: offset + 1}):
        if record.offset == offset:
            return _seen(config, cloudevents, record)
    return None


def _seen(config: BusConfig, cloudevents: tuple[str, ...], record: Record) -> Seen | None:
    try:
        found = event_of(config, cloudevents, record)
    except EventError:
        return None
    return Seen(found, *record.source, record.offset, record.timestamp_ms)


def _listed_topics(facts: BusFacts) -> tuple[str, ...]:
    return () if facts.bus is None else tuple(facts.bus.topics)


class _Compared(NamedTuple):
    """takers: of an event, among `shown` of `all` registered subscriptions."""

    takers: Takers
    shown: int
    all: int


def _compared(model: ReadModel, seen: Seen) -> _Compared:
    """Compares an event with durable subscriptions, waits that name its type, and waits of its keys."""
    durable = model.page(Rows("durable"), _MOST_SUBSCRIPTIONS)
    waits = model.newest("one-shot", seen.event.type, _MOST_SUBSCRIPTIONS)
    found = {each.offset: each for each in (*durable.rows, *waits)}
    keys = _keys(seen, found.values())
    if keys and len(waits) == _MOST_SUBSCRIPTIONS:  # else all of them are among these
        of_keys = model.newest("one-shot", seen.event.type, _MOST_SUBSCRIPTIONS, keys)
        found |= {each.offset: each for each in of_keys}
    every = len(model.subscriptions)
    return _Compared(
        takers_of(seen, [found[offset] for offset in sorted(found, reverse=True)]), len(found), every
    )


def _keys(seen: Seen, subscriptions: Iterable[Registered]) -> list[str]:
    """The keys that the event has for these conditions, at most _MOST_KEYS."""
    conditions = {id(each.condition): each.condition for each in subscriptions}
    matchers = (matcher for condition in conditions.values() for matcher in condition.matchers)
    keys = {matcher.key_of(seen.event) for matcher in matchers if matcher.accepts(seen.event)}
    return sorted(key for key in keys if key is not None)[:_MOST_KEYS]


def _named(registered: Registered, asks: Asked) -> dict[str, Any]:
    registration = registered.registration
    owner = owner_of(registration.subscription, registration.kind, asks.bus.config.deployment)
    return {
        "name": registration.subscription,
        "kind": registration.kind,
        "key": registration.key,
        **ids(owner),
    }


def _has(found: Event, wanted: dict[str, str]) -> bool:
    return all(
        part.casefold() in found.attributes.get(name, "").casefold() for name, part in wanted.items() if part
    )


def _is_found(found: Event, search: str, texts: bool) -> bool:
    """Whether its id has this text; if its texts may be seen, also whether its attributes or data have it."""
    if not search:
        return True
    wanted = search.casefold()
    if wanted in found.id.casefold():
        return True
    return texts and (
        any(wanted in value.casefold() for value in found.attributes.values())
        or search.encode() in (found.data or b"")
    )


def _listed(seen: Seen, texts: bool) -> dict[str, Any]:
    """Identity, time and place; with the subject if texts may be seen."""
    found: dict[str, Any] = reference(seen).to_json()
    if texts and seen.event.subject is not None:
        found["subject"] = clean(seen.event.subject, _MOST_TEXT_CHARS)
    return found


def _whole(seen: Seen) -> dict[str, Any]:
    attributes = seen.event.attributes
    extensions = {
        clean(name, 100): clean(value, _MOST_TEXT_CHARS)
        for name, value in attributes.items()
        if name not in CORE
    }
    data = seen.event.data
    return {
        **_listed(seen, texts=True),
        "datacontenttype": attributes.get("datacontenttype"),
        "extensions": extensions,
        "data": None if data is None else clean(data.decode("utf-8", "replace"), _MOST_DATA_CHARS),
        "data_bytes": len(data or b""),
    }
