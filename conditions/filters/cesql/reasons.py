"""Why no event has a term with the wanted number or text, and what to write instead."""

from __future__ import annotations

from .bounds import Range, bounds, text_bounds
from .like import MANY, Tokens, covers
from .nodes import Node
from .terms import Number, Text, cast_error_of, could_be
from .written import literal, written


def reason(number_or_text: Number | Text) -> str | None:
    """The reason; None if some event may have such a term."""
    if isinstance(number_or_text, Number):
        return _of_number(number_or_text, bounds(number_or_text.term))
    return _of_text(number_or_text)


def _of_number(number: Number, possible: Range) -> str | None:
    (low, high), term = possible, written(number.term)
    if low > high:
        return f"{term} is never an Integer: compare it with a text"
    if number.high < low or (number.allowed and max(number.allowed) < low):
        return f"{term} is never below {low}: compare it with a greater number"
    if number.low > high or (number.allowed and min(number.allowed) > high):
        return f"{term} is never above {high}: compare it with a smaller number"
    if number.allowed is not None and not any(low <= each <= high for each in number.allowed):
        return f"{term} is from {low} to {high}: compare it with a number in this range"
    if high - low < len(number.excluded) and set(range(low, high + 1)) <= number.excluded:
        return f"{term} is always {' or '.join(map(str, range(low, high + 1)))}: leave this part out"
    return None


def _of_text(text: Text) -> str | None:
    term, known = text.term, text_bounds(text.term)
    for pattern in text.unlike:
        if covers(pattern, (*known.begins, MANY)) or covers(pattern, (MANY, *known.ends)):
            return f"{written(term)} is always LIKE {_shown(pattern)}: write another pattern"
    for pattern in text.like:
        why = known.refuses(pattern)
        if why is not None:
            other = _instead(term, pattern)
            return f"{written(term)} is never LIKE {_shown(pattern)}, because {why}: write {other}"
    if text.allowed is None or any(could_be(term, each) for each in text.allowed):
        return None
    if not text.allowed:
        return f"{written(term)} is none of the values: write other values"
    value = min(text.allowed)
    never = f"{written(term)} is never {literal(value)}"
    if term.form == "attribute":
        return f"{never}, because an event with it is not valid: write another value"
    why = known.refuses(tuple(value))
    for other in (value.upper(), value.lower(), value.strip()):
        if known.kind is None and could_be(term, other):
            return f"{never}, because {why}: write {written(term)} = {literal(other)}"
    if known.kind is bool:
        return f"{never}, because {why}: write TRUE or FALSE"
    if known.kind is int:
        example = int(value) if cast_error_of(value) is None else 1
        return f"{never}, because {why}: write a number, as in {written(term)} = {example}"
    return f"{never}, because {why}: write another text"


def _instead(term: Node, pattern: Tokens) -> str:
    for change in (str.upper, str.lower):
        other = tuple(each if each is None else change(each) for each in pattern)
        if text_bounds(term).kind is None and not text_bounds(term).refuses(other):
            return f"LIKE {_shown(other)}"
    return "another pattern"


def _shown(pattern: Tokens) -> str:
    signs = {None: "_", MANY: "%", "_": "\\_", "%": "\\%"}
    return literal("".join(signs.get(each) or str(each) for each in pattern))
