"""Makes firings small enough for their records, and for the tasks that get them."""

from __future__ import annotations

import json
from contextlib import suppress

import msgspec

from .action import ActionRecord, FiringRecord
from .sizes import MAX_FIRING_BYTES

# Without the extension attributes, which are removed first.
_CORE_ATTRIBUTES = ("specversion", "id", "source", "type", "subject", "time")


def fit_action(action: ActionRecord) -> ActionRecord:
    """The action with its firing in at most MAX_FIRING_BYTES, as tasks and dispatchers get it (see `fit`)."""
    return msgspec.structs.replace(action, firing=fit(action.firing, MAX_FIRING_BYTES))


def fit(firing: FiringRecord, most: int) -> FiringRecord:
    """The same firing in at most `most` bytes of ASCII JSON.

    Until it fits: 1. replaces events' data, largest first, by a `dataref` (`kafka:topic/partition/offset`,
    CloudEvents' claim check); 2. removes extension attributes; 3. removes all attributes but the `dataref`;
    4. removes the last events of the longest lists, and counts them in `left_out`. Labels stay.
    """
    size = _size(msgspec.to_builtins(firing))
    if size <= most:
        return firing
    slots = [(label, n) for label, events in firing.events.items() for n in range(len(events))]
    events = {label: list(together) for label, together in firing.events.items()}
    sizes = {(label, n): _size(events[label][n]) for label, n in slots}
    slots.sort(key=lambda slot: sizes[slot], reverse=True)
    for keeps in (
        lambda name: name not in ("data", "data_base64"),
        _CORE_ATTRIBUTES.__contains__,
        lambda _: False,
    ):
        for label, n in slots:
            if size <= most:
                break
            small = {name: value for name, value in events[label][n].items() if keeps(name)}
            if (dataref := _dataref(firing, label, n)) is not None:
                small["dataref"] = dataref
            saved = sizes[label, n] - _size(small)
            if saved > 0:
                size -= saved
                sizes[label, n] -= saved
                events[label][n] = small
    smaller = msgspec.structs.replace(firing, events=events)
    return smaller if size <= most else _shortened(smaller, most)


def _dataref(firing: FiringRecord, label: str, n: int) -> str | None:
    """Where an event is; None in a record that no engine wrote, which may lack it."""
    for origin in firing.origins.get(label, [])[n : n + 1]:
        with suppress(KeyError):
            return f"kafka:{origin['topic']}/{origin['partition']}/{origin['offset']}"
    return None


def _shortened(firing: FiringRecord, most: int) -> FiringRecord:
    """The firing without the last events of the longest lists, and their origins. Each list keeps one."""
    lengths = {label: len(together) for label, together in firing.events.items()}
    while True:
        left_out = {
            label: firing.left_out.get(label, 0) + len(firing.events[label]) - length
            for label, length in lengths.items()
            if firing.left_out.get(label, 0) or length < len(firing.events[label])
        }
        shortened = msgspec.structs.replace(
            firing,
            events={label: firing.events[label][:length] for label, length in lengths.items()},
            origins={label: firing.origins.get(label, [])[:length] for label, length in lengths.items()},
            left_out=left_out,
        )
        longest = max(lengths.values(), default=1)
        if longest <= 1 or _size(msgspec.to_builtins(shortened)) <= most:
            return shortened
        lengths = {label: min(length, max(1, longest * 7 // 8)) for label, length in lengths.items()}


def _size(value: object) -> int:
    return len(json.dumps(value))
