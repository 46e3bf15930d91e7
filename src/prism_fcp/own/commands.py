"""`prism-fcp run my.toml`: an experiment goes to the lab; a project is fitted, saved and drilled here."""

from __future__ import annotations

import sys
import time
import warnings
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import prism_fcp
from prism_fcp import io
from prism_fcp.errors import MissingExtraError, SettingError, did_you_mean
from prism_fcp.lab import commands, sources, tables
from prism_fcp.lab.compare import Comparison, judge
from prism_fcp.lab.figures import draw, paint
from prism_fcp.lab.plots_partition import holdings
from prism_fcp.lab.pool import cores
from prism_fcp.lab.progress import automatic
from prism_fcp.lab.run import Interrupted, check_counts, check_kept, chosen_engine
from prism_fcp.lab.run import run as run_experiment
from prism_fcp.own import telling
from prism_fcp.own.fit import FILES, fit, known
from prism_fcp.own.project import Project, is_project, read
from prism_fcp.own.staging import staged
from prism_fcp.tables import origin

EXAMPLES = ("experiment", "data")
KEPT = (*FILES, "summary.json", "partition.png", "partition.svg")


def run(options: Namespace) -> int:
    """Run an experiment or a project from a file, or print an example of either."""
    if options.example is not None:
        if options.example not in EXAMPLES:
            raise SettingError(f"--example {options.example!r}{did_you_mean(options.example, EXAMPLES)}")
        if options.example == "data":
            sys.stdout.write(io.read_text(Path(__file__).parent / "example.toml"))
            return 0
        return commands.print_example()
    document = {} if options.file is None else io.read_toml(options.file)
    return _run_project(document, options) if is_project(document) else commands.run(options)


def _run_project(document: Mapping[str, Any], options: Namespace) -> int:
    warnings.showwarning = commands.show_warning
    if options.check:
        raise SettingError("--check: nothing is published of your own data; leave it out")
    if options.data is not None:
        raise SettingError("--data names the superconductivity file; this project names its own table: data = ...")
    if options.seed is not None:
        document = {**document, "seed": options.seed}
    project = read(document, str(options.file))
    trials = commands.QUICK if options.quick else max(1, project.drill.trials)
    trials = trials if options.trials is None else options.trials
    check_counts(trials, 1 if options.jobs is None else options.jobs)
    chosen_engine(project.experiment, options.engine, trials)
    folder: Path = options.out / project.name
    if project.drill.num_byzantine and not options.fresh:
        check_kept(project.experiment, options.engine, trials, folder / "drill")
    if not project.drill.num_byzantine and (folder / "drill").exists():
        raise SettingError(
            f"{folder / 'drill'} holds the drill of an earlier project, and this one has none; give another --out, or "
            "remove that folder"
        )
    commands.check_target(options.json, [folder, folder / "drill"], [options.file, Path(project.table.name)], KEPT)
    made = [] if options.json in (None, "-") else io.check_folder(Path(options.json).parent, "give --json another file")
    made = io.check_folder(folder) + made
    out = tables.console(stderr=options.json == "-")
    try:
        body, files = _fitted(project, options, folder)
        telling.show(project, body, folder, files, out)
        comparison = _drilled(project, options, folder / "drill", trials) if project.drill.num_byzantine else None
    finally:
        io.remove_empty(made)
    if comparison is not None:
        telling.show_drill(project, comparison, folder, out)
    if options.json is not None:
        drill = None if comparison is None else comparison.to_json()
        commands.write_json({**body, "drill": drill}, options.json)
    return 0


def _fitted(project: Project, options: Namespace, folder: Path) -> tuple[dict[str, Any], list[Path]]:
    """Return what is to be told of the predictor: kept from an earlier run of the very same, or made now."""
    files = [folder / name for name in FILES]
    identity = {
        "settings": project.fingerprint, "seed": project.experiment.seed, "engine": options.engine,
        "version": prism_fcp.__version__, "code": sources.digest(project.experiment.plugins),
        "data": origin(project.table).rsplit(": ", 1)[-1],
    }  # fmt: skip
    pictures = [folder / f"partition.{suffix}" for suffix in ("png", "svg")]
    kept = None if options.fresh else known(folder, identity)
    if kept is not None:
        print(f"{project.name}: fitted before; kept", file=sys.stderr)
        return kept, files + [path for path in pictures if path.exists()]
    begun = time.monotonic()
    with staged(folder) as place:
        body = fit(project, options.engine, place, lambda text: print(f"{project.name}: {text}", file=sys.stderr))
        body = {
            "identity": identity, "title": project.title, "settings": project.settings,
            "chosen": project.chosen.sentence, "seconds": time.monotonic() - begun, **body,
        }  # fmt: skip
        try:
            files += [folder / path.name for path in paint({"partition": lambda one: _holdings(one, project)}, place)]
        except MissingExtraError as error:
            body["warnings"].append(str(error))
        io.write_json(place / "summary.json", "own-summary", body)
    return body, files


def _holdings(figure: Any, project: Project) -> None:
    table, held = project.ready.table, [np.concatenate(own) for own in project.rows]
    holdings(figure, project.title, project.clients, held, table.target, table.target_name)


def _drilled(project: Project, options: Namespace, folder: Path, trials: int) -> Comparison:
    jobs = cores() if options.jobs is None else options.jobs
    experiment = project.experiment
    result = run_experiment(
        experiment, trials=trials, jobs=jobs, engine=options.engine, folder=folder, fresh=options.fresh,
        progress=automatic(),
    )  # fmt: skip
    comparison = judge(result)
    try:
        draw(comparison, [], experiment.figures, folder)
    except MissingExtraError:
        pass  # said before
    except KeyboardInterrupt as error:
        raise Interrupted(experiment.name, result.trials, result.trials, folder) from error
    return comparison


COMMANDS = {"run": run}
