"""Kafka client properties that are refused because they run programs, disable checks or expose tokens."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

# https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md
_LOADS_OR_RUNS: Final = frozenset(
    {
        "oauth_cb",
        "plugin.library.paths",
        "sasl.kerberos.kinit.cmd",
        "ssl.engine.location",
        "ssl.providers",
    }
)
# Values that leave a check enabled. The others have too many spellings to list them.
_CHECK_ENABLED: Final = {
    "enable.ssl.certificate.verification": frozenset({"true", "t", "1"}),
    "ssl.endpoint.identification.algorithm": frozenset({"https"}),
    # true would accept unsigned tokens, with which anyone can claim any identity
    "enable.sasl.oauthbearer.unsecure.jwt": frozenset({"false", "f", "0"}),
}
# The client sends its secret to this URL, and gets a token for the brokers.
_TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105  # the name of a property
_HTTPS: Final = "https://"
# The client inserts these unquoted into the shell command that gets a Kerberos ticket.
_IN_A_COMMAND: Final = frozenset({"sasl.kerberos.keytab", "sasl.kerberos.principal"})
_PLAIN: Final = re.compile(r"[A-Za-z0-9_/.@:+][A-Za-z0-9_/.@:+=-]*")
# With these suites a broker presents no certificate, so nothing is verified. OpenSSL accepts them only at
# security level 0, which a cipher list may set; groups such as ALL contain them too.
_SUITES: Final = "ssl.cipher.suites"
_OPEN_SUITE: Final = re.compile(r"NULL|ADH|AECDH|_anon_|COMPLEMENTOF", re.IGNORECASE)
_SAFE_COMMAND: Final = re.compile(r"STRENGTH|SECLEVEL=[1-5]")


def refused(client: Mapping[str, str], allowed: Collection[str] = ()) -> list[str]:
    """Returns the sorted names of the properties that are refused, for their name or their value.

    allowed: names that are never refused.
    """
    off = {
        name
        for name, enabled in _CHECK_ENABLED.items()
        if name in client and client[name].strip().lower() not in enabled
    }
    shell = {name for name in _IN_A_COMMAND & client.keys() if not _PLAIN.fullmatch(client[name])}
    suites = {_SUITES} if _allows_open(client.get(_SUITES, "")) else set()
    url = {_TOKEN_URL} if not client.get(_TOKEN_URL, _HTTPS).lower().startswith(_HTTPS) else set()
    return sorted((_LOADS_OR_RUNS & client.keys() | off | shell | suites | url).difference(allowed))


def _allows_open(suites: str) -> bool:
    """Returns whether an OpenSSL cipher list allows suites without authentication or encryption."""
    for item in re.split(r"[:;,\s]+", suites):
        names, *commands = item.split("@")
        if not all(map(_SAFE_COMMAND.fullmatch, commands)):
            return True
        if not names.startswith(("!", "-")) and _OPEN_SUITE.search(names):
            return True
    return False
