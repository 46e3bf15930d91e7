"""In earnest: train with every client's own rows, calibrate by summaries, save, and say what it is worth.

Training is simulated on this machine; calibration goes the way of the files (`prism-fcp summarize`, `calibrate`): each
client counts its scores, and the server sees the counts alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf, isfinite
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from prism_fcp import io
from prism_fcp.calibrate import wire
from prism_fcp.calibrate.beta import clopper_pearson
from prism_fcp.calibrate.filter import FILTERS
from prism_fcp.calibrate.model_hash import model_hash
from prism_fcp.calibrate.own_radius import own_radii_from_scores
from prism_fcp.calibrate.quantile import pooled_quantile
from prism_fcp.calibrate.server import CalibrationServer
from prism_fcp.calibrate.spec import CalibrationSpec
from prism_fcp.calibrate.summary import summarize
from prism_fcp.data.clients import ClientData
from prism_fcp.engines import ENGINES, amount_of_work, choose
from prism_fcp.errors import DataError, DivergedError
from prism_fcp.evaluation import Evaluation
from prism_fcp.exchange import desk
from prism_fcp.exchange.telling import warnings_told
from prism_fcp.fitted import FittedModel, load_model
from prism_fcp.own.project import Project
from prism_fcp.predict import Predictor
from prism_fcp.report.page import write as write_page
from prism_fcp.streams import Role
from prism_fcp.train.loop import Trained
from prism_fcp.types import Choice, FloatArray

FILES: Final = ("model.json", "spec.json", "calibration.json", "predictor.json", "evaluation.json", "page.html")


@dataclass(frozen=True, slots=True)
class Worth:
    """What intervals are worth on all clients' test rows. `without`: clients that have no finite interval."""

    name: str
    coverage: float
    low: float  # Clopper-Pearson, 95 %
    high: float
    width: float | None  # mean; None where nobody has a finite one
    without: int = 0


def fit(project: Project, engine: str, folder: Path, tell: Callable[[str], None]) -> dict[str, Any]:
    """Train, calibrate and evaluate; write the files into `folder` and return what is to be told of them."""
    setup = project.experiment.setup
    method, alone = setup.methods[0], setup.methods[2]
    arms = [arm for arm in (method.arm, alone.arm) if arm is not None]
    federation = replace(setup.federation, num_byzantine=0, attack=Choice("none"))
    chosen = choose(engine, amount_of_work(federation, len(arms)), federation, arms, rows=True)
    drawn = project.drawn
    tell(
        f"training {project.table.model.name} with {len(project.clients)} clients, {federation.rounds} rounds "
        f"({chosen.name} engine)"
    )
    together, apart = ENGINES[chosen.name](drawn, federation, arms)
    for one in (together, apart):
        if one.diverged_at is not None:
            raise DivergedError(
                f"{project.where}: training diverged by round {one.diverged_at} with step_size={federation.step_size:g}"
                "; lower step_size in [training]"
            )
    table = project.ready.table
    model = FittedModel(
        project.table.model, drawn.model, together.global_model.astype(np.float32), table.names, table.target_name,
        project.ready.scaler, (*[project.table.client] * bool(project.table.client), *project.table.drop),
    )  # fmt: skip
    model.save(folder / "model.json")
    tell("calibrating: one summary of scores a client")
    evaluation, warnings = _calibrate(project, folder)
    first = evaluation.levels[0]
    everybody = first.overall
    level = project.calibration.levels[0]
    return {
        "engine": chosen.name,
        "engine_reason": chosen.reason,
        "rounds": federation.rounds,
        "bytes_up_per_round": together.bytes_up_per_round,
        "warnings": warnings,
        "worth": [
            _plain(
                Worth("this predictor", everybody.coverage, everybody.low, everybody.high, _finite(everybody.width))
            ),
            _plain(_alone(drawn, apart, project.clients, level)),
            _plain(_centre(drawn, level)),
        ],
        "worst": {"client": str(first.worst.name), **_shown(first.worst)},
        "clients": [
            {"client": str(one.name), "rows": held, "training": len(own[0]), "calibration": len(own[1]),
             **_shown(one)}
            for one, held, own in zip(first.clients, project.held, project.rows, strict=True)
        ],
    }  # fmt: skip


def _calibrate(project: Project, folder: Path) -> tuple[Evaluation, list[str]]:
    """Calibrate and evaluate the model as it was saved, on raw rows; write the files and the page."""
    rows = project.rows
    model, table = load_model(folder / "model.json"), project.ready.table
    agreed = CalibrationSpec(
        title=project.title, model=model_hash(folder / "model.json"), clients=project.clients,
        confidence_levels=project.calibration.levels,
    )  # fmt: skip
    agreed.save(folder / "spec.json")
    judging = project.calibration.filter.build(FILTERS, "filter")
    with warnings_told() as told, CalibrationServer(agreed, filter=judging) as server:
        for client, (_, own, _) in zip(project.clients, rows, strict=True):
            scores = np.abs(table.target[own] - model.predict(table.features[own]))
            receipt = server.submit(wire.encode(summarize(scores, agreed, client)))
            if not receipt.accepted:
                raise DataError(f"{project.where}: the summary of client {client!r} was refused: {receipt.reason}")
        found = server.finalise()
        body = desk.keep(found, agreed, judging, folder, told, project.calibration.guard)
    predictor = Predictor.load(folder / "predictor.json", model, model_hash=folder / "model.json")
    held: dict[int | str, Any] = {
        client: (table.features[own], table.target[own])
        for client, (_, _, own) in zip(project.clients, rows, strict=True)
    }
    evaluation = predictor.evaluate(held)
    told_of = evaluation.to_json()
    io.write_json(folder / "evaluation.json", "evaluation", told_of)
    write_page(folder / "page.html", body, told_of)
    return evaluation, [*told]


def _alone(drawn: ClientData, apart: Trained, clients: tuple[str, ...], level: str) -> Worth:
    """Return what each client gets that trains and calibrates with its own rows alone."""
    scores, tests = _errors(drawn, apart.local_models)
    radii = own_radii_from_scores(dict(zip(clients, scores, strict=True)), [level])
    return _worth("each client alone", tests, [radii[client][0] for client in clients])


def _centre(drawn: ClientData, level: str) -> Worth:
    """Return what one centre gets that may see all rows: the floor."""
    shape = (len(drawn.byzantine), len(drawn.start))
    scores, tests = _errors(drawn, np.broadcast_to(drawn.oracle(), shape))
    return _worth("one centre with all rows", tests, [pooled_quantile(scores, confidence_level=level)] * len(tests))


def _errors(drawn: ClientData, models: FloatArray) -> tuple[list[NDArray[Any]], list[NDArray[Any]]]:
    scores, tests = drawn.residuals(models, Role.CALIBRATION), drawn.residuals(models, Role.TEST)
    return [drawn.scale * own for own in scores], [drawn.scale * own for own in tests]


def _worth(name: str, tests: list[NDArray[Any]], radii: list[float]) -> Worth:
    inside = sum(int((own <= radius).sum()) for own, radius in zip(tests, radii, strict=True))
    count = sum(map(len, tests))
    finite = [2 * radius for radius in radii if isfinite(radius)]
    low, high = clopper_pearson(inside, count, 0.95)
    width = float(np.mean(finite)) if finite else None
    return Worth(name, inside / count, low, high, width, len(radii) - len(finite))


def _plain(worth: Worth) -> dict[str, Any]:
    return {name: getattr(worth, name) for name in Worth.__slots__}


def _shown(one: Any) -> dict[str, Any]:
    return {"test": one.num_samples, "coverage": one.coverage, "low": one.low, "high": one.high,
            "width": _finite(one.width)}  # fmt: skip


def _finite(value: float) -> float | None:
    return None if value == inf else float(value)


def known(folder: Path, identity: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what was told of the very same project, if its files are all there."""
    path = folder / "summary.json"
    if not path.exists() or not all((folder / name).exists() for name in FILES):
        return None
    body = io.read_json(path, "own-summary")
    return body if body.get("identity") == identity else None
