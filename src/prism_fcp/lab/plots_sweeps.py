"""Pictures of sweeps: what changes with the sharing ratio, the count told to the filter, or the attack's noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from prism_fcp.lab import palette
from prism_fcp.lab.clients import ClientView
from prism_fcp.lab.compare import Comparison
from prism_fcp.lab.result import Row, Spread
from prism_fcp.lab.spec import told_share
from prism_fcp.lab.tables import row_name

REFERENCES: Final = ("Local", "Floor")


def quantile(figure: Any, comparison: Comparison, clients: Sequence[ClientView]) -> None:
    """Draw |q - q*| against the sharing ratio."""
    figure.set_size_inches(6.2, 4.4)
    panel = figure.subplots()
    rows = _federated(comparison)
    _line(
        panel,
        [r.share for r in rows],
        [r.quantile_deviation for r in rows],
        palette.OURS,
        "o",
        "PRISM-FCP, ours (mean ± sd)",
    )
    told = [
        (j.row.share, j.paper["reading"]["quantile_deviation"])
        for j in comparison.rows
        if "quantile_deviation" in j.paper.get("reading", {})
    ]
    if told:
        panel.plot(
            *zip(*told, strict=True),
            "D",
            mfc="white",
            mec=palette.PAPER,
            ms=5,
            label="our reading of the paper, measured independently",
        )
    local = [r for r in _rows(comparison) if r.method == "Local"]
    if local and local[0].quantile_deviation.mean is not None:
        panel.axhline(
            local[0].quantile_deviation.mean,
            color=palette.LOCAL,
            ls="--",
            lw=1.2,
            label="Local: clients that never share",
        )
    for statement in comparison.statements:
        if statement.ours is not None and statement.paper is not None:
            panel.annotate(
                f"{100 * statement.ours:.0f} % smaller at the left end than at the right\n"
                f"(paper: roughly {100 * statement.paper:.0f} %)",
                (0.97, 0.45), xycoords="axes fraction", ha="right",
            )  # fmt: skip
    panel.set_ylim(bottom=0)
    panel.set_xlabel("sharing ratio M/D")
    panel.set_ylabel("|q − q*|, in units of y")
    _title(panel, comparison)
    panel.legend(loc="lower left", bbox_to_anchor=(0.0, 0.13))


def energy(figure: Any, comparison: Comparison, clients: Sequence[ClientView]) -> None:
    """Draw the measured energy of an attacked upload beside M times the variance."""
    figure.set_size_inches(6.2, 4.4)
    panel = figure.subplots()
    rows = [row for row in _federated(comparison) if row.injected_energy.mean is not None]
    federation = comparison.result.spec["federation"]
    variance, dimension = federation["attack"].get("variance", 0.1), federation["dimension"]
    panel.plot(
        [0, 1],
        [0, variance * dimension],
        color=palette.PAPER,
        lw=1.2,
        label="M·σ²$_B$ (paper, eq:per-iteration-attenuation)",
    )
    _line(
        panel,
        [r.share for r in rows],
        [r.injected_energy for r in rows],
        palette.BYZANTINE,
        "o",
        "measured (mean ± sd over trials)",
        ls="",
    )
    for row in rows:
        panel.annotate(
            f"{row.injected_energy.mean:.2f}", (row.share, row.injected_energy.mean), xytext=(7, -11),
            textcoords="offset points", fontsize=8,
        )  # fmt: skip
    panel.set_xlim(0, 1.08)
    panel.set_ylim(bottom=0)
    panel.set_xlabel("sharing ratio M/D")
    panel.set_ylabel("energy of one attacked upload")
    _title(panel, comparison)
    panel.legend(loc="upper left")


def count(figure: Any, comparison: Comparison, clients: Sequence[ClientView]) -> None:
    """Draw detection, coverage and width against the count the filter is told."""
    rows = [row for row in _rows(comparison) if row.method not in REFERENCES]
    methods, variants = _distinct((r.method, r.share) for r in rows), _distinct(r.variant for r in rows)
    attacks = _distinct(r.attack_label for r in rows)
    true = comparison.result.spec["federation"]["num_byzantine"]
    figure.set_size_inches(13, 1.2 + 2.7 * len(methods))
    grid = figure.subplots(len(methods), 4, squeeze=False, sharex=True)
    level = 100 * comparison.result.spec["calibration"]["confidence_level"]
    columns: list[tuple[str, Callable[[Row], float | None], float | None]] = [
        ("attackers caught", lambda r: r.true_positives, true),
        ("honest clients accused", lambda r: r.false_positives, 0),
        ("coverage of honest clients (%)", lambda r: r.coverage.mean, level),
        ("interval width", lambda r: r.width.mean, None),
    ]
    for line, (method, share) in zip(grid, methods, strict=True):
        for panel, (what, take, target) in zip(line, columns, strict=True):
            if target is not None:
                panel.axhline(target, color=palette.FLOOR, lw=1, ls=":")
            for place, attack in enumerate(attacks):
                chosen = {
                    r.variant: take(r)
                    for r in rows
                    if (r.method, r.share) == (method, share) and r.attack_label == attack
                }
                values = [chosen.get(variant) for variant in variants]
                at = [x + 0.16 * (place - 1) for x in range(len(variants))]
                told = sum(variant.startswith("told") for variant in variants)
                style = {"color": palette.attack_colour(attack), "marker": palette.MARKS[place], "ms": 4.5}
                panel.plot(at[:told], values[:told], lw=1.2, label=f"{attack} attack", **style)
                panel.plot(at[told:], values[told:], ls="", **style)
            panel.set_xticks(range(len(variants)), [v.replace("told ", "") for v in variants], rotation=40, ha="right")
            panel.set_title(f"{method} (M/D {told_share(share)}): {what}", fontsize=9)
    for panel in grid[-1]:
        panel.set_xlabel(f"count told to the filter (true: {true})")
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    figure.suptitle(f"{comparison.result.title} ({comparison.result.trials} trials)")


def noise(figure: Any, comparison: Comparison, clients: Sequence[ClientView]) -> None:
    """Draw detection, coverage and width against the random attack's standard deviation."""
    deviations = {
        (a["label"], a["variant"]): a.get("sd", 0.5) for a in comparison.result.spec["attacks"] if a["name"] == "random"
    }
    rows = [row for row in _rows(comparison) if (row.attack, row.attack_variant) in deviations]
    methods = _distinct((r.method, r.share, r.variant) for r in rows)
    true = comparison.result.spec["federation"]["num_byzantine"]
    figure.set_size_inches(13, 4.3)
    panels = figure.subplots(1, 4)
    for place, (method, share, variant) in enumerate(methods):
        own = sorted(
            (r for r in rows if (r.method, r.share, r.variant) == (method, share, variant)),
            key=lambda r: deviations[r.attack, r.attack_variant],
        )
        x = [deviations[r.attack, r.attack_variant] for r in own]
        filters = method not in ("FCP", "PSO-FCP", "Floor")
        style = {
            "color": palette.method_colour(method, place), "ls": "--" if variant else "-", "ms": 4,
            "marker": palette.MARKS[place % 7], "lw": 1.3, "label": row_name(own[0]),
            "mfc": "white" if variant else None,
        }  # fmt: skip
        if filters:
            panels[0].plot(x, [r.true_positives for r in own], **style)
            panels[1].plot(x, [r.false_positives for r in own], **style)
        panels[2].plot(x, [r.coverage.mean for r in own], **style)
        panels[3].plot(x, [r.width.mean for r in own], **style)
    for panel, what in zip(
        panels,
        ("attackers caught", "honest clients accused", "coverage of honest clients (%)", "interval width"),
        strict=True,
    ):
        panel.set_xscale("log")
        panel.set_xticks([0.05, 0.1, 0.2, 0.5, 1.0], ["0.05", "0.1", "0.2", "0.5", "1"])
        panel.minorticks_off()
        panel.set_xlabel("standard deviation of the attack's noise")
        panel.set_title(what)
        panel.axvline(0.5, color=palette.FLOOR, lw=1, ls=":")
        above = panel.secondary_xaxis("top", functions=(lambda s: s**2, lambda v: abs(v) ** 0.5))
        above.set_xticks([0.01, 0.05, 0.2, 1.0], ["0.01", "0.05", "0.2", "1"])
        above.minorticks_off()
        above.set_xlabel("variance", fontsize=8)
    panels[0].axhline(true, color=palette.FLOOR, lw=1, ls=":")
    panels[2].axhline(
        100 * comparison.result.spec["calibration"]["confidence_level"], color=palette.FLOOR, lw=1, ls=":"
    )
    handles, labels = panels[2].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    told = f"{comparison.result.trials} trials; dotted at 0.5: the tables' attack"
    figure.suptitle(f"{comparison.result.title} ({told})")


def _line(panel: Any, x: list[float], spreads: list[Spread], colour: str, mark: str, label: str, ls: str = "-") -> None:
    means = [spread.mean for spread in spreads]
    panel.errorbar(
        x, means, yerr=[spread.sd or 0 for spread in spreads], color=colour, marker=mark, capsize=3, ls=ls, label=label
    )


def _title(panel: Any, comparison: Comparison) -> None:
    panel.set_title(f"{comparison.result.title}\n({comparison.result.trials} trials)")


def _rows(comparison: Comparison) -> list[Row]:
    return [judged.row for judged in comparison.rows]


def _federated(comparison: Comparison) -> list[Row]:
    rows = [row for row in _rows(comparison) if row.method not in REFERENCES]
    return sorted(
        (row for row in rows if row.method == rows[0].method and row.attack == rows[0].attack), key=lambda r: r.share
    )


def _distinct(values: Any) -> list[Any]:
    return list(dict.fromkeys(values))
