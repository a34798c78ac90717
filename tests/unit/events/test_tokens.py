"""Tokens for Amazon MSK, and from a user's function."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
from interlock.events.tokens import msk_region, token_callback

MSK = {
    "bootstrap.servers": "b-1.demo.abcde1.c2.kafka.eu-central-1.amazonaws.com:9098",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
}


@pytest.mark.parametrize(
    ("servers", "region"),
    [
        ("b-1.demo.abcde1.c2.kafka.us-east-1.amazonaws.com:9098", "us-east-1"),
        ("boot-abcde1.c2.kafka-serverless.eu-west-3.amazonaws.com:9098", "eu-west-3"),
        ("b-1.demo.abcde1.c2.kafka.cn-north-1.amazonaws.com.cn:9098", "cn-north-1"),
        ("b-1.kafka.abcde1.c2.kafka.us-east-1.amazonaws.com:9098", "us-east-1"),  # a cluster called kafka
        ("kafka.us-east-1.amazonaws.com:9098", None),
        ("other:9092, B-2.demo.abcde1.c2.Kafka.us-east-1.amazonaws.com:9098", "us-east-1"),
        ("kafka.us-east-1.amazonaws.com.example.org:9098", None),
        ("broker.example.org:9092", None),
        ("localhost", None),
        ("", None),
    ],
)
def test_the_region_is_read_from_the_names_of_msk_brokers(servers: str, region: str | None) -> None:
    assert msk_region(servers) == region


def test_msk_with_oauthbearer_uses_iam_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    regions = []

    def sign(region: str) -> tuple[str, int]:
        regions.append(region)
        return "signed", 1_900_000_000_500

    provider = SimpleNamespace(generate_auth_token=sign)
    monkeypatch.setitem(
        sys.modules, "aws_msk_iam_sasl_signer", SimpleNamespace(MSKAuthTokenProvider=provider)
    )
    callback = token_callback(MSK)
    assert callback is not None
    assert callback("") == ("signed", 1_900_000_000.5)
    assert regions == ["eu-central-1"]


def test_without_the_signer_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    with pytest.raises(ValueError, match=r"pip install 'apache-airflow-providers-apache-kafka\[msk\]'"):
        token_callback(MSK)


@pytest.mark.parametrize(
    "other",
    [
        {"sasl.mechanism": "SCRAM-SHA-512"},
        {"bootstrap.servers": "broker.example.org:9092"},
        {"sasl.oauthbearer.method": "oidc"},
    ],
)
def test_clients_without_msk_and_oauthbearer_get_no_iam_token(other: dict[str, str]) -> None:
    assert token_callback(MSK | other) is None


def test_oauth_cb_overrides_msk() -> None:
    assert token_callback(MSK | {"oauth_cb": "os.path.join"}) is sys.modules["os.path"].join


@pytest.mark.parametrize("path", ["secret", "os.secret", "no_such_module.secret", "os.name", ".secret", ""])
def test_an_oauth_cb_that_is_not_a_function_is_refused_without_its_value(path: str) -> None:
    with pytest.raises(ValueError, match=r"^oauth_cb is not an importable function") as raised:
        token_callback({"oauth_cb": path})
    assert "secret" not in str(raised.value)
