"""Finished trials on disk: one line a trial, so that an interrupted run loses none."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_type_hints

from prism_fcp import io
from prism_fcp.errors import DataError, OutputError, PrismError, counted
from prism_fcp.io import Journal, JournalWriter
from prism_fcp.lab.checks import MAX_TRIALS
from prism_fcp.lab.spec import fingerprint
from prism_fcp.pipeline import Cell
from prism_fcp.types import LeftOut

CELL_FIELDS: Final = tuple(field.name for field in dataclasses.fields(Cell))
_HINTS: Final = get_type_hints(Cell)
_LEFT_OUT: Final = get_type_hints(LeftOut)


@dataclass(frozen=True, slots=True)
class Trial:
    """One finished trial: its cells, and the wall and CPU seconds spent on it."""

    number: int
    cells: tuple[Cell, ...]
    seconds: float
    cpu_seconds: float


class Checkpoint:
    """The trials of one experiment in one folder, by one engine. `identity` must match for them to be continued."""

    def __init__(
        self,
        folder: Path,
        engine: str,
        identity: Mapping[str, Any],
        *,
        names: Sequence[tuple[str, str]],
        spec: Mapping[str, Any],
    ) -> None:
        """Name the folder; nothing is touched yet. `names` are the (attack, method) of a trial's cells, in order."""
        self._folder, self._names, self._spec = folder, list(names), spec
        self._journal = Journal(folder / f"trials-{engine}.jsonl", "trials")
        self._identity = {**identity, "engine": engine}

    def read(self) -> dict[int, Trial]:
        """Return the finished trials, or say why those that are there cannot be continued."""
        header, records = self._journal.read()
        if header is None:
            return {}
        for key, value in self._identity.items():
            if header.get(key) != value:
                raise OutputError(self._refusal(key, header.get(key), value, len(records)))
        done: dict[int, Trial] = {}
        for line, record in enumerate(records, 2):
            try:
                trial = _decode(record, self._names)
            except (KeyError, TypeError, ValueError) as error:
                told = f"no {error}" if isinstance(error, KeyError) else error
                raise DataError(
                    f"{self._journal.path}: line {line} is no finished trial of this experiment ({told}); start over "
                    "with --fresh, or choose another --out"
                ) from error
            done[trial.number] = trial
        return done

    def matches(self) -> bool:
        """Return whether trials of this very identity are kept here."""
        try:
            header, _ = self._journal.read()
        except PrismError:
            return False
        return header is not None and all(header.get(key) == value for key, value in self._identity.items())

    @contextmanager
    def writing(self, *, fresh: bool) -> Iterator[JournalWriter]:
        """Open for appending trials; what `fresh` makes untrue is removed once no other run holds the folder."""
        with self._journal.writing(self._identity, fresh=fresh) as writer:
            if fresh:
                io.discard(self._folder / "result.json")
            yield writer

    def _refusal(self, key: str, found: Any, value: Any, count: int) -> str:
        path = self._journal.path
        if key == "code":
            return (
                f"{path}: these trials were computed by another version of the code; --fresh starts over, "
                "another --out keeps them"
            )
        if key == "fingerprint":
            held, now = "other settings", self._changed(found)
        else:
            name = {"version": "prism-fcp"}.get(key, key)
            held, now = f"{name} {found}", f"this run has {name} {value}"
        kept = f"{path} holds {counted(count, 'trial')}"
        return f"{kept} with {held}; {now}; add --fresh to start over, or choose another --out"

    def _changed(self, found: Any) -> str:
        """Name the first setting that differs from the stored experiment's, if that is the trials' own."""
        try:
            stored = io.read_toml(self._folder / "experiment.toml")
            own = fingerprint(stored) == found
        except (PrismError, KeyError):
            own = False
        difference = _first_difference(stored, self._spec) if own else ""
        return difference or "this run has settings of its own"


def encode(trial: Trial) -> dict[str, Any]:
    """Return a trial as a record, column by column."""
    columns = {name: [getattr(cell, name) for cell in trial.cells] for name in CELL_FIELDS}
    return {"trial": trial.number, "seconds": trial.seconds, "cpu_seconds": trial.cpu_seconds, "cells": columns}


def _decode(record: Any, names: list[tuple[str, str]]) -> Trial:
    if not isinstance(record, Mapping) or not isinstance(record["cells"], Mapping):
        raise TypeError("a line must be a table with its cells")
    columns: dict[str, list[Any]] = {}
    for name in CELL_FIELDS:
        columns[name] = record["cells"][name]
        if not isinstance(columns[name], list) or len(columns[name]) != len(names):
            raise ValueError(f"{name} must be a list of {len(names)}")
        if name == "left_out":
            columns[name] = [None if told is None else _left_out(told) for told in columns[name]]
            continue
        for value in columns[name]:
            _check_type(name, value, _HINTS[name])
    if list(zip(columns["attack"], columns["method"], strict=True)) != names:
        raise ValueError("its attacks and methods are others")
    for name, hint in (("trial", int), ("seconds", float), ("cpu_seconds", float)):
        _check_type(name, record[name], hint)
    if not 0 <= record["trial"] < MAX_TRIALS:
        raise ValueError("trial is out of range")
    cells = tuple(Cell(*values) for values in zip(*columns.values(), strict=True))
    return Trial(record["trial"], cells, record["seconds"], record["cpu_seconds"])


def _left_out(told: Any) -> tuple[LeftOut, ...]:
    if not isinstance(told, list) or any(len(entry) != len(LeftOut._fields) for entry in told):
        raise ValueError("left_out must be a list of what is known of each client")
    entries = tuple(LeftOut(*entry) for entry in told)
    for entry in entries:
        for name, hint in _LEFT_OUT.items():
            if getattr(entry, name) is not None or hint in (bool, int):
                _check_type(name, getattr(entry, name), bool if hint == bool | None else hint)
    return entries


def _check_type(name: str, value: Any, hint: Any) -> None:
    """Raise unless `value` is what a cell holds there; a width may be infinite, nothing may be NaN."""
    kinds: tuple[type, ...]
    if hint in (bool, int, str):
        kinds = (hint,)
    else:
        kinds = (int, float) if hint is float else (int, float, type(None))
    right = isinstance(value, kinds) and (hint is bool or not isinstance(value, bool))
    if not right or (isinstance(value, float) and math.isnan(value)) or (isinstance(value, int) and value >> 64):
        raise TypeError(f"{name} = {str(value)[:40]!r}")


def _first_difference(there: Any, here: Any, name: str = "") -> str:
    """Return `federation.rounds = 40 there, 30 here` for the first key whose values differ."""
    if isinstance(there, Mapping) and isinstance(here, Mapping):
        keys = [key for key in ("population", "data", "federation", "calibration", "attacks", "methods") if not name]
        for key in keys or dict.fromkeys([*there, *here]):
            told = _first_difference(there.get(key), here.get(key), f"{name}.{key}" if name else key)
            if told:
                return told
        return ""
    if isinstance(there, list) and isinstance(here, list) and len(there) == len(here):
        pairs = enumerate(zip(there, here, strict=True), 1)
        return next((told for place, (a, b) in pairs if (told := _first_difference(a, b, f"{name}[{place}]"))), "")
    if there == here:
        return ""
    if isinstance(there, list) and isinstance(here, list):
        return f"{name} has {len(there)} entries there and {len(here)} here"
    return f"{name} is {_shown(there)} there and {_shown(here)} here"


def _shown(value: Any) -> str:
    if value is None:
        return "not set"
    text = f"{value['name']!r}" if isinstance(value, Mapping) and "name" in value else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
