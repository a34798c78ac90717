"""What Kafka clients say of their errors."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from interlock.engine.kafka.clients import error_text

REFUSED = "127.0.0.1:9092/bootstrap: Connect to ipv4#127.0.0.1:9092 failed: Connection refused"


@pytest.mark.parametrize(
    "more",
    ["", " (after 0ms in state CONNECT)", " (after 12ms in state CONNECT, 3 identical error(s) suppressed)"],
)
def test_one_reason_reads_the_same_however_often_it_came(more: str) -> None:
    error: Any = SimpleNamespace(str=lambda: f"{REFUSED}{more}")
    assert error_text(error) == REFUSED
