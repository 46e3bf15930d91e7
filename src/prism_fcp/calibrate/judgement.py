"""What a filter is: it judges clients by their characterizations, and says why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from prism_fcp.calibrate.histogram import characterize
from prism_fcp.errors import SettingError
from prism_fcp.types import FloatArray, IntArray, Verdict

Shares: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class FilterContext:
    """What else the server knows when it filters."""

    client_ids: tuple[int | str, ...] = ()  # for messages; positions where empty
    suspects: int | None = None  # how many clients are thought to be Byzantine
    evidence: Mapping[int | str, float] = field(default_factory=dict)  # from training: larger is worse, inf: left out

    def named(self, clients: int) -> NDArray[np.float64]:
        """Return the evidence in the order of so many clients; nan for whom it does not name."""
        names = self.client_ids or tuple(range(clients))
        return np.array([self.evidence.get(name, np.nan) for name in names], dtype=np.float64)


class Judgement(NamedTuple):
    """A verdict without its sentences."""

    weights: NDArray[np.float64]
    scores: NDArray[np.float64]
    threshold: float


@dataclass(frozen=True, slots=True)
class Filter:
    """A named filter: call it for a `Verdict`, or `weigh` for the numbers alone."""

    name: str
    measure: str  # what its scores are, in words
    weigh: Callable[[Shares, IntArray, FilterContext], Judgement]
    keeps_all: bool = False  # whatever the counts, so that those of a client alone need not be made

    def __call__(
        self, counts: IntArray | FloatArray, sizes: IntArray | None = None, context: FilterContext | None = None
    ) -> Verdict:
        """Judge each client by its counts (K, H), or shares; `sizes` (K,) are the numbers of scores behind them."""
        context = context or FilterContext()
        shares = characterize(counts, context.client_ids or None)
        numbers = np.asarray(counts).sum(axis=1).astype(np.int64) if sizes is None else np.asarray(sizes)
        weights, scores, threshold = self.weigh(shares, numbers, context)
        for what, found in (("weights", weights), ("scores", scores)):
            if np.shape(found) != (len(shares),):
                raise SettingError(
                    f"filter {self.name!r}: {what} of shape {np.shape(found)} for {len(shares)} clients; a judgement "
                    "needs one each"
                )
        reasons = tuple(
            _sentence(self.measure, weight, score, threshold)
            for weight, score in zip(weights.tolist(), scores.tolist(), strict=True)
        )
        return Verdict(weights, scores, threshold, reasons)


def _sentence(measure: str, weight: float, score: float, threshold: float) -> str:
    if not isfinite(threshold):
        return f"kept: {measure} {score:.4g}; this filter leaves nobody out"
    side = "above" if score > threshold else "not above"
    fate = "kept" if weight == 1 else "left out" if weight == 0 else f"counted with weight {weight:.3g}"
    tie = " (a tie, which falls on the client that comes first)" if weight == 0 and side == "not above" else ""
    return f"{fate}: {measure} {score:.4g} is {side} the threshold {threshold:.4g}{tie}"
