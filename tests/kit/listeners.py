"""One broker with a listener for each way of securing a connection, and some that no client may trust."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest import mock

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from interlock.plugin.broker import LocalBroker
from interlock.plugin.broker.ports import free_ports

from tests.kit.certificates import Authority
from tests.kit.tokens import AUDIENCE, ISSUER, TokenEndpoint

HOST = "127.0.0.1"
REAUTHENTICATE_MS = 1000  # after this time an authenticated connection must authenticate again
_PROTOCOLS = {
    "PLAINTEXT": "PLAINTEXT",  # the test's own way in
    "CONTROLLER": "PLAINTEXT",
    "TLS": "SSL",
    "MTLS": "SSL",
    "SCRAM": "SASL_SSL",
    "OAUTH": "SASL_SSL",
    "OTHERNAME": "SSL",
    "EXPIRED": "SSL",
}
_SECURITY = "org.apache.kafka.common.security"
_ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"


class Listeners:
    """The running broker: `client("SCRAM", ...)` are a client's properties for a listener."""

    def __init__(
        self, folder: Path, ports: dict[str, int], authority: Authority, tokens: TokenEndpoint
    ) -> None:
        self.folder, self.ports, self.authority, self.tokens = folder, ports, authority, tokens
        self.admin = AdminClient({"bootstrap.servers": self.at("PLAINTEXT")})

    def at(self, listener: str) -> str:
        return f"{HOST}:{self.ports[listener]}"

    def client(self, listener: str, **more: str) -> dict[str, str]:
        """A client's properties without its secrets, which `more` adds (underscores for dots)."""
        properties = {
            "bootstrap.servers": self.at(listener),
            "security.protocol": _PROTOCOLS[listener],
            "ssl.ca.location": str(self.authority.file),
        }
        if listener == "SCRAM":
            properties["sasl.mechanism"] = "SCRAM-SHA-512"
        if listener == "OAUTH":
            properties |= {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.token.endpoint.url": self.tokens.url,
                "https.ca.location": str(self.authority.file),
            }
        return properties | {key.replace("_", "."): value for key, value in more.items()}

    def set_scram_secret(self, user: str, secret: str) -> None:
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        change = UserScramCredentialUpsertion(user, info, secret.encode())
        for future in self.admin.alter_user_scram_credentials([change]).values():
            future.result()


@contextmanager
def listeners(folder: Path, oauth_secrets: dict[str, str]) -> Iterator[Listeners]:
    """The broker with all its listeners, running inside the block. oauth_secrets: by client id."""
    authority = Authority(folder)
    server = authority.issue("server", HOST)
    with ExitStack() as stack:
        tokens = stack.enter_context(TokenEndpoint(folder, server, oauth_secrets))
        ports = dict(zip(_PROTOCOLS, free_ports(len(_PROTOCOLS)), strict=True))
        stores = {
            "OTHERNAME": authority.issue("other", "broker.example").both,
            "EXPIRED": authority.issue("expired", HOST, ends=datetime.now(UTC) - timedelta(days=1)).both,
        }
        properties = _properties(ports, authority, tokens)
        for name, protocol in _PROTOCOLS.items():
            if protocol.endswith("SSL"):
                store = {"type": "PEM", "location": str(stores.get(name, server.both))}
                properties |= {f"{_of(name)}.ssl.keystore.{key}": value for key, value in store.items()}
        # The broker's JVM reads keys only from the URLs that this property allows.
        allowed = f"-D{_ALLOWED_URLS}={tokens.keys.as_uri()}"
        broker = LocalBroker(folder / "broker", port=ports["PLAINTEXT"], properties=properties)
        with mock.patch.dict(os.environ, JAVA_TOOL_OPTIONS=allowed):
            stack.enter_context(broker)
        yield Listeners(folder, ports, authority, tokens)


def _properties(ports: dict[str, int], authority: Authority, tokens: TokenEndpoint) -> dict[str, str]:
    addresses = {name: f"{name}://{HOST}:{port}" for name, port in ports.items()}
    scram, oauth = f"{_of('SCRAM')}.scram-sha-512", f"{_of('OAUTH')}.oauthbearer"
    return {
        "listeners": ",".join(addresses.values()),
        "advertised.listeners": ",".join(a for name, a in addresses.items() if name != "CONTROLLER"),
        "controller.quorum.voters": f"1@{HOST}:{ports['CONTROLLER']}",
        "listener.security.protocol.map": ",".join(f"{name}:{value}" for name, value in _PROTOCOLS.items()),
        "inter.broker.listener.name": "PLAINTEXT",
        f"{_of('MTLS')}.ssl.client.auth": "required",
        f"{_of('MTLS')}.ssl.truststore.type": "PEM",
        f"{_of('MTLS')}.ssl.truststore.location": str(authority.file),
        f"{_of('SCRAM')}.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        f"{scram}.sasl.jaas.config": f"{_SECURITY}.scram.ScramLoginModule required;",
        f"{scram}.connections.max.reauth.ms": str(REAUTHENTICATE_MS),
        f"{_of('OAUTH')}.sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{oauth}.sasl.jaas.config": f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule required;",
        f"{oauth}.sasl.server.callback.handler.class": (
            f"{_SECURITY}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        ),
        f"{oauth}.sasl.oauthbearer.jwks.endpoint.url": tokens.keys.as_uri(),
        f"{oauth}.sasl.oauthbearer.expected.issuer": ISSUER,
        f"{oauth}.sasl.oauthbearer.expected.audience": AUDIENCE,
    }


def _of(listener: str) -> str:
    return f"listener.name.{listener.lower()}"
