"""The answers of the page's routes: JSON with an ETag, 202 while a model is read, errors as Airflow's."""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import Depends, FastAPI, Query, Request
from starlette.responses import JSONResponse, Response

from ...conditions import ConditionError
from ...engine.errors import (
    ConfigError,
    EngineError,
    NoSubscription,
    RecordError,
    StillReading,
    TopicsError,
    UnreachableError,
)
from ...events.errors import EmitError, EventError, InterlockError
from ...events.visible import visible, visible_logger
from .asking import NotNow
from .buses import Bus, NoBus
from .rights import User

if TYPE_CHECKING:
    from ...engine.following.read_model import ReadModel
    from .rights import Rights

# How long an answer is the same for the same version of a read model: leases get old, and waits get late.
STEP_MS: Final = 30_000
_AWAY: Final = (
    NotNow,
    StillReading,
    UnreachableError,
    ConfigError,
    TopicsError,
    RecordError,
    EmitError,
)
RETRY_S: Final = 5
_PROCESS: Final = uuid.uuid4().hex  # a version of a read model means nothing in another process
_HEADERS: Final = {"cache-control": "private, no-cache", "x-content-type-options": "nosniff"}
log = visible_logger(__name__)


class _NotModifiedError(Exception):
    """The browser has this answer already."""

    def __init__(self, etag: str) -> None:
        self.etag = etag


class Asked:
    """One GET request: its bus, what its user may see, and the ETag of its answer."""

    def __init__(self, request: Request, rights: Rights, bus: Bus) -> None:
        self.rights, self.bus = rights, bus
        self.now_ms = int(time.time() * 1000)
        self._known = request.headers.get("if-none-match", "")
        self._etag: str | None = None

    def model(self) -> ReadModel:
        """The read model of the bus. Raises StillReading and EngineError, which `handle_errors` answers."""
        return self.bus.model()

    def unless_known(self, model: ReadModel) -> None:
        """Answers 304 if the browser has the answer of this version, for an answer of the model alone.

        The same version gives other users other rows, so their rights are part of the ETag.
        """
        step, rights = self.now_ms // STEP_MS, (self.rights.name, self.rights.dags)
        version = (_PROCESS, model.version, model.stale_since_ms, step, hash(rights))
        self._etag = _etag_of(repr(version).encode())
        self._require_unknown(self._etag)

    def answer(self, content: dict[str, Any]) -> Response:
        """The answer, or 304 if the browser has it already."""
        # ASCII: a lone surrogate in a text of an event can be written, and nothing reads it as HTML.
        body = json.dumps(content, separators=(",", ":"), allow_nan=False).encode()
        etag = self._etag or _etag_of(body)
        self._require_unknown(etag)
        return Response(body, media_type="application/json", headers={**_HEADERS, "etag": etag})

    def _require_unknown(self, etag: str) -> None:
        if etag in (each.strip() for each in self._known.split(",")):
            raise _NotModifiedError(etag)


def _etag_of(content: bytes) -> str:
    # Weak: the API server compresses answers.
    return f'W/"{hashlib.blake2b(content, digest_size=16).hexdigest()}"'


def plain(content: dict[str, Any], status: int = 200) -> JSONResponse:
    """An answer that is not asked for again, such as that of an action."""
    return JSONResponse(content, status, headers=dict(_HEADERS))


def bus_asked(request: Request, _: User, bus: Annotated[str, Query(max_length=250)] = "") -> Bus:
    """The bus of a request, after its user is known."""
    found: Bus = request.app.state.buses.bus(bus)
    return found


def asked(request: Request, rights: User, bus: Annotated[Bus, Depends(bus_asked)]) -> Asked:
    return Asked(request, rights, bus)


Asks = Annotated[Asked, Depends(asked)]


def handle_errors(app: FastAPI) -> None:
    """Make errors of Interlock answers, with their texts: they say what, which and what to do."""
    app.add_exception_handler(InterlockError, _answer_to)
    app.add_exception_handler(_NotModifiedError, _not_modified)


def _answer_to(request: Request, error: Exception) -> Response:
    # Of a change 202 would say that it was accepted.
    if isinstance(error, StillReading) and request.method == "GET":
        return plain({"reading": {"read": error.read, "of": error.of}}, 202)
    status = _status_of(error)
    if status >= 500:
        log.warning("%s %s: %s", request.method, request.url.path, error)
    text = visible(error)
    if isinstance(error, ConfigError) and error.__cause__ is not None:  # the text of a secrets backend
        text = "The connection of this bus cannot be read: the log of the API server says why."
    answer = plain({"detail": text}, status)
    if status == 503:
        answer.headers["retry-after"] = str(RETRY_S)
    return answer


def _status_of(error: Exception) -> int:
    if isinstance(error, (NoBus, NoSubscription)):
        return 404
    if isinstance(error, _AWAY):
        return 503
    if isinstance(error, (EngineError, ConditionError, EventError)):
        return 400
    return 500


def _not_modified(_: Request, error: Exception) -> Response:
    etag = error.etag if isinstance(error, _NotModifiedError) else ""
    return Response(status_code=304, headers={**_HEADERS, "etag": etag})
