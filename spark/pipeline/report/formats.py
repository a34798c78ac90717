"""Formats numbers, durations, times and external texts for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from os.path import commonprefix
from typing import Final

NONE: Final = "–"  # for a missing value
_SECOND: Final = 1000
_MINUTE: Final = 60 * _SECOND
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
LAST_MS: Final = 253_402_300_799_999  # the end of the year 9999


def duration(ms: int | None) -> str:
    """850 ms, 1.25 s, 12.5 s, 3 min 20 s, 2 h 5 min, 3 d 4 h; "–" for None."""
    if ms is None:
        return NONE
    if ms < 0:
        return f"−{duration(-ms)}"
    if ms < _SECOND:
        return f"{ms} ms"
    if ms < _MINUTE:
        hundredths = ms // 10  # never rounded up to "60 s"
        return f"{hundredths / 100:.2f} s" if ms < 10 * _SECOND else f"{hundredths // 10 / 10:.1f} s"
    for unit, name, below, below_name in (
        (_DAY, "d", _HOUR, "h"),
        (_HOUR, "h", _MINUTE, "min"),
        (_MINUTE, "min", _SECOND, "s"),
    ):
        if ms >= unit:
            rest = ms % unit // below
            return f"{ms // unit:,} {name}" + (f" {rest} {below_name}" if rest else "")
    raise AssertionError(ms)


def number(value: int | None) -> str:
    return NONE if value is None else f"{value:,}"


def counted(value: int, one: str, many: str | None = None) -> str:
    """1 row, 2 rows."""
    return f"{value:,} {one if value == 1 else many or f'{one}s'}"


def size(count: int | None) -> str:
    """Bytes: 512 B, 1.2 KiB, 3.4 MiB."""
    if count is None:
        return NONE
    if count < 1024:
        return f"{count} B"
    value = float(count)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        value /= 1024
        if value < 1024 or unit == "TiB":
            return f"{value:,.1f} {unit}"
    raise AssertionError(count)


def moment(ms: int | None) -> str:
    """2026-11-20 08:15:03, in UTC; "… ms" outside the calendar, which a producer's timestamp may be."""
    if ms is None:
        return NONE
    if not 0 <= ms <= LAST_MS:
        return f"{ms} ms"
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def printable(text: object, most: int = 200) -> str:
    """External text on one line, with replacement characters for unprintable ones (some change the direction
    of writing), and its middle cut out beyond `most` characters."""
    plain = "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in str(text))
    if len(plain) <= most:
        return plain
    end = (most - 1) // 2
    return f"{plain[: most - 1 - end]}…{plain[-end:]}"


def kind(type_: str, topic: str | None) -> str:
    """An event type; for a plain record, all of which have one type, its topic."""
    return type_ if topic is None else f"topic {topic}"


def distinct(labels: Sequence[str], most: int) -> list[str]:
    """The labels, each `printable` within `most` characters, different ones in different texts.

    Labels whose middle cannot be cut without making them equal keep the part in which they differ; a number
    tells apart what is still equal.
    """
    texts = [printable(label, most) for label in labels]
    for text in {each for each in texts if texts.count(each) > 1}:
        places = [place for place, each in enumerate(texts) if each == text]
        whole = [printable(labels[place], 100_000) for place in places]
        if len(set(whole)) == 1 and len({labels[place] for place in places}) == 1:
            continue  # one label, several times
        start = max(len(commonprefix(whole)) - most // 4, 0)  # noqa: RUF071  # of texts, not paths
        for place, each in zip(places, whole, strict=True):
            texts[place] = printable(f"…{each[start:]}" if start else each, most)
    seen: dict[str, set[str]] = {}
    for place, label in enumerate(labels):
        users = seen.setdefault(texts[place], {label})
        if label not in users:
            number = f" #{len(users) + 1}"
            users.add(label)
            texts[place] = printable(texts[place], most - len(number)) + number
    return texts


def who(waiter: str | None, dag: str | None, task: str | None) -> str:
    """`daily_report.ready`, `settle (dispatch)`; the subscription's name if it has another form."""
    name = printable(dag if dag is not None else NONE)
    if task is not None:
        return f"{name}.{printable(task)}"
    return name if waiter in (None, "other") else f"{name} ({waiter})"
