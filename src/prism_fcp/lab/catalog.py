"""The experiments that come with the package, by name: every file in `experiments/` is one."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from prism_fcp.errors import SettingError, did_you_mean
from prism_fcp.io import read_text
from prism_fcp.lab.spec import Experiment, load

_HERE: Final = Path(__file__).parent
_KINDS: Final = ("table", "fig", "sweep")  # what a name begins with, in the order of the catalogue


def names_in(folder: Path) -> tuple[str, ...]:
    """Return the experiments in a folder: tables, figures, sweeps, others, each by name."""

    def place(name: str) -> tuple[int, str]:
        kind = name.partition("-")[0]
        return _KINDS.index(kind) if kind in _KINDS else len(_KINDS), name

    return tuple(sorted((path.stem for path in folder.glob("*.toml")), key=place))


NAMES: Final = names_in(_HERE / "experiments")


def named(name: str) -> Experiment:
    """Return a packaged experiment."""
    if name not in NAMES:
        raise SettingError(f"unknown experiment {name!r}{did_you_mean(name, NAMES)}")
    return load(_HERE / "experiments" / f"{name}.toml")


def example() -> str:
    """Return a commented experiment file that shows every key."""
    return read_text(_HERE / "example.toml")
