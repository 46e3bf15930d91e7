"""PRISM-FCP end to end for one trial: train, calibrate, predict. Algorithm 1 on one screen, for many methods at once.

A method is a row of settings. All methods of a trial meet the same samples, masks, attacks and scores, so their
differences are theirs and not the draw's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np

from prism_fcp.calibrate.attack import SCORE_ATTACKS
from prism_fcp.calibrate.filter import FILTERS
from prism_fcp.calibrate.histogram import characterize
from prism_fcp.calibrate.judgement import Filter
from prism_fcp.calibrate.quantile import pool
from prism_fcp.calibrate.span import ClientScores, Span
from prism_fcp.data.clients import ClientData
from prism_fcp.data.synthetic import Population
from prism_fcp.errors import DivergedError
from prism_fcp.scoring import CalibrationDraws, Clients, Conclusion, Received, sample_points, scoring_models
from prism_fcp.setup import CalibrationSettings, Method, ScoringModel, Setup
from prism_fcp.train.loop import Trained
from prism_fcp.train.settings import Arm, Federation
from prism_fcp.types import BoolArray, FloatArray, IntArray, LeftOut, Verdict

TrainFunction: TypeAlias = Callable[[Any, Federation, Sequence[Arm]], list[Trained]]  # the first: a trial's clients
LOST: Final = 10.0  # an unstable client is given up when its squared error is this many times the truth's


@dataclass(frozen=True, slots=True)
class Cell:
    """One method under one score attack in one trial. Energies and deviations are of its training."""

    attack: str
    method: str
    coverage: float  # share of the honest clients' test samples inside the interval, mean over clients
    width: float  # in the target's own units, as `oracle_width`
    clipped: bool  # the radius was cut although honest scores lie above the range: it may cover too little
    oracle_width: float  # the same quantile of the honest clients' scores under the true model
    true_positives: int  # Byzantine clients left out
    false_positives: int  # honest clients left out
    a_posteriori_mse: float | None
    global_msd: float | None
    local_msd: float | None
    bytes_up_per_round: float
    injections: int
    injected_energy: float
    test_mse: float | None = None  # mean squared test residual of honest clients, in the units scores are in
    left_out: tuple[LeftOut, ...] | None = None  # in training, by a rule that remembers clients; None: it does not


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


def run_trial(
    setup: Setup, seed: int, trial: int, train: TrainFunction, population: Clients | None = None
) -> list[Cell]:
    """Run one trial of every method under every score attack; `population`: its clients, if they are drawn already.

    Paper: Alg. 1.
    """
    return [explained.cell for explained in _play(setup, seed, trial, train, population=population)]


def explain_trial(setup: Setup, seed: int, trial: int, train: TrainFunction, points: int = 30) -> list[Explained]:
    """Run one trial and keep what pictures need: verdicts with reasons, histograms, a few test points."""
    return _play(setup, seed, trial, train, points)


def _play(
    setup: Setup, seed: int, trial: int, train: TrainFunction, points: int = 0, population: Clients | None = None
) -> list[Explained]:
    """Play Algorithm 1 for every method; verdicts carry sentences only where points are asked for."""
    setup.check()
    population = setup.draw(seed, trial) if population is None else population
    attacks = {label: attack.build(SCORE_ATTACKS, "score attack") for label, attack in setup.attacks}
    filters = {method.name: method.filter.build(FILTERS, "filter") for method in setup.methods}

    trained = _train(setup, population, train)  # phase 1, once for methods that train alike
    draws = CalibrationDraws.of(population, setup.calibration, attacks.values())
    floor = draws.score(scoring_models(None, "global", population))
    unit = population.scale if isinstance(population, ClientData) else 1.0
    oracle_width = 2 * unit * _quantile(floor.true, population, setup.calibration)
    found: dict[tuple[str, str], Explained] = {}
    for (arm, model, bins), methods in _scored_alike(setup.methods).items():
        result = trained[arm] if arm is not None else None
        models = scoring_models(result, model, population)
        scored = draws.score(models, bins) if result is not None or bins else floor
        error = float(np.square(scored.honest_test, dtype=np.float64).mean())
        picture = sample_points(population, models, points)
        for label, attack in attacks.items():
            received = scored.receive(label, attack)  # phase 2: what the clients send,
            for method in methods:
                verdict = _judge(filters[method.name], received, setup, result, bool(points))  # whom to trust,
                conclusion = scored.conclude(received, verdict.weights)  # the radius; phase 3: what it covers
                cell = _cell(received.attack, method, population, verdict, conclusion, oracle_width, result, error)
                found[label, method.name] = Explained(
                    cell, population.byzantine, verdict, received.counts, received.span, conclusion.radius, *picture
                )
    return [found[label, method.name] for label in attacks for method in setup.methods]


def _train(setup: Setup, population: Clients, train: TrainFunction) -> dict[Arm, Trained]:
    arms = setup.arms()
    trained = dict(zip(arms, train(population, setup.federation, arms), strict=True)) if arms else {}
    for arm, result in trained.items():
        problem = _why_diverged(setup, arm, result, population)
        if problem:
            raise DivergedError(problem)
    return trained


def _scored_alike(methods: Sequence[Method]) -> dict[tuple[Arm | None, str, int | None], list[Method]]:
    """Group the methods whose histograms are the same: one training, one scoring model, one number of bins."""
    groups: dict[tuple[Arm | None, str, int | None], list[Method]] = {}
    for method in methods:
        model = method.scoring_model if method.arm else "global"
        groups.setdefault((method.arm, model, method.bins), []).append(method)
    return groups


def _judge(chosen: Filter, received: Received, setup: Setup, result: Trained | None, with_reasons: bool) -> Verdict:
    sizes, context = received.counts.sum(axis=1), setup.context
    if result is not None and result.ledger is not None:
        context = replace(context, evidence=result.ledger.suspicion())  # what training holds against clients
    if with_reasons:
        return chosen(received.counts, sizes, context)
    return Verdict(*chosen.weigh(characterize(received.counts), sizes, context), ())


def _quantile(scores: ClientScores, population: Clients, settings: CalibrationSettings) -> float:
    honest = (~population.byzantine).astype(np.float64)
    return pool(scores, honest, settings.confidence_level, settings.correction).radius


def _cell(
    attack: str,
    method: Method,
    population: Clients,
    verdict: Verdict,
    conclusion: Conclusion,
    oracle_width: float,
    result: Trained | None,
    test_mse: float,
) -> Cell:
    left_out = ~verdict.kept
    unit = population.scale if isinstance(population, ClientData) else 1.0
    known = isinstance(population, Population)  # is there a true model to deviate from?
    return Cell(
        attack=attack,
        method=method.name,
        coverage=conclusion.coverage,
        width=2 * unit * conclusion.radius,
        clipped=conclusion.clipped,
        oracle_width=oracle_width,
        true_positives=int((left_out & population.byzantine).sum()),
        false_positives=int((left_out & ~population.byzantine).sum()),
        a_posteriori_mse=result.a_posteriori_mse if result else None,
        global_msd=result.global_msd if known and result and method.arm and method.arm.exchange else None,
        local_msd=result.local_msd if known and result else None,
        bytes_up_per_round=result.bytes_up_per_round if result else 0.0,
        injections=result.injections if result else 0,
        injected_energy=result.injected_energy if result else 0.0,
        test_mse=test_mse,
        left_out=result.ledger.left_out(population.byzantine) if result and result.ledger else None,
    )


def _why_diverged(setup: Setup, arm: Arm, result: Trained, population: Clients) -> str:
    """Return why this training cannot be trusted, or nothing.

    A client whose step size lies beyond its own limit grows without bound, sooner or later; it is told before its
    numbers are absurd, once it is farther from the truth than a model that never learned.
    """
    names = ", ".join(m.name for m in setup.methods if m.arm == arm)
    mu = setup.federation.step_size
    if isinstance(population, ClientData):
        if result.diverged_at is None:
            return ""
        return (
            f"training of {names} diverged by round {result.diverged_at} with step_size={mu:g}; lower step_size, or "
            f"choose a robust rule such as 'median' in place of {arm.rule.name!r}"
        )
    limits = population.stability_limits()
    error = np.square(result.local_models - population.truth).sum(axis=1)
    lost = (mu >= limits) & ~(error <= LOST * np.square(population.truth).sum())
    if lost.any() or (result.diverged_at is not None and (mu >= limits).any()):
        client = int(np.argmin(np.where(lost, limits, np.inf) if lost.any() else limits))
        when = f" by round {result.diverged_at}" if result.diverged_at is not None else ""
        return (
            f"training of {names} diverged{when}: step_size={mu:g}, but client {client} alone needs it below "
            f"{limits[client]:.3g} = 2/(tr R + 2 lambda_max); lower step_size"
        )
    if result.diverged_at is not None:
        return (
            f"training of {names} diverged by round {result.diverged_at} with step_size={mu:g}, which every client "
            f"alone would stand (below {limits.min():.3g}): rule {arm.rule.name!r} let the attack through; choose a "
            "robust rule such as 'median' or a smaller step_size"
        )
    return ""


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
