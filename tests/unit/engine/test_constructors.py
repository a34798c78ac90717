"""The shape of the engine's classes: what many parts need is in a context."""

from __future__ import annotations

import ast
from pathlib import Path

import interlock.engine

MOST_ARGUMENTS = 4


def test_no_constructor_takes_more_than_four_arguments() -> None:
    found = []
    for path in sorted(Path(interlock.engine.__path__[0]).rglob("*.py")):
        for made in ast.walk(ast.parse(path.read_text())):
            for part in made.body if isinstance(made, ast.ClassDef) else ():
                if isinstance(part, ast.FunctionDef) and part.name == "__init__":
                    count = len(part.args.args) + len(part.args.kwonlyargs) - 1  # without self
                    if count > MOST_ARGUMENTS:
                        found.append(f"{path.name}: {made.name} takes {count}")
    assert found == []
