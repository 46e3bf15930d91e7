"""Phase 2, robust calibration: scores, their summaries, score attacks, filters and the conformal quantile."""

from prism_fcp.calibrate.attack import SCORE_ATTACKS, ScoreAttack, ScoreAttackView
from prism_fcp.calibrate.audit import ClientAudit, audit
from prism_fcp.calibrate.beta import clopper_pearson
from prism_fcp.calibrate.calibrate import calibrate
from prism_fcp.calibrate.calibration import Calibration, LevelRadius
from prism_fcp.calibrate.cautious import cautious
from prism_fcp.calibrate.certificate import Bounds, WorstCase, worst_case
from prism_fcp.calibrate.combine import calibrate_summaries
from prism_fcp.calibrate.filter import (
    FILTERS,
    down_weight,
    estimated_count,
    keep_all,
    known_count,
    mad,
)
from prism_fcp.calibrate.grid import Grid, LinearGrid, LogGrid
from prism_fcp.calibrate.guard import Guard, guard, own_radii
from prism_fcp.calibrate.histogram import characterize, histogram
from prism_fcp.calibrate.judgement import Filter, FilterContext, Judgement
from prism_fcp.calibrate.likeness import Difference, explain_difference
from prism_fcp.calibrate.mixture import mixture
from prism_fcp.calibrate.model_hash import model_hash
from prism_fcp.calibrate.ordered import ordered
from prism_fcp.calibrate.quantile import (
    ClippedScoresWarning,
    TooFewScoresWarning,
    bracket_from_histogram,
    pooled_quantile,
    rank,
)
from prism_fcp.calibrate.radius import Radius, conformal_radius
from prism_fcp.calibrate.radius_table import RadiusTable
from prism_fcp.calibrate.score import SCORES, Score, absolute_residual, normalised_residual
from prism_fcp.calibrate.server import CalibrationServer, Receipt
from prism_fcp.calibrate.signing import Signer, generate
from prism_fcp.calibrate.sketch import tdigest_quantile
from prism_fcp.calibrate.span import RANGES, Range, Span
from prism_fcp.calibrate.spec import CalibrationSpec
from prism_fcp.calibrate.summary import ClientSummary, summarize
from prism_fcp.calibrate.tails import effective_size
from prism_fcp.calibrate.trust import Trust
from prism_fcp.calibrate.vigilant import vigilant
from prism_fcp.calibrate.wire import decode, encode, sign

__all__ = [
    "Bounds",
    "Calibration",
    "CalibrationServer",
    "CalibrationSpec",
    "ClientAudit",
    "ClientSummary",
    "ClippedScoresWarning",
    "Difference",
    "FILTERS",
    "Filter",
    "FilterContext",
    "Grid",
    "Guard",
    "Judgement",
    "LevelRadius",
    "LinearGrid",
    "LogGrid",
    "RANGES",
    "Radius",
    "RadiusTable",
    "Range",
    "Receipt",
    "SCORES",
    "SCORE_ATTACKS",
    "Score",
    "ScoreAttack",
    "ScoreAttackView",
    "Signer",
    "Span",
    "TooFewScoresWarning",
    "Trust",
    "WorstCase",
    "absolute_residual",
    "audit",
    "bracket_from_histogram",
    "calibrate",
    "calibrate_summaries",
    "cautious",
    "characterize",
    "clopper_pearson",
    "conformal_radius",
    "decode",
    "down_weight",
    "effective_size",
    "encode",
    "estimated_count",
    "explain_difference",
    "generate",
    "guard",
    "histogram",
    "keep_all",
    "known_count",
    "mad",
    "mixture",
    "model_hash",
    "ordered",
    "normalised_residual",
    "own_radii",
    "pooled_quantile",
    "rank",
    "sign",
    "summarize",
    "tdigest_quantile",
    "vigilant",
    "worst_case",
]
