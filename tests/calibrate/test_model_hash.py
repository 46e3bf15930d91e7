from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from prism_fcp.calibrate.model_hash import model_hash
from prism_fcp.errors import PrismError

WEIGHTS = np.arange(6.0).reshape(2, 3)


def test_golden_by_the_definition() -> None:
    def number(value: int) -> bytes:
        return value.to_bytes(8, "little")

    told = b"prism-fcp/parameters/1\0" + number(2)
    told += number(1) + b"b" + number(3) + b"<f4" + number(1) + number(2) + np.array([1, -2], "<f4").tobytes()
    told += number(1) + b"w" + number(3) + b"<f8" + number(2) + number(2) + number(3) + WEIGHTS.tobytes()
    parameters = {"w": WEIGHTS, "b": np.array([1, -2], np.float32)}
    assert model_hash(parameters) == hashlib.sha256(told).hexdigest()


def test_neither_order_nor_layout_nor_byte_order_matters() -> None:
    told = model_hash({"a": WEIGHTS, "b": np.int32(3)})
    assert told == model_hash({"b": np.array(3, dtype=">i4"), "a": np.asfortranarray(WEIGHTS).astype(">f8")})
    assert told == model_hash({"a": np.repeat(WEIGHTS, 2, axis=1)[:, ::2], "b": np.int32(3)})


@pytest.mark.parametrize(
    "other",
    [
        {"a": WEIGHTS.T},
        {"a": WEIGHTS.ravel()},
        {"a": WEIGHTS.astype(np.float32)},
        {"b": WEIGHTS},
        {"a": -WEIGHTS},  # -0.0 in one place
        {"a": WEIGHTS[:1], "": WEIGHTS[1:]},
        {"a": WEIGHTS, "b": np.zeros((0, 3))},
    ],
)
def test_what_differs_has_another_hash(other) -> None:
    assert model_hash(other) != model_hash({"a": WEIGHTS})


def test_a_file_is_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    payload = bytes(range(256)) * 20_000
    path.write_bytes(payload)
    assert model_hash(path) == hashlib.sha256(payload).hexdigest()
    with pytest.raises(PrismError, match="cannot read"):
        model_hash(tmp_path / "none")
    with pytest.raises(PrismError, match="cannot read"):
        model_hash(tmp_path)


def test_given_digits() -> None:
    assert model_hash("AB" * 32) == "ab" * 32


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("model.onnx", "must be 64 hex digits; for a file give a Path"),
        ("ab" * 32 + "\n", "must be 64 hex digits"),
        ({}, "no parameters"),
        ({1: WEIGHTS}, "parameter name 1 is no text"),
        ({"a": np.array([object()])}, "dtype object"),
        ({"a": "text"}, "dtype <U4"),
        (object(), "of a object: it has no bytes"),
        (WEIGHTS, "of a ndarray"),
    ],
)
def test_what_has_no_hash(model, message: str) -> None:
    with pytest.raises(PrismError, match=message):
        model_hash(model)
