"""`prism-fcp gauntlet calibration`: run the matrix, keep it, print it, draw it."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from prism_fcp.errors import MissingExtraError


def run_calibration(options: Namespace) -> int:
    """Run the matrix that the options ask for; nothing is imported before it is needed."""
    from prism_fcp import io
    from prism_fcp.lab import plugins, tables
    from prism_fcp.lab.calibration_gauntlet import LEVEL, NAME, TRIALS, run
    from prism_fcp.lab.calibration_matrix import Matrix, listing
    from prism_fcp.lab.calibration_tables import draw, show
    from prism_fcp.lab.commands import check_target, write_json
    from prism_fcp.lab.pool import cores
    from prism_fcp.lab.progress import automatic

    loaded = plugins.load(options.plugin or [], "gauntlet")
    if options.list:
        print(listing())
        return 0
    matrix = Matrix.chosen(options.full, options.regime or (), options.attack or (), options.filter or (), loaded)
    matrix.built()  # what cannot work is said before anything is computed
    seed = 1 if options.seed is None else options.seed
    folder = options.out / NAME
    check_target(options.json, [folder])
    made = io.check_folder(folder)
    try:
        rows = run(
            matrix,
            trials=TRIALS if options.trials is None else options.trials,
            seed=seed,
            jobs=cores() if options.jobs is None else options.jobs,
            folder=folder,
            fresh=options.fresh,
            progress=automatic(),
        )
        body: dict[str, Any] = {"level": LEVEL, "seed": seed, "rows": [row._asdict() for row in rows]}
        io.write_json(folder / "result.json", NAME, body)
    finally:
        io.remove_empty(made)
    out = tables.console(stderr=options.json == "-")
    show(rows, out)
    files: list[Path] = [folder / "result.json"]
    try:
        files += draw(rows, folder)
    except MissingExtraError as error:
        out.print(str(error))
    out.print(f"kept in {folder}: {', '.join(file.name for file in files)}")
    if options.json is not None:
        write_json(body, options.json)
    return 0
