"""What a connection adds to the "extensions" of the ASGI scope of a request."""

from __future__ import annotations

from typing import Final

# {NAMES: those of the client certificate}, only if there is one.
CLIENT_CERTIFICATE: Final = "interlock.client_cert"
NAMES: Final = "names"
# Set when the whole body has arrived. The app then needs no timer, which costs more than reading an event.
WHOLE_BODY: Final = "interlock.whole_body"
# A function that gets an `answers.Response` to another method than HEAD. Returns True if it has answered the
# request; otherwise the app does.
AT_ONCE: Final = "interlock.at_once"
