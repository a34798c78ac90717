"""OpenLineage events (https://openlineage.io/spec/2-0-2/OpenLineage.json) as CloudEvents.

The data is the OpenLineage event as it was sent. Everything else is computed from it, so a repeat of an event
is the same CloudEvent.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final
from urllib.parse import quote

import msgspec

from .attributes import find_problems, format_timestamp, is_timestamp, kind, shown
from .content import JSON, parse_json
from .errors import EventError
from .event import Event
from .http import BatchTooLargeError
from .strict_json import refuse_repeated

RUN_TYPES: Final[Mapping[str, str]] = {
    state: f"openlineage.run.{state}" for state in ("start", "running", "complete", "fail", "abort", "other")
}
JOB: Final = "openlineage.job"
DATASET: Final = "openlineage.dataset"
# Extension attribute of events about runs and jobs: the references of all output datasets, also by their
# other names, with a space before and after each. A predicate can search it for a dataset even if the data is
# larger than the 256 KiB that a predicate may read.
OUTPUTS: Final = "outputs"
# Extension attribute: the outputs for which the event says how much was written (facet `outputStatistics`).
MEASURED: Final = "measured"

_RUN_ID: Final = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_DATE_AND_TIME: Final = re.compile(r"[0-9]{4}-?[0-9]{2}-?[0-9]{2}[Tt ][0-9]{2}[0-9:.,]*(?:[Zz]|[+-][0-9:]+)?")
# What Java's ZonedDateTime appends to the offset (RFC 9557): 2026-11-20T06:00:00Z[Europe/London].
_ZONE_NAME: Final = re.compile(r"(?:\[!?[A-Za-z0-9_+\-/=]{1,64}\])+\Z")
_QUOTE: Final = b'"'
_ESCAPED_QUOTE: Final = b"\\u0022"
_DIGEST_CHARS: Final = 32
_TIME_CHARS: Final = 256  # more than any time has
_MOST_PROBLEMS: Final = 20
_READABLE: Final = "/:@!$&()*+,;="  # in a URI's path beside letters, digits and -._~; no quote, for CEL
_REFERENCE_CHARS: Final = 512
_OUTPUTS_BYTES: Final = 64_000  # CEL reads attributes of at most 64 KiB


def source_of(namespace: str) -> str:
    """The source of events about jobs, or datasets, of a namespace."""
    return "/openlineage/" + quote(namespace, safe=":@")


def dataset_reference(namespace: str, name: str) -> str:
    """A dataset as one word, in which `|` separates namespace and name; a digest if it would be long."""
    word = f"{quote(namespace, safe=_READABLE)}|{quote(name, safe=_READABLE)}"
    return word if len(word) <= _REFERENCE_CHARS else f"sha256|{hashlib.sha256(word.encode()).hexdigest()}"


def from_openlineage(text: bytes) -> Event:
    """Returns the CloudEvent of a run, job or dataset event in JSON.

    Raises EventError, which names every required member that is missing or of a wrong type, and for an object
    with a member twice. Unknown members and facets are kept and not checked.
    """
    form = parse_json(text)
    canonical = msgspec.json.encode(form, order="sorted")
    # Of two members with one name `form` keeps one, so `canonical` has fewer quotation marks than `text`. An
    # escaped mark (\u0022) could hide that: it is a quotation mark in `canonical`, but not in `text`.
    if text.count(_QUOTE) != canonical.count(_QUOTE) or _ESCAPED_QUOTE in text:
        refuse_repeated(text)
    if not isinstance(form, dict):
        raise EventError(f"an OpenLineage event is a JSON object, not {kind(form)}")
    read = _Members(form)
    attributes = _about(form, read)
    attributes["specversion"] = "1.0"
    attributes["id"] = hashlib.sha256(canonical).hexdigest()[:_DIGEST_CHARS]
    attributes["datacontenttype"] = JSON
    read.text(form, "producer")
    if form.get("schemaURL") is not None:  # required too, but OpenLineage#1875: clients leave it out
        read.text(form, "schemaURL")
    stated = read.text(form, "eventTime")
    time = _time(stated, read) if isinstance(form.get("eventTime"), str) else None
    if time is not None:
        attributes["time"] = time
    if not read.problems:
        subject = f"{'dataset' if attributes['type'] == DATASET else 'job'}.name"
        read.problems += [each.replace("attribute subject", subject) for each in find_problems(attributes)]
    if read.problems:
        raise EventError(read.problems)
    return Event(attributes, text)


def from_openlineage_batch(
    text: bytes, most_events: int
) -> tuple[dict[int, Event], dict[int, Sequence[str]]]:
    """Returns the CloudEvents of a JSON array of events, and what is wrong with the others.

    Both by their index in the array. Raises BatchTooLargeError for more than `most_events`, and EventError
    for what is no array.
    """
    try:
        parts = msgspec.json.decode(text, type=list[msgspec.Raw])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise EventError(f"the batch is not a JSON array of objects: {error}") from error
    if len(parts) > most_events:
        raise BatchTooLargeError(len(parts), most_events)
    events: dict[int, Event] = {}
    wrong: dict[int, Sequence[str]] = {}
    for index, part in enumerate(parts):
        try:
            events[index] = from_openlineage(bytes(part))
        except EventError as error:
            wrong[index] = error.problems
    return events, wrong


class _Members:
    """Reads members of a JSON object, and keeps what is wrong with them. null counts as absent."""

    def __init__(self, form: Mapping[str, object]) -> None:
        self.form = form
        self.problems: list[str] = []

    def wrong(self, problem: str) -> None:
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(problem)
        elif len(self.problems) == _MOST_PROBLEMS:
            self.problems.append("and more")

    def text(self, of: Mapping[str, object], name: str, path: str = "") -> str:
        """A required text; empty if it is wrong."""
        found = of.get(name)
        if isinstance(found, str):
            return found
        self.wrong(
            f"{path}{name} is missing" if found is None else f"{path}{name} is {kind(found)}: give a string"
        )
        return ""

    def inner(self, of: Mapping[str, object], name: str, path: str = "") -> Mapping[str, object]:
        """An object, empty if it is absent."""
        found = of.get(name)
        if found is None:
            return {}
        if not isinstance(found, dict):
            self.wrong(f"{path}{name} is {kind(found)}: give an object")
            return {}
        return found

    def named(self, of: Mapping[str, object], name: str) -> tuple[str, str]:
        """Namespace and name of the job or the dataset that the event is about."""
        found = of.get(name)
        if not isinstance(found, dict):
            self.inner(of, name)
            return "", ""
        names = self.names(found, f"{name}.")
        if found.get("name") == "":
            self.wrong(f"{name}.name is empty")
        return names

    def names(self, of: Mapping[str, object], path: str) -> tuple[str, str]:
        self.facets(of, path)
        return self.text(of, "namespace", path), self.text(of, "name", path)

    def facets(self, of: Mapping[str, object], path: str, name: str = "facets") -> None:
        for facet, found in self.inner(of, name, path).items():
            if found is not None and not isinstance(found, dict):
                self.wrong(f"{path}{name}.{facet[:80]} is {kind(found)}: give an object")

    def datasets(self, name: str) -> Iterator[tuple[str, Mapping[str, object]]]:
        """The datasets in a list, each with its path."""
        found = self.form.get(name)
        if found is not None and not isinstance(found, list):
            self.wrong(f"{name} is {kind(found)}: give a list of datasets")
        for number, each in enumerate(found if isinstance(found, list) else ()):
            path = f"{name}[{number}]"
            if isinstance(each, dict):
                yield f"{path}.", each
            else:
                self.wrong(f"{path} is {kind(each)}: give an object with namespace and name")


def _about(form: Mapping[str, object], read: _Members) -> dict[str, str]:
    """type, source, subject and outputs: of a run if there is one, else of the job or the dataset."""
    has = {name: form.get(name) is not None for name in ("run", "job", "dataset")}
    if has["dataset"] and not has["job"]:
        namespace, name = read.named(form, "dataset")
        return {"type": DATASET, "source": source_of(namespace), "subject": name}
    if has["dataset"] and not has["run"]:
        read.wrong("the event has a job and a dataset: send a job event and a dataset event")
    if not has["job"]:
        read.wrong("job is missing" if has["run"] else "the event has no run, job or dataset")
    type_ = _run(form, read) if has["run"] else JOB
    namespace, name = read.named(form, "job")
    for path, dataset in read.datasets("inputs"):
        read.names(dataset, path)
        read.facets(dataset, path, "inputFacets")
    outputs: dict[str, None] = {}
    measured: dict[str, None] = {}
    for path, dataset in read.datasets("outputs"):
        words = dict.fromkeys([dataset_reference(*read.names(dataset, path)), *_other_names(dataset)])
        outputs |= words
        read.facets(dataset, path, "outputFacets")
        facets = dataset.get("outputFacets")
        if isinstance(facets, dict) and facets.get("outputStatistics") is not None:
            measured |= words
    about = {"type": type_, "source": source_of(namespace), "subject": name}
    for attribute, words in ((OUTPUTS, outputs), (MEASURED, measured)):
        if words:
            about[attribute] = f" {' '.join(words)} "
    if len(about.get(OUTPUTS, "")) > _OUTPUTS_BYTES:
        read.wrong(f"outputs: the names of {len(outputs)} datasets take more than {_OUTPUTS_BYTES} bytes")
    return about


def _run(form: Mapping[str, object], read: _Members) -> str:
    """The type of a run event."""
    run = read.inner(form, "run")
    if isinstance(form.get("run"), dict):
        run_id = read.text(run, "runId", "run.")
        if run_id and _RUN_ID.fullmatch(run_id) is None:
            read.wrong(f"run.runId is {shown(run_id)}: give a UUID")
        read.facets(run, "run.")
    stated = form.get("eventType")
    if stated is None:
        return RUN_TYPES["other"]
    if not isinstance(stated, str) or stated != stated.upper() or stated.lower() not in RUN_TYPES:
        read.wrong(f"eventType is {shown(stated)}: give one of {', '.join(RUN_TYPES).upper()}")
        return ""
    return RUN_TYPES[stated.lower()]


def _other_names(dataset: Mapping[str, object]) -> Iterator[str]:
    """What the facet `symlinks` calls the dataset: a table, where its name is a path. Not checked."""
    value: object = dataset
    for member in ("facets", "symlinks", "identifiers"):
        value = value.get(member) if isinstance(value, dict) else None
    for each in value if isinstance(value, list) else ():
        if isinstance(each, dict):
            namespace, name = each.get("namespace"), each.get("name")
            if isinstance(namespace, str) and isinstance(name, str):
                yield dataset_reference(namespace, name)


def _time(text: str, read: _Members) -> str | None:
    """`eventTime` as RFC 3339. None without a zone: such a text is no moment, though clients send it."""
    stated = text
    if len(text) <= _TIME_CHARS:
        text = _ZONE_NAME.sub("", text)
    if is_timestamp(text):
        return text
    if _DATE_AND_TIME.fullmatch(text) is not None:
        try:
            found = datetime.fromisoformat(text)
            return None if found.tzinfo is None else format_timestamp(found)
        except ValueError:
            pass
    read.wrong(f"eventTime is {shown(stated)}: give ISO 8601 with zone, such as 2026-11-20T06:00:00Z")
    return None
