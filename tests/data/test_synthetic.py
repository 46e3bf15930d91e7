"""The synthetic federation: ranges, sizes, and attackers that cannot be told by their id."""

import numpy as np
import pytest

from prism_fcp.data.synthetic import SyntheticLinear
from prism_fcp.errors import SettingError


def test_a_population_lies_in_its_ranges():
    population = SyntheticLinear(means=(-2, 2), variances=(0.2, 1.2), noise_variances=(0.005, 0.025)).draw(
        500, 20, 100, seed=4
    )
    assert np.linalg.norm(population.truth) == pytest.approx(1)
    assert population.byzantine.sum() == 100
    for values, low, high in (
        (population.means, -2, 2),
        (population.variances, 0.2, 1.2),
        (population.noise_variances, 0.005, 0.025),
    ):
        assert low <= values.min() < low + 0.05 * (high - low)
        assert high - 0.05 * (high - low) < values.max() <= high


def test_attackers_are_spread_over_the_ids():
    """Each of 50 ids is Byzantine in 20 % of 3,000 trials; binomial sd 0.0073, five of them: false alarm 3e-5."""
    rate = np.mean([SyntheticLinear().draw(50, 2, 10, 1, t).byzantine for t in range(3000)], axis=0)
    assert np.abs(rate - 0.2).max() < 5 * np.sqrt(0.2 * 0.8 / 3000)


def test_inputs_and_targets_have_the_stated_moments():
    """One client, 200,000 samples of 3 features; all bounds are five standard errors (false alarm about 1e-5)."""
    population = SyntheticLinear(means=(0.5, 0.5), variances=(2, 2), noise_variances=(0.1, 0.1)).draw(1, 3, 0, 0)
    rng = np.random.default_rng(0)
    n = 200_000
    x = population.inputs(rng.standard_normal((n, 1, 3)))
    y = population.targets(x, rng.standard_normal((n, 1)))
    assert np.abs(x.mean(axis=0) - 0.5).max() < 5 * np.sqrt(2 / n)
    assert np.abs(x.var(axis=0) - 2).max() < 5 * 2 * np.sqrt(2 / n)
    noise = y - x @ population.truth
    assert abs(noise.var() - 0.1) < 5 * 0.1 * np.sqrt(2 / n)
    assert population.input_energy() == pytest.approx(3 * (2 + 0.25))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"variances": (0.0, 1.0)}, "zero variance"),
        ({"means": (1.0, -1.0)}, "must not exceed"),
        ({"noise_variances": (-0.1, 1.0)}, "must not be negative"),
    ],
)
def test_impossible_ranges_are_refused(change, message):
    with pytest.raises(SettingError, match=message):
        SyntheticLinear(**change).draw(3, 2, 1, 0)
