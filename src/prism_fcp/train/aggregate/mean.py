"""Averages: the paper's, where silence votes for the previous model, and the one over those who spoke."""

from __future__ import annotations

import numpy as np

from prism_fcp.train.aggregate.lift import stateless
from prism_fcp.types import BoolArray, FloatArray, Rule


def mean() -> Rule:
    """Average over all uploads, a coordinate a client did not send counting as the previous model.

    A coordinate nobody sent keeps its previous value.

    Paper: Alg. 1, phase 1.
    """
    return stateless("mean", lambda rows, sent, previous: (rows.mean(axis=0), None))


def mean_of_sharers() -> Rule:
    """Average each coordinate over the clients that sent it; nobody sent it: the previous value.

    Paper: Alg. 1, phase 1 (a variant).
    """
    return stateless("mean_of_sharers", _mean_of_sharers)


def _mean_of_sharers(rows: FloatArray, sent: BoolArray, previous: FloatArray) -> tuple[FloatArray, None]:
    count = sent.sum(axis=0)
    total = np.where(sent, rows, 0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1).astype(rows.dtype), previous), None
