"""Every engine trains like the readable one: the same numbers on the same draws, the same law on its own."""

from __future__ import annotations

from dataclasses import astuple, fields, replace

import numpy as np
import pytest

from prism_fcp.data.synthetic import SyntheticLinear
from prism_fcp.engines import ENGINES
from prism_fcp.engines.encode import foreign, obstacle
from prism_fcp.train.aggregate import RULES
from prism_fcp.train.attack import UPDATE_ATTACKS
from prism_fcp.train.loop import Draws, Trained, train_readable
from prism_fcp.train.settings import Arm, Federation, Masks
from prism_fcp.train.sharing import participants
from prism_fcp.types import Choice

from .cases import ARMS, ATTACK_ROWS, COVERING_ARMS, ENGINE_CASES, MASK_ROWS, RULE_ROWS, changed

pytest.importorskip("numba")
pytest.importorskip("jax")
OTHERS = [name for name in ENGINES if name != "readable"]
EXACT = ("coordinates_per_round", "injections", "refusals", "weakened_rounds", "diverged_at")
METRICS = ("a_posteriori_mse", "global_msd", "local_msd", "injected_energy")


def arms_for(name, arms):
    """Return the arms an engine is shown: `xla` compiles each, so of a product it gets a covering part."""
    if name != "xla":
        return arms
    return COVERING_ARMS if arms is ARMS else arms[:: 1 + len(arms) // 12]


def population_of(federation, seed=1, trial=0):
    return SyntheticLinear().draw(federation.num_clients, federation.dimension, federation.num_byzantine, seed, trial)


def known_to(name, federation, arms):
    """Return the arms this engine has a form for: the newer rules are left to the readable one, and that is said."""
    if name != "xla":
        return [arm for arm in arms if not obstacle(federation, [arm])]
    if foreign(federation, []):
        pytest.skip("an attack the engine xla does not know")
    return [arm for arm in arms if not foreign(federation, [arm])]


def assert_equal(one: Trained, oracle: Trained, arm: Arm) -> None:
    for name in EXACT:
        assert getattr(one, name) == getattr(oracle, name), (name, arm)
    for name in ("global_model", "local_models"):
        np.testing.assert_allclose(
            getattr(one, name), getattr(oracle, name), rtol=0, atol=1e-5, err_msg=f"{name} {arm}"
        )
    for name in METRICS:
        np.testing.assert_allclose(
            getattr(one, name), getattr(oracle, name), rtol=1e-5, atol=1e-6, err_msg=f"{name} {arm}"
        )
    assert (one.ledger is None) == (oracle.ledger is None)
    if oracle.ledger is not None:
        for name, found, wanted in zip(oracle.ledger._fields, one.ledger, oracle.ledger, strict=True):
            loose = name in ("distance", "limit", "aligned")  # ratios to small spreads, of float32 and float64
            np.testing.assert_allclose(found, wanted, 0.05 * loose, 0.01 * loose, err_msg=f"ledger {name} {arm}")


def test_the_table_covers_every_rule_attack_and_result():
    assert {row.choice.name for row in RULE_ROWS} == set(RULES)
    assert {choice.name for choice in ATTACK_ROWS} == set(UPDATE_ATTACKS)
    assert {arm.masks for arm in COVERING_ARMS} == {arm.masks for arm in ARMS} >= set(MASK_ROWS)
    for row in RULE_ROWS:
        own = [arm.masks for arm in COVERING_ARMS if arm.rule == row.choice]
        assert len({masks.download for masks in own}) >= 3 and len({masks.coordination for masks in own}) == 2
    assert {f.name for f in fields(Trained)} == {*EXACT, *METRICS, "global_model", "local_models", "ledger"}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("case", ENGINE_CASES, ids=lambda c: c.label)
def test_equals_the_readable_engine_on_the_same_draws(case, name):
    population = population_of(case.federation, case.seed)
    arms = known_to(name, case.federation, arms_for(name, case.arms))
    draws = Draws.sample(case.federation, case.seed, np.float64)
    oracle = train_readable(population, case.federation, arms, draws, np.float64)
    results = ENGINES[name](population, case.federation, arms, draws)
    for arm, one, expected in zip(arms, results, oracle, strict=True):
        assert expected.diverged_at is None, f"the case itself diverges: {arm}"
        assert_equal(one, expected, arm)


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e31])
def test_refuses_the_same_broken_uploads(name, bad):
    federation = changed(attack=ATTACK_ROWS[1])
    population, draws = population_of(federation), Draws.sample(federation, 4, np.float64)
    rng = np.random.default_rng(5)
    draws.perturbations[rng.random(draws.perturbations.shape) < 0.1] = bad
    arms = known_to(name, federation, arms_for(name, ARMS))
    oracle = train_readable(population, federation, arms, draws, np.float64)
    assert sum(r.refusals for r in oracle) > (1000 if name != "xla" else 3 * len(arms))
    assert any(r.weakened_rounds for r in oracle) and not all(r.weakened_rounds for r in oracle)
    (single,) = train_readable(population, federation, arms[:1], draws)
    np.testing.assert_allclose(single.injected_energy, oracle[0].injected_energy, rtol=1e-5)  # 1e31 squared: in float64
    with np.errstate(invalid="ignore"):
        results = ENGINES[name](population, federation, arms, draws)
    for arm, one, expected in zip(arms, results, oracle, strict=True):
        assert np.isfinite(one.global_model).all()
        assert_equal(one, expected, arm)


@pytest.mark.parametrize(
    "rule", [Choice("clipped_median"), Choice("table", {"first_look": 4, "vote": "round", "clip": 2.0})]
)
def test_a_first_round_that_changes_nothing_does_not_hold_a_clipped_model_for_good(rule):
    """Inputs of zero in round 1: nobody has a gradient, and the usual norm is set by the round after it."""
    federation = changed(num_byzantine=0, rounds=20)
    population, draws = population_of(federation, 3), Draws.sample(federation, 6, np.float64)
    draws.inputs[0] = 0
    masks = Masks(num_shared=13, coordination="common", download="never")
    arm = Arm(masks=masks, rule=rule)
    (oracle,) = train_readable(population, federation, [arm], draws, np.float64)
    (one,) = ENGINES["compiled"](population, federation, [arm], draws)
    assert (oracle.global_model != 0).all()
    assert_equal(one, oracle, arm)


@pytest.mark.parametrize("name", OTHERS)
def test_a_round_whose_uploads_are_all_refused_leaves_the_model(name):
    federation = changed(
        rounds=1, num_participants=1, num_byzantine=18, attack=Choice("gaussian", {"variance": 1.0, "probability": 1.0})
    )
    population, draws = population_of(federation, 3), Draws.sample(federation, 4)
    draws.perturbations[:] = np.nan
    for arm in (Arm(masks=Masks(num_shared=13), rule=Choice(r)) for r in ("mean", "mean_of_sharers", "median")):
        (oracle,), (one,) = (ENGINES[e](population, federation, [arm], draws) for e in ("readable", name))
        assert one.refusals == oracle.refusals == one.weakened_rounds == oracle.weakened_rounds == 1
        assert not one.global_model.any()


@pytest.mark.parametrize("name", OTHERS)
def test_sees_divergence_in_the_same_round_and_goes_on_with_the_other_arms(name):
    federation = changed(step_size=1.0, rounds=120)
    population, draws = population_of(federation), Draws.sample(federation, 2)
    arms = [Arm(masks=Masks(num_shared=5)), Arm(masks=Masks(num_shared=13), exchange=False)]
    oracle = train_readable(population, federation, arms, draws)
    results = ENGINES[name](population, federation, arms, draws)
    assert [r.diverged_at for r in results] == [r.diverged_at for r in oracle] == [50, 50]


@pytest.mark.parametrize("name", ENGINES)
def test_the_papers_federation_diverges_at_twice_its_step_size_and_not_at_its_own(name):
    """At 0.05 entries reach 1e5, which no test of entries against 1e6 ever saw; at 0.025 a few is the most."""
    arms = [Arm(masks=Masks(num_shared=15)), Arm(masks=Masks(num_shared=15), rule=Choice("median"))]
    population = population_of(Federation())
    assert all(r.diverged_at is not None for r in ENGINES[name](population, Federation(step_size=0.05), arms))
    for alie in (Federation(), Federation(attack=Choice("alie"))):
        for sound in ENGINES[name](population, alie, arms):
            assert sound.diverged_at is None
            for models in (sound.global_model, sound.local_models):
                assert np.square(models - population.truth).sum(axis=-1).max() < 10


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("engine_sees", ["deviation", "nan"])
def test_one_lost_client_is_seen_while_the_global_model_is_sound(name, engine_sees):
    """One client that is never selected: its model alone is far away, or not a number at all."""
    federation = changed(num_participants=1, rounds=20, num_byzantine=0)
    population, draws = population_of(federation), Draws.sample(federation, 2)
    chosen = {int(k) for n in range(1, 21) for k in participants(population.key, n, 19, 1)}
    lost = min(set(range(19)) - chosen)
    draws.noise[10, lost] = np.nan if engine_sees == "nan" else 1e5
    (one,) = ENGINES[name](population, federation, [Arm(masks=Masks(num_shared=5))], draws)
    assert np.square(one.global_model - population.truth).sum() < 2
    deviations = np.square(one.local_models - population.truth).sum(axis=1)
    assert (~(deviations <= 1e5)).sum() == 1 and one.diverged_at == 20


@pytest.mark.parametrize("name", OTHERS)
def test_arms_do_not_disturb_each_other(name):
    federation = changed()
    population = population_of(federation)
    arms = known_to(name, federation, ARMS[::7] if name != "xla" else ARMS[::67])
    together = ENGINES[name](population, federation, arms)
    for arm, one in zip(arms, together, strict=True):
        (alone,) = ENGINES[name](population, federation, [arm])
        assert (alone.global_model == one.global_model).all() and (alone.local_models == one.local_models).all()
        assert all(getattr(alone, field) == getattr(one, field) for field in (*EXACT, *METRICS))


@pytest.mark.parametrize("name", ["readable", "compiled"])
def test_a_client_with_few_samples_learns_from_them_again_and_again(name):
    """Three samples for nine rounds, on the same draws, are the first three rounds' three times over."""
    federation = changed(rounds=9, num_byzantine=0)
    draws = Draws.sample(federation, 3, np.float64)
    thrice = Draws(*(np.tile(part[:3], (3,) + (1,) * (part.ndim - 1)) for part in astuple(draws)))
    few = SyntheticLinear(fixed_samples=3).draw(19, 13, 0, 1)
    one, other = (
        ENGINES[name](few, federation, ARMS[:1], draws),
        ENGINES[name](replace(few, fixed_samples=0), federation, ARMS[:1], thrice),
    )
    assert (one[0].local_models == other[0].local_models).all()
    (own,), (endless,) = (ENGINES[name](p, federation, ARMS[:1]) for p in (few, replace(few, fixed_samples=0)))
    assert (own.local_models != endless.local_models).any()


@pytest.mark.parametrize("law", [{"truth_spread": 0.3}, {"fixed_samples": 4}])
def test_the_compiled_engine_equals_the_readable_one_on_other_laws(law):
    federation = changed(attack=Choice("label_flip"))
    population, draws = SyntheticLinear(**law).draw(19, 13, 6, 1), Draws.sample(federation, 2, np.float64)
    arms = known_to("compiled", federation, ARMS[::9])
    oracle = train_readable(population, federation, arms, draws, np.float64)
    for arm, one, expected in zip(arms, ENGINES["compiled"](population, federation, arms, draws), oracle, strict=True):
        assert_equal(one, expected, arm)


@pytest.mark.statistical
def test_the_kernels_own_samples_obey_a_law_with_truths_of_their_own():
    """Noiseless clients that learn alone find their own truth in every engine; no chance in it but the draws'."""
    federation = changed(rounds=600, num_byzantine=0)
    population = SyntheticLinear(truth_spread=0.5, noise_variances=(0, 0)).draw(19, 13, 0, 1)
    for name in ("readable", "compiled"):
        (alone,) = ENGINES[name](population, federation, [Arm(masks=Masks(num_shared=1), exchange=False)])
        np.testing.assert_allclose(alone.local_models, population.own_truths, atol=0.02)


@pytest.mark.parametrize("name", OTHERS)
def test_own_draws_share_masks_participants_and_hits(name):
    federation = changed(rounds=60)
    population = population_of(federation)
    arms = [Arm(masks=Masks(num_shared=2, layers=(4, 1, 6, 2))), Arm(masks=Masks(num_shared=5))]
    oracle = train_readable(population, federation, arms)
    results = ENGINES[name](population, federation, arms)
    for one, expected in zip(results, oracle, strict=True):
        assert one.injections == expected.injections > 20
        assert one.coordinates_per_round == expected.coordinates_per_round  # layers differ in size: same layers


@pytest.mark.statistical
@pytest.mark.parametrize("name", OTHERS)
def test_own_draws_have_the_same_law(name):
    """Means over 60 trials of four figures of three arms: |z| < 5, false alarm below 12 * 6e-7 = 7e-6."""
    federation = changed(rounds=150, window=50, step_size=0.03)
    arms = [
        Arm(masks=Masks(num_shared=4)),
        Arm(masks=Masks(num_shared=13)),
        Arm(masks=Masks(num_shared=13), rule=Choice("median")),
    ]
    figures = np.array(
        [
            [
                [
                    [getattr(r, m) for m in METRICS]
                    for r in ENGINES[engine](population_of(federation, seed, trial), federation, arms)
                ]
                for trial in range(60)
            ]
            for seed, engine in ((11, "readable"), (12, name))
        ]
    )  # (engine, trial, arm, figure)
    first, second = figures.mean(axis=1)
    error = np.sqrt((figures.var(axis=1, ddof=1) / 60).sum(axis=0))
    assert (np.abs(first - second) < 5 * error).all()
