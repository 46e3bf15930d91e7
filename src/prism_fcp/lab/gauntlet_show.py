"""The gauntlet for people: one table a regime, what the default chose, and a heat map."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from prism_fcp import io
from prism_fcp.lab.figures import paint
from prism_fcp.lab.gauntlet import Cell, Summary
from prism_fcp.lab.layout import Column, tables

WHITE_UP_TO: Final = 1.0
DARK_FROM: Final = 2.0  # widths over the floor from which the heat map is as dark as it gets


def tell(chosen: Sequence[Cell], rows: Sequence[Summary], out: Console) -> None:
    """Print a table for each regime: attacks down, protocols across, width over floor; the default's facts last.

    Where they do not fit side by side the protocols, and the facts, go into tables below each other.
    """
    for regime in dict.fromkeys(cell.regime for cell in chosen):
        own = [row for row in rows if row.regime == regime]
        first = next(cell for cell in chosen if cell.regime == regime)
        trials = "1 trial" if own[0].trials == 1 else f"{own[0].trials} trials"
        out.print(f"{regime}: mean width over floor, {trials}, {own[0].rounds} rounds", style="bold")
        attacks = list(dict.fromkeys(row.attack for row in own))
        by = {(row.attack, row.protocol): row for row in own}
        columns = []
        for name in first.protocols:
            mine = [by[attack, name] for attack in attacks]
            cells = [_width(row, row.mean) for row in mine]
            sent = [f"{count:,.0f}" for count in (mine[0].bytes_up, mine[0].bytes_down)]
            columns.append(Column(name, [*cells, _worst(mine), *sent]))
        default = [by[attack, "default"] for attack in attacks]
        for heading, facts in (
            ("default coverage", [_share(row.coverage) for row in default]),
            ("false out", [_share(row.false_exclusions) for row in default]),
            ("found", [_share(row.recall) for row in default]),
            ("p95", [_width(row, row.p95) for row in default]),
            ("worst", [_width(row, row.worst) for row in default]),
        ):
            columns.append(Column(heading, [*facts, "", "", ""], aside=True))
        names = Column("attack", [*attacks, "worst cell", "bytes up", "bytes down"])
        for table in tables(names, columns, out.width, below=3):
            out.print()
            out.print(table)
        out.print(f"\n  default took {first.protocols['default'].why}\n", highlight=False)


def body(chosen: Sequence[Cell], rows: Sequence[Summary]) -> dict[str, Any]:
    """Return everything as JSON; a width of a cell in which a trial diverged is null."""
    why = {cell.regime: cell.protocols["default"].why for cell in chosen}
    return {"default": why, "rows": [row._asdict() for row in rows]}


def draw(rows: Sequence[Summary], folder: Path) -> list[Path]:
    """Draw the heat map: a panel a regime, attacks down, protocols across."""
    regimes = list(dict.fromkeys(row.regime for row in rows))
    names = list(dict.fromkeys(row.protocol for row in rows))
    attacks = list(dict.fromkeys(row.attack for row in rows))
    across = min(4, len(regimes))
    down = -(-len(regimes) // across)
    size = (1.6 + across * (0.42 * len(names) + 0.5), down * (0.21 * len(attacks) + 1.3) + 0.5)

    def fill(figure: Any) -> None:
        figure.set_size_inches(*size)
        panels = figure.subplots(down, across, squeeze=False, sharey=True)
        image = None
        for place, panel in enumerate(panels.flat):
            if place >= len(regimes):
                panel.set_visible(False)
                continue
            image = _panel(panel, [r for r in rows if r.regime == regimes[place]], attacks, names, regimes[place])
        bar = figure.colorbar(image, ax=panels, shrink=0.6, aspect=30, pad=0.01, extend="max")
        bar.set_label("mean width over the floor")
        figure.suptitle("Width over the best possible, by training attack and protocol", x=0.02, ha="left")

    return paint({"gauntlet": fill}, folder)


def _panel(panel: Any, rows: Sequence[Summary], attacks: Sequence[str], names: Sequence[str], title: str) -> Any:
    by = {(row.attack, row.protocol): row for row in rows}
    values = [[by[a, n].mean or float("inf") for n in names] for a in attacks]
    shown = [[min(value, 100.0) for value in line] for line in values]
    image = panel.imshow(shown, vmin=WHITE_UP_TO, vmax=DARK_FROM, cmap="YlOrBr", aspect="auto")
    for i, line in enumerate(values):
        for j, value in enumerate(line):
            text = "lost" if value == float("inf") else f"{value:.2f}" if value < 10 else f"{value:.0f}"
            panel.text(j, i, text, ha="center", va="center", fontsize=6, color="white" if value > 1.6 else "#333333")
    panel.set_xticks(range(len(names)), names, rotation=45, ha="right", rotation_mode="anchor", fontsize=7)
    panel.set_yticks(range(len(attacks)), attacks, fontsize=7)
    panel.set_title(title, loc="left", fontsize=9)
    panel.grid(False)
    panel.tick_params(length=0)
    for side in panel.spines.values():
        side.set_visible(False)
    return image


def write(chosen: Sequence[Cell], rows: Sequence[Summary], folder: Path) -> Path:
    """Write gauntlet.json."""
    io.write_json(folder / "gauntlet.json", "gauntlet-rows", body(chosen, rows))
    return folder / "gauntlet.json"


def _width(row: Summary, value: float | None) -> str:
    return f"{row.diverged} lost" if value is None else f"{value:.3f}" if value < 100 else f"{value:.0f}"


def _share(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"


def _worst(rows: Sequence[Summary]) -> str:
    if any(row.mean is None for row in rows):
        return "lost"
    most = max(row.mean for row in rows if row.mean is not None)
    return f"{most:.3f}" if most < 100 else f"{most:.0f}"
