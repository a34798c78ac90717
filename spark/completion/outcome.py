"""The outcome of work: success, or an error in the form that an event may carry."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Py4J puts whole Java stack traces into its messages; events must stay small.
MESSAGE_LIMIT = 500

# user:password up to the last @ of the word, since a password may contain a slash and a user an @; or a user.
_USER_OF_URL = re.compile(r"(?<=://)(?:[^/:\s]*:\S*|[^/@\s?#]+)(?=@)")
_LOGIN = re.compile(r"\b(Basic|Bearer)\s+[\w.~+/=-]+", re.IGNORECASE)
_KEYWORD = r"""(?:password|passwd|passphrase|pwd|secret|token|credential|signature|\bsig\b
    |(?:api|access|account|private)[_.\-]?key)"""
# Each word is looked at once, from its beginning: an error's text may be one long word.
_NAME = rf"(?<![\w.\-])(?=[\w.\-]*?{_KEYWORD})[\w.\-]++"
_OPTION_NAME = rf"(?<![\w.\-])(?=[\w.]*+-[\w.\-]*?{_KEYWORD})[\w.\-]++"
_QUOTED = r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
_FLAGS = re.IGNORECASE | re.VERBOSE
_NAMED_SECRET = re.compile(rf"""({_NAME}["']?\s*[:=]\s*)(?:{_QUOTED}|[^\s,;&"')}}\]]+)""", _FLAGS)
# Arguments of a command line, as text or as a list.
_OPTION = re.compile(rf"""({_OPTION_NAME}["']?(?:,\s*|[ \t]+))(?:{_QUOTED}|[^\s,;&"')}}\]]+)""", _FLAGS)


@dataclass(frozen=True)
class Failure:
    """The error that ended the work.

    name: its class, with the module except for builtins. message: the beginning of its text without secrets:
    the value after a name or option such as `password` or `token`, and the user of a URL.
    """

    name: str
    message: str

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        kind = type(error)
        name = (
            kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        )
        return cls(name, text_of(error))

    def to_data(self) -> dict[str, str]:
        return {"class": self.name, "message": self.message}


def failure_of(error: BaseException | None) -> Failure | None:
    """Returns None after a success: no error, sys.exit() or sys.exit(0)."""
    if error is None or (isinstance(error, SystemExit) and error.code in (None, 0)):
        return None
    return Failure.of(error)


def text_of(error: BaseException) -> str:
    """The error's text, `redacted`."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  # an error of py4j asks the JVM for its text, and the JVM may be gone
        return "(its text cannot be read)"
    return redacted(text)


def redacted(message: str) -> str:
    """The message with secrets replaced by ***, shortened to MESSAGE_LIMIT; ? for what UTF-8 cannot have."""
    # Cut before matching, generously: a message may contain megabytes of a plan, and patterns are slow.
    text = message[: 8 * MESSAGE_LIMIT].encode("utf-8", "replace").decode()
    text = _LOGIN.sub(r"\1 ***", _USER_OF_URL.sub("***", text))
    text = _OPTION.sub(r"\1***", _NAMED_SECRET.sub(r"\1***", text))
    return text if len(text) <= MESSAGE_LIMIT else text[: MESSAGE_LIMIT - 1] + "…"
