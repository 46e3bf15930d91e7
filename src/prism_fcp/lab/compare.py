"""Ours beside the paper's: reads stored results and published values, and never recomputes.

A row is `reproduced` when every published number is met within its tolerance. A number the paper gives but nobody
can get from its settings (`known`), that lies at the edge of what its settings give (`unsettled`) or that belongs to
another row (`misprint`) is excused, if ours then meets another target: the `reading`, from an independent
implementation, or where there is none the `measured`, our own at 100 trials, which keeps ours from moving unseen.
With fewer trials than the paper, a miss that noise explains is `undecided`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import erfc, inf, isfinite, sqrt
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from prism_fcp import io
from prism_fcp.errors import OutputError
from prism_fcp.lab.catalog import NAMES, named
from prism_fcp.lab.result import Result, Row, Spread
from prism_fcp.lab.spec import told_share
from prism_fcp.learning import Curve

Status: TypeAlias = Literal["", "reproduced", "undecided", "not settled", "known", "differs"]

_HERE: Final = Path(__file__).parent / "paper_values"
NUMBERS: Final = {  # field -> name in messages, whether its tolerance is a part of the target
    "coverage": ("coverage", False),
    "width": ("width", True),
    "a_posteriori_mse_db": ("MSE", False),
    "true_positives": ("found", False),
    "false_positives": ("wrongly accused", False),
    "quantile_deviation": ("deviation", True),
    "injected_energy": ("energy", True),
    "test_mse_db": ("test MSE", False),
    "missed": ("missed", False),
}
NOISE: Final = 3.0  # standard errors
EXCUSES: Final = ("known", "unsettled", "misprint")


@dataclass(frozen=True, slots=True)
class Judged:
    """A row of ours with what was published about it."""

    row: Row
    paper: Mapping[str, Any]  # published numbers, `reading` and `measured` beside them; empty: nothing
    status: Status
    verdict: str


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence of the paper that a number decides."""

    text: str
    ours: float | None
    paper: float | None
    status: Status
    verdict: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """A result with every row judged."""

    result: Result
    source: str
    rows: tuple[Judged, ...]
    statements: tuple[Statement, ...]
    by_reading: bool = False  # the paper's settings are a fit: our reading's widths stand beside the paper's
    curves: tuple[Curve, ...] = ()  # of trial 0, where a picture of learning was asked for
    changed: bool = False  # of a packaged experiment's name but with other settings: nothing is compared

    @property
    def failures(self) -> list[str]:
        """Return what should reproduce and does not, one line each."""
        told = [
            f"{j.row.attack_label}, {j.row.label} ({told_share(j.row.share)}): {j.verdict}"
            for j in self.rows
            if j.status == "differs"
        ]
        return told + [f"{s.text}: {s.verdict}" for s in self.statements if s.status == "differs"]

    def count(self, status: Status) -> int:
        """Return how many rows have this status."""
        return sum(judged.status == status for judged in self.rows)

    def to_json(self) -> dict[str, Any]:
        """Return the object that `--json` writes for an experiment."""
        result = self.result
        return {
            "experiment": result.experiment,
            "trials": result.trials,
            "seed": result.seed,
            "seconds": round(result.seconds, 3),
            "cpu_seconds": round(result.cpu_seconds, 3),
            "engine": result.engine,
            "versions": dict(result.versions),
            "rows": [_row_json(judged) for judged in self.rows],
            "statements": [
                {"text": s.text, "ours": s.ours, "paper": s.paper, "verdict": s.verdict} for s in self.statements
            ],
        }


def judge(result: Result) -> Comparison:
    """Set every row beside what the paper published of it.

    Only settings equal to the packaged experiment's can be compared; a changed copy has nothing published.
    """
    values = published(result.experiment, result.fingerprint)
    if values is None:
        rows = tuple(Judged(row, {}, "", "") for row in result.rows)
        return Comparison(result, "", rows, (), changed=_values_file(result.experiment).exists())
    entries = {_entry_key(entry): entry for entry in values.get("rows", [])}
    few = result.trials < values.get("trials", 0)
    rows = tuple(_judge_row(row, entries.get(row.key), values, few) for row in result.rows)
    statements = tuple(_judge_statement(statement, result.rows, few) for statement in values.get("statements", []))
    return Comparison(result, values["source"], rows, statements, values.get("by_reading", False))


def published(name: str, fingerprint: str) -> dict[str, Any] | None:
    """Return what the paper published of an experiment with these settings."""
    path = _values_file(name)
    if name not in NAMES or not path.exists() or named(name).fingerprint != fingerprint:
        return None
    return io.read_toml(path)


def stored(folder: Path) -> list[Result]:
    """Return the results in `folder`: its own, or those of the folders in it, in the catalogue's order."""
    if not folder.is_dir():
        raise OutputError(f"cannot read {folder}: no such folder; give the --out of a run, such as prism-results")
    if (folder / "result.json").exists():
        return [Result.load(folder)]
    found = [Result.load(path.parent) for path in sorted(folder.glob("*/result.json"))]
    if not found:
        raise OutputError(
            f"{folder} holds no finished result (no result.json); run `prism-fcp reproduce NAME --out {folder}` first"
        )
    order = {name: place for place, name in enumerate(NAMES)}
    return sorted(found, key=lambda result: (order.get(result.experiment, len(order)), result.experiment))


def _values_file(name: str) -> Path:
    return _HERE / f"{name}.toml"


def _judge_row(row: Row, entry: Mapping[str, Any] | None, values: Mapping[str, Any], few: bool) -> Judged:
    if entry is None:
        return Judged(row, {}, "", "")
    paper = {key: entry[key] for name in NUMBERS for key in (name, f"{name}_pm") if key in entry}
    paper |= {kind: dict(entry[kind]) for kind in ("reading", "measured") if kind in entry}
    tolerances = {
        **values["tolerance"], **values.get("tolerance_by_attack", {}).get(row.attack, {}),
        **entry.get("tolerance", {}),
    }  # fmt: skip
    words: dict[str, tuple[Status, str]] = {  # the first that applies is the row's
        "differs": ("differs", "differs: {}"),
        "undecided": ("undecided", f"undecided at {row.trials} trials: {{}}"),
        "unsettled": ("not settled", "not settled: {}; our reading or measurement is met"),
        "known": ("known", "not reproduced (known: {}); our reading or measurement is met"),
        "misprint": ("reproduced", "reproduced ({})"),
    }
    told: dict[str, dict[str, list[str]]] = {kind: {} for kind in words}
    for name in NUMBERS:
        for kind, reason, gap in _findings(name, row, entry, tolerances, few):
            told[kind].setdefault(reason, []).append(gap)
    for kind, reasons in told.items():
        if reasons:
            status, text = words[kind]
            return Judged(row, paper, status, text.format(_reasons(reasons)))
    return Judged(row, paper, "reproduced", "reproduced")


def _findings(
    name: str, row: Row, entry: Mapping[str, Any], tolerances: Mapping[str, Any], few: bool
) -> Iterator[tuple[str, str, str]]:
    """Yield (kind, reason, gap) for what is to be said of one number; nothing where it comes out as published."""
    ours, error = number(row, name)
    if name in entry:
        excuse = next((kind for kind in EXCUSES if name in entry.get(kind, {})), None)
        missed, noisy = _miss(name, ours, error, entry[name], tolerances[name])
        gap = _against(name, ours, entry[name])
        if excuse and (missed or excuse == "unsettled"):
            yield excuse, entry[excuse][name], gap
        elif missed:
            yield "undecided" if few and noisy else "differs", "", gap
        if not (excuse and missed):
            return
    for kind, whose in (("reading", "our reading"), ("measured", "what we measured")):
        if name in entry.get(kind, {}):
            tolerance = {**tolerances, **entry.get("reading_tolerance", {})}[name]
            missed, noisy = _miss(name, ours, error, entry[kind][name], tolerance)
            if missed:
                gap = _against(name, ours, entry[kind][name])
                yield "undecided" if few and noisy else "differs", "", f"{gap} of {whose}"
            return


def _reasons(reasons: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(", ".join(gaps) + (f": {reason}" if reason else "") for reason, gaps in reasons.items())


def _miss(
    name: str, ours: float | None, error: float, target: float, tolerance: float | Sequence[float]
) -> tuple[bool, bool]:
    """Return whether ours misses the target, and whether `NOISE` standard errors would excuse it."""
    if ours is None:
        return True, False
    if isinstance(tolerance, Sequence):
        beyond = max(tolerance[0] - ours, ours - tolerance[1])
    else:
        beyond = abs(ours - target) - tolerance * (abs(target) if NUMBERS[name][1] else 1) - 1e-9
    # a count that was the same in every trial has no spread to show; a client more or less in one trial is noise
    return beyond > 0, beyond <= max(NOISE * error, 1.0 if name.endswith("positives") else 0.0)


def _judge_statement(statement: Mapping[str, Any], rows: Sequence[Row], few: bool) -> Statement:
    name, tolerance = statement["field"], statement["tolerance"]
    if statement["kind"] == "smaller":
        return _judge_smaller(statement, rows, few)
    series = sorted(
        (row.share, *number(row, name)) for row in rows
        if row.attack == statement["attack"] and row.method == statement["method"]
    )  # fmt: skip
    values = {round(share, 6): (value, error) for share, value, error in series if value is not None}
    if statement["kind"] == "monotone":
        told = [(values[share][0], values[share][1]) for share in sorted(values)]
        holds = all(b[0] > a[0] * (1 - tolerance) for a, b in zip(told, told[1:], strict=False))
        noisy = all(b[0] + NOISE * (a[1] + b[1]) > a[0] for a, b in zip(told, told[1:], strict=False))
        ours, paper, shown = None, None, " / ".join(f"{value:.3g}" for value, _ in told)
    else:
        (low, low_error), (high, high_error) = values[statement["share"]], values[statement["against"]]
        ours, paper = 1 - low / high, statement["paper"]
        holds = abs(ours - paper) <= tolerance
        noisy = abs(ours - paper) <= tolerance + NOISE * (low_error + high_error) / high
        shown = f"ours {100 * ours:.0f} %, paper {100 * paper:.0f} %"
    status: Status = "reproduced" if holds else "undecided" if few and noisy else "differs"
    return Statement(statement["text"], ours, paper, status, f"{status}: {shown}")


def _judge_smaller(statement: Mapping[str, Any], rows: Sequence[Row], few: bool) -> Statement:
    """Return whether one row's mean over trials is below another's, by the normal law of their difference.

    Trials share their draws, which makes the difference's error smaller than the one used here.
    """
    found = {(row.method, row.variant, round(row.share, 6)): row for row in rows if row.attack == statement["attack"]}
    less = found[statement["method"], statement.get("variant", ""), round(statement["share"], 6)]
    more = found[statement["against_method"], "", round(statement["against"], 6)]
    (low, low_error), (high, high_error) = number(less, statement["field"]), number(more, statement["field"])
    if low is None or high is None or not isfinite(low_error + high_error):
        return Statement(statement["text"], None, None, "undecided", "undecided: one trial has no spread")
    error = sqrt(low_error**2 + high_error**2)
    p = erfc((high - low) / error / sqrt(2)) / 2 if error > 0 else float(low >= high)
    status: Status = "reproduced" if p < statement["tolerance"] else "undecided" if few or low < high else "differs"
    shown = f"{low:.2f} +- {low_error:.2f} against {high:.2f} +- {high_error:.2f} dB, p = {p:.1g}"
    return Statement(statement["text"], high - low, None, status, f"{status}: {shown}")


def number(row: Row, name: str) -> tuple[float | None, float]:
    """Return a row's number and its standard error, which one trial cannot tell: infinite."""
    if name == "test_mse_db":
        name = "test_mse_db_spread"
    value = getattr(row, name)
    if isinstance(value, Spread):
        return value.mean, inf if value.se is None else value.se
    if name == "a_posteriori_mse_db":
        return value, inf if row.a_posteriori_mse_db_se is None else row.a_posteriori_mse_db_se
    return value, inf if row.trials == 1 else 0.0


def _against(name: str, ours: float | None, target: float) -> str:
    word, relative = NUMBERS[name]
    if ours is None:
        return f"no finite {word} for {target:g}"
    gap = f"{100 * (ours / target - 1):+.1f} %" if relative else f"{ours - target:+.2g}"
    return f"{word} {ours:.4g} for {target:.4g} ({gap})"


def _entry_key(entry: Mapping[str, Any]) -> tuple[str, str, str, str, float]:
    variant, attack_variant = entry.get("variant", ""), entry.get("attack_variant", "")
    return entry["attack"], attack_variant, entry["method"], variant, round(entry["share"], 6)


def _row_json(judged: Judged) -> dict[str, Any]:
    row = judged.row
    return dict(_fields(row)) | {"paper": dict(judged.paper), "verdict": judged.verdict}


def _fields(row: Row) -> Iterator[tuple[str, Any]]:
    for name in Row.__dataclass_fields__:
        value = getattr(row, name)
        yield name, {"mean": value.mean, "sd": value.sd, "se": value.se} if isinstance(value, Spread) else value
