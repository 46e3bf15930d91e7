"""Pictures of sweeps: what changes with the sharing ratio, the count told to the filter, or the attack's noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite, nan
from typing import Any, Final

from prism_fcp.lab import palette
from prism_fcp.lab.clients import ClientView
from prism_fcp.lab.compare import Comparison
from prism_fcp.lab.plots_tables import headline, log_ticks
from prism_fcp.lab.result import Row, Spread
from prism_fcp.lab.spec import told_share
from prism_fcp.lab.tables import attack_title, plain, row_name

REFERENCES: Final = ("Local", "Floor")
MEASURES: Final = ("attackers caught", "honest clients accused", "coverage of honest clients (%)", "interval width")
SIZES: Final = (9.0, 6.0, 3.2)  # markers that fall on one another stay visible, one inside the other
NOISES: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)


def quantile(figure: Any, comparison: Comparison, clients: Sequence[ClientView]) -> None:
    """Draw |q - q*| against the sharing ratio."""
    figure.set_size_inches(6.8, 4.8)
    panel = figure.subplots()
    rows = _federated(comparison)
    told = [
        (j.row.share, j.paper["reading"]["quantile_deviation"])
        for j in comparison.rows
        if "quantile_deviation" in j.paper.get("reading", {})
    ]
    if told:
        panel.plot(
            *zip(*told, strict=True), "D", mfc="none", mec=palette.PAPER, ms=12, mew=1.2, zorder=2,
            label="the same, measured by an independent implementation of the paper",
        )  # fmt: skip
    method = plain(rows[0].method) if rows else "federated"
    _line(panel, rows, lambda row: row.quantile_deviation, palette.OURS, f"{method}, this run (mean ± sd over trials)")
    local = [r for r in _rows(comparison) if r.method == "Local"]
    if local and local[0].quantile_deviation.mean is not None:
        panel.axhline(
            local[0].quantile_deviation.mean, color=palette.LOCAL, ls="--", lw=1.2,
            label="Local: clients that never share",
        )  # fmt: skip
    for statement in comparison.statements:
        if statement.ours is not None and statement.paper is not None:
            panel.annotate(
                f"{100 * statement.ours:.0f} % smaller at the left end than at the right\n"
                f"(the paper says roughly {100 * statement.paper:.0f} %)",
                (0.97, 0.5), xycoords="axes fraction", ha="right",
            )  # fmt: skip
    panel.set_ylim(bottom=0)
    panel.set_xlabel("sharing ratio M/D")
    panel.set_ylabel("|q − q*|, in units of the target y")
    attack = attack_title(rows[0].attack_label) if rows else ""
    headline(
        figure, comparison.result.title,
        f"{attack}, {comparison.result.trials} trials. q: the calibrated quantile, half an interval's width; "
        "q*: the same quantile of the true model's scores",
    )  # fmt: skip
    if panel.get_legend_handles_labels()[0]:
        panel.legend(loc="lower left", bbox_to_anchor=(0.0, 0.13))


def energy(figure: Any, comparison: Comparison, clients: Sequence[ClientView]) -> None:
    """Draw the measured energy of an attacked upload beside M times the variance."""
    figure.set_size_inches(6.8, 4.6)
    panel = figure.subplots()
    rows = _federated(comparison)
    federation = comparison.result.spec["federation"]
    variance, dimension = federation["attack"].get("variance", 0.1), federation["dimension"]
    panel.plot(
        [0, 1], [0, variance * dimension], color=palette.PAPER, lw=1.2,
        label=f"paper: M times the noise's variance {variance:g}  (eq:per-iteration-attenuation)",
    )  # fmt: skip
    _line(
        panel, rows, lambda row: row.injected_energy, palette.BYZANTINE, "measured (mean ± sd over trials)", ls=""
    )  # fmt: skip
    for row in rows:
        if row.injected_energy.mean is not None:
            panel.annotate(
                f"{row.injected_energy.mean:.2f}", (row.share, row.injected_energy.mean), xytext=(7, -11),
                textcoords="offset points", fontsize=8,
            )  # fmt: skip
    panel.set_xlim(0, 1.08)
    panel.set_ylim(bottom=0)
    panel.set_xlabel(f"sharing ratio M/D  (D = {dimension})")
    panel.set_ylabel("energy of one attacked upload")
    headline(
        figure, comparison.result.title,
        f"{comparison.result.trials} trials. Energy: the squared norm of what the attack adds to one upload",
    )  # fmt: skip
    panel.legend(loc="upper left")


def count(figure: Any, comparison: Comparison, clients: Sequence[ClientView]) -> None:
    """Draw detection, coverage and width against the count the filter is told."""
    rows = [row for row in _rows(comparison) if row.method not in REFERENCES]
    methods, variants = _distinct((r.method, r.share) for r in rows), _distinct(r.variant for r in rows)
    variants.sort(key=lambda variant: not variant.startswith("told"))  # stable: those that need no count go last
    told = sum(variant.startswith("told") for variant in variants)
    at = [place + 0.9 * (place >= told > 0) for place in range(len(variants))]
    attacks = _distinct(r.attack_label for r in rows)
    true = comparison.result.spec["federation"]["num_byzantine"]
    figure.set_size_inches(13, 1.5 + 2.7 * len(methods))
    grid = figure.subplots(len(methods), 4, squeeze=False, sharex=True, sharey="col")
    level = 100 * comparison.result.spec["calibration"]["confidence_level"]
    columns: list[tuple[Callable[[Row], float | None], float | None]] = [
        (lambda r: r.true_positives, true),
        (lambda r: r.false_positives, 0),
        (lambda r: r.coverage.mean, level),
        (lambda r: r.width.mean, None),
    ]
    for line, (method, share) in zip(grid, methods, strict=True):
        for panel, what, (take, target) in zip(line, MEASURES, columns, strict=True):
            if target is not None:
                panel.axhline(target, color=palette.FLOOR, lw=1, ls=":")
            for place, attack in enumerate(attacks):
                chosen = {
                    r.variant: _number(take(r))
                    for r in rows
                    if (r.method, r.share) == (method, share) and r.attack_label == attack
                }
                values = [chosen.get(variant, nan) for variant in variants]
                style = {
                    "color": palette.attack_colour(attack), "marker": palette.MARKS[place % 7], "mfc": "none",
                    "ms": SIZES[place % 3], "lw": (3.0, 1.8, 0.9)[place % 3], "mew": 1.3,
                }  # fmt: skip
                panel.plot(at[:told], values[:told], label=attack_title(attack), **style)
                panel.plot(at[told:], values[told:], **{**style, "lw": 0}, label=None if told else attack_title(attack))
            panel.set_xticks(at, [plain(v.replace("told ", ""), 20) for v in variants], rotation=40, ha="right")
            panel.set_title(f"{plain(method, 30)} (M/D {told_share(share)})\n{what}", fontsize=9)
            if 0 < told < len(variants):
                panel.axvspan(at[told] - 0.6, at[-1] + 0.6, color="#f0f0f0", zorder=0, lw=0)
                panel.annotate(
                    "needs no count", ((at[told] + at[-1]) / 2, 0.5), xycoords=("data", "axes fraction"), ha="center",
                    va="center", rotation=90, fontsize=7.5, color=palette.FLOOR,
                )  # fmt: skip
            if not any(isfinite(_number(take(row))) for row in rows):
                _nothing(panel)
    for panel in grid[-1]:
        panel.set_xlabel(f"count told to the filter (true: {true})")
    _legend_below(figure, grid[0][0])
    about = (
        f"{comparison.result.trials} trials; marks inside one another: equal values; dotted: the true number of "
        f"attackers, none accused, {level:g} % promised"
    )
    headline(figure, comparison.result.title, about + _infinite(rows))


def noise(figure: Any, comparison: Comparison, clients: Sequence[ClientView]) -> None:
    """Draw detection, coverage and width against the random attack's standard deviation."""
    deviations = _one_grid(
        {
            (a["label"], a["variant"]): float(a.get("sd", 0.5))
            for a in comparison.result.spec["attacks"]
            if a["name"] == "random"
        }
    )
    rows = [row for row in _rows(comparison) if (row.attack, row.attack_variant) in deviations]
    methods = _distinct((r.method, r.share, r.variant) for r in rows)
    true = comparison.result.spec["federation"]["num_byzantine"]
    level = 100 * comparison.result.spec["calibration"]["confidence_level"]
    figure.set_size_inches(13, 4.5)
    panels = figure.subplots(1, 4)
    unfiltered = {m["method"] for m in comparison.result.spec["methods"] if m["filter"]["name"] == "keep_all"}
    for place, (method, share, variant) in enumerate(methods):
        own = sorted(
            (r for r in rows if (r.method, r.share, r.variant) == (method, share, variant)),
            key=lambda r: deviations[r.attack, r.attack_variant],
        )
        x = [deviations[r.attack, r.attack_variant] for r in own]
        style = {
            "color": palette.method_colour(method, place), "ls": "--" if variant else "-", "ms": 4,
            "marker": palette.MARKS[place % 7], "lw": 1.3, "label": row_name(own[0]),
            "mfc": "white" if variant else None,
        }  # fmt: skip
        if method not in unfiltered and method != "Floor":
            panels[0].plot(x, [r.true_positives for r in own], **style)
            panels[1].plot(x, [r.false_positives for r in own], **style)
        panels[2].plot(x, [_number(r.coverage.mean) for r in own], **style)
        panels[3].plot(x, [_number(r.width.mean) for r in own], **style)
    drawn = [value for value in deviations.values() if value > 0] or [0.1, 1.0]
    for panel, what in zip(panels, MEASURES, strict=True):
        panel.set_xscale("log")
        log_ticks(panel, min(drawn), max(drawn), NOISES)
        panel.set_xlabel("standard deviation of the attack's noise")
        panel.set_title(what)
        panel.axvline(0.5, color=palette.FLOOR, lw=1, ls="-.")
        above = panel.secondary_xaxis("top", functions=(lambda s: abs(s) ** 2, lambda v: abs(v) ** 0.5))
        log_ticks(above, min(drawn) ** 2, max(drawn) ** 2, [round(step**2, 9) for step in NOISES])
        above.set_xlabel("its variance", fontsize=8)
    for panel, target in zip(panels, (true, 0, level), strict=False):
        panel.axhline(target, color=palette.FLOOR, lw=1, ls=":")
    if not any(isfinite(_number(row.width.mean)) for row in rows):
        _nothing(panels[3])
    _legend_below(figure, panels[2])
    told = (
        f"{comparison.result.trials} trials; dotted across: all {true} attackers, none accused, {level:g} % promised; "
        "dash-dotted: 0.5, the noise of the tables"
    )
    headline(figure, comparison.result.title, told + _infinite(rows))


def _one_grid(deviations: dict[tuple[str, str], float]) -> dict[tuple[str, str], float]:
    """Leave one of two grids, such as `variance 0.05` beside `sd 0.05`: deviations, with the points at their ends."""
    grids = [key for key in deviations if key[1].startswith("sd ")]
    if len(grids) < 2:
        return deviations
    last = max(deviations[key] for key in grids)
    beyond = [key for key in deviations if key not in grids and deviations[key] > last]
    return {key: deviations[key] for key in (*grids, *beyond)}


def _line(
    panel: Any, rows: Sequence[Row], take: Callable[[Row], Spread], colour: str, label: str, ls: str = "-"
) -> None:
    """Draw means with their spread; rows that have none are left out, and the panel says so."""
    known = [(row.share, spread.mean, spread.sd or 0) for row in rows if (spread := take(row)).mean is not None]
    if known:
        x, means, spreads = zip(*known, strict=True)
        panel.errorbar(x, means, yerr=spreads, color=colour, marker="o", ms=5, capsize=3, ls=ls, label=label, zorder=3)
    else:
        _nothing(panel)
    if known and len(known) < len(rows):
        panel.annotate(
            f"{len(rows) - len(known)} of {len(rows)} points have no finite value", (0.97, 0.03),
            xycoords="axes fraction", ha="right", fontsize=8, fontstyle="italic", color=palette.FLOOR,
        )  # fmt: skip


def _nothing(panel: Any) -> None:
    panel.annotate(
        "no finite value to draw", (0.5, 0.6), xycoords="axes fraction", ha="center", fontstyle="italic",
        color=palette.FLOOR,
    )  # fmt: skip


def _infinite(rows: Sequence[Row]) -> str:
    without = sum(not isfinite(_number(row.width.mean)) for row in rows)
    return f"; {without} of {len(rows)} rows have no finite width to draw" if without else ""


def _number(value: float | None) -> float:
    return nan if value is None else value


def _legend_below(figure: Any, panel: Any) -> None:
    handles, labels = panel.get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 6))


def _rows(comparison: Comparison) -> list[Row]:
    return [judged.row for judged in comparison.rows]


def _federated(comparison: Comparison) -> list[Row]:
    rows = [row for row in _rows(comparison) if row.method not in REFERENCES]
    return sorted(
        (row for row in rows if row.method == rows[0].method and row.attack == rows[0].attack), key=lambda r: r.share
    )


def _distinct(values: Any) -> list[Any]:
    return list(dict.fromkeys(values))
