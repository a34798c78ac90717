"""Checks of what a job gives to `completion_event`: a mistake is an error before any work."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Mapping
from typing import get_args

from ...events.attributes import REQUIRED, find_problems, kind, shown
from ...events.content import serialize
from ...events.errors import EventError
from ..settings import RESERVED, CompletionError
from .tracker import Until

# Valid attributes, with which an event is made to check a subject.
_VALID = {**dict.fromkeys(REQUIRED, "x"), "specversion": "1.0"}


class UserData(UserDict[str, object]):
    """The user's members of an event's data. Raises CompletionError for a reserved key, or one not text."""

    def __setitem__(self, key: str, item: object) -> None:
        if not isinstance(key, str):
            raise CompletionError(f"{shown(key)} in a completion event's data is not a text: give names")
        if key in RESERVED:
            raise CompletionError(
                f"{key!r} in a completion event's data is reserved for Interlock; choose another key"
            )
        super().__setitem__(key, item)


def check_session(call: str, spark: object) -> None:
    """Raises CompletionError unless `spark` is a session, classic or Spark Connect; a SparkContext is not."""
    if not hasattr(type(spark), "conf"):  # looked up on the class: on a session it would call Spark
        raise CompletionError(f"{call}: spark is {shown(spark)}; give a SparkSession")


def check_name(call: str, name: object) -> None:
    """Raises CompletionError for a name that cannot be an event's subject."""
    if name == "":
        raise CompletionError(f"{call}: a completion event needs a name: it becomes the event's subject")
    if not isinstance(name, str):
        raise CompletionError(f"{call}: name is {shown(name)}; give a text, the event's subject")
    if problems := find_problems({**_VALID, "subject": name}):
        raise CompletionError(f"{call}: name cannot be the event's subject: {problems[0]}")


def check_outcome(call: str, required: object, until: object) -> None:
    """Raises CompletionError for wrong arguments about the outcome."""
    if not isinstance(required, bool):
        raise CompletionError(f"{call}: required is {shown(required)}; give True or False")
    if until is not None and not (isinstance(until, str) and until in get_args(Until)):
        raise CompletionError(f'{call}: until={shown(until)}: give "exit" or "block"')


def checked_data(call: str, data: object) -> UserData:
    """Returns the user's members. Raises CompletionError for a wrong name, EventError if not JSON."""
    if data is None:
        return UserData()
    if not isinstance(data, Mapping):
        raise CompletionError(f"{call}: data is {kind(data)}; give a dict of names to JSON values")
    made = UserData(data)
    try:
        serialize(made.data, None)
    except EventError as e:
        raise EventError(f"{call}: {e}") from None
    return made
