"""Run an experiment: trials on the cores, each kept as it finishes, the rows at the end."""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy

import prism_fcp
from prism_fcp import io
from prism_fcp.errors import PrismError, SettingError
from prism_fcp.lab.checkpoint import Checkpoint, Trial, encode
from prism_fcp.lab.engine import Engine, choose_engine, train_function
from prism_fcp.lab.pool import run_all
from prism_fcp.lab.progress import Progress, Quiet
from prism_fcp.lab.result import Result, summarise
from prism_fcp.lab.spec import Experiment
from prism_fcp.lab.typed import to_toml
from prism_fcp.pipeline import Cell, Explained, explain_trial, run_trial
from prism_fcp.setup import Setup


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with what was saved: `finished` of `total` trials of `experiment` in `folder`."""

    def __init__(self, experiment: str, finished: int, total: int, folder: Path | None) -> None:
        """Keep what a message needs."""
        super().__init__(f"{experiment}: {finished} of {total} trials finished")
        self.experiment, self.finished, self.total, self.folder = experiment, finished, total, folder


def run(
    experiment: Experiment,
    *,
    trials: int | None = None,
    seed: int | None = None,
    jobs: int = 1,
    engine: str = "auto",
    folder: Path | None = None,
    fresh: bool = False,
    progress: Progress | None = None,
) -> Result:
    """Run the trials that are not finished yet and return the rows of all of them.

    With a `folder`, finished trials are kept there as they come, and result.json and table.csv at the end; a rerun
    with the same settings, seed, engine and version continues. Results do not depend on `jobs`.
    """
    total = experiment.trials if trials is None else trials
    seed = experiment.seed if seed is None else seed
    check_counts(total, jobs)
    chosen = choose_engine(engine, experiment.setup, total)
    store, done = None, {}
    if folder is not None:
        io.check_folder(folder)
        identity = {"fingerprint": experiment.fingerprint, "seed": seed, "version": versions()["prism_fcp"]}
        store = Checkpoint(folder, chosen.name, identity)
        done = {} if fresh else store.read()
        if fresh:
            io.discard(folder / "result.json")
    before = sum(trial.cpu_seconds for trial in done.values() if trial.number < total)
    clock = _Clock()
    todo = [number for number in range(total) if number not in done]
    with (
        _interruptible(experiment.name, done, total, folder),
        _showing(progress, experiment.name, total, total - len(todo)) as show,
    ):
        with store.writing(fresh=fresh) if store and (todo or fresh) else nullcontext() as writer:
            task = partial(_one, experiment.setup, seed, chosen.name)
            for number, (cells, cpu) in run_all(task, todo, jobs, chosen.parallel):
                trial = Trial(number, tuple(cells), clock.lap(), cpu)
                if writer is not None:
                    writer.append(encode(trial))
                done[number] = trial
                show.advance()
    used = [done[number] for number in range(total)]
    result = Result(
        experiment=experiment.name,
        title=experiment.title,
        spec=experiment.resolved,
        fingerprint=experiment.fingerprint,
        seed=seed,
        trials=total,
        engine=chosen.name,
        engine_reason=chosen.reason,
        versions=versions(),
        seconds=sum(trial.seconds for trial in used),
        cpu_seconds=before + clock.cpu(),
        rows=summarise(experiment, used),
    )
    if folder is not None:
        io.write_text(folder / "experiment.toml", to_toml(experiment.resolved))
        result.save(folder)
    return result


def explain(
    experiment: Experiment,
    *,
    seed: int | None = None,
    trials: int | None = None,
    engine: str = "readable",
    jobs: int = 1,
) -> list[list[Explained]]:
    """Return, for each of the first `explain` trials, its cells with what pictures need."""
    count = experiment.explain if trials is None else trials
    seed = experiment.seed if seed is None else seed
    chosen = Engine(engine, "")
    task = partial(_explain, experiment.setup, seed, engine, experiment.predict_samples)
    told = dict(run_all(task, range(count), jobs, chosen.parallel))
    return [told[trial] for trial in sorted(told)]


def check_counts(trials: int, jobs: int) -> None:
    """Raise `SettingError` for counts nothing can be done with."""
    if trials < 1:
        raise SettingError(f"trials={trials}; must be at least 1")
    if jobs < 1:
        raise SettingError(f"jobs={jobs}; must be at least 1")


def versions() -> dict[str, str]:
    """Return the versions a result depends on."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        numba = version("numba")
    except PackageNotFoundError:
        numba = "not installed"
    return {
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "numba": numba,
        "prism_fcp": prism_fcp.__version__,
    }


def _one(setup: Setup, seed: int, engine: str, trial: int) -> tuple[list[Cell], float]:
    begun = time.thread_time()
    try:
        cells = run_trial(setup, seed, trial, train_function(engine))
    except PrismError as error:
        raise type(error)(f"trial {trial}: {error}") from error
    return cells, time.thread_time() - begun


def _explain(setup: Setup, seed: int, engine: str, points: int, trial: int) -> list[Explained]:
    return explain_trial(setup, seed, trial, train_function(engine), points=points)


@contextmanager
def _interruptible(name: str, done: dict[int, Any], total: int, folder: Path | None) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt as error:
        raise Interrupted(name, sum(number < total for number in done), total, folder) from error


@contextmanager
def _showing(progress: Progress | None, name: str, total: int, done: int) -> Iterator[Progress]:
    show = progress or Quiet()
    show.start(name, total, done)
    try:
        yield show
    finally:
        show.stop()


class _Clock:
    """Wall seconds between trials, CPU seconds of this process and its ended children."""

    def __init__(self) -> None:
        self._last, self._cpu = time.perf_counter(), self._used()

    def lap(self) -> float:
        now = time.perf_counter()
        lap, self._last = now - self._last, now
        return lap

    def cpu(self) -> float:
        return self._used() - self._cpu

    @staticmethod
    def _used() -> float:
        return math.fsum(os.times()[:4])
