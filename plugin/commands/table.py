"""Rows as a table, or plain. What people copy, such as a name or a key, stands on one line and unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .console import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Columns, and fields of a table with the columns `field` and `value`, that hold sentences or lists. They are
# broken between words; all other cells are on one line, even if the table becomes wider than the terminal.
SENTENCES: Final = frozenset(
    {
        "condition",
        "dead letters",
        "found",
        "holder",
        "labels",
        "missing",
        "operations",
        "pending",
        "reason",
        "settings",
        "state",
        "waited_for_by",
    }
)
# Longer words, such as the value of a dead letter, are broken: as a column they would make each line longer.
MAX_WORD_CHARS: Final = 1000


def print_table(rows: Sequence[Mapping[str, str]]) -> None:
    """Prints a table as wide as the terminal (200 characters without one), or wider if names need it."""
    from airflow.cli.simple_table import AirflowConsole, SimpleTable
    from rich.console import Console
    from rich.text import Text

    available = AirflowConsole().width
    if not rows:
        print("No data found")
        return
    columns = list(rows[0])
    table = SimpleTable(show_header=True, header_style="")
    gaps = 3 * (len(columns) - 1)
    widths = _widths([_Column.of(name, rows) for name in columns], available - gaps)
    for name, width in zip(columns, widths, strict=True):
        table.add_column(name, width=width)
    for row in rows:
        # As Text, because rich would take a name such as ":key:" or "[a]" for an emoji or a style.
        table.add_row(*(Text(_shown(text)) for text in row.values()))
    console = Console(width=sum(widths) + gaps)
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        print(line.rstrip())


def print_plain(rows: Sequence[Mapping[str, str]]) -> None:
    """Prints one line for each row, in columns without borders."""
    from tabulate import tabulate

    if not rows:
        print("No data found")
        return
    cells = [[_shown(text) for text in row.values()] for row in rows]
    # A key such as 1e5 or 007 is not a number to print in another form.
    print(tabulate(cells, headers=list(rows[0]), tablefmt="plain", disable_numparse=True))


class _Column:
    """How wide a column is on one line, and how wide it must be at least."""

    def __init__(self, whole: int, least: int) -> None:
        self.whole, self.least = whole, least

    @classmethod
    def of(cls, name: str, rows: Sequence[Mapping[str, Any]]) -> _Column:
        from rich.cells import cell_len

        whole, least = cell_len(name), cell_len(name)
        for row in rows:
            text = _shown(row[name])
            field = row["field"] if name == "value" and "field" in row else name
            pieces = text.split() if _is_sentence(field) else text.splitlines()
            whole = max(whole, *map(cell_len, text.splitlines() or [""]))
            least = max([least, *(size for size in map(cell_len, pieces) if size <= MAX_WORD_CHARS)])
        return cls(whole, least)


def _is_sentence(field: str) -> bool:
    return field in SENTENCES or field.startswith("holder ")


def _widths(columns: Sequence[_Column], available: int) -> list[int]:
    """Returns each column's width: its longest text if all fit, else its least width and part of the rest."""
    wanted = sum(column.whole for column in columns)
    least = sum(column.least for column in columns)
    if wanted <= available or wanted == least:
        return [column.whole for column in columns]
    spare = max(0, available - least)
    return [column.least + spare * (column.whole - column.least) // (wanted - least) for column in columns]


def _shown(text: str) -> str:
    return text and quoted(text)
