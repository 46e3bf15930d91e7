"""Who holds which rows: a partitioner is a function `(table, num_clients, samples, rng) -> rows of each client`.

`samples` is how many rows each client gets; where it is None every row is dealt, and clients differ in size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from prism_fcp.data.standardise import Scaler
from prism_fcp.data.table import Table
from prism_fcp.errors import DataError, SettingError, counted, need_number

Rows: TypeAlias = NDArray[np.int64]
Partitioner: TypeAlias = Callable[[Table, int, int | None, np.random.Generator], list[Rows]]
LEAST: Final = 10  # rows a client needs


def dirichlet(concentration: float = 0.5, bins: int = 10, overlap: bool = True) -> Partitioner:
    """Deal by the target: each client's shares of its quantile bins are a Dirichlet draw, so clients differ in level.

    With `overlap`, the paper's construction, a client draws its rows from the whole table without replacement inside
    a bin (with, only where a bin runs out), and a row may be held by several clients. Without, each row has one owner.

    Paper: sec:real-world
    """
    need_number("dirichlet: concentration", concentration)
    need_number("dirichlet: bins", bins, integer=True)
    if concentration <= 0:
        raise SettingError(f"dirichlet: concentration={concentration}; must be positive (0.5 in the paper)")
    if bins < 1:
        raise SettingError(f"dirichlet: bins={bins}; must be at least 1")

    def deal(table: Table, clients: int, samples: int | None, rng: np.random.Generator) -> list[Rows]:
        members = quantile_bins(table.target, bins)
        shares = rng.dirichlet(np.full(len(members), concentration), clients)
        if overlap:
            return [
                _draw(members, rng.multinomial(samples or len(table.target) // clients, own), rng) for own in shares
            ]
        return _thin(_split(members, shares, rng), samples, rng)

    return deal


def iid() -> Partitioner:
    """Deal rows at random: every client alike."""

    def deal(table: Table, clients: int, samples: int | None, rng: np.random.Generator) -> list[Rows]:
        order = rng.permutation(len(table.target))
        return _thin(np.array_split(order, clients), samples, rng)

    return deal


def by_column() -> Partitioner:
    """Deal each row to the client its own column names; the table must have been read with one."""

    def deal(table: Table, clients: int, samples: int | None, rng: np.random.Generator) -> list[Rows]:
        if table.owners is None:
            raise SettingError("partition 'column': the table names no clients; give client = \"COLUMN\"")
        names = np.unique(table.owners)
        if len(names) != clients:
            raise SettingError(
                f"partition 'column': {counted(len(names), 'client')} in the table, but num_clients={clients}; make it "
                f"{len(names)}, or leave it out"
            )
        return _thin([rng.permutation(np.flatnonzero(table.owners == name)) for name in names], samples, rng)

    return deal


def cluster(rounds: int = 20) -> Partitioner:
    """Deal by likeness: k-means on the standardised features, one cluster a client. Sizes differ."""
    need_number("cluster: rounds", rounds, integer=True)
    if rounds < 1:
        raise SettingError(f"cluster: rounds={rounds}; must be at least 1")

    def deal(table: Table, clients: int, samples: int | None, rng: np.random.Generator) -> list[Rows]:
        points = Scaler.of(table.features).apply(table.features)
        labels = _k_means(points, clients, rounds, rng)
        return _thin([rng.permutation(np.flatnonzero(labels == k)) for k in range(clients)], samples, rng)

    return deal


PARTITIONERS: dict[str, Callable[..., Partitioner]] = {
    "dirichlet": dirichlet,
    "iid": iid,
    "column": by_column,
    "cluster": cluster,
}  # a user's own joins by assignment


def quantile_bins(target: NDArray[np.float64], bins: int) -> list[Rows]:
    """Return the rows of each of `bins` bins of the target with equally many rows, ties in the table's order."""
    return [part for part in np.array_split(np.argsort(target, kind="stable"), bins) if part.size]


def check_sizes(rows: list[Rows], names: list[str] | None = None) -> None:
    """Raise `DataError` for the first client with too few rows to train, calibrate and test."""
    for place, own in enumerate(rows):
        if len(own) < LEAST:
            who = f"client {names[place]!r}" if names else f"client {place}"
            raise DataError(
                f"{who} has {counted(len(own), 'row')}; at least {LEAST} are needed to train, calibrate and test: "
                "merge it with another, or use fewer clients"
            )


def _draw(members: list[Rows], counts: NDArray[np.int64], rng: np.random.Generator) -> Rows:
    parts = [
        rng.choice(own, count, replace=bool(count > len(own)), shuffle=False)
        for own, count in zip(members, counts, strict=True)
    ]
    return rng.permutation(np.concatenate(parts))


def _split(members: list[Rows], shares: NDArray[np.float64], rng: np.random.Generator) -> list[Rows]:
    """Cut each bin between the clients in proportion to their shares of it."""
    parts: list[list[Rows]] = [[] for _ in shares]
    for own, column in zip(members, shares.T, strict=True):
        total = column.sum()
        weights = column / total if total > 0 else np.full(len(column), 1 / len(column))
        cuts = np.round(np.cumsum(weights)[:-1] * len(own)).astype(np.int64)
        for part, piece in zip(parts, np.split(rng.permutation(own), cuts), strict=True):
            part.append(piece)
    return [rng.permutation(np.concatenate(part)) for part in parts]


def _thin(rows: list[Rows], samples: int | None, rng: np.random.Generator) -> list[Rows]:
    if samples is None:
        return rows
    for place, own in enumerate(rows):
        if len(own) < samples:
            raise DataError(
                f"client {place} has {counted(len(own), 'row')} of the {samples} asked for; ask for fewer, take fewer "
                "clients, or let rows overlap (partition 'dirichlet' with overlap)"
            )
    return [own[:samples] for own in rows]


def _k_means(points: NDArray[np.float64], clusters: int, rounds: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return Lloyd's labels after k-means++ seeding; an empty cluster takes the point farthest from its centre."""
    if clusters > len(points):
        raise DataError(f"partition 'cluster': {clusters} clients for {len(points)} rows; take fewer clients")
    centres = points[[int(rng.integers(len(points)))]]
    nearest = np.square(points - centres[0]).sum(axis=1)
    for _ in range(clusters - 1):
        chances = nearest / nearest.sum() if nearest.sum() > 0 else np.full(len(points), 1 / len(points))
        centres = np.vstack([centres, points[rng.choice(len(points), p=chances)]])
        nearest = np.minimum(nearest, np.square(points - centres[-1]).sum(axis=1))
    labels = np.zeros(len(points), np.int64)
    for _ in range(rounds):
        far = np.square(points).sum(axis=1)[:, None] - 2 * points @ centres.T + np.square(centres).sum(axis=1)
        labels = far.argmin(axis=1)
        for k in range(clusters):
            if not (labels == k).any():
                labels[int(far[np.arange(len(points)), labels].argmax())] = k
        centres = np.stack([points[labels == k].mean(axis=0) for k in range(clusters)])
    return labels
