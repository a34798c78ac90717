"""Which charsets the content type of an event may choose: a fixed list, because it is the sender's text."""

from __future__ import annotations

import codecs
import encodings.aliases

import pytest
from interlock.events import EventError, content

KNOWN = sorted(
    {*encodings.aliases.aliases, *encodings.aliases.aliases.values(), "idna", "undefined", "mbcs", "punycode"}
)
# Codecs of which each byte is read once.
LINEAR = {
    "utf-8", "ascii", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "koi8-r",
    "koi8-u", "shift_jis", "euc_jp", "euc_kr", "big5", "gb2312", "gbk", "gb18030",
    "cp874", *(f"cp{page}" for page in range(1250, 1259)), *(f"iso8859-{part}" for part in range(1, 17)),
}  # fmt: skip


def used_by(text: str) -> str | None:
    """The codec of this charset; None if the charset is refused."""
    try:
        content.parse(b"", f"text/plain; charset={text}")
    except EventError:
        return None
    return codecs.lookup(content._codec(f"text/plain; charset={text}")).name


@pytest.mark.parametrize("name", KNOWN)
def test_no_charset_chooses_a_codec_that_is_not_listed(name: str) -> None:
    """`charset=punycode` or `idna` took 0.7 s for 64 kB (an attacker's content type)."""
    for spelled in (name, name.upper(), name.replace("_", "-"), f'"{name}"'):
        assert used_by(spelled) in LINEAR | {None}


@pytest.mark.parametrize(
    "name",
    [
        "punycode",
        "idna",
        "utf-7",
        "unicode_escape",
        "raw_unicode_escape",
        "rot13",
        "hex",
        "zip",
        "aliases",
        "x",
    ],
)
def test_these_are_refused_in_both_directions(name: str) -> None:
    for act in (lambda kind: content.parse(b"a-", kind), lambda kind: content.serialize("a-", kind)):
        with pytest.raises(EventError, match=f"the charset '{name}' is not supported; send UTF-8"):
            act(f"text/plain; charset={name}")


@pytest.mark.parametrize(
    ("charset", "text"),
    [
        ("UTF-8", "ü"), ("utf8", "ü"), ("us-ascii", "u"), ("latin-1", "ü"), ("ISO-8859-1", "ü"),
        ("iso-8859-15", "€"), ("iso-8859-5", "Ж"), ("windows-1252", "€"), ("cp1251", "Ж"), ("koi8-r", "Ж"),
        ("utf-16", "東"), ("utf-16le", "東"), ("Shift_JIS", "東"), ("euc-jp", "東"), ("euc-kr", "가"),
        ("Big5", "東"), ("GB18030", "東"),
    ],
)  # fmt: skip
def test_text_in_a_listed_charset_is_read_as_it_was_written(charset: str, text: str) -> None:
    kind = f"text/csv; header=present; charset={charset}"
    assert content.parse(content.serialize(text, kind), kind) == text
