"""CloudEvents SQL 1.0 (CESQL): expressions over an event's attributes, compiled once. Pure.

Attributes arrive as canonical strings, so each is a String until the expression says otherwise:

- `=`, `!=`, `<>` cast the left side to the type of the right one. `level = 42` compares integers and is
  an error for an event whose level is no number; `42 = level` compares texts.
- `<`, `<=`, `>`, `>=` and arithmetic cast both sides to Integer: there is no order of texts or times.
- `x IN (...)` casts the elements to the type of x, until one is equal: `level IN (1, 2)` compares texts,
  `INT(level) IN (1, 2)` integers.
- A type that is known can be handed to `evaluate` as int or bool.

NOT and - bind tighter than everything but calls: write `NOT (type = 'x')`. AND, OR and XOR bind alike and
are taken from left to right: `a OR b AND c` is `(a OR b) AND c`. Other implementations group them from the
right; write the parentheses.

The first error ends an evaluation. Its value is then the zero value of the expression's type, or what the
specification gives where the outermost function itself fails.
"""

from __future__ import annotations

from .expression import MAX_CHARS, MAX_DEPTH, MAX_TERMS, Expression, Result, compile  # noqa: A004
from .values import MAX_STRING_CHARS

__all__ = ["MAX_CHARS", "MAX_DEPTH", "MAX_STRING_CHARS", "MAX_TERMS", "Expression", "Result", "compile"]
