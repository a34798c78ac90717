"""CloudEvents SQL 1.0 (CESQL): expressions over an event's attributes, compiled once. Pure.

Attributes are canonical strings. CloudEvents' own (id, source, subject, time, ...) are Strings. Transport
loses the type of an extension attribute, so its text may also stand for the Integer or Boolean with this
canonical string: for n = 7, `'07' = n` and `n IN ('07')` are true, and so is `flag = 1` for true. If the
other side has no such value, as in `'x' = n`, the two are unequal, and there is no error.

- `=`, `!=`, `<>` cast the left side to the type of the right one. `level = 42` compares integers and is
  an error for an event whose level is not a number; `42 = subject` compares texts.
- `<`, `<=`, `>`, `>=` and arithmetic cast both sides to Integer: texts and times have no order.
- `x IN (...)` casts the elements to the type of x, until one is equal: `subject IN (1, 2)` compares texts,
  `INT(subject) IN (1, 2)` integers.
- A caller that knows a type can pass int or bool to `evaluate`.

NOT and - bind tighter than everything except calls: write `NOT (type = 'x')`. AND, OR and XOR have the same
precedence and group from left to right: `a OR b AND c` is `(a OR b) AND c`. Other implementations group from
right to left, so write parentheses.

The first error ends an evaluation. The value is then the zero value of the expression's type or, if the
outermost function failed, the value that the specification defines.
"""

from __future__ import annotations

from .expression import MAX_CHARS, MAX_DEPTH, MAX_TERMS, Expression, Result, compile, could_be_true  # noqa: A004
from .values import MAX_STRING_CHARS

__all__ = [
    "MAX_CHARS",
    "MAX_DEPTH",
    "MAX_STRING_CHARS",
    "MAX_TERMS",
    "Expression",
    "Result",
    "compile",
    "could_be_true",
]
