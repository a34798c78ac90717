"""Whether outcomes of several parts of an expression exclude each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, product
from typing import Final, TypeVar

from ....events.attributes import CORE, REQUIRED, SPECVERSION
from .bounds import bounds, inner_texts
from .facts import Facts
from .like import MANY, Tokens, covers, overlap
from .terms import Number, Text, cast_error_of, could_be
from .values import CASTS, INTEGER_MAX, Kind, Value, as_typed
from .written import written

MAX_TEXTS: Final = 64  # texts of an attribute, or combinations of several attributes' texts, to try
_SPECVERSION: Final = frozenset({SPECVERSION})

T = TypeVar("T")


def contradict(together: Sequence[Facts]) -> bool:
    """Whether no event has all of these outcomes; False if in doubt."""
    claims = dict(each.claim for each in together)
    if any(claims[text] is not outcome for text, outcome in (each.claim for each in together)):
        return True
    reads, missing, casts, fails = set(REQUIRED), set[str](), set[tuple[str, Kind]](), set[tuple[str, Kind]]()
    for each in together:
        reads |= each.reads
        missing |= each.missing
        casts |= each.casts
        fails |= each.fails
    if reads & missing or casts & fails:
        return True
    less = {each.less for each in together if each.less is not None}
    if any((other, one) in less for one, other in less):
        return True
    numbers = _numbers(number for each in together for number in each.numbers)
    if any(map(_is_empty, numbers.values())):
        return True
    texts = _texts(text for each in together for text in each.texts)
    if any(_exclude(text, numbers, casts) for text in texts.values()):
        return True
    return _exclude_values(texts.values(), together)


def _numbers(found: Iterable[Number]) -> dict[str, Number]:
    joined: dict[str, Number] = {}
    for each in found:
        key = written(each.term)
        known = joined.get(key) or Number(each.term, *bounds(each.term))
        joined[key] = Number(
            each.term,
            max(known.low, each.low),
            min(known.high, each.high),
            _both(known.allowed, each.allowed),
            known.excluded | each.excluded,
        )
    return joined


def _texts(found: Iterable[Text]) -> dict[str, Text]:
    joined: dict[str, Text] = {}
    for each in found:
        key = written(each.term)
        known = joined.get(key) or Text(each.term, _SPECVERSION if key == "specversion" else None)
        joined[key] = Text(
            each.term,
            _both(known.allowed, each.allowed),
            known.excluded | each.excluded,
            known.like + each.like,
            known.unlike + each.unlike,
        )
    return joined


def _both(one: frozenset[T] | None, other: frozenset[T] | None) -> frozenset[T] | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _is_empty(number: Number) -> bool:
    if number.allowed is not None:
        return not any(number.low <= each <= number.high for each in number.allowed - number.excluded)
    if number.high - number.low >= len(number.excluded):
        return number.low > number.high
    return set(range(number.low, number.high + 1)) <= number.excluded


def _exclude(text: Text, numbers: Mapping[str, Number], casts: set[tuple[str, Kind]]) -> bool:
    """Whether no text meets all that is said about the term: its text, its length, its Integer."""
    key = written(text.term)
    terms = list(inner_texts(text.term))
    kinds: set[Kind] = {kind for kind in (int, bool) for term in terms if (written(term), kind) in casts}
    untyped = any(term.untyped for term in terms)
    number, length = numbers.get(key), numbers.get(f"LENGTH({key})")
    if text.allowed is not None:
        is_derived = text.term.form != "attribute"
        return not any(
            (length is None or _contains(length, len(each)))
            and (not is_derived or _casts(each, kinds, number, untyped=untyped))
            for each in _remaining(text)
        )
    if any(not _could_cast(pattern, kind, untyped=untyped) for pattern in text.like for kind in kinds):
        return True
    if length is not None and any(not _contains_length(length, pattern) for pattern in text.like):
        return True
    if any(covers(wide, narrow) for wide in text.unlike for narrow in text.like):
        return True
    return any(not overlap(one, other) for at, one in enumerate(text.like) for other in text.like[at + 1 :])


def _remaining(text: Text) -> list[str]:
    """The allowed texts without those that are excluded or do not match the patterns."""
    return [
        each
        for each in (text.allowed or frozenset()) - text.excluded
        if could_be(text.term, each)
        and all(overlap(pattern, tuple(each)) for pattern in text.like)
        and not any(covers(pattern, tuple(each)) for pattern in text.unlike)
    ]


def _contains(number: Number, value: int) -> bool:
    return not _is_empty(Number(number.term, value, value, number.allowed, number.excluded)) and (
        number.low <= value <= number.high
    )


def _contains_length(number: Number, pattern: Tokens) -> bool:
    least = sum(each != MANY for each in pattern)
    most = INTEGER_MAX if MANY in pattern else least
    low, high = max(least, number.low), min(most, number.high)
    return not _is_empty(Number(number.term, low, high, number.allowed, number.excluded))


def _casts(text: str, kinds: set[Kind], number: Number | None, *, untyped: bool) -> bool:
    """Whether the text, in any letter case, can be cast to these types, and to an allowed Integer."""
    is_boolean, is_integer = text.lower() in ("true", "false"), cast_error_of(text) is None
    if untyped:
        return not kinds or is_boolean or is_integer
    if (bool in kinds and not is_boolean) or (int in kinds and not is_integer):
        return False
    return number is None or not is_integer or _contains(number, int(CASTS[int](text)))


def _could_cast(pattern: Tokens, kind: Kind, *, untyped: bool) -> bool:
    """Whether a text that matches the pattern can be cast."""
    if (kind is int or untyped) and all(
        each is None or each == MANY or each in "+-0123456789" for each in pattern
    ):
        return True
    if kind is int and not untyped:
        return False
    lower = tuple(each if each is None else each.lower() for each in pattern)
    return any(overlap(lower, tuple(word)) for word in ("true", "false"))


def _exclude_values(texts: Iterable[Text], together: Sequence[Facts]) -> bool:
    """Whether a part cannot have its outcome, whichever of their possible texts the attributes have."""
    known: dict[str, list[Value]] = {}
    for text in texts:
        name = text.term.attribute
        if name is None or text.term.form != "attribute" or text.allowed is None:
            continue
        if len(text.allowed) > MAX_TEXTS:
            continue
        own = [each for each in together if each.names == {name}]
        known[name] = [
            value
            for each in _remaining(text)
            for value in _values(name, each)
            if all(part.gives({name: value}) for part in own)
        ]
        if not known[name]:
            return True
    return any(
        not _can_give(each, known) for each in together if len(each.names) > 1 and each.names <= known.keys()
    )


def _can_give(found: Facts, known: Mapping[str, Sequence[Value]]) -> bool:
    names = sorted(found.names)
    choices = list(islice(product(*(known[name] for name in names)), MAX_TEXTS + 1))
    return len(choices) > MAX_TEXTS or any(
        found.gives(dict(zip(names, values, strict=True))) for values in choices
    )


def _values(name: str, text: str) -> set[Value]:
    """What an attribute with this text may be, also for a caller that knows the types."""
    return {text} if name in CORE else {text, as_typed(text)}
