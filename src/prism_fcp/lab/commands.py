"""What each command does, once its arguments are parsed: check everything, compute, keep, print."""

from __future__ import annotations

import sys
import warnings
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from rich.console import Console

from prism_fcp import io
from prism_fcp.errors import MissingExtraError, SettingError
from prism_fcp.lab import catalog, clients, tables
from prism_fcp.lab import demo as story
from prism_fcp.lab.compare import Comparison, judge, stored
from prism_fcp.lab.engine import choose_engine
from prism_fcp.lab.figures import FROM_CLIENTS, draw
from prism_fcp.lab.pool import cores
from prism_fcp.lab.progress import automatic
from prism_fcp.lab.run import check_counts, explain
from prism_fcp.lab.run import run as run_experiment
from prism_fcp.lab.spec import Experiment, load

QUICK = 5
CHECK_FAILED = 3


def demo(options: Namespace) -> int:
    """Run a few trials and tell what happened."""
    experiment = story.demo_experiment()
    options = Namespace(trials=None, jobs=None, engine="auto", fresh=True, **vars(options))
    _prepare([experiment], options)
    comparison, views, files, missing = _compute(experiment, options)
    story.tell(comparison, views, files, missing, _console(options))
    _write_json([comparison], options.json)
    return 0


def reproduce(options: Namespace) -> int:
    """Run experiments of the catalogue."""
    names = catalog.NAMES if "all" in options.names else tuple(dict.fromkeys(options.names))
    return _run_all([catalog.named(name) for name in names], options)


def run(options: Namespace) -> int:
    """Run an experiment from a file, or print the example."""
    if options.example:
        sys.stdout.write(catalog.example())
        return 0
    if options.file is None:
        raise SettingError("no experiment given: prism-fcp run FILE.toml; `prism-fcp run --example` prints one to edit")
    return _run_all([load(options.file)], options)


def compare(options: Namespace) -> int:
    """Set stored results beside the paper's; read only."""
    out = _console(options)
    comparisons = [judge(result) for result in stored(options.folder)]
    for comparison in comparisons:
        tables.show(comparison, out)
    _write_json(comparisons, options.json)
    return _check(comparisons, out) if options.check else 0


def catalogue(options: Namespace) -> int:
    """Show the catalogue."""
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
    _write(io.to_json(body), options.json)
    return 0


def _run_all(experiments: Sequence[Experiment], options: Namespace) -> int:
    if options.quick and options.trials is None:
        options.trials = QUICK
    _prepare(experiments, options)
    out, comparisons = _console(options), []
    for experiment in experiments:
        comparison, _, files, missing = _compute(experiment, options)
        comparisons.append(comparison)
        tables.show(comparison, out, files)
        if missing:
            out.print(missing)
    _write_json(comparisons, options.json)
    return _check(comparisons, out) if options.check else 0


def _check(comparisons: Sequence[Comparison], out: Console) -> int:
    failures = [f"{c.result.experiment}: {told}" for c in comparisons for told in c.failures]
    if failures:
        print(f"prism-fcp: check failed: {len(failures)} of the rows that should reproduce do not:", file=sys.stderr)
        for told in failures:
            print(f"  {told}", file=sys.stderr)
        return CHECK_FAILED
    undecided = sum(c.count("undecided") for c in comparisons)
    out.print("check passed" + (f"; {undecided} rows need more trials to be decided" if undecided else ""))
    return 0


def _prepare(experiments: Sequence[Experiment], options: Namespace) -> None:
    """Find out all that can be known to fail before anything is computed or written."""
    warnings.showwarning = _show_warning
    for experiment in experiments:
        trials = experiment.trials if options.trials is None else options.trials
        check_counts(trials, 1 if options.jobs is None else options.jobs)
        choose_engine(options.engine, experiment.setup, trials)
    if options.json not in (None, "-"):
        if Path(options.json).is_dir():
            raise SettingError(f"--json {options.json} is a folder; give a file's name")
        io.check_folder(Path(options.json).parent)
    for experiment in experiments:
        io.check_folder(options.out / experiment.name)


def _compute(
    experiment: Experiment, options: Namespace
) -> tuple[Comparison, list[clients.ClientView], list[Path], str]:
    folder = options.out / experiment.name
    jobs = cores() if options.jobs is None else options.jobs
    result = run_experiment(
        experiment, trials=options.trials, seed=options.seed, jobs=jobs, engine=options.engine, folder=folder,
        fresh=options.fresh, progress=automatic(),
    )  # fmt: skip
    comparison = judge(result)
    files = [folder / name for name in ("result.json", "table.csv", "experiment.toml")]
    views: list[clients.ClientView] = []
    if FROM_CLIENTS & set(experiment.figures) and experiment.explain:
        told = explain(experiment, seed=result.seed, engine=result.engine, jobs=jobs)
        path, views = clients.save(folder, told)
        files.append(path)
    kinds = [kind for kind in experiment.figures if views or kind not in FROM_CLIENTS]
    try:
        return comparison, views, files + draw(comparison, views, kinds, folder), ""
    except MissingExtraError as error:
        return comparison, views, files, str(error)


def _console(options: Namespace) -> Console:
    return tables.console(stderr=options.json == "-")  # standard output is then the JSON's alone


def _write_json(comparisons: Sequence[Comparison], target: str | None) -> None:
    if target is not None:
        _write(io.to_json([comparison.to_json() for comparison in comparisons]), target)


def _write(text: str, target: str) -> None:
    if target == "-":
        sys.stdout.write(text)
    else:
        io.write_text(Path(target), text)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    print(f"prism-fcp: warning: {message}", file=sys.stderr)


COMMANDS = {"demo": demo, "reproduce": reproduce, "run": run, "compare": compare, "list": catalogue}
