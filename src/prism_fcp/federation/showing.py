"""What a run came to, as text: terms, coverage, and a line for every client."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prism_fcp.errors import counted
from prism_fcp.exchange.telling import number, percent, table


def outcome(told: Mapping[str, Any], folder: Path) -> str:
    """Return a finished run in words."""
    lines = [
        f"{told['name']}: {counted(told['rounds'], 'round')}, {told['parameters']:,} parameters, "
        f"{told['num_shared']:,} shared a round, rule {told['rule']}",
        f"protocol: {told['protocol']}",
        f"bytes of payload: {told['bytes_up']:,} up, {told['bytes_down']:,} down",
        "",
    ]
    rows = []
    covered = {one["confidence_level"]: one["coverage"] for one in told["evaluation"]["levels"]}
    for level in told["levels"]:
        radius = level["radius"]
        share = covered.get(level["confidence_level"])
        rows.append(
            (f"{level['confidence_level']:g}", number(radius), "-" if isinstance(radius, str) else number(2 * radius),
             "-" if share is None else percent(share))
        )  # fmt: skip
    head = ("confidence", "radius", "width", f"covers of {told['evaluation']['rows']:,} test rows")
    lines += [table(head, rows, right=[1, 2, 3]), "", clients(told), ""]
    lines += [f"{name}, in training: {reason}" for name, reason in told["training_ledger"].items()]
    for name, reason in {**told["left_out"], **told["refused"]}.items():
        lines.append(reason if reason.startswith(("client", name)) else f"{name}: {reason}")
    lines += [f"a node was turned away: {reason}" for reason in told.get("turned_away", ())]
    lines.append(f"written: {folder}: model, calibration.json, predictor.json, page.html, federation.json")
    return "\n".join(lines)


def clients(told: Mapping[str, Any]) -> str:
    """Return a line for every client."""
    rows = []
    for entry in told["roster"]:
        name = entry["client"]
        verdict = "left out" if name in told["left_out"] else "refused" if name in told["refused"] else "kept"
        if verdict == "kept" and name not in told["kept"]:
            verdict = "not heard of"
        worth = told["evaluation"]["clients"].get(name)
        share = "-" if not worth or not worth["covered"] else percent(worth["covered"][0] / worth["rows"])
        rows.append(
            (name, f"{entry['samples']:,}", f"{entry['answers']:,}", f"{entry['refused']:,}", f"{entry['silent']:,}",
             told["training_ledger"].get(name, "").partition(";")[0], verdict, share)
        )  # fmt: skip
    head = ("client", "rows", "answers", "refused", "silent", "training", "calibration", "covered")
    return table(head, rows, right=[1, 2, 3, 4, 7])


def standing(
    name: str, round_number: int, rounds: int, roster: list[Mapping[str, Any]], folder: Path, words: str = ""
) -> str:
    """Return a run that is not finished in words; `words` name it on a command line."""
    rows = [
        (entry["client"], f"{entry['answers']:,}", f"{entry['refused']:,}", f"{entry['silent']:,}",
         (entry["reasons"] or [""])[-1])
        for entry in roster
    ]  # fmt: skip
    head = ("client", "answers", "refused", "silent", "last trouble")
    return "\n".join(
        [
            f"{name}: after round {round_number} of {rounds}; if it is not running, go on with: "
            f"prism-fcp federate resume{words}",
            "",
            table(head, rows, right=[1, 2, 3]),
            f"in {folder}",
        ]
    )
