"""Nonconformity scores: how badly a prediction misses. One function a score; larger is worse, never negative."""

from __future__ import annotations

from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prism_fcp.errors import DataError


class Score(Protocol):
    """What every score is: targets and predictions of one shape in, scores of that shape out."""

    def __call__(self, y: ArrayLike, prediction: ArrayLike) -> NDArray[np.floating[Any]]:
        """Return one non-negative, finite score for each pair, or raise `DataError`."""
        ...


def absolute_residual(y: ArrayLike, prediction: ArrayLike) -> NDArray[np.floating[Any]]:
    """Return |y - prediction|.

    Shapes must agree exactly: (n,) beside (n, 1) would silently become (n, n).

    >>> absolute_residual([1.0, 2.0], [1.5, 0.0])
    array([0.5, 2. ])

    Paper: sec "Federated Conformal Prediction", r_j; Alg. 1, phase 2
    """
    target, guess = _numbers("y", y), _numbers("prediction", prediction)
    if target.shape != guess.shape:
        raise DataError(
            f"absolute_residual: y has shape {target.shape}, prediction {guess.shape}; they must be equal; "
            "reshape one of them"
        )
    if target.size == 0:
        raise DataError("absolute_residual: y is empty; at least one calibration sample is needed")
    with np.errstate(over="ignore", invalid="ignore"):  # said below, in words
        residual: NDArray[np.floating[Any]] = np.abs(target - guess)
    if not np.isfinite(residual).all():
        for name, values in (("y", target), ("prediction", guess)):
            bad = np.count_nonzero(~np.isfinite(values))
            if bad:
                raise DataError(
                    f"absolute_residual: {bad} of {values.size} entries of {name} are NaN or infinite; "
                    "remove these samples or repair the model"
                )
        raise DataError("absolute_residual: y - prediction overflows; rescale the target")
    return residual


SCORES: Final[dict[str, Score]] = {"absolute_residual": absolute_residual}  # a user's own joins by assignment


def _numbers(name: str, values: ArrayLike) -> NDArray[np.floating[Any]]:
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise DataError(f"absolute_residual: {name} is ragged; it must be one array of numbers") from error
    if array.dtype.kind not in "fiu":
        raise DataError(f"absolute_residual: {name} has dtype {array.dtype}; it must hold real numbers")
    return array if array.dtype.kind == "f" else array.astype(np.float64)
