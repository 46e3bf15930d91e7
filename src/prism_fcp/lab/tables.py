"""Tables for terminals and pipes: ours beside the paper's, the difference, and a verdict a row."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from prism_fcp.lab.compare import Comparison, Judged, Status
from prism_fcp.lab.result import Row
from prism_fcp.lab.spec import Experiment, told_share

PIPE_WIDTH: Final = 142  # where there is no terminal
MEDIUM: Final = 112  # from here on the spread and what was accused are shown
WIDE: Final = 142  # from here on everything is
COLOURS: Final[dict[Status, str]] = {
    "reproduced": "green", "undecided": "yellow", "not settled": "yellow", "known": "yellow", "differs": "bold red",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Column:
    """A column: what stands in it, and from which width of the terminal on."""

    name: str
    cell: Callable[[Judged], str | Text]
    needs: int = 0


def console(*, stderr: bool = False) -> Console:
    """Return a console; where there is no terminal, plain text of a fixed width."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or os.environ.get("COLUMNS") else PIPE_WIDTH
    return Console(file=stream, width=width, highlight=False, markup=False, soft_wrap=False)


def comparison_table(comparison: Comparison, width: int) -> Table:
    """Lay out an experiment's rows; a narrow terminal gets fewer columns, never broken ones."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    columns = [column for column in _columns(comparison) if column.needs <= width]
    for column in columns:
        left, paper = column.name in ("method", "verdict"), column.name == "paper"
        table.add_column(column.name, justify="left" if left else "right", no_wrap=True, style="dim" if paper else "")
    last = None
    for judged in comparison.rows:
        if judged.row.attack_label != last:
            last = judged.row.attack_label
            table.add_section()
            table.add_row(Text(attack_title(last), style="bold"))
        table.add_row(*(column.cell(judged) for column in columns))
    return table


def _columns(comparison: Comparison) -> list[_Column]:
    figures, notes = comparison.result.spec["figures"], _note_numbers(comparison)

    def paper(name: str, form: str, needs: int = 0) -> list[_Column]:
        given = any(name in judged.paper for judged in comparison.rows)
        return [_Column("paper", lambda j: _told(j.paper.get(name), form), needs)] if given else []

    columns = [
        _Column("method", lambda j: j.row.label),
        _Column("M/D", lambda j: told_share(j.row.share)),
        _Column("cover %", lambda j: _told(j.row.coverage.mean, ".1f")), *paper("coverage", ".1f", MEDIUM),
        _Column("width", lambda j: "inf" if j.row.infinite_widths else _told(j.row.width.mean, ".3f")),
        _Column("± sd", lambda j: _told(j.row.width.sd, ".3f"), MEDIUM),
        *(extra for column in paper("width", ".4g") for extra in (column, _Column("diff", _width_gap))),
    ]  # fmt: skip
    if comparison.by_reading:
        columns.append(_Column("reading", lambda j: _told(j.paper.get("reading", {}).get("width"), ".4g")))
    if "quantile" in figures:
        columns += [
            _Column("|q-q*|", lambda j: _told(j.row.quantile_deviation.mean, ".3f")),
            _Column("± sd", lambda j: _told(j.row.quantile_deviation.sd, ".3f"), MEDIUM),
            _Column("reading", lambda j: _told(j.paper.get("reading", {}).get("quantile_deviation"), ".2f")),
        ]
    if "energy" in figures:
        columns += [
            _Column("energy", lambda j: _told(j.row.injected_energy.mean, ".3f")),
            *paper("injected_energy", ".3g"),
        ]
    columns += [
        _Column("MSE dB", lambda j: _told(j.row.a_posteriori_mse_db, ".2f"), WIDE),
        *paper("a_posteriori_mse_db", ".2f", WIDE),
        _Column("caught", lambda j: _told(j.row.true_positives, ".3g")),
        _Column("accused", lambda j: _told(j.row.false_positives, ".2g"), MEDIUM),
        _Column("B/round", lambda j: f"{j.row.bytes_up_per_round:.0f}", WIDE),
    ]
    return columns + [_Column("verdict", lambda j: _verdict(j, notes))] * bool(comparison.source)


def show(comparison: Comparison, out: Console, files: Sequence[Path] = ()) -> None:
    """Print an experiment: table, notes, statements, where its numbers come from and where they are kept."""
    result = comparison.result
    out.print()
    out.print(Text(f"{result.experiment}: {result.title}", style="bold"))
    out.print(comparison_table(comparison, out.width))
    if comparison.source:
        out.print(f"paper: {comparison.source}; {_tally(comparison)}")
    for verdict, mark in _note_numbers(comparison).items():
        out.print(f"  [{mark}] {verdict}")
    for statement in comparison.statements:
        out.print(Text(f"  {statement.text}: {statement.verdict}", style=COLOURS.get(statement.status, "")))
    infinite = sum(judged.row.infinite_widths > 0 for judged in comparison.rows)
    if infinite:
        out.print(
            f"infinite widths in {infinite} rows: too few scores for this confidence_level; "
            "raise samples or lower the level"
        )
    out.print(
        f"{result.trials} trials, seed {result.seed}, engine {result.engine} ({result.engine_reason}), "
        f"{result.seconds:.1f} s, {result.cpu_seconds:.1f} s of CPU"
    )
    if files:
        out.print(f"saved in {files[0].parent}: {', '.join(path.name for path in files)}")


def listing(experiments: Sequence[Experiment]) -> Table:
    """Lay out the catalogue."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("name", "what it shows", "trials", "rows"):
        table.add_column(
            name, justify="right" if name in ("trials", "rows") else "left", no_wrap=name != "what it shows"
        )
    for experiment in experiments:
        rows = len(experiment.setup.attacks) * len(experiment.setup.methods)
        table.add_row(experiment.name, experiment.title, str(experiment.trials), str(rows))
    return table


def _width_gap(judged: Judged) -> str:
    published, ours = judged.paper.get("width"), judged.row.width.mean
    return f"{100 * (ours / published - 1):+.1f}%" if published and ours else ""


def _verdict(judged: Judged, notes: Mapping[str, int]) -> Text:
    word = "not reproduced" if judged.status == "known" else judged.status
    mark = f" [{notes[judged.verdict]}]" if judged.verdict in notes else ""
    return Text(word + mark, style=COLOURS.get(judged.status, ""))


def _note_numbers(comparison: Comparison) -> dict[str, int]:
    """Number the verdicts that need more than a word, in order of appearance."""
    long = dict.fromkeys(j.verdict for j in comparison.rows if j.verdict not in ("", "reproduced"))
    return {verdict: place for place, verdict in enumerate(long, 1)}


def _tally(comparison: Comparison) -> str:
    words: dict[Status, str] = {
        "reproduced": "{} rows reproduced", "undecided": "{} undecided (more trials decide)",
        "not settled": "{} not settled", "known": "{} known not to reproduce", "differs": "{} DIFFER",
    }  # fmt: skip
    return ", ".join(text.format(comparison.count(s)) for s, text in words.items() if comparison.count(s))


def _told(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def bar(value: float, largest: float, cells: int = 24) -> str:
    """Return a bar of eighths of a character cell, `cells` long for the largest value."""
    eighths = max(1, round(8 * cells * value / largest))
    return "█" * (eighths // 8) + ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")[eighths % 8]


def attack_title(label: str) -> str:
    """Return an attack's name as a heading."""
    return f"attack: {label}" if "," in label else f"{label} attack"


def row_name(row: Row) -> str:
    """Return a row's method with its sharing ratio, where it shares."""
    if row.share == 0:
        return row.label
    return f"{row.method} ({told_share(row.share)})" + (f", {row.variant}" if row.variant else "")
