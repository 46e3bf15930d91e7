"""The picture of a table: every method's width over the floor, the paper's beside it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from math import isfinite
from typing import Any, Final

from prism_fcp.lab import palette
from prism_fcp.lab.clients import ClientView
from prism_fcp.lab.compare import NOISE, Comparison, Judged
from prism_fcp.lab.result import Row
from prism_fcp.lab.tables import attack_title, plain, row_name

OFF: Final = 0.4  # points of coverage from which, beyond noise, a row is coloured as missing its level
FAR: Final = 0.05  # from this part of the published width on, ours is another number
STEPS: Final = tuple(round(m * 10.0**e, 9) for e in range(-6, 7) for m in (1, 2, 4, 6))


def widths(figure: Any, comparison: Comparison, clients: Sequence[ClientView]) -> None:
    """Draw every method's width over the floor, one panel an attack, the paper's beside it and coverage written on."""
    attacks = list(dict.fromkeys(judged.row.attack_label for judged in comparison.rows))
    rows = {attack: [j for j in comparison.rows if j.row.attack_label == attack] for attack in attacks}
    names = [textwrap.fill(row_name(judged.row), 32) for judged in rows[attacks[0]]]
    figure.set_size_inches(max(5.4, 2.4 + 3.0 * len(attacks)), 2.1 + 0.34 * len(names))
    panels = figure.subplots(1, len(attacks), sharex=True, sharey=True, squeeze=False)[0]
    level = 100 * float(comparison.result.spec["calibration"]["confidence_level"])
    shown = [wide for judged in comparison.rows if (wide := drawable(judged.row)) is not None]
    published = [float(j.paper["width"]) for j in comparison.rows if "width" in j.paper]
    low, high = (min(shown + published) * 0.85, max(shown + published)) if shown else (0.1, 1.0)
    for panel, attack in zip(panels, attacks, strict=True):
        floor, local = _reference(rows[attack], "Floor"), _reference(rows[attack], "Local")
        for place, judged in enumerate(rows[attack]):
            _row(panel, judged, place, floor or low, level)
        for value, colour, style in ((floor, palette.FLOOR, "-"), (local, palette.LOCAL, "--")):
            if value is not None:
                panel.axvline(value, color=colour, ls=style, lw=1.1, zorder=1)
        panel.set_title(textwrap.fill(attack_title(attack), 36))
        panel.set_xscale("log")
        panel.set_xlim(low, high * max(1.25, (high / low) ** 0.38))  # room for the coverage
        panel.set_xlabel("interval width (log scale)")
        log_ticks(panel, low, high)
        panel.grid(axis="y", visible=False)
    panels[0].set_yticks(range(len(names)), names)
    panels[0].set_ylim(len(names) - 0.5, -0.6)
    _legend(figure, _width_keys(comparison, rows[attacks[0]], level))
    left_out = len(comparison.rows) - len(shown)
    headline(
        figure, comparison.result.title,
        f"{comparison.result.trials} trials; coverage of honest clients at the right, target {level:g} %"
        + (f"; {left_out} of {len(comparison.rows)} rows have no finite positive width to draw" if left_out else ""),
    )  # fmt: skip


def drawable(row: Row) -> float | None:
    """Return a row's width where it can stand on a logarithmic axis."""
    wide = row.width.mean
    return wide if wide is not None and isfinite(wide) and wide > 0 else None


def log_ticks(panel: Any, low: float, high: float, steps: Sequence[float] = STEPS) -> None:
    """Mark a logarithmic x axis in plain numbers, a dozen at most."""
    ticks = [tick for tick in steps if low <= tick <= high]
    ticks = ticks[:: -(-len(ticks) // 8)] if ticks else []
    panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    panel.minorticks_off()


def headline(figure: Any, title: str, about: str) -> None:
    """Write a picture's title, a user's own text, in as many lines as its width needs, and what it is of below."""
    letters = max(30, int(figure.get_figwidth() * (6 if any(letter > "\u2e80" for letter in title) else 11)))
    lines = textwrap.wrap(plain(title, 3 * letters), letters) + textwrap.wrap(about, letters)
    figure.suptitle("\n".join(lines), fontsize=10)


def _row(panel: Any, judged: Judged, place: int, start: float, level: float) -> None:
    row, wide = judged.row, drawable(judged.row)
    off = _off(row, level)
    colour = palette.BAD if off else palette.HONEST
    if wide is None:
        panel.annotate(
            "infinite" if row.infinite_widths else "no width", (0.03, place), xycoords=("axes fraction", "data"),
            va="center", fontsize=7.5, fontstyle="italic", color=palette.FLOOR,
        )  # fmt: skip
    else:
        panel.plot([start, wide], [place, place], color=colour, alpha=0.35, lw=4, solid_capstyle="butt")
        panel.errorbar(
            wide, place, xerr=row.width.sd or 0, fmt="o", ms=5, color=colour, ecolor=colour, elinewidth=1, capsize=2,
            zorder=3,
        )  # fmt: skip
    if "width" in judged.paper:
        edge = palette.FLOOR if _far(judged) else palette.PAPER
        style = "--" if _far(judged) else "-"
        if wide is not None and _far(judged):
            panel.plot([wide, judged.paper["width"]], [place, place], color=edge, lw=0.8, ls=":", zorder=2)
        panel.scatter(
            judged.paper["width"], place, marker="D", facecolors="none", edgecolors=edge, s=46, linestyles=style,
            zorder=4,
        )  # fmt: skip
    if row.coverage.mean is not None:
        panel.annotate(
            f"{row.coverage.mean:.1f} %", (1.0, place), xycoords=("axes fraction", "data"), ha="right", va="center",
            fontsize=7.5, color=colour, fontweight="bold" if off else "normal",
        )  # fmt: skip


def _off(row: Row, level: float) -> bool:
    """Return whether coverage misses its level by more than `OFF` and more than noise explains."""
    if row.coverage.mean is None or row.coverage.se is None:
        return False
    return abs(row.coverage.mean - level) > max(OFF, NOISE * row.coverage.se)


def _far(judged: Judged) -> bool:
    """Return whether the published width is one that does not come out."""
    ours, paper = judged.row.width.mean, judged.paper.get("width")
    excused = judged.status in ("known", "not settled", "differs")
    return excused and paper is not None and ours is not None and abs(ours / paper - 1) > FAR


def _width_keys(comparison: Comparison, rows: Sequence[Judged], level: float) -> list[tuple[str, dict[str, Any]]]:
    diamond: dict[str, Any] = {"marker": "D", "mfc": "none", "ms": 7}
    keys: list[tuple[str, dict[str, Any]]] = [
        ("ours, mean ± sd", {"color": palette.HONEST, "marker": "o"}),
    ]
    if any(_off(judged.row, level) for judged in comparison.rows):
        text = f"ours, coverage off {level:g} % by more than {OFF:g} and {NOISE:g} standard errors"
        keys.append((text, {"color": palette.BAD, "marker": "o"}))
    if comparison.source:
        keys.append(("paper", {"color": palette.PAPER, "ls": "", **diamond}))
    if any(_far(judged) for judged in comparison.rows):
        text = f"paper, a value that does not come out (off by more than {100 * FAR:g} %; see the table's verdict)"
        keys.append((text, {"color": palette.FLOOR, "ls": ":", **diamond}))
    if _reference(rows, "Floor") is not None:
        what = "trained centrally on all honest rows" if "data" in comparison.result.spec else "the true model"
        keys.append((f"floor: {what}", {"color": palette.FLOOR}))
    if _reference(rows, "Local") is not None:
        keys.append(("local: clients that never share", {"color": palette.LOCAL, "ls": "--"}))
    return keys


def _legend(figure: Any, keys: list[tuple[str, dict[str, Any]]]) -> None:
    from matplotlib.lines import Line2D

    columns = 3 if figure.get_figwidth() > 10 else 1
    figure.legend(
        [Line2D([], [], **style) for _, style in keys], [name for name, _ in keys], loc="outside lower center",
        ncols=columns,
    )  # fmt: skip


def _reference(rows: Sequence[Judged], method: str) -> float | None:
    return next((drawable(judged.row) for judged in rows if judged.row.method == method), None)
