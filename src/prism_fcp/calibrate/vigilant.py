"""Three filters in turn: the loud ones first, then the far ones, then the ones that lie together.

Each is blind to what another finds. Loud liars also distort what the others learn from, so they go first. Whoever was
caught in training goes as well, but last: its scores show where its friends are.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from prism_fcp.calibrate.cautious import cautious
from prism_fcp.calibrate.judgement import Filter, FilterContext, Judgement, Shares
from prism_fcp.calibrate.mixture import mixture
from prism_fcp.calibrate.ordered import Suspects, check_suspects, leave_out_most, ordered, told
from prism_fcp.types import IntArray

LOUD: Final = 2.0  # added to the score of whoever goes first: more than any other's
CAUGHT: Final = 2.0  # the score, at least, of whoever training left out


def vigilant(suspects: Suspects = None) -> Filter:
    """Leave out whom `cautious` leaves out, or training did, and of the others whom `ordered` or `mixture` do.

    Training left out whom the context's evidence calls infinitely suspect; if that is half of the clients, training was
    lost, and it is not believed. Other evidence is for `mixture` to weigh. With a number of suspects ("told": the
    context's) the loud ones fill it first, by their cautious score, then those, and `mixture` the rest. Without one,
    the score is the largest of the three over their thresholds, and weight is lost above 1.

    It finds near-honest colluders that `cautious` spares. In return honest clients of two kinds are in danger: the
    fewer kind looks like a coalition. docs/filters.md has its measured rates.
    """
    check_suspects("vigilant", suspects)
    loud, far, together, ranked = cautious(), ordered(), mixture(), mixture("told")

    def weigh(shares: Shares, sizes: IntArray, context: FilterContext) -> Judgement:
        caught = np.isposinf(context.named(len(shares)))
        caught &= 2 * caught.sum() < len(shares)
        first = loud.weigh(shares, sizes, context)
        rest = np.flatnonzero(first.weights > 0)
        names = context.client_ids or tuple(range(len(shares)))
        left = FilterContext(tuple(names[k] for k in rest), None, context.evidence)
        if suspects is not None:
            count = told("vigilant", suspects, context)
            scores = LOUD + first.scores
            wanted = max(count - (len(shares) - len(rest)), 0)
            odds = ranked.weigh(shares[rest], sizes[rest], FilterContext(left.client_ids, wanted, left.evidence)).scores
            scores[rest] = odds / (1 + np.abs(odds)) + LOUD * caught[rest]
            return leave_out_most("vigilant", scores, count)
        scores = first.scores.copy()
        for one in (far, together):
            scores[rest] = np.maximum(scores[rest], _over(one.weigh(shares[rest], sizes[rest], left)))
        scores[caught] = np.maximum(scores[caught], CAUGHT)
        return Judgement((scores <= 1).astype(np.float64), scores, 1.0)

    measure = "difference from the others, over what chance and honest variety explain, or 2 if training left it out,"
    return Filter("vigilant", measure, weigh)


def _over(judged: Judgement) -> NDArray[np.float64]:
    """Return scores for which the threshold is 1."""
    if judged.threshold > 0:
        return judged.scores / (judged.threshold * (1 + 1e-12))
    return np.asarray(2 / (1 + np.exp(-np.clip(judged.scores, -300, 300))))
