"""The experiments that come with the package, by name."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from prism_fcp.errors import SettingError, did_you_mean
from prism_fcp.io import read_text
from prism_fcp.lab.spec import Experiment, load

_HERE: Final = Path(__file__).parent
NAMES: Final = (
    "table-synthetic", "table-gaussian", "table-alie", "fig-attacks", "fig-scores", "fig-intervals", "fig-quantile",
    "fig-sharing", "sweep-count", "sweep-noise",
)  # fmt: skip


def named(name: str) -> Experiment:
    """Return a packaged experiment."""
    if name not in NAMES:
        raise SettingError(f"unknown experiment {name!r}{did_you_mean(name, NAMES)}")
    return load(_HERE / "experiments" / f"{name}.toml")


def example() -> str:
    """Return a commented experiment file that shows every key."""
    return read_text(_HERE / "example.toml")
