"""Makes docs/understand/conformance.md from the tests: `python -m tests.conformance.page` writes it.

Each test names with `@pytest.mark.section(number, requirement)` what it shows.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

PAGE = Path(__file__).resolve().parents[2] / "docs" / "understand" / "conformance.md"
MODULES = (
    "test_core", "test_json_format", "test_kafka_binding", "test_http_binding", "test_http_webhook",
    "test_knative_receiver", "test_knative_data_plane", "test_knative_control_plane",
    "test_knative_event_delivery",
)  # fmt: skip
HEAD = """# Conformance to CloudEvents and Knative

What Interlock does with CloudEvents 1.0.2, and with Knative's contracts for brokers, deliveries and Triggers, section by section. Each line is a test in [tests/conformance](../../tests/conformance); `python -m tests.conformance.page` makes this page from them.

## Departures

| where | what | why |
|---|---|---|
| JSON format 2.2 | a boolean or integer extension becomes text in Kafka | headers hold only text, and Interlock writes the binary mode |
| JSON format 3.1 | JSON `data` with more than 500 levels of nesting are refused | JSON parsers have different limits: an event that one reads and another refuses would count in one place and not in the other |
| JSON format 3.1.2 | `Event.payload` reads data without a datacontenttype as JSON if it is JSON; the bytes are kept | many producers send JSON without a content type, and conditions should be able to read it |
| HTTP binding 3.1.2 | a request with an empty body has no data | HTTP does not distinguish an empty body from none |
| HTTP binding 3.2, Kafka binding 3.3 | JSON is the only event format | no producer has asked for Avro or Protobuf |
| HTTP webhooks 2.1 | without a certificate the receiver serves plain HTTP, and it accepts events without a payload | a proxy in front may end TLS, and the HTTP binding allows events without data |
| HTTP webhooks 3.2 | a token in the URI is not accepted | proxies log URIs |
| Knative, Event Acknowledgement | 408 is tried again; 401, 403, 407 and 410 pause the sink; the firing becomes a dead letter only if the sink accepts others | Knative's dispatcher repeats 408 too; a wrong password says nothing about the events that are sent with it |
| Knative, Derived (Reply) Events | a 200 with a body that does not claim to be an event is accepted | most services answer with JSON of their own. Knative's broker answers 502 to that |
| Knative, Content Based Routing | a reply that cannot be stored at once is stored later, without another delivery | the sink has done its work already |
| Knative, Derived (Reply) Events | the hop counter is `interlockhops`; at 0 only a reply is refused, the event itself is still delivered | `knativebrokerttl` belongs to Knative's broker; only replies can form a loop here |
| Knative, DeliverySpec | linear delays grow by `backoffDelay`; dead letters go to a topic, not to `deadLetterSink` | as in Knative's code; a service for dead letters may be down as well |
| Kafka binding 3.2.2 | an event whose data is itself a CloudEvent is written in structured mode | in binary mode a reader would take the data for the event |
"""  # noqa: E501  # lines of a page


class Line(NamedTuple):
    section: str
    requirement: str
    test: str


def lines(module: ModuleType) -> Iterator[Line]:
    for name, test in inspect.getmembers(module, inspect.isfunction):
        for mark in getattr(test, "pytestmark", ()):
            if mark.name == "section":
                yield Line(*mark.args, name)


def page() -> str:
    parts = [HEAD]
    for name in MODULES:
        module = importlib.import_module(f"tests.conformance.{name}")
        title = (module.__doc__ or "").strip().rstrip(".")
        path = f"../../tests/conformance/{name}.py"
        order = list(inspect.getsource(module).splitlines())
        found = sorted(
            lines(module),
            key=lambda line: next(n for n, text in enumerate(order) if f"def {line.test}(" in text),
        )
        parts += [
            f"\n## [{title}]({module.SPECIFICATION})\n\n| section | what holds | test |\n|---|---|---|\n"
        ]
        parts += [
            f"| {line.section} | {line.requirement} | [{_words(line.test)}]({path}) |\n" for line in found
        ]
    return "".join(parts)


def _words(test: str) -> str:
    return test.removeprefix("test_").replace("_", " ")


if __name__ == "__main__":
    PAGE.write_text(page())
