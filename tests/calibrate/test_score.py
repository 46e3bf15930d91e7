from __future__ import annotations

import numpy as np
import pytest

from prism_fcp.calibrate import SCORES, absolute_residual
from prism_fcp.calibrate.score import normalised_residual
from prism_fcp.errors import DataError


def test_golden() -> None:
    # |3 - 1| = 2, |-1 - 1| = 2, |0 - 0.25| = 0.25
    np.testing.assert_array_equal(absolute_residual([3.0, -1.0, 0.0], [1.0, 1.0, 0.25]), [2.0, 2.0, 0.25])


def test_integers_do_not_wrap_around() -> None:
    # in uint8, 1 - 3 is 254
    y, prediction = np.array([1], dtype=np.uint8), np.array([3], dtype=np.uint8)
    assert absolute_residual(y, prediction)[0] == 2.0


def test_float32_stays_float32() -> None:
    ones = np.ones((3, 4), dtype=np.float32)
    assert absolute_residual(ones, 2 * ones).dtype == np.float32


@pytest.mark.parametrize(
    ("y", "prediction", "message"),
    [
        (np.ones(3), np.ones((3, 1)), r"y has shape \(3,\), prediction \(3, 1\)"),
        (np.ones(3), np.ones(4), "must be equal"),
        ([], [], "y is empty"),
        ([1.0, np.nan], [1.0, 1.0], "1 of 2 entries of y are NaN or infinite"),
        ([1.0, 1.0], [np.inf, np.nan], "2 of 2 entries of prediction"),
        ([np.inf], [np.inf], "entries of y"),
        (["a"], ["b"], "must hold real numbers"),
        ([[1.0], [1.0, 2.0]], [1.0], "ragged"),
        ([1 + 2j], [0], "must hold real numbers"),
    ],
)
def test_errors(y: object, prediction: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        absolute_residual(y, prediction)  # type: ignore[arg-type]


def test_overflow_is_said() -> None:
    with pytest.raises(DataError, match="overflows; rescale"):
        absolute_residual([1e308], [-1e308])


def test_registry() -> None:
    assert SCORES["absolute_residual"] is absolute_residual


def test_normalised_residual_golden() -> None:
    told = normalised_residual([3.0, 0.0], [1.0, 1.0], [4.0, 0.5])
    assert told.tolist() == [0.5, 2.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0], [1.0], [0.0]), "normalised_residual: 1 of 1 entries of sigma are not positive and finite"),
        (([1.0], [1.0], [-1.0]), "1 of 1 entries of sigma"),
        (([1.0], [1.0], [np.inf]), "1 of 1 entries of sigma"),
        (([1.0], [1.0], [np.nan]), "1 of 1 entries of sigma"),
        (([1.0, 2.0], [1.0, 2.0], [1.0]), r"sigma has shape \(1,\), y \(2,\)"),
        (([1.0], [1.0], ["a"]), "sigma has dtype"),
        (([np.nan], [1.0], [1.0]), "normalised_residual: 1 of 1 entries of y are NaN"),
        (([], [], []), "normalised_residual: y is empty"),
        (([1e300], [0.0], [1e-300]), "sigma overflows"),
    ],
)
def test_normalised_residual_refuses(arguments, message: str) -> None:
    with pytest.raises(DataError, match=message):
        normalised_residual(*arguments)
