"""Which properties of a Kafka client a user may not set: those that run programs or switch checks off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md
_LOADS_OR_RUNS: Final = frozenset(
    {
        "plugin.library.paths",
        "sasl.kerberos.kinit.cmd",
        "ssl.engine.location",
        "ssl.providers",
    }
)
_SWITCHES_OFF: Final = {
    "enable.ssl.certificate.verification": frozenset({"false", "f", "0"}),
    "ssl.endpoint.identification.algorithm": frozenset({"none"}),
}


def refused(client: Mapping[str, str]) -> list[str]:
    """The names of the properties that are refused for what they are, or for their value; sorted."""
    off = {name for name, values in _SWITCHES_OFF.items() if client.get(name, "").strip().lower() in values}
    return sorted(_LOADS_OR_RUNS & client.keys() | off)
