"""A record of a later version in the registry of a real bus: who says so, and what ends it."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from interlock.engine.admin.health import examine
from interlock.engine.errors import UnknownVersion
from interlock.engine.following.subscriptions import Subscriptions
from interlock.engine.kafka.topics import write_registry
from interlock.engine.records import LeaseRecord, encode_json
from interlock.engine.runtime import failures

from .conftest import running

KEY = b"lease/later/0"


def test_the_log_says_it_once_and_health_names_it_until_the_record_is_removed(
    bench: Any, eventually: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Engines ended or passed it over, and health said to start one."""
    for name, value in {"LEAST": 4, "AFTER_S": 0.0, "HEALTHY_S": 0.0}.items():
        monkeypatch.setattr(failures, name, value)
    later = LeaseRecord(v=9, deployment="d", incarnations=[], host="h")
    with caplog.at_level(logging.INFO, "interlock.engine"), running(bench.config):
        eventually("an engine runs", lambda: examine(bench.config).engines)
        write_registry(bench.config, {KEY: encode_json(later)})
        problems = eventually(
            "the engine ends again and again",
            lambda: (
                (found := examine(bench.config).problems)
                and any("ends again and again" in problem for problem in found)
                and found
            ),
        )
        place = f"{bench.config.topic('subscription')}[0]@"
        [record] = [problem for problem in problems if problem.startswith(place)]
        assert "holds a LeaseRecord of version 9; this Interlock reads 1. Upgrade this process" in record
        [failing] = [problem for problem in problems if "ends again and again" in problem]
        assert record in failing
        assert [problem for problem in problems if problem.startswith("No engine is a member")]
        lines = [each for each in caplog.records if record in each.getMessage()]
        assert sorted(each.getMessage().partition(":")[0] for each in lines) == ["The engine", "The waits"]
        assert not any(each.exc_info for each in caplog.records)
        with pytest.raises(UnknownVersion, match="LeaseRecord of version 9"):
            Subscriptions.read(bench.config)
        write_registry(bench.config, {KEY: None})
        eventually("all is well again", lambda: (h := examine(bench.config)).ok and h.engines)
