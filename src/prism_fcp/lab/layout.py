"""Wide tables on narrow terminals: headings in lines, columns in as many tables as it takes; nothing is ever cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from rich import box
from rich.cells import cell_len
from rich.table import Table

GAP: Final = 2


class Column(NamedTuple):
    """A heading and the texts below it. What stands aside is printed dim, and together."""

    name: str
    cells: Sequence[str]
    aside: bool = False

    @property
    def lines(self) -> str:
        """Return the heading with a line for each word, short words together."""
        found: list[str] = []
        for word in self.name.split():
            if found and cell_len(f"{found[-1]} {word}") <= max(SHORT, *map(cell_len, self.cells or [""])):
                found[-1] += f" {word}"
            else:
                found.append(word)
        return "\n".join(found)

    @property
    def width(self) -> int:
        """Return how wide it must be for nothing to be cut."""
        return max(cell_len(text) for text in (*self.lines.split("\n"), *self.cells))


SHORT: Final = 6  # as wide as a number: a heading of two words that fits needs no second line


def split(first: Column, columns: Sequence[Column], width: int) -> list[list[Column]]:
    """Return the columns in runs, each of which fits beside the first; one too wide for any has a run of its own."""
    runs: list[list[Column]] = []
    left = -1
    for column in columns:
        need = column.width + GAP
        if not runs or need > left or (column.aside and not runs[-1][-1].aside and _rest(column, columns) > left):
            runs.append([])
            left = width - first.width
        runs[-1].append(column)
        left -= need
    return runs


def tables(first: Column, columns: Sequence[Column], width: int, *, below: int = 0) -> list[Table]:
    """Return tables no wider than `width` that show all columns; a line stands above the last `below` rows."""
    made = []
    for run in split(first, columns, width):
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, GAP - 1, 0, 0), show_edge=False)
        table.add_column(first.lines, no_wrap=True, min_width=first.width, vertical="bottom")
        for column in run:
            table.add_column(
                column.lines, justify="right", no_wrap=True, min_width=column.width, style="dim" if column.aside else ""
            )
        for row, name in enumerate(first.cells):
            if below and row == len(first.cells) - below:
                table.add_section()
            if any(column.cells[row] for column in run):
                table.add_row(name, *(column.cells[row] for column in run))
        made.append(table)
    return made


def _rest(column: Column, columns: Sequence[Column]) -> int:
    """Return what this column and those after it need: what stands aside stays together."""
    place = list(columns).index(column)
    return sum(other.width + GAP for other in columns[place:])
