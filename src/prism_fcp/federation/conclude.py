"""After training: the calibration round, what becomes of the summaries, and the files a run leaves.

The summaries are those of the file workflow, and go through the same server: the counts alone are seen, and every
accepted one is on the disk before anything is concluded from it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
from flwr.serverapp import Grid

from prism_fcp import io
from prism_fcp.calibrate import wire
from prism_fcp.calibrate.filter import FILTERS
from prism_fcp.calibrate.model_hash import model_hash
from prism_fcp.calibrate.server import CalibrationServer
from prism_fcp.calibrate.spec import CalibrationSpec
from prism_fcp.data.standardise import Scaler
from prism_fcp.errors import DataError, SettingError
from prism_fcp.exchange import desk
from prism_fcp.exchange.telling import warnings_told
from prism_fcp.federation.arrays import pack_arrays
from prism_fcp.federation.coordinator import Coordinator
from prism_fcp.federation.events import Events
from prism_fcp.federation.payload import pack_document, pack_values, unpack_document
from prism_fcp.federation.strategy import PrismStrategy
from prism_fcp.fitted import FittedModel
from prism_fcp.models import MODELS
from prism_fcp.report.page import write as write_page
from prism_fcp.types import Choice

MODEL: Final = "model.json"
PARAMETERS: Final = "model.npz"
RESULT: Final = "federation.json"
KIND: Final = "federation-result"
MOST_ROWS: Final = 10**12
LARGEST_ERROR: Final = 1e300  # beyond it a client's claim is none


def save_model(strategy: PrismStrategy, folder: Path) -> tuple[Path, str]:
    """Write the final model, and return its file and hash: one that predicts, or the parameters of a model of yours."""
    coordinator = strategy.coordinator
    choice, units = coordinator.agreement.model, coordinator.units
    final = coordinator.final
    if choice is not None and units is not None:
        names = tuple(str(name) for name in units["names"])
        scaler = Scaler(np.array(units["mean"], np.float64), np.array(units["sd"], np.float64))
        model = choice_model(choice, len(names))
        FittedModel(choice, model, final, names, str(units["target"]), scaler).save(folder / MODEL)
        return folder / MODEL, model_hash(folder / MODEL)
    named = {layer.name: final[layer.start : layer.stop] for layer in coordinator.layers}
    io.write_bytes(folder / PARAMETERS, pack_arrays(named))
    return folder / PARAMETERS, model_hash(named)


def calibrate(strategy: PrismStrategy, grid: Grid, folder: Path) -> dict[str, Any]:
    """Play the calibration round and write calibration.json, predictor.json and the page.

    Paper: Alg. 1, phase 2
    """
    coordinator, events = strategy.coordinator, strategy.events
    agreement, told = coordinator.agreement, coordinator.agreement.calibration
    _, name = save_model(strategy, folder)
    if (
        coordinator.settled.scoring_model == "local"
    ):  # each site's own model is calibrated: the common one must not pass
        name = hashlib.sha256(b"prism-fcp local models\0" + coordinator.experiment).hexdigest()
    spec = CalibrationSpec(
        title=agreement.name, model=name, confidence_levels=told.levels, grid=told.grid, clients=agreement.clients,
        quorum=min(agreement.quorum, len(agreement.clients)),
    )  # fmt: skip
    spec.save(folder / "spec.json")
    chosen = told.filter.build(FILTERS, "filter")
    request = pack_document(
        {
            "experiment": coordinator.experiment.hex(), "spec": spec.to_json(), "rounds": coordinator.round,
            "scoring": coordinator.settled.scoring_model,
        },
        pack_values(coordinator.final),
    )  # fmt: skip
    trust = coordinator.trust if told.signed else None
    with (
        warnings_told() as warned,
        CalibrationServer(
            spec,
            filter=chosen,
            suspects=told.suspects,
            evidence=_evidence(coordinator),
            trust=trust,
            path=folder / "summaries.sqlite",
        ) as server,  # fmt: skip
    ):
        held = set(server.clients)
        asked = {node: request for node, k in strategy.nodes.items() if coordinator.name(k) not in held}
        for node, reply in strategy.ask(grid, "query.calibrate", asked, wire.MOST_BYTES).items():
            _submit(strategy, server, strategy.nodes[node], reply, events)
        found = server.finalise()
        body = desk.keep(found, spec, chosen, folder, warned, told.guard)
    events.tell(
        "calibrated", clients=len(body["clients"]), left_out=body["totals"]["left_out"], refused=len(body["refused"]),
        radii={level["confidence_level"]: level["radius"] for level in body["levels"]},
    )  # fmt: skip
    write_page(folder / "page.html", body)
    return body


def evaluate(strategy: PrismStrategy, grid: Grid, body: Mapping[str, Any]) -> dict[str, Any]:
    """Ask every client how many of its test rows the intervals cover; each speaks for itself alone."""
    coordinator = strategy.coordinator
    levels = [level for level in body["levels"] if not isinstance(level["radius"], str)]  # "inf" covers everything
    request = pack_document(
        {"experiment": coordinator.experiment.hex(), "radii": [float(level["radius"]) for level in levels]}
    )
    asked = {node: request for node in strategy.nodes} if levels else {}
    clients: dict[str, Any] = {}
    for node, reply in strategy.ask(grid, "query.evaluate", asked).items():
        name = coordinator.name(strategy.nodes[node])
        try:
            clients[name] = _counted(reply, name, len(levels))
        except DataError as error:
            strategy.events.tell("refused", client=name, what="evaluate", reason=str(error))
    kept = {row["client"] for row in body["clients"] if row["status"] != "left out"}
    counting = [one for name, one in clients.items() if name in kept]
    rows = sum(one["rows"] for one in counting)
    pooled = [
        {
            "confidence_level": level["confidence_level"], "radius": level["radius"],
            "coverage": sum(one["covered"][k] for one in counting) / rows if rows else None,
        }
        for k, level in enumerate(levels)
    ]  # fmt: skip
    strategy.events.tell("evaluated", rows=rows, coverage={one["confidence_level"]: one["coverage"] for one in pooled})
    return {"levels": pooled, "rows": rows, "clients": clients}


def conclude(
    strategy: PrismStrategy, folder: Path, body: Mapping[str, Any], worth: Mapping[str, Any]
) -> dict[str, Any]:
    """Write and return what the run came to: terms, who took part and who did not and why, bytes, coverage."""
    coordinator = strategy.coordinator
    ledger = coordinator.ledger
    terms = coordinator.settled
    masks = terms.arm.masks
    clients = coordinator.agreement.clients
    reasons = (
        {}
        if ledger is None
        else {clients[k]: why.replace(f"client {k}: ", "", 1) for k, why in ledger.reasons().items()}
    )
    told = {
        "name": coordinator.agreement.name, "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "agreement": coordinator.agreement.to_json(), "protocol": terms.why, "rule": terms.arm.rule.name,
        "parameters": len(coordinator.model), "num_shared": masks.num_shared, "scoring_model": terms.scoring_model,
        "rounds": coordinator.round,
        "bytes_up": sum(entry.bytes_up for entry in coordinator.roster.entries),
        "bytes_down": sum(entry.bytes_down for entry in coordinator.roster.entries),
        "roster": [{name: row[name] for name in row if name != "node"} for row in coordinator.roster.to_json()],
        "turned_away": strategy.turned_away(), "training_ledger": reasons,
        "levels": [{key: level[key] for key in ("confidence_level", "radius")} for level in body["levels"]],
        "kept": [row["client"] for row in body["clients"] if row["status"] != "left out"],
        "left_out": {row["client"]: row["reason"] for row in body["clients"] if row["status"] == "left out"},
        "refused": {row["client"]: row["reason"] for row in body["refused"]},
        "evaluation": worth,
    }  # fmt: skip
    io.write_json(folder / RESULT, KIND, told)
    return told


def choice_model(choice: Choice, features: int) -> Any:
    """Return the package's model of this name for so many features."""
    if choice.name not in MODELS:
        raise SettingError(f"model {choice.name!r} is none of this package's; bring sites of your own for it")
    return MODELS[choice.name](features, **choice.options)


def _evidence(coordinator: Coordinator) -> dict[int | str, float]:
    """Return what training's ledger holds against clients, for filters that weigh it; the default does not."""
    if coordinator.ledger is None:
        return {}
    return {coordinator.name(int(client)): told for client, told in coordinator.ledger.suspicion().items()}


def _submit(
    strategy: PrismStrategy, server: CalibrationServer, client: int, reply: bytes | DataError, events: Events
) -> None:
    coordinator = strategy.coordinator
    name, receipt = coordinator.name(client), None
    if isinstance(reply, DataError):
        reason = str(reply)
    else:
        try:
            claimed = wire.decode(reply).client
            if claimed != name:
                raise DataError(f"its summary says it is {claimed!r:.60}'s; a client speaks for itself alone")
            receipt = server.submit(reply)
            reason = "" if receipt.accepted else receipt.reason
        except DataError as error:
            reason = str(error)
    if reason:
        if receipt is None:
            server.refuse(name, reason)
        coordinator.roster.refuse(client, coordinator.round, f"calibration: {reason}")
        events.tell("refused", client=name, what="calibrate", reason=reason)


def _counted(reply: bytes | DataError, name: str, levels: int) -> dict[str, Any]:
    """Return what a client says of its test rows, checked."""
    if isinstance(reply, DataError):
        raise reply
    told, _ = unpack_document(reply, f"{name}: evaluation")
    covered, rows, error = told.get("covered"), told.get("rows"), told.get("error")
    if type(rows) is not int or not 0 < rows <= MOST_ROWS:
        raise DataError(f"{name}: evaluation: rows={rows!r:.40}; must lie in 1..{MOST_ROWS:,}")
    if not isinstance(covered, list) or len(covered) != levels:
        raise DataError(f"{name}: evaluation: covered={covered!r:.60}; must be a count for each of {levels} levels")
    if not all(type(one) is int and 0 <= one <= rows for one in covered):
        raise DataError(f"{name}: evaluation: covered={covered!r:.60} of {rows} rows cannot be")
    if not isinstance(error, float | int) or isinstance(error, bool) or not 0 <= error <= LARGEST_ERROR:
        raise DataError(f"{name}: evaluation: error={error!r:.40}; must be a number in 0..{LARGEST_ERROR:g}")
    return {"covered": covered, "rows": rows, "error": float(error)}
