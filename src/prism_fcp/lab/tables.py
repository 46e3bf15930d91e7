"""Tables for terminals and pipes: ours beside the paper's, the difference, and a verdict a row."""

from __future__ import annotations

import os
import re
import sys
import textwrap
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from prism_fcp.lab.compare import Comparison, Judged, Status
from prism_fcp.lab.result import Result, Row
from prism_fcp.lab.spec import Experiment, told_share

PIPE_WIDTH: Final = 142  # where there is no terminal
MEDIUM: Final = 112
NAME_WIDTH: Final = 18  # to which the first column may shrink; longer names then take two lines
NAME_LIMIT: Final = 60  # letters of a name that are shown at all
_OPEN: Final = "dark_orange3"  # yellow cannot be read on white
COLOURS: Final[dict[Status, str]] = {
    "reproduced": "green", "undecided": _OPEN, "not settled": _OPEN, "known": _OPEN, "differs": "bold red",
}  # fmt: skip
SHORT: Final[dict[Status, str]] = {
    "": "", "reproduced": "yes", "undecided": "open", "not settled": "open", "known": "no", "differs": "NO",
}  # fmt: skip
MEANING: Final = {
    "yes": "reproduced", "open": "undecided or not settled", "no": "known not to reproduce", "NO": "differs",
}  # fmt: skip
# What a table gives up, one after the other, until it fits; a number that stays is never cut.
GIVEN_UP: Final = (
    "bytes", "two counts", "MSE paper", "reading", "verdict words", "MSE", "spread", "coverage paper", "counts",
    "wide gaps", "difference", "other paper", "width paper",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Column:
    """A column: its heading and what stands in it."""

    name: str
    cell: Callable[[Judged], str | Text]

    def width(self, rows: Sequence[Judged]) -> int:
        told = [str(self.cell(judged)) for judged in rows]
        return max(map(cell_len, [*self.name.split("\n"), *told]), default=0)


def console(*, stderr: bool = False) -> Console:
    """Return a console; where there is no terminal, plain text of a fixed width."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or os.environ.get("COLUMNS") else PIPE_WIDTH
    return Console(file=stream, width=width, highlight=False, markup=False, soft_wrap=False)


def comparison_table(comparison: Comparison, width: int) -> Table:
    """Lay out an experiment's rows; a narrow terminal gets fewer columns, never a cut number."""
    first, rest, gap = _fitting(comparison, width)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, gap - 1, 0, 0), show_edge=False)
    spared = width - sum(column.width(comparison.rows) + gap for column in rest)
    table.add_column(first.name, overflow="fold", max_width=max(spared, 8))
    for column in rest:
        table.add_column(
            column.name, justify="left" if column.name == "verdict" else "right", no_wrap=True,
            min_width=column.width(comparison.rows), style="italic" if column.name == "paper" else "",
        )  # fmt: skip
    last = None
    for judged in comparison.rows:
        if judged.row.attack_label != last:
            last = judged.row.attack_label
            table.add_section()
            table.add_row(Text(attack_title(last), style="bold"))
        table.add_row(*(column.cell(judged) for column in (first, *rest)))
    return table


def _fitting(comparison: Comparison, width: int) -> tuple[_Column, list[_Column], int]:
    """Return the columns that fit, the first apart, and the space between them."""
    rows = comparison.rows
    titles = max((len(attack_title(judged.row.attack_label)) for judged in rows), default=0)
    for given_up in range(len(GIVEN_UP) + 1):
        gone = frozenset(GIVEN_UP[:given_up])
        first, *rest = _columns(comparison, gone)
        gap = 1 if "wide gaps" in gone else 2
        names = max(first.width(rows), titles)
        if min(names, NAME_WIDTH) + sum(column.width(rows) + gap for column in rest) <= width:
            break
    return first, rest, gap


def _columns(comparison: Comparison, gone: frozenset[str]) -> list[_Column]:
    figures, notes, weighing = comparison.result.spec["figures"], _note_numbers(comparison), _weighing(comparison)

    def paper(name: str, form: str, kind: str) -> list[_Column]:
        given = any(name in judged.paper for judged in comparison.rows) and kind not in gone
        return [_Column("paper", lambda j: _told(j.paper.get(name), form))] if given else []

    def reading(name: str, form: str) -> list[_Column]:
        given = any(name in judged.paper.get("reading", {}) for judged in comparison.rows) and "reading" not in gone
        return [_Column("reading", lambda j: _told(j.paper.get("reading", {}).get(name), form))] if given else []

    def spread(take: Callable[[Row], float | None]) -> list[_Column]:
        return [_Column("± sd", lambda j: _told(take(j.row), ".3f"))] * ("spread" not in gone)

    def left_out(judged: Judged, count: float, form: str) -> str:
        return "-" if judged.row.key in weighing else _told(count, form)

    columns = [
        _Column("method", lambda j: plain(j.row.label)),
        _Column("M/D", lambda j: told_share(j.row.share)),
        _Column("cover %", lambda j: _told(j.row.coverage.mean, ".1f")), *paper("coverage", ".1f", "coverage paper"),
        _Column("width", lambda j: "inf" if j.row.infinite_widths else _told(j.row.width.mean, ".3f")),
        *spread(lambda row: row.width.sd), *(gauge := paper("width", ".4g", "width paper")),
        *[_Column("diff", _width_gap)] * (bool(gauge) and "difference" not in gone),
    ]  # fmt: skip
    if comparison.by_reading:
        columns += reading("width", ".4g")
    if "quantile" in figures:
        columns += [
            _Column("|q-q*|", lambda j: _told(j.row.quantile_deviation.mean, ".3f")),
            *spread(lambda row: row.quantile_deviation.sd), *reading("quantile_deviation", ".2f"),
        ]  # fmt: skip
    if "energy" in figures:
        columns += [_Column("energy", lambda j: _told(j.row.injected_energy.mean, ".3f"))]
        columns += paper("injected_energy", ".3g", "other paper")
    if "data" in comparison.result.spec:
        if "MSE" not in gone:
            columns += [_Column("test dB", lambda j: _told(j.row.test_mse_db_spread.mean, ".2f"))]
            columns += spread(lambda row: row.test_mse_db_spread.sd) + paper("test_mse_db", ".2f", "MSE paper")
        if "missed" in figures:
            columns += [_Column("missed", lambda j: _told(j.row.missed.mean, ".2f"))]
            columns += spread(lambda row: row.missed.sd) + paper("missed", ".2f", "other paper")
    elif "MSE" not in gone:
        columns += [_Column("MSE dB", lambda j: _told(j.row.a_posteriori_mse_db, ".2f"))]
        columns += paper("a_posteriori_mse_db", ".2f", "MSE paper")
    caught = _Column("caught", lambda j: left_out(j, j.row.true_positives, ".3g"))
    accused = _Column("accused", lambda j: left_out(j, j.row.false_positives, ".2g"))
    if "two counts" not in gone:
        columns += [caught, accused]
    elif "counts" not in gone:
        columns.append(_Column("caught+\naccused", lambda j: "+".join(str(c.cell(j)) for c in (caught, accused))))
    if "bytes" not in gone:
        columns.append(_Column("B/round", lambda j: f"{j.row.bytes_up_per_round:.0f}"))
    short = "verdict words" in gone
    return columns + [_Column("verdict", lambda j: _verdict(j, notes, short=short))] * bool(comparison.source)


def show(comparison: Comparison, out: Console, files: Sequence[Path] = ()) -> None:
    """Print an experiment: table, notes, statements, where its numbers come from and where they are kept."""
    result = comparison.result
    out.print()
    out.print(Text(f"{plain(result.experiment, 200)}: {plain(result.title, 300)}", style="bold"))
    out.print(comparison_table(comparison, out.width))
    if comparison.source:
        out.print(f"paper: {comparison.source}; {_tally(comparison)}")
        shown = {column.name: column for column in _fitting(comparison, out.width)[1]}["verdict"]
        words = dict.fromkeys(str(shown.cell(judged)).split(" [")[0] for judged in comparison.rows)
        if told := [f"{word} = {MEANING[word]}" for word in words if word in MEANING]:
            out.print(f"verdict: {', '.join(told)}")
    elif comparison.changed:
        out.print(f"the settings differ from the packaged {result.experiment}'s, so nothing is compared")
    for verdict, mark in _note_numbers(comparison).items():
        out.print(
            textwrap.fill(
                f"  [{mark}] {verdict}", max(out.width, 20), subsequent_indent=" " * 6, break_on_hyphens=False
            )
        )
    for statement in comparison.statements:
        out.print(Text(f"  {statement.text}: {statement.verdict}", style=COLOURS.get(statement.status, "")))
    infinite = sum(judged.row.infinite_widths > 0 for judged in comparison.rows)
    if infinite:
        out.print(
            f"infinite widths in {infinite} rows: too few scores for this confidence_level; "
            "raise samples or lower the level"
        )
    clipped = sum(judged.row.clipped_widths > 0 for judged in comparison.rows)
    if clipped:
        out.print(
            f"widths cut at the range's end in {clipped} rows: their intervals may cover too little; "
            'take a wider range or beyond_range = "exact"'
        )
    if _weighing(comparison):
        out.print('"-" under caught and accused: down_weight leaves nobody out, it gives less weight')
    out.print(
        f"{result.trials} trials, seed {result.seed}, {engine_words(result)}, "
        f"{result.seconds:.1f} s, {result.cpu_seconds:.1f} s of CPU"
    )
    tell_ledgers(result, out)
    if files:
        out.print(f"saved in {files[0].parent}: {', '.join(path.name for path in files)}")


def tell_ledgers(result: Result, out: Console) -> None:
    """Say whom each training with a ledger left out in the first trial, one of them in words, and the mean over all."""
    for ledger in result.ledgers:
        entries = [entry for entry in ledger["left_out"] if entry["now"]]
        told = [
            f"{what} {', '.join(str(entry['client']) for entry in entries if entry['byzantine'] is bad) or 'none'}"
            for what, bad in (("Byzantine", True), ("honest", False))
        ]
        lines = [
            f"{plain(ledger['method'])}: left out when training ended, trial {ledger['trial'] + 1}: {'; '.join(told)}"
        ]
        means = {
            (row.training_true_positives, row.training_false_positives)
            for row in result.rows
            if method_name(row) == ledger["method"] and row.training_true_positives is not None
        }
        if result.trials > 1 and len(means) == 1:
            caught, accused = means.pop()
            byzantine = result.spec["federation"]["num_byzantine"]
            lines.append(
                f"  mean of {result.trials} trials: {caught:.3g} of {byzantine} Byzantine, {accused:.2g} honest"
            )
        lines += [f"  for example, {plain(entries[0]['reason'], 300)}"] if entries else []
        for line in lines:
            out.print(textwrap.fill(line, max(out.width, 20), subsequent_indent="    ", break_on_hyphens=False))


def method_name(row: Row) -> str:
    """Return the name that the row's method goes by in an experiment."""
    name = f"{row.method} {told_share(row.share)}" if row.share else row.method
    return f"{name}, {row.variant}" if row.variant else name


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


def engine_words(result: Result) -> str:
    """Return engine and reason in plain words; the counted steps stay in result.json."""
    name = {"readable": "NumPy engine", "compiled": "compiled engine"}.get(result.engine, f"engine {result.engine}")
    reason = re.sub(r" \(.*?\)", "", result.engine_reason).removesuffix(": not compiled")
    return f"{name}: {reason}" if reason else name


def _weighing(comparison: Comparison) -> set[tuple[str, str, str, str, float]]:
    """Return the keys of rows whose filter gives weights and leaves nobody out."""
    methods, rows = comparison.result.spec["methods"], comparison.rows
    if len(rows) % len(methods):
        return set()
    filters = [method["filter"]["name"] for method in methods] * (len(rows) // len(methods))  # rows go attack by attack
    return {judged.row.key for judged, name in zip(rows, filters, strict=True) if name == "down_weight"}


def _width_gap(judged: Judged) -> str:
    published, ours = judged.paper.get("width"), judged.row.width.mean
    return f"{100 * (ours / published - 1):+.1f}%" if published and ours else ""


def _verdict(judged: Judged, notes: Mapping[str, int], *, short: bool) -> Text:
    word = "not reproduced" if judged.status == "known" else judged.status
    mark = f" [{notes[judged.verdict]}]" if judged.verdict in notes else ""
    return Text((SHORT[judged.status] if short else word) + mark, style=COLOURS.get(judged.status, ""))


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


def plain(text: str, longest: int = NAME_LIMIT) -> str:
    """Return a user's text fit for a terminal and a picture: one line, no control characters, not endless.

    >>> plain("a" + chr(7) + "b")
    'a b'
    >>> plain("a very long name", 9)
    'a very l…'
    """
    readable = "".join(" " if unicodedata.category(letter) in ("Cc", "Cs", "Co", "Cn") else letter for letter in text)
    line = " ".join(readable.split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def attack_title(label: str) -> str:
    """Return an attack's name as a heading."""
    label = plain(label)
    return f"attack: {label}" if "," in label else f"{label} attack"


def row_name(row: Row) -> str:
    """Return a row's method with its sharing ratio, where it shares."""
    if row.share == 0:
        return plain(row.label)
    return f"{plain(row.method, 36)} ({told_share(row.share)})" + (f", {plain(row.variant, 24)}" if row.variant else "")
