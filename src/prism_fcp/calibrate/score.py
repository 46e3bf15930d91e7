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
    return _residual("absolute_residual", y, prediction)


def normalised_residual(y: ArrayLike, prediction: ArrayLike, sigma: ArrayLike) -> NDArray[np.floating[Any]]:
    """Return |y - prediction| / sigma, where sigma estimates how far off the prediction for that row may be.

    Any positive sigma keeps the coverage; a good one makes intervals narrow where the model is sure.

    >>> normalised_residual([1.0, 2.0], [1.5, 0.0], [0.5, 4.0])
    array([1. , 0.5])
    """
    residual = _residual("normalised_residual", y, prediction)
    scale = _numbers("normalised_residual", "sigma", sigma)
    if scale.shape != residual.shape:
        raise DataError(
            f"normalised_residual: sigma has shape {scale.shape}, y {residual.shape}; they must be equal; "
            "give one sigma for each sample"
        )
    good = (scale > 0) & np.isfinite(scale)
    if not good.all():
        raise DataError(
            f"normalised_residual: {np.count_nonzero(~good)} of {scale.size} entries of sigma are not positive and "
            "finite; raise them to a smallest sigma of your choice"
        )
    with np.errstate(over="ignore"):  # said below, in words
        score: NDArray[np.floating[Any]] = residual / scale
    if not np.isfinite(score).all():
        raise DataError("normalised_residual: |y - prediction| / sigma overflows; raise the smallest sigma")
    return score


SCORES: Final[dict[str, Score]] = {"absolute_residual": absolute_residual}  # a user's own joins by assignment


def _residual(owner: str, y: ArrayLike, prediction: ArrayLike) -> NDArray[np.floating[Any]]:
    target, guess = _numbers(owner, "y", y), _numbers(owner, "prediction", prediction)
    if target.shape != guess.shape:
        raise DataError(
            f"{owner}: y has shape {target.shape}, prediction {guess.shape}; they must be equal; reshape one of them"
        )
    if target.size == 0:
        raise DataError(f"{owner}: y is empty; at least one calibration sample is needed")
    with np.errstate(over="ignore", invalid="ignore"):  # said below, in words
        residual: NDArray[np.floating[Any]] = np.abs(target - guess)
    if not np.isfinite(residual).all():
        for name, values in (("y", target), ("prediction", guess)):
            bad = np.count_nonzero(~np.isfinite(values))
            if bad:
                raise DataError(
                    f"{owner}: {bad} of {values.size} entries of {name} are NaN or infinite; "
                    "remove these samples or repair the model"
                )
        raise DataError(f"{owner}: y - prediction overflows; rescale the target")
    return residual


def _numbers(owner: str, name: str, values: ArrayLike) -> NDArray[np.floating[Any]]:
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise DataError(f"{owner}: {name} is ragged; it must be one array of numbers") from error
    if array.dtype.kind not in "fiu":
        raise DataError(f"{owner}: {name} has dtype {array.dtype}; it must hold real numbers")
    return array if array.dtype.kind == "f" else array.astype(np.float64)
