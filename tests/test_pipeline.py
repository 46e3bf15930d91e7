"""The three phases together: exact laws, shared draws, and the detection figures the paper states."""

from dataclasses import replace

import numpy as np
import pytest

from prism_fcp import streams
from prism_fcp.calibrate.attack import SCORE_ATTACKS, ScoreAttack
from prism_fcp.calibrate.filter import FILTERS
from prism_fcp.data.synthetic import SyntheticLinear, residuals_by_law, residuals_by_samples
from prism_fcp.errors import DivergedError, SettingError
from prism_fcp.pipeline import CalibrationSettings, Method, Setup, explain_trial, run_trial
from prism_fcp.streams import Role
from prism_fcp.train.loop import train_readable
from prism_fcp.train.settings import Arm, Federation, Masks
from prism_fcp.types import Choice

KNOWN = Choice("known_count", {"suspects": 20})
ATTACKS = (("efficiency", Choice("efficiency")), ("coverage", Choice("coverage")), ("random", Choice("random")))
PARTIAL, FULL = Arm(masks=Masks(num_shared=15)), Arm(masks=Masks(num_shared=50))
LOCAL = Arm(masks=Masks(num_shared=50), exchange=False)


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
    cells = run_trial(setup(row("floor", arm=None), row("local", arm=LOCAL)), 1, 0, train_readable)
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


@pytest.mark.parametrize("step_size", [0.05, 0.045])
def test_an_unstable_step_size_is_said_before_its_numbers_are_absurd(step_size):
    """At 0.045 one client's squared error is some hundreds after 1,000 rounds: no blow-up, and no result either."""
    whole = replace(setup(row("m"), row("local", arm=LOCAL)), federation=Federation(step_size=step_size))
    with pytest.raises(DivergedError, match=rf"step_size={step_size}, but client \d+ alone needs it below 0.03\d+"):
        run_trial(whole, 1, 0, train_readable)


@pytest.mark.parametrize("source", ["histogram", "tdigest"])
def test_other_ways_to_the_quantile_stay_beside_the_exact_one(source):
    exact = run_trial(setup(row("m"), rounds=100), 1, 0, train_readable)
    other = run_trial(setup(row("m"), rounds=100, quantile=source), 1, 0, train_readable)
    bin_width = 2 * 1.1 * exact[0].width  # a generous bound on two bins: the range is about four radii, in 100 bins
    for one, two in zip(exact, other, strict=True):
        assert one.width != two.width and abs(one.width - two.width) < 0.08 * bin_width
        assert source == "tdigest" or two.width >= one.width  # the bin's upper end never covers less


def test_coverage_is_of_honest_clients_and_of_the_model_that_scores():
    """Recompute one cell by hand: the global model's residuals, honest clients only, against the cell's radius."""
    whole = setup(row("m", scoring_model="global"), row("local"), rounds=200, attacks=ATTACKS[:1])
    told, local = explain_trial(whole, 6, 2, train_readable)
    population = SyntheticLinear().draw(100, 50, 20, 6, 2)
    (trained,) = train_readable(population, whole.federation, [PARTIAL])
    rng = streams.generator(streams.child(population.key, Role.TEST))
    z = rng.standard_normal((100, 1000), dtype=np.float32)
    residuals = residuals_by_law(population, np.broadcast_to(trained.global_model, (100, 50)), z)
    assert told.cell.coverage == pytest.approx((residuals[~population.byzantine] <= told.radius).mean(), abs=1e-12)
    assert told.cell.width != local.cell.width
    rng = streams.generator(streams.child(population.key, Role.CALIBRATION))
    z = rng.standard_normal((100, 1000), dtype=np.float32)
    floor = np.sort(residuals_by_law(population, population.truth[None], z)[~population.byzantine].ravel())
    assert told.cell.oracle_width == pytest.approx(2 * floor[72_001 - 1])  # ceil(80,001 * 0.9), honest clients alone


def test_a_coverage_attack_knows_the_honest_mean():
    """At multiple 1 nothing is clipped: what the attackers report is the honest clients' mean score."""
    one = (("coverage", Choice("coverage", {"multiple": 1.0})),)
    (told,) = explain_trial(setup(row("m"), rounds=100, attacks=one), 3, 0, train_readable)
    population = SyntheticLinear().draw(100, 50, 20, 3, 0)
    (trained,) = train_readable(population, setup(row("m"), rounds=100).federation, [PARTIAL])
    rng = streams.generator(streams.child(population.key, Role.CALIBRATION))
    scores = residuals_by_law(population, trained.local_models, rng.standard_normal((100, 1000), dtype=np.float32))
    bin_of_mean = int(scores[~population.byzantine].mean() / told.span.upper * 100)
    assert (told.counts[population.byzantine][:, bin_of_mean] == 1000).all()


def test_an_attack_is_shown_what_it_declares_and_nothing_else(monkeypatch):
    seen = []

    def watching():
        return ScoreAttack("watching", frozenset({"upper"}), lambda view: seen.append(view) or view.own)

    monkeypatch.setitem(SCORE_ATTACKS, "watching", watching)
    run_trial(setup(row("m"), rounds=50, attacks=(("w", Choice("watching")),)), 1, 0, train_readable)
    (view,) = seen
    assert view.upper > 0 and view.honest_mean is None and view.normals is None


def test_a_cut_radius_that_may_cover_too_little_is_marked():
    """The range ends at the clients' median 80 % quantile: most attacked cells want a larger score, and say so."""
    tight = Choice("high_quantile", {"level": 0.8, "factor": 1.0})
    cut = run_trial(setup(row("m"), rounds=100, range=tight), 1, 0, train_readable)
    assert all(c.clipped and c.coverage < 0.88 for c in cut)
    exact = run_trial(setup(row("m"), rounds=100, range=tight, beyond_range="exact"), 1, 0, train_readable)
    assert all(not c.clipped and c.coverage > 0.89 for c in exact)
    harmless = run_trial(setup(row("all", filter=Choice("keep_all")), rounds=100), 1, 0, train_readable)
    assert not any(
        c.clipped for c in harmless
    )  # the coverage attack reaches the range's end, no honest score lies beyond


def test_divergence_that_is_the_attackers_doing_is_told_apart():
    loud = Federation(rounds=100, attack=Choice("gaussian", {"variance": 1e18, "probability": 1.0}))
    with pytest.raises(DivergedError, match="rule 'mean' let the attack through"):
        run_trial(replace(setup(row("m")), federation=loud), 1, 0, train_readable)


@pytest.mark.parametrize(
    ("whole", "message"),
    [
        (setup(row("m", filter=Choice("known_count", {"suspects": 50}))), "suspects=50"),
        (setup(row("m", filter=Choice("knowncount"))), "did you mean 'known_count'"),
        (setup(row("m"), row("m", arm=FULL)), r"methods: \['m'\]; at least one, each with a name of its own"),
        (setup(), "methods: none"),
        (setup(row("m"), attacks=()), "attacks: none"),
        (setup(row("m", arm=LOCAL, scoring_model="global")), "clients that never share have no global model"),
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
    with pytest.raises(SettingError, match=message):  # and nobody has to remember to check
        run_trial(whole, 1, 0, train_readable)


def test_every_filter_stands_in_a_setup():
    for name in FILTERS:
        options = {"suspects": 20} if name == "known_count" else {}
        setup(row("m", filter=Choice(name, options))).check()
