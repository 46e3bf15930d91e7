"""What a federation will do, before it trains: deviation, width, bytes, rounds, the best step size, what to calibrate.

The mean is predicted (`steady.py`); for other rules a small federation is trained and the result says so.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import inf
from typing import Any, Final

from prism_fcp.data.synthetic import SyntheticLinear
from prism_fcp.errors import SettingError, did_you_mean, need_number
from prism_fcp.theory.certify import MOST_SAMPLES, DetectionPlan, detection_plan, samples_for_coverage
from prism_fcp.theory.kinds import typical_kinds
from prism_fcp.theory.modes import Real
from prism_fcp.theory.optimum import optimal_step_size
from prism_fcp.theory.pooled import ATTACKS, Pooled, bins_for, guard_price, pooled
from prism_fcp.theory.recursion import Training
from prism_fcp.theory.steady import (
    Parts,
    Steady,
    alone_excess,
    rounds_to_settle,
    settled,
    stability_limit,
    steady_state,
)
from prism_fcp.theory.surrogate import measured
from prism_fcp.theory.tradeoff import falling_knee
from prism_fcp.theory.width import ScoreLaw, law_of
from prism_fcp.train.attack import UPDATE_ATTACKS
from prism_fcp.train.settings import Federation, Masks
from prism_fcp.types import Choice

KINDS: Final = 12
SHARES: Final = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0)
BYTES: Final = 4  # a coordinate
MOST_BINS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Point:
    """One number of shared coordinates: what it sends and what it gives."""

    num_shared: int
    bytes_up: float  # all participants, a round
    width: float
    local_deviation: float


@dataclass(frozen=True, slots=True)
class Plan:
    """The planner's answer. `source` says whether it was predicted or measured on a small federation."""

    source: str
    num_shared: int
    step_size: float
    limit: float | None  # step sizes from it on do not converge; None: not known for this rule
    server: Parts | None  # deviation of the global model
    local: Parts | None  # of the local models
    error: Parts | None  # squared error of a local model's predictions
    server_deviation: float
    local_deviation: float
    width: float  # attackers left out in calibration
    floor: float  # with the true model
    alone: float  # without federation; infinite where clients alone are unstable
    unfiltered: tuple[Pooled, ...]  # nobody left out
    rounds: int | None  # from models of zero to within 0.5 dB
    bytes_up: float  # all participants, a round
    bytes_down: float
    best_step_size: float | None
    best_deviation: float | None
    best_width: float | None
    curve: tuple[Point, ...]
    narrowest: Point | None  # of the curve; past it more bytes buy wider intervals
    knee: Point | None  # on the way to the narrowest; None: there is none
    guard: float
    guard_price: float
    certificate_samples: int | None  # scores a client; None: not asked for
    bins: int  # with which rounding up costs at most 1 % of coverage
    detection: tuple[DetectionPlan, ...]
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return it in plain words, numbers and lists; what is infinite is None."""
        body = asdict(self)
        for name in ("server", "local", "error"):
            part = getattr(self, name)
            body[name] = None if part is None else {**part._asdict(), "total": part.total}
        body["unfiltered"] = [one._asdict() for one in self.unfiltered]
        body["detection"] = [one._asdict() for one in self.detection]
        return {key: None if value == inf else value for key, value in body.items()}


def plan(
    federation: Federation | None = None,
    masks: Masks | None = None,
    law: SyntheticLinear | None = None,
    *,
    rule: Choice | str = "mean",
    scoring_model: str = "local",
    confidence_level: float = 0.9,
    samples: int = 1000,
    bins: int = 100,
    best_step: bool = False,
    wanted_coverage: float | None = None,
    liars: int = 0,
    guard: float = 0.05,
) -> Plan:
    """Return what this federation will do. `best_step` puts the best step size in place of the federation's.

    Clients are drawn from `law`; a typical draw stands for all. `wanted_coverage` is the least coverage a certificate
    is to promise though so many `liars` pass the filter.

    >>> answer = plan(masks=Masks(num_shared=15))  # the paper's federation
    >>> round(answer.width, 2), answer.bytes_up
    (1.76, 600.0)

    Paper: sec:synth; eq:steady-state-mse.
    """
    size, law = federation or Federation(), law or SyntheticLinear()
    masks = masks or Masks(num_shared=size.dimension)
    chosen = Choice.of(rule, "rule")
    _check(size, masks, scoring_model, confidence_level, samples, bins)
    training = training_of(size, masks, law)
    attack = size.num_byzantine * training.attack_variance * training.attack_probability
    if not attack and law.noise_variances[1] == 0:
        raise SettingError("noise_variances=[0, 0] and no attack; every score will be 0: make one of them positive")
    certificate = None
    if wanted_coverage is not None:
        kept_out = size.num_byzantine - liars if liars < size.num_byzantine else 0
        certificate = samples_for_coverage(wanted_coverage, size.num_clients, kept_out, liars, confidence_level)
    elif liars:
        raise SettingError(f"liars={liars} are those a certificate allows for; give wanted_coverage with them")
    limit = best = None
    notes: list[str] = []
    if chosen.name == "mean":
        limit = stability_limit(training, 1e-3)
        if attack:
            best = optimal_step_size(training, model=scoring_model, limit=limit)
        else:
            notes.append("without an attack a smaller step size always ends nearer the truth, and takes longer")
    if best_step:
        if best is None:
            told = (
                f"for rule 'mean' only, not for {chosen.name!r}"
                if attack
                else "under an attack only: none is best here"
            )
            raise SettingError(f"step_size=best is known {told}; give a number")
        training = replace(training, step_size=best.step_size)
    steady, local, server, source, scores = _models(training, size, masks, law, chosen, scoring_model, limit)
    needed = rounds_to_settle(training, steady=steady) if steady else None
    if needed is not None and needed > size.rounds:
        notes.append(f"rounds={size.rounds} are fewer than the {needed} it takes to settle: figures are later ones")
    if steady and scoring_model == "local" and local > 1.05 * server:
        notes.append("local models are worse than the global one: consider scoring_model='global'")
    if local > 1:
        notes.append(f"local_deviation={local:.3g} exceeds 1, the truth's own length: a model of zeros predicts better")
    alone, floor = (_lone_width(training, excess, confidence_level) for excess in (alone_excess(training), 0.0))
    width = 2 * scores.radius(confidence_level)
    if width > alone:
        notes.append(f"clients that never share would have a width of {alone:.3g}: under this attack sharing does harm")
    fraction = size.num_byzantine / size.num_clients
    best_width = None
    if best is not None:
        ahead = replace(training, step_size=best.step_size)
        found = settled(ahead)
        best_width = 2 * law_of(ahead, found, scoring_model).radius(confidence_level) if found else None
    curve = _curve(training, size, confidence_level, scoring_model) if steady else ()
    narrowest = bent = None
    if curve:
        narrowest, bent = falling_knee([point.bytes_up for point in curve], [point.width for point in curve])
    return Plan(
        source=source,
        num_shared=masks.num_shared,
        step_size=training.step_size,
        limit=limit,
        server=steady.server if steady else None,
        local=steady.local if steady else None,
        error=(steady.error if scoring_model == "local" else steady.server_error) if steady else None,
        server_deviation=server,
        local_deviation=local,
        width=width,
        floor=floor,
        alone=alone,
        unfiltered=tuple(pooled(scores, confidence_level, samples, fraction, attack) for attack in ATTACKS),
        rounds=needed,
        bytes_up=_bytes(size, masks.num_shared),
        bytes_down=_bytes(size, size.dimension if masks.download == "full" else masks.num_shared),
        best_step_size=best.step_size if best else None,
        best_deviation=best.deviation if best else None,
        best_width=best_width,
        curve=curve,
        narrowest=None if narrowest is None else curve[narrowest],
        knee=None if bent is None else curve[bent],
        guard=guard,
        guard_price=guard_price(scores, confidence_level, guard),
        certificate_samples=certificate,
        bins=bins_for(scores, confidence_level, samples),
        detection=tuple(
            detection_plan(scores, size.num_byzantine, samples, bins, attack) for attack in ("efficiency", "coverage")
        ),
        notes=tuple(notes),
    )


def training_of(federation: Federation, masks: Masks, law: SyntheticLinear, kinds: int = KINDS) -> Training:
    """Return the recursion of a federation of clients that are a typical draw of a law."""
    attack = federation.attack.build(UPDATE_ATTACKS, "training attack")
    if attack.name != "gaussian":
        raise SettingError(f"plan: no theory of the training attack {attack.name!r}; known: gaussian")
    return Training(
        kinds=typical_kinds(law, federation.num_clients, federation.num_byzantine, kinds),
        dimension=federation.dimension,
        num_shared=masks.num_shared,
        num_participants=federation.num_participants,
        step_size=federation.step_size,
        attack_variance=float(federation.attack.options.get("variance", 0.1)),
        attack_probability=attack.probability,
        coordination=masks.coordination,
        download=masks.download,
        idle_learning=federation.idle_learning,
    )


def _check(size: Federation, masks: Masks, scoring_model: str, level: float, samples: int, bins: int) -> None:
    masks.check(size.dimension)
    if masks.layers:
        raise SettingError(f"plan: layers={list(masks.layers)}; no theory of layer masks, give num_shared coordinates")
    for name, usual in (("local_steps", 1), ("batch_size", 1), ("momentum", 0.0)):
        if getattr(size, name) != usual:
            raise SettingError(f"plan: {name}={getattr(size, name)}; the theory is of single samples, use {usual:g}")
    if scoring_model not in ("local", "global"):
        raise SettingError(f"unknown scoring model {scoring_model!r}{did_you_mean(scoring_model, ('local', 'global'))}")
    need_number("confidence_level", level)
    if not 0 < level < 1:
        raise SettingError(f"confidence_level={level}; must lie strictly between 0 and 1")
    for name, value, least, most in (("samples", samples, 1, MOST_SAMPLES), ("bins", bins, 2, MOST_BINS)):
        need_number(name, value, integer=True)
        if not least <= value <= most:
            raise SettingError(f"{name}={value}; must lie in {least}..{most}")


def _models(
    training: Training, size: Federation, masks: Masks, law: SyntheticLinear, rule: Choice, model: str,
    limit: float | None,
) -> tuple[Steady | None, float, float, str, ScoreLaw]:  # fmt: skip
    if rule.name != "mean":
        surrogate = measured(replace(size, step_size=training.step_size), masks, law, rule)
        chosen = surrogate.excess if model == "local" else surrogate.server_excess
        scores = ScoreLaw(surrogate.kinds, chosen, 0.0, 10**9)  # lengths as they were measured, not spread again
        return None, surrogate.local_deviation, surrogate.server_deviation, surrogate.told, scores
    if limit is not None and training.step_size >= limit:
        raise SettingError(
            f"step_size={training.step_size:g}; must lie below {limit:.4g}, where the mean-square deviation of these "
            "clients stops converging; lower step_size, or ask for the best one"
        )
    steady = steady_state(training)
    scores = law_of(training, steady, model)
    return steady, steady.local.total, steady.server.total, "predicted", scores


def _curve(training: Training, size: Federation, level: float, model: str) -> tuple[Point, ...]:
    counts = sorted({max(1, round(share * size.dimension)) for share in SHARES} | {training.num_shared})
    points = []
    for number in counts:
        ahead = replace(training, num_shared=number)
        found = settled(ahead)
        if found is not None:  # where nothing settles the curve has a hole
            width = 2 * law_of(ahead, found, model).radius(level)
            points.append(Point(number, _bytes(size, number), width, found.local))
    return tuple(points)


def _bytes(size: Federation, coordinates: int) -> float:
    return float(BYTES * coordinates * size.num_participants)


def _lone_width(training: Training, excess: Real | float, level: float) -> float:
    """Return the width of clients whose errors are nobody else's."""
    every = 0 * training.kinds.variances + excess
    if not (every < inf).all():
        return inf
    return 2 * ScoreLaw(training.kinds, every, 0.0, training.dimension).radius(level)
