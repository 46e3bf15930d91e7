"""The gauntlet's second matrix: calibration attacks x filters, in several federations, on common random numbers.

Each cell says how many liars a filter finds beyond chance, how many honest clients it loses, what the intervals really
cover, and whether that lies within the certificate for the liars it kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

import prism_fcp
from prism_fcp import io
from prism_fcp.calibrate.attack import ScoreAttack
from prism_fcp.calibrate.calibration import level_from_counts
from prism_fcp.calibrate.cells import compared
from prism_fcp.calibrate.certificate import worst_case
from prism_fcp.calibrate.judgement import Filter, FilterContext
from prism_fcp.calibrate.masses import pool_counts
from prism_fcp.errors import DataError, OutputError
from prism_fcp.lab import calibration_matrix, checks, plugins, regimes, scenes, sources
from prism_fcp.lab.calibration_matrix import Matrix
from prism_fcp.lab.pool import run_all
from prism_fcp.lab.progress import Progress, Quiet
from prism_fcp.lab.run import Interrupted, check_counts
from prism_fcp.lab.scenes import REGIMES, Scene
from prism_fcp.types import BoolArray, FloatArray, IntArray

NAME: Final = "gauntlet-calibration"
LEVEL: Final = 0.9
TRIALS: Final = 20
Task: TypeAlias = tuple[str, int]  # a regime and a trial


@dataclass(frozen=True, slots=True)
class Cell:
    """One filter against one attack in one trial of one regime."""

    recall: float | None  # share of the liars left out; None where nobody lies
    by_chance: float  # share of all clients left out
    lost: float  # share of the honest clients left out
    coverage: float  # of the honest clients that were kept
    coverage_all: float  # of all honest clients
    width: float | None  # over the narrowest that covers; None: infinite
    least: float  # the certificate's bounds on `coverage`, for as many liars as were kept
    most: float
    inside: bool  # both coverages within their bounds


class Row(NamedTuple):
    """A cell's mean over trials, with its worst."""

    regime: str
    attack: str
    filter: str
    trials: int
    recall: float | None
    recall_minus_chance: float | None
    honest_lost: float
    honest_lost_most: float
    coverage: float
    coverage_all: float
    width: float | None
    certificate_least: float
    certificate_most: float
    outside_certificate: int  # trials in which a coverage lay outside its bounds


def run(
    matrix: Matrix,
    *,
    trials: int = TRIALS,
    seed: int = 1,
    jobs: int = 1,
    folder: Path | None = None,
    fresh: bool = False,
    progress: Progress | None = None,
) -> list[Row]:
    """Run what is not finished yet and return the rows; finished trials are kept in `folder`, if there is one.

    A trial is kept under its regime and number, so that more trials or other regimes can be added later.
    """
    check_counts(trials, jobs)
    checks.seed(seed)
    show = progress or Quiet()
    wanted = [(regime, trial) for regime in matrix.regimes for trial in range(trials)]
    journal = None if folder is None else io.Journal(folder / f"{NAME}.jsonl", NAME)
    identity = _identity(matrix, seed)
    done = {} if journal is None or fresh else _read(journal, identity, matrix)
    todo = [place for place, task in enumerate(wanted) if task not in done]
    show.start(NAME, len(wanted), len(wanted) - len(todo))
    try:
        with journal.writing(identity, fresh=fresh) if journal and (todo or fresh) else nullcontext() as writer:
            for place, cells in run_all(partial(_play, matrix, seed, trials), todo, jobs, "processes"):
                regime, trial = wanted[place]
                if writer is not None:
                    writer.append({"regime": regime, "trial": trial, "cells": [astuple(cell) for cell in cells]})
                done[regime, trial] = cells
                show.advance()
    except KeyboardInterrupt as error:
        raise Interrupted(NAME, sum(task in done for task in wanted), len(wanted), folder) from error
    finally:
        show.stop()
    return summarise(matrix, trials, done)


def play(scene: Scene, attack: ScoreAttack, filters: Sequence[Filter]) -> list[Cell]:
    """Let the liars report what the attack makes of their scores, and each filter judge it."""
    reported = scene.scores.copy()
    lying = scene.lying & (scene.coalition or attack.name != "none")
    if lying.any():
        reported[lying] = attack.report(scene.view(attack))
    counts = np.array([scene.grid.count(own) for own in reported])
    sizes = counts.sum(axis=1)
    seen = compared(counts, sizes, scene.cells)
    context = FilterContext(suspects=int(scene.lying.sum()), evidence=scene.evidence)
    narrowest = scene.narrowest(LEVEL, ~lying)
    concluded: dict[bytes, Cell] = {}
    cells = []
    for filter in filters:
        weights = filter(seen, sizes, context).weights
        if weights.tobytes() not in concluded:
            concluded[weights.tobytes()] = _conclude(scene, lying, counts, weights, narrowest)
        cells.append(concluded[weights.tobytes()])
    return cells


def summarise(matrix: Matrix, trials: int, done: Mapping[Task, list[Cell]]) -> list[Row]:
    """Return the rows of finished trials."""
    rows = []
    for regime in matrix.regimes:
        for number, (attack, filter) in enumerate((a, f) for a in matrix.attacks for f in matrix.filters):
            cells = [done[regime, trial][number] for trial in range(trials)]

            def mean(value: Callable[[Cell], float], cells: list[Cell] = cells) -> float:
                return math.fsum(map(value, cells)) / trials

            recall = None if cells[0].recall is None else mean(lambda cell: cell.recall or 0.0)
            wide = any(cell.width is None for cell in cells)
            rows.append(
                Row(
                    regime=regime,
                    attack=attack,
                    filter=filter,
                    trials=trials,
                    recall=recall,
                    recall_minus_chance=None if recall is None else recall - mean(lambda cell: cell.by_chance),
                    honest_lost=mean(lambda cell: cell.lost),
                    honest_lost_most=max(cell.lost for cell in cells),
                    coverage=mean(lambda cell: cell.coverage),
                    coverage_all=mean(lambda cell: cell.coverage_all),
                    width=None if wide else mean(lambda cell: cell.width or 0.0),
                    certificate_least=mean(lambda cell: cell.least),
                    certificate_most=mean(lambda cell: cell.most),
                    outside_certificate=sum(not cell.inside for cell in cells),
                )
            )
    return rows


def _play(matrix: Matrix, seed: int, trials: int, place: int) -> list[Cell]:
    """Run one trial of one regime; places go through the trials of a regime, then to the next."""
    plugins.load(matrix.plugins, "gauntlet")
    attacks, filters = matrix.built()
    scene = REGIMES[matrix.regimes[place // trials]].draw(seed, place % trials)
    return [cell for attack in attacks for cell in play(scene, attack, filters)]


def _conclude(scene: Scene, lying: BoolArray, counts: IntArray, weights: FloatArray, narrowest: float) -> Cell:
    kept = np.asarray(weights > 0)
    level = level_from_counts(pool_counts(counts, weights), scene.grid.edges, LEVEL)
    finite = math.isfinite(level.radius)
    share = scene.share_below(level.radius) if finite else np.ones(len(kept))
    bounds = worst_case(counts, weights, scene.grid.edges, LEVEL, liars=(int((kept & lying).sum()),))[0]
    of_all = float(share[~lying].mean())
    of_kept = float(share[kept & ~lying].mean()) if (kept & ~lying).any() else of_all
    return Cell(
        recall=float((~kept)[lying].mean()) if lying.any() else None,
        by_chance=float((~kept).mean()),
        lost=float((~kept)[~lying].mean()),
        coverage=of_kept,
        coverage_all=of_all,
        width=level.radius / narrowest if finite else None,
        least=bounds.kept.least,
        most=bounds.kept.most,
        inside=bounds.kept.least <= of_kept <= bounds.kept.most
        and bounds.everyone.least <= of_all <= bounds.everyone.most,
    )


def _identity(matrix: Matrix, seed: int) -> dict[str, Any]:
    here = (__file__, scenes.__file__, regimes.__file__, calibration_matrix.__file__)
    own = {path.name: path for path in map(Path, here)}
    return {
        "attacks": list(matrix.attacks),
        "filters": list(matrix.filters),
        "seed": seed,
        "version": prism_fcp.__version__,
        "code": f"{sources.digest(matrix.plugins, matrix.members())}+{io.digest(own)}",
    }


def _read(journal: io.Journal, identity: Mapping[str, Any], matrix: Matrix) -> dict[Task, list[Cell]]:
    """Return the finished tasks, or say why those that are there cannot be continued."""
    header, records = journal.read()
    if header is None:
        return {}
    for key, value in identity.items():
        if value != header.get(key):
            what = {"attacks": "other attacks", "filters": "other filters", "code": "another version of the code"}
            held = what.get(key, f"{key} {header.get(key)}")
            raise OutputError(
                f"{journal.path} holds {len(records)} trials of {held}; add --fresh to start over, or choose another "
                "--out"
            )
    size = len(matrix.attacks) * len(matrix.filters)
    try:
        done = {
            (str(record["regime"]), int(record["trial"])): [Cell(*values) for values in record["cells"]]
            for record in records
        }
        whole = all(len(cells) == size for cells in done.values())
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{journal.path}: no gauntlet's trials ({error}); start over with --fresh") from error
    if not whole:
        raise DataError(f"{journal.path}: a trial lacks cells; start over with --fresh")
    return done
