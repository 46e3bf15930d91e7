"""What a federation agrees on before anybody counts: levels, bins, model, round, and who may take part until when.

A spec is a small JSON file. Its hash stands in every summary, so a summary made for another round, model or grid cannot
be taken for this one's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, Literal, get_args

from prism_fcp import io
from prism_fcp.calibrate.grid import AnyGrid, LinearGrid, LogGrid, grid_from_json
from prism_fcp.calibrate.names import check_name
from prism_fcp.calibrate.quantile import Correction, Level, exact_level
from prism_fcp.errors import DataError, SettingError, did_you_mean, need_number

KIND: Final = "calibration-spec"
MOST_LEVELS: Final = 100
MOST_CLIENTS: Final = 1_000_000
MOST_SCORES: Final = 2**32 - 1  # counts travel as 32 bits
Late = Literal["accept", "refuse"]


@dataclass(frozen=True, kw_only=True)
class CalibrationSpec:
    """The agreement. Two specs that differ in anything have different hashes."""

    title: str  # what is calibrated, in words
    model: str  # the model's hash, see `model_hash`
    confidence_levels: tuple[str, ...] = ("0.9",)  # decimals, exact as they are written
    grid: AnyGrid = LogGrid()
    score: str = "absolute_residual"
    round: int = 1
    clients: tuple[str, ...] = ()  # who may take part; none named: whoever the trust folder knows, or anybody
    quorum: int = 1  # how many summaries a result needs
    deadline: str = ""  # until when they are awaited, ISO 8601 in UTC; none where empty
    late: Late = "accept"  # what becomes of a summary after the deadline: a new version of the result, or a refusal
    most_scores: int = 100_000_000  # more scores than this no client is believed to have
    cap: float | None = 3.0  # no client counts for more than this many times the median client's scores
    least_count: int = 1  # counts below it are merged into the next higher bin that has enough
    cells: int | None = None  # equal-mass cells the filters compare; 0: the bins themselves; None: as suits the grid
    correction: Correction = "n+1"

    def __post_init__(self) -> None:
        """Refuse an agreement nobody can keep."""
        for name, length in (("title", 200), ("score", 100)):
            value = getattr(self, name)
            if not isinstance(value, str) or not value.strip() or len(value) > length or not value.isprintable():
                raise SettingError(f"spec: {name}={value!r:.60}; must be 1 to {length} printable characters")
        if not isinstance(self.model, str) or len(self.model) != 64 or set(self.model) - set("0123456789abcdef"):
            raise SettingError(f"spec: model={self.model!r:.80}; must be a SHA-256 in 64 lower-case hex digits")
        levels = _texts("confidence_levels", self.confidence_levels, MOST_LEVELS)
        if not levels or len({exact_level(level) for level in levels}) < len(levels):
            raise SettingError(f"spec: confidence_levels={list(levels)}; at least one, none twice")
        for level in levels:
            if len(level) > 20:
                raise SettingError(f"spec: confidence level {level:.30}...; must have at most 20 characters")
        object.__setattr__(self, "confidence_levels", levels)
        if not isinstance(self.grid, LogGrid | LinearGrid):
            raise SettingError(f"spec: grid={self.grid!r:.60}; must be a LogGrid or a LinearGrid")
        clients = _texts("clients", self.clients, MOST_CLIENTS)
        for client in clients:
            check_name(client)
        if len(set(clients)) < len(clients):
            raise SettingError("spec: clients: a name stands twice")
        object.__setattr__(self, "clients", clients)
        for name, least, most in (
            ("round", 1, 2**31), ("quorum", 1, MOST_CLIENTS), ("most_scores", 1, MOST_SCORES),
            ("least_count", 1, 1_000_000),
        ):  # fmt: skip
            value = getattr(self, name)
            need_number(f"spec: {name}", value, integer=True)
            if not least <= value <= most:
                raise SettingError(f"spec: {name}={value}; must lie in {least}..{most:,}")
        if clients and self.quorum > len(clients):
            raise SettingError(f"spec: quorum={self.quorum} of {len(clients)} clients; must be at most their number")
        if self.cells is not None:
            need_number("spec: cells", self.cells, integer=True)
            if self.cells != 0 and not 2 <= self.cells <= 10_000:
                raise SettingError(f"spec: cells={self.cells}; must be 0 (the bins) or lie in 2..10,000")
        if self.cap is not None:
            need_number("spec: cap", self.cap)
            if self.cap < 1:
                raise SettingError(f"spec: cap={self.cap}; must be at least 1 (the median client counts in full)")
        for name, value, known in (
            ("late", self.late, get_args(Late)),
            ("correction", self.correction, ("n+1", "n+K")),
        ):
            if value not in known:
                raise SettingError(f"spec: unknown {name} {value!r}{did_you_mean(value, known)}")
        if self.deadline:
            object.__setattr__(self, "deadline", stamp(read_time(self.deadline)))

    @property
    def levels(self) -> tuple[Fraction, ...]:
        """Return the confidence levels as exact fractions."""
        return tuple(exact_level(level) for level in self.confidence_levels)

    @property
    def hash(self) -> str:
        """Return the SHA-256 of the canonical JSON: keys sorted, no blanks, ASCII."""
        plain = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(plain.encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Return every setting, defaults written out."""
        body = {field.name: getattr(self, field.name) for field in fields(self)}
        lists = {name: list(body[name]) for name in ("confidence_levels", "clients")}
        return {**body, **lists, "grid": self.grid.to_json()}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> CalibrationSpec:
        """Return the spec that `to_json` described; an unknown or missing key is an error."""
        known = {field.name: field for field in fields(cls)}
        for key in body:
            if key not in known:
                raise SettingError(f"spec: unknown key {key!r:.60}{did_you_mean(key, known)}")
        for key in ("title", "model"):
            if key not in body:
                raise SettingError(f"spec: {key} is missing; `prism-fcp spec` writes a complete one")
        grid = {"grid": grid_from_json(body["grid"])} if "grid" in body else {}
        return cls(**{**body, **grid})

    def save(self, path: Path) -> None:
        """Write the spec as a JSON file."""
        io.write_json(path, KIND, self.to_json())

    @classmethod
    def load(cls, path: Path) -> CalibrationSpec:
        """Read a spec; whatever is wrong with it is one line that names the file."""
        body = io.read_json(path, KIND)
        try:
            return cls.from_json({key: value for key, value in body.items() if key not in ("format", "schema")})
        except (SettingError, DataError) as error:
            raise DataError(f"{path}: {error}") from error


def level_text(level: Level) -> str:
    """Return a level as a spec holds it.

    >>> level_text(0.9), level_text("0.95")
    ('0.9', '0.95')
    """
    exact_level(level)
    return str(level)


def read_time(text: str) -> datetime:
    """Return a moment from ISO 8601; one without a zone is taken for UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError) as error:
        raise SettingError(f"time {text!r:.60}; must be ISO 8601, such as 2026-12-31T18:00:00Z") from error
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def stamp(moment: datetime) -> str:
    """Return a moment as our files write it: UTC, whole seconds.

    >>> stamp(read_time("2026-12-31T19:00:00+01:00"))
    '2026-12-31T18:00:00Z'
    """
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _texts(name: str, values: Sequence[str], most: int) -> tuple[str, ...]:
    if not isinstance(values, list | tuple) or not all(isinstance(value, str) for value in values):
        raise SettingError(f"spec: {name}={values!r:.60}; must be a list of texts")
    if len(values) > most:
        raise SettingError(f"spec: {name} has {len(values)} entries; at most {most:,}")
    return tuple(values)
