"""The translation of a Kafka connection for Spark's connector, and that it hides secrets."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from interlock.spark.pipeline.connector import ConnectorError, connector_options, java_properties

SERVERS = {"bootstrap.servers": "a:9092"}


def test_properties_that_only_librdkafka_has_are_ignored() -> None:
    assert (
        java_properties({**SERVERS, "queued.min.messages": "5", "statistics.interval.ms": "1000"}) == SERVERS
    )


def test_names_that_differ_are_translated() -> None:
    assert java_properties({"metadata.broker.list": "a:1", "fetch.wait.max.ms": "7"}) == {
        "bootstrap.servers": "a:1",
        "fetch.max.wait.ms": "7",
    }


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [("PLAIN", "plain.PlainLoginModule"), ("SCRAM-SHA-512", "scram.ScramLoginModule")],
)
def test_user_and_password_become_a_login_module_whatever_their_characters(
    mechanism: str, module: str
) -> None:
    java = java_properties(
        {
            **SERVERS,
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": mechanism,
            "sasl.username": "o'brien",
            "sasl.password": 'a"b\\c',
        }
    )
    assert java["sasl.mechanism"] == mechanism
    assert java["sasl.jaas.config"] == (
        f'org.apache.kafka.common.security.{module} required username="o\'brien" password="a\\"b\\\\c";'
    )


def test_pem_is_taken_as_text_and_from_files(tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    authority.write_text("THE CA")
    java = java_properties(
        {
            **SERVERS,
            "security.protocol": "ssl",
            "ssl.ca.location": str(authority),
            "ssl.certificate.pem": "THE CHAIN",
        }
    )
    assert java == {
        **SERVERS,
        "security.protocol": "ssl",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "THE CA",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "THE CHAIN",
    }


@pytest.mark.parametrize("form", ["TraditionalOpenSSL", "PKCS8"])
@pytest.mark.parametrize("passphrase", [None, "hush"])
def test_a_key_of_any_format_becomes_one_that_java_reads(form: str, passphrase: str | None) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    cipher = NoEncryption() if passphrase is None else BestAvailableEncryption(passphrase.encode())
    pem = key.private_bytes(Encoding.PEM, getattr(PrivateFormat, form), cipher).decode()
    given = {
        **SERVERS,
        "ssl.key.pem": pem,
        **({} if passphrase is None else {"ssl.key.password": passphrase}),
    }
    java = java_properties(given)
    assert java["ssl.keystore.key"].startswith("-----BEGIN PRIVATE KEY-----")
    read = load_pem_private_key(java["ssl.keystore.key"].encode(), None)
    assert read.private_numbers() == key.private_numbers()  # type: ignore[union-attr]
    assert "ssl.key.password" not in java


def test_a_wrong_password_of_a_key_is_an_error_that_does_not_show_it() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"right")).decode()
    with pytest.raises(ConnectorError, match=r"ssl\.key\.password") as caught:
        java_properties({**SERVERS, "ssl.key.pem": pem, "ssl.key.password": "canary"})
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("true", ["true", "True", "t", "1"])
def test_verification_of_certificates_needs_no_property_since_java_does_it(true: str) -> None:
    assert java_properties({**SERVERS, "enable.ssl.certificate.verification": true}) == SERVERS


@pytest.mark.parametrize(
    ("client", "named"),
    [
        ({"security.protocol": "sasl_ssl", "sasl.mechanism": "OAUTHBEARER"}, "OAUTHBEARER"),
        ({"security.protocol": "sasl_plaintext"}, "GSSAPI"),
        ({"ssl.cipher.suites": "ECDHE"}, "ssl.cipher.suites"),
        ({"ssl.crl.location": "/crl"}, "ssl.crl.location"),
        ({"enable.ssl.certificate.verification": "false"}, "enable.ssl.certificate.verification"),
        ({"ssl.ca.location": "/nowhere/ca.pem"}, "/nowhere/ca.pem"),
    ],
)
def test_security_properties_without_a_counterpart_are_refused_by_name(
    client: dict[str, str], named: str
) -> None:
    with pytest.raises(ConnectorError, match=named):
        java_properties({**SERVERS, **client})


def test_options_refer_to_a_private_file_that_is_removed_after_the_block() -> None:
    client = {
        **SERVERS,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "user",
        "sasl.password": "hush",
    }
    with connector_options(client) as options:
        reference = options["kafka.sasl.jaas.config"]
        path = Path(reference.removeprefix("${interlock:").rpartition(":")[0])
        assert reference == f"${{interlock:{path}:sasl.jaas.config}}"
        assert options["kafka.config.providers.interlock.param.allowed.paths"] == str(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert "hush" in path.read_text()
        assert "hush" not in repr(options)
        assert "a:9092" not in repr(options)
    assert not path.exists()


def test_a_file_of_java_properties_is_used_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "java.properties"
    path.write_text(
        "# the cluster\nbootstrap.servers = a:9092\nsasl.jaas.config=a.Module required \\\n   password=x;\n"
    )
    with connector_options({}, java_file=str(path)) as options:
        assert options["kafka.sasl.jaas.config"] == f"${{interlock:{path}:sasl.jaas.config}}"
        assert set(options) == {
            "kafka.bootstrap.servers",
            "kafka.sasl.jaas.config",
            "kafka.config.providers",
            "kafka.config.providers.interlock.class",
            "kafka.config.providers.interlock.param.allowed.paths",
        }
    assert path.exists()


@pytest.mark.parametrize(
    ("text", "named"), [(None, "cannot be read"), ("sasl.mechanism=PLAIN\n", "no bootstrap.servers")]
)
def test_an_unusable_file_of_java_properties_is_an_error(
    tmp_path: Path, text: str | None, named: str
) -> None:
    path = tmp_path / "java.properties"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConnectorError, match=named), connector_options({}, java_file=str(path)):
        pass
