"""Calibration and test scores of a trial's models, and what the server receives of them under attack."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from prism_fcp import streams
from prism_fcp.calibrate.attack import ScoreAttack, ScoreAttackView
from prism_fcp.calibrate.cell import Prepared, beyond, prepare, recount
from prism_fcp.calibrate.quantile import pool
from prism_fcp.calibrate.span import RANGES, Range, Span
from prism_fcp.data.synthetic import Population, residuals_by_law, residuals_by_samples
from prism_fcp.setup import CalibrationSettings
from prism_fcp.streams import Role
from prism_fcp.train.loop import Trained
from prism_fcp.types import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class CalibrationDraws:
    """The randomness of a trial's phases 2 and 3, shared by every model that is scored."""

    population: Population
    settings: CalibrationSettings
    range: Range
    calibration: FloatArray  # (K, n) standard normals
    test: FloatArray  # (K, n_test)
    attack: FloatArray  # (B, n)

    @classmethod
    def of(cls, population: Population, settings: CalibrationSettings) -> CalibrationDraws:
        """Draw them from the population's key."""

        def normals(role: Role, clients: int, samples: int) -> FloatArray:
            rng = streams.generator(streams.child(population.key, role))
            return rng.standard_normal((clients, samples), dtype=np.float32)

        num_clients, num_byzantine = len(population.byzantine), int(population.byzantine.sum())
        by_law = num_clients if settings.scores == "law" else 0
        return cls(
            population,
            settings,
            settings.range.build(RANGES, "range"),
            normals(Role.CALIBRATION, by_law, settings.samples),
            normals(Role.TEST, by_law, settings.test_samples),
            normals(Role.SCORE_ATTACK, num_byzantine, settings.samples),
        )

    def scores(self, models: FloatArray) -> Scored:
        """Return the scores of the models (K, D), one model a client."""

        def residuals(role: Role, normals: FloatArray) -> FloatArray:
            if self.settings.scores == "law":
                return residuals_by_law(self.population, models, normals)
            rng = streams.generator(streams.child(self.population.key, role))
            return residuals_by_samples(self.population, models, normals.shape[1], rng)

        calibration = residuals(Role.CALIBRATION, self.calibration)
        span = self.range(calibration)
        test = residuals(Role.TEST, self.test)[~self.population.byzantine]
        return Scored(self, prepare(calibration, span, self.settings.bins), test)


@dataclass(frozen=True, slots=True)
class Scored:
    """One set of models' true scores, with their histogram: an attack makes only its own clients be counted again."""

    draws: CalibrationDraws
    true: Prepared
    honest_test: FloatArray  # (K - B, n_test)
    concluded: dict[tuple[str, bytes], tuple[float, float]] = field(default_factory=dict)

    def under(self, attack: ScoreAttack) -> tuple[FloatArray, IntArray, Span]:
        """Return what the server receives when the Byzantine clients forge: scores, counts, range."""
        byzantine, settings = self.draws.population.byzantine, self.draws.settings
        view = ScoreAttackView(
            own=self.true.scores[byzantine],
            upper=self.true.span.upper,
            honest_mean=float(self.true.scores[~byzantine].mean()),
            normals=self.draws.attack,
        )
        forged = attack.forge(view)
        true = self.true
        if settings.pilot == "reported":
            reported = true.scores.copy()
            reported[byzantine] = forged
            true = prepare(reported, self.draws.range(reported), settings.bins)
        return *recount(true, np.flatnonzero(byzantine), forged), true.span

    def conclude(self, reported: FloatArray, span: Span, weights: FloatArray, label: str) -> tuple[float, float]:
        """Return radius and coverage for these weights. Without forged scores they are the same under every attack."""
        settings = self.draws.settings
        forged = settings.pilot == "reported" or bool(weights[self.draws.population.byzantine].any())
        address = (label if forged else "", weights.tobytes())
        if address not in self.concluded:
            pooled = pool(reported, weights, settings.confidence_level, settings.correction)
            radius = beyond(pooled, span, settings.beyond_range)
            inside = np.count_nonzero(self.honest_test <= radius) / self.honest_test.size
            self.concluded[address] = radius, float(inside)
        return self.concluded[address]


def scoring_models(result: Trained | None, model: str, population: Population) -> FloatArray:
    """Return the model (K, D) each client scores with: its own, the global one, or, untrained, the truth."""
    shape = (len(population.byzantine), len(population.truth))
    if result is None:
        return np.broadcast_to(population.truth, shape)
    return result.local_models if model == "local" else np.broadcast_to(result.global_model, shape)


def sample_points(population: Population, models: FloatArray, points: int) -> tuple[FloatArray, FloatArray]:
    """Return targets and predictions of a few test samples of the first honest client, for a picture."""
    client = int(np.flatnonzero(~population.byzantine)[0])
    rng = streams.generator(streams.child(population.key, Role.TEST, 1))
    inputs = population.inputs(rng.standard_normal((points, *models.shape), dtype=np.float32))
    targets = population.targets(inputs, rng.standard_normal((points, len(models)), dtype=np.float32))
    return targets[:, client], inputs[:, client] @ models[client]
