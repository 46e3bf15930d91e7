"""Pictures drawn client by client: what the server saw, how it scored, what a user of the model gets."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from prism_fcp.calibrate.filter import FILTERS
from prism_fcp.lab import palette
from prism_fcp.lab.clients import ClientView
from prism_fcp.lab.compare import Comparison
from prism_fcp.lab.plots_tables import headline
from prism_fcp.lab.spec import parse
from prism_fcp.lab.tables import attack_title, plain
from prism_fcp.types import FloatArray


def histograms(figure: Any, comparison: Comparison, clients: Sequence[ClientView]) -> None:
    """Draw the honest and the Byzantine clients' histograms of normalised scores, one panel an attack.

    Paper: fig:DiffAttacks
    """
    from matplotlib.colors import to_rgb

    views = _first_method(_federated(comparison, [view for view in clients if view.counts]))
    figure.set_size_inches(max(5.0, 3.7 * len(views)), 4.1)
    panels = figure.subplots(1, len(views), sharey=True, squeeze=False)[0]
    for panel, view in zip(panels, views, strict=True):
        counts = np.array(view.counts, dtype=float)
        shares = 100 * counts / counts.sum(axis=1, keepdims=True)
        bad = np.array(view.byzantine)
        edges = np.linspace(0, 1, shares.shape[1] + 1)
        top = 2.2 * shares[~bad].mean(axis=0).max()
        for who, colour, hatch, name in (
            (~bad, palette.HONEST, "", "honest"),
            (bad, palette.BYZANTINE, "////", "Byzantine"),
        ):
            if not who.any():
                continue
            mean = shares[who].mean(axis=0)
            panel.stairs(
                mean, edges, fill=True, facecolor=(*to_rgb(colour), 0.35), edgecolor=colour, lw=1.3, hatch=hatch,
                label=f"{name} clients (mean of {int(who.sum())})",
            )  # fmt: skip
            for place in np.flatnonzero(mean > top):
                at = (edges[place] + edges[place + 1]) / 2
                panel.annotate(
                    f"{mean[place]:.0f} %", (at, top * 0.985), xytext=(14 if at < 0.5 else -14, -4),
                    textcoords="offset points", ha="left" if at < 0.5 else "right", va="top", color=colour,
                    fontweight="bold", arrowprops={"arrowstyle": "->", "color": colour},
                )  # fmt: skip
        panel.set_ylim(0, top)
        panel.set_xlim(-0.01, 1.01)
        panel.set_title(attack_title(view.attack))
        panel.set_xlabel("normalised score")
    panels[0].set_ylabel(f"share of a client's scores (%), {len(views[0].counts[0])} bins")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    headline(figure, comparison.result.title, f"{plain(views[0].method)}, one trial")


def scores(figure: Any, comparison: Comparison, clients: Sequence[ClientView]) -> None:
    """Draw the distribution of maliciousness scores, honest beside Byzantine, one panel a method that filters.

    Paper: fig:ViolinPlot
    """
    chosen = parse(comparison.result.spec, "result").setup.methods
    filters = {method.name: method.filter for method in chosen if method.filter.name != "keep_all"}
    views = [v for v in _federated(comparison, clients) if v.method in filters and v.trial < comparison.result.trials]
    methods, attacks = list(dict.fromkeys(v.method for v in views)), list(dict.fromkeys(v.attack for v in views))
    if not views:
        _no_picture(figure, "no method of this experiment filters, so none has scores to show")
        return
    figure.set_size_inches(max(6.0, 1.0 + 4.4 * len(methods)), 4.5)
    panels = figure.subplots(1, len(methods), squeeze=False)[0]  # filters score on scales of their own
    trials = len({view.trial for view in views})
    rng = np.random.default_rng(0)  # sideways jitter of the dots, nothing else
    for panel, method in zip(panels, methods, strict=True):
        for place, attack in enumerate(attacks):
            own = [v for v in views if (v.method, v.attack) == (method, attack)]
            values = np.concatenate([v.scores for v in own])
            bad = np.concatenate([v.byzantine for v in own])
            for who, colour, side, name in (
                (~bad, palette.HONEST, -0.2, "honest"),
                (bad, palette.BYZANTINE, 0.2, "Byzantine"),
            ):
                if who.any():
                    _violin(panel, values[who], place + side, colour, f"{name} clients" if place == 0 else None, rng)
            if limits := [view.threshold for view in own if view.threshold is not None]:
                panel.hlines(
                    np.median(limits), place - 0.44, place + 0.44, color=palette.PAPER, ls="--", lw=1.2, zorder=4,
                    label="threshold" + (" (median over trials)" if trials > 1 else "") if place == 0 else None,
                )  # fmt: skip
        panel.set_xticks(range(len(attacks)), [textwrap.fill(attack_title(attack), 14) for attack in attacks])
        chosen_filter = filters[method]
        panel.set_title(f"{plain(method)}\nfilter: {chosen_filter.name}")
        panel.set_ylabel(chosen_filter.build(FILTERS, "filter").measure)
        panel.set_ylim(bottom=0)
        panel.grid(axis="x", visible=False)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    told = (
        f"clients of {trials} trial{'s' if trials > 1 else ''}, a dot each; bar: median; above the threshold: left out "
        "or weighed less"
    )
    headline(figure, comparison.result.title, told)


def intervals(figure: Any, comparison: Comparison, clients: Sequence[ClientView]) -> None:
    """Draw the intervals of each method around the same test samples, one panel an attack.

    Paper: fig:prediction-intervals
    """
    views = [view for view in _federated(comparison, clients) if view.trial == 0]
    methods, attacks = list(dict.fromkeys(v.method for v in views)), list(dict.fromkeys(v.attack for v in views))
    colours = palette.method_colours(methods)
    figure.set_size_inches(11.5, 1.5 + 2.3 * len(attacks))
    panels = figure.subplots(len(attacks), 1, squeeze=False, sharex=True)[:, 0]
    for panel, attack in zip(panels, attacks, strict=True):
        told = []
        for place, (method, colour) in enumerate(zip(methods, colours, strict=True)):
            view = next(v for v in views if (v.method, v.attack) == (method, attack))
            truth, prediction = np.array(view.truth), np.array(view.prediction)
            at = np.arange(1, len(truth) + 1) + 0.4 * (place - (len(methods) - 1) / 2) / max(len(methods) - 1, 1)
            radius = view.radius if view.radius is not None else np.nan
            panel.vlines(
                at, prediction - radius, prediction + radius, color=colour, lw=min(4, 9 / len(methods)), alpha=0.6,
                label=plain(method),
            )  # fmt: skip
            missed = np.abs(truth - prediction) > radius
            panel.plot(at[missed], truth[missed], "x", color=colour, ms=8, mew=2)
            told.append(_told(view, int(missed.sum())))
        for x, y in enumerate(view.truth, 1):
            panel.hlines(y, x - 0.36, x + 0.36, color="black", lw=1.6, label="truth" if x == 1 else None)
        title = textwrap.fill(f"{attack_title(attack)}   {'; '.join(told)}", 165, subsequent_indent="    ")
        panel.set_title(title, loc="left", fontsize=9)
        panel.set_ylabel("target y")
        panel.grid(axis="x", visible=False)
    panels[-1].set_xlabel(
        f"{len(view.truth)} test samples of one honest client, not picked (cross: the truth lies outside)"
    )
    panels[-1].set_xlim(0.3, len(view.truth) + 0.7)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 5))
    level = 100 * comparison.result.spec["calibration"]["confidence_level"]
    headline(
        figure, comparison.result.title,
        f"{level:g} % is promised over all honest clients together, not for each; 'covers': of all their test samples, "
        "'misses': of the few of one client that are drawn (one trial)",
    )  # fmt: skip


def _told(view: ClientView, missed: int) -> str:
    wide = "infinite width" if view.radius is None else f"width {2 * view.radius:.2f}"
    covers = f", covers {100 * view.coverage:.1f} %" if view.coverage is not None else ""
    return f"{plain(view.method)}: {wide}{covers} (here misses {missed} of {len(view.truth)})"


def _no_picture(figure: Any, why: str) -> None:
    figure.set_size_inches(6, 2)
    figure.text(0.5, 0.5, why, ha="center", va="center")


def _violin(
    panel: Any, values: FloatArray, at: float, colour: str, label: str | None, rng: np.random.Generator
) -> None:
    if np.ptp(values) > 1e-9:
        for body in panel.violinplot(values, [at], widths=0.36, showextrema=False)["bodies"]:
            body.set_facecolor(colour)
            body.set_alpha(0.35)
    shown = values if len(values) <= 300 else rng.choice(values, 300, replace=False)
    panel.plot(at + rng.uniform(-0.1, 0.1, len(shown)), shown, ".", ms=2.5, color=colour, alpha=0.6)
    panel.plot(
        [at - 0.14, at + 0.14], [np.median(values)] * 2, color=colour, lw=2.5, solid_capstyle="butt", label=label
    )


def _federated(comparison: Comparison, views: Sequence[ClientView]) -> list[ClientView]:
    """Leave out Local and Floor, which share nothing that could be attacked in training."""
    setup = parse(comparison.result.spec, "result").setup
    federated = {method.name for method in setup.methods if method.arm is not None and method.arm.exchange}
    return [view for view in views if view.method in federated]


def _first_method(views: Sequence[ClientView]) -> list[ClientView]:
    return [view for view in views if view.method == views[0].method and view.trial == views[0].trial]
