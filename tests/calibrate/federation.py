"""Scores as the paper's linear federation produces them, drawn from their law.

Client k's inputs are N(m_k, s_k²) in all 50 coordinates, so a residual of a model with error e is
m_k·sum(e) + sqrt(s_k²|e|² + noise_k)·z. |e|² = 0.4 gives the published 90 % quantile at M/D = 0.3, about 0.88.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from prism_fcp.calibrate import (
    Calibration,
    ClippedScoresWarning,
    Filter,
    Range,
    ScoreAttack,
    ScoreAttackView,
    Span,
    calibrate,
)


@dataclass(frozen=True)
class Trial:
    scores: Any  # (K, n) true scores
    attackers: Any  # (b,) shuffled among the ids
    honest: Any
    normals: Any  # (b, n)

    def report(self, attack: ScoreAttack, upper: float = 1.0) -> Any:
        return attack.forge(
            ScoreAttackView(
                own=self.scores[self.attackers],
                upper=upper,
                honest_mean=float(self.scores[self.honest].mean()),
                normals=self.normals,
            )
        )

    def calibrate(self, attack: ScoreAttack, filter: Filter, range: Range | Span) -> Calibration:
        """Calibrate as the paper does: the range from the true scores, what lies beyond it clipped."""
        span = range if isinstance(range, Span) else range(self.scores)
        sent = self.scores.copy()
        sent[self.attackers] = self.report(attack, span.upper)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ClippedScoresWarning)  # the coverage attack, unfiltered, is meant to
            return calibrate(sent, filter=filter, range=span, beyond_range="clip")

    def found(self, calibration: Calibration) -> tuple[int, int]:
        """Return how many attackers, and how many honest clients, lost all weight."""
        out = ~calibration.verdict.kept
        return int(out[self.attackers].sum()), int(out[self.honest].sum())


def draw(seed: int, clients: int = 100, samples: int = 1000, hostile: int = 20, energy: float = 0.4) -> Trial:
    rng = np.random.default_rng(seed)
    means, variances = rng.uniform(-0.1, 0.1, clients), rng.uniform(0.2, 1.2, clients)
    noise = rng.uniform(0.005, 0.025, clients)
    errors = rng.standard_normal((clients, 50))
    errors *= np.sqrt(energy) / np.linalg.norm(errors, axis=1, keepdims=True)
    spread = np.sqrt(variances * energy + noise)
    scores = np.abs((means * errors.sum(axis=1))[:, None] + spread[:, None] * rng.standard_normal((clients, samples)))
    attackers = np.sort(rng.permutation(clients)[:hostile])
    honest = np.setdiff1d(np.arange(clients), attackers)
    return Trial(scores, attackers, honest, rng.standard_normal((hostile, samples)))
