"""What `make burst` reads of a task that left `deferred`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.ha.burst import taken

FIRED = {"outcome": "fired", "action": json.dumps({"firing": {"id": "f1"}}), "registration_keys": []}


def test_a_task_that_was_resumed_with_a_firing_has_its_id() -> None:
    assert taken({"next_method": "execute_complete", "event": FIRED}) == {"firing_id": "f1"}


@pytest.mark.parametrize(
    "resumed",
    [
        {"next_method": "execute_complete", "event": {"outcome": "timeout", "action": None}},
        {"next_method": "__fail__", "event": None},
        {"next_method": "execute_complete", "event": None},
    ],
)
def test_a_task_that_left_otherwise_has_none(resumed: dict[str, Any]) -> None:
    assert "firing_id" not in taken(resumed)
