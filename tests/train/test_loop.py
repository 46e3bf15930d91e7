"""The readable engine against a scalar transcription of Algorithm 1, and its promises one by one."""

import numpy as np
import pytest

from prism_fcp.data.synthetic import SyntheticLinear
from prism_fcp.errors import SettingError
from prism_fcp.train.loop import Draws, train_readable
from prism_fcp.train.settings import Arm, Federation, Masks
from prism_fcp.types import Choice

from .naive import naive_train

SMALL = dict(num_clients=7, dimension=6, num_participants=4, num_byzantine=2, rounds=30, step_size=0.05, window=10)
ATTACK = Choice("gaussian", {"variance": 0.3, "probability": 0.5})


def make(seed=1, attack=ATTACK, **changes):
    federation = Federation(**{**SMALL, **changes}, attack=attack)
    population = SyntheticLinear().draw(
        federation.num_clients, federation.dimension, federation.num_byzantine, seed, trial=3
    )
    return population, federation, Draws.sample(federation, seed, np.float64)


@pytest.mark.parametrize("coordination", ["client", "common"])
@pytest.mark.parametrize("download", ["same", "previous", "independent", "full"])
@pytest.mark.parametrize("rule", ["mean", "median"])
@pytest.mark.parametrize("num_shared", [1, 3, 6])
def test_equals_the_algorithm_box_written_in_scalars(coordination, download, rule, num_shared):
    population, federation, draws = make()
    masks = Masks(num_shared=num_shared, coordination=coordination, download=download)
    (out,) = train_readable(population, federation, [Arm(masks=masks, rule=Choice(rule))], draws, np.float64)
    model, local, mse = naive_train(population, federation, masks, rule, draws, variance=0.3, probability=0.5)
    np.testing.assert_allclose(out.global_model, model, atol=1e-12)
    np.testing.assert_allclose(out.local_models, local, atol=1e-12)
    assert out.a_posteriori_mse == pytest.approx(mse, rel=1e-10)
    assert out.global_msd > 0 and out.injections > 5
    assert out.coordinates_per_round == federation.num_participants * num_shared


def test_arms_do_not_disturb_each_other():
    population, federation, draws = make()
    arms = [Arm(masks=Masks(num_shared=m), rule=Choice(r)) for m in (2, 6) for r in ("mean", "median")]
    together = train_readable(population, federation, arms, draws)
    alone = [train_readable(population, federation, [arm], draws)[0] for arm in arms]
    for one, other in zip(together, alone, strict=True):
        assert (one.global_model == other.global_model).all() and one.injected_energy == other.injected_energy


def test_own_draws_are_reproducible_and_depend_on_the_trial():
    _, federation, _ = make()
    arm = Arm(masks=Masks(num_shared=3))

    def model(seed, trial):
        population = SyntheticLinear().draw(7, 6, 2, seed, trial)
        return train_readable(population, federation, [arm])[0].global_model

    assert (model(1, 0) == model(1, 0)).all()
    assert (model(1, 0) != model(1, 1)).any() and (model(1, 0) != model(2, 0)).any()


def test_a_client_that_never_exchanges_learns_from_its_own_samples_only():
    population, federation, draws = make()
    (alone,) = train_readable(population, federation, [Arm(masks=Masks(num_shared=6), exchange=False)], draws)
    assert alone.coordinates_per_round == 0 and alone.injections == 0 and not alone.global_model.any()
    other = Draws(draws.inputs.copy(), draws.noise, draws.perturbations)
    other.inputs[:, 1:] += 1  # every client but the first sees other data
    (changed,) = train_readable(population, federation, [Arm(masks=Masks(num_shared=6), exchange=False)], other)
    assert (changed.local_models[0] == alone.local_models[0]).all()
    assert (changed.local_models[1:] != alone.local_models[1:]).any()


def test_idle_clients_can_be_told_not_to_learn():
    population, federation, draws = make(rounds=1, window=1)
    arm = Arm(masks=Masks(num_shared=6))
    (busy,) = train_readable(population, federation, [arm], draws)
    quiet_federation = Federation(**{**SMALL, "rounds": 1, "window": 1}, idle_learning=False)
    (quiet,) = train_readable(population, quiet_federation, [arm], draws)
    moved = np.abs(quiet.local_models).sum(axis=1) > 0
    assert moved.sum() == federation.num_participants
    assert (np.abs(busy.local_models).sum(axis=1) > 0).all()
    assert (busy.local_models[moved] == quiet.local_models[moved]).all()


def test_the_attack_touches_the_upload_and_not_the_attackers_own_model():
    population, federation, draws = make(rounds=1, window=1, attack=Choice("gaussian", {"probability": 1.0}))
    _, peaceful, _ = make(rounds=1, window=1, attack=Choice("none"))
    arm = [Arm(masks=Masks(num_shared=6))]
    (hit,), (calm,) = (train_readable(population, f, arm, draws) for f in (federation, peaceful))
    assert hit.injections > 0 and calm.injections == 0 and calm.injected_energy == 0
    assert (hit.local_models == calm.local_models).all()
    assert (hit.global_model != calm.global_model).any()


def test_divergence_is_seen_and_dated():
    population, federation, _ = make(rounds=400, step_size=3.0)
    diverged, alone = train_readable(
        population, federation, [Arm(masks=Masks(num_shared=3)), Arm(masks=Masks(num_shared=6), exchange=False)]
    )
    assert diverged.diverged_at is not None and diverged.diverged_at % 50 == 0
    assert alone.diverged_at is not None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_participants": 8}, r"num_participants=8; must lie in 1\.\.7"),
        ({"num_byzantine": 7}, r"num_byzantine=7; must lie in 0\.\.6"),
        ({"step_size": 0.0}, "step_size=0.0; must be positive"),
        ({"step_size": float("nan")}, "step_size=nan; must be positive"),
        ({"rounds": 0}, "rounds=0; must be at least 1"),
    ],
)
def test_settings_that_cannot_work_are_refused(change, message):
    federation = Federation(**{**SMALL, **change})
    population = SyntheticLinear().draw(7, 6, 2, 1)
    with pytest.raises(SettingError, match=message):
        train_readable(population, federation, [Arm(masks=Masks(num_shared=3))])


@pytest.mark.parametrize(
    ("arm", "message"),
    [
        (Arm(masks=Masks(num_shared=0)), r"num_shared=0 \(M\); must lie in 1\.\.6"),
        (Arm(masks=Masks(num_shared=7)), r"num_shared=7 \(M\); must lie in 1\.\.6"),
        (Arm(masks=Masks(num_shared=1, layers=(2, 3))), "add up to 5"),
        (Arm(masks=Masks(num_shared=3, layers=(2, 4))), r"must lie in 1\.\.2, the number of layers"),
        (Arm(masks=Masks(num_shared=3, download="sam")), "unknown download mask 'sam'; did you mean 'same'"),
        (Arm(masks=Masks(num_shared=3), rule=Choice("meen")), "unknown rule 'meen'; did you mean 'mean'"),
        (Arm(masks=Masks(num_shared=3), rule=Choice("trimmed_mean")), "needs trim"),
        (Arm(masks=Masks(num_shared=3), rule=Choice("trimmed_mean", {"trim": 2})), "trim=2 leaves no rows of 4"),
        (Arm(masks=Masks(num_shared=3), rule=Choice("krum", {"suspect": 1})), "did you mean 'suspects'"),
        (Arm(masks=Masks(num_shared=3), rule=Choice("krum", {"suspects": 1})), r"need 2\*suspects \+ 2 < 4"),
    ],
)
def test_arms_that_cannot_work_are_refused(arm, message):
    population, federation, _ = make()
    with pytest.raises(SettingError, match=message):
        train_readable(population, federation, [arm])
