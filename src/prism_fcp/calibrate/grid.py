"""The bins every client counts its scores on: agreed beforehand, so that no client can stretch them.

The default grid divides every factor of two into equal steps, which is to read a score's bin off the top bits of its
float64: exact, the same on every machine, and wide enough for any unit, so no pilot pass has to find a range.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from prism_fcp.calibrate.histogram import histogram
from prism_fcp.calibrate.span import ClientScores, Range, ScoreArray, Span
from prism_fcp.errors import DataError, SettingError, did_you_mean, need_number

MOST_BINS: Final = 1_000_000
MOST_STEPS: Final = 1024
_MANTISSA: Final = 52
_BIAS: Final = 1023
_EXPONENTS: Final = (-1021, 1023)
_BLOCK: Final = 1 << 17  # scores whose bits are shifted at a time: they stay in the cache


class Grid(Protocol):
    """What a grid is: edges, and counts of scores between them.

    Bin h holds edges[h] <= score < edges[h+1]. A finite last edge closes the last bin, which then takes what lies
    above it; an infinite one makes it an overflow bin (and closes the bin before it, on a linear grid).
    """

    @property
    def edges(self) -> NDArray[np.float64]:
        """Return the ends of the bins, ascending from 0."""
        ...

    @property
    def resolution(self) -> float | None:
        """Return how much larger a bin's upper end is than its lower one, at most, or None where that is unbounded."""
        ...

    def count(self, scores: ScoreArray) -> NDArray[np.int64]:
        """Return the counts of one client's scores, which must be finite and not negative."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Return what `grid_from_json` makes the same grid of."""
        ...


@dataclass(frozen=True)
class LogGrid:
    """Equal `steps` (a power of two) in every octave from 2^lowest to 2^highest, with under- and overflow bins.

    A bin's upper end is at most 1/steps larger than its lower one. Scores below 2^lowest share one bin, so a quantile
    there is told as 2^lowest.
    """

    steps: int = 64
    lowest: int = -30
    highest: int = 30

    def __post_init__(self) -> None:
        """Refuse a grid that has no bins, or too many."""
        for name in ("steps", "lowest", "highest"):
            need_number(f"log grid: {name}", getattr(self, name), integer=True)
        if not (1 <= self.steps <= MOST_STEPS and self.steps & (self.steps - 1) == 0):
            raise SettingError(f"log grid: steps={self.steps}; must be a power of two in 1..{MOST_STEPS}, such as 64")
        if not _EXPONENTS[0] <= self.lowest < self.highest <= _EXPONENTS[1]:
            raise SettingError(
                f"log grid: from 2^{self.lowest} to 2^{self.highest}; the exponents must ascend, within "
                f"{_EXPONENTS[0]}..{_EXPONENTS[1]}"
            )
        if self._regular + 2 > MOST_BINS:
            raise SettingError(f"log grid: {self._regular + 2} bins; at most {MOST_BINS}: fewer steps or octaves")

    @property
    def _regular(self) -> int:
        return self.steps * (self.highest - self.lowest)

    @property
    def resolution(self) -> float:
        """Return 1/steps; it does not hold in the first and the last bin."""
        return 1 / self.steps

    @cached_property
    def edges(self) -> NDArray[np.float64]:
        """Return the ends of the bins; each is a float64 exactly."""
        octaves = np.ldexp(1.0, np.arange(self.lowest, self.highest))
        inner = octaves[:, None] * (1 + np.arange(self.steps) / self.steps)
        ends = np.concatenate(([0.0], inner.ravel(), [np.ldexp(1.0, self.highest), np.inf]))
        ends.setflags(write=False)  # results share them
        return ends

    def count(self, scores: ScoreArray) -> NDArray[np.int64]:
        """Return the counts of one client's scores: the exponent and the first bits after it are the bin's number."""
        shift = _MANTISSA - (self.steps.bit_length() - 1)
        first = (self.lowest + _BIAS) * self.steps - 1  # the number, in a float's bits, of the underflow bin
        last = self._regular + 1
        infinite = (2 * _BIAS + 1) * self.steps - first  # infinity's number, and NaN's is no smaller
        counts = np.zeros(last + 1, dtype=np.int64)
        bits = np.empty(min(_BLOCK, len(scores)), dtype=np.int64)
        for start in range(0, len(scores), _BLOCK):
            block = np.ascontiguousarray(scores[start : start + _BLOCK], dtype=np.float64)
            smallest = block.min()
            if not smallest >= 0:  # so that NaN is none either
                raise _bad(scores)
            own = bits[: len(block)]
            np.right_shift((block + 0.0 if smallest == 0 else block).view(np.int64), shift, out=own)  # -0.0 has a sign
            own -= first
            if smallest < self.edges[1]:
                np.maximum(own, 0, out=own)
            told = np.bincount(own)
            if len(told) > last + 1:
                if len(told) > infinite:
                    raise _bad(scores)
                told[last] = told[last:].sum()
                told = told[: last + 1]
            counts[: len(told)] += told
        return counts

    def to_json(self) -> dict[str, Any]:
        """Return the grid's kind and settings."""
        return {"kind": "log", "steps": self.steps, "lowest": self.lowest, "highest": self.highest}


@dataclass(frozen=True)
class LinearGrid:
    """`bins` equal bins of [0, upper], the paper's grid; the last one takes what lies above, unless it overflows.

    Where `upper` comes from a pilot pass: `LinearGrid.measured(scores, max_range())`.

    Paper: sec:calib-mitig, v_{k,h}; rem Normalization of scores
    """

    upper: float
    bins: int = 100
    overflow: bool = False

    def __post_init__(self) -> None:
        """Refuse a range or a number of bins nothing can be counted on."""
        need_number("linear grid: upper", self.upper)
        need_number("linear grid: bins", self.bins, integer=True)
        if not isinstance(self.overflow, bool):
            raise SettingError(f"linear grid: overflow={self.overflow!r}; must be true or false")
        most = MOST_BINS - self.overflow  # nobody reads summaries of more bins in all
        if not 2 <= self.bins <= most:
            raise SettingError(f"linear grid: bins={self.bins}; must lie in 2..{most}")
        self.span  # noqa: B018  (checks the range)

    @classmethod
    def measured(cls, scores: ClientScores, range: Range, bins: int = 100) -> LinearGrid:
        """Return the grid that a range (see `RANGES`) finds for the scores of a pilot pass."""
        span = range(scores)
        return cls(span.upper, bins, span.overflow)

    @property
    def span(self) -> Span:
        """Return the range as the filters of a simulation know it."""
        return Span(self.upper, self.overflow)

    @property
    def resolution(self) -> None:
        """Return None: a bin near zero is any number of times larger at its upper end than at its lower one."""
        return None

    @cached_property
    def edges(self) -> NDArray[np.float64]:
        """Return the ends of the bins."""
        return self.span.edges(self.bins)

    def count(self, scores: ScoreArray) -> NDArray[np.int64]:
        """Return the counts of one client's scores."""
        counts: NDArray[np.int64] = histogram([scores], self.span, self.bins)[0]
        return counts

    def to_json(self) -> dict[str, Any]:
        """Return the grid's kind and settings."""
        return {"kind": "linear", "upper": self.upper, "bins": self.bins, "overflow": self.overflow}


GRIDS: Final[dict[str, type[LogGrid] | type[LinearGrid]]] = {"log": LogGrid, "linear": LinearGrid}
AnyGrid: TypeAlias = "LogGrid | LinearGrid"


def grid_from_json(body: object) -> AnyGrid:
    """Return the grid that `to_json` described; whatever else it is given is a `DataError`."""
    if not isinstance(body, Mapping) or not isinstance(body.get("kind"), str):
        raise DataError("grid: no table with a kind; give one such as {kind = 'log', steps = 64}")
    settings = {key: value for key, value in body.items() if key != "kind"}
    make = GRIDS.get(body["kind"])
    if make is None:
        raise DataError(f"grid: unknown kind {body['kind']!r}{did_you_mean(body['kind'], GRIDS)}")
    known = make.__dataclass_fields__
    for key in settings:
        if key not in known:
            raise DataError(f"grid: {body['kind']} has no setting {key!r}{did_you_mean(key, known)}")
    try:
        return make(**settings)
    except TypeError as error:
        raise DataError(f"grid: {error}") from error


def _bad(scores: ScoreArray) -> DataError:
    numbers = np.asarray(scores)
    wrong = ~(np.isfinite(numbers) & (numbers >= 0))
    return DataError(
        f"{np.count_nonzero(wrong)} of {wrong.size} scores are negative, NaN or infinite, the first at position "
        f"{int(np.argmax(wrong))}; remove these samples or repair the model"
    )
