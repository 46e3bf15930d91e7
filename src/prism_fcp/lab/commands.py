"""What each command does, once its arguments are parsed: check everything, compute, keep, print."""

from __future__ import annotations

import os
import sys
import warnings
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console

from prism_fcp import io
from prism_fcp.data import superconductivity
from prism_fcp.data.superconductivity import REMEDY, VARIABLE
from prism_fcp.errors import DataError, MissingExtraError, SettingError, counted
from prism_fcp.lab import catalog, checks, clients, curves, tables
from prism_fcp.lab import demo as story
from prism_fcp.lab.compare import Comparison, judge, published, stored
from prism_fcp.lab.figures import FROM_CLIENTS, draw
from prism_fcp.lab.planning import plan
from prism_fcp.lab.pool import cores, most_jobs
from prism_fcp.lab.progress import automatic
from prism_fcp.lab.result import Result
from prism_fcp.lab.run import Interrupted, check_counts, chosen_engine, explain, identity
from prism_fcp.lab.run import run as run_experiment
from prism_fcp.lab.spec import Experiment, load
from prism_fcp.tables import SUPERCONDUCTIVITY

QUICK = 5
CHECK_FAILED = 3


def demo(options: Namespace) -> int:
    """Run a few trials and tell what happened."""
    experiment = story.demo_experiment()
    options = Namespace(trials=None, jobs=None, engine="auto", fresh=True, check=False, **vars(options))
    with _prepared([experiment], options):
        comparison, views, files, missing = _compute(experiment, options)
    story.tell(comparison, views, files, missing, _console(options))
    _write_json([comparison], options.json)
    return 0


def reproduce(options: Namespace) -> int:
    """Run experiments of the catalogue."""
    with _superconductivity(options.data):
        named = {name: catalog.named(name) for name in options.names if name != "all"}
        if "all" in options.names:
            named = {name: catalog.named(name) for name in catalog.NAMES}
        return _run_all([*named.values()], options)


def run(options: Namespace) -> int:
    """Run an experiment from a file."""
    if options.file is None:
        raise SettingError("no experiment given: prism-fcp run FILE.toml; `prism-fcp run --example` prints one to edit")
    with _superconductivity(options.data):
        return _run_all([load(options.file)], options, options.file)


def print_example() -> int:
    """Print a commented experiment with every key."""
    sys.stdout.write(catalog.example())
    return 0


def compare(options: Namespace) -> int:
    """Set stored results beside the paper's; read only."""
    results = stored(options.folder)
    folders = [options.folder, *(options.folder / result.experiment for result in results)]
    check_target(options.json, folders, [])
    out = _console(options)
    if options.check:
        _need_published([(result.experiment, result.fingerprint) for result in results])
    comparisons = [judge(result) for result in results]
    for comparison in comparisons:
        tables.show(comparison, out)
    _write_json(comparisons, options.json)
    return _check(comparisons, out) if options.check else 0


def catalogue(options: Namespace) -> int:
    """Show the catalogue."""
    check_target(options.json, [], [])
    experiments = [catalog.named(name) for name in catalog.NAMES]
    if options.json is None:
        tables.console().print(tables.listing(experiments))
        return 0
    body = [
        {
            "name": e.name, "title": e.title, "description": " ".join(e.description.split()), "trials": e.trials,
            "figures": [*e.figures], "attacks": len(e.setup.attacks), "methods": len(e.setup.methods),
        }
        for e in experiments
    ]  # fmt: skip
    write_json(body, options.json)
    return 0


def _run_all(experiments: Sequence[Experiment], options: Namespace, file: Path | None = None) -> int:
    if options.quick and options.trials is None:
        options.trials = QUICK
    with _prepared(experiments, options, file):
        out, comparisons = _console(options), []
        for experiment in experiments:
            comparison, _, files, missing = _compute(experiment, options)
            comparisons.append(comparison)
            tables.show(comparison, out, files)
            for method in experiment.setup.methods:
                if method.why:
                    out.print(f"{method.name}: {method.why}", highlight=False)
            if missing:
                out.print(missing)
    _write_json(comparisons, options.json)
    return _check(comparisons, out) if options.check else 0


def _need_published(experiments: Sequence[tuple[str, str]]) -> None:
    """Refuse a check that would compare nothing: none of these names has published values for its fingerprint."""
    if not any(published(name, fingerprint) for name, fingerprint in experiments):
        names = ", ".join(name for name, _ in experiments)
        raise SettingError(
            f"--check: nothing published for these settings; of {names} no number is in the paper; "
            "check a packaged table or sweep as it stands, or leave --check out"
        )


def _check(comparisons: Sequence[Comparison], out: Console) -> int:
    failures = [f"{c.result.experiment}: {told}" for c in comparisons for told in c.failures]
    if failures:
        print(f"prism-fcp: check failed: {len(failures)} of the rows that should reproduce do not:", file=sys.stderr)
        for told in failures:
            print(f"  {told}", file=sys.stderr)
        return CHECK_FAILED
    undecided = sum(c.count("undecided") for c in comparisons)
    apart = [c.result.experiment for c in comparisons if not c.source]
    open_ones = f"; {counted(undecided, 'row')} need more trials to be decided" if undecided else ""
    out.print("check passed" + open_ones + (f"; nothing published of {', '.join(apart)}" if apart else ""))
    return 0


@contextmanager
def _superconductivity(file: Path | None) -> Iterator[None]:
    """Let this file be the superconductivity data for a while, in worker processes too."""
    if file is not None and not file.is_file():
        raise DataError(f"--data {file}: no such file; {REMEDY}")
    before = os.environ.get(VARIABLE)
    try:
        if file is not None:
            os.environ[VARIABLE] = str(file.resolve())
        yield
    finally:
        os.environ.pop(VARIABLE, None)
        if before is not None:
            os.environ[VARIABLE] = before


class _Download:
    """Says how much of a download has come, every tenth of it."""

    told = -1

    def __call__(self, done: int, total: int) -> None:
        """Say it, if another tenth is there."""
        if total and 10 * done // total > self.told:
            self.told = 10 * done // total
            size = f"{done / 1e6:.1f} of {total / 1e6:.1f} MB"
            print(f"prism-fcp: downloading the superconductivity data, {size}", file=sys.stderr, flush=True)


@contextmanager
def _prepared(experiments: Sequence[Experiment], options: Namespace, file: Path | None = None) -> Iterator[None]:
    """Find out all that can be known to fail before anything is computed; afterwards remove what was made in vain."""
    warnings.showwarning = show_warning
    for experiment in experiments:
        trials = experiment.trials if options.trials is None else options.trials
        check_counts(trials, 1 if options.jobs is None else options.jobs)
        if options.seed is not None:
            checks.seed(options.seed)
        chosen_engine(experiment, options.engine, trials)
    if any(getattr(e.setup.population, "name", "") == SUPERCONDUCTIVITY for e in experiments):
        superconductivity.located(_Download())
    if options.check:
        _need_published([(experiment.name, experiment.fingerprint) for experiment in experiments])
    plugins = [Path(name) for experiment in experiments for name in experiment.plugins if name.endswith(".py")]
    folders = [options.out / experiment.name for experiment in experiments]
    check_target(options.json, folders, plugins + ([file] if file else []))
    if options.jobs is not None and options.jobs > most_jobs():
        print(f"prism-fcp: --jobs {options.jobs} on {cores()} cores: {most_jobs()} are used", file=sys.stderr)
    made: list[Path] = []
    try:
        if options.json not in (None, "-"):
            made = io.check_folder(Path(options.json).parent, _OTHER_FILE)
        for folder in folders:
            made = io.check_folder(folder) + made
        yield
    finally:
        for folder in made:
            io.remove_empty([folder])


def check_target(
    target: str | None, folders: Sequence[Path], sources: Sequence[Path] = (), kept: Sequence[str] = ()
) -> None:
    """Refuse to write JSON over the experiment itself, a file that results are kept in, or what is no file."""
    if target is None or target == "-":
        return
    path = Path(target)
    if not target.strip():
        raise SettingError(f"--json {target!r} is no file's name; give one, or - for standard output")
    if path.is_dir():
        raise SettingError(f"--json {target} is a folder; give a file's name")
    if path.exists() and not path.is_file():
        raise SettingError(f"--json {target} is no regular file; give a file's name, or - for standard output")
    if any(path.resolve() == source.resolve() for source in sources):
        raise SettingError(f"--json {target} would overwrite the experiment's own file; {_OTHER_FILE}")
    if path.resolve().parent in [folder.resolve() for folder in folders] and (
        path.name in (*_KEPT, *kept) or path.name.startswith("trials-") or path.suffix in (".png", ".svg")
    ):
        raise SettingError(f"--json {target} would overwrite a file that results are kept in; {_OTHER_FILE}")


_OTHER_FILE = "give --json another file"
_KEPT = ("result.json", "table.csv", "experiment.toml", clients.FILE, curves.FILE)


def _compute(
    experiment: Experiment, options: Namespace
) -> tuple[Comparison, list[clients.ClientView], list[Path], str]:
    folder = options.out / experiment.name
    jobs = cores() if options.jobs is None else options.jobs
    result = run_experiment(
        experiment, trials=options.trials, seed=options.seed, jobs=jobs, engine=options.engine, folder=folder,
        fresh=options.fresh, progress=automatic(),
    )  # fmt: skip
    try:
        return _pictured(experiment, result, jobs, folder, fresh=options.fresh)
    except KeyboardInterrupt as error:  # the trials are all there, their pictures are not
        raise Interrupted(experiment.name, result.trials, result.trials, folder) from error


def _pictured(
    experiment: Experiment, result: Result, jobs: int, folder: Path, *, fresh: bool
) -> tuple[Comparison, list[clients.ClientView], list[Path], str]:
    comparison = judge(result)
    files = [folder / name for name in ("result.json", "table.csv", "experiment.toml")]
    views: list[clients.ClientView] = []
    if FROM_CLIENTS & set(experiment.figures) and experiment.explain:
        views = _explained(experiment, result, jobs, folder, fresh=fresh)
        files.append(folder / clients.FILE)
    if "learning" in experiment.figures:
        learnt = curves.of_run(experiment, result, folder, fresh=fresh, progress=automatic("trainings"))
        comparison = replace(comparison, curves=tuple(learnt))
        files.append(folder / curves.FILE)
    kinds = [kind for kind in experiment.figures if views or kind not in FROM_CLIENTS]
    try:
        return comparison, views, files + draw(comparison, views, kinds, folder), ""
    except MissingExtraError as error:
        return comparison, views, files, str(error)


def _explained(
    experiment: Experiment, result: Result, jobs: int, folder: Path, *, fresh: bool
) -> list[clients.ClientView]:
    """Return what is known client by client: from the file of an earlier run of the same, or by running it."""
    count = min(experiment.explain, result.trials)  # what was not run has no picture
    asked = {"engine": result.engine, "explain": count, "predict_samples": experiment.predict_samples}
    whose = {**identity(experiment, result.seed), **asked}
    if not fresh and clients.belongs(folder, whose):
        return clients.load(folder)
    told = explain(experiment, seed=result.seed, trials=count, engine=result.engine, jobs=jobs)
    return clients.save(folder, told, whose)[1]


def _console(options: Namespace) -> Console:
    return tables.console(stderr=options.json == "-")  # standard output is then the JSON's alone


def _write_json(comparisons: Sequence[Comparison], target: str | None) -> None:
    if target is not None:
        write_json([comparison.to_json() for comparison in comparisons], target)


def write_json(body: Any, target: str) -> None:
    """Write JSON to a file, or to standard output for -."""
    if target == "-":
        plain = (sys.stdout.encoding or "").lower().replace(
            "-", ""
        ) != "utf8"  # what it cannot say is escaped, not lost
        sys.stdout.write(io.to_json(body, ascii_only=plain))
    else:
        io.write_text(Path(target), io.to_json(body), _OTHER_FILE)


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning as one line."""
    print(f"prism-fcp: warning: {message}", file=sys.stderr)


COMMANDS = {"demo": demo, "reproduce": reproduce, "compare": compare, "list": catalogue, "plan": plan}
