"""Finished trials on disk: one line a trial, so that an interrupted run loses none."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from prism_fcp.errors import DataError, OutputError
from prism_fcp.io import Journal, JournalWriter
from prism_fcp.pipeline import Cell

CELL_FIELDS: Final = tuple(field.name for field in dataclasses.fields(Cell))


@dataclass(frozen=True, slots=True)
class Trial:
    """One finished trial: its cells, and the wall and CPU seconds spent on it."""

    number: int
    cells: tuple[Cell, ...]
    seconds: float
    cpu_seconds: float


class Checkpoint:
    """The trials of one experiment in one folder, by one engine. `identity` must match for them to be continued."""

    def __init__(self, folder: Path, engine: str, identity: Mapping[str, Any]) -> None:
        """Name the folder; nothing is touched yet."""
        self._journal = Journal(folder / f"trials-{engine}.jsonl", "trials")
        self._identity = {**identity, "engine": engine, "fields": list(CELL_FIELDS)}

    def read(self) -> dict[int, Trial]:
        """Return the finished trials, or say why those that are there cannot be continued."""
        header, records = self._journal.read()
        if header is None:
            return {}
        for key, value in self._identity.items():
            if header.get(key) != value:
                raise OutputError(
                    f"{self._journal.path} holds {len(records)} trials with {_told(key, header.get(key))}, "
                    f"this run has {_told(key, value)}; add --fresh to start over, or choose another --out"
                )
        try:
            return {record["trial"]: _decode(record) for record in records}
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{self._journal.path}: broken record ({error}); start over with --fresh") from error

    @contextmanager
    def writing(self, *, fresh: bool) -> Iterator[JournalWriter]:
        """Open for appending trials."""
        with self._journal.writing(self._identity, fresh=fresh) as writer:
            yield writer


def encode(trial: Trial) -> dict[str, Any]:
    """Return a trial as a record, column by column."""
    columns = {name: [getattr(cell, name) for cell in trial.cells] for name in CELL_FIELDS}
    return {"trial": trial.number, "seconds": trial.seconds, "cpu_seconds": trial.cpu_seconds, "cells": columns}


def _decode(record: Mapping[str, Any]) -> Trial:
    columns: Sequence[Sequence[Any]] = [record["cells"][name] for name in CELL_FIELDS]
    cells = tuple(Cell(*values) for values in zip(*columns, strict=True))
    return Trial(record["trial"], cells, record["seconds"], record["cpu_seconds"])


def _told(key: str, value: Any) -> str:
    told = {"fingerprint": "settings", "version": "prism-fcp", "fields": "columns"}.get(key, key)
    return f"other {told}" if key == "fields" else f"{told} {value}"
