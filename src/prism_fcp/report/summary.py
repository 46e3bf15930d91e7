"""The part of the page that is text: in short, who was left out, what can be relied on, and the table of clients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any, Final

from prism_fcp.errors import counted
from prism_fcp.report.words import GAP, number, percent, sentence, text, value

Body = Mapping[str, Any]
NAMED: Final = 10  # clients left out, and refused ones, named in the summary; the rest stand in the table
ORDER: Final = ("left out", "refused", "down-weighted", "kept")
SCORES: Final = {
    "absolute_residual": ("the size of a prediction's error", "in the unit of what is predicted"),
    "normalised_residual": (
        "the size of a prediction's error over its estimated spread",
        "as multiples of that spread",
    ),
}


def summary(calibration: Body, evaluation: Body | None) -> str:
    """Return the opening section's HTML."""
    parts = [
        _opening(calibration),
        _warnings(calibration["warnings"]),
        _radii(calibration),
        _left_out(calibration),
        _reliable(calibration, evaluation),
    ]
    return "\n".join(part for part in parts if part)


def _opening(body: Body) -> str:
    totals = {key: int(value(found) or 0) for key, found in body["totals"].items()}
    what, unit = _score(body)
    told = [f"{totals['kept']:,} count in full" if totals["down_weighted"] else f"{totals['kept']:,} count"]
    for key, words in (("down_weighted", "count for less"), ("left_out", "left out"), ("refused", "refused unread")):
        if totals[key]:
            told.append(f"{totals[key]:,} {words}")
    scores = f"{counted(totals['scores'], 'score').replace(str(totals['scores']), format(totals['scores'], ','))}"
    return (
        f"<p class='lead'>{totals['clients']:,} client{'' if totals['clients'] == 1 else 's'}: {_list(told)}. "
        f"Together they sent {scores}; the result stands on {totals['kept_scores']:,} of them. "
        f"A score is {what}, {unit}.</p>"
    )


def _warnings(warnings: Sequence[str]) -> str:
    if not warnings:
        return ""
    items = "".join(f"<li>{sentence(warning)}</li>" for warning in warnings)
    return f"<div class='note' role='note'><h3>Mind this first</h3><ul>{items}</ul></div>"


def _radii(body: Body) -> str:
    rows = []
    for level in body["levels"]:
        radius, low = value(level["radius"]), value(level["bracket"][0]) if level["bracket"] else None
        width = None if radius is None else 2 * radius
        exact = "no finite radius holds" if radius == inf else f"{number(low)} to {number(radius)}"
        rows.append(
            f"<tr><th scope='row'>{percent(level['confidence_level'], 4)}</th><td>± {number(radius)}</td>"
            f"<td>{number(width)}</td><td>{exact}</td></tr>"
        )
    unit = _score(body)[1]
    return (
        "<h3>The radius: what to add to a prediction, and subtract from it</h3>"
        "<div class='scroll' role='region' aria-label='Radii' tabindex='0'><table class='radii'>"
        f"<caption>Radius and width, {unit}. Binning leaves the exact radius open within the last column; the largest "
        "value is used, so the radius is never too small for that.</caption>"
        "<thead><tr><th scope='col'>Confidence level</th><th scope='col'>Radius</th><th scope='col'>Interval width</th>"
        f"<th scope='col'>Exact radius</th></tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _left_out(body: Body) -> str:
    groups = [
        ("Left out", [row for row in body["clients"] if row["status"] == "left out"]),
        ("Counted for less", [row for row in body["clients"] if row["status"] == "down-weighted"]),
        ("Refused before any comparison", body["refused"]),
    ]
    told = []
    for heading, rows in groups:
        if not rows:
            continue
        items = "".join(
            f"<li><b>{text(row['client'])}</b>: {sentence(_bare(row['reason']))}</li>" for row in rows[:NAMED]
        )
        more = f"<li>and {len(rows) - NAMED:,} more, in <a href='#clients'>the table</a>.</li>" if rows[NAMED:] else ""
        told.append(f"<h4>{heading}: {counted(len(rows), 'client')}</h4><ul>{items}{more}</ul>{_kinds(rows)}")
    if not told:
        return "<h3>Who does not count, and why</h3><p>Nobody: every client that sent a summary counts in full.</p>"
    return "<h3>Who does not count, and why</h3>" + "".join(told)


def _kinds(rows: Sequence[Body]) -> str:
    """Return what kinds of difference these are, each said once, where the audit says so."""
    kinds: dict[str, list[str]] = {}
    for row in rows:
        likeness = row.get("likeness")
        told = likeness.get("sentence") if isinstance(likeness, Mapping) else None
        if isinstance(told, str):
            kinds.setdefault(told, []).append(str(row["client"]))
    items = []
    for told, clients in list(kinds.items())[:NAMED]:
        who = text(clients[0]) if len(clients) == 1 else counted(len(clients), "client")
        items.append(f"<li>{who}: {sentence(told)}</li>")
    more = len(kinds) - NAMED
    rest = f"<li>and {counted(more, 'other kind')}: see each client's details.</li>" if more > 0 else ""
    return f"<p>What the numbers show of it, and what they do not:</p><ul>{''.join(items)}{rest}</ul>" if items else ""


def _reliable(body: Body, evaluation: Body | None) -> str:
    first = body["levels"][0]
    level, radius = percent(first["confidence_level"], 4), value(first["radius"])
    items = []
    if radius is None or radius == inf:
        items.append(
            f"At {level} no finite interval can be promised: there are too few scores, or they lie beyond the bins."
        )
    else:
        items.append(
            f"For new cases like those of the clients that count, prediction ± {number(radius)} holds the true value "
            f"in at least {level} of cases, on average over calibrations like this one, if those clients are honest."
        )
    certificate = body["certificate"]
    sure = percent(certificate["confidence"])
    found = certificate["levels"][0] if certificate["levels"] else {"rows": [], "guards": []}
    rows = [row for row in found["rows"] if row["liars"] == 0] + [row for row in found["rows"] if row["liars"]][:1]
    items += [f"With {sure} confidence: {text(row['sentence']).replace(' %', GAP + '%')}." for row in rows]
    guards = [guard for guard in found["guards"] if value(guard["price"]) not in (None, inf)]
    if guards and radius not in (None, inf):
        best = min(guards, key=lambda guard: abs((value(guard["fraction"]) or 0) - 0.05))
        items.append(
            f"If up to {percent(best['fraction'])} of the scores that count may be lies, use ± {number(best['radius'])}"
            f" instead: intervals {percent((value(best['price']) or 1) - 1)} wider, and the level holds even then."
        )
    if any(row["status"] == "left out" for row in body["clients"]):
        items.append(
            "For clients that were left out nothing is promised. Their own radius, from their own scores alone, stands "
            "in their details; being left out is no proof of bad intent."
        )
    if evaluation is not None and evaluation["levels"]:
        test = evaluation["levels"][0]
        overall = test["overall"]
        items.append(
            f"On {number(overall['num_samples'])} test cases {percent(overall['coverage'])} were covered; the worst "
            f"client is {text(test['worst'])}, with {_worst(test)}."
        )
    return "<h3>What can be relied on</h3><ul>" + "".join(f"<li>{item}</li>" for item in items) + "</ul>"


def _worst(level: Body) -> str:
    for outcome in level["clients"]:
        if outcome["name"] == level["worst"]:
            return f"{percent(outcome['coverage'])} of {number(outcome['num_samples'])}"
    return "an unknown share"


def client_rows(body: Body) -> list[Body]:
    """Return every client, refused ones included, those left out or refused first."""
    refused = [{**row, "status": "refused"} for row in body["refused"]]
    return sorted([*body["clients"], *refused], key=lambda row: ORDER.index(row["status"]))


def client_table(rows: Iterable[Body], body: Body) -> str:
    """Return the client table's HTML, as readers without JavaScript see it."""
    level = percent(body["levels"][0]["confidence_level"], 4)
    heads = (
        "Client",
        "Verdict",
        "Score",
        "Scores",
        "Count for",
        f"Within radius, {level}",
        f"Own radius, {level}",
        "Reason",
    )
    lines = []
    for row in rows:
        cells = [text(row["status"])]
        if row["status"] == "refused":
            cells += [""] * 5
        else:
            cells += [number(row["score"], 3), number(row["size"]), number(row["counted"]), percent(row["within"][0])]
            cells += [number(row["own_radii"][0])]
        numbers = "".join(f"<td>{cell}</td>" for cell in cells)
        lines.append(
            f"<tr><th scope='row'>{text(row['client'])}</th>{numbers}<td>{sentence(_bare(row['reason']))}</td></tr>"
        )
    head = "".join(f"<th scope='col'>{name}</th>" for name in heads)
    return f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody>"


def settings_table(body: Body) -> str:
    """Return the rows of what was agreed, and the hashes."""
    told = [("filter", body["filter"]["name"]), ("measure of the filter", body["filter"]["measure"].rstrip(" ,;"))]
    told += [("threshold of the filter", number(body["filter"]["threshold"]))]
    told += [("hash of the agreement (spec)", body["spec"]), ("hash of the model", body["model"] or "none")]
    for key, found in body["settings"].items():
        if key not in ("title", "model"):
            told.append((str(key).replace("_", " "), _setting(found)))
    return "".join(f"<tr><th scope='row'>{text(key)}</th><td>{text(found)}</td></tr>" for key, found in told)


def _setting(found: Any) -> str:
    if isinstance(found, Mapping):
        return ", ".join(f"{key} {_setting(inner)}" for key, inner in found.items())
    if isinstance(found, list):
        shown = ", ".join(str(item) for item in found[:12])
        return f"{shown}, and {len(found) - 12:,} more" if len(found) > 12 else shown or "not named"
    return "none" if found is None or found == "" else str(found)


def _score(body: Body) -> tuple[str, str]:
    name = str(body["settings"].get("score", ""))
    return SCORES.get(name, (f"a number named {text(name) or 'nowhere'}; larger is worse", "in its own unit"))


def _bare(reason: str) -> str:
    """Return a reason without the status it repeats."""
    for status in ("left out: ", "refused: ", "down-weighted: ", "kept: "):
        reason = reason.removeprefix(status)
    return reason


def _list(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
