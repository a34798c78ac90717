from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from interlock.engine.bus import Record, TopicPartition
from interlock.engine.protocol.tasks.source_task import SourceTask
from interlock.engine.protocol.tasks.trigger_task import TriggerTask

from tests.unit.engine.protocol.dying import Died


@pytest.fixture
def lethal(monkeypatch: pytest.MonkeyPatch) -> set[tuple[TopicPartition, int]]:
    """Offsets of records that end every process that works on them."""
    places: set[tuple[TopicPartition, int]] = set()
    for kind, name in ((SourceTask, "match"), (TriggerTask, "process")):
        original = getattr(kind, name)

        def work(task: Any, record: Record, *rest: Any, original: Callable[..., Any] = original) -> Any:
            if (record.source, record.offset) in places:
                raise Died
            return original(task, record, *rest)

        monkeypatch.setattr(kind, name, work)
    return places
