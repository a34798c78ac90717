"""Which properties of a Kafka client are refused: they run programs, switch checks off or show tokens."""

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
# What leaves a check on; the client reads more spellings of what does not than a list would hold.
_ON: Final = {
    "enable.ssl.certificate.verification": frozenset({"true", "t", "1"}),
    "ssl.endpoint.identification.algorithm": frozenset({"https"}),
    # on: tokens that nobody signed, with which anyone is whom they say they are
    "enable.sasl.oauthbearer.unsecure.jwt": frozenset({"false", "f", "0"}),
}
# The client sends its secret there, and gets a token that opens the brokers.
_TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105  # the name of a property
_HTTPS: Final = "https://"
# The client puts these into the shell command that gets a Kerberos ticket, as they are.
_IN_A_COMMAND: Final = frozenset({"sasl.kerberos.keytab", "sasl.kerberos.principal"})
_PLAIN: Final = re.compile(r"[A-Za-z0-9_/.@:+][A-Za-z0-9_/.@:+=-]*")
# With suites of this kind a broker shows no certificate, and there is nothing to verify. OpenSSL takes them
# at security level 0 only, which a list of suites may ask for; groups such as ALL hold them as well.
_SUITES: Final = "ssl.cipher.suites"
_OPEN_SUITE: Final = re.compile(r"NULL|ADH|AECDH|_anon_|COMPLEMENTOF", re.IGNORECASE)
_SAFE_COMMAND: Final = re.compile(r"STRENGTH|SECLEVEL=[1-5]")


def refused(client: Mapping[str, str], allowed: Collection[str] = ()) -> list[str]:
    """The names of the properties that are refused for what they are, or for their value; sorted.

    `allowed`: names that are not refused, whatever their value.
    """
    off = {name for name, on in _ON.items() if name in client and client[name].strip().lower() not in on}
    shell = {name for name in _IN_A_COMMAND & client.keys() if not _PLAIN.fullmatch(client[name])}
    suites = {_SUITES} if _opens(client.get(_SUITES, "")) else set()
    url = {_TOKEN_URL} if not client.get(_TOKEN_URL, _HTTPS).lower().startswith(_HTTPS) else set()
    return sorted((_LOADS_OR_RUNS & client.keys() | off | shell | suites | url).difference(allowed))


def _opens(suites: str) -> bool:
    """Whether an OpenSSL cipher list adds suites without authentication or encryption, or lets them in."""
    for item in re.split(r"[:;,\s]+", suites):
        names, *commands = item.split("@")
        if not all(map(_SAFE_COMMAND.fullmatch, commands)):
            return True
        if not names.startswith(("!", "-")) and _OPEN_SUITE.search(names):
            return True
    return False
