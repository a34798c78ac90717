"""What is said about the members of a group whose coordinator loads: pitfall 23 of the clients."""

from __future__ import annotations

from contextlib import closing

import pytest
from interlock.engine.config import BusConfig
from interlock.engine.errors import UnreachableError
from interlock.engine.kafka.admin import Admin

from .loading_coordinator import loading_coordinator


def test_a_coordinator_that_loads_does_not_make_a_group_look_empty() -> None:
    with (
        loading_coordinator() as servers,
        closing(Admin(BusConfig(client={"bootstrap.servers": servers}))) as admin,
    ):
        for _ in range(5):  # which of the brokers answers last is by chance
            with pytest.raises(UnreachableError, match="oordinator"):
                admin.group_members()
