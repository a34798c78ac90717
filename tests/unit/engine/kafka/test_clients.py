"""What Kafka clients say of their errors."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from interlock.engine.admin.doctor import connection
from interlock.engine.config import BusConfig
from interlock.engine.errors import ConfigError, UnreachableError
from interlock.engine.kafka.clients import ClientErrors, connect, error_text

from tests.unit.engine.kafka.clients import CONFIG, failure

REFUSED = "127.0.0.1:9092/bootstrap: Connect to ipv4#127.0.0.1:9092 failed: Connection refused"


@pytest.mark.parametrize(
    "more",
    ["", " (after 0ms in state CONNECT)", " (after 12ms in state CONNECT, 3 identical error(s) suppressed)"],
)
def test_one_reason_reads_the_same_however_often_it_came(more: str) -> None:
    error: Any = SimpleNamespace(str=lambda: f"{REFUSED}{more}")
    assert error_text(error) == REFUSED


def test_the_brokers_answer_is_the_reason_also_after_a_client_had_reported_another_error() -> None:
    """A broker that is away for a moment would otherwise be the reason for each later refusal."""
    errors = ClientErrors()
    errors(KafkaError(KafkaError._TRANSPORT, REFUSED))
    answer = failure(KafkaError.TOPIC_AUTHORIZATION_FAILED, reason="Topic authorization failed")
    assert ": Topic authorization failed. " in str(errors.unreachable(CONFIG, answer))
    timeout = failure(KafkaError._TIMED_OUT, reason="Timed out")
    assert f": {REFUSED}. " in str(errors.unreachable(CONFIG, timeout))


@pytest.mark.parametrize("error", [None, TimeoutError()])
def test_an_error_without_a_text_is_no_answer(error: Exception | None) -> None:
    assert ": no answer. " in str(ClientErrors().unreachable(CONFIG, error))


CANARY = "CANARY"
PLAIN = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN"}
TLS = {"security.protocol": "ssl"}
OIDC = {
    "security.protocol": "sasl_plaintext",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "id",
    "sasl.oauthbearer.client.secret": "secret",
    "sasl.oauthbearer.token.endpoint.url": "https://127.0.0.1:1/token",
}
# docs/operate/operating.md "Connection security" lists what is shown.
HIDDEN = [
    ({**PLAIN, "sasl.password": "p"}, "sasl.username"),
    ({**PLAIN, "sasl.username": "u"}, "sasl.password"),
    (TLS, "ssl.ca.location"),
    (TLS, "ssl.ca.pem"),
    (TLS, "ssl.certificate.location"),
    (TLS, "ssl.certificate.pem"),
    (TLS, "ssl.key.location"),
    (TLS, "ssl.key.pem"),
    (TLS, "ssl.key.password"),
    (TLS, "ssl.keystore.location"),
    (TLS, "ssl.keystore.password"),
    (TLS, "ssl.crl.location"),
    (TLS, "ssl.cipher.suites"),
    (TLS, "ssl.curves.list"),
    (TLS, "ssl.sigalgs.list"),
    (OIDC, "sasl.oauthbearer.client.id"),
    (OIDC, "sasl.oauthbearer.client.secret"),
    (OIDC, "sasl.oauthbearer.scope"),
    (OIDC, "sasl.oauthbearer.extensions"),
    ({**PLAIN, "sasl.mechanism": "OAUTHBEARER"}, "sasl.oauthbearer.config"),
    ({}, "client.rack"),
    ({}, "security.protocol"),
    ({}, "broker.address.family"),
    ({}, "client.dns.lookup"),
    ({}, "debug"),
    ({}, "socket.timeout.ms"),
    ({}, "message.max.bytes"),
]


@pytest.mark.parametrize("debug", ["", "conf,security"])
@pytest.mark.parametrize(("client", "name"), HIDDEN, ids=[name for _, name in HIDDEN])
def test_no_value_of_the_extra_but_those_that_the_docs_list_is_shown(
    client: dict[str, str], name: str, debug: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Other values of the extra were in logs with `debug`, and in what `doctor` prints."""
    extra = {"bootstrap.servers": "127.0.0.1:1", **client, name: CANARY}
    if debug and name != "debug":
        extra["debug"] = debug
    config = BusConfig(client=extra)
    errors = ClientErrors()
    texts = [repr(config), config.describe()]
    with caplog.at_level(logging.DEBUG, "interlock.engine.librdkafka"):
        try:
            producer = connect(Producer, config, errors)
            producer.poll(0.05)
            del producer
        except ConfigError as e:
            texts.append(str(e))
    if name != "security.protocol":
        texts.append(connection(config).text)
    texts.append(str(errors.unreachable(config)))
    assert CANARY not in "\n".join(texts)
    assert CANARY not in caplog.text


def no_token(config: str) -> tuple[str, float]:
    raise RuntimeError("the metadata service does not answer")


def never(config: str) -> tuple[str, float]:
    raise AssertionError


@pytest.mark.parametrize(
    ("function", "reason"),
    [("no_token", "the metadata service does not answer"), ("never", "not set within 10 s")],
)
def test_a_client_that_gets_no_token_is_no_fault_of_the_connections_properties(
    function: str, reason: str
) -> None:
    def made(settings: dict[str, Any]) -> None:
        """As librdkafka's clients do: they call the function in a thread, and wait."""
        if function == "no_token":
            with pytest.raises(RuntimeError):
                settings["oauth_cb"]("")
        raise failure(KafkaError.SASL_AUTHENTICATION_FAILED, reason="OAuth token not set within 10 s")

    config = BusConfig(
        client={**CONFIG.client, "oauth_cb": f"{__name__}.{function}"},
        allowed_client_properties=frozenset({"oauth_cb"}),
    )
    with pytest.raises(UnreachableError, match=f"no token for it .*{reason}") as raised:
        connect(made, config, ClientErrors())
    assert config.describe() in str(raised.value)
