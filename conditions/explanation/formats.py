"""What bytes look like that are not JSON: the name of a format, never their content."""

from __future__ import annotations

import ast
import base64
import binascii
import json
import re
from math import inf
from typing import Final
from urllib.parse import unquote

from ...events import content
from ...events.errors import EventError

_DEEP: Final = "JSON that is nested too deeply"
_MAX_LITERAL_CHARS: Final = 64 * 1024  # of a text that is tried as a Python literal
# How data of a known format begin.
_MAGIC: Final = (
    (b"Obj\x01", "an Avro file"),
    (b"\xc3\x01", "Avro's single-object encoding"),
    (b"\x03\x00", "the format of AWS Glue's schema registry"),
    (b"\x03\x05", "the format of AWS Glue's schema registry, compressed"),
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "Zstandard"),
    (b"\x04\x22\x4d\x18", "LZ4"),
    (b"\x82SNAPPY\x00", "Snappy"),
    (b"\xff\x06\x00\x00sNaPpY", "Snappy"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"PK\x03\x04", "a zip file"),
    (b"PAR1", "a Parquet file"),
    (b"ORC", "an ORC file"),
    (b"ARROW1", "an Arrow file"),
    (b"%PDF-", "a PDF file"),
    (b"\xac\xed\x00\x05", "a Java object"),
    (b"\x89PNG", "an image"),
    (b"\xff\xd8\xff", "an image"),
    *((bytes((0x80, protocol)), "a Python pickle") for protocol in range(2, 6)),
)
_BYTE_ORDER_MARKS: Final = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
# The longest that can be left of a value that is cut off, and is an error by itself: \ud83d\ud.
_MAX_CUT_CHARS: Final = 12
_CLOSING: Final = {"{": "}", "[": "]", '"': '"'}
_SURROGATE = re.compile("[\ud800-\udfff]")
_FORM = re.compile(r"[^=&\s{}<>]+=[^=&\s]*(?:&[^=&\s]+=[^=&\s]*)*")
_YAML = re.compile(r"(?:---\s*\n|[A-Za-z_][\w.-]*:(?:[ \t]+\S.*)?\n)")


def looks_like(data: bytes) -> str | None:
    """The format of bytes that are not JSON, or not declared as JSON, by their look; None if unknown."""
    if not data:
        return "nothing (0 bytes)"
    return _marked(data) or _of_registry(data) or _of_magic(data) or _of_text(data)


def _marked(data: bytes) -> str | None:
    """Text with a byte order mark, or in UTF-16 without one."""
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            text = data[len(mark) :].decode(encoding, "replace")
            what = "JSON" if json_kind(text) else "text"
            return f"{what} after a byte order mark ({encoding.upper()})"
    for encoding in ("utf-16-le", "utf-16-be"):
        if len(data) > 3 and data[:4].count(0) == 2 and json_kind(data.decode(encoding, "replace")):
            return f"JSON in {encoding.upper()}"
    return None


def _of_registry(data: bytes) -> str | None:
    if len(data) < 5 or data[0]:
        return None
    start = f"a zero byte and schema id {int.from_bytes(data[1:5])}"
    if json_kind(data[5:].decode("utf-8", "replace")):
        return f"JSON after the prefix of a schema registry ({start})"
    return f"the format of a schema registry ({start}), such as Avro or Protobuf"


def _of_magic(data: bytes) -> str | None:
    return next((name for magic, name in _MAGIC if data.startswith(magic)), None)


def _of_text(data: bytes) -> str | None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        if json_kind(data.decode("latin-1")):
            return "JSON in another encoding than UTF-8, such as Latin-1"
        return "bytes of an unknown format"
    bare = text.strip()
    if not bare:
        return "spaces only"
    if bare[0] == "<":
        return "XML or HTML"
    return _nearly_json(bare) or _encoded(bare) or _of_other_text(bare)


def _nearly_json(text: str) -> str | None:
    """JSON, or how the text differs from it."""
    constants: list[str] = []
    numbers: list[float] = []

    def noted(number: str) -> float:
        numbers.append(float(number))
        return numbers[-1]

    decoder = json.JSONDecoder(
        parse_constant=lambda name: constants.append(name),
        parse_float=noted,
        parse_int=noted,  # int() refuses more than 4,300 digits
        strict=False,
    )
    try:
        value, end = decoder.raw_decode(text)
    except (ValueError, RecursionError) as error:
        return _broken_json(text, error)
    if text[end:].strip():
        lines = text.splitlines()
        if len(lines) > 1 and all(json_kind(line) for line in lines if line.strip()):
            return "several JSON values, one on each line (JSON Lines)"
        return "JSON followed by other text" if text[0] in '{["' else None
    if constants:
        return f"JSON with {' and '.join(sorted(set(constants)))}, which JSON does not have"
    if isinstance(value, str) and (inside := json_kind(value)):
        return f"JSON that was encoded twice: a text that holds {inside}"
    if _is_valid(text):
        return f"JSON, {kind_of(value)}"
    if content.is_deep(text.encode("utf-8", "surrogatepass")):
        return _DEEP
    if inf in map(abs, numbers):
        return "JSON with a number that is too large to be read"
    if _SURROGATE.search(json.dumps(value, ensure_ascii=False)):
        return "JSON with half a surrogate pair, which is no character"
    return "JSON with a character that must be escaped"


def _is_valid(text: str) -> bool:
    try:
        content.parse_json(text.encode("utf-8", "surrogatepass"))
    except EventError:
        return False
    return True


def _broken_json(text: str, error: Exception) -> str | None:
    if text[0] not in '{["':
        return None
    if isinstance(error, RecursionError):
        return _DEEP
    if _is_python(text):
        return "Python's text of a value (single quotes, None, True), not JSON"
    left = len(text) - error.pos if isinstance(error, json.JSONDecodeError) else len(text)
    cut = left <= _MAX_CUT_CHARS and not text.endswith(_CLOSING[text[0]])
    if not left or cut or "Unterminated" in str(error):
        return "JSON that is cut off at its end"
    return "JSON with a mistake, such as a comment, a comma too many or single quotes"


def _is_python(text: str) -> bool:
    if len(text) > _MAX_LITERAL_CHARS or not re.search(r"'|\b(?:None|True|False)\b", text):
        return False
    try:
        return isinstance(ast.literal_eval(text), (dict, list))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return False


def _encoded(text: str) -> str | None:
    """JSON in base64, in hexadecimal or with percent escapes."""
    if re.fullmatch(r"[A-Za-z0-9+/_-]{8,}={0,2}", text):
        try:
            decoded = base64.urlsafe_b64decode(
                text.replace("+", "-").replace("/", "_") + "=" * (-len(text) % 4)
            )
        except (binascii.Error, ValueError):
            decoded = b""
        if _is_object(decoded.decode("utf-8", "replace")):
            return "JSON in base64"
        if re.fullmatch(r"(?:[0-9a-fA-F]{2})+", text) and _is_object(
            bytes.fromhex(text).decode("utf-8", "replace")
        ):
            return "JSON in hexadecimal"
    if "%" in text and _is_object(unquote(text)):
        return "JSON with percent escapes"
    return None


def _of_other_text(text: str) -> str:
    if _FORM.fullmatch(text):
        return "form fields (a=1&b=2)"
    if _YAML.match(text):
        return "YAML"
    first, _, rest = text.partition("\n")
    commas = first.count(",")
    if commas and rest and rest.splitlines()[0].count(",") == commas:
        return "CSV"
    return "text"


def _is_object(text: str) -> bool:
    return json_kind(text) in ("an object", "a list")


def json_kind(text: str) -> str | None:
    """Which JSON a text holds: "an object" or "a list"; None if it holds neither."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return kind_of(content.parse_json(text.encode("utf-8", "surrogatepass")))
    except EventError:
        return None


def kind_of(value: object) -> str:
    """What a JSON value is."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else "a boolean"
    kinds: tuple[tuple[type | tuple[type, ...], str], ...] = (
        (str, "a text"),
        ((int, float), "a number"),
        (list, "a list"),
        (dict, "an object"),
    )
    return next((name for kinds_, name in kinds if isinstance(value, kinds_)), type(value).__name__)
