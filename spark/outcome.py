"""How work ended: well, or with which error, as an event may tell it."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Py4J puts whole Java stack traces into its messages; an event is to stay small.
MESSAGE_LIMIT = 500

# Up to the last @ of the word: a password may hold a slash.
_USER_OF_URL = re.compile(r"(?<=://)[^/:@\s]+:\S*(?=@)")
_LOGIN = re.compile(r"\b(Basic|Bearer)\s+[\w.~+/=-]+", re.IGNORECASE)
_NAMED_SECRET = re.compile(
    r"""([\w.\-]*(?:password|passwd|pwd|secret|token|api[_\-]?key|access[_\-]?key|credential)[\w.\-]*
        ["']?\s*[:=]\s*)(?:"[^"]*"|'[^']*'|[^\s,;&"')}\]]+)""",
    re.IGNORECASE | re.VERBOSE,
)


@dataclass(frozen=True)
class Failure:
    """The error that work ended with.

    name: the class, with its module but for builtins. message: its beginning, without what looks like a
    secret: the value behind a name such as `password` or `token`, and the user of a URL.
    """

    name: str
    message: str

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        kind = type(error)
        name = (
            kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        )
        return cls(name, redacted(str(error)))

    def to_data(self) -> dict[str, str]:
        return {"class": self.name, "message": self.message}


def failure_of(error: BaseException | None) -> Failure | None:
    """None where the work ended well: without an error, or by sys.exit() or sys.exit(0)."""
    if error is None or (isinstance(error, SystemExit) and error.code in (None, 0)):
        return None
    return Failure.of(error)


def redacted(message: str) -> str:
    """The message, fit for an event: secrets blotted out, and shortened."""
    # Cut first, generously: a message may hold megabytes of a plan, and patterns cost by the character.
    text = message[: 8 * MESSAGE_LIMIT]
    text = _LOGIN.sub(r"\1 ***", _USER_OF_URL.sub("***", text))
    text = _NAMED_SECRET.sub(r"\1***", text)
    return text if len(text) <= MESSAGE_LIMIT else text[: MESSAGE_LIMIT - 1] + "…"
