"""Gets OAUTHBEARER tokens that librdkafka cannot get: for Amazon MSK, or from a user's function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any, Final, TypeAlias

# Takes `sasl.oauthbearer.config`; returns a token and when it expires (seconds since the epoch).
TokenCallback: TypeAlias = Callable[[str], tuple[Any, ...]]
OAUTH_CB: Final = "oauth_cb"
_MSK: Final = ("kafka", "kafka-serverless")
_ENDS: Final = (["amazonaws", "com"], ["amazonaws", "com", "cn"])


def token_callback(client: Mapping[str, str]) -> TokenCallback | None:
    """Returns the function that gets tokens for a client with these properties; None if it needs none.

    `oauth_cb` names an importable function, `package.module.function`. Without it, Amazon MSK with
    `sasl.mechanism=OAUTHBEARER` gets IAM tokens, as in Airflow's Kafka hook. Raises ValueError if `oauth_cb`
    is not a function (the message does not contain its value), and if the MSK signer is not installed.
    """
    if OAUTH_CB in client:
        return _imported(client[OAUTH_CB])
    mechanism = client.get("sasl.mechanism", client.get("sasl.mechanisms", ""))
    if mechanism.upper() != "OAUTHBEARER" or client.get("sasl.oauthbearer.method", "default") != "default":
        return None
    region = msk_region(client.get("bootstrap.servers", ""))
    if region is None:
        return None
    try:
        import_module("aws_msk_iam_sasl_signer")
    except ImportError:
        raise ValueError(
            "Amazon MSK needs IAM tokens, and the package that signs them is not installed. Run: "
            "pip install 'apache-airflow-providers-apache-kafka[msk]'"
        ) from None
    return partial(_msk_token, region)


def msk_region(servers: str) -> str | None:
    """Returns the region in the name of the first Amazon MSK broker in `servers`; None if there is none."""
    for server in servers.split(","):
        labels = server.strip().split(":")[0].lower().split(".")
        end = 3 if labels[-1] == "cn" else 2
        if labels[-end:] not in _ENDS or len(labels) < end + 3:
            continue
        service, region = labels[-end - 2 : -end]  # a label before them may be "kafka", as a cluster's name
        if service in _MSK:
            return region
    return None


def _msk_token(region: str, _config: str) -> tuple[str, float]:
    token, ends_ms = import_module("aws_msk_iam_sasl_signer").MSKAuthTokenProvider.generate_auth_token(region)
    return token, ends_ms / 1000


def _imported(path: str) -> TokenCallback:
    module, _, name = path.rpartition(".")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError):
        found = None
    if not callable(found):
        raise ValueError(f"{OAUTH_CB} is not an importable function: give its path, package.module.function")
    result: TokenCallback = found
    return result
