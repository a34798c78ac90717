"""Holds a relay's writes, so that its process can be killed with a message in flight."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from interlock.triggers.relay_writer import EventWriter


def hold_writes(folder: str) -> None:
    """While `folder` has a file `hold` with a number, lets so many writes of this process pass.

    The next one waits for ever before it begins. Then there is a file `held`.
    """
    write, number = EventWriter.write, 0

    def is_due() -> bool:
        hold = Path(folder, "hold")
        if not hold.exists() or number <= int(hold.read_text()):
            return False
        Path(folder, "held").touch()
        return True

    async def held(self: EventWriter, events: Any) -> None:
        nonlocal number
        number += 1
        if is_due():
            await asyncio.Event().wait()
        await write(self, events)

    EventWriter.write = held  # type: ignore[method-assign]


class HeldWrites:
    """The test's side. hold: call it before the process starts to write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def hold(self, after: int) -> None:
        (self.folder / "hold").write_text(str(after))

    def is_held(self) -> bool:
        return (self.folder / "held").exists()

    def go_on(self) -> None:
        for name in ("hold", "held"):
            (self.folder / name).unlink()
