"""Tables on narrow terminals: whatever the width, every heading and every number can be read whole."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from prism_fcp.lab import gauntlet, regimes
from prism_fcp.lab.calibration_gauntlet import Row
from prism_fcp.lab.calibration_tables import show
from prism_fcp.lab.gauntlet_show import tell
from prism_fcp.lab.layout import Column, split


def console(width: int) -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, width=width, highlight=False, markup=False), text


@pytest.mark.parametrize("width", [40, 80, 100, 160, 300])
def test_the_gauntlets_tables_show_all_of_it(width: int) -> None:
    chosen = gauntlet.cells(regimes.full()._replace(regimes=("paper .2", "when selected, short")))
    rows = []
    for number, cell in enumerate(chosen):
        for name in cell.protocols:
            found = gauntlet.Outcome(1 + number / 7, 0.9, 0.001, 0.25, 2000.0)
            rows.append(gauntlet.summarise(cell, name, [found, found]))
    out, text = console(width)
    tell(chosen, rows, out)
    shown = text.getvalue()
    assert "…" not in shown and max(map(len, shown.splitlines())) <= width
    words = {word for cell in chosen for name in cell.protocols for word in name.split()}
    assert words | {"coverage", "found", "p95", "worst"} <= set(shown.split())
    for cell in chosen:
        assert shown.count(f"\n{cell.attack} ") >= 2 and cell.regime in shown
    for row in rows:
        assert f"{row.mean:.3f}" in shown


@pytest.mark.parametrize("width", [60, 80, 142])
def test_the_calibration_tables_show_all_of_it(width: int) -> None:
    filters = ["keep_all", "estimated_count", "vigilant, told", "known_count", "a filter of one's own"]
    rows = [
        Row("poor", attack, name, 3, 0.5, -0.25, 0.0333, 0.1, 0.9, 0.8999, 12.34, 0.8, 1.0, 0)
        for attack in ("noise .5, reflected", "all zero")
        for name in filters
    ]
    out, text = console(width)
    show(rows, out)
    shown = text.getvalue()
    assert "…" not in shown and "-0.25 (3.3)" in shown and "90.0 12.34" in shown
    assert {word for name in filters for word in name.split()} <= set(shown.split())


def test_a_column_too_wide_for_any_table_stands_alone() -> None:
    first, wide = Column("attack", ["none"]), Column("x" * 50, ["1"])
    small = [Column(str(i), ["1.000"]) for i in range(4)]
    runs = split(first, [*small[:2], wide, *small[2:]], 40)
    assert [len(run) for run in runs] == [2, 1, 2]


def test_what_stands_aside_stays_together() -> None:
    first, columns = Column("attack", ["none"]), [Column(f"p{i}", ["1.000"]) for i in range(3)]
    aside = [Column(f"fact {i}", ["1.000"], aside=True) for i in range(3)]
    assert [len(run) for run in split(first, columns + aside, 60)] == [6]
    assert [len(run) for run in split(first, columns + aside, 40)] == [3, 3]
