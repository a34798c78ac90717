"""What a connection adds to the "extensions" of the ASGI scope of a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from .answers import Response

# {NAMES: those of the client certificate}, only if there is one.
CLIENT_CERTIFICATE: Final = "interlock.client_cert"
NAMES: Final = "names"
# A `Whole`, once the request has arrived completely.
WHOLE: Final = "interlock.whole"


class Whole(Protocol):
    """A request that has arrived completely. Its messages, and the timer of its body, are not needed."""

    def body(self) -> bytes | None:
        """Takes the body; None if the app has to ask for it, as for any other request."""
        ...

    def answer(self, answer: Response) -> bool:
        """Answers the request, whose method is not HEAD. Returns False if the app has to do it."""
        ...
