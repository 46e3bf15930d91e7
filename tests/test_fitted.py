"""A trained model in a file: what it predicts from raw features, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prism_fcp import load_model
from prism_fcp.calibrate.model_hash import model_hash
from prism_fcp.data.standardise import Scaler
from prism_fcp.errors import DataError
from prism_fcp.fitted import FittedModel, is_model_file
from prism_fcp.models import MODELS
from prism_fcp.types import Choice

SCALER = Scaler(np.array([1.0, -2.0, 10.0]), np.array([2.0, 0.5, 4.0]))


def fitted(**options: Any) -> FittedModel:
    name = "mlp" if options else "linear"
    model = MODELS[name](2, **options)
    weights = np.array([0.5, -1.5], np.float32) if name == "linear" else model.init(1)
    return FittedModel(Choice(name, options), model, weights, ("a", "b"), "y", SCALER, ("site",))


def test_it_predicts_in_the_targets_own_unit() -> None:
    """By hand: (3-1)/2 = 1 and (-1+2)/0.5 = 2; 0.5·1 - 1.5·2 = -2.5; 10 - 2.5·4 = 0."""
    np.testing.assert_allclose(fitted().predict([[3.0, -1.0], [1.0, -2.0]]), [0.0, 10.0], atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"hidden": (4, 3)}], ids=["linear", "mlp"])
def test_it_comes_back_bit_by_bit(options: dict[str, Any], tmp_path: Path) -> None:
    made = fitted(**options)
    made.save(tmp_path / "a.json")
    found = load_model(tmp_path / "a.json")
    rows = np.random.default_rng(0).normal(size=(50, 2))
    assert (found.predict(rows) == made.predict(rows)).all()
    found.save(tmp_path / "b.json")
    assert model_hash(tmp_path / "a.json") == model_hash(tmp_path / "b.json")
    assert is_model_file(tmp_path / "a.json") and not is_model_file(tmp_path)


def test_a_data_frame_goes_by_its_names() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"site": ["n", "s"], "b": [-1.0, -2.0], "a": [3.0, 1.0]})
    np.testing.assert_allclose(fitted().predict(frame), [0.0, 10.0], atol=1e-6)
    with pytest.raises(DataError, match="no column 'b'"):
        fitted().predict(frame.drop(columns="b"))
    with pytest.raises(DataError, match="column 'c' is no feature of this model"):
        fitted().predict(frame.assign(c=1))


@pytest.mark.parametrize(
    ("rows", "said"),
    [([[1.0]], r"shape \(1, 1\); must be \(rows, 2\), in the order a, b"), ([["x", 1]], "no table of numbers"),
     ([[1.0, np.nan]], "row 1, column 'b': nan is no finite number")],
)  # fmt: skip
def test_rows_it_cannot_use(rows: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        fitted().predict(rows)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("parameters", [1.0], "parameters must be 2 finite numbers"),
        ("sd", [1.0, 0.0, 1.0], "sd must be positive"),
        ("mean", ["a", 1.0, 2.0], "ValueError"),
        ("features", [], "must be names"),
        ("layers", [], "its layers are not those of 'linear'"),
        ("model", {"name": "linaer", "options": {}}, "did you mean 'linear'"),
        ("model", {"name": "linear", "options": {"depth": 3}}, "has no option 'depth'"),
        ("model", 3, "TypeError"),
        ("schema", 99, "schema 99"),
    ],
)
def test_a_file_that_is_no_whole_model(key: str, value: Any, said: str, tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    fitted().save(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(DataError, match=said) as told:
        load_model(path)
    assert str(path) in str(told.value)
