"""An engine that kills itself inside a transaction, after some firings.

python -m bench.engine.dying SETTINGS
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

from interlock.engine.bus import Output
from interlock.engine.kafka.transactions import Transactions
from interlock.engine.runtime.runtime import run_engine

from .process import config_given

AFTER = 200  # firings

if __name__ == "__main__":
    produce, fired = Transactions.produce, 0

    def dying(self: Transactions, output: Output, on_delivery: Any = None) -> None:
        global fired
        produce(self, output, on_delivery)
        fired += output.topic.endswith("-action")
        if fired >= AFTER:
            self._producer.flush(5)
            os.kill(os.getpid(), signal.SIGKILL)

    Transactions.produce = dying  # type: ignore[method-assign]
    run_engine(config_given(), threading.Event())
