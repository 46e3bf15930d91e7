"""Pictures: there, not blank, as PNG and SVG, and never in the way when matplotlib is missing."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from prism_fcp.errors import MissingExtraError
from prism_fcp.lab import clients
from prism_fcp.lab.catalog import NAMES, named
from prism_fcp.lab.compare import judge
from prism_fcp.lab.figures import draw
from prism_fcp.lab.run import explain, run
from prism_fcp.lab.spec import Experiment
from tests.lab.conftest import shrunk

matplotlib = pytest.importorskip("matplotlib")


@pytest.mark.parametrize("name", NAMES)
def test_every_picture_of_the_catalogue(name: str, tmp_path: Path) -> None:
    from matplotlib.image import imread

    experiment = shrunk(dict(named(name).resolved))
    comparison = judge(run(experiment, trials=2))
    _, views = clients.save(tmp_path, explain(experiment))
    before = dict(matplotlib.rcParams)
    paths = draw(comparison, views, experiment.figures, tmp_path)
    assert dict(matplotlib.rcParams) == before and "matplotlib.pyplot" not in sys.modules
    assert [path.suffix for path in paths] == [".png", ".svg"] * len(experiment.figures)
    for path in paths:
        if path.suffix == ".png":
            pixels = imread(path)[..., :3]
            assert pixels.shape[1] > 800
            assert 0.01 < np.mean(pixels.min(axis=-1) < 0.9) < 0.6  # something is drawn, and it is not all ink
        else:
            assert path.read_text().lstrip().startswith("<?xml")


def test_the_same_result_gives_the_same_svg(tiny: Experiment, tmp_path: Path) -> None:
    comparison = judge(run(tiny, trials=2))
    first = draw(comparison, [], ["widths"], tmp_path / "a")[1].read_bytes()
    assert draw(comparison, [], ["widths"], tmp_path / "b")[1].read_bytes() == first


def test_without_matplotlib_a_line_says_how_to_get_it(
    tiny: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match="pip install 'prism-fcp"):
        draw(judge(run(tiny, trials=1)), [], ["widths"], tmp_path)


def test_client_views_come_back_from_their_file(tiny: Experiment, tmp_path: Path) -> None:
    _, views = clients.save(tmp_path, explain(tiny, trials=2))
    assert clients.load(tmp_path) == views
    first = views[0]
    assert len(first.attackers) == 3 and len(first.reasons) == 12 and len(first.truth) == 30
    assert views[0].counts and not views[-1].counts  # histograms of the first trial only: they are large
