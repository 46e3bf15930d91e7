"""The three phases together: exact laws, shared draws, and the detection figures the paper states."""

from dataclasses import replace

import numpy as np
import pytest

from prism_fcp.calibrate.filter import FILTERS
from prism_fcp.data.synthetic import SyntheticLinear, residuals_by_law, residuals_by_samples
from prism_fcp.errors import DivergedError, SettingError
from prism_fcp.pipeline import CalibrationSettings, Method, Setup, explain_trial, run_trial
from prism_fcp.train.loop import train_readable
from prism_fcp.train.settings import Arm, Federation, Masks
from prism_fcp.types import Choice

KNOWN = Choice("known_count", {"suspects": 20})
ATTACKS = (("efficiency", Choice("efficiency")), ("coverage", Choice("coverage")), ("random", Choice("random")))
PARTIAL, FULL = Arm(masks=Masks(num_shared=15)), Arm(masks=Masks(num_shared=50))


def setup(*methods, rounds=300, attacks=ATTACKS, **calibration):
    return Setup(
        population=SyntheticLinear(),
        federation=Federation(rounds=rounds, window=50),
        calibration=CalibrationSettings(**calibration),
        attacks=attacks,
        methods=methods,
    )


def row(name, arm=PARTIAL, filter=KNOWN, **more):
    return Method(name=name, arm=arm, filter=filter, **more)


@pytest.fixture(scope="module")
def paper_cells():
    """Four trials of the paper's setting at M/D = 0.3, full length."""
    whole = replace(
        setup(row("known"), row("mad", filter=Choice("mad")), row("all", filter=Choice("keep_all"))),
        federation=Federation(),
    )
    return [run_trial(whole, 11, trial, train_readable) for trial in range(4)]


def pick(cells, attack, method):
    return [c for trial in cells for c in trial if (c.attack, c.method) == (attack, method)]


@pytest.mark.parametrize("attack", ["efficiency", "coverage"])
def test_the_known_count_filter_is_perfect_and_mad_nearly(paper_cells, attack):
    assert all((c.true_positives, c.false_positives) == (20, 0) for c in pick(paper_cells, attack, "known"))
    mad = pick(paper_cells, attack, "mad")
    assert all(c.true_positives == 20 for c in mad)
    assert np.mean([c.false_positives for c in mad]) < 4  # the 100-trial mean is asked to lie in 0.5-2.2


def test_coverage_survives_the_filter_and_falls_without_it(paper_cells):
    """Honest coverage over 4 x 80,000 samples has sd 0.0008 with the radius's own error; 0.005 is six of them."""
    for attack in ("efficiency", "coverage", "random"):
        assert np.mean([c.coverage for c in pick(paper_cells, attack, "known")]) == pytest.approx(0.9, abs=0.005)
    # 20 % zeros: (1 - alpha - b)/(1 - b) = 0.875
    assert np.mean([c.coverage for c in pick(paper_cells, "efficiency", "all")]) == pytest.approx(0.875, abs=0.005)
    assert np.mean([c.coverage for c in pick(paper_cells, "coverage", "all")]) > 0.999


def test_score_law_equals_the_long_way():
    """Two-sample Kolmogorov-Smirnov for each of 6 clients, 20,000 scores each way.

    sqrt(n/2) D > 2.7 has probability below 1e-6 a client.
    """
    population = SyntheticLinear(means=(-1, 1)).draw(6, 8, 0, seed=5)
    rng = np.random.default_rng(1)
    models = population.truth + 0.3 * rng.standard_normal((6, 8))
    n = 20_000
    law = residuals_by_law(population, models, rng.standard_normal((6, n)))
    long = residuals_by_samples(population, models, n, rng)
    for ours, theirs in zip(law, long, strict=True):
        grid = np.sort(np.concatenate([ours, theirs]))
        gap = np.abs(
            np.searchsorted(np.sort(ours), grid, "right") - np.searchsorted(np.sort(theirs), grid, "right")
        ).max()
        assert np.sqrt(n / 2) * gap / n < 2.7


def test_both_ways_of_drawing_scores_give_the_same_width_within_noise():
    """Widths of one trial differ by the error of two 90 % quantiles of 80,000 scores: about 0.5 %; allow 3 %."""
    by_law, by_samples = (
        run_trial(setup(row("m"), attacks=ATTACKS[:1], samples=400, test_samples=400, scores=s), 3, 0, train_readable)
        for s in ("law", "samples")
    )
    assert by_law[0].width == pytest.approx(by_samples[0].width, rel=0.03)
    assert by_law[0].width != by_samples[0].width


def test_methods_that_train_alike_share_a_run_and_meet_the_same_scores():
    calls = []

    def counting(population, federation, arms):
        calls.append(len(arms))
        return train_readable(population, federation, arms)

    both = setup(row("a"), row("b", filter=Choice("keep_all")), row("floor", arm=None), rounds=50)
    cells = run_trial(both, 1, 0, counting)
    assert calls == [1]
    assert [(c.attack, c.method) for c in cells][:3] == [("efficiency", m) for m in ("a", "b", "floor")]
    alone = run_trial(setup(row("b", filter=Choice("keep_all")), rounds=50), 1, 0, train_readable)
    assert [c for c in cells if c.method == "b"] == alone


def test_the_conclusion_is_the_same_whether_or_not_it_was_remembered():
    """A radius is reused between attacks only when no forged score counts; recompute each attack alone to see it."""
    methods = (
        row("known"),
        row("few", filter=Choice("known_count", {"suspects": 10})),
        row("mad", filter=Choice("mad")),
    )
    together = run_trial(setup(*methods, rounds=100), 2, 0, train_readable)
    for number, attack in enumerate(ATTACKS):
        alone = run_trial(setup(*methods, rounds=100, attacks=(attack,)), 2, 0, train_readable)
        assert together[3 * number : 3 * number + 3] == alone


def test_the_floor_is_the_oracle_width_and_local_clients_send_nothing():
    local = Arm(masks=Masks(num_shared=50), exchange=False)
    cells = run_trial(setup(row("floor", arm=None), row("local", arm=local)), 1, 0, train_readable)
    floor, alone = cells[:2]
    assert floor.width == pytest.approx(floor.oracle_width, rel=0.01) and floor.a_posteriori_mse is None
    assert alone.bytes_up_per_round == 0 and alone.global_msd is None and alone.local_msd > 0
    assert alone.width > floor.width


def test_a_client_cannot_stretch_a_range_that_is_not_the_maximum():
    """The coverage attack reported into the pilot: the paper's range grows with it, the robust one does not."""
    attack = (("coverage", Choice("coverage", {"multiple": 1000.0})),)

    def upper(name):
        whole = setup(row("m"), rounds=100, attacks=attack, pilot="reported", range=Choice(name))
        (explained,) = explain_trial(whole, 1, 0, train_readable)
        return explained.span.upper

    honest = setup(row("m"), rounds=100, attacks=attack)
    (truth,) = explain_trial(honest, 1, 0, train_readable)
    assert upper("max") > 50 * truth.span.upper
    assert upper("high_quantile") < 2 * truth.span.upper


def test_an_explained_trial_tells_the_same_story():
    whole = setup(row("m"), row("all", filter=Choice("keep_all")), rounds=100)
    cells = run_trial(whole, 4, 0, train_readable)
    told = explain_trial(whole, 4, 0, train_readable, points=5)
    assert [e.cell for e in told] == cells
    for explained in told:
        assert explained.counts.sum() == 100 * 1000 and len(explained.verdict.reasons) == 100
        assert explained.truth.shape == explained.prediction.shape == (5,)
        assert explained.cell.true_positives == (~explained.verdict.kept & explained.byzantine).sum()


def test_divergence_is_said_with_the_limit_and_who_set_it():
    whole = replace(setup(row("m")), federation=Federation(step_size=0.5, rounds=400))
    with pytest.raises(
        DivergedError, match=r"training of m diverged by round \d+: step_size=0.5, but client \d+ alone"
    ):
        run_trial(whole, 1, 0, train_readable)


def test_divergence_that_is_the_attackers_doing_is_told_apart():
    loud = Federation(rounds=100, attack=Choice("gaussian", {"variance": 1e18, "probability": 1.0}))
    with pytest.raises(DivergedError, match="rule 'mean' let the attack through"):
        run_trial(replace(setup(row("m")), federation=loud), 1, 0, train_readable)


@pytest.mark.parametrize(
    ("whole", "message"),
    [
        (setup(row("m", filter=Choice("known_count", {"suspects": 50}))), "suspects=50"),
        (setup(row("m", filter=Choice("knowncount"))), "did you mean 'known_count'"),
        (setup(row("m", scoring_model="globl")), "did you mean 'global'"),
        (setup(row("m"), bins=1), "bins=1"),
        (setup(row("m"), confidence_level=1.0), "confidence_level=1.0"),
        (setup(row("m"), samples=0), "samples=0"),
        (setup(row("m"), pilot="tru"), "did you mean 'true'"),
        (setup(row("m"), range=Choice("maximum")), "unknown range"),
        (setup(row("m"), attacks=(("x", Choice("coverag")),)), "did you mean 'coverage'"),
    ],
)
def test_setups_that_cannot_work_are_refused_before_anything_runs(whole, message):
    with pytest.raises(SettingError, match=message):
        whole.check()


def test_every_filter_stands_in_a_setup():
    for name in FILTERS:
        options = {"suspects": 20} if name == "known_count" else {}
        setup(row("m", filter=Choice(name, options))).check()
