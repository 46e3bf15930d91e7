"""The picture of who holds what: each client's rows by quantile bins of the target, and how many there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from prism_fcp import streams
from prism_fcp.data.partition import Rows, quantile_bins
from prism_fcp.lab import palette
from prism_fcp.lab.clients import ClientView
from prism_fcp.lab.compare import Comparison
from prism_fcp.lab.plots_tables import headline
from prism_fcp.lab.tables import plain
from prism_fcp.lab.typed import build
from prism_fcp.tables import TableData, prepare
from prism_fcp.types import Choice

BINS: Final = 10  # of the target, with equally many rows of the whole table
NAMED: Final = 40  # clients whose names are written


def partition(figure: Any, comparison: Comparison, clients: Sequence[ClientView]) -> None:
    """Draw who holds what in trial 0 of an experiment on a table.

    Paper: sec:real-world
    """
    spec = comparison.result.spec
    told = {**spec["data"], **{key: Choice.of(_choice(spec["data"][key]), key) for key in ("partition", "model")}}
    data: TableData = build(TableData, told, "data")
    count, calibration = spec["federation"]["num_clients"], spec["calibration"]
    samples = data.samples + calibration["samples"] + calibration["test_samples"]
    if data.whole:
        held = data.deal(count, None, streams.key(comparison.result.seed))
    else:
        held = data.deal(count, samples, streams.key(comparison.result.seed, 0))
    table = prepare(data).table
    holdings(figure, comparison.result.title, data.client_names(count), held, table.target, table.target_name)


def holdings(
    figure: Any, title: str, names: Sequence[str], held: Sequence[Rows], target: NDArray[np.float64], about: str
) -> None:
    """Draw each client's share of the target's quantile bins, the middle of its target values, and its rows."""
    order = np.argsort([np.median(target[own]) for own in held], kind="stable")
    parts, ends = shares(held, target)
    counts = np.array([len(held[k]) for k in order])
    alike = counts.min() == counts.max()
    figure.set_size_inches(7.4 if alike else 9.6, float(np.clip(2.2 + 0.26 * len(held), 3.6, 9.0)))
    ratios = (4, 3) if alike else (4, 3, 2)
    bins, spread, *others = figure.subplots(1, len(ratios), sharey=True, width_ratios=ratios)
    drawn = bins.imshow(
        100 * parts[order], aspect="auto", cmap="Blues", vmin=0, vmax=max(20.0, 100 * float(parts.max())),
        interpolation="nearest",
    )  # fmt: skip
    figure.colorbar(drawn, ax=bins, location="left" if len(held) > NAMED else "top", label="% of the client's rows",
                    shrink=0.8, aspect=40, pad=0.02)  # fmt: skip
    width = parts.shape[1]
    bins.set_xticks([0, width // 2, width - 1], [f"≤ {ends[0]:.3g}", f"≤ {ends[width // 2]:.3g}", f"≤ {ends[-1]:.3g}"])
    bins.set_xlabel(f"{plain(about, 20)}: bins of equally many rows")
    bins.grid(visible=False)
    places = np.arange(len(held))
    quartiles = np.array([np.quantile(target[held[k]], (0.05, 0.25, 0.5, 0.75, 0.95)) for k in order])
    thick = 3.2 if len(held) <= NAMED else 2.0
    spread.hlines(places, quartiles[:, 0], quartiles[:, 4], color=palette.HONEST, lw=0.8)
    spread.hlines(places, quartiles[:, 1], quartiles[:, 3], color=palette.HONEST, lw=thick)
    spread.plot(quartiles[:, 2], places, "o", ms=3.2, color="white", mec=palette.HONEST, mew=1.0)
    spread.axvline(float(np.median(target)), color=palette.FLOOR, ls="--", lw=1.0)
    spread.set_xlabel("median, middle 50 and 90 %")
    for sizes in others:
        _sizes(sizes, counts)
    if len(held) <= NAMED:
        bins.set_yticks(places, [plain(names[k], 24) for k in order])
    else:
        bins.set_yticks([])
        bins.set_ylabel(f"{len(held)} clients, lowest median first")
    for panel in (spread, *others):
        panel.tick_params(left=False)
        panel.grid(axis="y", visible=False)
    rows = f"{counts.min():,}" if alike else f"{counts.min():,} to {counts.max():,}"
    headline(figure, title, f"who holds what: {len(held)} clients with {rows} rows; dashed: the median of all rows")


def _sizes(panel: Any, counts: NDArray[np.int64]) -> None:
    """Draw how many rows each client holds."""
    places = np.arange(len(counts))
    panel.barh(places, counts, color=palette.FLOOR, height=0.7)
    panel.set_xlabel("rows")
    panel.set_xlim(0, counts.max() * 1.25)
    for place, count in zip(places, counts, strict=True) if len(counts) <= NAMED else ():
        panel.annotate(f"{count:,}", (count, place), xytext=(3, 0), textcoords="offset points", va="center", fontsize=7)


def shares(held: Sequence[Rows], target: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return each client's share of rows in each bin, and the largest target of each bin."""
    members = quantile_bins(target, BINS)
    bin_of = np.empty(len(target), dtype=np.int64)
    for number, rows in enumerate(members):
        bin_of[rows] = number
    counts = np.array([np.bincount(bin_of[own], minlength=len(members)) for own in held])
    return counts / counts.sum(axis=1, keepdims=True), np.array([target[rows].max() for rows in members])


def _choice(value: Any) -> Any:
    if isinstance(value, dict):
        options = {key: tuple(v) if isinstance(v, list) else v for key, v in value.items() if key != "name"}
        return Choice(value["name"], options)
    return value
