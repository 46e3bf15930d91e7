"""Calibration and test scores of a trial's models, and what the server receives of them under attack."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np

from prism_fcp import streams
from prism_fcp.calibrate.attack import ScoreAttack, ScoreAttackView
from prism_fcp.calibrate.histogram import histogram
from prism_fcp.calibrate.radius import bracket, conformal_radius
from prism_fcp.calibrate.sketch import tdigest_quantile
from prism_fcp.calibrate.span import RANGES, ClientScores, Range, Span
from prism_fcp.data.clients import ClientData
from prism_fcp.data.synthetic import Population, residuals_by_law, residuals_by_samples
from prism_fcp.setup import CalibrationSettings
from prism_fcp.streams import Role
from prism_fcp.train.loop import Trained
from prism_fcp.types import BoolArray, FloatArray, IntArray

Clients: TypeAlias = Population | ClientData


class Received(NamedTuple):
    """What reached the server under one attack."""

    attack: str
    scores: ClientScores  # (K, n), or one array a client
    counts: IntArray  # (K, H)
    span: Span


class Conclusion(NamedTuple):
    """What came of it."""

    radius: float
    coverage: float  # share of the honest clients' test samples inside
    clipped: bool  # the radius was cut although honest scores lie above the range: it may cover too little


@dataclass(frozen=True, slots=True)
class CalibrationDraws:
    """The randomness of a trial's phases 2 and 3, shared by every model that is scored."""

    population: Clients
    settings: CalibrationSettings
    range: Range
    calibration: FloatArray  # (K, n) standard normals
    test: FloatArray  # (K, n_test)
    attack: FloatArray  # (B, n), or nothing where no attack sees normals

    @classmethod
    def of(cls, population: Clients, settings: CalibrationSettings, attacks: Iterable[ScoreAttack]) -> CalibrationDraws:
        """Draw them from the population's key."""

        def normals(role: Role, clients: int, samples: int) -> FloatArray:
            rng = streams.generator(streams.child(population.key, role))
            return rng.standard_normal((clients, samples), dtype=np.float32)

        drawn = isinstance(population, Population) and settings.scores == "law"
        by_law = len(population.byzantine) if drawn else 0
        noisy = int(population.byzantine.sum()) if any("normals" in attack.sees for attack in attacks) else 0
        return cls(
            population,
            settings,
            settings.range.build(RANGES, "range"),
            normals(Role.CALIBRATION, by_law, settings.samples),
            normals(Role.TEST, by_law, settings.test_samples),
            normals(Role.SCORE_ATTACK, noisy, settings.samples),
        )

    def score(self, models: FloatArray, bins: int | None = None) -> Scored:
        """Return the scores of the models (K, D), one model a client, counted in so many bins (the settings')."""

        def residuals(role: Role, normals: FloatArray) -> ClientScores:
            if isinstance(self.population, ClientData):
                told = self.population.residuals(models, role)
                return np.stack(told) if len({len(own) for own in told}) == 1 else told
            if self.settings.scores == "law":
                return residuals_by_law(self.population, models, normals)
            rng = streams.generator(streams.child(self.population.key, role))
            return residuals_by_samples(self.population, models, normals.shape[1], rng)

        calibration = residuals(Role.CALIBRATION, self.calibration)
        span = self.range(calibration)
        bins = bins or self.settings.bins
        counts = histogram(calibration, span, bins)
        test = chosen(residuals(Role.TEST, self.test), ~self.population.byzantine)
        return Scored(self, calibration, counts, span, test, bins)


@dataclass(frozen=True, slots=True)
class Scored:
    """One set of models' true scores, counted once: an attack makes only its own clients be counted again.

    Clients may have unequal numbers of scores; an attack then forges one client's at a time.
    """

    draws: CalibrationDraws
    true: ClientScores  # (K, n), or one array a client
    counts: IntArray  # (K, H)
    span: Span  # of the true scores
    honest_test: FloatArray  # (K - B, n_test), or all in a row
    bins: int
    concluded: dict[tuple[str, bytes], Conclusion] = field(default_factory=dict)

    def receive(self, label: str, attack: ScoreAttack) -> Received:
        """Return what the server receives when the Byzantine clients forge their scores."""
        byzantine, settings = self._byzantine, self.draws.settings
        reported, counts, span = self._forged(attack), self.counts.copy(), self.span
        if settings.pilot == "reported":
            span = self.draws.range(reported)
            counts = histogram(reported, span, self.bins)
        elif byzantine.any():
            counts[byzantine] = histogram(_some(reported, byzantine), span, self.bins)
        return Received(label, reported, counts, span)

    def conclude(self, received: Received, weights: FloatArray) -> Conclusion:
        """Return radius and coverage for these weights. Where no forged score counts, all attacks end alike."""
        settings = self.draws.settings
        forged = settings.pilot == "reported" or bool(weights[self._byzantine].any())
        address = (received.attack if forged else "", weights.tobytes())
        if address not in self.concluded:
            radius, beyond = self._radius(received, weights)
            inside = np.count_nonzero(self.honest_test <= radius) / self.honest_test.size
            cut = beyond and settings.beyond_range == "clip"
            cut = cut and bool(chosen(self.true, ~self._byzantine).max() > received.span.upper)
            self.concluded[address] = Conclusion(radius, float(inside), cut)
        return self.concluded[address]

    def _radius(self, received: Received, weights: FloatArray) -> tuple[float, bool]:
        """Return the radius and whether its rank lies beyond the range, from what the settings say it comes from."""
        settings = self.draws.settings
        radius, beyond, pooled = conformal_radius(
            received.scores,
            weights,
            received.span,
            confidence_level=settings.confidence_level,
            correction=settings.correction,
            beyond_range=settings.beyond_range,
        )
        if settings.quantile == "histogram":
            radius = bracket(pooled, radius, received.counts, weights, received.span, self.bins)[1]
        elif settings.quantile == "tdigest":
            radius = tdigest_quantile(
                [np.minimum(own, received.span.upper) for own in _some(received.scores, weights > 0)],
                confidence_level=settings.confidence_level,
                correction=settings.correction,
            )
        return radius, beyond

    @property
    def _byzantine(self) -> BoolArray:
        return self.draws.population.byzantine

    def _forged(self, attack: ScoreAttack) -> ClientScores:
        """Return all clients' scores with the Byzantine ones' in the attack's words."""
        byzantine, normals = self._byzantine, self.draws.attack
        if isinstance(self.true, np.ndarray):
            reported = self.true.copy()
            reported[byzantine] = attack.report(self._view(attack, self.true[byzantine], normals))
            return reported
        told = list(self.true)
        for place, client in enumerate(np.flatnonzero(byzantine)):
            own = told[client][None]
            view = self._view(attack, own, normals[place : place + 1, : own.shape[1]], place)
            told[client] = attack.report(view)[0]
        return told

    def _honest(self, length: int, place: int) -> FloatArray:
        """Return the honest clients' scores, this many each, from the `place`-th client on."""
        found = _some(self.true, ~self._byzantine)
        rows = found if isinstance(found, np.ndarray) else np.stack([np.resize(own, length) for own in found])
        return np.roll(rows, -place, axis=0) if place else rows

    def _view(self, attack: ScoreAttack, own: FloatArray, normals: FloatArray, place: int = 0) -> ScoreAttackView:
        """Show the attack what it declares in `sees`, and nothing else; `place`: of the first attacker among all."""
        sees = attack.sees
        return ScoreAttackView(
            own=own,
            upper=self.span.upper if "upper" in sees else None,
            honest_mean=float(chosen(self.true, ~self._byzantine).mean()) if "honest_mean" in sees else None,
            normals=normals if "normals" in sees else None,
            honest=self._honest(own.shape[1], place) if "honest" in sees else None,
            quantiles=np.sort(chosen(self.true, ~self._byzantine), axis=None) if "quantiles" in sees else None,
        )


def chosen(scores: ClientScores, clients: BoolArray) -> FloatArray:
    """Return some clients' scores: (k, n), or all in a row where they have unequal numbers."""
    found = _some(scores, clients)
    return found if isinstance(found, np.ndarray) else np.concatenate(found)


def _some(scores: ClientScores, clients: BoolArray) -> ClientScores:
    if isinstance(scores, np.ndarray):
        return np.asarray(scores[clients])
    return [own for own, wanted in zip(scores, clients, strict=True) if wanted]


def scoring_models(result: Trained | None, model: str, population: Clients) -> FloatArray:
    """Return the model (K, D) each client scores with: its own, the global one, or, untrained, the best there is."""
    shape = (len(population.byzantine), len(population.truth))
    if result is None:
        return np.broadcast_to(population.oracle(), shape)
    return result.local_models if model == "local" else np.broadcast_to(result.global_model, shape)


def sample_points(population: Clients, models: FloatArray, points: int) -> tuple[FloatArray, FloatArray]:
    """Return targets and predictions of a few test samples of the first honest client, for a picture."""
    client = int(np.flatnonzero(~population.byzantine)[0])
    if isinstance(population, ClientData):
        return population.points(models, client, points)
    rng = streams.generator(streams.child(population.key, Role.TEST, 1))
    inputs = population.inputs(rng.standard_normal((points, *models.shape), dtype=np.float32))
    targets = population.targets(inputs, rng.standard_normal((points, len(models)), dtype=np.float32))
    return targets[:, client], inputs[:, client] @ models[client]
