"""The picture of a table: every method's width over the floor, the paper's beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from prism_fcp.lab import palette
from prism_fcp.lab.clients import ClientView
from prism_fcp.lab.compare import Comparison, Judged
from prism_fcp.lab.tables import attack_title, row_name

OFF: Final = 0.4  # points of coverage from which a row is coloured as missing its level


def widths(figure: Any, comparison: Comparison, clients: Sequence[ClientView]) -> None:
    """Draw every method's width over the floor, one panel an attack, the paper's beside it and coverage written on."""
    attacks = list(dict.fromkeys(judged.row.attack_label for judged in comparison.rows))
    rows = {attack: [j for j in comparison.rows if j.row.attack_label == attack] for attack in attacks}
    names = [row_name(judged.row) for judged in rows[attacks[0]]]
    figure.set_size_inches(2.4 + 3.0 * len(attacks), 1.9 + 0.34 * len(names))
    panels = figure.subplots(1, len(attacks), sharex=True, sharey=True, squeeze=False)[0]
    level = 100 * float(comparison.result.spec["calibration"]["confidence_level"])
    shown = [j.row.width.mean for j in comparison.rows if j.row.width.mean]
    low = min(shown) * 0.85
    for panel, attack in zip(panels, attacks, strict=True):
        floor, local = _reference(rows[attack], "Floor"), _reference(rows[attack], "Local")
        for place, judged in enumerate(rows[attack]):
            row = judged.row
            if row.width.mean is None:
                continue
            off = abs((row.coverage.mean or 0) - level) > OFF
            colour = palette.BAD if off else palette.HONEST
            panel.plot(
                [floor or low, row.width.mean], [place, place], color=colour, alpha=0.35, lw=4, solid_capstyle="butt"
            )
            panel.errorbar(
                row.width.mean, place, xerr=row.width.sd or 0, fmt="o", ms=5, color=colour, ecolor=colour,
                elinewidth=1, capsize=2, zorder=3,
            )  # fmt: skip
            if "width" in judged.paper:
                panel.plot(
                    judged.paper["width"], place, marker="D", mfc="none", mec=palette.PAPER, ms=7, ls="", zorder=4
                )
            panel.annotate(
                f"{row.coverage.mean:.1f} %", (1.0, place), xycoords=("axes fraction", "data"), ha="right",
                va="center", fontsize=7.5, color=colour, fontweight="bold" if off else "normal",
            )  # fmt: skip
        for value, colour, style in ((floor, palette.FLOOR, "-"), (local, palette.LOCAL, "--")):
            if value is not None:
                panel.axvline(value, color=colour, ls=style, lw=1.1, zorder=1)
        panel.set_title(attack_title(attack))
        panel.set_xscale("log")
        panel.set_xlim(low, max(shown) * 3.2)
        ticks = [t for t in (0.1, 0.2, 0.4, 0.6, 1, 2, 4, 8, 16, 32) if low <= t <= max(shown) * 1.5]
        panel.set_xticks(ticks, [f"{t:g}" for t in ticks])
        panel.minorticks_off()
        panel.set_xlabel("interval width (log scale)")
        panel.grid(axis="y", visible=False)
    panels[0].set_yticks(range(len(names)), names)
    panels[0].set_ylim(len(names) - 0.5, -0.6)
    _legend(figure, _width_keys(comparison, rows[attacks[0]], level))
    figure.suptitle(
        f"{comparison.result.title}\n{comparison.result.trials} trials; coverage of honest clients at the right, "
        f"target {level:g} %",
        fontsize=10,
    )


def _width_keys(comparison: Comparison, rows: Sequence[Judged], level: float) -> list[tuple[str, dict[str, Any]]]:
    keys: list[tuple[str, dict[str, Any]]] = [
        ("ours, mean ± sd", {"color": palette.HONEST, "marker": "o"}),
    ]
    if any(abs((judged.row.coverage.mean or 0) - level) > OFF for judged in comparison.rows):
        keys.append((f"ours, coverage off {level:g} % by more than {OFF:g}", {"color": palette.BAD, "marker": "o"}))
    if comparison.source:
        keys.append(("paper", {"color": palette.PAPER, "marker": "D", "mfc": "none", "ms": 7, "ls": ""}))
    if _reference(rows, "Floor") is not None:
        keys.append(("floor: the true model", {"color": palette.FLOOR}))
    if _reference(rows, "Local") is not None:
        keys.append(("local: clients that never share", {"color": palette.LOCAL, "ls": "--"}))
    return keys


def _legend(figure: Any, keys: list[tuple[str, dict[str, Any]]]) -> None:
    from matplotlib.lines import Line2D

    figure.legend(
        [Line2D([], [], **style) for _, style in keys], [name for name, _ in keys], loc="outside lower center", ncols=3
    )


def _reference(rows: Sequence[Judged], method: str) -> float | None:
    return next((judged.row.width.mean for judged in rows if judged.row.method == method), None)
