"""How work ended: well, or with which error, as an event may tell it."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Py4J puts whole Java stack traces into its messages; an event is to stay small.
MESSAGE_LIMIT = 500

# Up to the last @ of the word, where there is a colon: a password may hold a slash, and a user an @.
_USER_OF_URL = re.compile(r"(?<=://)(?:[^/:\s]*:\S*|[^/@\s?#]+)(?=@)")
_LOGIN = re.compile(r"\b(Basic|Bearer)\s+[\w.~+/=-]+", re.IGNORECASE)
_NAME = r"""[\w.\-]*(?:password|passwd|passphrase|pwd|secret|token|credential|signature|\bsig\b
    |(?:api|access|account|private)[_.\-]?key)[\w.\-]*"""
_QUOTED = r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
_FLAGS = re.IGNORECASE | re.VERBOSE
_NAMED_SECRET = re.compile(rf"""({_NAME}["']?\s*[:=]\s*)(?:{_QUOTED}|[^\s,;&"')}}\]]+)""", _FLAGS)
# As arguments of a command line, or in the list of them.
_OPTION = re.compile(rf"""(--?{_NAME}["']?(?:,\s*|[ \t]+))(?:{_QUOTED}|[^\s,;&"')}}\]]+)""", _FLAGS)


@dataclass(frozen=True)
class Failure:
    """The error that work ended with.

    name: the class, with its module but for builtins. message: its beginning, without what looks like a
    secret: the value behind a name or option such as `password` or `token`, and the user of a URL.
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
    text = _OPTION.sub(r"\1***", _NAMED_SECRET.sub(r"\1***", text))
    return text if len(text) <= MESSAGE_LIMIT else text[: MESSAGE_LIMIT - 1] + "…"
