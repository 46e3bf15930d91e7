"""What a predictor keeps of a calibration: radii by confidence level, for all clients and for single ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prism_fcp.calibrate.calibration import Calibration, ClientId
from prism_fcp.calibrate.model_hash import Hashable, model_hash
from prism_fcp.calibrate.own_radius import own_radii_from_counts, own_radii_from_scores
from prism_fcp.calibrate.quantile import Level, exact_level
from prism_fcp.errors import DataError, SettingError, did_you_mean, need_number

SCORE_NAMES: Final = ("absolute_residual", "normalised_residual")  # an interval is prediction -+ radius (times sigma)
Unknown: TypeAlias = Literal["refuse", "global"]
PerClient: TypeAlias = "bool | Mapping[ClientId, ArrayLike]"


class RadiusAt(NamedTuple):
    """A radius and the confidence level it was calibrated for, None where a bare number was given."""

    confidence_level: float | None
    radius: float


@dataclass(frozen=True, slots=True)
class RadiusTable:
    """Radii by confidence level, the first the default; `own` holds clients' own radii in the order of `levels`."""

    levels: tuple[RadiusAt, ...]
    own: Mapping[ClientId, tuple[float, ...]] = field(default_factory=dict)
    left_out: Mapping[ClientId, str] = field(default_factory=dict)  # to them the radius of all promises nothing
    score: str = "absolute_residual"
    model_hash: str = ""
    spec_hash: str = ""
    provenance: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse radii and levels that are none."""
        if self.score not in SCORE_NAMES:
            raise SettingError(
                f"predictor: no interval is known for the score {self.score!r}; give one of {SCORE_NAMES}"
            )
        named = [level for level, _ in self.levels if level is not None]
        if not self.levels or (len(named) < len(self.levels) and len(self.levels) > 1):
            raise SettingError(f"predictor: levels={self.levels}; give at least one, each with its confidence level")
        for level in named:
            exact_level(level)
        if len(set(named)) < len(named):
            raise SettingError(f"predictor: confidence levels {named}; each may stand there once")
        _check_radii("radius", [radius for _, radius in self.levels], named)
        for name, radii in self.own.items():
            check_client(name)
            if len(radii) != len(self.levels):
                raise SettingError(f"predictor: {len(radii)} radii of client {name!r} for {len(self.levels)} levels")
            _check_radii(f"radius of client {name!r}", radii, named)
        for name in self.left_out:
            check_client(name)
        for told in (self.model_hash, self.spec_hash):
            if told:
                model_hash(told)  # 64 hex digits, too

    @classmethod
    def of(
        cls,
        source: RadiusTable | Calibration | float | Mapping[float, float],
        *,
        per_client: PerClient = False,
        score: str = "absolute_residual",
        model: Hashable | None = None,
        spec_hash: str = "",
        provenance: Mapping[str, str] | None = None,
    ) -> RadiusTable:
        """Return the table of a calibration, of one radius, or of a mapping confidence level -> radius.

        `per_client=True` adds each client's own radius from its counts (the upper end of a bin, never smaller than
        the exact one); a mapping client -> scores in its place gives the exact ones.
        """
        if isinstance(source, RadiusTable):
            return source
        levels = _levels(source)
        own: dict[ClientId, tuple[float, ...]] = {}
        left_out: dict[ClientId, str] = {}
        named = [level for level, _ in levels if level is not None]
        if isinstance(source, Calibration):
            left_out = {_plain(name): reason for name, reason in source.left_out.items()}
        if isinstance(per_client, Mapping):
            if not named:
                raise SettingError(
                    "predictor: per_client with a bare radius; give a mapping confidence level -> radius"
                )
            own = own_radii_from_scores(per_client, named)
        elif per_client:
            if not isinstance(source, Calibration):
                raise SettingError("predictor: per_client=True needs a calibration; give a mapping client -> scores")
            own = own_radii_from_counts(source, named)
        told, agreed = (source.model, source.spec) if isinstance(source, Calibration) else ("", "")
        given = "" if model is None else model_hash(model)
        if told and given and told != given:
            raise DataError(
                f"predictor: the calibration is of model {told[:12]}..., this model is {given[:12]}...; "
                "calibrate the model that predicts"
            )
        return cls(
            levels,
            {_plain(name): radii for name, radii in own.items()},
            left_out,
            score,
            told or given,
            spec_hash or agreed,
            dict(provenance or {}),
        )

    def columns(self, confidence_level: Level | Sequence[Level] | None = None) -> list[int]:
        """Return the positions of confidence levels, of all where none is given."""
        if confidence_level is None:
            return list(range(len(self.levels)))
        several = isinstance(confidence_level, Sequence | np.ndarray) and not isinstance(confidence_level, str)
        asked: Iterable[Any] = confidence_level if several else [confidence_level]  # type: ignore[assignment]
        known = [level for level, _ in self.levels]
        found = []
        for level in asked:
            value = float(exact_level(level))
            if value not in known:
                there = ", ".join(f"{own:g}" for own in known if own is not None) or "none: a bare radius was given"
                raise SettingError(
                    f"predictor: confidence_level={level} was not calibrated; levels there are: {there}; "
                    "calibrate for it, or choose one of them"
                )
            found.append(known.index(value))
        if not found:
            raise SettingError("predictor: confidence_level is empty; give at least one level, or None for all")
        return found

    def radii(
        self,
        confidence_level: Level | Sequence[Level] | None = None,
        *,
        client: ClientId | None = None,
        unknown: Unknown = "refuse",
    ) -> NDArray[np.float64]:
        """Return a radius for each level: of all clients, or this client's own.

        A client without its own is an error that says why, or, with `unknown="global"`, gets the radius of all.
        """
        if unknown not in ("refuse", "global"):
            raise SettingError(f"unknown={unknown!r}{did_you_mean(unknown, ('refuse', 'global'))}")
        told = [radius for _, radius in self.levels]
        if client is not None:
            own = self.own.get(client) if isinstance(client, int | str | np.integer) else None
            if own is None and unknown == "refuse":
                raise SettingError(f"predictor: {self._why_none(client)}; unknown='global' gives the radius of all")
            told = list(own or told)
        return np.array([told[i] for i in self.columns(confidence_level)])

    def _why_none(self, client: ClientId) -> str:
        if client in self.left_out:
            return f"no guarantee for client {client!r}, which has no radius of its own ({self.left_out[client]})"
        if not self.own:
            return f"client={client!r}, but no client has a radius of its own; conformalize with per_client"
        near = (
            did_you_mean(client, map(str, self.own)) if len(self.own) <= 20 else f"; {len(self.own)} clients have one"
        )
        return f"client {client!r} has no radius of its own{near}"


def check_client(name: object) -> ClientId:
    """Return a client id, text that can be written or an integer, or raise `SettingError`."""
    if isinstance(name, bool) or not isinstance(name, int | str):
        raise SettingError(f"predictor: client {name!r:.60}; an id is text or an integer")
    if isinstance(name, str) and any("\ud800" <= letter <= "\udfff" for letter in name):
        raise SettingError(f"predictor: client {name!r:.60}; the text has half a character (a lone surrogate)")
    return name


def _levels(source: Calibration | float | Mapping[float, float]) -> tuple[RadiusAt, ...]:
    if isinstance(source, Mapping):
        return tuple(RadiusAt(float(exact_level(level)), _plain(radius)) for level, radius in source.items())
    if isinstance(source, Calibration):
        return tuple(RadiusAt(own.confidence_level, own.radius) for own in source.levels)
    return (RadiusAt(None, _plain(source)),)


def _plain(value: Any) -> Any:
    """Return a Python number for one of NumPy's, which JSON cannot write."""
    return value.item() if isinstance(value, np.generic) else value


def _check_radii(what: str, radii: Sequence[float], levels: Sequence[float]) -> None:
    for radius in radii:
        if isinstance(radius, float) and radius == inf:
            continue
        need_number(f"predictor: {what}", radius)
        if radius < 0:
            raise SettingError(f"predictor: {what}={radius}; must be 0 or more")
    ordered = sorted(zip(levels, radii, strict=False))
    for (low, small), (high, large) in pairwise(ordered):
        if large < small:
            raise SettingError(
                f"predictor: {what} is {small} at level {low} and {large} at {high}; it cannot fall as the level rises"
            )
