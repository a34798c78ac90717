"""An engine that runs as in a triggerer, until SIGTERM.

python -m bench.engine.running SETTINGS
"""

from __future__ import annotations

import signal
import threading

from interlock.engine.runtime.runtime import run_engine

from .process import config_given

if __name__ == "__main__":
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    run_engine(config_given(), over)
