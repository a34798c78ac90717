"""What is read from a client's log, and the words of ACLs."""

from __future__ import annotations

import pytest
from interlock.engine.kafka.probe import _ApiVersions, _version, _word


def test_of_several_brokers_the_oldest_counts_and_nothing_else_is_kept() -> None:
    versions = _ApiVersions()
    for line in (
        "APIVERSION [rdkafka#producer-1]   ApiKey Fetch (1) Versions 4..18",
        "APIVERSION [rdkafka#producer-1]   ApiKey Metadata (3) Versions 0..13",
        "APIVERSION [rdkafka#producer-1]   ApiKey Fetch (1) Versions 0..13",
        "FEATURE [rdkafka#producer-1] something else",
    ):
        versions.logger.debug(line)
    assert versions.highest == {"Fetch": 13, "Metadata": 13}
    assert not versions.logger.propagate or versions.logger.parent is None


@pytest.mark.parametrize(
    ("highest", "version"),
    [
        ({}, None),
        ({"Fetch": 11}, ""),
        ({"Fetch": 13, "Metadata": 12}, "3.1"),
        ({"Fetch": 17, "Metadata": 12}, "3.9"),
        ({"Fetch": 17, "Metadata": 13}, "4.0"),
        ({"Fetch": 99, "Metadata": 99}, "4.1"),
    ],
)
def test_the_version_is_the_latest_whose_protocol_the_broker_speaks(
    highest: dict[str, int], version: str | None
) -> None:
    assert _version(highest) == version


def test_operations_have_the_names_of_acls() -> None:
    assert [_word(name) for name in ("READ", "DESCRIBE_CONFIGS")] == ["Read", "DescribeConfigs"]
