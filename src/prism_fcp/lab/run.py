"""Run an experiment: trials on the cores, each kept as it finishes, the rows at the end."""

from __future__ import annotations

import multiprocessing
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
from prism_fcp.engines import AUTO, ENGINES, Chosen, amount_of_work, choose, trials_at_once
from prism_fcp.errors import PrismError, SettingError, counted, need_number
from prism_fcp.lab import checks, plugins, sources
from prism_fcp.lab.checkpoint import Checkpoint, Trial, encode
from prism_fcp.lab.pool import Kind, run_all
from prism_fcp.lab.progress import COMPILING, Clock, Progress, Quiet
from prism_fcp.lab.result import Result, ledgers, summarise
from prism_fcp.lab.spec import Experiment
from prism_fcp.lab.together import run_together
from prism_fcp.lab.typed import to_toml
from prism_fcp.pipeline import Cell, Explained, explain_trial, run_trial
from prism_fcp.tables import TableData, origin


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with what was saved: `finished` of `total` trials of `experiment` in `folder`."""

    def __init__(self, experiment: str, finished: int, total: int, folder: Path | None) -> None:
        """Keep what a message needs."""
        super().__init__(f"{experiment}: {finished} of {counted(total, 'trial')} finished")
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
    with the same settings, seed, engine and code continues. Results do not depend on `jobs`.
    """
    total = experiment.trials if trials is None else trials
    seed = experiment.seed if seed is None else seed
    check_counts(total, jobs)
    checks.seed(seed)
    chosen = chosen_engine(experiment, engine, total)
    store, done = None, {}
    if folder is not None:
        chosen = chosen if fresh else _kept_engine(experiment, engine, chosen, folder, seed)
        store = _store(experiment, folder, chosen.name, seed)
        done = {} if fresh else store.read()
    made = [] if folder is None else io.check_folder(folder)
    before = sum(trial.cpu_seconds for trial in done.values() if trial.number < total)
    clock = Clock()
    left = total - sum(number < total for number in done)
    with (
        _leaving_nothing(made),
        _interruptible(experiment.name, done, total, folder),
        _showing(progress, experiment.name, total, total - left, chosen if left else None) as show,
    ):
        with store.writing(fresh=fresh) if store and (left or fresh) else nullcontext() as writer:
            described = folder is None
            todo = (number for number in range(total) if number not in done)
            for number, (cells, cpu) in _each(experiment, seed, chosen, todo, left, jobs):
                trial = Trial(number, tuple(cells), clock.lap(), cpu)
                if writer is not None:
                    writer.append(encode(trial))
                if folder is not None and not described:  # of what settings the trials are, should this run not finish
                    io.write_text(folder / "experiment.toml", to_toml(experiment.resolved))
                    described = True
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
        ledgers=ledgers(experiment, used),
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
    engine: str = "auto",
    jobs: int = 1,
) -> list[list[Explained]]:
    """Return, for each of the first `explain` trials, its cells with what pictures need."""
    count = experiment.explain if trials is None else trials
    seed = experiment.seed if seed is None else seed
    checks.seed(seed)
    chosen = chosen_engine(experiment, engine, experiment.trials)
    task = partial(_explain, experiment, seed, chosen.name)
    told = dict(run_all(task, range(count), jobs, _parallel(chosen)))
    return [told[trial] for trial in sorted(told)]


def chosen_engine(experiment: Experiment, engine: str, trials: int) -> Chosen:
    """Settle on an engine for this many trials, all of them, so that a continued run gets the same one."""
    federation, arms = experiment.setup.federation, experiment.setup.arms()
    rows = isinstance(experiment.setup.population, TableData)
    return choose(engine, amount_of_work(federation, len(arms), trials), federation, arms, rows=rows)


def identity(experiment: Experiment, seed: int) -> dict[str, Any]:
    """Return what must be equal for something kept on disk to be taken for this run's, beside the engine."""
    return {
        "fingerprint": experiment.fingerprint,
        "seed": seed,
        "version": prism_fcp.__version__,
        "code": sources.digest(experiment.plugins, experiment.setup.members()),
        **({"data": origin(experiment.setup.population)} if isinstance(experiment.setup.population, TableData) else {}),
    }


def check_kept(experiment: Experiment, engine: str, trials: int, folder: Path) -> None:
    """Raise what `run` would of trials in this folder that are another run's, before anything else is computed."""
    chosen = chosen_engine(experiment, engine, trials)
    chosen = _kept_engine(experiment, engine, chosen, folder, experiment.seed)
    _store(experiment, folder, chosen.name, experiment.seed).read()


def check_counts(trials: int, jobs: int) -> None:
    """Raise `SettingError` for counts nothing can be done with."""
    for name, value, most in (("trials", trials, checks.MAX_TRIALS), ("jobs", jobs, checks.MAX_SIZE)):
        need_number(name, value, integer=True)
        if value < 1:
            raise SettingError(f"{name}={value}; must be at least 1")
        if value > most:
            raise SettingError(f"{name}={value}; must be at most {most:,}")


def versions() -> dict[str, str]:
    """Return the versions a result depends on."""
    from importlib.metadata import PackageNotFoundError, version

    def known(name: str) -> str:
        try:
            return version(name)
        except PackageNotFoundError:
            return "not installed"

    return {
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "numba": known("numba"),
        "jax": known("jax"),
        "prism_fcp": prism_fcp.__version__,
    }


def _store(experiment: Experiment, folder: Path, engine: str, seed: int) -> Checkpoint:
    setup = experiment.setup
    names = [(attack, method.name) for attack, _ in setup.attacks for method in setup.methods]
    return Checkpoint(folder, engine, identity(experiment, seed), names=names, spec=experiment.resolved)


def _kept_engine(experiment: Experiment, engine: str, chosen: Chosen, folder: Path, seed: int) -> Chosen:
    """Let `auto` stay with the engine whose trials of this very run are kept, so that more trials continue them."""
    if engine != AUTO or _store(experiment, folder, chosen.name, seed).matches():
        return chosen
    for other in ENGINES:
        if other != chosen.name and _store(experiment, folder, other, seed).matches():
            try:
                chosen_engine(experiment, other, experiment.trials)
            except PrismError:
                continue  # it was there when the trials were run
            return Chosen(other, "the trials kept in this folder are its")
    return chosen


def _parallel(chosen: Chosen) -> Kind:
    return "processes" if chosen.name == "readable" else "threads"  # compiled code lets threads run, Python does not


def _each(
    experiment: Experiment, seed: int, chosen: Chosen, todo: Iterator[int], left: int, jobs: int
) -> Iterator[tuple[int, tuple[list[Cell], float]]]:
    """Yield the trials' cells as they finish, one by one or, on a GPU, trained in equal parts."""
    setup = experiment.setup
    size = trials_at_once(chosen.name, setup.federation, len(setup.arms())) if left and setup.arms() else 1
    if size == 1:
        return run_all(partial(_one, experiment, seed, chosen.name), todo, jobs, _parallel(chosen))
    parts = -(-left // size)
    return run_together(setup, seed, todo, -(-left // parts), jobs, partial(_told_by_trial, experiment))


def _one(experiment: Experiment, seed: int, engine: str, trial: int) -> tuple[list[Cell], float]:
    begun = time.thread_time()
    with _told_by_trial(experiment, trial):
        cells = run_trial(experiment.setup, seed, trial, ENGINES[engine])
    return cells, time.thread_time() - begun


def _explain(experiment: Experiment, seed: int, engine: str, trial: int) -> list[Explained]:
    with _told_by_trial(experiment, trial):
        return explain_trial(experiment.setup, seed, trial, ENGINES[engine], points=experiment.predict_samples)


@contextmanager
def _told_by_trial(experiment: Experiment, trial: int) -> Iterator[None]:
    """Make a worker process know the user's own code, and an error say which trial it is from."""
    try:
        plugins.load(experiment.plugins, experiment.name)
        with checks.enough_memory(experiment.setup, experiment.name):
            yield
    except PrismError as error:
        hint = ""
        if multiprocessing.parent_process() and str(error).startswith("unknown "):  # it was known in the parent
            hint = "; if it is your own, name its file in plugins, so that worker processes import it; or use jobs=1"
        raise type(error)(f"trial {trial}: {error}{hint}") from error


@contextmanager
def _interruptible(name: str, done: dict[int, Any], total: int, folder: Path | None) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt as error:
        finished = sum(number < total for number in done)
        raise Interrupted(name, finished, total, folder if finished else None) from error


@contextmanager
def _leaving_nothing(made: list[Path]) -> Iterator[None]:
    """Take away the folders that were made for a run which then put nothing into them."""
    try:
        yield
    except BaseException:
        io.remove_empty(made)
        raise


@contextmanager
def _showing(progress: Progress | None, name: str, total: int, done: int, chosen: Chosen | None) -> Iterator[Progress]:
    show = progress or Quiet()
    show.start(name, total, done)
    try:
        if chosen is not None and chosen.name == "compiled" and not _compiled_before():
            show.wait(COMPILING)
        yield show
    finally:
        show.stop()


def _compiled_before() -> bool:
    """Return whether machine code lies on the disk that is newer than its sources. A guess: it decides a message."""
    package = Path(prism_fcp.__file__).parent
    kept = os.environ.get("NUMBA_CACHE_DIR")
    found = (Path(kept) if kept else package / "kernels" / "__pycache__").rglob("*.nbi")
    try:
        newest = max((path.stat().st_mtime for path in found), default=0.0)
        return newest > max(path.stat().st_mtime for path in (package / "kernels").glob("*.py"))
    except OSError:
        return False
