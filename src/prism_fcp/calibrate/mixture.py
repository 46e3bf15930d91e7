"""A filter against collusion: are there two groups of clients, and who belongs to the smaller one?

Colluders report one distribution. Each may look honest alone, but together they are a second group, and the direction
in which they differ can be learnt from all clients at once. Nearly nothing is lost against the best test there is, the
one that knows both distributions (docs/filters.md).
"""

from __future__ import annotations

from math import inf
from typing import Final, NamedTuple

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray

from prism_fcp.calibrate.cautious import typical_shares
from prism_fcp.calibrate.distance import BLOCK_ENTRIES, centre_and_spread
from prism_fcp.calibrate.judgement import Filter, FilterContext, Judgement, Shares
from prism_fcp.calibrate.ordered import Suspects, check_suspects, leave_out_most, told
from prism_fcp.calibrate.span import NORMAL_SCALE
from prism_fcp.errors import SettingError, need_number
from prism_fcp.types import IntArray

Array = NDArray[np.float64]
STEPS: Final = 60  # of expectation and maximisation
STARTS: Final = 2  # leading directions tried, both ways
MARGIN: Final = 12.0  # log-likelihood by which one distribution for all liars must fit better than liars that vary
LARGEST: Final = 0.49  # share of clients the smaller group may have
FEWEST: Final = 8  # clients; fewer have no groups
ALONE: Final = 3  # clients; of fewer nobody is left out, whatever was told: two accuse each other
LOUDEST: Final = 6.0  # MADs of training evidence; beyond that it says nothing more


def mixture(suspects: Suspects = None, moments: int = 4, chance: float = 0.005) -> Filter:
    """Leave out the smaller of two groups of clients.

    A client is its first `moments` Legendre moments in the typical client's levels: smooth, so that little noise comes
    in. Two normal groups are fitted by EM, with honest variety, which is learnt, and 1/n for a client with n scores as
    covariance; the score is the log-odds of the smaller. `suspects` is how many are left out, "told" the context's
    number. Without one, the group is left out if there is a valley before it: so few clients midway between the groups,
    compared with either, as a single group of whatever shape has with less than `chance`. That takes eight members at
    the default, however far away they are; `vigilant` finds the far ones otherwise.

    The context's evidence from training is one more moment of each client it names, in MADs from the median: as much as
    it tells the groups apart, so much does it count. Honest clients of two kinds are two groups as well: no count tells
    them from colluders.

    Reference: Neyman 1937 (smooth tests); Dempster, Laird and Rubin 1977 (EM); Müller and Sawitzki 1991 (valleys).
    Departure: where the groups lie is fitted before the valley is tested, so `chance` is measured, not proved.
    """
    check_suspects("mixture", suspects)
    need_number("filter 'mixture': moments", moments, integer=True)
    need_number("filter 'mixture': chance", chance)
    if not 1 <= moments <= 12:
        raise SettingError(f"filter 'mixture': moments={moments}; must lie in 1..12")
    if not 0 < chance < 1:
        raise SettingError(f"filter 'mixture': chance={chance}; must lie strictly between 0 and 1")

    def weigh(shares: Shares, sizes: IntArray, context: FilterContext) -> Judgement:
        clients = len(shares)
        if clients < (FEWEST if suspects is None else ALONE):
            return Judgement(np.ones(clients), np.zeros(clients), 0.0)
        count = None if suspects is None else told("mixture", suspects, context)
        noise = 1 / np.maximum(sizes, 1.0)
        points = smooth_moments(shares, moments)
        if context.evidence:
            points = np.column_stack((points, suspicion(context, clients) * np.sqrt(noise)))
        found = two_groups(points, noise, None if count is None else count / clients)
        odds = np.round(found.odds, 9)
        if count is not None:
            return leave_out_most("mixture", odds, count)
        if not _valley(found, chance):
            return Judgement(np.ones(clients), np.minimum(odds, 0), 0.0)
        return Judgement((odds <= 0).astype(np.float64), odds, 0.0)

    return Filter("mixture", "log-odds of belonging to the smaller of two groups", weigh)


def suspicion(context: FilterContext, clients: int) -> Array:
    """Return the evidence from training in MADs from the median, within 6; 0 for clients it does not name."""
    told = context.named(clients)
    seen = ~np.isnan(told)
    placed = np.zeros(clients)
    if seen.sum() >= FEWEST and np.isfinite(told[seen]).sum() > seen.sum() / 2:
        centre, spread = centre_and_spread(told[seen], NORMAL_SCALE)
        if spread > 0:
            placed[seen] = np.clip((told[seen] - centre) / spread, -LOUDEST, LOUDEST)
    return placed


class Groups(NamedTuple):
    """Two groups of clients."""

    odds: Array  # (K,) log-odds of belonging to the smaller
    places: Array  # (K,) along the line between their centres, in standard deviations of a client; the larger's is 0
    apart: float  # where the smaller's centre lies
    likelihood: float


def smooth_moments(shares: Shares, number: int) -> Array:
    """Return each client's moments (K, number): means of orthonormal polynomials in the typical client's levels.

    Of n scores drawn from the typical client each has variance 1/n, whatever the bins. Bins must be ordered by score.
    """
    number = min(number, shares.shape[1] - 1)
    if number < 1:
        return np.zeros((len(shares), 1))
    usual = typical_shares(shares)
    level = 2 * (np.cumsum(usual) - usual / 2) - 1
    curves = legendre.legvander(level, number)
    mix = np.linalg.qr(curves * np.sqrt(usual)[:, None], mode="r")  # curves / mix: orthonormal under that client
    real = np.abs(np.diag(mix)) > 1e-9  # few bins have few moments
    values = np.linalg.solve((mix + np.diag(np.where(real, 0.0, 1.0))).T, curves.T).T * real
    return np.asarray((shares @ values)[:, 1:])  # the first is the constant


def two_groups(points: Array, noise: Array, share: float | None = None) -> Groups:
    """Fit two normal groups to points (K, J), each with its own noise variance, by EM; the likeliest of several fits.

    The smaller group has either the larger one's variety, liars who start from scores of their own, or none, liars who
    report one distribution. Starts are both ends of the leading directions, and the densest spot.
    """
    part = 0.2 if share is None else min(max(share, 1 / len(points)), LARGEST)
    middle = points - np.median(points, axis=0)
    directions = np.linalg.svd(middle, full_matrices=False)[2][:STARTS]
    starts = []
    for direction in directions:
        for end in (middle @ direction, -(middle @ direction)):
            starts.append(np.where(end > np.quantile(end, 1 - part), 0.9, 0.05))
    starts.append(np.where(_densest(points, max(round(part * len(points)), 2)), 0.9, 0.05))
    several, one = (_fit(points, noise, np.array(starts), alike) for alike in (False, True))
    return one if one.likelihood > several.likelihood + MARGIN else several


def _densest(points: Array, count: int) -> NDArray[np.bool_]:
    """Return the `count` points that lie closest together around one of them."""
    radius, centre = inf, 0
    step = max(BLOCK_ENTRIES // points.size, 1)
    for start in range(0, len(points), step):
        apart = np.square(points[start : start + step, None] - points).sum(axis=2)
        reach = np.partition(apart, count - 1, axis=1)[:, count - 1]
        best = int(reach.argmin())
        if reach[best] < radius:
            radius, centre = float(reach[best]), start + best
    return np.asarray(np.square(points - points[centre]).sum(axis=1) <= radius)


def _fit(points: Array, noise: Array, starts: Array, alike: bool) -> Groups:
    """Run EM from all starts (S, K) at once, return the likeliest; `alike`: the smaller group varies by noise alone."""
    clients, width = points.shape
    kinds, kind = np.unique(noise, return_inverse=True)
    member = starts
    precision = 1 / noise
    for _ in range(STEPS):
        share = np.clip(member.mean(axis=1), 1 / clients, LARGEST)[:, None]
        one, two = member * precision, (1 - member) * precision
        small, large = (w @ points / w.sum(axis=1, keepdims=True) for w in (one, two))
        gaps, others = points - small[:, None], points - large[:, None]
        scatter = np.swapaxes(others * two[:, :, None], 1, 2) @ others
        number, weight = clients - member.sum(axis=1), two.sum(axis=1)
        if not alike:
            scatter += np.swapaxes(gaps * one[:, :, None], 1, 2) @ gaps
            number, weight = np.full(len(starts), float(clients)), np.full(len(starts), precision.sum())
        values, axes = np.linalg.eigh(scatter / weight[:, None, None])
        extra = np.maximum(values - (number / weight)[:, None], 0)
        spread = extra[:, None, :] + kinds[:, None]  # (S, kinds, J): the variances along the axes
        volume = np.log(spread).sum(axis=2)[:, kind]
        inverse = 1 / spread[:, kind]
        gaps, others = gaps @ axes, others @ axes
        far = (np.square(others) * inverse).sum(axis=2) + volume
        if alike:
            near = np.square(gaps).sum(axis=2) * precision - width * np.log(precision)
        else:
            near = (np.square(gaps) * inverse).sum(axis=2) + volume
        odds = (far - near) / 2 + np.log(share / (1 - share))
        member = 1 / (1 + np.exp(-np.clip(odds, -300, 300)))
    likelihood = (np.logaddexp(0, odds) - far / 2 + np.log(1 - share)).sum(axis=1)
    likelihood[member.mean(axis=1) > 0.5] = -inf  # the groups changed places
    best = int(likelihood.argmax())
    line = ((small - large)[best] @ axes[best]) * inverse[best]
    length = np.sqrt(np.maximum(line @ ((small - large)[best] @ axes[best]), 1e-300))
    places = (others[best] * line).sum(axis=1) / length
    return Groups(odds[best], places, float(np.median(length)), float(likelihood[best]))


def _valley(found: Groups, chance: float) -> bool:
    """Return whether clients are so few midway between the groups that one group does not explain it.

    Three windows of equal width, around both centres and midway: with a single peak, wherever it is, the middle one is
    expected to hold at least as many as one of the others.
    """
    third = found.apart / 3
    low, middle, high = (
        int(np.count_nonzero(np.abs(found.places - at) <= third / 2)) for at in (0.0, 1.5 * third, 3 * third)
    )
    return middle < min(low, high) and _coin(middle, middle + min(low, high)) < chance


def _coin(heads: int, throws: int) -> float:
    """Return the probability of at most so many heads."""
    term, total = 0.5**throws, 0.0
    for k in range(heads + 1):
        total += term
        term *= (throws - k) / (k + 1)
    return total
