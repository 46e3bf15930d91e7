"""Phase 2, robust calibration: scores, their summaries, score attacks, filters and the conformal quantile."""

from prism_fcp.calibrate.attack import SCORE_ATTACKS, ScoreAttack, ScoreAttackView
from prism_fcp.calibrate.calibrate import Calibration, calibrate
from prism_fcp.calibrate.filter import (
    FILTERS,
    Filter,
    FilterContext,
    Judgement,
    down_weight,
    estimated_count,
    keep_all,
    known_count,
    mad,
)
from prism_fcp.calibrate.quantile import (
    ClippedScoresWarning,
    TooFewScoresWarning,
    bracket_from_histogram,
    pooled_quantile,
    rank,
)
from prism_fcp.calibrate.radius import Radius, conformal_radius
from prism_fcp.calibrate.score import SCORES, Score, absolute_residual
from prism_fcp.calibrate.sketch import tdigest_quantile
from prism_fcp.calibrate.span import RANGES, Range, Span
from prism_fcp.calibrate.summary import characterize, histogram

__all__ = [
    "FILTERS",
    "RANGES",
    "SCORES",
    "SCORE_ATTACKS",
    "Calibration",
    "ClippedScoresWarning",
    "Filter",
    "FilterContext",
    "Judgement",
    "Radius",
    "Range",
    "Score",
    "ScoreAttack",
    "ScoreAttackView",
    "Span",
    "TooFewScoresWarning",
    "absolute_residual",
    "bracket_from_histogram",
    "calibrate",
    "characterize",
    "conformal_radius",
    "down_weight",
    "estimated_count",
    "histogram",
    "keep_all",
    "known_count",
    "mad",
    "pooled_quantile",
    "rank",
    "tdigest_quantile",
]
