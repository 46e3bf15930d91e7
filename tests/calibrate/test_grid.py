from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from prism_fcp.calibrate import Span, histogram
from prism_fcp.calibrate.grid import AnyGrid, LinearGrid, LogGrid, grid_from_json
from prism_fcp.calibrate.span import high_quantile
from prism_fcp.errors import DataError, SettingError

GRIDS: list[AnyGrid] = [
    LogGrid(), LogGrid(1, -2, 3), LogGrid(1024, -1, 1), LogGrid(4, -1021, 1023), LinearGrid(3.0),
    LinearGrid(0.1, 7, True),
]  # fmt: skip
finite = st.floats(0, 1.7976931348623157e308, allow_nan=False)


def by_search(grid: AnyGrid, scores: np.ndarray) -> np.ndarray:
    edges = grid.edges
    place = np.searchsorted(edges, scores, side="right") - 1
    if isinstance(grid, LinearGrid) and grid.overflow:
        place -= scores == grid.upper  # overflow is what lies above, not the range's end itself
    return np.bincount(np.minimum(place, len(edges) - 2), minlength=len(edges) - 1)


@pytest.mark.parametrize("grid", GRIDS, ids=repr)
@given(
    scores=hnp.arrays(np.float64, st.integers(0, 30), elements=finite | st.sampled_from([0.0, -0.0, 5e-324, 1.0, 2.0]))
)
def test_a_score_is_counted_between_its_edges(grid: AnyGrid, scores: np.ndarray) -> None:
    assert grid.count(scores).tolist() == by_search(grid, scores).tolist()


@pytest.mark.parametrize("grid", GRIDS, ids=repr)
def test_on_an_edge_and_just_below_it(grid: AnyGrid) -> None:
    edges = grid.edges[1:-1]
    below = np.nextafter(edges, 0)
    assert grid.count(edges).tolist() == by_search(grid, edges).tolist()
    assert grid.count(below).tolist() == by_search(grid, below).tolist()


def test_golden() -> None:
    # two steps an octave from 1/2 to 2: edges 0, .5, .75, 1, 1.5, 2, inf
    grid = LogGrid(2, -1, 1)
    assert grid.edges.tolist() == [0.0, 0.5, 0.75, 1.0, 1.5, 2.0, math.inf]
    assert grid.count(np.array([0.0, 0.49, 0.5, 0.74, 0.75, 1.0, 1.99, 2.0, 1e9])).tolist() == [2, 2, 1, 1, 1, 2]


@pytest.mark.parametrize("grid", [LogGrid(), LogGrid(256, -3, 4)], ids=repr)
def test_the_stated_resolution_holds_and_is_reached(grid: LogGrid) -> None:
    inner = grid.edges[1:-1]
    growth = inner[1:] / inner[:-1] - 1
    assert growth.max() == grid.resolution == 1 / grid.steps  # at the foot of each octave
    assert len(grid.edges) == grid.steps * (grid.highest - grid.lowest) + 3


def test_the_linear_grid_is_the_paper_s_histogram() -> None:
    scores = np.abs(np.random.default_rng(0).standard_normal(500))
    grid = LinearGrid(2.5, 40)
    assert grid.count(scores).tolist() == histogram([scores], Span(2.5), 40)[0].tolist()
    measured = LinearGrid.measured([scores, 2 * scores], high_quantile(0.9), bins=10)
    assert measured.upper == high_quantile(0.9)([scores, 2 * scores]).upper and measured.bins == 10


@pytest.mark.parametrize("grid", GRIDS, ids=repr)
@pytest.mark.parametrize("wrong", [math.nan, -math.nan, math.inf, -math.inf, -1.0, -5e-324])
@pytest.mark.parametrize("size", [1, 3, 200_000])
def test_what_is_no_score_is_refused(grid: AnyGrid, wrong: float, size: int) -> None:
    scores = np.full(size, 0.5)
    scores[-1] = math.copysign(wrong, -1.0) if wrong is not math.nan else wrong
    if math.copysign(1.0, wrong) > 0:
        scores[-1] = wrong
    with pytest.raises(DataError, match="NaN or infinite"):
        grid.count(scores)


def test_a_strided_and_a_narrow_array() -> None:
    scores = np.abs(np.random.default_rng(1).standard_normal(1000)).astype(np.float32)
    assert LogGrid().count(scores[::2]).tolist() == LogGrid().count(scores[::2].astype(np.float64)).tolist()


@pytest.mark.parametrize("grid", GRIDS, ids=repr)
def test_json_gives_the_same_grid(grid: AnyGrid) -> None:
    assert grid_from_json(grid.to_json()) == grid


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (None, "no table with a kind"),
        ({"kind": 3}, "no table with a kind"),
        ({"kind": "lag"}, "did you mean 'log'"),
        ({"kind": "log", "step": 4}, "did you mean 'steps'"),
        ({"kind": "log", "steps": 3}, "power of two"),
        ({"kind": "log", "steps": 2048}, "1..1024"),
        ({"kind": "log", "steps": "64"}, "must be an integer"),
        ({"kind": "log", "steps": True}, "must be an integer"),
        ({"kind": "log", "lowest": 3, "highest": 3}, "must ascend"),
        ({"kind": "log", "lowest": -2000}, "must ascend"),
        ({"kind": "log", "steps": 1024, "lowest": -1000, "highest": 1000}, "at most 1000000"),
        ({"kind": "linear"}, "upper"),
        ({"kind": "linear", "upper": 0.0}, "score range"),
        ({"kind": "linear", "upper": math.nan}, "finite"),
        ({"kind": "linear", "upper": 1.0, "bins": 1}, "bins=1"),
        ({"kind": "linear", "upper": 1.0, "bins": 1_000_000, "overflow": True}, "2..999999"),
        ({"kind": "linear", "upper": 1.0, "overflow": 1}, "true or false"),
    ],
)
def test_mistakes(body: Any, said: str) -> None:
    with pytest.raises((DataError, SettingError), match=said):
        grid_from_json(body)
