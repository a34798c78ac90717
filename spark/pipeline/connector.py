"""Translates a Kafka connection from librdkafka's properties to options of Spark's connector (Java client).

Spark prints the options in plans and logs, so they hold no values: they refer to a file (KIP-297).
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ...events.errors import InterlockError

_PROVIDER: Final = "interlock"
_PROVIDER_CLASS: Final = "org.apache.kafka.common.config.provider.FileConfigProvider"
# The same name and meaning in both clients.
_SAME: Final = frozenset(
    {
        "bootstrap.servers",
        "client.dns.lookup",
        "client.id",
        "client.rack",
        "connections.max.idle.ms",
        "fetch.max.bytes",
        "fetch.min.bytes",
        "max.partition.fetch.bytes",
        "metadata.max.age.ms",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retry.backoff.ms",
        "security.protocol",
        "socket.connection.setup.timeout.ms",
        "ssl.key.password",
        "ssl.keystore.password",
    }
)
_RENAMED: Final = {
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanism": "sasl.mechanism",
    "sasl.mechanisms": "sasl.mechanism",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "socket.send.buffer.bytes": "send.buffer.bytes",
}
# {name in Java: (librdkafka's property for the text, for the file)}
_PEM: Final = {
    "ssl.truststore.certificates": ("ssl.ca.pem", "ssl.ca.location"),
    "ssl.keystore.certificate.chain": ("ssl.certificate.pem", "ssl.certificate.location"),
    "ssl.keystore.key": ("ssl.key.pem", "ssl.key.location"),
}
_LOGIN_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
# Translated below, or the Java client's behaviour anyway.
_KNOWN: Final = frozenset(
    {
        *(name for names in _PEM.values() for name in names),
        "enable.ssl.certificate.verification",
        "sasl.password",
        "sasl.username",
        "ssl.endpoint.identification.algorithm",
        "ssl.keystore.location",
    }
)
# Ignoring one of these silently could make the connection less safe than its author intended.
_SECURITY: Final = ("ssl.", "sasl.", "enable.ssl.", "enable.sasl.", "https.")
_TRUE: Final = ("true", "t", "1")  # in librdkafka
_INSTEAD: Final = (
    "write the Java client's properties into a file, and set spark.interlock.java.client.config.file to its"
    " path"
)


class ConnectorError(InterlockError, ValueError):
    """A Kafka connection cannot be translated for Spark's connector. The message names the property only."""


def java_properties(client: Mapping[str, str]) -> dict[str, str]:
    """The Java client's properties for these of librdkafka.

    Properties that concern neither security nor the connection are ignored. Raises ConnectorError for a
    security property without a counterpart, and for an unreadable file.
    """
    java: dict[str, str] = {}
    for name, value in client.items():
        if name in _SAME or name in _RENAMED:
            java[_RENAMED.get(name, name)] = value
        elif name.startswith(_SECURITY) and name not in _KNOWN:
            raise ConnectorError(
                f"{name} has no counterpart in Spark's connector: leave it out, or {_INSTEAD}"
            )
    _tls(client, java)
    _login(client, java)
    return java


def _tls(client: Mapping[str, str], java: dict[str, str]) -> None:
    if client.get("enable.ssl.certificate.verification", "true").lower() not in _TRUE:
        raise ConnectorError(
            "enable.ssl.certificate.verification=false: the Java client always verifies certificates; set"
            " ssl.ca.location to the authority that signed them"
        )
    for name, (text, location) in _PEM.items():
        if pem := client.get(text) or _read(client, location):
            java[name] = pem
            java[".".join(name.split(".")[:2]) + ".type"] = "PEM"
    if "ssl.keystore.key" in java:
        java["ssl.keystore.key"] = _pkcs8(java["ssl.keystore.key"], java.pop("ssl.key.password", None))
    if store := client.get("ssl.keystore.location"):
        java |= {"ssl.keystore.location": store, "ssl.keystore.type": "PKCS12"}
    algorithm = client.get("ssl.endpoint.identification.algorithm")
    if algorithm is not None:
        java["ssl.endpoint.identification.algorithm"] = "" if algorithm == "none" else algorithm


def _pkcs8(pem: str, passphrase: str | None) -> str:
    """Converts a key to PKCS #8: Java does not read all of OpenSSL's formats and ciphers."""
    from cryptography.hazmat.primitives import serialization

    secret = None if passphrase is None or "ENCRYPTED" not in pem else passphrase.encode()
    try:
        key = serialization.load_pem_private_key(pem.encode(), secret)
    except (TypeError, ValueError) as error:  # its message shows nothing of the key
        raise ConnectorError(f"ssl.key.pem, ssl.key.location or ssl.key.password: {error}") from None
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def _read(client: Mapping[str, str], name: str) -> str | None:
    path = client.get(name)
    if not path:
        return None
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConnectorError(f"{name}: {path} cannot be read as PEM: {error}") from error


def _login(client: Mapping[str, str], java: dict[str, str]) -> None:
    if not client.get("security.protocol", "plaintext").lower().startswith("sasl"):
        return
    mechanism = java.setdefault("sasl.mechanism", "GSSAPI")  # librdkafka's default, and Java's
    module = _LOGIN_MODULES.get(mechanism)
    if module is None:
        raise ConnectorError(f"sasl.mechanism {mechanism} is not translated: {_INSTEAD}")
    user, password = (_quoted(client.get(f"sasl.{name}", "")) for name in ("username", "password"))
    java["sasl.jaas.config"] = f"{module} required username={user} password={password};"


def _quoted(text: str) -> str:
    """A value of a JAAS configuration."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@contextmanager
def connector_options(
    client: Mapping[str, str], *, java_file: str | None = None, folder: str | None = None
) -> Iterator[dict[str, str]]:
    """Options of Spark's Kafka source or sink for this connection, valid inside the block.

    client: librdkafka's properties. java_file: a file of the Java client's properties, used instead.
    folder: where to put the translated file; every executor must read it at the same path. Default: a new
    temporary folder of this machine. Raises ConnectorError for what cannot be translated.
    """
    if java_file is not None:
        yield _references(java_file, _names_in(java_file))
        return
    properties = java_properties(client)
    with tempfile.TemporaryDirectory(prefix="interlock-", dir=folder) as place:
        path = Path(place) / "kafka.properties"
        path.touch(mode=0o600)
        path.write_text(
            "".join(f"{name}={_escaped(value)}\n" for name, value in properties.items()), encoding="utf-8"
        )
        yield _references(str(path), properties)


def _references(path: str, names: Iterable[str]) -> dict[str, str]:
    if not path.startswith("/") or re.search(r"[:{}$]", path):
        raise ConnectorError(
            f"{path}: the Kafka client needs an absolute path without ':', '$' and braces; choose another"
        )
    return {
        "kafka.config.providers": _PROVIDER,
        f"kafka.config.providers.{_PROVIDER}.class": _PROVIDER_CLASS,
        f"kafka.config.providers.{_PROVIDER}.param.allowed.paths": path,
        **{f"kafka.{name}": f"${{{_PROVIDER}:{path}:{name}}}" for name in names},
    }


def _names_in(java_file: str) -> tuple[str, ...]:
    """Names of the properties in a file of Java properties; a value may continue on further lines."""
    try:
        text = Path(java_file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConnectorError(
            f"spark.interlock.java.client.config.file: {java_file} cannot be read: {error}"
        ) from error
    names = []
    for line in re.sub(r"\\\n[ \t]*", "", text).splitlines():
        found = re.match(r"\s*([^#!\s=:][^\s=:]*)\s*[=:\s]", line)
        if found:
            names.append(found[1])
    if "bootstrap.servers" not in names:
        raise ConnectorError(f"spark.interlock.java.client.config.file: {java_file} has no bootstrap.servers")
    return tuple(names)


def _escaped(value: str) -> str:
    """A value of a file of Java properties."""
    escapes: tuple[tuple[str, str], ...] = (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))
    for character, escape in escapes:
        value = value.replace(character, escape)
    return f"\\{value}" if value.startswith(" ") else value
