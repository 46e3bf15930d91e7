"""Learning curves of an experiment's first trial, kept on disk, so that a picture drawn again costs nothing."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Final

from prism_fcp import io
from prism_fcp.engines import ENGINES
from prism_fcp.errors import DataError
from prism_fcp.lab.progress import Progress, Quiet
from prism_fcp.lab.result import Result
from prism_fcp.lab.run import identity
from prism_fcp.lab.spec import Experiment
from prism_fcp.learning import Curve, learning_curves, stops
from prism_fcp.tables import TableData

FILE: Final = "learning.json"


def of_run(
    experiment: Experiment,
    result: Result,
    folder: Path,
    *,
    fresh: bool = False,
    progress: Progress | None = None,
) -> list[Curve]:
    """Return the curves of trial 0: from the file of an earlier run of the same, or by training again."""
    # Each stop is a program of its own: clients with rows go by NumPy, which compiles nothing.
    engine = "readable" if isinstance(experiment.setup.population, TableData) else result.engine
    at = stops(experiment.setup.federation.rounds)
    whose = {**identity(experiment, result.seed), "engine": engine, "rounds": at}
    path = folder / FILE
    if not fresh and path.exists():
        body = io.read_json(path, "learning curves")
        if body.get("identity") == whose:
            return _read(body, path)
    show = progress or Quiet()
    show.start(f"{experiment.name}, learning curves", len(at), 0)
    try:
        told = learning_curves(
            experiment.setup, result.seed, 0, ENGINES[engine], at, lambda _: show.advance()
        )  # fmt: skip
    finally:
        show.stop()
    body = {"identity": whose, "curves": [dataclasses.asdict(curve) for curve in told]}
    io.write_json(path, "learning curves", body, compact=True)
    return told


def _read(body: dict[str, Any], path: Path) -> list[Curve]:
    try:
        return [Curve(c["method"], tuple(c["rounds"]), tuple(c["test_mse"])) for c in body["curves"]]
    except (KeyError, TypeError) as error:
        raise DataError(f"{path}: {error}; run the experiment again with --fresh") from error
