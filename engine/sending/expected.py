"""The request that a delivery would make: for tests and backtests, which send nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ...events.event import Event
from ...events.http import decode
from ..bus import Record
from ..delivery.firings import OpenFiring, open_firing
from ..delivery.sinks import SinkRecord
from ..errors import RecordError
from .content import REPLY_ASKED, Content, trace_headers
from .target import SinkTarget

METHOD: Final = "POST"
_ANYWHERE: Final = SinkTarget(url="http://sink.invalid")  # the connection's address is not known


class ExpectedRequest(NamedTuple):
    """A request of a delivery. firing: with its lane.

    headers: without those of the connection, such as its credentials, and those that any HTTP request has.
    hops: how many replies may follow. references: how many events are sent without their data, which do not
    fit.
    """

    firing: OpenFiring
    headers: Sequence[tuple[str, str]]
    body: bytes
    hops: int
    references: int

    @property
    def event(self) -> Event:
        """The CloudEvent in the request, as the service reads it."""
        headers = [(name.lower().encode(), text.encode()) for name, text in self.headers]
        [found] = decode(headers, self.body)
        return found


def expected_path(sink: SinkRecord) -> str:
    """The sink's path with its query, as it is added to the connection's address. Raises TargetError."""
    return _ANYWHERE.address(sink.path).raw_path_qs


def expected_request(
    sink: SinkRecord, action: Record, event_behind: Callable[[str], Event]
) -> ExpectedRequest:
    """The request with the firing of an action record. RecordError if the record has no open firing.

    event_behind: the event that a `dataref` of the engine refers to; called for each as long as data fit.
    """
    firing = open_firing(action, sink.subscription)
    if firing is None:
        raise RecordError(f"{action} holds no open firing.")
    content = Content(sink, firing)
    for reference in content.references():
        if not content.resolve(reference, event_behind(reference.dataref)):
            break
    sent = content.encoded()
    asked = [REPLY_ASKED] if sink.replies else []
    headers = [*asked, *sent.headers, *trace_headers(sent.trace)]
    return ExpectedRequest(firing, headers, sent.body, sent.hops, sum(1 for _ in content.references()))
