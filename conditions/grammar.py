"""A grammar in a file beside the code; the parser is built when the first text is parsed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from lark import Lark

_building: Final = threading.Lock()


class Grammar:
    """Parses texts by a lark grammar (LALR); safe for threads. lark is imported with the first text.

    package, file: the location of the grammar. options: returns further arguments of Lark.
    """

    def __init__(self, package: str, file: str, options: Callable[[], Mapping[str, Any]] = dict) -> None:
        self._package, self._file, self._options = package, file, options
        self._parser: Lark | None = None

    def parse(self, text: str) -> Any:
        """Returns the tree, or the transformer's result. Raises lark's UnexpectedInput for invalid text."""
        return self.parser().parse(text)

    def parser(self) -> Lark:
        """Returns the parser, which the first call builds."""
        if self._parser is None:
            with _building:  # so that two threads do not build it at the same time
                self._parser = self._parser or self._built()
        return self._parser

    def _built(self) -> Lark:
        from lark import Lark  # most conditions never need this import

        grammar = resources.files(self._package).joinpath(self._file).read_text("ascii")
        return Lark(grammar, parser="lalr", lexer="contextual", **self._options())
