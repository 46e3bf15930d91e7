"""Trials trained together, as on a GPU, are the trials one by one, each kept as it is concluded."""

from __future__ import annotations

import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from prism_fcp.engines import xla
from prism_fcp.errors import DeviceMemoryError
from prism_fcp.lab import together
from prism_fcp.lab.checkpoint import Trial
from prism_fcp.lab.run import run
from prism_fcp.lab.spec import Experiment, parse

from .conftest import TINY

NET = """
name = "tiny-net"
title = "A net on a table that is drawn"
figures = ["widths"]
trials = 5

[data]
name = "friedman"
samples = 20
model = { name = "mlp", hidden = [5] }

[federation]
num_clients = 10
num_participants = 5
num_byzantine = 2
rounds = 12
batch_size = 4
step_size = 0.05
window = 3
idle_learning = false

[calibration]
samples = 30
test_samples = 20
bins = 10

[[attacks]]
name = "efficiency"

[[methods]]
method = "PRISM-FCP"
share = 0.5
filter = { name = "known_count", suspects = 2 }
scoring_model = "global"

[[methods]]
method = "Local"
training = "local"
filter = { name = "known_count", suspects = 2 }
"""


@pytest.fixture(params=[TINY, NET], ids=["linear", "net"])
def experiment(request: Any) -> Experiment:
    return parse(tomllib.loads(request.param), "tiny.toml")


def trained_sizes(monkeypatch: pytest.MonkeyPatch, size: int, most: int = 99) -> list[int]:
    """Let a CPU train `size` trials at once, and fail beyond `most`; return the sizes it was given."""
    seen: list[int] = []
    real = together.train_together

    def watched(populations: Any, *others: Any) -> Any:
        seen.append(len(populations))
        if len(populations) > most:
            raise DeviceMemoryError("too large")
        return real(populations, *others)

    monkeypatch.setattr(xla, "trials_at_once", lambda federation, arms: size)
    monkeypatch.setattr(together, "train_together", watched)
    return seen


def kept(folder: Path) -> list[Trial]:
    from prism_fcp import io
    from prism_fcp.lab.checkpoint import CELL_FIELDS
    from prism_fcp.pipeline import Cell

    _, records = io.Journal(folder / "trials-xla.jsonl", "trials").read()
    found = []
    for record in records:
        columns = [record["cells"][name] for name in CELL_FIELDS]
        found.append(Trial(record["trial"], tuple(Cell(*c) for c in zip(*columns, strict=True)), 0, 0))
    return sorted(found, key=lambda trial: trial.number)


def assert_same(one: list[Trial], other: list[Trial]) -> None:
    assert [trial.number for trial in one] == [trial.number for trial in other]
    for a, b in zip(one, other, strict=True):
        for mine, theirs in zip(a.cells, b.cells, strict=True):
            for field in fields(mine):
                value = getattr(mine, field.name)
                expected = getattr(theirs, field.name)
                assert value == (pytest.approx(expected, rel=1e-4) if isinstance(expected, float) else expected)


def test_are_the_trials_one_by_one(experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(experiment, trials=5, engine="xla", folder=tmp_path / "alone")
    seen = trained_sizes(monkeypatch, 3)
    run(experiment, trials=2, engine="xla", folder=tmp_path / "together", jobs=2)
    run(experiment, trials=5, engine="xla", folder=tmp_path / "together", jobs=2)  # goes on
    assert seen == [2, 3]
    assert_same(kept(tmp_path / "together"), kept(tmp_path / "alone"))


def test_fewer_at_once_where_the_memory_is_too_small(
    experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = trained_sizes(monkeypatch, 5, most=2)
    result = run(experiment, trials=5, engine="xla", folder=tmp_path)
    assert result.trials == 5 and seen == [5, 3, 2, 2, 1]
    trained_sizes(monkeypatch, 5, most=0)
    with pytest.raises(DeviceMemoryError, match="too large"):
        run(experiment, trials=5, engine="xla", folder=tmp_path, fresh=True)


def test_another_engine_is_never_given_several(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not trained_sizes(monkeypatch, 3) and run(experiment, trials=2, engine="readable").trials == 2
