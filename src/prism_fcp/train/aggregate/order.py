"""Rules on the order of each coordinate: median and trimmed mean over the clients that sent it."""

from __future__ import annotations

import numpy as np

from prism_fcp.errors import SettingError
from prism_fcp.train.aggregate.lift import stateless
from prism_fcp.types import BoolArray, FloatArray, IntArray, Rule


def median() -> Rule:
    """Coordinate-wise median over the clients that sent the coordinate; nobody sent it: the previous value.

    An even number of values gives the mean of the middle two. Reference: Yin et al. 2018.

    Paper: tab:baseline_gaussian_results.
    """
    return stateless("median", lambda rows, sent, previous: (trim_columns(rows, sent, previous, rows.shape[0]), None))


def trimmed_mean(trim: int) -> Rule:
    """Coordinate-wise mean after dropping the `trim` smallest and largest of the values sent.

    A coordinate that only c <= 2*trim clients sent is trimmed as far as c allows, which is its median; nobody
    sent it: the previous value. Reference: Yin et al. 2018.

    Paper: tab:baseline_gaussian_results.
    """
    if trim < 0:
        raise SettingError(f"trimmed_mean: trim={trim}; must be 0 or more")

    def check(num_uploads: int) -> None:
        if 2 * trim >= num_uploads:
            raise SettingError(
                f"trimmed_mean: trim={trim} leaves no rows of {num_uploads}; need 2*trim < {num_uploads}"
            )

    return stateless(
        "trimmed_mean", lambda rows, sent, previous: (trim_columns(rows, sent, previous, trim), None), check
    )


def trim_columns(rows: FloatArray, sent: BoolArray, previous: FloatArray, trim: int) -> FloatArray:
    """Return each column's mean without its `trim` smallest and largest of the values sent, or as near as it comes."""
    count = sent.sum(axis=0)
    ordered = np.sort(np.where(sent, rows, np.inf), axis=0)  # what was not sent sorts behind everything sent
    cut = np.minimum(trim, (count - 1) // 2)
    place = np.arange(rows.shape[0])[:, None]
    inside: IntArray = (place >= cut) & (place < count - cut)
    kept = np.maximum(count - 2 * cut, 1).astype(rows.dtype)
    return np.where(count > 0, np.where(inside, ordered, 0).sum(axis=0) / kept, previous)
