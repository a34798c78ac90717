"""A process of Airflow, with Airflow's own settings, sends the spans of a delivery to a receiver of OTLP."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from tests.kit.sinks import Sink
from tests.kit.trace_receiver import TraceReceiver

CODE = """
    import sys
    import airflow  # which sets up OpenTelemetry
    from tests.kit.posting import Posting, form
    from tests.unit.engine.delivery.firings import firing

    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    events = {"order": [form({"n": 1}, **trace)]}
    with Posting.to(sys.argv[1]) as posting:
        posting.deliver(firing(7, name="0123456789abcdef0123456789abcdef", events=events))
    """


def test_airflows_settings_send_the_spans_of_a_delivery(tmp_path: Path) -> None:
    root = Path(__file__).parents[4]
    with TraceReceiver() as receiver, Sink() as sink:
        environment = {**os.environ, "AIRFLOW_HOME": str(tmp_path), **receiver.environment}
        command = [sys.executable, "-c", textwrap.dedent(CODE), sink.url]
        subprocess.run(command, env=environment, cwd=root, check=True, capture_output=True)
    [fired], [delivered] = receiver.named("fire"), receiver.named("deliver")
    assert fired.ids == ("0af7651916cd43dd8448eb211c80319c", "0123456789abcdef")
    assert fired.parent == "b7ad6b7169203331"
    assert (delivered.trace, delivered.parent) == fired.ids
    assert delivered.attributes["http.response.status_code"] == 202
    assert sink.received[0].headers["traceparent"].split("-")[1:3] == [delivered.trace, delivered.span]
