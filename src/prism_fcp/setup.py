"""What a trial is made of, as data: population, federation, calibration, score attacks and methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np

from prism_fcp.calibrate.attack import SCORE_ATTACKS
from prism_fcp.calibrate.filter import FILTERS
from prism_fcp.calibrate.judgement import FilterContext
from prism_fcp.calibrate.quantile import Correction, rank
from prism_fcp.calibrate.radius import BeyondRange
from prism_fcp.calibrate.span import RANGES
from prism_fcp.data.clients import ClientData
from prism_fcp.data.synthetic import Population, SyntheticLinear
from prism_fcp.errors import SettingError, did_you_mean, need_number
from prism_fcp.tables import TableData
from prism_fcp.train.loop import check_arms
from prism_fcp.train.protocol import Known, overridden
from prism_fcp.train.protocol import protocol as protocol_of
from prism_fcp.train.settings import Arm, Federation, Masks
from prism_fcp.types import Choice

MOST_ENTRIES: Final = 500_000_000
ScoringModel: TypeAlias = Literal["local", "global"]
QuantileFrom: TypeAlias = Literal["exact", "histogram", "tdigest"]


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
    quantile: QuantileFrom = "exact"  # from scores; the upper end of its bin in the counts; a t-digest's estimate
    beyond_range: BeyondRange = "clip"  # a quantile above the range: the range's end (the paper), the score, infinity
    scores: Literal["law", "samples"] = "law"  # draw scores from their exact law, or from inputs and targets

    def check(self) -> None:
        """Raise `SettingError` for the first setting that cannot work."""
        for name in ("samples", "test_samples", "bins"):
            need_number(name, getattr(self, name), integer=True)
        for name in ("samples", "test_samples"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name}={getattr(self, name)}; must be at least 1")
        if self.bins < 2:
            raise SettingError(f"bins={self.bins}; must be at least 2, one bin makes all clients look alike")
        for value, known, what in (
            (self.pilot, ("true", "reported"), "pilot"),
            (self.scores, ("law", "samples"), "scores"),
            (self.quantile, get_args(QuantileFrom), "quantile"),
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
    filter: Choice  # a bare name will do
    scoring_model: ScoringModel = "local"
    bins: int | None = None  # of this row's histograms; None: the calibration's
    why: str = field(default="", compare=False)  # what a protocol chose, and why

    def __post_init__(self) -> None:
        """Take a filter by its name."""
        object.__setattr__(self, "filter", Choice.of(self.filter, "filter"))

    @classmethod
    def of(
        cls,
        protocol: str,
        population: SyntheticLinear | TableData,
        federation: Federation,
        masks: Masks,
        *,
        name: str = "",
        filter: Choice | str = "cautious",
        overrides: Mapping[str, Any] | None = None,
    ) -> Method:
        """Return a row whose training is a protocol's: `default` chooses and says why in `why`, `paper` is Algorithm 1.

        Of `masks` only how many coordinates or layers travel is used. `overrides` replaces settings by name: the arm's,
        its masks' `coordination` and `download`, and `scoring_model`; `why` says which.

        >>> law, size = SyntheticLinear(), Federation()
        >>> Method.of("default", law, size, Masks(num_shared=10)).why[:4]
        'stay'
        """
        made = protocol_of(protocol, known_of(population, federation, masks))
        own = dict(overrides or {})
        scoring_model = own.pop("scoring_model", made.scoring_model)
        travel = {key: own.pop(key) for key in ("coordination", "download") if key in own}
        arm = replace(made.arm, masks=replace(made.arm.masks, **travel), **own)
        return cls(
            name=name or protocol, arm=arm, filter=Choice.of(filter, "filter"), scoring_model=scoring_model,
            why=overridden(made.why, overrides or ()),
        )  # fmt: skip


def known_of(population: SyntheticLinear | TableData, federation: Federation, masks: Masks) -> Known:
    """Return what is known of a federation before training."""
    if isinstance(population, TableData):
        linear = population.model.name == "linear"
        return Known.of(federation, masks, samples=population.samples, linear=linear, correlated=True)
    spread = (population.variances[0] + population.variances[1]) / 2
    return Known.of(federation, masks, input_variance=spread, samples=population.fixed_samples or None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Setup:
    """Everything a trial needs but its seed."""

    population: SyntheticLinear | TableData
    federation: Federation
    calibration: CalibrationSettings
    attacks: tuple[tuple[str, Choice], ...]  # (label, score attack)
    methods: tuple[Method, ...]

    def draw(self, seed: int, trial: int) -> Population | ClientData:
        """Draw one trial's clients."""
        size = self.federation
        if isinstance(self.population, TableData):
            samples, tests = self.calibration.samples, self.calibration.test_samples
            return self.population.draw(size.num_clients, size.num_byzantine, seed, trial, samples, tests)
        return self.population.draw(size.num_clients, size.dimension, size.num_byzantine, seed, trial)

    def check(self) -> None:
        """Raise `SettingError` for the first setting that cannot work, before anything is computed."""
        self.population.check()
        self.calibration.check()
        self._check_size()
        check_arms(self.federation, self.arms())
        for _, attack in self.attacks:
            attack.build(SCORE_ATTACKS, "score attack")
        for what, names in (
            ("method", [method.name for method in self.methods]),
            ("attack", [label for label, _ in self.attacks]),
        ):
            twice = {name for name in names if names.count(name) > 1}
            if twice or not names:
                raise SettingError(f"{what}s: {sorted(twice) or 'none'}; at least one, each with a name of its own")
        shares = np.full((self.federation.num_clients, 2), 0.5)
        sizes = np.full(self.federation.num_clients, self.calibration.samples)
        for method in self.methods:
            if method.scoring_model not in get_args(ScoringModel):
                hint = did_you_mean(method.scoring_model, get_args(ScoringModel))
                raise SettingError(f"unknown scoring model {method.scoring_model!r}{hint}")
            if method.arm and not method.arm.exchange and method.scoring_model == "global":
                raise SettingError(
                    f"method {method.name!r}: clients that never share have no global model to score with; "
                    "use scoring model 'local'"
                )
            if method.bins is not None and method.bins < 2:
                raise SettingError(f"method {method.name!r}: bins={method.bins}; must be at least 2")
            method.filter.build(FILTERS, "filter").weigh(shares, sizes, self.context)  # a bad count shows here

    def _check_size(self) -> None:
        """Refuse what no machine's memory holds, before anything is allocated."""
        size, settings = self.federation, self.calibration
        columns = max(settings.samples + settings.test_samples, settings.bins, size.dimension * (len(self.arms()) + 2))
        if size.num_clients * columns > MOST_ENTRIES:
            raise SettingError(
                f"num_clients={size.num_clients} x {columns} numbers a client (samples + test_samples, bins, or "
                f"dimension x arms) make {size.num_clients * columns:.1e} a trial; at most {MOST_ENTRIES:.0e}: "
                "lower one of them"
            )

    @property
    def context(self) -> FilterContext:
        """Return what the server is taken to know: the number of Byzantine clients, unless a filter is told another."""
        return FilterContext(suspects=self.federation.num_byzantine)

    def members(self) -> list[tuple[str, str]]:
        """Return (kind, name) of every rule, attack and filter in use."""
        found = self.federation.attack.members("training attack")
        for _, attack in self.attacks:
            found += attack.members("score attack")
        for method in self.methods:
            found += method.filter.members("filter")
            found += method.arm.rule.members("rule") if method.arm else []
        return list(dict.fromkeys(found))

    def arms(self) -> list[Arm]:
        """Return the distinct ways of training; methods that train alike share one."""
        found: list[Arm] = []
        for method in self.methods:
            if method.arm is not None and method.arm not in found:
                found.append(method.arm)
        return found
