"""A table of samples: features, a target, perhaps whose each row is. Read from a file, checked before it is used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from prism_fcp import io
from prism_fcp.data.columns import open_columns
from prism_fcp.data.wanted import MEND, CellError, Progress
from prism_fcp.errors import DataError, did_you_mean

MOST_CELLS: Final = 2_000_000_000


@dataclass(frozen=True, slots=True)
class Table:
    """Samples in rows. `owners` names the client of each row, where the data know it.

    `constant` allows columns that do not vary: those of one client may, where other clients' do not.
    """

    features: NDArray[np.float64]  # (n, D)
    target: NDArray[np.float64]  # (n,)
    names: tuple[str, ...]  # of the features
    target_name: str = "target"
    owners: NDArray[np.str_] | None = None  # (n,)
    constant: bool = False

    def __post_init__(self) -> None:
        """Refuse what no model can be trained on, by column and row."""
        n = len(self.target)
        if self.features.ndim != 2 or len(self.features) != n or self.features.shape[1] != len(self.names):
            raise DataError(
                f"table: features of shape {self.features.shape} for {n} targets and {len(self.names)} names; must be "
                "(targets, names)"
            )
        if n < 2 or not self.names:
            raise DataError(
                f"table: {n} rows with {len(self.names)} features; at least 2 rows and 1 feature are needed"
            )
        if self.owners is not None and len(self.owners) != n:
            raise DataError(f"table: {len(self.owners)} owners for {n} rows; one a row is needed")
        for name, column in (*zip(self.names, self.features.T, strict=True), (self.target_name, self.target)):
            bad = np.flatnonzero(~np.isfinite(column))
            if bad.size:
                raise DataError(
                    f"column {name!r}: {bad.size} of {n} values are NaN or infinite, the first in row {bad[0] + 1}; "
                    "fill or drop these rows first"
                )
            if not self.constant and column.min() == column.max():
                raise DataError(
                    f"column {name!r} is constant ({column[0]:g} in all {n} rows): a column of zero variance carries "
                    "nothing and cannot be standardised; leave it out with drop"
                )


def read_table(
    path: Path,
    target: str,
    *,
    client: str | None = None,
    drop: Sequence[str] = (),
    constant: bool = False,
    progress: Progress | None = None,
) -> Table:
    """Read a CSV, TSV, Parquet or npz file: one column is the target, one may name the client, the rest are features.

    An npz file may instead hold a two-dimensional array X with the target beside it (and `feature_names`).
    """
    if path.name.lower().endswith(".npz") and (found := _arrays(path, target, drop, constant)) is not None:
        if client:
            raise DataError(
                f"{path}: a file with a matrix X names no clients, so there is no {client!r}; save columns by name"
            )
        return found
    features: list[str] = []

    def pick(names: Sequence[str]) -> list[str]:
        for wanted in (target, *([client] if client else []), *drop):
            if wanted not in names:
                raise DataError(f"{path}: no column {wanted!r}{did_you_mean(wanted, names[:20])}")
        features.extend(name for name in names if name not in (target, client, *drop))
        if not features:
            raise DataError(
                f"{path}: no feature is left beside {target!r}; the file's columns: {', '.join(names[:20])}"
            )
        return [*features, target, *([client] if client else [])]

    texts = (client,) if client else ()
    try:
        blocks = list(open_columns(path, pick, text=texts, progress=progress))
    except CellError as error:
        mend = "" if MEND in str(error) else MEND
        drop = f", or leave the column out with drop = [{error.column!r}]" if error.column in features else ""
        raise DataError(f"{error}{mend}{drop}") from error
    columns = [np.concatenate(parts) for parts in zip(*blocks, strict=True)]
    owners: Any = columns.pop() if client else None
    values: Any = columns
    try:
        return Table(np.stack(values[:-1], axis=1), values[-1], tuple(features), target, owners, constant)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def _arrays(path: Path, target: str, drop: Sequence[str], constant: bool) -> Table | None:
    """Return an npz file with a matrix X, if it is one."""
    with io.reading(path) as file:
        try:
            with np.load(file, allow_pickle=False) as archive:
                if "X" not in archive.files or archive["X"].ndim != 2:
                    return None
                if target not in archive.files:
                    others = [name for name in archive.files if name != "X"]
                    raise DataError(f"{path}: no array {target!r}{did_you_mean(target, others)}")
                features = np.asarray(archive["X"], dtype=np.float64)
                values = np.asarray(archive[target], dtype=np.float64)
                named = archive["feature_names"] if "feature_names" in archive.files else range(features.shape[1])
                names = [str(name) for name in named]
        except DataError:
            raise
        except (ValueError, OSError, EOFError, KeyError) as error:
            raise DataError(f"{path}: no whole NumPy archive ({error!s:.80}); save it again") from error
    for name in drop:
        if name not in names:
            raise DataError(f"{path}: no column {name!r}{did_you_mean(name, names[:20])}")
    kept = [place for place, name in enumerate(names) if name not in drop]
    try:
        return Table(features[:, kept], values, tuple(names[place] for place in kept), target, constant=constant)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
