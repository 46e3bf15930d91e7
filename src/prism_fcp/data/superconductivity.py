"""The UCI superconductivity data (id 464, Hamidieh 2018): from a file of yours, a cache, or the network.

Paper: sec:real-world
"""

from __future__ import annotations

import hashlib
import os
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Final

import numpy as np

from prism_fcp import io
from prism_fcp.data.table import Table, read_table
from prism_fcp.errors import DataError

VARIABLE: Final = "PRISM_FCP_SUPERCONDUCTIVITY"
ADDRESS: Final = "https://archive.ics.uci.edu/static/public/464/superconductivty+data.zip"
MEMBER: Final = "train.csv"
TARGET: Final = "critical_temp"
ROWS: Final = 21_263
FEATURES: Final = 81
MEAN: Final = 34.421  # of the target, and its standard deviation: which data these are, whatever the file's form
SD: Final = 34.254
LARGEST: Final = 200_000_000  # bytes of a download
REMEDY: Final = (
    f"get superconductivity data (UCI 464, superconductivty+data.zip, or OpenML 'superconduct') on a machine with a "
    f"network, and name the file: --data FILE, or {VARIABLE}=FILE"
)


def located(progress: Callable[[int, int], None] | None = None) -> Path:
    """Return the file the variable names, or the cache's, which is filled from the network if it is not there yet."""
    if os.environ.get(VARIABLE):
        named = Path(os.environ[VARIABLE])
        if not named.is_file():
            raise DataError(f"{named}: no such file; {REMEDY}")
        return named
    kept = cache_folder() / "superconductivity.csv"
    if not kept.exists():
        _download(kept, progress)
    return kept


def load(path: Path | None = None, progress: Callable[[int, int], None] | None = None) -> Table:
    """Return the table from `path`, or from where it is `located`."""
    kept = path or located(progress)
    if path is not None or os.environ.get(VARIABLE):
        return _checked(_read(kept, progress), str(kept))
    told = (kept.with_suffix(".sha256")).read_text().strip() if kept.with_suffix(".sha256").exists() else ""
    if told != io.file_digest(kept):
        raise DataError(f"{kept} is not what was downloaded (its SHA-256 differs); delete it and run again")
    return _checked(read_table(kept, TARGET, progress=progress), str(kept))


def cache_folder() -> Path:
    """Return where downloads are kept: `$XDG_CACHE_HOME/prism-fcp`, or `~/.cache/prism-fcp`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "prism-fcp"


def _read(path: Path, progress: Callable[[int, int], None] | None) -> Table:
    if not path.exists():
        raise DataError(f"{path}: no such file; {REMEDY}")
    try:
        return read_table(path, "y" if path.name.lower().endswith(".npz") else TARGET, progress=progress)
    except DataError as error:
        raise DataError(f"{error}; {REMEDY}") from error


def _checked(table: Table, where: str) -> Table:
    """Refuse another table: its size and its target's moments must be the published ones, to a per cent."""
    rows, features = table.features.shape
    mean, sd = float(table.target.mean()), float(table.target.std())
    good = features == FEATURES and abs(rows / ROWS - 1) < 0.01
    if not good or abs(mean / MEAN - 1) > 0.01 or abs(sd / SD - 1) > 0.01:
        raise DataError(
            f"{where}: {rows:,} rows, {features} features, target {mean:.2f} +- {sd:.2f}; superconductivity data have "
            f"{ROWS:,}, {FEATURES} and {MEAN} +- {SD}; {REMEDY}"
        )
    return table


def _download(kept: Path, progress: Callable[[int, int], None] | None) -> None:
    tell = progress or (lambda done, total: None)
    try:
        with urllib.request.urlopen(ADDRESS, timeout=30) as answer:
            total = int(answer.headers.get("Content-Length") or 0)
            parts, done = [], 0
            while piece := answer.read(2**18):
                parts.append(piece)
                done += len(piece)
                tell(done, max(total, done))
                if done > LARGEST:
                    raise DataError(f"{ADDRESS} sends more than {LARGEST:,} bytes; {REMEDY}")
        with zipfile.ZipFile(BytesIO(b"".join(parts))) as archive:
            if archive.getinfo(MEMBER).file_size > LARGEST:
                raise DataError(f"{ADDRESS}: {MEMBER} unpacks to more than {LARGEST:,} bytes; {REMEDY}")
            whole = archive.read(MEMBER)
    except (urllib.error.URLError, OSError, zipfile.BadZipFile, KeyError) as error:
        reason = getattr(error, "reason", error)
        raise DataError(f"superconductivity data cannot be downloaded ({reason!s:.80}); {REMEDY}") from error
    kept.parent.mkdir(parents=True, exist_ok=True)
    io.write_bytes(kept, whole, f"choose another cache with XDG_CACHE_HOME, or {REMEDY}")
    io.write_text(kept.with_suffix(".sha256"), hashlib.sha256(whole).hexdigest() + "\n")


def twin(rows: int = ROWS, seed: int = 464) -> Table:
    """Return a made-up table of the same shape: correlated skewed features, a target that is mostly small.

    It runs where the data are not at hand; its numbers say nothing about superconductors.
    """
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((rows, 8))
    loadings = rng.standard_normal((8, FEATURES)) / np.sqrt(8)
    features = np.exp(0.5 * (factors @ loadings + 0.4 * rng.standard_normal((rows, FEATURES)))) * np.geomspace(
        0.5, 500, FEATURES
    )
    level = factors[:, :3] @ np.array([0.6, -0.4, 0.3]) + 0.35 * np.maximum(factors[:, 3], 0)
    target = np.maximum(0.01, 110 / (1 + np.exp(-2.6 * (level - 0.75))) + 9 * rng.standard_normal(rows))
    return Table(features, target, tuple(f"feature_{place:02d}" for place in range(FEATURES)), TARGET)
