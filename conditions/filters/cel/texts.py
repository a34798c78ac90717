"""Where the texts and comments in the source of a CEL expression are."""

from __future__ import annotations

import re
from typing import Final

# In a raw text (r"...") a backslash is a letter, so a quote after it ends the text.
# A text that is not closed reaches to the end of its line or of the source: no search starts inside it.
TEXT: Final = r"""
    (?<![A-Za-z0-9_]) (?: [rR][bB]? | [bB][rR] )
        (?: \"{3} .*? (?: \"{3} | \Z ) | '{3} .*? (?: '{3} | \Z ) | "[^"\n]* "? | '[^'\n]* '? )
    | (?: (?<![A-Za-z0-9_]) [bB] )?
        (?: \"{3} (?: \\. | [^\\] )*? (?: \"{3} | \Z ) | '{3} (?: \\. | [^\\] )*? (?: '{3} | \Z )
          | "(?: \\. | [^"\\\n] )* "? | '(?: \\. | [^'\\\n] )* '? )
"""
COMMENT: Final = r"// [^\n]*"
TEXTS: Final = re.compile(f"{TEXT} | {COMMENT}", re.VERBOSE | re.DOTALL)


def outside_texts(pattern: str) -> re.Pattern[str]:
    """A pattern in verbose form that is searched outside of texts and comments only.

    Texts and comments match too, but set no group.
    """
    return re.compile(f"{TEXT} | {COMMENT} | {pattern}", re.VERBOSE | re.DOTALL)


def sizes(source: str) -> tuple[int, int]:
    """How many characters are outside of texts, and inside of them."""
    inside = sum(len(found[0]) for found in TEXTS.finditer(source) if not found[0].startswith("//"))
    return len(source) - inside, inside


def for_library(source: str) -> str:
    """The source with other quotes for raw texts that end with a backslash, which the library cannot read."""
    if "\\" not in source:
        return source
    return TEXTS.sub(lambda found: _RAW.sub(_escaped, found[0]), source)


_RAW: Final = re.compile(r"""\A([rR][bB]?|[bB][rR])(\"{3}|'{3}|"|')(.*\\)\2\Z""", re.DOTALL)


def _escaped(found: re.Match[str]) -> str:
    prefix, quote, text = found.groups()
    return ("b" if "b" in prefix.lower() else "") + quote + text.replace("\\", "\\\\") + quote
