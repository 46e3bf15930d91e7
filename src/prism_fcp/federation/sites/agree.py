"""Common units for all sites: each tells the mean and spread of its columns, the server takes what most agree on.

Sums, as `Scaler.federated` adds them up, would let one liar move the units of all. Here the server takes medians over
clients, each client counting once, so that fewer than half of them cannot carry a column's shift out of the range of
the honest ones' means.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prism_fcp.data.standardise import Scaler
from prism_fcp.data.wanted import MAX_COLUMNS, MAX_TEXT
from prism_fcp.errors import DataError, counted

LARGEST: Final = 1e30  # of a mean or spread: what lies beyond is refused, as uploads are
MOST_ROWS: Final = 10**12
NORMAL: Final = 1.4826  # a normal's standard deviation over its median absolute deviation


@dataclass(frozen=True, slots=True, eq=False)
class Description:
    """What a site tells of its training rows: how many, and mean and standard deviation of each column."""

    count: int
    names: tuple[str, ...]  # of the features
    target: str
    mean: NDArray[np.float64]  # (features + 1,), the target last
    sd: NDArray[np.float64]  # (features + 1,), 0 where a column does not vary here

    def __post_init__(self) -> None:
        """Refuse what no honest site tells."""
        _check_count(self.count)
        _check_columns(self.names, self.target)
        for what, values in (("mean", self.mean), ("sd", self.sd)):
            _check_numbers(what, values, len(self.names) + 1)
        if (self.sd < 0).any():
            raise DataError("description: a standard deviation is negative; it must be 0 or more")

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON can say it, every number exactly."""
        return {"count": self.count, **_columns_json(self)}

    @classmethod
    def of_json(cls, body: object) -> Description:
        """Read what a client sent: anything else than a whole description is a `DataError`."""
        found = _body(body, "description", ("count", "names", "target", "mean", "sd"))
        return cls(found["count"], *_columns(found, "description"))


class Agreed(NamedTuple):
    """Which columns, in which order, and their common units; who was left out of it, and why."""

    names: tuple[str, ...]  # of the features
    target: str
    scaler: Scaler  # of the features, and of the target last
    refused: dict[str, str]  # client -> reason

    def to_json(self) -> dict[str, Any]:
        """Return the part that clients are sent, as JSON can say it."""
        return _columns_json(Description(1, self.names, self.target, self.scaler.mean, self.scaler.sd))

    @classmethod
    def of_json(cls, body: object) -> Agreed:
        """Read what the server sent."""
        found = _body(body, "agreed columns", ("names", "target", "mean", "sd"))
        told = Description(1, *_columns(found, "agreed columns"))
        if not (told.sd > 0).all():
            raise DataError("agreed columns: sd must be positive")
        return cls(told.names, told.target, Scaler(told.mean, told.sd), {})


def describe(
    features: NDArray[np.float64], target: NDArray[np.float64], names: Sequence[str], target_name: str = "target"
) -> Description:
    """Return the description of some rows (n, D) and their targets (n,)."""
    columns = np.column_stack([features, target])
    shift = columns[0]  # around a row of its own nothing cancels
    with np.errstate(over="ignore", invalid="ignore"):  # refused below, by column
        mean, sd = shift + (columns - shift).mean(axis=0), (columns - shift).std(axis=0)
    sd = np.where(np.ptp(columns, axis=0) > 0, sd, 0.0)
    for name, size in zip((*names, target_name), np.maximum(np.abs(mean), sd), strict=True):
        if not size <= LARGEST:
            raise DataError(f"column {name!r} has values too large to describe; give it a larger unit")
    return Description(len(columns), tuple(names), target_name, mean, sd)


def agree(descriptions: Mapping[str, Description]) -> Agreed:
    """Return the columns most clients have, and units for them: medians over these clients.

    The variance is the median one inside a client and, where clients' means differ, their spread as the median absolute
    deviation gives it. A client with other columns is refused by name; the order of columns may differ.
    """
    if not descriptions:
        raise DataError("standardisation: no client described its columns; at least one is needed")
    kinds = Counter((tuple(sorted(told.names)), told.target) for told in descriptions.values())
    kind, most = kinds.most_common(1)[0]
    if 2 * most <= len(descriptions):
        raise DataError(
            f"standardisation: of {counted(len(descriptions), 'client')} at most {most} have the same columns; more "
            f"than half must: {_difference(descriptions, kind)}"
        )
    alike = {name: told for name, told in descriptions.items() if (tuple(sorted(told.names)), told.target) == kind}
    names = Counter(told.names for told in alike.values()).most_common(1)[0][0]
    refused = {name: _other(told, names, kind[1]) for name, told in descriptions.items() if name not in alike}
    places = [[*map(told.names.index, names), -1] for told in alike.values()]
    means = np.stack([told.mean[at] for told, at in zip(alike.values(), places, strict=True)])
    sds = np.stack([told.sd[at] for told, at in zip(alike.values(), places, strict=True)])
    mean = np.median(means, axis=0)
    between = NORMAL * np.median(np.abs(means - mean), axis=0)
    sd = np.hypot(np.median(sds, axis=0), between)
    if sd[-1] == 0:
        raise DataError(f"standardisation: target {kind[1]!r} is constant at most clients; nothing can be learnt")
    return Agreed(names, kind[1], Scaler(mean, np.where(sd > 0, sd, 1.0)), refused)


def agree_on(described: Mapping[str, Mapping[str, Any]]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what clients are sent, and who cannot take part and why, for descriptions as clients sent them."""
    read, refused = {}, {}
    for name, body in described.items():
        try:
            read[name] = Description.of_json(body)
        except DataError as error:
            refused[name] = str(error)
    if not read:
        raise DataError(f"standardisation: no client's description can be used: {next(iter(refused.values()), 'none')}")
    agreed = agree(read)
    return agreed.to_json(), refused | agreed.refused


def _other(told: Description, names: Sequence[str], target: str) -> str:
    """Say how a client's columns differ from most clients'."""
    if told.target != target:
        return f"its target is {told.target[:40]!r}; most clients have {target[:40]!r}: name the same column"
    lacking = [name for name in names if name not in told.names]
    needless = [name for name in told.names if name not in names]
    parts = [f"it lacks column {lacking[0][:40]!r}"] if lacking else []
    parts += [f"most clients have no column {needless[0][:40]!r}: leave it out with drop"] if needless else []
    return f"{'; '.join(parts)} ({counted(len(lacking) + len(needless), 'such column')})"


def _difference(descriptions: Mapping[str, Description], kind: tuple[tuple[str, ...], str]) -> str:
    name, told = next((n, t) for n, t in descriptions.items() if (tuple(sorted(t.names)), t.target) != kind)
    return f"{name}: {_other(told, kind[0], kind[1])}"


def _columns_json(told: Description) -> dict[str, Any]:
    return {"names": list(told.names), "target": told.target, "mean": told.mean.tolist(), "sd": told.sd.tolist()}


def _body(body: object, what: str, keys: Sequence[str]) -> dict[str, Any]:
    if not isinstance(body, dict) or set(body) != set(keys):
        raise DataError(f"{what}: not the keys {', '.join(keys)}, all of them and no others")
    return body


def _columns(body: dict[str, Any], what: str) -> tuple[tuple[str, ...], str, NDArray[np.float64], NDArray[np.float64]]:
    for key in ("names", "mean", "sd"):
        if not isinstance(body[key], list):
            raise DataError(f"{what}: {key} is no list")
    for key in ("mean", "sd"):
        if not all(type(value) in (int, float) and abs(value) <= LARGEST for value in body[key]):  # not bool, not NaN
            raise DataError(f"{what}: {key} must be numbers within +-{LARGEST:g}")
    numbers = (np.array(body[key], dtype=np.float64) for key in ("mean", "sd"))
    return tuple(body["names"]), body["target"], *numbers


def _check_count(count: object) -> None:
    if type(count) is not int or not 1 <= count <= MOST_ROWS:
        raise DataError(f"description: count={count!r:.40}; must be 1 to {MOST_ROWS:,} rows")


def _check_columns(names: tuple[str, ...], target: str) -> None:
    if not 1 <= len(names) <= MAX_COLUMNS:
        raise DataError(f"description: {len(names)} features; must be 1 to {MAX_COLUMNS:,}")
    for name in (*names, target):
        if not isinstance(name, str) or not 1 <= len(name) <= MAX_TEXT:
            raise DataError(f"description: {name!r:.40} is no column's name; 1 to {MAX_TEXT} characters are allowed")
    if len({*names, target}) != len(names) + 1:
        raise DataError("description: two columns have one name; rename one of them")


def _check_numbers(what: str, values: NDArray[np.float64], wanted: int) -> None:
    if values.shape != (wanted,) or not (np.abs(values) <= LARGEST).all():
        raise DataError(f"description: {what} must be {wanted} numbers within +-{LARGEST:g}")
