"""Hostile inputs for everything that reads what others have written."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from interlock.conditions import (
    AllOf,
    Condition,
    ConditionError,
    State,
    canonical_key,
    event,
    from_json,
    parse,
)
from interlock.conditions.filters import Sql, Where, filter_from_json
from interlock.conditions.nodes.calendar import Periods
from interlock.conditions.nodes.duration import duration_ms

FIXTURES = Path(__file__).parent / "fixtures"
FORMS = json.loads((FIXTURES / "conditions.json").read_text("utf-8"))
FORMS = [entry for version in FORMS.values() for entry in version]
STATES = json.loads((FIXTURES / "states.json").read_text("utf-8"))
NAMES: dict[str, Condition] = {f"n{number}": event(f"t{number}") for number in range(256)}

LONGEST = 70_000
MOST_BYTES = 1_048_576  # of a Kafka record, by default
WORDS = (
    *("event", "(", ")", "[", "]", "{", "}", ",", ":", "=", ".", "&", "|", "&&", "||"),
    *("~", "!", "'", '"', "\\", "n1", "n2", "n-3", "4", "1.5", "'a'", '"b"', "True"),
    *("type=", "by=", "where='true'", "filters=", "label='l'"),
    *("at_least(2,", "count(", "sequence(", "absent(", ".within('1h')", ".within(hours=", ".quiet('5m')"),
    *(".resets('0 0 * * *')", ".expires(after='2h')", ".ordered()", ".keep('all')", "Exact(", "Any(", "Not("),
    *("all_of(", "daily(", "burst(", "debounce(", "heartbeat(", "armed_by='event'", ", '1h')", "2h"),
    *("Sql('a = 1')", "Prefix(subject='a')", "{'any': [", "ordered=False"),
    *" \n\x00\u00e9\U0001f600",
)
CRONS = (
    *("0 0 * * *", "*/5 6-18 * * MON-FRI", "30 1 L * *", "@daily"),
    *("0 0 29 2 *", "1,2,3 */7 1-5 JAN 0", "0 0 * * 5#5"),
)
SQLS = (
    "a = 'b' AND INT(c) > 3 OR NOT (x LIKE '%y_')",
    "EXISTS a XOR b IN ('x', 1, TRUE)",
    "-(1 + 2) * 3 % 4 <> ABS(d)",
    "CONCAT_WS(',', a, LEFT(b, 2)) = SUBSTRING(c, 1, 2)",
)
WHERES = (
    "data.currency == 'EUR' && data.amount > 100",
    "event.subject.startsWith('a') || !(data.x in [1, 2])",
    "data.items.exists(i, i.n > 3) ? has(data.y) : size(data.z) == 1",
    "data.a.matches('^a[0-9]{1,3}$')",
)
DURATIONS = ("2h", "1d12h30m15s1ms", "90m", "366d", "0s")
KEYS = ("2026-11-20T01:30:00.100+01:00", "20261120", "007", "a" * 512, "1.0")
MOMENTS = ("2026-11-20T18:00:00Z", "2026-11-20T18:00:00.250+01:00")


class Reader(NamedTuple):
    """A reader; `random_input` makes its inputs, `worst` the costliest known ones."""

    read: Callable[[Any], object]
    random_input: Callable[[random.Random], Any]
    worst: Callable[[], Iterator[tuple[str, Any]]]


def of_bytes(text: bytes) -> object:
    """Reads bytes as records are read: JSON first."""
    try:
        form = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ConditionError(str(error)) from error
    return from_json(form)


# -- random inputs


def mutated(rng: random.Random, text: Any) -> Any:
    """Text or bytes with some slices dropped, doubled, copied, repeated or replaced."""
    for _ in range(rng.choice((0, 1, 1, 2, 5, 20))):
        low, high = sorted((rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)))
        if rng.random() < 0.7:
            high = min(high, low + rng.randrange(1, 8))
        part = text[low:high]
        kind = rng.randrange(5)
        if kind == 0:
            part = part[:0]
        elif kind == 1:
            part *= 2
        elif kind == 2:
            at = rng.randrange(len(text) + 1)
            text = text[:at] + part + text[at:]
        elif kind == 3:
            part *= min(rng.choice((10, 100, 1000, 10_000)), LONGEST // (len(part) or 1) + 1)
        else:
            part = noise(rng, isinstance(text, bytes))
        text = (text[:low] + part + text[high:])[:LONGEST]
    return text


def noise(rng: random.Random, as_bytes: bool) -> Any:
    """A few random bytes or characters."""
    some = rng.randbytes(rng.choice((1, 1, 2, 4, 32)))
    if as_bytes:
        return some
    return (
        some.decode("latin-1") if rng.random() < 0.9 else "".join(map(chr, rng.choices(range(0x11000), k=4)))
    )


def texts(*valid: str, words: tuple[str, ...] = WORDS) -> Callable[[random.Random], str]:
    """Random characters, random words, one word repeated, mutated valid texts."""

    def made(rng: random.Random) -> str:
        kind = rng.randrange(8)
        if kind == 0:
            return rng.randbytes(rng.choice((0, 1, 10, 1000))).decode("latin-1")
        if kind == 1:
            return rng.choice(("", " ")).join(rng.choices(words, k=rng.choice((2, 10, 100, 1000))))
        if kind == 2:
            word = rng.choice(words)
            return (rng.choice(valid)[: rng.randrange(40)] + word * rng.randrange(1, LONGEST // len(word)))[
                :LONGEST
            ]
        return mutated(rng, rng.choice(valid))

    return made


def values(rng: random.Random, depth: int = 3) -> Any:
    """Any JSON value, and some values that JSON does not have."""
    kind = rng.randrange(12 if depth else 9)
    if kind < 9:
        numbers = (0, 1, 2, -1, 10**20, 10**5000, 1.5, 3.0, 1e300, float("nan"))
        return rng.choice((None, True, *numbers, "", "a", "x" * 3000, "\ud800", b"a", ()))
    if kind == 9:
        return [values(rng, depth - 1) for _ in range(rng.choice((0, 1, 3, 300)))]
    names = ("all", "any", "not", "event", "exact", "type", "of", "n", "where", "sql", "by", "", "prefix", 1)
    return {rng.choice((*names, None)): values(rng, depth - 1) for _ in range(rng.choice((0, 1, 2, 3)))}


def changed(rng: random.Random, obj: Any) -> Any:
    """The value with some inner values replaced, dropped, nested deeply or repeated."""
    if rng.random() < 0.15:
        kind = rng.randrange(5)
        if kind == 0:
            return values(rng)
        if kind == 1:
            wrap = rng.choice(("all", "any", "not", "list", "of"))
            for _ in range(rng.choice((1, 5, 20, 40, 2000))):
                obj = [obj] if wrap == "list" else {wrap: [obj] if wrap in ("all", "any") else obj}
            return obj
        if kind == 2 and isinstance(obj, list):
            return obj * rng.choice((0, 2, 300, 20_000))
        if kind == 3 and isinstance(obj, str):
            return mutated(rng, obj)
        if kind == 4 and isinstance(obj, dict):
            return {**obj, **{f"a{n}": "x" for n in range(rng.choice((1, 300, 20_000)))}}
    if isinstance(obj, dict):
        return {name: changed(rng, value) for name, value in obj.items() if rng.random() < 0.97}
    if isinstance(obj, list):
        return [changed(rng, value) for value in obj]
    return obj


def random_form(rng: random.Random) -> Any:
    return changed(rng, rng.choice(FORMS)["form"]) if rng.random() < 0.9 else values(rng)


def random_form_text(rng: random.Random) -> bytes:
    if rng.random() < 0.1:
        return rng.randbytes(rng.choice((0, 1, 10, 1000)))
    form = rng.choice(FORMS)["form"]
    if rng.random() < 0.3:
        form = changed(rng, form)
        text = json.dumps(form, skipkeys=True, default=str).encode() if sized(form) else b"{}"
        return text[:MOST_BYTES]
    return mutated(rng, json.dumps(form).encode())


def sized(form: Any) -> bool:
    """False if the standard library cannot write it: nested too deep, or too many digits."""
    try:
        json.dumps(form, skipkeys=True, default=str)
    except (RecursionError, ValueError):
        return False
    return True


def random_state(rng: random.Random) -> bytes:
    if rng.random() < 0.2:
        return bytes([0x90 + rng.randrange(16)]) + rng.randbytes(rng.choice((0, 1, 10, 1000)))
    version = rng.choice(list(STATES))
    return mutated(rng, bytes.fromhex(rng.choice(STATES[version])["bytes"]))


def random_filter(rng: random.Random) -> Any:
    found = [
        each for entry in FORMS for each in entry["form"]["condition"].get("event", {}).get("filters", ())
    ]
    return changed(rng, rng.choice(found)) if rng.random() < 0.9 else values(rng)


def random_key(rng: random.Random) -> Any:
    kind = rng.randrange(4)
    if kind == 0:
        return values(rng)
    if kind == 1:
        return [values(rng, 0) for _ in range(rng.randrange(10))]
    if kind == 2:
        return rng.choice((int, float))(rng.choice((0, 1, -1, 1e300, 2**53))) * rng.random()
    return texts(*KEYS, words=tuple("0123456789-:TZ+. "))(rng)


# -- the costliest that are known


def joined(sign: str, parts: Iterator[str]) -> str:
    return f" {sign} ".join(parts)


def worst_texts() -> Iterator[tuple[str, str]]:
    keyed = AllOf(*(event(f"t{n}", by="subject", label=f"l{n}") for n in range(255)))
    yield "255 matchers", str(keyed)
    long = (f"event('{n}', source='{'s' * 220}')" for n in range(255))
    yield "255 matchers of long values", joined("&", long)
    yield "255 names", joined("&&", (f"n{n}" for n in range(255)))
    yield "at_least of 255", f"at_least(2, {', '.join(f'n{n}' for n in range(255))})"
    yield "one name 256 times", joined("&", ("n1" for _ in range(256)))
    yield "levels", "(" * 31 + "n0" + "".join(f" {'&|'[n % 2]} n{n + 1})" for n in range(31))
    levels = "".join(f") {'|&'[n % 2]} n{n + 200}" for n in range(30))
    yield "levels and width", "(" * 30 + joined("&", (f"n{n}" for n in range(190))) + levels
    names = joined("&", (f"n{n}" for n in range(127)))
    yield "keep 128 times on 127 names", f"({names})" + ".keep('all')" * 128
    yield "names, calls and ~", "~" * 4400 + "n1"
    yield "brackets", "(" * 64 + "n1" + ")" * 64
    yield "open brackets", "(" * LONGEST
    yield "tokens", "event(filters=[" + "1," * 2230 + "])"
    yield "a dict", "event(filters=[{" + ",".join(f"'a{n}':1" for n in range(1100)) + "}])"
    exacts = (",".join(f"Exact(a='{n}{m}')" for m in range(80)) for n in range(8))
    yield "filters", joined("&", (f"event(filters=[Any({some})])" for some in exacts))
    yield "a string of 64 KiB", "event('" + "x" * 65_000 + "')"
    yield "escapes", "event('" + "\\x41" * 16_000 + "')"
    yield "an open string", "event('" + "x" * 65_000
    yield "a name of 64 KiB", "x" * 65_536
    yield "spaces", " " * 65_536
    yield "lines", "\n" * 65_535 + "("
    wheres = joined("&", (f"event(where='{where}')" for where in worst_predicates(4, 1000)))
    yield "where up to the limit", wheres
    yield "where up to the limit, and tokens", f"{wheres} & event(filters=[{'1,' * 2200}])"
    sqls = joined("&", (f"event(filters=[Sql('{sql}')])" for sql in worst_expressions(8, 500)))
    yield "sql up to the limit", sqls
    yield "resets", joined("&", (f"(n{n} & n{n + 1}).resets('{n} {n % 24} * * *')" for n in range(50)))
    windows = (
        f"(((n{n} & n{n + 1}).within('1m') & n{n + 2}).within('1h') & n{n + 3}).within('2h')"
        for n in range(25)
    )
    yield "windows in windows", joined("&", windows)
    yield "sequence of 200", f"sequence({', '.join(f'n{n}' for n in range(200))})"
    yield "counts", joined("&", (f"count(n{n}, 1000)" for n in range(120)))


def worst_predicates(n: int, chars: int) -> Iterator[str]:
    for number in range(n):
        yield (f"data.x{number}.exists(a,a)" + "||data.exists(a,a)" * 100)[: chars // 18 * 18 - 9].rpartition(
            "||"
        )[0]


def worst_expressions(n: int, chars: int) -> Iterator[str]:
    for number in range(n):
        yield f"{number}" + "+1" * (chars // 2 - 4) + "=1"


def worst_forms() -> Iterator[tuple[str, Any]]:
    for name, text in worst_texts():
        try:
            yield name, parse(text, NAMES).to_json()
        except ConditionError:
            continue
    yield "a form of 1 MiB", of_matchers(255, lambda n: exact(4, f"{n}" + "x" * 998))
    yield "a form of 1 MiB, not ASCII", of_matchers(255, lambda n: exact(4, f"{n}" + "\u00e9" * 998))
    yield "16,384 values", of_matchers(250, lambda n: exact(63, f"{n}"))
    yield "prefixes up to the limit", of_matchers(60, lambda n: {"filters": [{"any": prefixes(n)}]})
    yield "20,000 operands", of_matchers(20_000, lambda _: {"exact": {"a": "x"}})
    deep: Any = {}
    for _ in range(900):
        deep = {"all": [deep]}
    yield "900 levels", of_condition(deep)


def of_condition(node: Any) -> dict[str, Any]:
    return {"v": 1, "condition": node}


def of_matchers(count: int, matcher: Callable[[int], dict[str, Any]]) -> dict[str, Any]:
    """The form of so many matchers, all of which must be met."""
    return of_condition({"all": [{"event": matcher(number)} for number in range(count)]})


def exact(count: int, value: str) -> dict[str, Any]:
    return {"exact": {f"a{number}": value for number in range(count)}}


def prefixes(number: int) -> list[Any]:
    return [{"prefix": {"a": f"{number}.{each}"}} for each in range(80)]


def worst_form_texts() -> Iterator[tuple[str, bytes]]:
    for name, form in worst_forms():
        if sized(form):
            yield name, json.dumps(form, ensure_ascii=False).encode()
    yield "open lists", b"[" * 1_000_000
    yield "open objects", b'{"all":[' * 100_000
    yield "digits", b'{"v": 1, "condition": ' + b"1" * 1_000_000 + b"}"


def worst_states() -> Iterator[tuple[str, bytes]]:
    match = State.decode(bytes.fromhex(STATES["version 1"][1]["bytes"])).matches[0]
    many = tuple(
        msgspec.structs.replace(match, offset=n, event=msgspec.structs.replace(match.event))
        for n in range(1000)
    )
    yield "1,000 waiting", State(waiting=many).encode()
    yield "1,000 held", State(matches=many).encode()
    yield "refuters", State(negated_times={n: tuple(range(1000)) for n in range(20)}).encode()
    yield "open arrays", b"\x91" * 1_000_000
    yield "a false length", b"\x91\xdd\xff\xff\xff\xff"
    yield "false lengths in each other", b"\x91" + b"\xdd\xff\xff\xff\xff" * 100_000
    yield "a false length of bytes", b"\x92\x90\xc6\xff\xff\xff\xff"


def worst_filters() -> Iterator[tuple[str, Any]]:
    yield "256 terms", {"any": [{"prefix": {"a": f"{n}"}} for n in range(255)]}
    yield "256 terms of 2,048", {"any": [{"prefix": {"a": f"{n}" + "x" * 2040}} for n in range(255)]}
    yield (
        "256 terms of 2,048, not ASCII",
        {"any": [{"suffix": {"a": f"{n}" + "\u00e9" * 2040}} for n in range(255)]},
    )
    yield "expressions", {"any": [{"sql": sql} for sql in worst_expressions(8, 500)]}
    deep: Any = {}
    for _ in range(100_000):
        deep = {"not": deep}
    yield "100,000 levels", deep
    yield "100,000 items", {"any": [{"exact": {"a": "b"}}] * 100_000}


def nothing() -> Iterator[tuple[str, Any]]:
    yield from ()


def worst_keys() -> Iterator[tuple[str, Any]]:
    yield "a long text", "x" * 1_000_000
    yield "digits", "1" * 1_000_000
    yield "a large int", 10**100_000
    yield "a timestamp with a long fraction", "2026-11-20T01:30:00." + "1" * 1_000_000 + "Z"
    yield "many values", ["x"] * 1_000_000


READERS: dict[str, Reader] = {
    "text": Reader(lambda text: parse(text, NAMES), texts(*(entry["text"] for entry in FORMS)), worst_texts),
    "json object": Reader(from_json, random_form, worst_forms),
    "json bytes": Reader(of_bytes, random_form_text, worst_form_texts),
    "state": Reader(State.decode, random_state, worst_states),
    "filter": Reader(filter_from_json, random_filter, worst_filters),
    "sql": Reader(
        Sql,
        texts(
            *SQLS,
            words=(*"()+-*/%=<>'\",\\ ab1", " AND ", " NOT ", " LIKE ", " IN ", "EXISTS ", "TRUE", "INT("),
        ),
        lambda: iter(
            [
                ("257 terms", next(worst_expressions(1, 520))),
                ("4,096 signs", "-" * 4095 + "1"),
                ("brackets", "(" * 2047 + "a" + ")" * 2047),
                ("not", "NOT " * 1023 + "a"),
                ("like", "a LIKE '" + "%a_" * 1360 + "'"),
                ("a text", "'" + "x" * 4094 + "'"),
                ("tokens", "a OR " * 819),
                ("longer than allowed", "(" * 1_000_000),
            ]
        ),
    ),
    "where": Reader(
        Where,
        texts(
            *WHERES,
            words=(
                *"()[]{}+-*/%=<>'\",\\?:!. ab1",
                "&&",
                "||",
                " in ",
                "data.",
                ".all(a,",
                ".matches('",
                "=='x'",
            ),
        ),
        lambda: iter(
            [
                ("exists", next(worst_predicates(1, 1020))),
                ("comparisons", joined("&&", (f"data.a{n}=={n}" for n in range(60)))),
                ("literals", joined("&&", ("1==1" for _ in range(127)))),
                ("a list", "1 in [" + ",".join(["1"] * 500) + "]"),
                ("brackets", "(" * 500 + "true" + ")" * 500),
                ("no tokens", "$" * 1024),
                ("longer than allowed", "(" * 1_000_000),
            ]
        ),
    ),
    "duration": Reader(
        lambda text: duration_ms("duration", text),
        texts(*DURATIONS, words=(*"0123456789wdhms", "ms", "-", ".")),
        lambda: iter([("digits", "1" * 1_000_000), ("units", "1h" * 500_000)]),
    ),
    "moment": Reader(
        lambda text: from_json(
            of_condition({"expires": {"of": {"event": {"exact": {"a": "b"}}}, "at": text}})
        ),
        texts(*MOMENTS, words=tuple("0123456789-:TZ+.")),
        nothing,
    ),
    "cron": Reader(
        lambda text: Periods(text, "UTC"),
        texts(*CRONS, words=(*"0123456789*/,-#L ?", "MON", "JAN", "@daily")),
        lambda: iter(
            [
                ("all values", f"{','.join(map(str, range(60)))} {','.join(map(str, range(24)))} * * *"),
                ("longer than allowed", "* " * 100_000),
                ("never", "0 0 31 2 *"),
                ("rarely", "0 0 29 2 1"),
            ]
        ),
    ),
    "key": Reader(canonical_key, random_key, worst_keys),
}
