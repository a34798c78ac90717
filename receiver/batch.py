"""A batch of OpenLineage events of which those that are right are written, whatever is wrong with others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from ..events.event import Event
from .answers import Response, joined, problem
from .grant import Grant

_MOST_NAMED: Final = 100  # refused events in an answer, which must not be much larger than the request
_REASON_CHARACTERS: Final = 200


class Batch:
    """The events of a batch that are to be written, and why the others are refused.

    events, refused: by their index in the batch, from 0 on.
    """

    def __init__(self, events: Mapping[int, Event], refused: Mapping[int, str]) -> None:
        self._events, self._refused = events, refused

    @property
    def events(self) -> Sequence[Event]:
        return list(self._events.values())

    @property
    def answer(self) -> Response:
        """The answer when the events are written: of postEventBatch in OpenLineage's API (OpenLineage.yml).

        204 if they are all of the batch, else 200, which names the refused ones.
        """
        if not self._refused:
            return Response(204)
        written, refused = len(self._events), len(self._refused)
        named = list(self._refused.items())[:_MOST_NAMED]
        form = {
            "status": "partial_success",
            "summary": {
                "received": written + refused,
                "successful": written,
                "failed": refused,
                "retriable": 0,
                "non_retriable": refused,
            },
            "failed_events": [
                {"index": index, "reason": joined([reason], _REASON_CHARACTERS), "retriable": False}
                for index, reason in named
            ],
        }
        return Response(200, msgspec.json.encode(form), "application/json")

    def granted(self, grant: Grant) -> Batch | Response:
        """Without the events that the sender may not write; a problem if no event is left of some."""
        forbidden = {
            index: refusal
            for index, event in self._events.items()
            if (refusal := grant.refusal(event)) is not None
        }
        events = {index: event for index, event in self._events.items() if index not in forbidden}
        refused = dict(sorted({**self._refused, **forbidden}.items()))
        if events or not refused:
            return Batch(events, refused)
        of = len(refused)
        reasons = (f"event {index + 1} of {of}: {reason}" for index, reason in refused.items())
        return problem(403 if forbidden else 400, joined(reasons))
