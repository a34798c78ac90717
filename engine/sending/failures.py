"""Says why a request ended without an answer. No text has the path of an address, or a secret."""

from __future__ import annotations

import os
import ssl
from traceback import clear_frames
from typing import Final

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError

from ..delivery.answers import Answer, Verdict
from .connector import CONNECT_S, RequestProgress

_CLOSED: Final = "the sink closed the connection without an answer"


def failure(error: Exception, progress: RequestProgress, timeout_s: float) -> Answer:
    """The `Answer` for this error: unreachable if there was no connection, else one to be retried."""
    if not progress.connected:
        text = _unconnected(error, progress, timeout_s)
        if text is None:  # an error in this code: it says nothing about the sink
            return Answer(
                None, f"the request could not be made: {type(error).__name__}", ruling=Verdict.RETRY
            )
        return Answer(None, f"no connection: {text}", connected=False)
    return Answer(None, _connected(error, timeout_s))


def free_frames(error: BaseException) -> None:
    """Free what an error's frames hold, such as the request's body. Call it when the error is over.

    aiohttp's errors are in frames that they refer to. Until Python's garbage collector finds such a cycle, it
    would keep the body, which may have megabytes.
    """
    left: BaseException | None = error
    freed = set[BaseException]()  # causes that a library sets may be in a circle
    while left is not None and left not in freed:
        clear_frames(left.__traceback__)
        freed.add(left)
        left = left.__cause__ or left.__context__


def _unconnected(error: Exception, progress: RequestProgress, timeout_s: float) -> str | None:
    if progress.refused:
        return progress.refused
    if isinstance(error, TimeoutError):
        return f"none within {min(timeout_s, CONNECT_S):g} s"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"TLS: {_certificate_text(error.certificate_error)}"
    if isinstance(error, aiohttp.ClientSSLError):
        return f"TLS: {_os_text(error.os_error)}"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"the host's name cannot be resolved: {_os_text(error.os_error)}"
    if isinstance(error, aiohttp.ClientConnectorError):
        return _os_text(error.os_error)
    if isinstance(error, aiohttp.InvalidURL):
        return "the host is not a valid name or address"
    if isinstance(error, OSError):
        return _os_text(error)
    return None


def _connected(error: Exception, timeout_s: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no complete answer within {timeout_s:g} s"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return _CLOSED
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the answer ended too early"
    if isinstance(error, (aiohttp.ClientResponseError, HttpProcessingError)):
        return "the answer is not valid HTTP"
    if isinstance(error, OSError):
        return f"the connection broke: {_os_text(error)}"
    return f"the answer could not be read: {type(error).__name__}"


def _os_text(error: BaseException) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason or "the handshake failed"
    code = getattr(error, "errno", None)
    if isinstance(code, int) and code > 0:  # the error's own text may have addresses, and differs by loop
        return os.strerror(code)
    return getattr(error, "strerror", None) or type(error).__name__


def _certificate_text(error: BaseException) -> str:
    return getattr(error, "verify_message", None) or "the certificate is not valid"
