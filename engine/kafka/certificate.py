"""Why a broker's certificate is refused. librdkafka reports the refusal without the reason."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path

TIMEOUT_S = 3.0
_REFUSED = re.compile(
    r"ssl://(?P<host>\[[^\]]+\]|[^/:]+):(?P<port>\d+)/.*certificate verify failed", re.DOTALL
)


def certificate_fault(client: Mapping[str, str], reason: str) -> str | None:
    """What is wrong with the certificate that a client refused with the error text `reason`.

    Repeats the TLS handshake with the connection's own `ssl.ca.*`, and sends nothing else. Returns None if
    `reason` is another error, the broker does not answer within 3 s, or the handshake succeeds.
    """
    found = _REFUSED.search(reason)
    if found is None:
        return None
    host = found["host"].strip("[]")
    try:
        context = _context(client)
        with (
            socket.create_connection((host, int(found["port"])), TIMEOUT_S) as plain,
            context.wrap_socket(plain, server_hostname=host),
        ):
            return None
    except ssl.SSLCertVerificationError as e:
        return e.verify_message
    except (OSError, ValueError):  # ssl.SSLError is an OSError
        return None


def _context(client: Mapping[str, str]) -> ssl.SSLContext:
    where, text = client.get("ssl.ca.location"), client.get("ssl.ca.pem")
    if where in (None, "", "probe"):
        return ssl.create_default_context(cadata=text)
    if Path(where).is_dir():
        return ssl.create_default_context(capath=where, cadata=text)
    return ssl.create_default_context(cafile=where, cadata=text)
