"""`make bench-spark`: one broker, all questions; ONLY=hooks,archive,backtest."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from interlock.plugin.broker import LocalBroker

from ..lines import progress
from . import hooks

QUESTIONS: dict[str, Callable[[str], None]] = {
    "hooks": hooks.run,
}


def main() -> None:
    only = [name for name in os.environ.get("ONLY", "").split(",") if name] or list(QUESTIONS)
    with (
        tempfile.TemporaryDirectory(prefix="interlock-bench-") as folder,
        LocalBroker(Path(folder), report=progress) as broker,
    ):
        for name in only:
            progress(f"== {name}")
            QUESTIONS[name](broker.bootstrap_servers)


if __name__ == "__main__":
    main()
