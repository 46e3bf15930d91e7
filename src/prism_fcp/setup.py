"""What a trial is made of, as data: population, federation, calibration, score attacks and methods."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

import numpy as np

from prism_fcp.calibrate.attack import SCORE_ATTACKS
from prism_fcp.calibrate.cell import BeyondRange
from prism_fcp.calibrate.filter import FILTERS, FilterContext
from prism_fcp.calibrate.quantile import Correction, rank
from prism_fcp.calibrate.span import RANGES
from prism_fcp.data.synthetic import SyntheticLinear
from prism_fcp.errors import SettingError, did_you_mean
from prism_fcp.train.loop import check_arms
from prism_fcp.train.settings import Arm, Federation
from prism_fcp.types import Choice

ScoringModel: TypeAlias = Literal["local", "global"]


@dataclass(frozen=True, kw_only=True, slots=True)
class CalibrationSettings:
    """Phase 2 in settings. Defaults are the paper's synthetic section as PAPER.md reads it."""

    confidence_level: float = 0.9
    samples: int = 1000  # calibration scores a client
    test_samples: int = 1000  # test residuals a client
    bins: int = 100
    range: Choice = field(default_factory=lambda: Choice("max"))
    pilot: Literal["true", "reported"] = "true"  # the range is taken from true scores, or from what clients report
    correction: Correction = "n+1"
    beyond_range: BeyondRange = "clip"  # a quantile above the range: the range's end (the paper), the score, infinity
    scores: Literal["law", "samples"] = "law"  # draw scores from their exact law, or from inputs and targets

    def check(self) -> None:
        """Raise `SettingError` for the first setting that cannot work."""
        for name in ("samples", "test_samples"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name}={getattr(self, name)}; must be at least 1")
        if self.bins < 2:
            raise SettingError(f"bins={self.bins}; must be at least 2, one bin makes all clients look alike")
        for value, known, what in (
            (self.pilot, ("true", "reported"), "pilot"),
            (self.scores, ("law", "samples"), "scores"),
            (self.beyond_range, get_args(BeyondRange), "beyond_range"),
        ):
            if value not in known:
                raise SettingError(f"unknown {what} {value!r}{did_you_mean(value, known)}")
        rank(self.samples, self.confidence_level, self.correction, 1)
        self.range.build(RANGES, "range")


@dataclass(frozen=True, kw_only=True, slots=True)
class Method:
    """One row of a table: how to train (`arm=None`: score with the true model), whom to trust, which model scores."""

    name: str
    arm: Arm | None
    filter: Choice
    scoring_model: ScoringModel = "local"


@dataclass(frozen=True, kw_only=True, slots=True)
class Setup:
    """Everything a trial needs but its seed."""

    population: SyntheticLinear
    federation: Federation
    calibration: CalibrationSettings
    attacks: tuple[tuple[str, Choice], ...]  # (label, score attack)
    methods: tuple[Method, ...]

    def check(self) -> None:
        """Raise `SettingError` for the first setting that cannot work, before anything is computed."""
        self.population.check()
        self.calibration.check()
        check_arms(self.federation, self.arms())
        for _, attack in self.attacks:
            attack.build(SCORE_ATTACKS, "score attack")
        shares = np.full((self.federation.num_clients, 2), 0.5)
        sizes = np.full(self.federation.num_clients, self.calibration.samples)
        for method in self.methods:
            if method.scoring_model not in get_args(ScoringModel):
                hint = did_you_mean(method.scoring_model, get_args(ScoringModel))
                raise SettingError(f"unknown scoring model {method.scoring_model!r}{hint}")
            method.filter.build(FILTERS, "filter").weigh(shares, sizes, self.context)  # a bad count shows here

    @property
    def context(self) -> FilterContext:
        """Return what the server is taken to know: the number of Byzantine clients, unless a filter is told another."""
        return FilterContext(suspects=self.federation.num_byzantine)

    def arms(self) -> list[Arm]:
        """Return the distinct ways of training; methods that train alike share one."""
        found: list[Arm] = []
        for method in self.methods:
            if method.arm is not None and method.arm not in found:
                found.append(method.arm)
        return found
