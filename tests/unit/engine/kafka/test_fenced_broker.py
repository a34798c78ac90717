"""What is asked of the cluster itself while all its brokers are fenced: pitfall 22 of the clients."""

from __future__ import annotations

import subprocess
import sys

import pytest

from .fenced_broker import fenced_broker

ASKS = """
import sys
from interlock.engine.config import BusConfig
from interlock.engine.kafka import probe, reachability

config = BusConfig(client={"bootstrap.servers": sys.argv[2]})
print(eval(sys.argv[1]))
"""


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("reachability.require_answer(config, 3)", "None"),
        ("probe.broker_version(config)", ""),
    ],
)
def test_a_question_to_a_cluster_whose_brokers_are_all_fenced_does_not_end_the_process(
    question: str, answer: str
) -> None:
    with fenced_broker() as servers:
        command = [sys.executable, "-c", ASKS, question, servers]
        asking = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (asking.returncode, asking.stdout.strip()) == (0, answer), asking.stderr
