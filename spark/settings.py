"""The settings of completion events, read from the Spark configuration.

spark.interlock.bootstrap.servers
    Kafka's `bootstrap.servers`; overrides the client file's. Required unless that file has it.
spark.interlock.bus
    Name of the bus, `interlock` by default; events go to the topic `<bus>-event`.
spark.interlock.client.config.file
    A file of librdkafka's client properties, one `name=value` per line; a key or certificate (`ssl.key.pem`)
    on one line, with `\\n` for its line ends. Put secrets here: every user of the machine can read a command
    line. It may have the `interlock.proof` properties of the bus's connection too.
spark.interlock.delivery.timeout
    How long to wait at the end for the brokers' acknowledgement: `10s` by default, also as `500ms` or `1m`.
spark.interlock.events
    Which events to emit beside the application's end, separated by commas: `write` (queries that write),
    `query` (all queries), `streaming` (streaming queries), or `none`. Default: `write,streaming`.
spark.interlock.started
    `true`: emit an event at the start of applications and streaming queries too.
spark.interlock.name
    For the wrapper: the subject of the application's event; by default the application's name.
spark.interlock.data.<name>
    A member of the event's data, as text.
spark.interlock.required
    For the wrapper: `true` fails a job whose event was not acknowledged.
spark.interlock.report.dir
    Set by SparkSubmitEventOperator: the folder where it looks for reports.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from ..events.errors import InterlockError
from ..events.proof import Proof, ProofError
from ..events.properties import refused

PREFIX: Final = "spark.interlock."
BOOTSTRAP: Final = PREFIX + "bootstrap.servers"
BUS: Final = PREFIX + "bus"
CLIENT_FILE: Final = PREFIX + "client.config.file"
TIMEOUT: Final = PREFIX + "delivery.timeout"
EVENTS: Final = PREFIX + "events"
STARTED: Final = PREFIX + "started"
NAME: Final = PREFIX + "name"
DATA: Final = PREFIX + "data."
REQUIRED: Final = PREFIX + "required"
REPORTS: Final = PREFIX + "report.dir"

# Only for the jobs of the pipeline: docs/use/pipeline.md, "The connection".
JAVA_FILE: Final = PREFIX + "java.client.config.file"
FOLDER: Final = PREFIX + "client.folder"
NAMES: Final = frozenset(
    {BOOTSTRAP, BUS, CLIENT_FILE, TIMEOUT, EVENTS, STARTED, NAME, REQUIRED, REPORTS, JAVA_FILE, FOLDER}
)
# Members of an event's data that Interlock fills; all others are free for the user.
RESERVED: Final = frozenset({"airflow", "application", "error", "written"})
KINDS: Final = frozenset({"write", "query", "streaming"})
_NEW_LINE: Final = "\\n"
_MULTILINE: Final = ".pem"  # names of properties that end so have line ends; others may have a backslash
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0}


class CompletionError(InterlockError, ValueError):
    """A completion event cannot be made or configured. The message names the setting or key and a remedy."""


@dataclass(frozen=True)
class CompletionSettings:
    """What a job's configuration says about its completion events.

    client: properties for librdkafka. topic: of the events. timeout_s: how long to wait for their
    acknowledgement. kinds: the further events to emit, of KINDS. started: also emit events of starts. data:
    the user's members of the events' data. report_folder: where SparkSubmitEventOperator looks for reports;
    None for a job that it did not submit.
    """

    client: Mapping[str, str] = field(repr=False)  # may hold passwords
    topic: str
    timeout_s: float
    kinds: frozenset[str] = frozenset({"write", "streaming"})
    started: bool = False
    data: Mapping[str, str] = field(default_factory=dict)
    report_folder: Path | None = None


def read_settings(configuration: Mapping[str, str]) -> CompletionSettings:
    """Reads the settings from a Spark configuration. CompletionError names the wrong setting."""
    known = {name: value for name, value in configuration.items() if name.startswith(PREFIX)}
    for name in known:
        if name not in NAMES and not name.startswith(DATA):
            short = {each.removeprefix(PREFIX): each for each in NAMES}
            near = get_close_matches(name.removeprefix(PREFIX), short, n=1)
            hint = f"did you mean {short[near[0]]}?" if near else f"known are {', '.join(sorted(NAMES))}"
            raise CompletionError(f"unknown setting {name}: {hint}")
    get = known.get
    client: dict[str, str] = {}
    if path := get(CLIENT_FILE):
        client.update(_read_client_file(Path(path)))
    if servers := get(BOOTSTRAP):
        client["bootstrap.servers"] = servers
    if not client.get("bootstrap.servers"):
        raise CompletionError(
            f"no Kafka broker is configured for completion events: set {BOOTSTRAP}=host:port, "
            f"or {CLIENT_FILE} to a file that has bootstrap.servers"
        )
    data = {name.removeprefix(DATA): value for name, value in known.items() if name.startswith(DATA)}
    if taken := sorted(RESERVED & data.keys()):
        raise CompletionError(
            f"{DATA}{taken[0]}: {taken[0]!r} is reserved for Interlock; choose another name"
        )
    topic = f"{get(BUS) or 'interlock'}-event"
    _proof(client, topic)
    return CompletionSettings(
        client=client,
        topic=topic,
        timeout_s=_seconds(get(TIMEOUT) or "10s"),
        kinds=kinds_of(get(EVENTS)),
        started=flag(get, STARTED),
        data=data,
        report_folder=Path(folder) if (folder := get(REPORTS)) else None,
    )


def proof_in(path: str | None, bus: str) -> Proof | None:
    """The proof that a client file asks for, for readers of the bus's event topic. CompletionError."""
    return None if path is None else _proof(_read_client_file(Path(path)), f"{bus}-event")


def _proof(client: Mapping[str, str], topic: str) -> Proof | None:
    try:
        return Proof.of(client, topic)
    except ProofError as error:
        raise CompletionError(f"{CLIENT_FILE}: {error}") from None


def flag(get: Callable[[str], str | None], name: str) -> bool:
    """Whether a setting is `true`; false if it is not set. Raises CompletionError for another text."""
    text = (get(name) or "false").strip().lower()
    if text not in ("true", "false"):
        raise CompletionError(f"{name} is {text!r}: set true or false")
    return text == "true"


def kinds_of(text: str | None) -> frozenset[str]:
    """The kinds of further events that a job emits; raises CompletionError for others."""
    if text is None:
        return frozenset({"write", "streaming"})
    kinds = frozenset(each.strip() for each in text.split(",") if each.strip()) - {"none"}
    if kinds - KINDS:
        raise CompletionError(f"{EVENTS} is {text!r}: set any of {', '.join(sorted(KINDS))}, or none")
    return kinds


def _read_client_file(path: Path) -> dict[str, str]:
    try:
        text = path.read_bytes().decode()  # read_text would take a carriage return for a line end
    except (OSError, UnicodeDecodeError) as error:
        raise CompletionError(f"{CLIENT_FILE}: {path} cannot be read: {error}") from error
    properties: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip()
        if not line or line.startswith(("#", "!")):
            continue
        name, equals, value = (part.strip() for part in line.partition("="))
        # The message does not quote the line: it may be a password.
        if not equals or not name:
            raise CompletionError(f"{CLIENT_FILE}: line {number} of {path} is not name=value")
        # The emitter does not make the calls that a transaction needs.
        if name == "transactional.id" or refused({name: value}):
            raise CompletionError(
                f"{CLIENT_FILE}: line {number} of {path} sets {name}, which is not allowed here"
            )
        properties[name] = value.replace(_NEW_LINE, "\n") if name.endswith(_MULTILINE) else value
    return properties


def client_file_text(client: Mapping[str, str]) -> str:
    """The text of a client file with these properties, each on one line.

    CompletionError names a property with a line end that is no key or certificate, and shows no value.
    """
    lines = []
    for name, value in client.items():
        text = value.replace("\n", _NEW_LINE) if name.endswith(_MULTILINE) else value
        if "\n" in text:
            raise CompletionError(
                f"the value of the property {name} contains a line end, which only names with {_MULTILINE} at"
                " their end may have in a client file: remove it from the Kafka connection's extra"
            )
        lines.append(f"{name}={text}\n")
    return "".join(lines)


def _seconds(text: str) -> float:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|min)?\s*", text)
    if not match or float(match[1]) == 0:
        raise CompletionError(f"{TIMEOUT} is {text!r}: set a duration above 0, such as 10s, 500ms or 1m")
    return float(match[1]) * _SECONDS[match[2] or "s"]
