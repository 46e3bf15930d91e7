"""What coverage is left if some of the clients that were kept are liars: bounds without a distribution.

Assumed: an honest client's scores are independent draws of that client's own distribution; edges, sizes and weights
do not depend on the scores. Nothing is assumed of liars: they may know every score and send any counts of their mass L.
Write n for the kept mass, R for the mass the radius reaches, G(t) for the honest kept clients' mixture below t, N(t)
for their counts there. The radius is an edge e, the upper end of the bin in which the counts reach R.

*Least coverage.* The honest counts reach at least R - L at e. If G(e) < p, then e lies at or below t, the last edge
with G(t) < p, and N(t) >= N(e) >= R - L. That edge is fixed before any score is drawn, so the tail of N(t) bounds the
probability, whatever the liars did and however coarse the bins are. All liars at zero come arbitrarily close.

*Most coverage.* Below a rank R' the same argument turns round: N < R' at an edge whose share is above p is rare. The
counts seen at e, liars included, lie below some rank of a ladder that was fixed beforehand; each rung pays its part
of delta, so the width of the radius' own bin is paid for as it was observed.

*The filter's choice.* The kept set depends on the counts, so both bounds are spread over every set of clients the
filter could have left out (`tails.log_choices`); the statement then holds for any filter, a hostile one included. Only
weights strictly between 0 and 1 that follow from the scores (`down_weight`) are outside of it.

*All honest clients.* Those left out may be honest, liars, or some of each. Their own counts at the radius are known,
so each subset's share below it is too, up to `tails.band`; the worst subset counts.

Coverage is the chance of a score below the radius; a distribution with an atom at an edge may have more than `most`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, inf, log, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prism_fcp.calibrate.masses import Pool, exact_fraction, pool_counts
from prism_fcp.calibrate.quantile import Correction, Level, bracket_from_histogram
from prism_fcp.calibrate.tails import Draws, band, least_share, log_choices
from prism_fcp.errors import DataError, SettingError, counted, need_number
from prism_fcp.types import FloatArray, IntArray


class Bounds(NamedTuple):
    """Least and most coverage."""

    least: float
    most: float

    @property
    def vacuous(self) -> bool:
        """Return whether they say nothing."""
        return self.least <= 0 and self.most >= 1


class WorstCase(NamedTuple):
    """One row: if so many kept clients, or so much of the kept mass, are undetected liars."""

    liars: int | None  # None: the row is for a fraction of the mass
    fraction: float  # of the kept mass that the heaviest such liars hold
    kept: Bounds  # coverage of the honest kept clients' mixture
    everyone: Bounds  # of all honest clients', those left out included
    expected: float  # least coverage on average over repetitions, if honest kept clients have one distribution

    @property
    def sentence(self) -> str:
        """Return the row in words."""
        share = f"{100 * self.fraction:.3g} % of the kept mass"
        if self.liars is None:
            who = f"if liars hold {share}"
        elif self.liars == 0:
            who = "if no kept client lies"
        else:
            who = f"if {counted(self.liars, 'kept client')} {'lies' if self.liars == 1 else 'lie'} (up to {share})"
        text = f"{who}, coverage of the honest clients that were kept is {_words(self.kept)}"
        return text if self.everyone == self.kept else f"{text}; of all honest clients, {_words(self.everyone)}"


def worst_case(
    counts: IntArray,
    weights: FloatArray,
    edges: FloatArray,
    level: Level,
    *,
    liars: Sequence[int] = (0, 1, 2, 3, 5, 10, 20),
    fractions: Sequence[float] = (),
    confidence: float = 0.95,
    rank: int | None = None,
    correction: Correction = "n+1",
    chosen_by_counts: bool = True,
    as_if_kept: FloatArray | None = None,
) -> tuple[WorstCase, ...]:
    """Return a row for each number of liars that leaves an honest kept client, then one for each fraction.

    Each row holds with this confidence if no more than that many are liars. `rank` is the mass the radius reaches,
    where it is not the conformal rank of `level` (a guarded one). `chosen_by_counts=False` is for a kept set that was
    fixed before anyone saw a count. `as_if_kept` are the weights with which clients that were left out enter the
    mixture of all honest clients: 1 unless given, but none more than the heaviest kept client.

    Paper: cor:coverage-bounds (a counterpart that is not vacuous)
    """
    if not 0 < confidence < 1:
        raise SettingError(f"worst_case: confidence={confidence}; must lie strictly between 0 and 1")
    for number in liars:
        need_number("worst_case: liars", number, integer=True)
        if number < 0:
            raise SettingError(f"worst_case: liars={number}; must be 0 or more")
    kept = pool_counts(counts, weights, correction)
    target = kept.rank(level) if rank is None else rank
    radius = bracket_from_histogram(kept.counts, edges, target)[1]
    used = kept.parts[kept.parts > 0].tolist()
    choices = log_choices(len(kept.parts), len(kept.parts) - len(used)) if chosen_by_counts else 0.0
    scene = _Scene(
        kept,
        Draws(
            kept.mass,
            max(used, default=1),
            sum(map(int.__mul__, kept.parts.tolist(), kept.masses)),
            len(set(used)) == 1,
        ),
        target,
        int(kept.counts[: _position(edges, radius)].sum()),
        log(1 - confidence) - choices,
        radius == inf,
        bool(radius == edges[-1] < inf),
    )
    aside = _left_out(counts, kept, edges, radius, as_if_kept)
    heaviest = sorted(kept.masses, reverse=True)
    cases: list[tuple[int | None, int]] = [(number, sum(heaviest[:number])) for number in liars]
    cases = [(number, lies) for number, lies in cases if lies < kept.mass or not number]
    for fraction in fractions:
        lies = floor(exact_fraction(fraction, "worst_case") * kept.mass)
        cases.append((None, lies - lies % scene.draws.largest if scene.draws.equal else lies))
    return tuple(_row(number, lies, scene, aside) for number, lies in cases)


class _Scene(NamedTuple):
    """What all rows share."""

    kept: Pool
    draws: Draws  # of all kept clients
    target: int
    seen: int  # mass counted below the radius, liars included
    log_delta: float
    certain: bool  # the radius is infinite
    open_below: bool  # the radius ends the range, and scores above it were counted as below


class _Aside(NamedTuple):
    """The clients that were left out, in the kept ones' unit of mass."""

    below: NDArray[np.float64]  # the radius
    masses: NDArray[np.float64]
    squares: float


def _row(number: int | None, lies: int, scene: _Scene, aside: _Aside) -> WorstCase:
    kept, honest = scene.kept, scene.kept.mass - lies
    fraction = lies / kept.mass if kept.mass else 0.0
    if scene.certain:
        return WorstCase(number, fraction, Bounds(1.0, 1.0), Bounds(1.0, 1.0), 1.0)
    half = scene.log_delta - log(2)  # one for each end
    alone = _kept_bounds(lies, scene, half)
    everyone, outside = alone, float(aside.masses.sum())
    if outside > 0:
        inner = _kept_bounds(lies, scene, half - log(2))
        slack = band(aside.squares, outside, half - log(2))
        least = _with_left_out(inner.least, honest, aside.below, aside.masses, slack)
        most = 1 - _with_left_out(1 - inner.most, honest, aside.masses - aside.below, aside.masses, slack)
        everyone = Bounds(0.0 if scene.open_below else least, most)
    expected = 0.0 if scene.open_below else max(scene.target - lies, 0) / (honest + kept.unit)
    return WorstCase(number, fraction, alone, everyone, expected)


def _kept_bounds(lies: int, scene: _Scene, log_delta: float) -> Bounds:
    draws = scene.draws._replace(mass=scene.kept.mass - lies)
    least = 0.0 if scene.open_below else least_share(scene.target - lies, draws, log_delta)
    ladder = _rungs(scene.target, scene.kept.mass, draws.largest)
    rung = next((rung for rung in ladder if scene.seen < rung <= draws.mass), None)
    if rung is None:
        return Bounds(least, 1.0)
    return Bounds(least, 1 - least_share(draws.mass - rung + 1, draws, log_delta - log(len(ladder))))


def _rungs(target: int, mass: int, part: int) -> list[int]:
    """Return ranks above `target` and up to the mass, ever further apart: first a third of the rank's own spread."""
    start, end = -(-target // part), mass // part
    spread = max(sqrt(start * max(end - start, 0) / end), 1.0)
    found, excess = set(), 0.0
    while start + 1 + int(excess) <= end:
        found.add(part * (start + 1 + int(excess)))
        excess = 1.3 * excess + 0.3 * spread
    return sorted(found)


def _left_out(counts: IntArray, kept: Pool, edges: FloatArray, radius: float, as_if_kept: FloatArray | None) -> _Aside:
    out = kept.parts == 0
    table = np.asarray(counts)[out]
    sizes = table.sum(axis=1).astype(np.float64)
    heaviest = max(kept.masses, default=0) / kept.unit
    weights = np.minimum(1, heaviest / np.maximum(sizes, 1))
    if as_if_kept is not None:
        if np.shape(as_if_kept) != out.shape:
            raise DataError(f"worst_case: {np.size(as_if_kept)} weights as if kept for {out.size} clients; one each")
        weights = np.asarray(as_if_kept, dtype=np.float64)[out]
        if not ((weights >= 0) & (weights <= 1)).all():
            raise DataError(f"worst_case: weights as if kept reach {weights.max()}; each must lie in [0, 1]")
    below = table[:, : _position(edges, radius)].sum(axis=1)
    heavy = weights * kept.unit
    return _Aside(heavy * below, heavy * sizes, float(heavy**2 @ sizes))


def _with_left_out(
    share: float, honest: int, below: NDArray[np.float64], masses: NDArray[np.float64], slack: float
) -> float:
    """Return the least share of the kept mixture together with any subset of the left-out clients.

    `slack` is by how much the subset's count may exceed its due. A ratio of sums over a subset is least where all
    clients below that ratio are in it, so the prefixes of the order by share decide. No share is below 0, so all of
    them with nothing below is a floor.
    """
    order = np.argsort(below / np.maximum(masses, 1e-300), kind="stable")
    total = honest + np.concatenate(([0.0], np.cumsum(masses[order])))
    inside = share * honest + np.concatenate(([0.0], np.cumsum(below[order])))
    return min(share, max(float(((inside - slack) / total).min()), share * honest / float(total[-1])))


def _position(edges: FloatArray, radius: float) -> int:
    """Return how many bins lie below the radius."""
    return int(np.searchsorted(edges, radius))


def _words(bounds: Bounds) -> str:
    if bounds.vacuous:
        return "unknown (vacuous: anything from 0 to 100 %)"
    return f"between {floor(1000 * bounds.least) / 10:g} % and {ceil(1000 * bounds.most) / 10:g} %"
