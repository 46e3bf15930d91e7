"""What intervals are worth on test data: coverage, width and Winkler score, for all, each client and each subgroup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prism_fcp.calibrate.beta import clopper_pearson
from prism_fcp.calibrate.calibration import Calibration, ClientId
from prism_fcp.calibrate.quantile import Level, exact_level
from prism_fcp.calibrate.radius_table import RadiusTable, Unknown
from prism_fcp.calibrate.score import absolute_residual, normalised_residual
from prism_fcp.errors import DataError, SettingError
from prism_fcp.types import BoolArray

Answers: TypeAlias = "ArrayLike | tuple[ArrayLike, ArrayLike] | tuple[ArrayLike, ArrayLike, ArrayLike]"


class Outcome(NamedTuple):
    """One client, subgroup, or all: the share of samples covered, and what that cost."""

    name: ClientId
    num_samples: int
    coverage: float
    low: float  # Clopper-Pearson interval of the coverage: what so few samples leave open
    high: float
    width: float  # mean
    winkler: float | None  # mean of width + 2/(1 - level) · distance from a value outside to its interval


class LevelEvaluation(NamedTuple):
    """The outcomes at one confidence level."""

    confidence_level: float | None
    overall: Outcome
    clients: tuple[Outcome, ...]
    groups: tuple[Outcome, ...]
    share_under: float | None  # share of clients whose coverage is below the level: half of them, by chance alone
    share_clearly_under: float | None  # share whose whole Clopper-Pearson interval is below it

    @property
    def worst(self) -> Outcome:
        """Return the client with the lowest coverage."""
        return min(self.clients, key=lambda outcome: outcome.coverage)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The outcomes at each level; `overall`, `clients`, `groups` and `worst` are those of the first."""

    levels: tuple[LevelEvaluation, ...]
    confidence: float  # of the Clopper-Pearson intervals

    @property
    def overall(self) -> Outcome:
        """Return the outcome over all samples."""
        return self.levels[0].overall

    @property
    def clients(self) -> tuple[Outcome, ...]:
        """Return an outcome for each client."""
        return self.levels[0].clients

    @property
    def groups(self) -> tuple[Outcome, ...]:
        """Return an outcome for each named subgroup."""
        return self.levels[0].groups

    @property
    def worst(self) -> Outcome:
        """Return the client with the lowest coverage."""
        return self.levels[0].worst

    def to_json(self) -> dict[str, Any]:
        """Return everything as strict JSON has it: an infinite width or Winkler score is the text "inf"."""
        return {"confidence": self.confidence, "levels": [_level_json(level) for level in self.levels]}


def evaluate(
    clients: Mapping[ClientId, Answers] | Sequence[Answers],
    radii: RadiusTable | Calibration | float | Mapping[float, float],
    *,
    confidence_level: Level | Sequence[Level] | None = None,
    groups: Mapping[ClientId, ArrayLike] | None = None,
    per_client: bool = False,
    unknown: Unknown = "refuse",
    confidence: float = 0.95,
) -> Evaluation:
    """Return coverage with its Clopper-Pearson interval, mean width and Winkler score on clients' test data.

    A client's data are a tuple `(y, prediction)`, or `(y, prediction, sigma)` for radii of normalised residuals, or
    one array of residuals. `groups` gives a label for each sample of each client. With `per_client` each client is
    judged by its own radius; `unknown="global"` lets one that has none be judged by the radius of all.
    A value exactly at the radius counts as covered.

    Paper: sec:synth, coverage and width
    """
    if not 0 < confidence < 1:
        raise SettingError(f"evaluate: confidence={confidence}; must lie strictly between 0 and 1, such as 0.95")
    named = dict(clients.items() if isinstance(clients, Mapping) else enumerate(clients))
    if not named:
        raise DataError("evaluate: no client; at least one client's test data are needed")
    normalised = any(isinstance(answers, tuple) and len(answers) == 3 for answers in named.values())
    table = RadiusTable.of(radii, score="normalised_residual" if normalised else "absolute_residual")
    errors, scores, sigmas, own = [], [], [], []
    for name, answers in named.items():
        error, score, sigma = _read(name, answers, table.score)
        errors.append(error)
        scores.append(score)
        sigmas.append(sigma)
        own.append(table.radii(confidence_level, client=name if per_client else None, unknown=unknown))
    sizes = np.array([len(error) for error in errors])
    owner = np.repeat(np.arange(len(sizes)), sizes)
    labels, group_of = _group(named, sizes, groups)
    error, score, sigma = (np.concatenate(parts) for parts in (errors, scores, sigmas))
    evaluated = []
    for place, column in enumerate(table.columns(confidence_level)):
        level = table.levels[column].confidence_level
        radius = np.array([radii[place] for radii in own])[owner]
        covered = score <= radius
        width = 2 * radius * sigma
        outside = np.maximum(error - width / 2, 0) * ~covered
        winkler = None if level is None else width + float(2 / (1 - exact_level(level))) * outside
        everybody = _outcomes(["all"], np.zeros(len(owner), dtype=np.int64), covered, width, winkler, confidence)[0]
        each = _outcomes(list(named), owner, covered, width, winkler, confidence)
        grouped = _outcomes(labels, group_of, covered, width, winkler, confidence) if labels else ()
        evaluated.append(
            LevelEvaluation(
                level,
                everybody,
                each,
                grouped,
                None if level is None else sum(one.coverage < level for one in each) / len(each),
                None if level is None else sum(one.high < level for one in each) / len(each),
            )
        )
    return Evaluation(tuple(evaluated), confidence)


def text_table(evaluation: Evaluation, *, most: int = 10) -> str:
    """Return the evaluation as plain text: each level overall, by subgroup, and the `most` worst clients."""
    blocks = []
    for level in evaluation.levels:
        shown = sorted(level.clients, key=lambda outcome: outcome.coverage)[:most]
        rows = [("", "samples", "coverage", f"{evaluation.confidence:.0%} interval", "width", "Winkler")]
        told = [("all", level.overall)]
        told += [(f"group {one.name}", one) for one in level.groups] + [(f"client {one.name}", one) for one in shown]
        for name, one in told:
            winkler = "" if one.winkler is None else f"{one.winkler:.4g}"
            interval = f"{one.low:.1%} to {one.high:.1%}"
            rows.append((name, str(one.num_samples), f"{one.coverage:.1%}", interval, f"{one.width:.4g}", winkler))
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows]
        if len(shown) < len(level.clients):
            lines.append(f"and {len(level.clients) - len(shown)} clients that are covered at least as often")
        if level.confidence_level is None:
            blocks.append("\n".join(["a radius without a confidence level", *lines]))
            continue
        lines.append(
            f"clients under {level.confidence_level:g}: {level.share_under:.1%}, "
            f"clearly (the whole interval): {level.share_clearly_under:.1%}"
        )
        blocks.append("\n".join([f"confidence level {level.confidence_level:g}", *lines]))
    return "\n\n".join(blocks)


def _read(
    name: ClientId, answers: Answers, score_name: str
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return a client's absolute errors, scores and sigmas."""
    normalised = score_name == "normalised_residual"
    wanted = 3 if normalised else 2
    if not isinstance(answers, tuple):
        if normalised:
            raise DataError(
                f"evaluate: client {name!r}: the radii are of normalised residuals; give (y, prediction, sigma)"
            )
        answers = (answers, np.zeros(np.shape(answers)))
    if len(answers) != wanted:
        raise DataError(f"evaluate: client {name!r} has {len(answers)} arrays; {score_name} needs {wanted}")
    try:
        error = absolute_residual(answers[0], answers[1]).astype(np.float64, copy=False)
        if error.ndim != 1:
            raise DataError(f"y has shape {error.shape}; one array of numbers is needed")
        if not normalised:
            return error, error, np.ones(len(error))
        score = normalised_residual(*answers).astype(np.float64, copy=False)
    except DataError as problem:
        raise DataError(f"evaluate: client {name!r}: {problem}") from problem
    return error, score, np.asarray(answers[2], dtype=np.float64)


def _group(
    named: Mapping[ClientId, Answers], sizes: NDArray[np.int64], groups: Mapping[ClientId, ArrayLike] | None
) -> tuple[list[ClientId], NDArray[np.int64]]:
    """Return the names of the subgroups and each sample's place among them."""
    if groups is None:
        return [], np.empty(0, dtype=np.int64)
    rows = []
    for name, size in zip(named, sizes, strict=True):
        if name not in groups:
            raise DataError(f"evaluate: groups: no labels of client {name!r}; give one for each of its {size} samples")
        own = np.asarray(groups[name])
        if own.shape != (size,):
            raise DataError(f"evaluate: groups: labels of client {name!r} have shape {own.shape}; must be ({size},)")
        rows.append(own.astype(str))
    labels, places = np.unique(np.concatenate(rows), return_inverse=True)
    return [str(label) for label in labels], places.astype(np.int64)


def _outcomes(
    names: Sequence[ClientId],
    place: NDArray[np.int64],
    covered: BoolArray,
    width: NDArray[np.float64],
    winkler: NDArray[np.float64] | None,
    confidence: float,
) -> tuple[Outcome, ...]:
    num = len(names)
    sizes = np.bincount(place, minlength=num)
    hits = np.bincount(place, weights=covered, minlength=num).astype(np.int64)
    widths = np.bincount(place, weights=width, minlength=num) / sizes
    scores = None if winkler is None else np.bincount(place, weights=winkler, minlength=num) / sizes
    told = []
    for i, name in enumerate(names):
        n, k = int(sizes[i]), int(hits[i])
        low, high = clopper_pearson(k, n, confidence)
        told.append(Outcome(name, n, k / n, low, high, float(widths[i]), None if scores is None else float(scores[i])))
    return tuple(told)


def _level_json(level: LevelEvaluation) -> dict[str, Any]:
    return {
        "confidence_level": level.confidence_level,
        "overall": _outcome_json(level.overall),
        "clients": [_outcome_json(one) for one in level.clients],
        "groups": [_outcome_json(one) for one in level.groups],
        "worst": level.worst.name,
        "share_under": level.share_under,
        "share_clearly_under": level.share_clearly_under,
    }


def _outcome_json(outcome: Outcome) -> dict[str, Any]:
    told = outcome._asdict()
    return {name: "inf" if isinstance(value, float) and not isfinite(value) else value for name, value in told.items()}
