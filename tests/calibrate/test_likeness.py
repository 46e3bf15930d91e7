from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.calibrate.log_grid import EDGES, counted

from prism_fcp.calibrate.likeness import Difference, explain_difference
from prism_fcp.errors import DataError

POOLED = counted([np.abs(np.random.default_rng(0).standard_normal(5000))])[0]


def explained(scores: Any) -> Difference:
    return explain_difference(counted([scores])[0], POOLED, EDGES)


def draw(n: int = 1000, seed: int = 1) -> Any:
    return np.abs(np.random.default_rng(seed).standard_normal(n))


@pytest.mark.parametrize("times", [1 / 40, 1 / 3, 2.1, 300.0])
def test_a_rescaling_is_recognised_whatever_its_size(times: float) -> None:
    got = explained(times * draw())
    assert got.kind == "rescaled" and got.factor == pytest.approx(times, rel=0.1)
    assert got.distance > 0.8 and got.remaining < 0.2 and got.share_in_spike == 0 and got.spike is None
    size = "larger" if times > 1 else "smaller"
    assert size in got.sentence and "a liar who multiplies would all look like this" in got.sentence


@pytest.mark.parametrize(
    ("scores", "share", "value"),
    [(np.zeros(60), 1.0, 0.0), (np.full(60, 8.3), 1.0, 8.3), (np.where(np.arange(1000) < 300, 0, draw()), 0.3, 0.0)],
)
def test_a_spike_is_recognised(scores: Any, share: float, value: float) -> None:
    got = explained(scores)
    assert got.kind == "spike" and got.share_in_spike == pytest.approx(share)
    assert got.spike is not None and got.spike[0] <= value < got.spike[1]
    assert f"{share:.0%} of its scores lie in one bin" in got.sentence and "does not show which" in got.sentence
    assert ("zero or next to it" in got.sentence) == (value == 0)


def test_noise_cut_off_at_zero_is_a_spike_and_reflected_is_not() -> None:
    noisy = draw(400) + 0.3 * np.random.default_rng(2).standard_normal(400)
    assert explained(np.maximum(noisy, 0)).kind == "spike"
    assert explained(np.abs(noisy)).kind == "alike"  # nothing to be seen, as docs/filters.md says


def test_another_shape_is_neither() -> None:
    got = explained(np.abs(np.random.default_rng(3).standard_t(2, 3000)))
    assert got.kind == "other" and got.remaining > 1 / 3
    assert "no rescaling explains it" in got.sentence and "would both look like this" in got.sentence


def test_alike_and_too_few_to_tell() -> None:
    for scores in (draw(500), 3 * draw(5), np.array([1.0])):
        got = explained(scores)
        assert got.kind == "alike" and got.distance == 0 and "not to say that they are true" in got.sentence
    assert "its 1 score cannot" in explained(np.array([1.0])).sentence


def test_a_spike_is_set_aside_before_the_rest_is_compared() -> None:
    got = explained(np.concatenate((np.zeros(300), 4 * draw(700))))
    assert got.kind == "spike" and got.factor == pytest.approx(4, rel=0.1) and got.remaining < 0.2


def test_values_everybody_has_are_no_spike() -> None:
    rounded = np.round(draw(5000, 4) * 2) / 2
    got = explain_difference(counted([rounded[:500]])[0], counted([rounded])[0], EDGES)
    assert got.share_in_spike == 0


def test_a_linear_grid_will_do() -> None:
    edges = np.linspace(0, 5, 101)
    pooled, own = (np.histogram(x, edges)[0] for x in (draw(5000), 0.4 * draw(1000, 5)))
    got = explain_difference(own, pooled, edges)
    assert got.kind == "rescaled" and got.factor == pytest.approx(0.4, rel=0.1)


def test_every_shape_gives_finite_numbers_and_one_sentence() -> None:
    rng = np.random.default_rng(8)
    for _ in range(25):
        scores = np.exp(rng.uniform(-15, 15) * rng.standard_normal(rng.integers(1, 60))).clip(0, 1e12)
        got = explained(scores)
        assert np.isfinite([got.factor, got.share_in_spike, got.distance, got.remaining]).all()
        assert got.factor > 0 and "\n" not in got.sentence


def test_errors() -> None:
    with pytest.raises(DataError, match="explain_difference: 0 scores"):
        explain_difference(np.zeros(4, dtype=int), np.ones(4), np.arange(5.0))
    with pytest.raises(DataError, match="for 4 bins"):
        explain_difference(np.ones(3, dtype=int), np.ones(4), np.arange(5.0))
