"""`GET /dead-letters` and `GET /dead-letter`: records that could not be processed."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated, Any, Final, Literal, NamedTuple

from fastapi import APIRouter, Query
from starlette.responses import Response

from ...conditions.explanation.wording import clean
from ...engine.admin.dead_letters import DeadLetter, DeadLetters, Selection
from ...engine.admin.sinks import answered, destination
from ...engine.bus import Record
from ...engine.config import BusConfig
from ...engine.delivery.acknowledgements import ERROR_DATA
from ...engine.registry.facts import BusFacts
from .answers import Asks
from .events import Number
from .waits import Limit, Text

router = APIRouter()
MOST_SEARCHED: Final = 20_000  # of the latest records
_MOST_CHARS: Final = 64 * 1024  # of a key or a value
_MOST_TEXT_CHARS: Final = 2048
_FRESH_S: Final = 10.0
_LACKING: Final = (
    "see dead letters: their reasons have texts of events of any DAG, so it needs the right to read all DAGs "
    "and their logs"
)


class _Content(NamedTuple):
    dead_letter: DeadLetter
    record: Record


@router.get("/dead-letters")
def dead_letters(
    asks: Asks,
    since: Number = 0,
    stage: Literal["event", "trigger", "delivery", ""] = "",
    reason: Text = "",
    limit: Limit = 100,
) -> Response:
    """The newest first, of about the latest 20,000."""
    asks.rights.require(asks.rights.reads_texts(), _LACKING)
    facts = asks.model().subscriptions
    wanted = Selection(since or None, stage or None, reason or None)
    config = asks.bus.config

    def read() -> list[DeadLetter]:
        with closing(DeadLetters(config)) as found:
            return found.find(wanted, limit, MOST_SEARCHED)

    rows = asks.bus.ask(("dead letters", wanted, limit), read, _FRESH_S)
    return asks.answer({"rows": [_row(each, facts) for each in rows]})


@router.get("/dead-letter")
def dead_letter(asks: Asks, place: Annotated[str, Query(min_length=1, max_length=300)]) -> Response:
    """One, with `content` for who may edit the connection."""
    asks.rights.require(asks.rights.reads_texts(), _LACKING)
    operates = asks.rights.operates(asks.bus.conn_id)
    facts = asks.model().subscriptions
    config = asks.bus.config
    found = asks.bus.ask(("dead letter", place), lambda: _read(config, place), _FRESH_S)
    row = _row(found.dead_letter, facts)
    return asks.answer({**row, "content": _content(found.record) if operates else None})


def _read(config: BusConfig, place: str) -> _Content:
    with closing(DeadLetters(config)) as found:
        [pair] = found.records(found.at([place]))
        return _Content(*pair)


def _row(found: DeadLetter, facts: BusFacts) -> dict[str, Any]:
    sink = (destination(facts, found.subscription) or "removed") if found.subscription else None
    return {
        "place": found.place,
        "time_ms": found.time_ms,
        "stage": clean(found.stage, 100),
        "reason": clean(found.reason, _MOST_TEXT_CHARS),
        "origin": found.origin_place or None,
        "attempts": found.attempts,
        "type": clean(found.event_type, _MOST_TEXT_CHARS) or None,
        "id": clean(found.event_id, _MOST_TEXT_CHARS) or None,
        "subscription": clean(found.subscription, _MOST_TEXT_CHARS) or None,
        "sink": sink,
        "redriven_ms": found.redriven_ms,
    }


def _content(record: Record) -> dict[str, Any]:
    headers = {
        clean(name, 200): clean(answered(raw), _MOST_TEXT_CHARS) if name == ERROR_DATA else _text(raw)
        for name, raw in record.headers or ()
    }
    return {
        "key": _text(record.key),
        "value": _text(record.value),
        "value_bytes": len(record.value or b""),
        "headers": headers,
    }


def _text(raw: bytes | None) -> str | None:
    """UTF-8 text as it is, other bytes in hexadecimal; both cut."""
    if raw is None:
        return None
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = f"hex {raw[: _MOST_CHARS // 2].hex()}"
    return clean(text, _MOST_CHARS)
