"""What only the compiled engine has to promise; that it trains like the readable one is in `tests/contracts`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from prism_fcp.data.synthetic import SyntheticLinear
from prism_fcp.errors import SettingError
from prism_fcp.train.loop import Draws
from prism_fcp.train.settings import Arm, Federation, Masks
from prism_fcp.types import Choice

pytest.importorskip("numba")
from prism_fcp.engines import compiled  # noqa: E402
from prism_fcp.kernels import training  # noqa: E402

FEDERATION = Federation(num_clients=12, dimension=7, num_participants=7, num_byzantine=3, rounds=40, window=15)
ARMS = [
    Arm(masks=Masks(num_shared=3, download="previous")),
    Arm(masks=Masks(num_shared=7), rule=Choice("krum")),
    Arm(masks=Masks(num_shared=2, coordination="common"), rule=Choice("median")),
]


class Foreign:
    """A population that is not the synthetic one, though it wraps it: only the protocol is known of it."""

    def __init__(self, population):
        self.key, self.truth, self.byzantine = population.key, population.truth, population.byzantine
        self.inputs, self.targets = population.inputs, population.targets


def draw(trial=0, seed=1):
    return SyntheticLinear().draw(FEDERATION.num_clients, FEDERATION.dimension, FEDERATION.num_byzantine, seed, trial)


def assert_same(one, other, tolerance=0.0):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a.global_model, b.global_model, rtol=0, atol=tolerance)
        np.testing.assert_allclose(a.local_models, b.local_models, rtol=0, atol=tolerance)
        np.testing.assert_allclose(a.a_posteriori_mse, b.a_posteriori_mse, rtol=tolerance)
        assert (a.injections, a.coordinates_per_round) == (b.injections, b.coordinates_per_round)


def test_a_trials_numbers_depend_on_its_key_alone():
    first, again = (compiled.train(draw(), FEDERATION, ARMS) for _ in range(2))
    assert_same(first, again)
    for other in (draw(trial=1), draw(seed=2)):
        assert (compiled.train(other, FEDERATION, ARMS)[0].global_model != first[0].global_model).any()


@pytest.mark.parametrize("dimension", [7, 16, 50])
def test_threads_give_the_numbers_one_thread_gives(dimension):
    """To the last bit, wherever a thread's arrays lie: a sum in a loop that also stores would show here."""
    arms = [Arm(masks=Masks(num_shared=dimension), rule=arm.rule) for arm in ARMS] + ARMS
    federation = replace(FEDERATION, dimension=dimension)
    populations = [SyntheticLinear().draw(12, dimension, 3, 1, trial) for trial in range(60)]
    alone = [compiled.train(p, federation, arms) for p in populations]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda p: compiled.train(p, federation, arms), populations))
    for one, other in zip(alone, together, strict=True):
        assert_same(one, other)


def test_any_population_with_the_protocol_trains_on_the_same_normals():
    assert_same(
        compiled.train(Foreign(draw()), FEDERATION, ARMS), compiled.train(draw(), FEDERATION, ARMS), tolerance=2e-6
    )


@pytest.mark.parametrize("rounds_at_once", [1, 7, 39, 40])
@pytest.mark.parametrize("given", [False, True])
def test_stretches_do_not_show(monkeypatch, rounds_at_once, given):
    draws = Draws.sample(FEDERATION, 5) if given else None
    whole = compiled.train(Foreign(draw()), FEDERATION, ARMS, draws)
    monkeypatch.setattr(compiled, "STRETCH_BYTES", rounds_at_once * 4 * 12 * 7)
    assert_same(whole, compiled.train(Foreign(draw()), FEDERATION, ARMS, draws))


def test_arrays_of_the_wrong_shape_are_refused_before_the_kernel_reads_past_them():
    population = SyntheticLinear().draw(11, 7, 3, 1)
    with pytest.raises(SettingError, match="the population has 11 clients, but num_clients=12"):
        compiled.train(population, FEDERATION, ARMS)
    with pytest.raises(SettingError, match="the population has 6 coordinates, but dimension=7"):
        compiled.train(SyntheticLinear().draw(12, 6, 3, 1), FEDERATION, ARMS)
    short = Draws.sample(replace(FEDERATION, rounds=39), 1)
    with pytest.raises(SettingError, match=r"draws.inputs has shape \(39, 12, 7\)"):
        compiled.train(draw(), FEDERATION, ARMS, short)


def test_one_machine_code_serves_every_call():
    """A read-only or strided array would be another type to numba, and seconds of compiling."""
    compiled.train(draw(), FEDERATION, ARMS)
    before = len(training.play.signatures)
    population = draw()
    population.byzantine.setflags(write=False)
    draws = Draws.sample(FEDERATION, 1, np.float64)
    strided = Draws(draws.inputs[:, :, ::-1], draws.noise[::-1], draws.perturbations)
    strided.perturbations.setflags(write=False)
    for arms in (ARMS, ARMS[:1], [], [Arm(masks=Masks(num_shared=1), exchange=False)]):
        compiled.train(population, FEDERATION, arms)
        compiled.train(Foreign(population), FEDERATION, arms, strided)
    assert len(training.play.signatures) == before
