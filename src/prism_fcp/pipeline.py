"""PRISM-FCP end to end for one trial: train, calibrate, predict. Algorithm 1 on one screen, for many methods at once.

A method is a row of settings. All methods of a trial meet the same samples, masks, attacks and scores, so their
differences are theirs and not the draw's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from prism_fcp.calibrate.attack import SCORE_ATTACKS
from prism_fcp.calibrate.filter import FILTERS
from prism_fcp.calibrate.quantile import pool
from prism_fcp.calibrate.span import Span
from prism_fcp.calibrate.summary import characterize
from prism_fcp.data.synthetic import Population
from prism_fcp.errors import DivergedError
from prism_fcp.scoring import CalibrationDraws, sample_points, scoring_models
from prism_fcp.setup import CalibrationSettings, Method, ScoringModel, Setup
from prism_fcp.train.loop import Trained
from prism_fcp.train.settings import Arm, Federation
from prism_fcp.types import BoolArray, FloatArray, IntArray, Verdict

TrainFunction: TypeAlias = Callable[[Population, Federation, Sequence[Arm]], list[Trained]]


@dataclass(frozen=True, slots=True)
class Cell:
    """One method under one score attack in one trial. Energies and deviations are of its training."""

    attack: str
    method: str
    coverage: float  # share of the honest clients' test samples inside the interval, mean over clients
    width: float
    oracle_width: float  # the same quantile of the honest clients' scores under the true model
    true_positives: int  # Byzantine clients left out
    false_positives: int  # honest clients left out
    a_posteriori_mse: float | None
    global_msd: float | None
    local_msd: float | None
    bytes_up_per_round: float
    injections: int
    injected_energy: float


@dataclass(frozen=True, slots=True)
class Explained:
    """A cell with what a picture or a page needs to tell why."""

    cell: Cell
    byzantine: BoolArray  # (K,)
    verdict: Verdict
    counts: IntArray  # (K, H), what the server saw
    span: Span
    radius: float
    truth: FloatArray  # targets of a few test samples of one honest client
    prediction: FloatArray  # what the scoring model predicts for them


def run_trial(setup: Setup, seed: int, trial: int, train: TrainFunction) -> list[Cell]:
    """Run one trial of every method under every score attack.

    Paper: Alg. 1.
    """
    return [outcome.cell for outcome in _outcomes(setup, seed, trial, train, explain=False)]


def explain_trial(setup: Setup, seed: int, trial: int, train: TrainFunction, points: int = 30) -> list[Explained]:
    """Run one trial and keep what pictures need: verdicts with reasons, histograms, a few test points."""
    return list(_outcomes(setup, seed, trial, train, explain=True, points=points))


def _outcomes(
    setup: Setup, seed: int, trial: int, train: TrainFunction, *, explain: bool, points: int = 0
) -> Iterator[Explained]:
    settings, federation = setup.calibration, setup.federation
    population = setup.population.draw(
        federation.num_clients, federation.dimension, federation.num_byzantine, seed, trial
    )
    # Phase 1: every distinct way of training, on one stream
    arms = setup.arms()
    trained = dict(zip(arms, train(population, federation, arms), strict=True)) if arms else {}
    for diverged, outcome in trained.items():
        if outcome.diverged_at is not None:
            raise DivergedError(_why_diverged(setup, diverged, outcome.diverged_at, population))

    # Phases 2 and 3 for every model that scores
    attacks = [(label, attack.build(SCORE_ATTACKS, "score attack")) for label, attack in setup.attacks]
    filters = {method.name: method.filter.build(FILTERS, "filter") for method in setup.methods}
    sizes = np.full(federation.num_clients, settings.samples)
    draws = CalibrationDraws.of(population, settings)
    oracle = draws.scores(scoring_models(None, "global", population))
    oracle_width = 2 * pool(oracle.true.scores[~population.byzantine], None, settings.confidence_level).radius
    done: dict[tuple[str, str], Explained] = {}
    scored: dict[tuple[Arm | None, str], list[Method]] = {}
    for method in setup.methods:
        scored.setdefault((method.arm, method.scoring_model if method.arm else "global"), []).append(method)
    for (arm, model), methods in scored.items():
        result = trained[arm] if arm is not None else None
        models = scoring_models(result, model, population)
        scores = oracle if result is None else draws.scores(models)
        truth, prediction = sample_points(population, models, points) if explain else (np.empty(0), np.empty(0))
        for label, attack in attacks:
            reported, counts, span = scores.under(attack)
            shares = characterize(counts)
            for method in methods:
                weights, mal_scores, threshold = filters[method.name].weigh(shares, sizes, setup.context)
                radius, covered = scores.conclude(reported, span, weights, label)
                left_out = weights == 0
                cell = Cell(
                    attack=label,
                    method=method.name,
                    coverage=covered,
                    width=2 * radius,
                    oracle_width=oracle_width,
                    true_positives=int((left_out & population.byzantine).sum()),
                    false_positives=int((left_out & ~population.byzantine).sum()),
                    a_posteriori_mse=result.a_posteriori_mse if result else None,
                    global_msd=result.global_msd if result and arm and arm.exchange else None,
                    local_msd=result.local_msd if result else None,
                    bytes_up_per_round=result.bytes_up_per_round if result else 0.0,
                    injections=result.injections if result else 0,
                    injected_energy=result.injected_energy if result else 0.0,
                )
                verdict = (
                    filters[method.name](counts, sizes, setup.context)
                    if explain
                    else Verdict(weights, mal_scores, threshold, ())
                )
                done[label, method.name] = Explained(
                    cell, population.byzantine, verdict, counts, span, radius, truth, prediction
                )
    for label, _ in attacks:
        for method in setup.methods:
            yield done[label, method.name]


def _why_diverged(setup: Setup, arm: Arm, round_number: int, population: Population) -> str:
    names = ", ".join(m.name for m in setup.methods if m.arm == arm)
    mu = setup.federation.step_size
    # R_k = s^2 I + m^2 11^T; a Gaussian LMS client alone is mean-square stable while mu (tr R + 2 lambda_max) < 2
    largest = population.variances + len(population.truth) * population.means**2
    limits = 2 / (population.input_energy() + 2 * largest)
    tightest = int(np.argmin(limits))
    if mu >= limits[tightest]:
        return (
            f"training of {names} diverged by round {round_number}: step_size={mu:g}, but client {tightest} alone "
            f"needs it below {limits[tightest]:.3g} = 2/(tr R + 2 lambda_max); lower step_size"
        )
    return (
        f"training of {names} diverged by round {round_number} with step_size={mu:g}, which every client alone would "
        f"stand (below {limits[tightest]:.3g}): rule {arm.rule.name!r} let the attack through; choose a robust rule "
        "such as 'median' or a smaller step_size"
    )


__all__ = [
    "CalibrationSettings",
    "Cell",
    "Explained",
    "Method",
    "ScoringModel",
    "Setup",
    "TrainFunction",
    "explain_trial",
    "run_trial",
]
