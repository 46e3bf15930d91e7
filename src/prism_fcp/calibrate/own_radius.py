"""Each client's own radius, from its own scores alone.

It promises coverage on that client's data, whatever the others hold or claim, and whether or not a filter kept the
client. Its price: ceil((n+1)·level) of the client's own n scores are needed, else the radius is infinite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

import numpy as np
from numpy.typing import ArrayLike

from prism_fcp.calibrate.calibration import Calibration, ClientId
from prism_fcp.calibrate.guard import own_radii
from prism_fcp.calibrate.quantile import Level, rank
from prism_fcp.errors import DataError


def own_radii_from_scores(
    scores: Mapping[ClientId, ArrayLike], levels: Sequence[Level]
) -> dict[ClientId, tuple[float, ...]]:
    """Return each client's conformal quantile at each level, infinite where it has too few scores.

    >>> own_radii_from_scores({"north": np.arange(9.0)}, [0.5, 0.9, 0.95])
    {'north': (4.0, 8.0, inf)}

    Paper: sec "Federated Conformal Prediction", q_{1-alpha}
    """
    found: dict[ClientId, tuple[float, ...]] = {}
    for name, sent in scores.items():
        own = np.asarray(sent)
        if own.dtype.kind not in "fiu" or own.ndim != 1 or own.size == 0:
            raise DataError(
                f"own radius of client {name!r}: scores have dtype {own.dtype} and shape {own.shape}; "
                "one array of at least one real number is needed"
            )
        bad = own.size - np.count_nonzero((own >= 0) & (own < inf))
        if bad:
            raise DataError(
                f"own radius of client {name!r}: {bad} of {own.size} scores are negative, NaN or infinite; "
                "remove them or leave this client out"
            )
        ranks = [rank(own.size, level) for level in levels]
        ordered = np.partition(own, [min(place, own.size) - 1 for place in ranks])
        found[name] = tuple(float(ordered[place - 1]) if place <= own.size else inf for place in ranks)
    return found


def own_radii_from_counts(calibration: Calibration, levels: Sequence[Level]) -> dict[ClientId, tuple[float, ...]]:
    """Return the same from a calibration's counts: the upper end of the bin, so never smaller than the exact one.

    A last bin with a finite end also took what lies above it; a rank that falls there gives an infinite radius.
    """
    edges = np.append(calibration.edges[:-1], inf)
    columns = [own_radii(calibration.counts, edges, level).tolist() for level in levels]
    return dict(zip(calibration.client_ids, zip(*columns, strict=True), strict=True))
