"""Pictures: there, not blank, as PNG and SVG, and never in the way when matplotlib is missing."""

from __future__ import annotations

import dataclasses
import logging
import os
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prism_fcp.calibrate.quantile import TooFewScoresWarning
from prism_fcp.errors import MissingExtraError
from prism_fcp.lab import clients, curves, palette
from prism_fcp.lab.catalog import NAMES, named
from prism_fcp.lab.compare import Comparison, judge
from prism_fcp.lab.figures import PLOTS, draw
from prism_fcp.lab.result import Spread
from prism_fcp.lab.run import explain, run
from prism_fcp.lab.spec import Experiment, parse
from tests.lab.conftest import shrunk

matplotlib = pytest.importorskip("matplotlib")


@pytest.mark.parametrize("name", NAMES)
def test_every_picture_of_the_catalogue(name: str, tmp_path: Path) -> None:
    from matplotlib.image import imread

    experiment = shrunk(dict(named(name).resolved))
    result = run(experiment, trials=2)
    comparison = judge(result)
    if "learning" in experiment.figures:
        comparison = dataclasses.replace(comparison, curves=tuple(curves.of_run(experiment, result, tmp_path)))
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
    assert not clients.belongs(tmp_path, {"seed": 1}) and not clients.belongs(tmp_path / "nowhere", {})
    first = views[0]
    assert len(first.attackers) == 3 and len(first.reasons) == 12 and len(first.truth) == 30
    assert views[0].counts and not views[-1].counts  # histograms of the first trial only: they are large


def without_widths(comparison: Comparison, spread: Spread, which: slice = slice(None)) -> Comparison:
    """Return a comparison some of whose rows have another width."""
    rows = list(comparison.rows)
    for place in range(*which.indices(len(rows))):
        row = dataclasses.replace(rows[place].row, width=spread, quantile_deviation=Spread(None), infinite_widths=1)
        rows[place] = dataclasses.replace(rows[place], row=row)
    return dataclasses.replace(comparison, rows=tuple(rows))


@pytest.mark.parametrize("spread", [Spread(None), Spread(0.0, 0.0, 0.0)], ids=["infinite", "zero"])
@pytest.mark.parametrize("which", [slice(None), slice(0, None, 2)], ids=["all", "some"])
@pytest.mark.parametrize(
    ("name", "kind"),
    [("table-gaussian", "widths"), ("fig-quantile", "quantile"), ("sweep-count", "count"), ("sweep-noise", "noise"),
     ("fig-sharing", "energy")],
)  # fmt: skip
def test_rows_without_a_width_are_left_out(
    name: str, kind: str, which: slice, spread: Spread, results: dict[str, Comparison], tmp_path: Path
) -> None:
    paths = draw(without_widths(results[name], spread, which), [], [kind], tmp_path)
    assert len(paths) == 2
    if kind in ("widths", "quantile") or (kind != "energy" and spread.mean is None):  # zero stands on a linear axis
        assert "finite" in paths[1].read_text()


@pytest.fixture(scope="module")
def results() -> dict[str, Comparison]:
    names = ("table-gaussian", "fig-quantile", "sweep-count", "sweep-noise", "fig-sharing")
    return {name: judge(run(shrunk(dict(named(name).resolved)), trials=1)) for name in names}


@pytest.mark.parametrize(
    "change",
    [("samples = 60", "samples = 60\nconfidence_level = 0.999999"), ("samples = 60", "samples = 1"),
     ("bins = 20", 'bins = 20\nbeyond_range = "infinite"\nrange = { name = "max", factor = 0.3 }')],
    ids=["level", "samples", "beyond"],
)  # fmt: skip
def test_settings_without_a_finite_width_still_have_their_pictures(
    tiny_text: str, change: tuple[str, str], tmp_path: Path
) -> None:
    experiment = parse(tomllib.loads(tiny_text.replace(*change)), "tiny")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TooFewScoresWarning)
        _, views = clients.save(tmp_path, explain(experiment))
        comparison = judge(run(experiment, trials=2))
    assert len(draw(comparison, views, experiment.figures, tmp_path)) == 8


def test_a_picture_that_cannot_be_drawn_is_named_and_no_more(
    tiny: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(figure: Any, comparison: Any, views: Any) -> None:
        raise ValueError("no ink")

    comparison = judge(run(tiny, trials=1))
    draw(comparison, [], ["widths"], tmp_path)
    monkeypatch.setitem(PLOTS, "widths", broken)
    with pytest.warns(UserWarning, match="picture 'widths' cannot be drawn .ValueError: no ink."):
        assert draw(comparison, [], ["widths"], tmp_path) == []
    assert not list(tmp_path.iterdir())  # nothing of an earlier run is taken for this one's


@pytest.mark.parametrize("text", ["$\\foo$ 5 % of $x_", "联邦学习 " * 20, "a\x07b\x1b[0m\n", "long " * 60], ids=repr)
def test_any_text_can_be_drawn(tiny: Experiment, text: str, tmp_path: Path) -> None:
    result = run(tiny, trials=1)
    _, views = clients.save(tmp_path, explain(tiny))
    rows = tuple(dataclasses.replace(row, method=text, attack=text + row.attack) for row in result.rows)
    comparison = judge(dataclasses.replace(result, title=text, rows=rows))
    assert len(draw(comparison, views, tiny.figures, tmp_path)) == 8


def test_matplotlib_is_quiet_and_needs_neither_home_nor_backend(tmp_path: Path) -> None:
    code = (
        "from prism_fcp.lab.figures import draw\nfrom pathlib import Path\n"
        f"print(draw(None, [], [], Path({str(tmp_path)!r})))"
    )
    environment = os.environ | {"MPLBACKEND": "foo", "HOME": "/proc/nowhere", "XDG_CONFIG_HOME": "/proc/nowhere"}
    environment |= {"XDG_CACHE_HOME": "/proc/nowhere"}
    environment.pop("MPLCONFIGDIR", None)
    told = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert (told.returncode, told.stdout, told.stderr) == (0, "[]\n", "")
    assert logging.getLogger("matplotlib").level != logging.CRITICAL


def test_a_method_keeps_its_colour() -> None:
    colours = palette.method_colours(["PRISM-FCP 0.3", "PRISM-FCP 0.5", "FCP 1.0", "mine 1.0"])
    assert colours[0] == palette.OURS and colours[2] == palette.BYZANTINE and len(set(colours)) == 4
