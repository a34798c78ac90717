"""The rights that roles need, and comparing them with what is allowed."""

from __future__ import annotations

import pytest
from interlock.engine.admin.access import ROLES, Acl, lacking, needed
from interlock.engine.config import KINDS, BusConfig

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "one:1"})
READS = Acl("wait", "topic", "b-event", "literal", ("Read", "Describe"))


def test_an_engine_needs_something_on_each_topic_and_an_emitter_on_one() -> None:
    engine = {acl.name for acl in needed(CONFIG, roles=["engine"]) if acl.resource == "topic"}
    assert engine == {CONFIG.topic(kind) for kind in KINDS}
    assert needed(CONFIG, roles=["emit"]) == [Acl("emit", "topic", "b-event", "literal", ("Write",))]
    assert {acl.role for acl in needed(CONFIG)} == set(ROLES)


def test_no_role_that_waits_may_write_events() -> None:
    writers = {
        acl.role
        for acl in needed(CONFIG, ["raw"])
        if acl.name in ("b-event", "raw") and "Write" in acl.operations
    }
    assert writers == {"emit", "deliver"}  # replies


def test_a_deliverer_needs_its_own_group_and_no_right_to_write_registrations_or_states() -> None:
    acls = needed(CONFIG, ["raw"], roles=["deliver"])
    assert {acl.name for acl in acls if "Write" in acl.operations and acl.resource == "topic"} == {
        "b-action",
        "b-dead-letter",
        "b-event",
    }
    assert [(acl.resource, acl.name, acl.operations) for acl in acls if acl.resource != "topic"] == [
        ("group", "b-deliver-airflow", ("Read",)),
        ("transactional-id", "b-deliver-airflow-", ("Write",)),
    ]


def test_a_dispatcher_reads_and_acknowledges_firings() -> None:
    [acl] = [acl for acl in needed(CONFIG, roles=["wait"]) if acl.name == "b-action"]
    assert acl.operations == ("Read", "Write", "Describe")


def test_listed_topics_are_read_by_waits_and_engines() -> None:
    readers = [(acl.role, acl.operations) for acl in needed(CONFIG, ["raw"]) if acl.name == "raw"]
    assert readers == [
        ("wait", ("Read", "Describe")),
        ("engine", ("Read", "Describe", "DescribeConfigs")),
        ("deliver", ("Read", "Describe")),
    ]


@pytest.mark.parametrize(
    ("allowed", "left"),
    [
        (["All"], []),
        (["Read", "Describe"], []),
        (["Read"], []),  # as Kafka has it
        (["Write"], ["Read"]),
        (["DescribeConfigs"], ["Read", "Describe"]),
        ([], ["Read", "Describe"]),
    ],
)
def test_what_is_lacking_takes_into_account_what_other_rights_imply(
    allowed: list[str], left: list[str]
) -> None:
    assert lacking(READS, allowed) == left
