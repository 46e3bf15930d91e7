"""The calibration gauntlet for the eye: tables for terminals, heat maps for pages."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from prism_fcp.lab.calibration_gauntlet import LEVEL, NAME, Row
from prism_fcp.lab.figures import paint
from prism_fcp.lab.layout import Column, tables
from prism_fcp.lab.scenes import REGIMES

BAR: Final = 3.5  # inches of a colour bar, at most
MEAN: Final = "mean of the attacks"
BLANK: Final = "#e8e8e8"  # nobody lies: nothing to find


class Picture(NamedTuple):
    """One heat map: what its colours stand for."""

    name: str
    title: str
    value: Callable[[Row], float | None]
    low: float
    high: float
    colours: str
    form: str


PICTURES: Final = (
    Picture(
        "found", "share of the liars left out, less chance", lambda r: r.recall_minus_chance, 0, 0.8, "viridis", ".2f"
    ),
    Picture("lost", "honest clients left out, %", lambda r: 100 * r.honest_lost, 0, 20, "OrRd", ".1f"),
    Picture("coverage", "coverage of all honest clients, %", lambda r: 100 * r.coverage_all, 85, 95, "RdBu", ".1f"),
)


def show(rows: Sequence[Row], out: Console) -> None:
    """Print two tables a regime: what filters find and lose, and what the intervals then cover."""
    for regime, own in _by_regime(rows).items():
        trials = own[0].trials
        out.print(Text(f"{regime}: {_title(regime)}; {trials} trials", style="bold"))
        out.print("share of the liars left out, less what chance would find; in brackets the % of honest clients lost")
        _print(_tables(own, _found, out.width, mean=True), out)
        out.print(f"coverage of all honest clients in %, {100 * LEVEL:g} wanted; width over the narrowest that covers")
        _print(_tables(own, _covered, out.width), out)
    outside = [row for row in rows if row.outside_certificate]
    cells = sum(row.trials for row in rows)
    told = "; ".join(f"{row.regime}, {row.attack}, {row.filter} ({row.outside_certificate})" for row in outside)
    out.print(
        f"outside the certificate for the liars that were kept, which holds with 95 % confidence: "
        f"{sum(row.outside_certificate for row in rows)} of {cells} cells{f': {told}' if told else ''}"
    )


def _print(made: Sequence[Table], out: Console) -> None:
    for place, table in enumerate(made):
        if place:
            out.print()
        out.print(table)


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the heat maps, as PNG and SVG: what is found, what honest clients lose, what is covered."""
    return paint({f"{NAME}-{picture.name}": partial(_heat, rows, picture) for picture in PICTURES}, folder)


def _heat(rows: Sequence[Row], picture: Picture, figure: Any) -> None:
    regimes = _by_regime(rows)
    attacks, filters = _names(rows)
    across = min(2, len(regimes))
    down = -(-len(regimes) // across)
    height = 0.6 + down * (0.25 * len(attacks) + 1.5)
    figure.set_size_inches(
        1.6 + across * (0.55 * len(filters) + 1.7 if across == 1 else 0.52 * len(filters) + 1.5), height
    )
    panels = figure.subplots(down, across, squeeze=False)
    image = None
    for place, panel in enumerate(panels.flat):
        if place >= len(regimes):
            panel.set_axis_off()
            continue
        regime, own = list(regimes.items())[place]
        found = {(row.attack, row.filter): picture.value(row) for row in own}
        table = np.array([[_number(found[a, f]) for f in filters] for a in attacks])
        panel.set_facecolor(BLANK)
        panel.grid(False)
        image = panel.imshow(table, vmin=picture.low, vmax=picture.high, cmap=picture.colours, aspect="auto")
        panel.set_title(f"{regime}: {_title(regime)}", loc="left")
        panel.set_xticks(range(len(filters)), filters, rotation=40, ha="right", rotation_mode="anchor")
        panel.set_yticks(range(len(attacks)), attacks)
        panel.tick_params(length=0)
        for spine in panel.spines.values():
            spine.set_visible(False)
        for (i, j), number in np.ndenumerate(table):
            if np.isfinite(number):
                red, green, blue, _ = image.cmap(image.norm(number))
                dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
                colour = "white" if dark else "black"
                panel.text(j, i, f"{number:{picture.form}}", ha="center", va="center", fontsize=6.5, color=colour)
    size = min(0.5, BAR / height)  # as tall on a page of many panels as on one of two
    figure.colorbar(image, ax=panels, shrink=size, anchor=(0, 1), label=picture.title, extend="both")


def _tables(rows: Sequence[Row], told: Callable[[Row], str], width: int, mean: bool = False) -> list[Table]:
    attacks, filters = _names(rows)
    cells = {(row.attack, row.filter): told(row) for row in rows}
    if mean and len(attacks) > 1:
        for name in filters:
            cells[MEAN, name] = told(_mean([row for row in rows if row.filter == name and row.attack != "none"]))
        attacks = [*attacks, MEAN]
    columns = [Column(name, [cells[attack, name] for attack in attacks]) for name in filters]
    return tables(Column("attack", attacks), columns, width)


def _mean(rows: Sequence[Row]) -> Row:
    """Return a row of the attacks' means of what is found and lost."""
    found = [row.recall_minus_chance or 0.0 for row in rows]
    lost = [row.honest_lost for row in rows]
    return rows[0]._replace(
        attack=MEAN, recall_minus_chance=math.fsum(found) / len(rows), honest_lost=math.fsum(lost) / len(rows)
    )


def _found(row: Row) -> str:
    found = "-" if row.recall_minus_chance is None else f"{row.recall_minus_chance:.2f}".replace("-0.00", "0.00")
    return f"{found} ({100 * row.honest_lost:.1f})"


def _covered(row: Row) -> str:
    width = "inf" if row.width is None else f"{row.width:.2f}"
    return f"{100 * row.coverage_all:.1f} {width}{'!' if row.outside_certificate else ''}"


def _by_regime(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.regime, []).append(row)
    return found


def _names(rows: Sequence[Row]) -> tuple[list[str], list[str]]:
    return list(dict.fromkeys(row.attack for row in rows)), list(dict.fromkeys(row.filter for row in rows))


def _title(regime: str) -> str:
    return REGIMES[regime].title if regime in REGIMES else "a regime of your own"


def _number(value: float | None) -> float:
    return float("nan") if value is None else value
