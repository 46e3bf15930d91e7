"""`prism-fcp gauntlet`: run the cells asked for, keep them, print, draw."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from prism_fcp import io
from prism_fcp.errors import MissingExtraError, SettingError
from prism_fcp.lab import gauntlet_show as show
from prism_fcp.lab import plugins, regimes, tables
from prism_fcp.lab.calibration_commands import run_calibration
from prism_fcp.lab.gauntlet import cells, run
from prism_fcp.lab.pool import cores
from prism_fcp.lab.progress import automatic
from prism_fcp.registry import names as names_of
from prism_fcp.train.aggregate import RULES
from prism_fcp.train.attack import UPDATE_ATTACKS

TRIALS = 20


def gauntlet(options: Namespace) -> int:
    """Run one of the two matrices: all of it, its core, or what was picked."""
    calibration = options.matrix == "calibration"
    name, other = ("protocol", "training") if calibration else ("filter", "calibration")
    if getattr(options, name):
        raise SettingError(f"--{name} belongs to the other matrix: prism-fcp gauntlet {other} --{name} ...")
    return run_calibration(options) if calibration else run_training(options)


def run_training(options: Namespace) -> int:
    """Run attacks on training against protocols, regime by regime."""
    loaded = plugins.load(options.plugin or [], "gauntlet")
    chosen = regimes.full() if options.full else regimes.CORE
    if options.list:
        for what, names in regimes.full()._asdict().items():
            core = getattr(regimes.CORE, what)
            print(f"{what}: {', '.join(name if name in core else f'{name} (--full)' for name in names)}")
        for what, kind, registry in (("attacks", "training attack", UPDATE_ATTACKS), ("protocols", "rule", RULES)):
            offered = [name for name in names_of(registry, kind) if name not in registry]
            if offered:
                print(f"{what} of other packages: {', '.join(offered)}")
        return 0
    picked = cells(
        regimes.Gauntlet(
            _picked(options.regime, chosen.regimes),
            _picked(options.attack, chosen.attacks),
            _picked(options.protocol, chosen.protocols),
        )
    )
    folder = options.out / "gauntlet"
    made = io.check_folder(folder)
    out = tables.console(stderr=options.json == "-")
    try:
        rows = run(
            picked,
            trials=TRIALS if options.trials is None else options.trials,
            seed=1 if options.seed is None else options.seed,
            jobs=cores() if options.jobs is None else options.jobs,
            folder=folder,
            fresh=options.fresh,
            progress=automatic(),
            plugins=loaded,
        )
    finally:
        io.remove_empty(made)
    show.tell(picked, rows, out)
    files = [show.write(picked, rows, folder)]
    try:
        files += show.draw(rows, folder)
    except MissingExtraError as error:
        out.print(str(error))
    out.print("written: " + ", ".join(str(path) for path in files), highlight=False, soft_wrap=True)
    if options.json == "-":
        sys.stdout.write(io.to_json(show.body(picked, rows)))
    elif options.json is not None:
        io.write_text(Path(options.json), io.to_json(show.body(picked, rows)), "give --json another file")
    return 0


def _picked(asked: list[str] | None, usual: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(asked)) if asked else usual


COMMANDS = {"gauntlet": gauntlet}
