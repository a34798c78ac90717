"""Health: what it leaves behind."""

from __future__ import annotations

from typing import Any

import pytest
from interlock.engine import health as module
from interlock.engine.config import BusConfig
from interlock.engine.errors import UnreachableError

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "one:1"})


@pytest.mark.parametrize("answers", [True, False])
def test_no_client_stays_open_whether_the_cluster_answers_or_not(
    monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    closed = []

    class Admin:
        def __init__(self, *_: Any) -> None: ...

        def topics(self, names: list[str]) -> dict[str, None]:
            if not answers:
                raise UnreachableError("No answer.")
            return dict.fromkeys(names)

        def close(self) -> None:
            closed.append(self)

    monkeypatch.setattr(module, "Admin", Admin)
    monkeypatch.setattr(module, "check", lambda _config: None)
    if answers:
        module.examine(CONFIG)
    else:
        with pytest.raises(UnreachableError):
            module.examine(CONFIG)
    assert len(closed) == 1
