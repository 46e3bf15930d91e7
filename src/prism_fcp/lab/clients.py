"""What the server knew of every client, kept on disk: who was judged how, and why. Pictures are drawn from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from prism_fcp import io
from prism_fcp.errors import DataError
from prism_fcp.pipeline import Explained

FILE: Final = "clients.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientView:
    """One method under one attack in one trial, client by client (plain lists: this is a file)."""

    trial: int
    attack: str
    method: str
    byzantine: list[bool]
    weights: list[float]
    scores: list[float]
    threshold: float | None
    reasons: list[str]
    counts: list[list[int]]  # (K, bins) as the server received them; empty beyond the first trial
    upper: float
    radius: float | None  # None: too few scores for this level
    truth: list[float]
    prediction: list[float]
    coverage: float | None = None  # of all honest clients' test samples, this trial

    @classmethod
    def of(cls, told: Explained, trial: int) -> Self:
        """Take what a file needs from an explained cell."""
        verdict = told.verdict
        return cls(
            trial=trial,
            attack=told.cell.attack,
            method=told.cell.method,
            byzantine=[bool(b) for b in told.byzantine],
            weights=_rounded(verdict.weights),
            scores=_rounded(verdict.scores),
            threshold=_finite(verdict.threshold),
            reasons=list(verdict.reasons),
            counts=[[int(count) for count in row] for row in told.counts] if trial == 0 else [],
            upper=float(told.span.upper),
            radius=_finite(told.radius),
            truth=_rounded(told.truth),
            prediction=_rounded(told.prediction),
            coverage=float(told.cell.coverage),
        )

    @property
    def attackers(self) -> list[int]:
        """Return the ids of the Byzantine clients."""
        return [client for client, bad in enumerate(self.byzantine) if bad]

    @property
    def left_out(self) -> list[int]:
        """Return the ids of the clients whose scores did not count."""
        return [client for client, weight in enumerate(self.weights) if weight == 0]


def save(
    folder: Path, told: Sequence[Sequence[Explained]], identity: Mapping[str, Any] | None = None
) -> tuple[Path, list[ClientView]]:
    """Write clients.json and return what it holds; `identity` says of what run it is."""
    views = [ClientView.of(cell, trial) for trial, cells in enumerate(told) for cell in cells]
    path = folder / FILE
    cells = [dataclasses.asdict(view) for view in views]
    io.write_json(path, "clients", {"identity": dict(identity or {}), "cells": cells}, compact=True)
    return path, views


def belongs(folder: Path, identity: Mapping[str, Any]) -> bool:
    """Return whether `save` has written, of this very run, what `load` would read."""
    path = folder / FILE
    return path.exists() and io.read_json(path, "clients").get("identity") == identity


def load(folder: Path) -> list[ClientView]:
    """Read what `save` wrote."""
    body = io.read_json(folder / FILE, "clients")
    try:
        return [ClientView(**cell) for cell in body["cells"]]
    except (KeyError, TypeError) as error:
        raise DataError(f"{folder / FILE}: {error}; run the experiment again with --fresh") from error


def _rounded(values: Any) -> list[float]:
    return [float(f"{value:.7g}") for value in values]


def _finite(value: float) -> float | None:
    return float(value) if abs(value) < float("inf") else None
