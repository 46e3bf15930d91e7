from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.calibrate.federation import draw
from tests.calibrate.sites import NOW, scores, spec, summaries

from prism_fcp.calibrate import (
    RANGES,
    SCORE_ATTACKS,
    ClippedScoresWarning,
    TooFewScoresWarning,
    calibrate,
    keep_all,
    known_count,
    mad,
    pooled_quantile,
)
from prism_fcp.calibrate.combine import calibrate_summaries, radii
from prism_fcp.calibrate.grid import LinearGrid, LogGrid
from prism_fcp.calibrate.summary import summarize
from prism_fcp.errors import DataError


@pytest.mark.parametrize("attack", ["efficiency", "coverage", "random"])
@pytest.mark.parametrize("filter", [known_count(20), mad(), keep_all()], ids=lambda own: own.name)
def test_on_the_paper_s_grid_it_is_the_pipeline(attack: str, filter: object) -> None:
    """Done means 2, first half: the same verdicts, and the pipeline's radius within the bracket."""
    for seed in range(5):
        trial = draw(seed)
        sent = trial.scores.copy()
        sent[trial.attackers] = trial.report(SCORE_ATTACKS[attack]())
        grid = LinearGrid.measured(trial.scores, RANGES["max"]())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ClippedScoresWarning)  # the coverage attack, unfiltered, is meant to
            by_scores = calibrate(sent, filter=filter, range=grid.span, beyond_range="clip", cap=None)  # type: ignore[arg-type]
        agreed = spec(grid=grid, cap=None)
        made = [summarize(own, agreed, str(client), created=NOW) for client, own in enumerate(sent)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ClippedScoresWarning)
            by_counts = calibrate_summaries(made, agreed, filter=filter)  # type: ignore[arg-type]
        np.testing.assert_array_equal(by_counts.verdict.weights, by_scores.verdict.weights)
        np.testing.assert_allclose(by_counts.verdict.scores, by_scores.verdict.scores)
        low, high = by_counts.bracket
        assert low <= by_scores.radius <= high == by_counts.radius
        assert by_counts.rank == by_scores.rank


@pytest.mark.parametrize("steps", [1, 64, 1024])
@pytest.mark.parametrize("level", ["0.5", "0.9", "0.99"])
def test_on_the_default_grid_the_radius_is_within_its_resolution_and_never_smaller(steps: int, level: str) -> None:
    """Done means 2, second half."""
    for seed in range(10):
        own = scores(6, 173, seed)
        exact = pooled_quantile(list(own.values()), confidence_level=level)
        agreed = spec(grid=LogGrid(steps), confidence_levels=(level,))
        told = calibrate_summaries(summaries(own, agreed), agreed, filter=keep_all())
        assert exact <= told.radius <= exact * (1 + 1 / steps)
        assert told.bracket[0] <= exact < told.bracket[1] == told.radius


@given(
    values=st.lists(st.lists(st.floats(1e-6, 1e6), min_size=3, max_size=12), min_size=2, max_size=5),
    weights=st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.999, 1.0]), min_size=5, max_size=5),
    level=st.sampled_from(["0.1", "0.5", "0.9"]),
    correction=st.sampled_from(["n+1", "n+K"]),
)
def test_weighted_radii_bracket_the_exact_ones(
    values: list[list[float]], weights: list[float], level: str, correction: str
) -> None:
    agreed = spec(confidence_levels=(level,), correction=correction)
    own = [np.array(row) for row in values]
    counts = np.array([agreed.grid.count(row) for row in own])
    used = np.array(weights[: len(own)])
    if not used.any():
        used[0] = 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TooFewScoresWarning)
        exact = pooled_quantile(own, used, confidence_level=level, correction=correction)  # type: ignore[arg-type]
        told = radii(counts, used, agreed)[0]
    assert told.radius == exact == math.inf or told.bracket[0] <= exact < told.radius


def test_several_levels_and_what_each_of_them_says() -> None:
    agreed = spec(confidence_levels=("0.9", "0.5", "0.999"), quorum=1)
    own = scores(4, 100)
    with pytest.warns(TooFewScoresWarning, match="400 scores cannot give confidence 0.999: rank 401 is needed"):
        told = calibrate_summaries(summaries(own, agreed), agreed, filter=keep_all())
    assert [level.confidence_level for level in told.levels] == [0.9, 0.5, 0.999]
    assert told.levels[0].rank == 361 and told.levels[2].radius == math.inf  # ceil(401·.9), ceil(401·.999)
    assert told.radius_at("0.5") == told.levels[1].radius < told.radius == told.radius_at(0.9)


def test_the_end_of_a_grid_is_said() -> None:
    own = {name: values + 10 for name, values in scores().items()}
    agreed = spec(grid=LogGrid(64, -3, 2))
    with pytest.warns(ClippedScoresWarning, match="last bin, above 4: the radius is infinite; use a wider grid"):
        assert calibrate_summaries(summaries(own, agreed), agreed, filter=keep_all()).radius == math.inf
    agreed = spec(grid=LinearGrid(2.0))
    with pytest.warns(ClippedScoresWarning, match="the radius is cut to the grid's end, 2; use a wider grid"):
        assert calibrate_summaries(summaries(own, agreed), agreed, filter=keep_all()).radius == 2.0


def test_merged_counts_move_the_radius_up_and_widen_the_bracket() -> None:
    own = scores(6, 60)
    plain, merged = (spec(least_count=least) for least in (1, 8))
    first = calibrate_summaries(summaries(own, plain), plain, filter=keep_all())
    second = calibrate_summaries(summaries(own, merged), merged, filter=keep_all())
    exact = pooled_quantile(list(own.values()), confidence_level=0.9)
    assert exact <= first.radius <= second.radius == second.bracket[1]
    assert second.bracket[0] <= exact and second.bracket[0] <= first.bracket[0]


def test_nobody_owns_the_quantile_by_claiming_many_scores() -> None:
    """A client that claims 1e9 scores, all zero, with nobody filtered: its mass is capped at 3 medians of 8 clients."""
    own = scores(8, 200)
    agreed = spec(most_scores=2**32 - 1, cap=3.0)
    sent = summaries(own, agreed)
    counts = np.zeros(3842, dtype=np.int64)
    counts[0] = 10**9
    sent.append(replace(sent[0], client="liar", counts=counts))
    told = calibrate_summaries(sent, agreed, filter=keep_all())
    assert told.weights[-1] == pytest.approx(600 / 1e9) and told.sizes[-1] == 10**9
    alone = np.sort(np.concatenate(list(own.values())))
    rank = math.ceil((1600 + 600 + 1) * 0.9) - 600  # ceil(2200.9·.9) less the 600 zeros in front
    assert alone[rank - 2] <= told.radius <= alone[rank] * (1 + 1 / 64)


def test_a_summary_of_something_else_is_named_and_the_others_carry_on() -> None:
    agreed = spec()
    sent = summaries(scores(5), agreed)
    sent[2] = replace(sent[2], model="0" * 64)
    sent.append(replace(sent[0], counts=sent[1].counts))
    told = calibrate_summaries(sent, agreed, filter=keep_all(), refused={"site-9": "refused: too late"})
    assert told.client_ids == ("site-0", "site-1", "site-3", "site-4")
    assert list(told.left_out) == ["site-9", "site-2"] and "another model" in told.left_out["site-2"]
    np.testing.assert_array_equal(told.counts[0], sent[0].counts)  # the first one counts
    with pytest.raises(DataError, match="no quorum: 0 of 0 summaries"):
        calibrate_summaries([], agreed)


def test_sums_of_claims_do_not_overflow() -> None:
    counts = np.zeros((2000, 3842), dtype=np.uint32)
    counts[:, 2000] = 2**32 - 1
    counts[:, 2500] = 1
    weights = np.full(2000, 1 / 3)
    told = radii(counts, weights, spec(confidence_levels=("0.9",)))[0]
    assert told.bracket == (spec().grid.edges[2000], spec().grid.edges[2001])
    assert 0 < told.rank < 2**53
