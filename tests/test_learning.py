"""A learning curve's last point is the trained model's error, and its first ones are those of shorter trainings."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from prism_fcp.engines import ENGINES
from prism_fcp.errors import DataError, SettingError
from prism_fcp.lab import curves
from prism_fcp.lab.run import run
from prism_fcp.lab.spec import Experiment, parse
from prism_fcp.learning import learning_curves, stops
from prism_fcp.pipeline import run_trial

SPEC = {
    "name": "small", "data": {"name": "friedman", "samples": 30, "original_units": False},
    "federation": {"num_clients": 12, "num_participants": 6, "num_byzantine": 3, "rounds": 40, "window": 1,
                   "batch_size": 4, "step_size": 0.05},
    "calibration": {"samples": 20, "test_samples": 20, "bins": 10},
    "attacks": [{"name": "efficiency"}],
    "figures": ["learning"],
    "methods": [
        {"method": "PRISM-FCP", "share": 0.5, "filter": {"name": "known_count", "suspects": 3}},
        {"method": "PSO-FCP", "share": 0.5, "filter": "keep_all"},
        {"method": "Local", "training": "local"},
        {"method": "Floor", "training": "oracle"},
    ],
}  # fmt: skip


@pytest.fixture
def small() -> Experiment:
    return parse(SPEC, "small")


def test_the_last_point_is_the_trials_own_error(small: Experiment) -> None:
    told = {c.method: c for c in learning_curves(small.setup, 1, 0, ENGINES["readable"], stops(40, 5))}
    assert list(told) == ["PRISM-FCP 0.5", "Local", "Floor"]  # PSO-FCP trains as PRISM-FCP does
    for cell in run_trial(small.setup, 1, 0, ENGINES["readable"]):
        if cell.method in told:
            assert told[cell.method].test_mse[-1] == pytest.approx(cell.test_mse, rel=1e-6)
    local = told["Local"].test_mse
    assert local[0] > 1.1 * local[-1] > 1.1 * told["Floor"].test_mse[-1]
    assert len(set(told["Floor"].test_mse)) == 1


def test_a_point_is_a_training_of_so_many_rounds(small: Experiment) -> None:
    whole = learning_curves(small.setup, 1, 0, ENGINES["readable"], [7, 40])
    setup = dataclasses.replace(small.setup, federation=dataclasses.replace(small.setup.federation, rounds=7))
    short = learning_curves(setup, 1, 0, ENGINES["readable"], [7])
    np.testing.assert_array_equal([c.test_mse[0] for c in whole], [c.test_mse[0] for c in short])


def test_curves_are_kept_and_belong_to_their_run(small: Experiment, tmp_path: Path) -> None:
    result = run(small, trials=1, folder=tmp_path)
    first = curves.of_run(small, result, tmp_path)
    written = (tmp_path / curves.FILE).stat().st_mtime_ns
    assert curves.of_run(small, result, tmp_path) == first
    assert (tmp_path / curves.FILE).stat().st_mtime_ns == written  # read, not trained again
    other = run(small, trials=1, seed=2)
    assert curves.of_run(small, other, tmp_path) != first
    broken = (tmp_path / curves.FILE).read_text().replace('"test_mse"', '"mse"')
    (tmp_path / curves.FILE).write_text(broken)
    with pytest.raises(DataError, match="run the experiment again with --fresh"):
        curves.of_run(small, other, tmp_path)


@pytest.mark.parametrize(("rounds", "count"), [(0, 3), (5, 0)])
def test_impossible_stops(rounds: int, count: int) -> None:
    with pytest.raises(SettingError, match="must be at least 1"):
        stops(rounds, count)
