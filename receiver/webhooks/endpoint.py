"""The endpoint /webhooks/{name}: makes an event of a request by its declaration."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import parse_qs

from ...events.errors import EventError
from ...events.event import Event
from ...events.template import in_uri
from ..answers import Response, problem
from ..endpoint import Request
from ..grant import Grant, pattern
from .body import data_of
from .template import Choice, Values
from .verification import MILLISECONDS_FROM, Unverified, Verification

SHA256: Final = "sha256"
_UNIX_TIME: Final = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,9}))?")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CHALLENGE: Final = re.compile(r"[!-~]{1,1000}")  # printable ASCII


@dataclass(frozen=True)
class AttributeChoices:
    """Where the attributes of an event come from."""

    type: Choice
    source: Choice
    id: Choice
    subject: Choice
    time: Choice
    extensions: Mapping[str, Choice]


class Webhook:
    """Takes the requests that its verification lets pass.

    ignore: types that become no event. answers_challenge: whether it answers Slack's `url_verification` and
    `ssl_check`.
    verify_token: the one that Meta's GET must have.
    """

    # Slack takes only 200 as a success, and would show a body (Slash commands, Responding to commands).
    accepted = Response(200)
    needs_body = True  # for the signature

    def __init__(
        self,
        name: str,
        attributes: AttributeChoices,
        verification: Verification,
        *,
        json_field: str | None = None,
        ignore: Sequence[str] = (),
        answers_challenge: bool = False,
        verify_token: bytes | None = None,
    ) -> None:
        self.name = name
        self._attributes, self._verification = attributes, verification
        self._json_field, self._answers_challenge = json_field, answers_challenge
        self._verify_token = verify_token
        self._ignored = pattern(ignore)
        self._grant = Grant(
            f"webhook {name!r}",
            [template.pattern for template in attributes.type.templates],
            [template.pattern for template in attributes.source.templates],
        )

    @property
    def path(self) -> str:
        return f"/webhooks/{self.name}"

    async def admit(self, request: Request) -> Grant | Response:
        try:
            self._verification.check_headers(request)
        except Unverified as refused:
            return self._refusal(refused)
        return self._grant

    def read(self, request: Request, body: bytes) -> Sequence[Event] | Response:
        try:
            self._verification.check_body(request, body)
        except Unverified as refused:
            return self._refusal(refused)
        data, value = data_of(request, body, self._json_field)
        if self._answers_challenge and isinstance(value, dict):
            if value.get("type") == "url_verification":
                return _echo(value.get("challenge"))
            if "ssl_check" in value:  # a request of Slack's own, not of a user (Slash commands, ssl_check)
                return self.accepted
        values = Values(request, value)
        attributes = self._attributes
        type_ = _required(attributes.type, values)
        if self._ignored.fullmatch(type_):
            return self.accepted
        event = Event.of(
            type_,
            _required(attributes.source, values, in_uri),
            id=_id(attributes.id, values, body),
            subject=attributes.subject.fill(values),
            time=_time(attributes.time.fill(values)),
            data=data,
            datacontenttype="application/json",
            **{name: choice.fill(values) for name, choice in attributes.extensions.items()},
        )
        return [event]

    def answer(self, request: Request) -> Response:
        if request.method == "GET" and self._verify_token is not None:
            return self._meta_handshake(request)
        allowed = "POST" if self._verify_token is None else "GET, POST"
        return problem(405, f"Send to this webhook with POST, not {request.method[:20]}.", allow=allowed)

    def _meta_handshake(self, request: Request) -> Response:
        """Meta: "Webhooks from Meta", Validating verification requests."""
        try:
            query = parse_qs(request.query.decode("ascii"), strict_parsing=True, max_num_fields=20)
        except (ValueError, UnicodeDecodeError):
            query = {}
        [mode], [token], [challenge] = (
            query.get(f"hub.{name}", [""])[:1] for name in ("mode", "verify_token", "challenge")
        )
        digests = [hashlib.sha256(each).digest() for each in (token.encode(), self._verify_token or b"")]
        if not hmac.compare_digest(*digests) or mode != "subscribe":
            return problem(403, "hub.mode is not subscribe, or hub.verify_token is not that of this webhook.")
        return _echo(challenge)

    def _refusal(self, refused: Unverified) -> Response:
        challenge = f'{self._verification.challenge} realm="interlock"'
        return problem(401, f"Webhook {self.name!r}: {refused}.", www_authenticate=challenge)


def _echo(challenge: object) -> Response:
    if not isinstance(challenge, str) or _CHALLENGE.fullmatch(challenge) is None:
        return problem(400, "The challenge is not 1 to 1,000 printable ASCII characters.")
    return Response(200, challenge.encode(), "text/plain", {"x-content-type-options": "nosniff"})


def _required(choice: Choice, values: Values, encode: Callable[[str], str] = str) -> str:
    found = choice.fill(values, encode)
    if found is None:
        raise choice.missing()
    return found


def _id(choice: Choice, values: Values, body: bytes) -> str:
    for template in choice.templates:
        if template.text == SHA256:
            return hashlib.sha256(body).hexdigest()
        found = template.fill(values)
        if found is not None:
            return found
    raise choice.missing()


def _time(text: str | None) -> str | datetime | None:
    """Unix time as a datetime; any other text as it is."""
    found = None if text is None else _UNIX_TIME.fullmatch(text)
    if found is None:
        return text
    whole, fraction = int(found[1]), (found[2] or "")[:6].ljust(6, "0")
    try:
        if whole >= MILLISECONDS_FROM:
            return _EPOCH + timedelta(milliseconds=whole)
        return _EPOCH + timedelta(seconds=whole, microseconds=int(fraction))
    except OverflowError:
        raise EventError("time is after the year 9999") from None
