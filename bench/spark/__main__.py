"""`make bench-spark`: all questions; ONLY=hooks,archive,backtest EVENTS=..."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from interlock.plugin.broker import LocalBroker

from ..backtest.__main__ import main as backtest
from ..lines import progress
from . import archive, hooks

QUESTIONS: dict[str, Callable[[str], None]] = {
    "hooks": hooks.run,
    "archive": lambda at: archive.run(at, int(os.environ.get("EVENTS") or 500_000)),
    "backtest": lambda _: backtest(),
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
