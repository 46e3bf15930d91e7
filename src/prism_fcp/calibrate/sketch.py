"""The t-digest, the paper's example of a score sketch, for comparison with exact quantiles.

For simulations only: digests are built here from arrays this process holds. Never read a digest from a client's
bytes; serialised sketches crash their readers on hostile input, and a fixed grid of counts does the same work.
"""

from __future__ import annotations

import warnings
from math import inf

from prism_fcp.calibrate.quantile import Correction, Level, TooFewScoresWarning, rank
from prism_fcp.calibrate.span import ClientScores
from prism_fcp.errors import DataError, MissingExtraError, SettingError


def tdigest_quantile(
    scores: ClientScores,
    *,
    confidence_level: Level = 0.9,
    correction: Correction = "n+1",
    max_centroids: int = 100,
) -> float:
    """Return the conformal quantile as one t-digest a client, merged, estimates it.

    Simulation only, never on bytes from a client. fastdigest puts the rank-th of n scores at the level
    (rank - 1)/(n - 1), and interpolates.

    Paper: eq:quantile (T-Digest); Alg. 1, Q_k
    """
    try:
        from fastdigest import TDigest, merge_all
    except ImportError as error:
        raise MissingExtraError(
            "tdigest_quantile needs the package fastdigest; install it with: pip install 'prism-fcp[sketch]'"
        ) from error
    if max_centroids < 10:
        raise SettingError(f"tdigest_quantile: max_centroids={max_centroids}; must be at least 10")
    total = sum(len(own) for own in scores)
    if total == 0:
        raise DataError("tdigest_quantile: no scores; at least one client's are needed")
    position = rank(total, confidence_level, correction, len(scores))
    if position > total:
        warnings.warn(
            f"{total} scores cannot give confidence {confidence_level}: rank {position} is needed; the radius is "
            "infinite; collect more scores or lower the level",
            TooFewScoresWarning,
            stacklevel=2,
        )
        return inf
    digests = [TDigest.from_values(own.tolist(), max_centroids=max_centroids) for own in scores if len(own)]
    return float(merge_all(digests).quantile((position - 1) / max(total - 1, 1)))
