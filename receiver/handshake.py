"""The validation handshake of CloudEvents' webhooks: a sender asks with OPTIONS whether it may send here.

https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/http-webhook.md, section 4. It protects others
from being flooded by the sender; it is no authentication, and the events still need a credential.
"""

from __future__ import annotations

import re
from collections.abc import Set
from typing import Final

from ..engine.errors import ConfigError
from .answers import Response, problem
from .endpoint import Request

ANY: Final = "*"
_ALLOW: Final = "POST, OPTIONS"
# A DNS name, as section 4.1.2 has it.
_ORIGIN: Final = re.compile(r"(?=.{1,253}$)[a-z0-9_]([a-z0-9_.-]*[a-z0-9])?", re.IGNORECASE)
_RATE: Final = re.compile(rb"0*[1-9][0-9]{0,17}")


def check_origins(origins: list[str]) -> None:
    """Raises ConfigError naming what is neither a DNS name nor `*`."""
    for origin in origins:
        if origin != ANY and _ORIGIN.fullmatch(origin) is None:
            raise ConfigError(f"--allow-origin {origin!r} is neither a DNS name (events.example.com) nor *.")


def answer_options(request: Request, origins: Set[str]) -> Response:
    """Grants any rate to a declared origin. origins: in lower case.

    The receiver never calls the URL in WebHook-Request-Callback: a sender could have it call any address that
    the receiver reaches.
    """
    origin = (request.header(b"webhook-request-origin") or b"").decode("latin-1")
    rates = [value for name, value in request.headers if name == b"webhook-request-rate"]
    if len(rates) > 1 or any(_RATE.fullmatch(rate) is None for rate in rates):
        return problem(
            400, "WebHook-Request-Rate is not a positive number of requests per minute.", allow=_ALLOW
        )
    if not origin:
        return problem(400, "Send one header WebHook-Request-Origin with your DNS name.", allow=_ALLOW)
    if ANY not in origins and origin.lower() not in origins:
        detail = (
            "This origin may not send events here; the receiver's --allow-origin declares those that may."
        )
        return problem(403, detail, allow=_ALLOW)
    granted = ANY if ANY in origins else origin
    return Response(
        200, headers={"allow": _ALLOW, "webhook-allowed-origin": granted, "webhook-allowed-rate": "*"}
    )
