"""Where a Spark application's events go, read from its Spark configuration.

spark.interlock.bootstrap.servers
    Kafka's `bootstrap.servers`; needed unless the client file has it.
spark.interlock.bus
    Name of the bus, `interlock` by default; events go to the topic `<bus>-event`.
spark.interlock.client.config.file
    A file of client properties, one `name=value` a line, named as librdkafka does. The place for what is
    secret: every user of the machine sees a command line.
spark.interlock.delivery.timeout
    How long the broker has to acknowledge the event: `10s` by default, also as `500ms` or `1m`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..events.errors import InterlockError
from ..events.properties import refused

PREFIX = "spark.interlock."
BOOTSTRAP = PREFIX + "bootstrap.servers"
BUS = PREFIX + "bus"
CLIENT_FILE = PREFIX + "client.config.file"
TIMEOUT = PREFIX + "delivery.timeout"

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0}


class CompletionError(InterlockError, ValueError):
    """A completion event cannot be made or configured; the message names setting or key, and the remedy."""


@dataclass(frozen=True)
class Settings:
    client: Mapping[str, str] = field(repr=False)  # may hold passwords
    topic: str
    timeout_s: float


def read_settings(get: Callable[[str], str | None]) -> Settings:
    """Settings by `get`, which gives a Spark setting's text or None. CompletionError names what is wrong."""
    client: dict[str, str] = {}
    if path := get(CLIENT_FILE):
        client.update(_client_file(Path(path)))
    if servers := get(BOOTSTRAP):
        client["bootstrap.servers"] = servers
    if not client.get("bootstrap.servers"):
        raise CompletionError(
            f"no Kafka broker is configured for completion events: set {BOOTSTRAP}=host:port, "
            f"or {CLIENT_FILE} to a file that has bootstrap.servers"
        )
    return Settings(client, f"{get(BUS) or 'interlock'}-event", _seconds(get(TIMEOUT) or "10s"))


def _client_file(path: Path) -> dict[str, str]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CompletionError(f"{CLIENT_FILE}: {path} cannot be read: {error}") from error
    properties: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith(("#", "!")):
            continue
        name, equals, value = (part.strip() for part in line.partition("="))
        # The line itself is not shown: it may be a password.
        if not equals or not name:
            raise CompletionError(f"{CLIENT_FILE}: line {number} of {path} is not name=value")
        # A transaction would need calls that the emitter does not make.
        if name == "transactional.id" or refused({name: value}):
            raise CompletionError(
                f"{CLIENT_FILE}: line {number} of {path} sets {name}, which is not allowed here"
            )
        properties[name] = value
    return properties


def _seconds(text: str) -> float:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|min)?\s*", text)
    if not match or float(match[1]) == 0:
        raise CompletionError(f"{TIMEOUT} is {text!r}: a time above 0 such as 10s, 500ms or 1m belongs there")
    return float(match[1]) * _SECONDS[match[2] or "s"]
