"""A handful of sites with summaries, for the tests of everything that works on files."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from prism_fcp.calibrate.spec import CalibrationSpec
from prism_fcp.calibrate.summary import ClientSummary, summarize

NOW = datetime(2026, 11, 19, 12, 0, 0, tzinfo=UTC)
MODEL = "ab" * 32


def spec(**settings: object) -> CalibrationSpec:
    return CalibrationSpec(**{"title": "length of stay", "model": MODEL, **settings})  # type: ignore[arg-type]


def scores(clients: int = 8, samples: int = 200, seed: int = 0) -> dict[str, NDArray[np.float64]]:
    rng = np.random.default_rng(seed)
    return {f"site-{place}": np.abs(rng.standard_normal(samples)) for place in range(clients)}


def summaries(own: Mapping[str, NDArray[np.float64]], agreed: CalibrationSpec) -> list[ClientSummary]:
    return [summarize(values, agreed, client, created=NOW) for client, values in own.items()]
