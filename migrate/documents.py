"""Reads the resources of a file: YAML or JSON, one or several documents, lists of resources."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from ..events.attributes import kind, shown
from .errors import UnreadableFile

_SPACES: Final = " \t\r\n"
_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"
_MERGE: Final = "tag:yaml.org,2002:merge"
# What Go's reader of YAML, and so Kubernetes, takes for a number or a boolean, and PyYAML for a text.
_NUMBER: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_OCTAL: Final = re.compile(r"[-+]?0[oO][0-7]+\Z")
_LETTER: Final = re.compile(r"[yYnN]\Z")
MAX_CHARS: Final = 4_000_000


@dataclass(frozen=True)
class Resource:
    """One Kubernetes resource. place: where it is in the file, such as "document 2"."""

    place: str
    value: Mapping[str, object]

    @property
    def api_version(self) -> str:
        return _text(self.value.get("apiVersion"))

    @property
    def kind(self) -> str:
        return _text(self.value.get("kind"))

    @property
    def metadata(self) -> Mapping[str, object]:
        """Its metadata; empty if it has none, or something else in its place."""
        found = self.value.get("metadata")
        return found if isinstance(found, Mapping) else {}

    @property
    def name(self) -> str:
        return _text(self.metadata.get("name"))

    @property
    def namespace(self) -> str:
        return _text(self.metadata.get("namespace"))

    def __str__(self) -> str:
        owner = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {owner}{self.name or f'without a name ({self.place})'}"


def read_resources(text: str) -> list[Resource]:
    """Returns the resources of a text in their order; the items of a List are resources.

    Raises UnreadableFile if the text is neither YAML nor JSON, has a member twice in an object, or a value
    that cannot be read, or holds something that is no resource.
    """
    if len(text) > MAX_CHARS:
        raise UnreadableFile(f"it has {len(text)} characters: at most {MAX_CHARS}. Split it")
    try:
        found = list(_documents(text))
        resources = [each for number, value in enumerate(found, 1) for each in _resources(value, number)]
    except RecursionError:
        raise UnreadableFile("it is nested too deeply") from None
    except UnreadableFile:
        raise
    except ValueError as error:  # of a number, such as `!!int ten` in YAML or one with 5,000 digits
        raise UnreadableFile(f"it has a value that cannot be read: {error}") from None
    if not resources:
        raise UnreadableFile("it holds no resource")
    return resources


def _documents(text: str) -> Iterator[object]:
    if text.lstrip(_SPACES)[:1] in ("{", "["):
        try:
            yield from list(_json(text))
            return
        except json.JSONDecodeError:
            pass  # YAML has braces too
    try:
        yield from yaml.load_all(text, _Loader)  # derives from SafeLoader
    except yaml.YAMLError as error:
        raise UnreadableFile(f"it is neither YAML nor JSON: {' '.join(str(error).split())}") from None


def _json(text: str) -> Iterator[object]:
    decoder, position = json.JSONDecoder(object_pairs_hook=_object), 0
    while position < len(text):
        if text[position] in _SPACES:
            position += 1
            continue
        value, position = decoder.raw_decode(text, position)
        yield value


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    if len(found) < len(members):
        names = [name for name, _ in members]
        raise UnreadableFile(f"an object has the member {shown(_twice(names))} twice")
    return found


def _twice(names: list[str]) -> str:
    return next(name for number, name in enumerate(names) if name in names[:number])


class _WithoutColons:
    """A pattern of YAML's that does not match a text with a colon: 10:30 is no number to Kubernetes."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern

    def match(self, text: str) -> re.Match[str] | None:
        return None if ":" in text else self._pattern.match(text)


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    """YAML as Kubernetes reads it: times and 10:30 are texts, 1e3 and 09 numbers, y is true; no key twice."""

    bool_values = {**yaml.SafeLoader.bool_values, "y": True, "n": False}  # noqa: RUF012  # as below
    yaml_implicit_resolvers = {  # noqa: RUF012  # as the class above declares it
        first: [(tag, _WithoutColons(pattern)) for tag, pattern in resolvers if tag != _TIMESTAMP]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys: list[Hashable] = []
        for each, _ in node.value:
            if each.tag == _MERGE:
                continue
            key = self.construct_object(each, deep=True)
            if not isinstance(key, str):
                written = shown(each.value if isinstance(each, yaml.ScalarNode) else key)
                raise yaml.constructor.ConstructorError(
                    problem=f"a key is {kind(key)} to Kubernetes: write it in quotes, {written}",
                    problem_mark=each.start_mark,
                )
            if key in keys:
                raise yaml.constructor.ConstructorError(
                    problem=f"the key {shown(key)} is there twice", problem_mark=each.start_mark
                )
            keys.append(key)
        found: dict[Hashable, Any] = super().construct_mapping(node, deep=deep)
        return found


_Loader.add_implicit_resolver("tag:yaml.org,2002:int", _OCTAL, list("-+0"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBER, list("-+.0123456789"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", _LETTER, list("yYnN"))


def _resources(value: object, number: int) -> Iterator[Resource]:
    place = f"document {number}"
    if value is None:  # between two ---
        return
    for each, where in _items(value, place):
        if not isinstance(each, Mapping):
            raise UnreadableFile(f"{where} is {kind(each)}: it must be a resource, an object with a kind")
        resource = Resource(where, each)
        if not resource.kind or not resource.api_version:
            raise UnreadableFile(
                f"{where} has no kind or no apiVersion, so it is not a resource of Kubernetes"
            )
        yield resource


def _items(value: object, place: str) -> Iterator[tuple[object, str]]:
    if isinstance(value, list):
        yield from ((each, f"{place}, item {number}") for number, each in enumerate(value, 1))
    elif isinstance(value, Mapping) and str(value.get("kind")).endswith("List") and "items" in value:
        items = value["items"]
        if not isinstance(items, list):
            raise UnreadableFile(f"{place}: items is {kind(items)}: it must be a list")
        yield from ((each, f"{place}, item {number}") for number, each in enumerate(items, 1))
    else:
        yield value, place


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
