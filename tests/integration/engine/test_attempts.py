"""A record that ends engine processes: after several it becomes a dead letter, and the rest continues."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from interlock import event
from interlock.engine.admin.health import examine
from interlock.engine.protocol.poison.suspects import MOST_TRIES, WIDTHS

PATIENCE_S = 240.0
# A single engine, whose process ends when it matches a certain event: by os._exit, or by a signal.
VICTIM = """
import json, os, signal, sys, threading
from interlock.engine.config import BusConfig
from interlock.engine.protocol.tasks.source_task import SourceTask
from interlock.engine.runtime.runtime import Runtime

match = SourceTask.match

def dying(task, record, *rest):
    if ("ce_id", b"lethal") in (record.headers or ()):
        if sys.argv[2] == "exit":
            os._exit(42)
        os.kill(os.getpid(), signal.SIGKILL)
    return match(task, record, *rest)

SourceTask.match = dying
Runtime(BusConfig(**json.loads(sys.argv[1])), runs="engine").start()
threading.Event().wait()
"""


@pytest.mark.long
def test_a_record_that_keeps_ending_processes_becomes_a_dead_letter_and_the_next_ones_are_matched(
    bench: Any, eventually: Any
) -> None:
    bench.subscribe("all", event("x"))
    ids = ["before", "lethal", "behind", "after"]
    partitions = {bench.emit("x", id=each, subject="s")[1] for each in ids}
    assert len(partitions) == 1
    running: list[subprocess.Popen[bytes]] = []
    ended, tries = 0, 0

    def dead_letters() -> Any:
        """The dead letters. Starts processes that have ended again, like a supervisor."""
        nonlocal ended, tries
        for process in [each for each in running if each.poll() is not None]:
            running.remove(process)
            ended += 1
        while len(running) < 2:
            running.append(bench.process(VICTIM, ("exit", "signal")[len(running)]))
        for partition in examine(bench.config).partitions:
            tries = max(tries, partition["tries"])
        return bench.records("dead-letter")

    eventually("the record is a dead letter", dead_letters, PATIENCE_S)
    firings = bench.eventually_fired("all", 3)
    fired = [each["id"] for firing in firings for each in next(iter(firing["firing"]["events"].values()))]
    assert sorted(fired) == ["after", "before", "behind"]
    (dead_letter,) = bench.records("dead-letter")
    headers = {name: (value or b"").decode() for name, value in dead_letter.headers}
    assert headers["ce_id"] == "lethal"
    assert headers["interlock_attempts"] == str(MOST_TRIES)
    named = headers["interlock_reason"].partition("this record: ")[2].rstrip(".").split(", ")
    assert len(set(named)) == MOST_TRIES
    assert all(each.startswith(f"{bench.config.group}-") for each in named)
    # A width is tried again if its first records succeeded; and two processes may have ended as they began.
    assert 1 + len(WIDTHS) + MOST_TRIES <= ended <= 1 + 2 * len(WIDTHS) + MOST_TRIES + 2
    assert tries > 0, "health named it"
    for process in running:
        assert process.poll() is None
