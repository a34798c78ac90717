"""Where deliveries of a connection go, and with which credentials. No `repr` or error here has a secret."""

from __future__ import annotations

import base64
import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import unquote

from yarl import URL

from ..delivery.shown_path import shown_path
from ..errors import EngineError

_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE: Final = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")
# Headers that a delivery sets itself, or that control the connection.
_RESERVED: Final = re.compile(
    r"ce-.*|content-.*|proxy-.*|host|connection|keep-alive|transfer-encoding|te|trailer|upgrade|expect|prefer"
    r"|accept-encoding",
    re.IGNORECASE,
)
_LOOPBACK: Final = re.compile(r"localhost|127(?:\.[0-9]{1,3}){3}|::1", re.IGNORECASE)
_SHORTEST_SECRET: Final = 4  # a shorter one occurs in any text by chance
_SECRET_PART: Final = 16  # a part of a path that is as long may be a secret, as in webhooks of chats


class TargetError(EngineError):
    """A connection cannot be used for deliveries. The text says what to correct, and has no secret."""


@dataclass(frozen=True)
class Bearer:
    """A token that is sent as it is."""

    token: str = field(repr=False)

    def __post_init__(self) -> None:
        _check_value("The bearer token", self.token)

    @property
    def header(self) -> str:
        return f"Bearer {self.token}"

    @property
    def secrets(self) -> tuple[str, ...]:
        return (self.token,)


@dataclass(frozen=True)
class Basic:
    """HTTP's Basic authentication, in UTF-8 (RFC 7617)."""

    login: str
    password: str = field(repr=False)

    def __post_init__(self) -> None:
        if ":" in self.login:
            raise TargetError("The login has a colon, which Basic authentication cannot carry.")

    @cached_property
    def header(self) -> str:
        return f"Basic {self._encoded}"

    @property
    def secrets(self) -> tuple[str, ...]:
        return self.password, self._encoded

    @property
    def _encoded(self) -> str:
        return base64.b64encode(f"{self.login}:{self.password}".encode()).decode("ascii")


@dataclass(frozen=True, kw_only=True)
class ClientCredentials:
    """OAuth 2 client credentials (RFC 6749, section 4.4): a token is fetched, and kept until it expires.

    in_body: the client's id and secret are sent in the form instead of the header Authorization.
    """

    token_url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str = ""
    audience: str = ""
    in_body: bool = False

    def __post_init__(self) -> None:
        url = _parsed("The token endpoint", self.token_url)
        if url.scheme != "https" and not _LOOPBACK.fullmatch(url.host or ""):
            raise TargetError(f"The token endpoint at {url.host} needs https: it gets the client's secret.")

    @property
    def secrets(self) -> tuple[str, ...]:
        return (self.client_secret,)


Auth: TypeAlias = Bearer | Basic | ClientCredentials


@dataclass(frozen=True, kw_only=True)
class Tls:
    """TLS of a target: PEM files. Certificates are always verified.

    ca_file: authorities to trust; default: the system's. certificate_file, key_file: the sender's own.
    """

    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""

    def changed(self) -> tuple[int, ...]:
        """The files' modification times, because certificates are renewed in place."""
        found = []
        for name in filter(None, (self.ca_file, self.certificate_file, self.key_file)):
            with suppress(OSError):
                found.append(Path(name).stat().st_mtime_ns)
        return tuple(found)

    def context(self) -> ssl.SSLContext:
        """Reads the files. Raises TargetError."""
        for name in filter(None, (self.ca_file, self.certificate_file, self.key_file)):
            place = Path(name)
            if place.exists() and not place.is_file():  # to read a FIFO or a device may never end
                raise TargetError(f"No certificate or key can be read from {name}: it is not a file."[:300])
        reading = self.ca_file
        try:
            context = ssl.create_default_context(cafile=self.ca_file or None)
            if self.certificate_file:
                reading = " or ".join(filter(None, (self.certificate_file, self.key_file)))
                # Without a password argument OpenSSL would ask for one on the terminal.
                context.load_cert_chain(self.certificate_file, self.key_file or None, password=lambda: "")
        except (OSError, ValueError) as e:  # of ssl too
            reason = getattr(e, "strerror", None) or e
            raise TargetError(f"No certificate or key can be read from {reading}: {reason}"[:300]) from None
        return context


@dataclass(frozen=True, kw_only=True)
class SinkTarget:
    """Where the deliveries of a connection go. Raises TargetError if it is not usable.

    url: http or https, with host, and with port, path and query if needed. headers: sent with each request.
    """

    url: str = field(repr=False)  # its path may be a secret, as that of a chat's webhook
    auth: Auth | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    tls: Tls = Tls()

    def __post_init__(self) -> None:
        _parsed("The address", self.url)
        for name, value in self.headers.items():
            if not _HEADER_NAME.fullmatch(name) or _RESERVED.fullmatch(name):
                raise TargetError(f"The header {name[:80]!r} cannot be set: deliveries set it themselves.")
            if self.auth is not None and name.lower() == "authorization":
                raise TargetError("Set either credentials or the header Authorization, not both.")
            _check_value(f"The header {name[:80]!r}", value)

    def address(self, path: str) -> URL:
        """The address of a sink: this target's, with `path` added. A path that leads elsewhere is refused.

        Raises TargetError.
        """
        base = _parsed("The address", self.url)
        shown = shown_path(path)[:200]
        below, _, query = path.partition("?")
        if "#" in path or ".." in re.split(r"[/\\\\]", unquote(below)):
            raise TargetError(f"The path {shown!r} has a fragment (#) or a part '..': leave it out.")
        try:
            raw_path, raw_query = base.raw_path, base.raw_query_string
            if below:
                raw_path = raw_path.rstrip("/") + URL(f"http://any/{below.lstrip('/')}").raw_path
            if query:
                raw_query = "&".join(filter(None, (raw_query, URL(f"?{query}").raw_query_string)))
            found = base.origin().join(URL.build(path=raw_path, query_string=raw_query, encoded=True))
        except ValueError:
            raise TargetError(f"The path {shown!r} is not a part of a URL.") from None
        if found.origin() != base.origin() or not found.raw_path.startswith(base.raw_path.rstrip("/")):
            raise TargetError(f"The path {shown!r} leads out of the connection's address.")
        return found

    @property
    def needs_tls(self) -> bool:
        """Whether requests to it, or for its tokens, use TLS."""
        urls = [self.url, *([self.auth.token_url] if isinstance(self.auth, ClientCredentials) else ())]
        return any(URL(url).scheme == "https" for url in urls)

    @cached_property
    def secrets(self) -> tuple[str, ...]:
        """Texts that must not be in a log or record, longest first."""
        url = URL(self.url)
        found = [*self.headers.values(), *url.query.values()]
        found += [each.partition(" ")[2] for each in self.headers.values()]  # without a scheme such as Bearer
        found += [each.partition("=")[2] for each in url.raw_query_string.split("&")]  # as they are sent
        found += [part for part in (*url.parts, *url.raw_parts) if len(part) >= _SECRET_PART]
        found += self.auth.secrets if self.auth is not None else ()
        return tuple(sorted((each for each in found if len(each) >= _SHORTEST_SECRET), key=len, reverse=True))

    def fixed_headers(self) -> Iterator[tuple[str, str]]:
        """The headers of each request, except a token that is fetched."""
        yield from self.headers.items()
        if self.auth is not None and not isinstance(self.auth, ClientCredentials):
            yield "Authorization", self.auth.header


def _parsed(what: str, text: str) -> URL:
    """The URL. The error does not show it: it may have a secret."""
    try:
        url = URL(text)
        port = url.port
    except (ValueError, TypeError):
        url, port = URL(), None
    if url.scheme not in ("http", "https") or not url.host or not port:
        raise TargetError(f"{what} is not a usable URL: give http:// or https:// and a host.")
    if url.user is not None or url.password is not None:
        raise TargetError(f"{what} has credentials: put them into login and password.")
    if url.raw_fragment:
        raise TargetError(f"{what} has a fragment (#), which is never sent: remove it.")
    return url


def _check_value(what: str, value: str) -> None:
    if not _HEADER_VALUE.fullmatch(value):
        raise TargetError(f"{what} has a line break or another character that no header may have.")
