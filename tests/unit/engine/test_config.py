"""What a bus takes from a connection, what it refuses, and what it never shows."""

from __future__ import annotations

from typing import Any

import pytest
from interlock.engine.config import BusConfig
from interlock.engine.errors import ConfigError
from interlock.engine.identity import ProcessName
from interlock.engine.kafka.clients import ClientErrors, settings

SERVERS = {"bootstrap.servers": "broker:9092"}


def made(extra: dict[str, Any], **more: Any) -> BusConfig:
    given = {"name": "b", "deployment": "d", "connection": "kafka_default", **more}
    return BusConfig.from_extra({**SERVERS, **extra}, **given)


def test_client_properties_arrive_as_text() -> None:
    config = made(
        {"security.protocol": "SASL_SSL", "socket.timeout.ms": 5000, "x": True, "y": False, "z": 0.5}
    )
    assert config.client == {
        **SERVERS,
        "security.protocol": "SASL_SSL",
        "socket.timeout.ms": "5000",
        "x": "true",
        "y": "false",
        "z": "0.5",
    }


@pytest.mark.parametrize(
    "name",
    [
        "group.id",
        "transactional.id",
        "isolation.level",
        "enable.auto.commit",
        "acks",
        "partitioner",
        "auto.offset.reset",
        "enable.idempotence",
    ],
)
def test_properties_the_protocols_depend_on_are_left_out(name: str) -> None:
    """Airflow's own kafka connections carry a group.id."""
    assert made({name: "anything"}).client == SERVERS


@pytest.mark.parametrize(
    "name", ["plugin.library.paths", "sasl.kerberos.kinit.cmd", "ssl.engine.location", "ssl.providers"]
)
def test_properties_that_load_or_run_programs_are_refused_by_name(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"'kafka_default' sets {name}") as refused:
        made({name: "secret-value"})
    assert "secret-value" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("enable.ssl.certificate.verification", False),
        ("enable.ssl.certificate.verification", "False"),
        ("ssl.endpoint.identification.algorithm", "none"),
        ("ssl.endpoint.identification.algorithm", " NONE"),
        ("ssl.endpoint.identification.algorithm", "whatever a later client takes for none"),
    ],
)
def test_switching_verification_off_is_refused_and_leaving_it_on_is_not(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=rf"sets {name}"):
        made({name: value})
    on = {"enable.ssl.certificate.verification": "true", "ssl.endpoint.identification.algorithm": "https"}
    assert made(on).client == SERVERS | on


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sasl.kerberos.principal", "x; touch /tmp/x"),
        ("sasl.kerberos.principal", "-X flag"),
        ("sasl.kerberos.keytab", "$(touch /tmp/x)"),
        ("sasl.kerberos.keytab", "a\n"),
    ],
)
def test_what_the_client_would_put_into_a_shell_command_must_be_plain(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=rf"sets {name}"):
        made({name: value})
    plain = {
        "sasl.kerberos.principal": "svc-airflow/host.example.com@EXAMPLE.COM",
        "sasl.kerberos.keytab": "/etc/security/svc_airflow.keytab",
    }
    assert made(plain).client == SERVERS | plain


@pytest.mark.parametrize(
    "suites",
    [
        "aNULL:@SECLEVEL=0",
        "DEFAULT@SECLEVEL=0",
        "HIGH:!aNULL:@SECLEVEL=0",
        "@SECLEVEL=whatever a later client takes for 0",
        "HIGH:aNULL",
        "HIGH:+aNULL",
        "HIGH, eNULL",
        "NULL-SHA256",
        "ADH-AES256-GCM-SHA384",
        "AECDH-AES256-SHA",
        "kEECDH+aNULL",
        "COMPLEMENTOFDEFAULT",
        "TLS_DH_anon_WITH_AES_128_CBC_SHA",
        "ECDHE-RSA-AES256-GCM-SHA384;TLS_RSA_WITH_NULL_SHA256",
    ],
)
def test_suites_with_which_a_broker_needs_no_certificate_are_refused(suites: str) -> None:
    with pytest.raises(ConfigError, match=r"sets ssl\.cipher\.suites") as refused:
        made({"ssl.cipher.suites": suites})
    assert suites not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("enable.sasl.oauthbearer.unsecure.jwt", True),
        ("enable.sasl.oauthbearer.unsecure.jwt", "T"),
        ("enable.sasl.oauthbearer.unsecure.jwt", "whatever a later client takes for true"),
        ("sasl.oauthbearer.token.endpoint.url", "http://user:canary@identity.example.com/token"),
        ("sasl.oauthbearer.token.endpoint.url", "HTTP://identity.example.com/token"),
        ("sasl.oauthbearer.token.endpoint.url", "http://127.0.0.1:8080/token"),
        ("sasl.oauthbearer.token.endpoint.url", "identity.example.com/https://"),
    ],
)
def test_tokens_that_anybody_can_make_or_read_are_refused_unless_the_administrator_names_them(
    name: str, value: object
) -> None:
    oauth = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    why = rf"sets {name}: .* tokens .*https:// address.*\[interlock\] allowed_client_properties"
    with pytest.raises(ConfigError, match=why) as refused:
        made(oauth | {name: value})
    assert "canary" not in str(refused.value)
    text = "true" if value is True else str(value)
    client = SERVERS | oauth | {name: text}
    assert BusConfig(client=client, allowed_client_properties=frozenset({name})).client == client


def test_signed_tokens_from_an_endpoint_with_tls_are_taken() -> None:
    oidc = {
        "sasl.mechanism": "OAUTHBEARER",
        "enable.sasl.oauthbearer.unsecure.jwt": "False",
        "sasl.oauthbearer.token.endpoint.url": "HTTPS://identity.example.com/token",
    }
    assert made(oidc).client == SERVERS | oidc


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ssl.cipher.suites", "HIGH:!aNULL:!eNULL:-ADH:@STRENGTH"),
        ("ssl.cipher.suites", "DEFAULT@SECLEVEL=2"),
        ("ssl.cipher.suites", "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-CHACHA20-POLY1305"),
        ("ssl.curves.list", "P-521:P-384"),
        ("ssl.sigalgs.list", "RSA+SHA256"),
    ],
)
def test_what_chooses_among_suites_that_need_a_certificate_is_taken(name: str, value: str) -> None:
    assert made({name: value}).client == SERVERS | {name: value}


def test_the_administrator_allows_properties_by_name_and_no_others() -> None:
    extra = {
        "ssl.providers": "fips",
        "enable.ssl.certificate.verification": "false",
        "ssl.cipher.suites": "ALL:@SECLEVEL=0",
    }

    def allowing(*names: str) -> BusConfig:
        return made(extra, allowed_client_properties=names)

    assert allowing(*extra).client == SERVERS | extra
    with pytest.raises(ConfigError, match=r"sets ssl\.providers: .*\[interlock\] allowed_client_properties"):
        allowing("enable.ssl.certificate.verification", "ssl.cipher.suites")
    with pytest.raises(ConfigError, match=r"sets enable\.ssl"):
        allowing(
            "ssl.providers", "ssl.cipher.suites", "*", "enable.ssl", "ssl.endpoint.identification.algorithm"
        )


def test_a_connection_without_servers_is_refused_with_an_example() -> None:
    with pytest.raises(ConfigError, match=r"has no 'bootstrap.servers'.*broker:9092"):
        BusConfig.from_extra({}, name="b", deployment="d", connection="kafka_default")


@pytest.mark.parametrize("value", [None, [1], {"a": 1}])
def test_a_property_that_is_no_text_or_number_is_refused_without_its_value(value: object) -> None:
    with pytest.raises(ConfigError, match=rf"'x': expected .* got {type(value).__name__}"):
        made({"x": value})


@pytest.mark.parametrize("name", ["", "a b", "ä", "-a", "a" * 101, "a/b", "a\n"])
def test_a_name_that_kafka_would_not_take_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"\[interlock\] bus"):
        made({}, name=name)
    with pytest.raises(ConfigError, match=r"\[interlock\] deployment"):
        BusConfig(deployment=name, client=SERVERS)


def test_secrets_are_neither_in_repr_nor_in_the_description_but_distinguish_buses() -> None:
    one, other = made({"sasl.password": "canary-1"}), made({"sasl.password": "canary-2"})
    for text in (repr(one), str(one), one.describe()):
        assert "canary" not in text
    assert "broker:9092" in one.describe()
    assert one.contents != other.contents
    assert one.contents == made({"sasl.password": "canary-1"}).contents


def test_topics_and_group_are_named_after_the_bus() -> None:
    config = made({})
    assert (config.topic("event"), config.group) == ("b-event", "b-engine")


def test_the_deliverers_of_each_deployment_are_a_group_of_their_own() -> None:
    config = BusConfig("b", "prod", {"bootstrap.servers": "broker:9092"})
    deliverers = config.of_deliverers
    assert (deliverers.group, deliverers.contents) == ("b-deliver-prod", config.contents)
    names = [ProcessName().next(each).rpartition("-")[0] for each in (config, deliverers)]
    assert names == ["b-engine-prod", "b-deliver-prod"]


def test_what_a_client_needs_wins_over_what_the_connection_says() -> None:
    errors = ClientErrors()
    given = settings(made({"linger.ms": 500, "error_cb": "mine"}), errors, linger_ms=0, group_id="g")
    assert (given["linger.ms"], given["group.id"], given["error_cb"]) == (0, "g", errors)
    assert given["bootstrap.servers"] == "broker:9092"


CANARY = "canary-secret-" + "c" * 32


def test_the_settings_of_the_proof_are_the_buss_and_no_client_gets_them() -> None:
    config = made({"interlock.proof.secret": CANARY, "interlock.proof.from": "2026-12-01T00:00:00Z"})
    assert config.proof is not None
    assert (config.proof.topic, config.proof.from_ms) == ("b-event", 1_796_083_200_000)
    assert not [name for name in settings(config, ClientErrors()) if name.startswith("interlock")]
    assert CANARY not in f"{config!r} {config.proof!r} {config.describe()}"
    assert made({}).proof is None


@pytest.mark.parametrize("value", ["short-canary", "canary with blanks in it, long enough", True, 7])
def test_a_secret_that_cannot_be_used_is_refused_by_name(value: object) -> None:
    with pytest.raises(ConfigError, match=r"'kafka_default': interlock\.proof\.secret is not") as refused:
        made({"interlock.proof.secret": value})
    assert "canary" not in str(refused.value)


def test_a_connection_with_another_secret_is_another_one() -> None:
    """So the engine gets new clients, and with them the new secret."""
    assert (
        made({"interlock.proof.secret": CANARY}).contents
        != made({"interlock.proof.secret": "x" * 32}).contents
    )
