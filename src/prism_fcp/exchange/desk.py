"""The coordinator's side: agree, trust, collect, conclude, explain."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from prism_fcp import io
from prism_fcp.calibrate import wire
from prism_fcp.calibrate.calibration import Calibration
from prism_fcp.calibrate.filter import FILTERS
from prism_fcp.calibrate.grid import AnyGrid, LinearGrid, LogGrid
from prism_fcp.calibrate.judgement import Filter
from prism_fcp.calibrate.model_hash import model_hash
from prism_fcp.calibrate.server import CalibrationServer, Receipt
from prism_fcp.calibrate.span import RANGES
from prism_fcp.calibrate.spec import CalibrationSpec, level_text, read_time
from prism_fcp.calibrate.trust import Trust
from prism_fcp.data.columns import open_columns
from prism_fcp.errors import DataError, SettingError, counted, did_you_mean
from prism_fcp.exchange import document
from prism_fcp.exchange.site import SUFFIX
from prism_fcp.exchange.telling import number, percent, reading, say, table, warnings_told, within
from prism_fcp.predict import Predictor, precomputed
from prism_fcp.report.page import write as write_page
from prism_fcp.types import Choice

ROWS = 60  # clients shown before the rest is summed up


def spec(options: Namespace) -> int:
    """Write the agreement."""
    made = CalibrationSpec(
        title=options.title, model=hash_of(options.model), grid=_grid(options),
        confidence_levels=tuple(level_text(level) for level in options.level or ["0.9"]), score=options.score,
        round=options.round, clients=tuple(options.client or ()), quorum=options.quorum, deadline=options.deadline,
        late=options.late, most_scores=options.most_scores, cap=options.cap, least_count=options.least_count,
        cells=options.cells, correction=options.correction,
    )  # fmt: skip
    made.save(options.out)
    resolution = made.grid.resolution
    fine = "" if resolution is None else f", radii at most {100 * resolution:.2g} % above the exact ones"
    text = (
        f"{options.out}: {made.title}, round {made.round}, confidence {', '.join(made.confidence_levels)}\n"
        f"{len(made.grid.edges) - 1:,} bins{fine}; model {made.model[:12]}...; spec {made.hash[:12]}...\n"
        "send this file to every client; who has another one will be refused"
    )
    say(options, text, {"file": str(options.out), "hash": made.hash, **made.to_json()})
    return 0


def trust(options: Namespace) -> int:
    """Show or change a trust folder."""
    now = datetime.now(UTC)
    if options.until is not None and options.rotate is None:
        raise SettingError("--until goes with --rotate")
    if options.add:
        known = Trust.add(options.folder, *options.add)
    elif options.rotate:
        client, line = options.rotate
        known = Trust.rotate(options.folder, client, line, read_time(options.until) if options.until else now)
    elif options.revoke:
        known = Trust.revoke(options.folder, options.revoke, options.why, now)
    else:
        known = Trust.load(options.folder)
    rows, body = [], []
    for client, keys in sorted(known.clients.items()):
        for key in keys:
            gone = known.revoked.get(key.fingerprint)
            state = f"revoked: {gone.reason}" if gone else key.line.split(" ", 2)[2] if key.line.count(" ") > 1 else ""
            rows.append((client, key.fingerprint, state))
            body.append({"client": client, "fingerprint": key.fingerprint, "line": key.line, "revoked": bool(gone)})
    say(options, table(("client", "key", ""), rows), body)
    return 0


def calibrate(options: Namespace) -> int:
    """Submit every summary, conclude, and write calibration.json, predictor.json and receipts.json."""
    agreed = CalibrationSpec.load(options.spec)
    known = None if options.trust is None else Trust.load(options.trust)
    chosen = _filter(options)
    files = list(_summaries(options.summaries))
    made = io.check_folder(options.out)
    try:
        with (
            warnings_told() as told,
            CalibrationServer(
                agreed, filter=chosen, suspects=options.suspects, trust=known, path=options.state
            ) as desk,
        ):
            receipts = [(path, desk.submit(io.read_bytes(path, wire.MOST_BYTES))) for path in files]
            _tell_refused(receipts)
            found = desk.finalise()
            awaited = desk.awaited
        body = keep(found, agreed, chosen, options.out, told, options.guard)
        io.write_json(
            options.out / "receipts.json", "receipts",
            {"receipts": [{"file": path.name, **receipt.to_json()} for path, receipt in receipts]},
        )  # fmt: skip
    finally:
        io.remove_empty(made)
    say(options, _outcome(body, options.out, awaited), body)
    return 0


def keep(
    found: Calibration, agreed: CalibrationSpec, chosen: Filter, folder: Path, told: list[str], guard: str | None = None
) -> dict[str, Any]:
    """Write calibration.json and predictor.json, and return what the first holds; `told` are warnings on the way."""
    body = document.describe(found, agreed, chosen, datetime.now(UTC), warnings=told, guard_by=guard)
    document.save(folder / "calibration.json", body)
    radii = found if guard is None else document.guarded(found, guard)
    told_of = {"title": agreed.title, "round": str(agreed.round), "version": str(found.version)}
    predictor = Predictor(sigma=precomputed if agreed.score == "normalised_residual" else None)
    predictor = predictor.conformalize(
        radii, per_client=True, model=agreed.model, spec_hash=agreed.hash, provenance=told_of
    )
    predictor.save(folder / "predictor.json")
    return body


def withdraw(options: Namespace) -> int:
    """Take an accepted summary back."""
    if not options.state.exists():
        raise DataError(f"{options.state}: no such file; give the one that calibrate --state wrote")
    with CalibrationServer(CalibrationSpec.load(options.spec), path=options.state) as desk:
        desk.withdraw(options.client, options.why)
    text = f"{options.client}: its summary was taken back; it may send another"
    say(options, text, {"client": options.client, "why": options.why})
    return 0


def audit(options: Namespace) -> int:
    """Tell why clients were judged as they were."""
    body = document.load(options.calibration)
    named = {row["client"]: row for row in body["clients"]}
    refused = {row["client"]: row["reason"] for row in body["refused"]}
    for client in options.clients:
        if client not in named and client not in refused:
            raise SettingError(
                f"no client {client!r} in {options.calibration}{did_you_mean(client, [*named, *refused])}"
            )
    if not options.clients:
        say(options, f"{_verdicts(body, len(named))}\n\n{_certificate(body)}", body)
        return 0
    told = [
        _story(named[client], body) if client in named else f"{client}: {refused[client]}" for client in options.clients
    ]
    say(
        options,
        "\n\n".join(told),
        [named.get(client, {"client": client, "reason": refused.get(client)}) for client in options.clients],
    )
    return 0


def report(options: Namespace) -> int:
    """Write the page."""
    body = document.load(options.calibration)
    evaluation = (
        None if options.evaluation is None else io.read_json(options.evaluation, "evaluation", remedy="evaluate again")
    )
    write_page(options.out, body, evaluation)
    size = options.out.stat().st_size
    say(
        options,
        f"{options.out}: {size / 1e6:.2g} MB; opens in any browser, without a network",
        {"file": str(options.out), "bytes": size},
    )
    return 0


def hash_of(model: str) -> str:
    """Return the hash of a model's file, or the 64 hex digits given in its place."""
    path = Path(model)
    digits = len(model) == 64 and not set(model.lower()) - set("0123456789abcdef")
    return model_hash(model if digits and not path.exists() else path)


def _grid(options: Namespace) -> AnyGrid:
    if options.grid == "log":
        if options.upper is not None or options.pilot:
            raise SettingError("--upper and --pilot are for --grid linear; the log grid needs no range")
        return LogGrid(options.steps, options.lowest, options.highest)
    if options.grid != "linear":
        raise SettingError(f"unknown grid {options.grid!r}{did_you_mean(options.grid, ['log', 'linear'])}")
    if (options.upper is None) == (not options.pilot):
        raise SettingError("--grid linear needs --upper NUMBER, or --pilot FILE ... to find it")
    if options.upper is not None:
        return LinearGrid(options.upper, options.bins, options.overflow)
    pilot = []
    for path in options.pilot:
        with reading(path) as progress:
            pilot.append(
                np.concatenate([np.asarray(own, np.float64) for (own,) in open_columns(path, progress=progress)])
            )
    found = LinearGrid.measured(pilot, Choice(options.range).build(RANGES, "range"), options.bins)
    return LinearGrid(found.upper, found.bins, found.overflow or options.overflow)


def _filter(options: Namespace) -> Filter:
    name = options.filter or ("known_count" if options.suspects is not None else document.DEFAULT_FILTER)
    if options.suspects is not None and name != "known_count":
        raise SettingError(f"--suspects goes with the filter known_count, not with {name}")
    chosen: Filter = Choice(name).build(FILTERS, "filter")
    return chosen


def _summaries(places: list[Path]) -> Iterator[Path]:
    for place in places:
        if place.is_dir():
            inside = [path for path in io.listing(place) if path.name.endswith(SUFFIX)]
            if not inside:
                raise DataError(f"{place}: no *{SUFFIX} in this folder")
            yield from inside
        else:
            yield place


def _tell_refused(receipts: list[tuple[Path, Receipt]]) -> None:
    for path, receipt in receipts:
        if not receipt.accepted:
            print(f"prism-fcp: refused {path.name}: {receipt.reason}", file=sys.stderr)


def _outcome(body: Mapping[str, Any], folder: Path, awaited: tuple[str, ...]) -> str:
    totals = body["totals"]
    lines = [
        f"{body['title']}, round {body['round']}, version {body['version']}",
        f"{counted(totals['clients'], 'client')}: {totals['kept'] + totals['down_weighted']} count, "
        f"{totals['left_out']} left out, {totals['refused']} refused; {totals['kept_scores']:,} scores count",
    ]
    if awaited:
        lines.append(f"not heard of: {', '.join(awaited[:10])}{' ...' if len(awaited) > 10 else ''}")
    lines.append("")
    rows = []
    for level in body["levels"]:
        low, high = level["bracket"]
        rows.append(
            (
                f"{level['confidence_level']:g}",
                number(level["radius"]),
                number(_double(level["radius"])),
                f"{number(low)} to {number(high)}",
            )
        )
    lines += [table(("confidence", "radius", "width", "exact radius lies in"), rows, right=[1, 2]), ""]
    if body["guarded"]:
        allowed = [f"{number(one['radius'])} ({one['confidence_level']:g})" for one in body["guarded"]["levels"]]
        share = percent(body["guarded"]["fraction"])
        lines += [f"guarded against liars with {share} of the kept mass: the predictor uses {', '.join(allowed)}", ""]
    lines += [_verdicts(body, ROWS), "", _certificate(body), ""]
    lines.append(f"written: {folder / 'calibration.json'}, predictor.json, receipts.json")
    lines.append(f"next: prism-fcp report {folder / 'calibration.json'} -o page.html")
    return "\n".join(lines)


def _double(radius: Any) -> Any:
    return radius if isinstance(radius, str) else 2 * radius


def _verdicts(body: Mapping[str, Any], most: int) -> str:
    order = {"left out": 0, "down-weighted": 1, "kept": 2}
    ranked = sorted(body["clients"], key=lambda row: (order[row["status"]], -(row["score"] or 0)))
    rows = [
        (
            row["client"], row["status"], number(row["score"], 3), number(row["margin"], 2), f"{row['size']:,}",
            f"{row['counted']:,.6g}", percent(row["within"][0]), number(row["without"][0]),
        )
        for row in ranked[:most]
    ]  # fmt: skip
    head = ("client", "verdict", "score", "margin", "scores", "counts for", "within radius", "radius without/with it")
    lines = [table(head, rows, right=range(2, 8))]
    if len(ranked) > most:
        lines.append(f"... and {counted(len(ranked) - most, 'client')} more; prism-fcp audit shows all")
    told = [f"{row['client']}: {row['reason']}" for row in ranked if row["status"] != "kept"]
    told += [f"{row['client']}: {row['likeness']['sentence']}" for row in ranked if row["likeness"]]
    told += [f"{row['client']}: {row['reason']}" for row in body["refused"]]
    return "\n".join(lines + ([""] + told[: 2 * ROWS] if told else []))


def _certificate(body: Mapping[str, Any]) -> str:
    certificate, level = body["certificate"], body["certificate"]["levels"][0]
    told = f"confidence {certificate['confidence']:g}, level {level['confidence_level']:g}"
    lines = [f"if undetected liars are among the kept ({told}):"]
    for row in level["rows"]:
        who = f"{row['liars']} ({percent(row['fraction'])} of the mass)"
        low, high = row["kept"]
        spread = (
            "vacuous: nothing can be said"
            if row["vacuous"]
            else f"{percent(low)} to {percent(high)}  {within(low, high)}"
        )
        lines.append(f"  {who:>22}  honest kept clients are covered {spread}")
    prices = [f"{percent(one['fraction'])}: radius {number(one['radius'])}" for one in level["guards"]]
    lines.append("radii that hold even then, by the share that may lie: " + "; ".join(prices))
    lines += [sentence for sentence in certificate["paper"].values()]
    return "\n".join(lines)


def _story(row: Mapping[str, Any], body: Mapping[str, Any]) -> str:
    lines = [
        f"{row['client']}: {row['reason']}",
        f"  {row['size']:,} scores, counted as {row['counted']:,.6g}; margin {number(row['margin'], 3)}",
    ]
    for driver in row["drivers"]:
        lines.append(
            f"  scores from {number(driver['low'])} to {number(driver['high'])}: {percent(driver['share'])} of its "
            f"own, {percent(driver['typical'])} of a typical client's; {percent(driver['part'])} of the distance"
        )
    verb = "with it" if row["status"] == "left out" else "without it"
    for place, level in enumerate(body["levels"]):
        lines.append(
            f"  confidence {level['confidence_level']:g}: {percent(row['within'][place])} of its scores lie within the "
            f"radius {number(level['radius'])}; {verb} the radius would be {number(row['without'][place])}; from its "
            f"own scores alone {number(row['own_radii'][place])}"
        )
    if row["likeness"]:
        lines.append(f"  {row['likeness']['sentence']}")
    return "\n".join(lines)
