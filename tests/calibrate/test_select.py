from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_fcp.calibrate.quantile import bracket_from_histogram, pool, whole_parts
from prism_fcp.calibrate.select import select
from prism_fcp.errors import DataError

SCORES = st.lists(st.floats(0, 4).map(lambda value: round(value, 1)), min_size=1, max_size=30).map(np.array)
EDGES = np.append(np.arange(9) / 2, math.inf)


@given(
    st.lists(st.tuples(SCORES, st.sampled_from([0.0, 0.3, 0.5, 1.0])), min_size=1, max_size=6),
    st.sampled_from([0.1, 0.5, 0.9]),
    st.booleans(),
)
@pytest.mark.filterwarnings("ignore::prism_fcp.calibrate.quantile.TooFewScoresWarning")
def test_is_the_pooled_quantile(clients, level, whole) -> None:
    scores = [own for own, _ in clients]
    weights = np.array([math.ceil(weight) if whole else weight for _, weight in clients], dtype=np.float64)
    wanted = pool(scores, weights, level)
    parts, unit = whole_parts(weights)
    counts = parts @ np.array([np.histogram(own, np.append(EDGES[:-1], 1e9))[0] for own in scores])
    low, high = bracket_from_histogram(counts, EDGES, wanted.target)
    if wanted.radius == math.inf:
        assert low == math.inf
        return
    below = int(counts[EDGES[:-1] < low].sum())
    assert select(scores, parts, low, high, below, wanted.target) == wanted.radius


@pytest.mark.parametrize(("target", "parts"), [(5, [1]), (0, [1]), (1, [0]), (9, [2])])
def test_counts_that_lie_are_found_out(target: int, parts: list[int]) -> None:
    with pytest.raises(DataError, match="counts and scores disagree"):
        select([np.array([0.1, 0.2])], np.array(parts), 0.0, 1.0, 0, target)
