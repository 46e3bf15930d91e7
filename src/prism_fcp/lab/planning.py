"""The command `plan`: ask the planner, print its table, draw its curve, write its JSON."""

from __future__ import annotations

import sys
from argparse import Namespace
from functools import partial
from math import log10
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from prism_fcp import io
from prism_fcp.data.synthetic import SyntheticLinear
from prism_fcp.errors import SettingError, counted
from prism_fcp.lab import palette, tables
from prism_fcp.lab.figures import draw_one
from prism_fcp.lab.plots_tables import headline
from prism_fcp.theory.planner import Plan
from prism_fcp.theory.planner import plan as planned
from prism_fcp.train.settings import Federation, Masks
from prism_fcp.types import Choice

_PLOT_REMEDY = "give --plot another file"


def plan(options: Namespace) -> int:
    """Answer before training."""
    answer = ask(options)
    if options.plot is not None:
        if not answer.curve:
            raise SettingError(f"--plot: there is no curve for rule {options.rule!r}, only for 'mean'; leave it out")
        draw_one(partial(draw_curve, answer=answer), options.plot, _PLOT_REMEDY)
    if options.json is not None:
        text = io.to_json(answer.to_json(), ascii_only=True)
        if options.json == "-":
            sys.stdout.write(text)
        else:
            io.write_text(Path(options.json), text, "give --json another file")
    out = tables.console(stderr=options.json == "-")
    out.print(table(answer, options))
    for note in answer.notes:
        out.print(f"note: {note}")
    if options.plot is not None:
        out.print(f"drawn: {options.plot}")
    return 0


def ask(options: Namespace) -> Plan:
    """Return the plan for the options of the command line."""
    step = options.step_size
    best = step == "best"
    size = Federation(
        num_clients=options.clients, dimension=options.dimension, num_participants=options.participants,
        num_byzantine=options.byzantine, rounds=options.rounds, step_size=1.0 if best else _number("--step-size", step),
        attack=Choice("gaussian", {"variance": options.attack_variance, "probability": options.attack_probability}),
        idle_learning=not options.idle_rests,
    )  # fmt: skip
    if options.num_shared is not None and options.share is not None:
        raise SettingError("--share and --num-shared say the same; give one of them")
    shared = options.num_shared
    if shared is None:
        share = 1.0 if options.share is None else options.share
        if not 0 < share <= 1:
            raise SettingError(f"--share {share}; must be above 0 and at most 1 (M/D)")
        shared = max(1, round(share * options.dimension))
    masks = Masks(num_shared=shared, coordination=options.masks, download=options.download)
    law = SyntheticLinear(
        means=tuple(options.means), variances=tuple(options.variances), noise_variances=tuple(options.noise)
    )
    return planned(
        size, masks, law, rule=options.rule, scoring_model=options.scoring_model, confidence_level=options.level,
        samples=options.samples, bins=options.bins, best_step=best, wanted_coverage=options.wanted_coverage,
        liars=options.liars, guard=options.guard,
    )  # fmt: skip


def table(answer: Plan, options: Namespace) -> Table:
    """Lay the answer out, one line a question."""
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, title_justify="left")
    for name in ("question", "answer", "made of"):
        shown.add_column(name, overflow="fold")
    for line in _lines(answer, options):
        shown.add_row(*line)
    return shown


def _lines(answer: Plan, options: Namespace) -> list[tuple[str, str, str]]:
    level = f"{100 * options.level:g} %"
    found = [
        ("figures are", answer.source, ""),
        ("interval width, attackers left out", f"{answer.width:.3f}", f"level {level}; {_versus(answer)}"),
    ]
    for one in answer.unfiltered:
        told = f"coverage {100 * one.coverage:.1f} %"
        found.append((f"  nobody left out, {one.attack} attack", f"{one.width:.3f}", told))
    found += [
        ("deviation of local models", _energy(answer.local_deviation), _parts(answer.local)),
        ("deviation of the global model", _energy(answer.server_deviation), _parts(answer.server)),
    ]
    if answer.error is not None:
        found.append(("squared error of predictions", _energy(answer.error.total), _parts(answer.error, "irreducible")))
    if answer.rounds is not None:
        found.append(("rounds to settle within 0.5 dB", f"{answer.rounds:,}", "from models of zero"))
    sent = f"{answer.bytes_down:,.0f} down; {answer.num_shared:,} coordinates a participant"
    found.append(("bytes up a round, all participants", f"{answer.bytes_up:,.0f}", sent))
    found.append(
        ("step size", f"{answer.step_size:.4g}", f"converges below {answer.limit:.4g}" if answer.limit else "")
    )
    if answer.best_step_size is not None and answer.best_deviation is not None:
        width = "" if answer.best_width is None else f", width {answer.best_width:.3f}"
        told = f"deviation {_energy(answer.best_deviation)}{width}"
        found.append(("best step size under this attack", f"{answer.best_step_size:.4g}", told))
    found += _sharing(answer)
    found.append((
        f"guard against {100 * answer.guard:g} % lies", f"x {answer.guard_price:.3f}", "the width grows by this factor"
    ))  # fmt: skip
    if answer.certificate_samples is not None:
        kept = f"{counted(options.liars, 'liar')} kept, at 95 % confidence"
        told = f"to certify {100 * options.wanted_coverage:g} % with {kept}"
        found.append(("calibration scores a client", f"{answer.certificate_samples:,}", told))
    found.append(("histogram bins", f"{answer.bins}", "rounding up then costs at most 1 % of coverage"))
    for case in answer.detection:
        name = f"thm:detection, {case.attack} attack"
        found.append(_needed(name, case.bins, case.samples, case.best_bins, case.best_samples, "; clients alike"))
        unlike = (case.unlike_samples, case.unlike_best_bins, case.unlike_best_samples)
        found.append(_needed("  for clients unlike as these", case.bins, *unlike))
    return found


def _needed(
    name: str, bins: int, count: int | None, best: int | None, least: int | None, more: str = ""
) -> tuple[str, str, str]:
    fewest = "" if least is None or best == bins else f"; {least:,} with {best}"
    return name, "never" if count is None else f"{count:,} scores a client", f"with {bins} bins{fewest}{more}"


def _sharing(answer: Plan) -> list[tuple[str, str, str]]:
    if answer.narrowest is None:
        return []
    first = answer.narrowest == answer.curve[0]
    why = "; more bytes only widen them" if first else ""
    told = f"{answer.narrowest.bytes_up:,.0f} bytes a round for a width of {answer.narrowest.width:.3f}{why}"
    found = [("narrowest intervals", f"M = {answer.narrowest.num_shared:,}", told)]
    if answer.knee is not None:
        told = f"{answer.knee.bytes_up:,.0f} bytes a round for a width of {answer.knee.width:.3f}"
        found.append(("knee of width against bytes", f"M = {answer.knee.num_shared:,}", told))
    elif not first:
        found.append(("knee of width against bytes", "none", "the width falls nearly along a line"))
    return found


def draw_curve(figure: Any, answer: Plan) -> None:
    """Draw the predicted width against the bytes that all participants upload in a round."""
    figure.set_size_inches(6.8, 4.8)
    panel = figure.subplots()
    xs, ys = [point.bytes_up for point in answer.curve], [point.width for point in answer.curve]
    panel.axhline(answer.floor, color=palette.FLOOR, lw=1.2, label="Floor: the true model")
    if answer.alone < 3 * max(ys):
        panel.axhline(answer.alone, color=palette.LOCAL, ls="--", lw=1.2, label="Local: clients that never share")
    panel.plot(xs, ys, "-o", color=palette.OURS, ms=5, lw=1.4, label="predicted")
    for point in answer.curve:
        if point.num_shared == answer.num_shared:
            panel.plot([point.bytes_up], [point.width], "s", color=palette.BYZANTINE, ms=8, label="asked for")
    for place, (name, marked) in enumerate((("knee", answer.knee), ("narrowest", answer.narrowest))):
        if marked is not None:
            side = -1 if marked.bytes_up > max(xs) / 2 else 1  # towards the middle
            panel.annotate(
                f"{name}: M = {marked.num_shared:,}", (marked.bytes_up, marked.width), fontsize=8,
                xytext=(18 * side, -30 - 14 * place), textcoords="offset points",
                ha="left" if side > 0 else "right", arrowprops={"arrowstyle": "-", "lw": 0.7},
            )  # fmt: skip
    panel.set_ylim(bottom=0)
    panel.set_xlim(left=0)
    panel.set_xlabel("bytes all participants upload in a round")
    panel.set_ylabel("interval width")
    figure.legend(*panel.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    headline(figure, "Width against bytes, predicted", "A knee is the point farthest from the line to the narrowest")


def _versus(answer: Plan) -> str:
    alone = "clients alone diverge" if answer.alone == float("inf") else f"clients alone {answer.alone:.3f}"
    return f"true model {answer.floor:.3f}, {alone}"


def _energy(value: float) -> str:
    return f"{value:.4g} ({10 * log10(value):.2f} dB)" if value > 0 else "0"


def _parts(parts: Any, last: str = "") -> str:
    if parts is None:
        return ""
    more = f" + {last} {parts.irreducible:.3g}" if last else ""
    return f"noise {parts.noise:.3g} + Byzantine {parts.byzantine:.3g}{more}"


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise SettingError(f"{name} {text!r}; must be a number, or best") from None
