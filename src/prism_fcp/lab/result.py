"""What an experiment found: rows of means with their spread, and how they come to be."""

from __future__ import annotations

import csv
import dataclasses
import io as memory
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast, get_type_hints

from prism_fcp import io
from prism_fcp.errors import DataError, MissingExtraError
from prism_fcp.lab.checkpoint import Trial
from prism_fcp.lab.spec import Experiment
from prism_fcp.lab.typed import shown
from prism_fcp.pipeline import Cell
from prism_fcp.types import LeftOut


@dataclass(frozen=True, slots=True)
class Spread:
    """A mean over trials, their standard deviation, and the standard error of the mean (None with one trial)."""

    mean: float | None
    sd: float | None = None
    se: float | None = None

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Summarise values; an infinite one makes the mean infinite, which JSON cannot say: None."""
        if not values or not all(map(math.isfinite, values)):
            return cls(None)
        mean = statistics.fmean(values)
        if len(values) == 1:
            return cls(mean)
        sd = statistics.stdev(values, mean)
        return cls(mean, sd, sd / math.sqrt(len(values)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One method under one attack. Coverage in percent, decibels of means over trials, counts a trial."""

    attack: str
    attack_variant: str
    method: str
    variant: str
    share: float
    trials: int
    coverage: Spread
    width: Spread
    infinite_widths: int  # trials in which the confidence level could not be had from so few scores
    clipped_widths: int  # trials in which the range cut the quantile although honest scores lie above it
    oracle_width: Spread
    quantile_deviation: Spread
    a_posteriori_mse_db: float | None
    a_posteriori_mse_db_se: float | None
    global_msd_db: float | None
    local_msd_db: float | None
    true_positives: float
    false_positives: float
    bytes_up_per_round: float
    injected_energy: Spread  # of one attacked upload
    test_mse_db: float | None = None  # of honest clients' test samples, in the units scores are in
    test_mse_db_spread: Spread = Spread(None)  # over trials, each in decibels
    missed: Spread = Spread(None)  # Byzantine clients kept, a trial
    training_true_positives: float | None = None  # Byzantine clients the training's ledger left out at the end
    training_false_positives: float | None = None  # honest ones; None: a rule without a ledger

    @property
    def key(self) -> tuple[str, str, str, str, float]:
        """Return what tells this row from all others."""
        return self.attack, self.attack_variant, self.method, self.variant, round(self.share, 6)

    @property
    def label(self) -> str:
        """Return the method as tables show it."""
        return f"{self.method}, {self.variant}" if self.variant else self.method

    @property
    def attack_label(self) -> str:
        """Return the attack as tables show it."""
        return f"{self.attack}, {self.attack_variant}" if self.attack_variant else self.attack


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """An experiment's rows with everything needed to get them again."""

    experiment: str
    title: str
    spec: Mapping[str, Any]
    fingerprint: str
    seed: int
    trials: int
    engine: str
    engine_reason: str
    versions: Mapping[str, str]
    seconds: float
    cpu_seconds: float
    rows: tuple[Row, ...]
    ledgers: tuple[Mapping[str, Any], ...] = ()  # for each method with a ledger: whom it left out in the first trial

    def save(self, folder: Path) -> list[Path]:
        """Write result.json and table.csv."""
        body = dataclasses.asdict(self)
        paths = [folder / "result.json", folder / "table.csv"]
        io.write_json(paths[0], "result", body)
        io.write_text(paths[1], self.to_csv())
        return paths

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote."""
        path = folder / "result.json"
        body = io.read_json(path, "result")
        rows = body.get("rows")
        if not isinstance(rows, list) or not rows:
            raise DataError(f"{path}: rows must be a list of rows; {_AGAIN}")
        values = _typed(cls, {**body, "rows": ()}, path, "")
        values["ledgers"] = tuple(_ledger(told, path, f"ledgers[{i}]") for i, told in enumerate(values["ledgers"]))
        source = "data" if "data" in values["spec"] else "population"
        for key in (source, "federation", "calibration"):
            if not isinstance(values["spec"].get(key), Mapping):
                raise DataError(f"{path}: spec.{key} must be a table; {_AGAIN}")
        return cls(**{**values, "rows": tuple(_row(row, path, f"rows[{place}]") for place, row in enumerate(rows))})

    def to_csv(self) -> str:
        """Return the rows as CSV, one column a number."""
        text = memory.StringIO()
        table = [_flat(row) for row in self.rows]
        writer = csv.DictWriter(text, table[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)
        return text.getvalue()

    def to_frame(self) -> Any:
        """Return the rows as a pandas DataFrame."""
        try:
            import pandas
        except ImportError as error:
            raise MissingExtraError(
                "a DataFrame needs pandas: pip install 'prism-fcp[frames]'; to_csv() works without"
            ) from error
        return pandas.DataFrame([_flat(row) for row in self.rows])


def summarise(experiment: Experiment, trials: Sequence[Trial]) -> tuple[Row, ...]:
    """Turn trials into rows, in the order of the experiment's attacks and methods."""
    labels = [(attack, method) for attack in experiment.attack_labels for method in experiment.method_labels]
    by_cell: dict[tuple[str, str], list[Cell]] = {}
    for trial in sorted(trials, key=lambda trial: trial.number):
        for cell in trial.cells:
            by_cell.setdefault((cell.attack, cell.method), []).append(cell)
    names = [(attack, method.name) for attack, _ in experiment.setup.attacks for method in experiment.setup.methods]
    rows = []
    for (attack, method), name in zip(labels, names, strict=True):
        cells = by_cell[name]

        def spread(take: Callable[[Cell], float], cells: list[Cell] = cells) -> Spread:
            return Spread.of([take(cell) for cell in cells])

        mse = [cell.a_posteriori_mse for cell in cells if cell.a_posteriori_mse is not None]
        mse_spread = Spread.of(mse)
        energies = [cell.injected_energy / cell.injections for cell in cells if cell.injections]
        rows.append(
            Row(
                attack=attack.name,
                attack_variant=attack.variant,
                method=method.name,
                variant=method.variant,
                share=method.share,
                trials=len(cells),
                coverage=spread(lambda cell: 100 * cell.coverage),
                width=spread(lambda cell: cell.width),
                infinite_widths=sum(math.isinf(cell.width) for cell in cells),
                clipped_widths=sum(cell.clipped for cell in cells),
                oracle_width=spread(lambda cell: cell.oracle_width),
                quantile_deviation=spread(lambda cell: abs(cell.width - cell.oracle_width) / 2),
                a_posteriori_mse_db=_decibels(mse),
                a_posteriori_mse_db_se=(
                    10 / math.log(10) * mse_spread.se / mse_spread.mean if mse_spread.se and mse_spread.mean else None
                ),
                global_msd_db=_decibels([cell.global_msd for cell in cells]),
                local_msd_db=_decibels([cell.local_msd for cell in cells]),
                true_positives=statistics.fmean(cell.true_positives for cell in cells),
                false_positives=statistics.fmean(cell.false_positives for cell in cells),
                bytes_up_per_round=statistics.fmean(cell.bytes_up_per_round for cell in cells),
                injected_energy=Spread.of(energies),
                test_mse_db=_decibels([cell.test_mse for cell in cells]),
                test_mse_db_spread=Spread.of(
                    [10 * math.log10(cell.test_mse) for cell in cells if cell.test_mse and math.isfinite(cell.test_mse)]
                ),
                training_true_positives=_left_out(cells, True),
                training_false_positives=_left_out(cells, False),
                missed=spread(lambda cell: experiment.setup.federation.num_byzantine - cell.true_positives),
            )
        )
    return tuple(rows)


def ledgers(experiment: Experiment, trials: Sequence[Trial]) -> tuple[Mapping[str, Any], ...]:
    """Return whom the training of each method with a ledger left out in the first of these trials, when and why."""
    first = min(trials, key=lambda trial: trial.number)
    found: dict[str, tuple[LeftOut, ...]] = {}
    for cell in first.cells:  # the score attacks come after training: one entry for all of them
        if cell.left_out is not None:
            found.setdefault(cell.method, cell.left_out)
    return tuple(
        {
            "method": method,
            "trial": first.number,
            "left_out": [{**entry._asdict(), "reason": entry.reason} for entry in entries],
        }
        for method, entries in found.items()
    )


def _left_out(cells: Sequence[Cell], byzantine: bool) -> float | None:
    """Return how many such clients the training's ledger left out at the end, mean over trials."""
    told = [cell.left_out for cell in cells if cell.left_out is not None]
    if not told:
        return None
    return statistics.fmean(sum(entry.now and entry.byzantine is byzantine for entry in one) for one in told)


def _decibels(values: Sequence[float | None]) -> float | None:
    """Return 10 log10 of the mean over trials."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known or len(known) < len(values) or not (mean := statistics.fmean(known)) > 0:
        return None
    return 10 * math.log10(mean)


def _row(body: Any, path: Path, where: str) -> Row:
    if not isinstance(body, Mapping):
        raise DataError(f"{path}: {where} must be a table; {_AGAIN}")
    spreads = {key: _spread(body.get(key), path, f"{where}.{key}") for key, hint in _ROW.items() if hint is Spread}
    return Row(**_typed(Row, {**body, **spreads}, path, f"{where}."))


def _ledger(body: Any, path: Path, where: str) -> Mapping[str, Any]:
    entries = body.get("left_out") if isinstance(body, Mapping) else None
    right = (
        isinstance(body, Mapping)
        and isinstance(body.get("method"), str)
        and isinstance(entries, list)
        and all(isinstance(e, Mapping) and {"client", "byzantine", "now", "reason"} <= set(e) for e in entries)
    )
    if not right:
        raise DataError(f"{path}: {where} must be a table of method, trial and left_out; {_AGAIN}")
    return cast(Mapping[str, Any], body)


def _spread(body: Any, path: Path, where: str) -> Spread:
    if not isinstance(body, Mapping):
        raise DataError(f"{path}: {where} must be a table of mean, sd and se; {_AGAIN}")
    return Spread(**_typed(Spread, body, path, f"{where}."))


def _typed(cls: type[Any], body: Mapping[str, Any], path: Path, where: str) -> dict[str, Any]:
    """Return the fields of `cls`, each of its type; NaN and Inf are not there, `io` refuses them."""
    values = {}
    for name, hint in get_type_hints(cls).items():
        if name not in body:
            raise DataError(f"{path}: {where}{name} is missing; {_AGAIN}")
        value = body[name]
        kinds, told = _KINDS.get(hint, (object, ""))
        right = isinstance(value, kinds) and not isinstance(value, bool)
        if right and isinstance(value, float | int):
            right = abs(value) < (2**64 if hint is int else 1e300) and (hint is not int or value >= 0)
        if right and isinstance(value, Mapping) and cls is Result and name == "versions":
            right = all(isinstance(version, str) for version in value.values())
        if not right:
            raise DataError(f"{path}: {where}{name} = {shown(value)} must be {told}; {_AGAIN}")
        values[name] = value
    for name in body:
        if name not in values and not (cls is Result and name in ("format", "schema")):
            raise DataError(f"{path}: {where}{name} is no field of a result; {_AGAIN}")
    return values


_AGAIN = "delete the file and run the experiment again: its trials are kept"
_ROW = get_type_hints(Row)
_KINDS: dict[Any, tuple[Any, str]] = {
    str: (str, "text"),
    int: (int, "a whole number, 0 or more"),
    float: (int | float, "a finite number"),
    float | None: (int | float | None, "a finite number or null"),
    tuple[Mapping[str, Any], ...]: (list, "a list"),
    Mapping[str, Any]: (Mapping, "a table"),
    Mapping[str, str]: (Mapping, "a table of texts"),
}


def _flat(row: Row) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in dataclasses.asdict(row).items():
        flat |= {f"{key}_{part}": number for part, number in value.items()} if isinstance(value, dict) else {key: value}
    return flat
