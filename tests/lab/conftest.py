"""A federation small enough that a test can run it many times."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from prism_fcp.lab.spec import Experiment, parse

TINY = """
name = "tiny"
title = "A tiny federation"
figures = ["widths", "histograms", "scores", "intervals"]
trials = 4

[federation]
num_clients = 12
dimension = 6
num_participants = 6
num_byzantine = 3
rounds = 40
window = 10

[calibration]
samples = 60
test_samples = 50
bins = 20

[[attacks]]
name = "efficiency"

[[attacks]]
name = "coverage"

[[attacks]]
name = "random"

[[methods]]
method = "PRISM-FCP"
share = 0.5
filter = { name = "known_count", suspects = 3 }

[[methods]]
method = "FCP"
filter = "keep_all"

[[methods]]
method = "Local"
training = "local"
filter = { name = "known_count", suspects = 3 }

[[methods]]
method = "Floor"
training = "oracle"
filter = { name = "known_count", suspects = 3 }
"""


@pytest.fixture
def tiny_text() -> str:
    return TINY


@pytest.fixture
def tiny_file(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return path


@pytest.fixture
def tiny() -> Experiment:
    import tomllib

    return parse(tomllib.loads(TINY), "tiny.toml")


def without_real_data(resolved: dict[str, Any]) -> dict[str, Any]:
    """Return an experiment on the real table with its twin in place of it, where the table is not at hand."""
    real = resolved.get("data", {}).get("name") == "superconductivity"
    if real and "PRISM_FCP_SUPERCONDUCTIVITY" not in os.environ:
        return {**resolved, "data": {**resolved["data"], "name": "superconductivity-twin"}}
    return resolved


def shrunk(resolved: dict[str, Any]) -> Experiment:
    """Return an experiment with the same rows, attacks and pictures in a smaller, shorter federation."""
    small = {**without_real_data(resolved), "trials": 2, "explain": 1, "predict_samples": 5}
    small["federation"] = {**resolved["federation"], "rounds": 20, "window": 5}
    small["calibration"] = {**resolved["calibration"], "samples": 30, "test_samples": 20}
    return parse(small, "shrunk")
