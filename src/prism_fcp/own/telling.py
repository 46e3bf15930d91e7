"""What the console says of a project: who holds what, what the predictor is worth, and what a drill showed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from prism_fcp.errors import counted
from prism_fcp.exchange.telling import number, percent, table
from prism_fcp.io import read_json
from prism_fcp.lab import tables
from prism_fcp.lab.compare import Comparison
from prism_fcp.own.project import Project


def _say(out: Console, text: str) -> None:
    out.print(text, soft_wrap=True)  # a path that is cut in two cannot be copied


def show(project: Project, body: Mapping[str, Any], folder: Path, files: Sequence[Path], out: Console) -> None:
    """Print what was trained, on what, what it is worth, and where it lies."""
    rows = project.ready.table
    sizes = project.held
    held = str(min(sizes)) if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
    out.print(Text(project.title, style="bold"))
    _say(
        out,
        f"{len(rows.target):,} rows, {counted(len(rows.names), 'feature')}, target {rows.target_name}; "
        f"{len(project.clients)} clients with {held} rows (partition "
        f"{project.table.partition.name})",
    )
    if body["chosen"]:
        _say(out, body["chosen"])
    level = project.calibration.levels[0]
    out.print()
    told = [
        (one["name"], percent(one["coverage"]), f"{percent(one['low'])} to {percent(one['high'])}", _width(one, sizes))
        for one in body["worth"]
    ]
    tested = sum(one["test"] for one in body["clients"])
    _say(out, table((f"confidence {level}", "coverage", "95 % interval", "width"), told, right=[1]))
    worst = body["worst"]
    _say(
        out,
        f"on {tested:,} test rows of all clients; worst client {worst['client']}: {percent(worst['coverage'])} of "
        f"{worst['test']} ({percent(worst['low'])} to {percent(worst['high'])})",
    )
    calibration = read_json(folder / "calibration.json", "calibration")
    left_out = [row for row in calibration["clients"] if row["status"] != "kept"]
    for row in left_out:
        _say(out, f"{row['client']}: {row['reason']}")
    if not left_out:
        _say(out, "every client counts in full")
    for warning in body["warnings"]:
        _say(out, f"warning: {warning}")
    if not project.drill.num_byzantine:
        _say(out, "no drill: " + ("of two clients nobody is the majority" if len(sizes) < 3 else "switched off"))
    out.print()
    _say(out, f"written to {folder}: {', '.join(path.name for path in files)}")
    _say(
        out, f"next: prism-fcp predict new.csv --model {folder / 'model.json'} --predictor {folder / 'predictor.json'}"
    )


def _width(one: Mapping[str, Any], sizes: Sequence[int]) -> str:
    """Return a width in words; clients that have none are counted."""
    if one["width"] is None:
        return "infinite"
    return number(one["width"]) + (f" ({one['without']} of {len(sizes)} clients: infinite)" if one["without"] else "")


def show_drill(project: Project, comparison: Comparison, folder: Path, out: Console) -> None:
    """Print the drill's table."""
    count, clients = project.drill.num_byzantine, len(project.clients)
    tables.show(comparison, out)
    _say(
        out,
        f"a drill: in each of {counted(comparison.result.trials, 'trial')} {count} of your {clients} clients, drawn at "
        "random, played attacker in training and calibration; nothing of it is in the predictor",
    )
    _say(out, f"written to {folder / 'drill'}: result.json, table.csv, experiment.toml, widths.png")
