"""The steady state of the mean: against simulation, and where it is known otherwise."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from prism_fcp import Arm, Choice, Federation, Masks, SyntheticLinear, streams
from prism_fcp.data.synthetic import Population
from prism_fcp.engines import train
from prism_fcp.errors import SettingError
from prism_fcp.theory.kinds import kinds_of, typical_kinds
from prism_fcp.theory.recursion import MODELLED, Kinds, State, Training, mean_round, play
from prism_fcp.theory.steady import (
    Steady,
    deviations,
    growth_rate,
    mean_growth_rate,
    mean_stability_limit,
    rounds_to_settle,
    stability_limit,
    steady_state,
)
from prism_fcp.train.settings import COORDINATIONS

PROTOCOLS = list(product(COORDINATIONS, MODELLED))


def make(**changes: Any) -> tuple[Training, Population]:
    """Return ten unlike clients, their inputs with means far from zero."""
    size = {"clients": 10, "byzantine": 3, **{k: changes.pop(k) for k in ("clients", "byzantine") if k in changes}}
    given: dict[str, Any] = dict(
        dimension=10, num_shared=3, num_participants=4, step_size=0.04, attack_variance=0.1, attack_probability=0.3
    )
    given |= changes
    law = SyntheticLinear(means=(-0.5, 0.5))
    population = law.draw(size["clients"], given["dimension"], size["byzantine"], seed=4)
    return Training(kinds=kinds_of(population), **given), population


def simulate(training: Training, population: Population, rounds: int = 20_000, trials: int = 2) -> Any:
    kinds = training.kinds
    federation = Federation(
        num_clients=len(kinds.counts), dimension=training.dimension, num_participants=training.num_participants,
        num_byzantine=int(population.byzantine.sum()), rounds=rounds, window=rounds - 2000,
        step_size=training.step_size, idle_learning=training.idle_learning,
        attack=Choice("gaussian", {"variance": training.attack_variance, "probability": training.attack_probability}),
    )  # fmt: skip
    masks = Masks(num_shared=training.num_shared, coordination=training.coordination, download=training.download)
    return [
        train(replace(population, key=streams.key(3, trial)), federation, [Arm(masks=masks)], engine="compiled")[0]
        for trial in range(trials)
    ]


def decibels(steady: Steady, runs: Any) -> list[float]:
    pairs = [(steady.server.total, [r.global_msd for r in runs]), (steady.local.total, [r.local_msd for r in runs])]
    return [float(10 * np.log10(predicted / np.mean(found))) for predicted, found in pairs]


@pytest.mark.statistical
@pytest.mark.parametrize(("coordination", "download"), PROTOCOLS)
def test_equals_simulation_for_every_mask_protocol(coordination: Any, download: Any) -> None:
    """36,000 rounds a setting: the spread between seeds is .1 dB, so .5 dB is five sd; seeds are fixed."""
    training, population = make(coordination=coordination, download=download)
    quiet = replace(population, noise_variances=np.zeros(10))
    both = steady_state(training)
    assert np.abs(decibels(both, simulate(training, population))).max() < 0.5
    noise = replace(training, attack_variance=0.0)
    alone = steady_state(noise)
    assert np.abs(decibels(alone, simulate(noise, population))).max() < 0.5
    attack = replace(training, kinds=kinds_of(quiet))
    theirs = steady_state(attack)
    assert np.abs(decibels(theirs, simulate(attack, quiet))).max() < 0.5
    # Each part alone is what the split says, and the parts add up.
    for name in ("server", "local", "error"):
        whole, one, other = (getattr(s, name) for s in (both, alone, theirs))
        assert whole.noise == pytest.approx(one.noise, rel=1e-6) and one.byzantine == 0
        assert whole.byzantine == pytest.approx(other.byzantine, rel=1e-6) and other.noise == 0
        assert whole.total == whole.noise + whole.byzantine + whole.irreducible
    assert both.local.irreducible == both.server.irreducible == 0
    assert both.error.irreducible == pytest.approx(population.noise_variances.mean())


@pytest.mark.statistical
@pytest.mark.parametrize(
    "changes",
    [
        {"download": "previous", "num_participants": 10, "num_shared": 5},
        {"download": "full", "idle_learning": False, "step_size": 0.1},
        {"download": "same", "idle_learning": False, "num_participants": 2},
        {"num_participants": 1, "clients": 1, "byzantine": 0},
        {"dimension": 1, "num_shared": 1},
        {"num_shared": 1, "coordination": "common", "download": "previous"},
    ],
)
def test_equals_simulation_at_the_ends(changes: dict[str, Any]) -> None:
    """As above; everybody participating, idle clients that rest, one client, one coordinate, one shared coordinate."""
    training, population = make(**changes)
    assert np.abs(decibels(steady_state(training), simulate(training, population))).max() < 0.5


@pytest.mark.statistical
def test_the_error_of_predictions_equals_simulation() -> None:
    """300 runs of 400 rounds; the mean over clients of E(x.e)^2 has a relative error of about 3 %; 15 % are allowed."""
    training, population = make(step_size=0.05)
    steady = steady_state(training)
    runs = simulate(training, population, rounds=400 + 2000, trials=300)
    errors = np.stack([run.local_models for run in runs]) - population.truth
    found = population.variances * np.square(errors).sum(-1) + (population.means * errors.sum(-1)) ** 2
    assert steady.error.noise + steady.error.byzantine == pytest.approx(found.mean(), rel=0.15)
    np.testing.assert_allclose(steady.excess, found.mean(axis=0), rtol=0.5)


def test_nothing_that_perturbs_leaves_nothing() -> None:
    """The irreducible part of a deviation is none: the recursion has no other source."""
    training, population = make(attack_variance=0.0)
    quiet = replace(population, noise_variances=np.zeros(10))
    silent = replace(training, kinds=kinds_of(quiet))
    steady = steady_state(silent)
    assert steady.local.total == steady.server.total == steady.error.total == 0
    (run,) = simulate(silent, quiet, trials=1)
    assert run.global_msd < 1e-9 and run.local_msd < 1e-9


def test_full_sharing_makes_all_protocols_one() -> None:
    found = []
    for coordination, download in PROTOCOLS:
        training, _ = make(num_shared=10, coordination=coordination, download=download)
        found.append((steady_state(training).server.total, steady_state(training).local.total))
    np.testing.assert_allclose(found, [found[0]] * len(found), rtol=1e-6)


@pytest.mark.parametrize(("coordination", "download"), PROTOCOLS)
def test_kinds_are_shorthand(coordination: Any, download: Any) -> None:
    """Two kinds of three and four clients are seven clients, whatever the masks."""
    two = Kinds(
        counts=np.array([3.0, 4.0]), variances=np.array([0.3, 1.1]), means=np.array([0.2, 0.4]),
        noise_variances=np.array([0.01, 0.02]), byzantine=np.array([1.0, 0.0]),
    )  # fmt: skip
    names = ("variances", "means", "noise_variances", "byzantine")
    seven = Kinds(counts=np.ones(7), **{name: np.repeat(getattr(two, name), [3, 4]) for name in names})
    short, _ = make(coordination=coordination, download=download)
    short = replace(short, kinds=two)
    long = replace(short, kinds=seven)
    assert steady_state(short).server.total == pytest.approx(steady_state(long).server.total, rel=1e-6)
    assert steady_state(short).local.total == pytest.approx(steady_state(long).local.total, rel=1e-6)


def test_one_client_alone_is_the_textbook() -> None:
    """White inputs of variance s: mu s_n D/(2 - mu s (D + 2)), the least-mean-squares deviation."""
    kinds = Kinds(
        counts=np.ones(1), variances=np.array([0.5]), means=np.zeros(1),
        noise_variances=np.array([0.02]), byzantine=np.zeros(1),
    )  # fmt: skip
    training = Training(kinds=kinds, dimension=8, num_shared=8, num_participants=1, step_size=0.1)
    wanted = 0.1 * 0.02 * 8 / (2 - 0.1 * 0.5 * 10)
    assert steady_state(training).server.total == pytest.approx(wanted, rel=1e-9)
    assert stability_limit(training) == pytest.approx(2 / (0.5 * 10), rel=1e-3)
    assert mean_stability_limit(training) == pytest.approx(2 / 0.5, rel=1e-3)


def test_more_sharing_injects_more_and_forgets_faster() -> None:
    """Partial sharing with the mask of the upload coming down: less from the attack, less learnt."""
    law, found = SyntheticLinear(), []
    for shared in (5, 15, 50):
        training = Training(
            kinds=typical_kinds(law, 100, 20, 8), dimension=50, num_shared=shared, num_participants=10,
            step_size=0.025, attack_variance=0.1, attack_probability=0.2,
        )  # fmt: skip
        found.append(steady_state(training).local)
    assert found[0].byzantine < found[1].byzantine < found[2].byzantine
    assert found[0].noise > found[1].noise > found[2].noise


@pytest.mark.parametrize("download", MODELLED)
def test_fixed_point_is_where_rounds_lead(download: Any) -> None:
    training, _ = make(download=download)
    steady = steady_state(training)
    ahead = play(training, steady.state)
    np.testing.assert_allclose(ahead.flat(), steady.state.flat(), rtol=1e-6, atol=1e-9)
    server, local = deviations(training, 3000)
    assert server[-1] == pytest.approx(steady.server.total, rel=1e-6)
    settled = rounds_to_settle(training)
    outside = np.abs(local - steady.local.total) > (10**0.05 - 1) * steady.local.total
    assert abs(settled - (int(np.flatnonzero(outside)[-1]) + 2)) <= 1
    assert State.of(steady.state.flat(), 10).server.tolist() == steady.state.server.tolist()


@pytest.mark.parametrize("dimension", [50, 10**6])
@pytest.mark.parametrize(("coordination", "download"), PROTOCOLS)
def test_solvers_equal_dense_algebra(coordination: Any, download: Any, dimension: int) -> None:
    """Three kinds are 62 numbers a round, so the whole map can be written down and taken apart.

    At a hundredth of the limit and D = 1e6 its growth is 1e-7 or less below 1.
    """
    training = Training(
        kinds=typical_kinds(SyntheticLinear(), 30, 6, 3), dimension=dimension, num_shared=dimension // 10,
        num_participants=8, step_size=1.0, attack_variance=0.1, attack_probability=0.2,
        coordination=coordination, download=download,
    )  # fmt: skip
    limit = stability_limit(training, 1e-3)
    for part in (0.01, 0.5, 0.95):
        here = replace(training, step_size=part * limit)
        nothing = np.zeros(2 + 8 * 3 + 6 * 9)
        source = play(here, State.of(nothing, 3)).flat()
        table = np.stack([play(here, State.of(row, 3)).flat() - source for row in np.eye(len(nothing))], axis=1)
        rates, vectors = np.linalg.eig(table)
        assert 1 - growth_rate(here) == pytest.approx(1 - rates.real.max(), rel=0.02)
        end = np.linalg.solve(np.eye(len(nothing)) - table, source)
        steady = steady_state(here)
        np.testing.assert_allclose(steady.state.server, State.of(end, 3).server, rtol=1e-4)
        settled = rounds_to_settle(here)
        shares = np.linalg.solve(vectors, State.start(1.0, dimension, 3).flat() - end)
        for number, wanted in ((round(0.98 * settled) - 1, False), (round(1.02 * settled) + 1, True)):
            left = State.of((vectors @ (shares * rates**number)).real, 3)
            local = ((dimension - 1) * left.own_local[0] + left.own_local[1]).mean()
            assert (abs(local) <= (10**0.05 - 1) * steady.local.total) is np.bool_(wanted)


@pytest.mark.statistical
@pytest.mark.parametrize("part", [0.3, 1.25])
@pytest.mark.parametrize(("coordination", "download"), PROTOCOLS)
def test_rounds_from_zero_equal_simulation(coordination: Any, download: Any, part: float) -> None:
    """The global deviation after five rounds, mean of 1,500 runs with truths of their own: within five standard errors.

    Also beyond the limit, and where the whole model comes down, so that single runs show no divergence: the growth is
    that of the mean square. The spread is that of the runs themselves; false alarm below 1e-5.
    """
    training, population = make(
        clients=6, byzantine=2, dimension=6, num_shared=2, num_participants=3, coordination=coordination,
        download=download,
    )  # fmt: skip
    training = replace(training, step_size=part * stability_limit(training))
    size = Federation(
        num_clients=6, dimension=6, num_participants=3, num_byzantine=2, rounds=5, window=1,
        step_size=training.step_size, attack=Choice("gaussian", {"variance": 0.1, "probability": 0.3}),
    )  # fmt: skip
    arm = Arm(masks=Masks(num_shared=2, coordination=coordination, download=download))
    truths = np.random.default_rng(1).standard_normal((1500, 6))
    truths /= np.linalg.norm(truths, axis=1, keepdims=True)
    found = [
        train(replace(population, key=streams.key(9, n), truth=truth), size, [arm], engine="compiled")[0].global_msd
        for n, truth in enumerate(truths.astype(population.truth.dtype))
    ]
    wanted = deviations(training, 5)[0][-1]
    assert abs(np.mean(found) - wanted) < 5 * np.std(found) / np.sqrt(len(found))


@pytest.mark.statistical
@pytest.mark.parametrize(("coordination", "download"), [p for p in PROTOCOLS if p[1] != "full"])
def test_simulation_converges_below_the_limit_and_diverges_above(coordination: Any, download: Any) -> None:
    """0.8 and 1.25 of the limit, D = 40: growth a round is then far from 1 compared with its spread over 4,000.

    Where the whole model comes down a participant starts afresh, so single runs stay finite though their mean square
    does not: there the limit is no place where a run blows up (docs/theory.md).
    """
    training, population = make(
        dimension=40, num_shared=12, num_participants=5, coordination=coordination, download=download
    )
    limit = stability_limit(training)
    assert growth_rate(replace(training, step_size=0.999 * limit)) < 1
    assert growth_rate(replace(training, step_size=1.001 * limit)) > 1
    assert mean_growth_rate(replace(training, step_size=limit)) < 1
    assert limit < mean_stability_limit(training)
    assert all(run.diverged_at is None for run in simulate(replace(training, step_size=0.8 * limit), population, 4000))
    above = simulate(replace(training, step_size=1.25 * limit), population, 4000)
    assert all(run.diverged_at is not None for run in above)
    with pytest.raises(SettingError, match=r"step_size=.*; must lie below 0\.\d+.* lower step_size"):
        steady_state(replace(training, step_size=1.25 * limit))


@pytest.mark.parametrize(("coordination", "download"), PROTOCOLS)
def test_the_mean_converges_as_predicted(coordination: Any, download: Any) -> None:
    """Below 2/lambda_max of every client the mean converges, whatever the masks; the limit lies beyond."""
    training, _ = make(coordination=coordination, download=download)
    safe = float((2 / training.inputs.eigenvalues.max(axis=0)).min())
    assert mean_growth_rate(replace(training, step_size=0.99 * safe)) < 1
    assert mean_stability_limit(training) >= 0.99 * safe


@pytest.mark.slow
@pytest.mark.statistical
def test_a_part_of_the_whole_grid(root: Any) -> None:
    """Every ninth setting of benchmarks/steady_state.py; a setting's spread is up to .15 dB here."""
    spec = importlib.util.spec_from_file_location("steady_state", root / "benchmarks" / "steady_state.py")
    assert spec and spec.loader
    grid = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(grid)
    for number in range(0, grid.SETTINGS, 9):
        assert np.abs(grid.compare(number, 3, 20_000)[1]).max() < 0.5


@pytest.mark.statistical
@pytest.mark.parametrize(("coordination", "download"), PROTOCOLS)
def test_the_mean_error_decays_as_in_simulation(coordination: Any, download: Any) -> None:
    """The error along the truth after 30 rounds, mean of 150 runs: the predicted mean within five standard errors."""
    training, population = make(coordination=coordination, download=download, attack_variance=0.0)
    population = replace(population, means=np.zeros(10))
    training = replace(training, kinds=kinds_of(population))
    errors = -np.ones(21)
    for _ in range(30):
        errors = mean_round(training, errors, 0)
    size = Federation(
        num_clients=10, dimension=10, num_participants=4, num_byzantine=3, rounds=30, window=1,
        step_size=training.step_size, attack=Choice("gaussian", {"variance": 0.0}),
    )  # fmt: skip
    arm = Arm(masks=Masks(num_shared=3, coordination=coordination, download=download))
    runs = [
        train(replace(population, key=streams.key(8, trial)), size, [arm], engine="compiled")[0] for trial in range(150)
    ]
    found = np.array([[r.global_model @ population.truth, *(r.local_models @ population.truth)] for r in runs]) - 1
    spread = found.std(axis=0) / np.sqrt(len(runs))
    assert (np.abs(found.mean(axis=0) - errors[:11]) < 5 * spread + 1e-9).all()


def test_a_server_that_sends_nothing_is_not_described() -> None:
    from prism_fcp import plan
    from prism_fcp.errors import SettingError
    from prism_fcp.train.settings import Masks

    with pytest.raises(SettingError, match="download='never'; the recursion knows same, previous, independent, full"):
        plan(masks=Masks(num_shared=5, download="never"))
