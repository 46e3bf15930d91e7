"""The predictor file: everything a predictor holds but the model, of which it names the hash.

Strict JSON has no infinity, so an infinite radius (too few scores for its level) is the text "inf". A level of null is
a radius that came without one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, isfinite
from pathlib import Path
from typing import Any, Final, TypeVar

from prism_fcp import io
from prism_fcp.calibrate.radius_table import RadiusAt, RadiusTable, check_client
from prism_fcp.errors import DataError, PrismError, did_you_mean

KIND: Final = "predictor"
MOST_BYTES: Final = 64 * 2**20  # 100,000 clients with four levels each take about 15 million
REMEDY: Final = "save the predictor again"
FIELDS: Final = ("score", "levels", "clients", "left_out", "model_hash", "spec_hash", "provenance")
T = TypeVar("T")


def save_radii(path: Path, table: RadiusTable) -> None:
    """Write the predictor file."""
    io.write_json(path, KIND, radii_to_json(table))


def load_radii(path: Path) -> RadiusTable:
    """Read a predictor file; what is wrong with it is one line."""
    body = io.read_json(path, KIND, remedy=REMEDY, most_bytes=MOST_BYTES)
    try:
        return radii_from_json({name: value for name, value in body.items() if name not in ("format", "schema")})
    except PrismError as error:
        raise DataError(f"{path}: {error}; {REMEDY}") from error


def radii_to_json(table: RadiusTable) -> dict[str, Any]:
    """Return what the file holds, format and schema apart."""
    return {
        "score": table.score,
        "levels": [{"confidence_level": level, "radius": _told(radius)} for level, radius in table.levels],
        "clients": [
            {"client": name, "radii": [_told(radius) for radius in radii]} for name, radii in table.own.items()
        ],
        "left_out": [{"client": name, "reason": reason} for name, reason in table.left_out.items()],
        "model_hash": table.model_hash,
        "spec_hash": table.spec_hash,
        "provenance": dict(table.provenance),
    }


def radii_from_json(body: Mapping[str, Any]) -> RadiusTable:
    """Return the table that `radii_to_json` described; whatever else it is given is an error."""
    _row("predictor file", body, FIELDS)
    levels = _rows("levels", body["levels"], RadiusAt._fields)
    clients = _rows("clients", body["clients"], ("client", "radii"))
    reasons = _rows("left_out", body["left_out"], ("client", "reason"))
    for name, rows in (("clients", clients), ("left_out", reasons)):
        if len({check_client(row["client"]) for row in rows}) < len(rows):
            raise DataError(f"{name}: a client stands there twice")
    provenance = _typed("provenance", body["provenance"], dict)
    return RadiusTable(
        levels=tuple(RadiusAt(_level(row["confidence_level"]), _radius(row["radius"])) for row in levels),
        own={row["client"]: tuple(map(_radius, _typed("radii", row["radii"], list))) for row in clients},
        left_out={row["client"]: _typed("reason", row["reason"], str) for row in reasons},
        score=_typed("score", body["score"], str),
        model_hash=_typed("model_hash", body["model_hash"], str),
        spec_hash=_typed("spec_hash", body["spec_hash"], str),
        provenance={name: _typed(f"provenance {name!r:.40}", told, str) for name, told in provenance.items()},
    )


def _told(radius: float) -> float | str:
    return "inf" if radius == inf else radius


def _radius(told: object) -> float:
    return inf if told == "inf" else _number("radius", told)


def _level(told: object) -> float | None:
    return None if told is None else _number("confidence_level", told)


def _number(what: str, told: object) -> float:
    good = isinstance(told, int | float) and not isinstance(told, bool)
    if isinstance(told, int):
        good = good and abs(told) < 2**100
    if not good or not isfinite(told):  # type: ignore[arg-type]
        raise DataError(f"{what}={told!r:.40}; must be a finite number")
    return float(told)  # type: ignore[arg-type]


def _rows(what: str, told: object, fields: Sequence[str]) -> list[Mapping[str, Any]]:
    rows = [_row(what, row, fields) for row in _typed(what, told, list)]
    return rows


def _row(what: str, told: object, fields: Sequence[str]) -> Mapping[str, Any]:
    table = _typed(what, told, dict)
    for name in table:
        if name not in fields:
            raise DataError(f"{what}: unknown key {name!r:.40}{did_you_mean(name, fields)}")
    for name in fields:
        if name not in table:
            raise DataError(f"{what}: {name} is missing")
    return table


def _typed(what: str, told: object, kind: type[T]) -> T:
    if not isinstance(told, kind):
        raise DataError(f"{what}={told!r:.40}; must be a {_WORDS[kind]}")
    return told


_WORDS: Final[dict[type, str]] = {str: "text", list: "list", dict: "table"}
