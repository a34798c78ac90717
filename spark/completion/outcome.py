"""The outcome of work: success, or an error in the form that an event may carry."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Py4J puts whole Java stack traces into its messages; events must stay small.
MESSAGE_LIMIT = 500

# user:password up to the last @ of the word, since a password may contain a slash and a user an @; or a user.
# In a path of Azure Storage the container stands there alone.
_CONTAINER = "".join(f"(?<!{scheme}://)" for scheme in ("abfs", "abfss", "wasb", "wasbs"))
_USER_OF_URL = re.compile(rf"(?<=://)(?:[^/:\s]*:\S*|{_CONTAINER}[^/@\s?#]+)(?=@)")
_USER_OF_ORACLE = re.compile(r"(\bjdbc:oracle:\w+:)(?!@)\S+(?=@)", re.IGNORECASE)  # user/password@host
_LOGIN = re.compile(r"\b(Basic|Bearer)\s+[\w.~+/=-]+", re.IGNORECASE)
# Up to the end of the text if its end is cut off.
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY.*?(?:-----END [A-Z0-9 ]{0,30}PRIVATE KEY-----|\Z)", re.DOTALL
)
_NEVER_SHOWN = "password|passwd|passphrase|pwd|secret"
_KEYWORD = rf"""(?:{_NEVER_SHOWN}|token|credential|signature|\bsig\b
    |(?:api|access|account|private)[_.\-]?key)"""
# Each word is looked at once, from its beginning: an error's text may be one long word.
_NAME = rf"(?<![\w.\-])(?=[\w.\-]*?{_KEYWORD})[\w.\-]++"
_OPTION_NAME = rf"(?<![\w.\-])(?=[\w.]*+-[\w.\-]*?{_KEYWORD})[\w.\-]++"
_SECRET_NAME = rf"(?<![\w.\-])(?=[\w.\-]*?(?:{_NEVER_SHOWN}))[\w.\-]++"
_QUOTED = r"""(?:"(?:[^"\\]|\\.)*(?:"|\Z)|'(?:[^'\\]|\\.)*(?:'|\Z))"""  # the end may be cut off
_BRACED = r"\{(?:[^{}]|\}\})*\}"  # of SQL Server's URLs
_FLAGS = re.IGNORECASE | re.VERBOSE
_VALUE = rf"""(?:{_QUOTED}|{_BRACED}|[^\s,;&"')}}\]]+)"""
# The group stays. The arrow is that of Scala's maps.
_NAMED_SECRETS = (
    re.compile(rf"""({_NAME}["']?\s*(?:[:=]|->)\s*){_VALUE}""", _FLAGS),
    # Arguments of a command line, as text or as a list.
    re.compile(rf"""({_OPTION_NAME}["']?(?:,\s*|[ \t]+)){_VALUE}""", _FLAGS),
    # A pair, as Spark and Python show settings.
    re.compile(rf"""([(\[](?:{_NAME},|["']{_NAME}["'],\s*(?=["']))){_VALUE}(?=[)\]])""", _FLAGS),
    # SQL: OPTIONS (password 'x'), IDENTIFIED BY 'x'.
    re.compile(rf"""((?:{_SECRET_NAME}["']?|\bidentified\s++by)\s++){_QUOTED}""", _FLAGS),
    # An element of XML, or a property of Hadoop's files.
    re.compile(rf"""((?<=<){_NAME}>|(?<=>){_NAME}</name>\s*<value>)[^<]+""", _FLAGS),
)

_NOTEBOOK_EXIT = "NotebookExit"


@dataclass(frozen=True)
class Failure:
    """The error that ended the work.

    name: its class, with the module except for builtins. message: the beginning of its text without secrets:
    the value after a name or option such as `password` or `token`, the user of a URL, and private keys.
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
    """Returns None after a success: no error, sys.exit(), sys.exit(0), or a notebook's own exit.

    Any other error is a failure, also those that are no Exception: KeyboardInterrupt, asyncio's
    CancelledError, and GeneratorExit, which means that the work was not continued to its end.
    """
    if error is None or (isinstance(error, SystemExit) and error.code in (None, 0)):
        return None
    return None if _is_notebook_exit(error) else Failure.of(error)


def _is_notebook_exit(error: BaseException) -> bool:
    """Returns whether this is how `notebook.exit(value)` ends a notebook: with its value, as a success.

    Microsoft's mssparkutils and notebookutils raise a NotebookExit in Python; Databricks' JVM throws
    com.databricks.workflow.NotebookExit. Nothing can import these classes, so their names are compared.
    """
    if type(error).__name__ == _NOTEBOOK_EXIT:
        return True
    thrown = getattr(error, "java_exception", None)  # of py4j's Py4JJavaError
    if thrown is None:
        return False
    try:
        return str(thrown.getClass().getSimpleName()) == _NOTEBOOK_EXIT
    except Exception:  # noqa: BLE001  # the JVM may be gone
        return False


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
    text = _USER_OF_URL.sub("***", _PRIVATE_KEY.sub("***", text))
    text = _LOGIN.sub(r"\1 ***", _USER_OF_ORACLE.sub(r"\1***", text))
    for named in _NAMED_SECRETS:
        text = named.sub(r"\1***", text)
    return text if len(text) <= MESSAGE_LIMIT else text[: MESSAGE_LIMIT - 1] + "…"
