"""What the receiver does with the requests to one path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from ..events.event import Event
from .answers import Response
from .batch import Batch
from .grant import Grant

MOST_EVENTS: Final = 5000  # of one request


@dataclass(slots=True)
class Request:
    """A request without its body. headers: in their order, names in lower case. query: not decoded.

    certificate_names: those of the sender's verified client certificate (`certificate.names_of`). last: each
    header's last value by its name.
    """

    method: str
    path: str
    headers: Sequence[tuple[bytes, bytes]]
    query: bytes = b""
    certificate_names: frozenset[str] = frozenset()
    last: dict[bytes, bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.last = dict(self.headers)

    def header(self, name: bytes) -> bytes | None:
        """The value of a header that must not be repeated; None if it is missing or repeated."""
        if name not in self.last or len(self.last) == len(self.headers):
            return self.last.get(name)
        found = [value for each, value in self.headers if each == name]
        return found[0] if len(found) == 1 else None


class Senders(Protocol):
    """Recognises the sender of a request by its headers or certificate: `credentials.Credentials`."""

    async def admit(self, request: Request) -> Grant | Response:
        """What the sender may write, or the answer to a sender that may not."""
        ...


class Endpoint(Protocol):
    """Makes events of the POST requests to a path. It writes nothing itself.

    accepted: the answer when the events are written; a `Batch` has its own. needs_body: the sender is
    authenticated by the body, in `read`, not in `admit`.
    """

    accepted: Response
    needs_body: bool

    async def admit(self, request: Request) -> Grant | Response:
        """What the sender may write, or the answer to a sender that may not; before the body is read."""
        ...

    def read(self, request: Request, body: bytes) -> Sequence[Event] | Batch | Response:
        """The events of an admitted request, or the answer to one that has none.

        Called in a thread if the body is large. Raises MediaTypeError (HTTP: 415), BatchTooLargeError (413)
        or EventError (400) naming every fault. Then nothing is written.
        """
        ...

    def answer(self, request: Request) -> Response:
        """The answer to another method than POST."""
        ...
