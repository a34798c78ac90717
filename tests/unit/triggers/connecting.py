"""The connection that a trigger under test reads, and moments near now."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from airflow.sdk import BaseHook, Connection
from interlock.triggers import connections

GOOD = Connection(conn_id="kafka_default", conn_type="kafka", extra='{"bootstrap.servers": "x:1"}')


def in_seconds(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


class Connections:
    """The answers of `aget_connection`, the last one repeatedly. An exception is raised."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: Connection | Exception) -> None:
        self._answers = list(answers)
        monkeypatch.setattr(BaseHook, "aget_connection", self.get)
        monkeypatch.setattr(connections, "FRESH_S", 0.0)
        monkeypatch.setattr(connections, "MAX_PAUSE_S", 0.01)

    async def get(self, conn_id: str) -> Connection:
        assert conn_id == "kafka_default"
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        await asyncio.sleep(0)
        if isinstance(answer, Exception):
            raise answer
        return answer
