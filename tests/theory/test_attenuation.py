"""The energy identity, exactly and in a run."""

import numpy as np
import pytest

from prism_fcp.data.synthetic import SyntheticLinear
from prism_fcp.errors import SettingError
from prism_fcp.theory.attenuation import injected_energy
from prism_fcp.train.loop import train_readable
from prism_fcp.train.settings import Arm, Federation, Masks


def test_the_factor_is_m_over_d():
    assert injected_energy(10, 0.3, 0.2) == pytest.approx(0.6)
    assert injected_energy(10, 0.3) / injected_energy(50, 0.3) == pytest.approx(10 / 50)


@pytest.mark.parametrize("coordination", ["client", "common"])
def test_measured_energy_equals_the_formula(coordination):
    """About 800 attacked uploads; the energy of one is 0.1*chi^2(M), sd 0.1*sqrt(2M). False alarm 6e-7 (5 sd)."""
    federation = Federation(num_clients=20, dimension=20, num_participants=10, num_byzantine=8, rounds=1000)
    population = SyntheticLinear().draw(20, 20, 8, seed=2)
    shares = (2, 5, 10, 20)
    arms = [Arm(masks=Masks(num_shared=m, coordination=coordination)) for m in shares]
    for num_shared, out in zip(shares, train_readable(population, federation, arms), strict=True):
        assert out.injections > 600
        mean = out.injected_energy / out.injections
        assert abs(mean - injected_energy(num_shared, 0.1)) < 5 * 0.1 * np.sqrt(2 * num_shared / out.injections)


def test_impossible_arguments_are_refused():
    with pytest.raises(SettingError, match="probability=2"):
        injected_energy(1, 1, 2)
