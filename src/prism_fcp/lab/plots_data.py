"""Pictures of experiments on data: width against bytes, missed clients by bins, who shared which layer, learning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from prism_fcp import streams
from prism_fcp.lab import palette
from prism_fcp.lab.clients import ClientView
from prism_fcp.lab.compare import Comparison
from prism_fcp.lab.plots_tables import headline
from prism_fcp.lab.result import Row
from prism_fcp.lab.spec import told_share
from prism_fcp.lab.tables import attack_title, plain
from prism_fcp.theory.tradeoff import knee
from prism_fcp.train.settings import Masks
from prism_fcp.train.sharing import MaskDeck, participants

LAYER_ROUNDS = 12  # rounds that the layer picture shows


def tradeoff(figure: Any, comparison: Comparison, clients: Sequence[ClientView]) -> None:
    """Draw the width against the bytes that all participants upload in a round, one panel an attack."""
    attacks = list(dict.fromkeys(judged.row.attack_label for judged in comparison.rows))
    figure.set_size_inches(max(6.4, 1.2 + 3.6 * len(attacks)), 4.6)
    panels = figure.subplots(1, len(attacks), sharey=True, squeeze=False)[0]
    unit = " (K)" if comparison.result.spec.get("data", {}).get("name", "").startswith("superconductivity") else ""
    filtered = {
        (m["method"], m["variant"]) for m in comparison.result.spec["methods"] if m["filter"]["name"] != "keep_all"
    }
    for panel, attack in zip(panels, attacks, strict=True):
        rows = [
            j.row for j in comparison.rows
            if j.row.attack_label == attack and (j.row.method, j.row.variant) in filtered
            and j.row.width.mean is not None
        ]  # fmt: skip
        for name, colour, style in (("Floor", palette.FLOOR, "-"), ("Local", palette.LOCAL, "--")):
            for row in rows:
                if row.method == name:
                    panel.axhline(row.width.mean, color=colour, ls=style, lw=1.2, label=_REFERENCE[name])
        series: dict[str, list[Row]] = {}
        for row in rows:
            if row.bytes_up_per_round:
                name = "PRISM-FCP" if row.method == "Rob-FCP" else row.label  # Rob-FCP is its end at M/D = 1
                series.setdefault(name, []).append(row)
        for place, (name, own) in enumerate(series.items()):
            own.sort(key=lambda row: row.bytes_up_per_round)
            colour = palette.method_colour(name, place)
            xs, ys = [r.bytes_up_per_round for r in own], [float(r.width.mean or 0) for r in own]
            errors = [r.width.sd or 0 for r in own]
            panel.errorbar(xs, ys, errors, color=colour, marker=palette.MARKS[place % 7], ms=6, lw=1.4, capsize=2,
                           label=plain(name, 30))  # fmt: skip
            if len(own) > 2:
                at = knee(xs, ys)
                place_of = len(xs) // 2 if at is None else at
                told = "no knee: nearly a line" if at is None else f"knee: M/D {told_share(own[at].share)}"
                panel.annotate(
                    told, (xs[place_of], ys[place_of]), xytext=(12, -26), textcoords="offset points", fontsize=8,
                    arrowprops={"arrowstyle": "-", "lw": 0.7},
                )  # fmt: skip
        panel.set_title(attack_title(attack))
        panel.set_xlabel("bytes all participants upload in a round")
    panels[0].set_ylabel(f"interval width{unit}, mean ± sd over trials")
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=min(5, len(names)))
    headline(
        figure, comparison.result.title,
        f"{comparison.result.trials} trials. Down and left is better; a knee is the point farthest from the line "
        "between the ends",
    )  # fmt: skip


_REFERENCE = {"Floor": "Floor: trained centrally on all honest rows", "Local": "Local: clients that never share"}


def missed(figure: Any, comparison: Comparison, clients: Sequence[ClientView]) -> None:
    """Draw the Byzantine clients a filter missed against the number of bins, the paper's beside them."""
    figure.set_size_inches(7.2, 4.8)
    panel = figure.subplots()
    methods = {(m["method"], m["variant"]): m.get("bins") for m in comparison.result.spec["methods"]}
    shares = list(dict.fromkeys(j.row.share for j in comparison.rows if methods.get((j.row.method, j.row.variant))))
    for place, share in enumerate(shares):
        own = [
            (methods[j.row.method, j.row.variant], j) for j in comparison.rows
            if j.row.share == share and methods.get((j.row.method, j.row.variant))
        ]  # fmt: skip
        colour, nudge = palette.SERIES[place % 7], 1 + 0.02 * (place - len(shares) / 2)
        panel.errorbar([h * nudge for h, _ in own], [j.row.missed.mean or 0 for _, j in own],
                       [j.row.missed.se or 0 for _, j in own], color=colour, marker=palette.MARKS[place % 7], capsize=2,
                       label=f"ours, M/D {told_share(share)} (± standard error)")  # fmt: skip
        told = [(h * nudge, j.paper["missed"]) for h, j in own if "missed" in j.paper]
        if told:
            panel.plot(*zip(*told, strict=True), "D", mfc="none", mec=colour, ms=9, mew=1.1, ls="none",
                       label="the paper's" if place == 0 else None)  # fmt: skip
    bins = sorted({h for h in methods.values() if h})
    panel.set_xscale("log")
    panel.set_xticks(bins, [str(h) for h in bins])
    panel.minorticks_off()
    panel.set_yscale("symlog", linthresh=0.1)
    most = comparison.result.spec["federation"]["num_byzantine"]
    ticks = [tick for tick in (0, 0.1, 0.3, 1, 3, 10, 30, 100) if tick < most] + [most]
    panel.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    panel.set_ylim(0, 1.15 * most)
    panel.set_xlabel("bins of a histogram (H)")
    panel.set_ylabel(f"Byzantine clients missed, of {comparison.result.spec['federation']['num_byzantine']}")
    panel.legend()
    headline(figure, comparison.result.title, f"{comparison.result.trials} trials, random attack")


def layers(figure: Any, comparison: Comparison, clients: Sequence[ClientView]) -> None:
    """Draw which layer each participant uploaded in the first rounds of trial 0: the run's own masks.

    Paper: fig:layerwise_diagram
    """
    spec = comparison.result.spec
    sized = [method for method in spec["methods"] if method.get("layers")]
    federation, key = spec["federation"], streams.key(comparison.result.seed, 0)
    figure.set_size_inches(8.2, 1.6 + 2.6 * max(1, len(sized)))
    panels = figure.subplots(max(1, len(sized)), 1, squeeze=False)[:, 0]
    deck = MaskDeck(key, federation["dimension"])
    for panel, method in zip(panels, sized, strict=False):
        masks = Masks(
            num_shared=method["num_shared"], layers=tuple(method["layers"]), coordination=method["coordination"],
            download=method["download"],
        )  # fmt: skip
        starts = np.cumsum([0, *masks.layers[:-1]])
        size, rounds = federation["num_participants"], min(LAYER_ROUNDS, federation["rounds"])
        for n in range(1, rounds + 1):
            who = participants(key, n, federation["num_clients"], size)
            sent = deck.upload(masks, n, who)
            for place, client in enumerate(who):
                for layer, start in enumerate(starts):
                    on = bool(sent[place, start])
                    panel.add_patch(_box(
                        (n + 0.86 * (layer / len(starts)) - 0.43, place - 0.42), 0.8 / len(starts), 0.84,
                        palette.SERIES[layer % 7] if on else "#ededed",
                    ))  # fmt: skip
                panel.text(n - 0.47, place, str(client), fontsize=5.5, ha="right", va="center", color="#666666")
        panel.set_xlim(0.3, rounds + 0.6)
        panel.set_ylim(size - 0.4, -0.6)
        panel.set_xticks(range(1, rounds + 1))
        panel.set_yticks([])
        panel.grid(visible=False)
        panel.set_xlabel("round; a row is a participant, its id beside it")
        panel.set_title(f"{plain(method['method'], 30)}, {plain(method['variant'], 30)}: coloured layers travel")
    names = [f"layer {k + 1}: {size:,} parameters" for k, size in enumerate(sized[0]["layers"])] if sized else []
    handles = [_box((0, 0), 1, 1, palette.SERIES[k % 7]) for k in range(len(names))]
    figure.legend(handles, names, loc="outside lower center", ncols=max(1, len(names)))
    headline(figure, comparison.result.title, f"the masks of trial 0, seed {comparison.result.seed}")


def learning(figure: Any, comparison: Comparison, clients: Sequence[ClientView]) -> None:
    """Draw the test error against the rounds, one line a way of training."""
    figure.set_size_inches(7.6, 5.0)
    panel = figure.subplots()
    colours = palette.method_colours([curve.method for curve in comparison.curves])
    for place, (curve, colour) in enumerate(zip(comparison.curves, colours, strict=True)):
        decibels = 10 * np.log10(np.maximum(curve.test_mse, 1e-30))
        if curve.method == "Floor":
            panel.axhline(decibels[-1], color=palette.FLOOR, lw=1.2, label=_floor(comparison))
            continue
        panel.plot(curve.rounds, decibels, color=colour, marker=palette.MARKS[place % 7], ms=5, lw=1.4,
                   ls="--" if curve.method == "Local" else "-", label=plain(curve.method, 40))  # fmt: skip
    panel.set_xscale("log")
    ticks = [1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000]
    last = max(curve.rounds[-1] for curve in comparison.curves)
    panel.set_xticks([t for t in ticks if t <= last], [f"{t:,}" for t in ticks if t <= last])
    panel.minorticks_off()
    panel.set_xlabel("rounds")
    panel.set_ylabel("mean squared test error of honest clients (dB)")
    figure.legend(loc="outside lower center", ncols=2)
    headline(figure, comparison.result.title, f"trial 0, seed {comparison.result.seed}; lower is better")


def _floor(comparison: Comparison) -> str:
    return _REFERENCE["Floor"] if "data" in comparison.result.spec else "Floor: the true model"


def _box(corner: tuple[float, float], width: float, height: float, colour: str) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle(corner, width, height, facecolor=colour, lw=0)
