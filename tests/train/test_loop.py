"""The readable engine against a scalar transcription of Algorithm 1, and its promises one by one."""

import numpy as np
import pytest

from prism_fcp import streams
from prism_fcp.data.synthetic import Population, SyntheticLinear
from prism_fcp.errors import SettingError
from prism_fcp.streams import Role
from prism_fcp.train import attack as attacks
from prism_fcp.train.aggregate import RULES
from prism_fcp.train.loop import Draws, train_readable
from prism_fcp.train.settings import Arm, Federation, Masks
from prism_fcp.types import Choice, Rule, RuleInfo, UpdateAttack

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


def watched(monkeypatch, byzantine, probability):
    """Train with these attackers; return {(round, client): its perturbation} and the inputs of all rounds."""
    perturbations, inputs = {}, []

    def forge(view):
        perturbations.update(
            {(view.round, int(k)): row.copy() for k, row in zip(view.client_ids, view.normals, strict=True)}
        )
        return view.own

    class Watched(Population):
        def inputs(self, normals):
            inputs.append(normals.copy())
            return super().inputs(normals)

    monkeypatch.setitem(
        attacks.UPDATE_ATTACKS, "spy", lambda: UpdateAttack("spy", probability, frozenset({"normals"}), forge)
    )
    known = SyntheticLinear().draw(7, 6, 2, 1)
    flags = np.isin(np.arange(7), byzantine)
    population = Watched(known.key, known.truth, known.means, known.variances, known.noise_variances, flags)
    federation = Federation(**SMALL, attack=Choice("spy"))
    train_readable(population, federation, [Arm(masks=Masks(num_shared=3))])
    return perturbations, np.array(inputs), population.key


def test_who_attacks_and_how_often_changes_nobody_elses_draws(monkeypatch):
    few, inputs, key = watched(monkeypatch, [2, 5], 0.4)
    for other, other_inputs, _ in (watched(monkeypatch, [2, 5], 1.0), watched(monkeypatch, [0, 1, 4, 5, 6], 0.7)):
        shared = few.keys() & other.keys()
        assert len(shared) > 3 and len(other) > len(few)
        assert all((few[address] == other[address]).all() for address in shared)
        np.testing.assert_array_equal(other_inputs, inputs)
    (n, k), drawn = next(iter(few.items()))
    by_hand = streams.generator(streams.child(key, Role.PERTURBATION, n, k)).standard_normal(6, dtype=np.float32)
    assert (drawn == by_hand).all()


def test_a_rules_draws_hang_on_the_round(monkeypatch):
    """Fewer rounds before it, or other arms beside it, change nothing; a rule that draws nothing is handed nothing."""
    told = []

    def noting(uses_rng):
        def step(state, uploads, rng):
            told.append(rng.random() if uses_rng else rng)
            return state, uploads.previous, RuleInfo({})

        return Rule("noting", lambda dimension: None, step, uses_rng=uses_rng)

    monkeypatch.setitem(RULES, "noting", noting)
    population, federation, _ = make()
    masks = Masks(num_shared=3)
    drawing, silent = (Arm(masks=masks, rule=Choice("noting", {"uses_rng": u})) for u in (True, False))
    train_readable(population, federation, [drawing])
    alone = told.copy()
    told.clear()
    train_readable(population, federation, [drawing, silent, drawing])
    assert told == [entry for drawn in alone for entry in (drawn, None, drawn)]
    by_hand = [streams.generator(streams.child(population.key, Role.RULE, n)).random() for n in range(1, 31)]
    assert alone == by_hand and len(set(alone)) == 30


def test_a_population_of_another_size_is_refused_with_both_numbers():
    population, federation, _ = make()
    for change, message in (
        ({"num_clients": 5}, "the population has 7 clients, but num_clients=5"),
        ({"dimension": 4}, "the population has 6 coordinates, but dimension=4"),
    ):
        smaller = Federation(**{**SMALL, **change})
        with pytest.raises(SettingError, match=message):
            train_readable(population, smaller, [Arm(masks=Masks(num_shared=3))])
    with pytest.raises(SettingError, match=r"draws.inputs has shape \(29, 7, 6\)"):
        train_readable(population, federation, [], Draws.sample(Federation(**{**SMALL, "rounds": 29}), 1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_participants": 8}, r"num_participants=8; must lie in 1\.\.7"),
        ({"num_byzantine": 7}, r"num_byzantine=7; must lie in 0\.\.6"),
        ({"step_size": 0.0}, "step_size=0.0; must be positive"),
        ({"step_size": float("nan")}, "step_size=nan; must be a finite number"),
        ({"step_size": float("inf")}, "step_size=inf; must be a finite number"),
        ({"rounds": 0}, r"rounds=0; must lie in 1\.\."),
        ({"attack": Choice("gausian")}, "did you mean 'gaussian'"),
        ({"attack": Choice("alie", {"probability": 1.2})}, "probability=1.2; must lie in"),
    ],
)
def test_settings_that_cannot_work_cannot_be_made(change, message):
    with pytest.raises(SettingError, match=message):
        Federation(**{**SMALL, **change})


@pytest.mark.parametrize(
    ("arm", "message"),
    [
        (Arm(masks=Masks(num_shared=7)), r"num_shared=7 \(M\); must lie in 1\.\.6"),
        (Arm(masks=Masks(num_shared=1, layers=(2, 3))), "add up to 5"),
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


def test_the_attackers_noise_is_white():
    """One attacker alone with the mean: the model is its own plus 400 normals of variance 0.3; each bound is 5 sd."""
    federation = Federation(
        num_clients=2,
        dimension=400,
        num_participants=2,
        num_byzantine=1,
        rounds=1,
        step_size=1e-9,
        window=1,
        attack=Choice("gaussian", {"variance": 0.3, "probability": 1.0}),
    )
    population = SyntheticLinear().draw(2, 400, 1, 1)
    (out,) = train_readable(population, federation, [Arm(masks=Masks(num_shared=400))])
    noise = 2 * out.global_model  # of two uploads, the honest one is next to nothing
    assert abs(noise.mean()) < 5 * np.sqrt(0.3 / 400)
    assert abs(noise.var() - 0.3) < 5 * 0.3 * np.sqrt(2 / 400)
    assert abs(np.corrcoef(noise[:-1], noise[1:])[0, 1]) < 5 / np.sqrt(400)


def test_clients_upload_the_mean_of_their_models_weighted_by_a_power_of_the_round():
    """A client that never downloads: the last upload is sum n^p w_n / sum n^p of what it was after each round."""
    population, federation, draws = make(rounds=12, num_participants=7)
    alone = Arm(masks=Masks(num_shared=6), exchange=False)
    models = []
    for n in range(1, 13):
        shorter = Federation(**{**SMALL, "rounds": n, "num_participants": 7, "window": 1}, attack=ATTACK)
        part = Draws(draws.inputs[:n], draws.noise[:n], draws.perturbations[:n])
        models.append(train_readable(population, shorter, [alone], part, np.float64)[0].local_models)
    quiet = Federation(**{**SMALL, "rounds": 12, "num_participants": 7}, attack=Choice("none"))
    for power in (1.0, 3.5):
        arm = Arm(masks=Masks(num_shared=6, download="never"), client_averaging=power)
        (out,) = train_readable(population, quiet, [arm], draws, np.float64)
        weights = np.arange(1, 13) ** power
        means = np.tensordot(weights / weights.sum(), np.array(models), axes=1)
        np.testing.assert_allclose(out.global_model, means.mean(axis=0), atol=1e-12)
        np.testing.assert_allclose(out.local_models, models[-1], atol=1e-12)  # what it learns from is its own model
    with pytest.raises(SettingError, match=r"client_averaging=17; must lie in 0..16"):
        Arm(masks=Masks(num_shared=6), client_averaging=17)
