"""How many calibration scores, and bins, a certificate or the detection theorem will need."""

from __future__ import annotations

from math import ceil, log
from typing import Final, NamedTuple

import numpy as np

from prism_fcp.calibrate.tails import Draws, least_share, log_choices
from prism_fcp.errors import SettingError, need_number
from prism_fcp.theory.contamination import coverage_bounds
from prism_fcp.theory.detection import needed_samples
from prism_fcp.theory.drift import unlikeness
from prism_fcp.theory.pooled import RANGE_FACTOR
from prism_fcp.theory.width import ScoreLaw, Scores

MOST_SAMPLES: Final = 10**9
BINS: Final = (2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 100, 200)


def certified_coverage(
    samples: int, clients: int, left_out: int, liars: int, level: float, confidence: float = 0.95
) -> float:
    """Return the least coverage `calibrate.worst_case` will certify with so many scores a client.

    Of all clients so many are left out, and of the kept ones so many lie. 0 where the radius would be infinite.
    """
    kept = clients - left_out
    mass = kept * samples
    rank = ceil((mass + 1) * level - 1e-9)
    if rank > mass:
        return 0.0
    draws = Draws((kept - liars) * samples, 1, (kept - liars) * samples, True)
    share = log(1 - confidence) - log_choices(clients, left_out) - log(2)
    return least_share(rank - liars * samples, draws, share)


def samples_for_coverage(
    wanted: float, clients: int, left_out: int, liars: int, level: float, confidence: float = 0.95
) -> int:
    """Return the least number of scores a client with which this coverage will be certified.

    No number is enough beyond (level - b)/(1 - b), b the liars' share of the kept clients.

    Paper: cor:coverage-bounds (a counterpart that is not vacuous)
    """
    for name, number in (("liars", liars), ("left_out", left_out)):
        need_number(name, number, integer=True)
    if not 0 <= liars < clients - left_out or left_out < 0:
        raise SettingError(
            f"liars={liars}, left_out={left_out} of {clients} clients; both must be 0 or more and leave an honest one"
        )
    limit = coverage_bounds(liars / (clients - left_out), level)[0]
    if not 0 < wanted < limit:
        raise SettingError(
            f"wanted_coverage={wanted:.10g}; must lie above 0 and below {limit:.4g}, which {liars} liars among "
            f"{clients - left_out} kept clients leave of level {level:g}; raise the level or use a guard"
        )
    low, high = 0, 1
    while certified_coverage(high, clients, left_out, liars, level, confidence) < wanted:
        low, high = high, high * 2
        if high > MOST_SAMPLES:
            raise SettingError(
                f"wanted_coverage={wanted:.10g}; more than {MOST_SAMPLES:.0e} scores a client are needed; want less: "
                f"{limit:.4g} is the limit"
            )
    while high - low > 1:
        middle = (low + high) // 2
        enough = certified_coverage(middle, clients, left_out, liars, level, confidence) >= wanted
        low, high = (low, middle) if enough else (middle, high)
    return high


class DetectionPlan(NamedTuple):
    """With how many scores a client thm:detection holds, against clients that all send zeros or all the range's end."""

    attack: str
    bins: int  # asked for
    samples: int | None  # needed with these bins if honest clients are alike, as the theorem assumes; None: never
    best_bins: int | None  # the number of bins that needs the fewest
    best_samples: int | None
    unlike_samples: int | None  # with the bins asked for, for clients as unlike as these; None: never
    unlike_best_bins: int | None  # of these the number of bins that needs the fewest; None: never with any
    unlike_best_samples: int | None


def detection_plan(law: ScoreLaw, byzantine: int, samples: int, bins: int, attack: str) -> DetectionPlan:
    """Return what thm:detection needs, without training error: the honest mean is taken under the trained models.

    The range reaches a little beyond the largest score, so it grows with the number of scores it is to hold for.

    Paper: thm:detection; rem:non-iid.
    """
    clients = round(float(law.kinds.counts.sum()))
    (everybody, _), *_ = law.worlds(whole=True)
    each = [Scores(np.array([v]), np.ones(1)) for v in law.kinds.noise_variances + law.excess]

    def needed(number: int, *, unlike: bool) -> int | None:
        count = samples
        for _ in range(3):  # the second answer is within a few per cent of the third
            top = RANGE_FACTOR * everybody.largest(clients * count)
            theirs = np.eye(number)[0 if attack == "efficiency" else -1]
            gap = float(np.linalg.norm(theirs - everybody.histogram(top, number)))
            apart = unlikeness(np.stack([one.histogram(top, number) for one in each])) if unlike else 0.0
            try:
                count = needed_samples(clients, byzantine, gap, number, drift=apart)
            except SettingError:
                return None
        return count

    def best(*, unlike: bool) -> tuple[int | None, int | None, int | None]:
        found = {number: needed(number, unlike=unlike) for number in dict.fromkeys((bins, *BINS))}
        possible = {number: count for number, count in found.items() if count is not None}
        least = min(possible, key=lambda number: possible[number]) if possible else None
        return found[bins], least, possible.get(least) if least else None

    return DetectionPlan(attack, bins, *best(unlike=False), *best(unlike=True))
