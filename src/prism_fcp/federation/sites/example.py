"""Example data for a new federation: a table for each site, all of one law, Friedman's first function."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from prism_fcp import io, streams
from prism_fcp.calibrate.names import check_name
from prism_fcp.data.friedman import friedman
from prism_fcp.data.partition import LEAST
from prism_fcp.data.table import Table
from prism_fcp.errors import SettingError, need_number
from prism_fcp.streams import Role

TARGET: Final = "y"
ROWS: Final = 400
MOST_ROWS: Final = 1_000_000


def write_example(folder: Path, clients: Sequence[str], seed: int = 1, rows: int = ROWS) -> list[Path]:
    """Write CLIENT.csv for each client and return the paths; the same seed writes the same files."""
    need_number("rows", rows, integer=True)
    if not LEAST <= rows <= MOST_ROWS:
        raise SettingError(f"rows={rows}; must lie in {LEAST}..{MOST_ROWS:,} rows a site")
    made = []
    for place, client in enumerate(clients):
        rng = streams.generator(streams.child(streams.key(seed), Role.SAMPLES, place))
        path = folder / f"{check_name(client)}.csv"
        io.write_text(path, as_csv(friedman(rows, rng)), "choose another folder")
        made.append(path)
    return made


def as_csv(table: Table) -> str:
    """Return a table as text, the target last, six digits a number."""
    lines = [",".join((*table.names, table.target_name))]
    for features, target in zip(table.features, table.target, strict=True):
        lines.append(",".join(f"{value:.6g}" for value in (*features, target)))
    return "\n".join(lines) + "\n"
