"""Krum and Multi-Krum: trust the uploads that lie closest to their nearest fellows."""

from __future__ import annotations

import numpy as np

from prism_fcp.errors import SettingError
from prism_fcp.train.aggregate.lift import stateless
from prism_fcp.types import BoolArray, FloatArray, IntArray, Rule


def krum(suspects: int = 2, closest: int | None = None) -> Rule:
    """Take the one upload with the smallest sum of squared distances to its `closest` nearest (n - suspects - 2).

    Distances are between uploads filled with the previous model, so they exist for any masks; coordinates the
    chosen client did not send keep their previous value. Reference: Blanchard et al. 2017.

    Paper: tab:baseline_gaussian_results.
    """
    return _krum("krum", suspects, closest, 1)


def multi_krum(suspects: int = 2, selected: int | None = None, closest: int | None = None) -> Rule:
    """Average (like `mean`, silence votes for the previous model) the `selected` best uploads by Krum's score.

    `selected` defaults to n - suspects. Reference: Blanchard et al. 2017.

    Paper: tab:baseline_gaussian_results.
    """
    return _krum("multi_krum", suspects, closest, selected)


def _krum(name: str, suspects: int, closest: int | None, selected: int | None) -> Rule:
    if suspects < 0:
        raise SettingError(f"{name}: suspects={suspects}; must be 0 or more")

    def check(num_uploads: int) -> None:
        if 2 * suspects + 2 >= num_uploads:
            raise SettingError(
                f"{name}: suspects={suspects} of {num_uploads} uploads; need 2*suspects + 2 < {num_uploads}"
            )
        for what, value in (("closest", closest), ("selected", selected)):
            if value is not None and not 1 <= value <= num_uploads - (what == "closest"):
                raise SettingError(f"{name}: {what}={value}; must lie in 1..{num_uploads - (what == 'closest')}")

    def function(rows: FloatArray, sent: BoolArray, previous: FloatArray) -> tuple[FloatArray, IntArray]:
        n = rows.shape[0]
        near = min(n - 1, max(1, n - suspects - 2 if closest is None else closest))
        take = min(n, max(1, n - suspects if selected is None else selected))
        chosen = np.sort(np.argsort(krum_scores(rows, near), kind="stable")[:take])
        return rows[chosen].mean(axis=0), chosen

    return stateless(name, function, check)


def krum_scores(rows: FloatArray, closest: int) -> FloatArray:
    """Return each row's sum of squared distances to its `closest` nearest other rows.

    Differences in float64, never a Gram matrix: close models would drown in its rounding.
    """
    squared = squared_distances(rows.astype(np.float64))
    np.fill_diagonal(squared, np.inf)  # a client is not its own neighbour
    return np.asarray(np.sort(squared, axis=1)[:, :closest].sum(axis=1)) if len(rows) > 1 else np.zeros(1)


def squared_distances(rows: FloatArray) -> FloatArray:
    """Return the squared distances (n, n) between rows of float64."""
    n = len(rows)
    squared = np.zeros((n, n))
    for i in range(n - 1):
        squared[i, i + 1 :] = squared[i + 1 :, i] = np.square(rows[i + 1 :] - rows[i]).sum(axis=-1)
    return squared
