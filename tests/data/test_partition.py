"""Who holds which rows: owners, sizes, how unlike clients are, and refusals that name the client."""

from __future__ import annotations

import numpy as np
import pytest

from prism_fcp.data.partition import LEAST, PARTITIONERS, check_sizes, cluster, dirichlet, iid, quantile_bins
from prism_fcp.data.superconductivity import twin
from prism_fcp.data.table import Table
from prism_fcp.errors import DataError, SettingError

TABLE = twin(2000, seed=3)
OWNED = Table(TABLE.features, TABLE.target, TABLE.names, "y", np.array([f"site {k % 5}" for k in range(2000)]))


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("name", PARTITIONERS)
def test_dealt_without_overlap_every_row_has_one_owner(name: str) -> None:
    options = {"overlap": False} if name == "dirichlet" else {}
    held = PARTITIONERS[name](**options)(OWNED, 5, None, rng())
    assert len(held) == 5
    np.testing.assert_array_equal(np.sort(np.concatenate(held)), np.arange(2000))


@pytest.mark.parametrize("name", PARTITIONERS)
def test_a_seed_gives_the_same_rows_and_another_seed_others(name: str) -> None:
    deal = PARTITIONERS[name]()
    one, again, other = (deal(OWNED, 5, 40, rng(seed)) for seed in (1, 1, 2))
    assert all((a == b).all() for a, b in zip(one, again, strict=True))
    assert any((a != b).any() for a, b in zip(one, other, strict=True))
    assert {len(own) for own in one} == {40}


def test_with_overlap_a_client_holds_a_row_once_and_clients_share_rows() -> None:
    held = dirichlet()(TABLE, 40, 150, rng())
    assert {len(own) for own in held} == {150}
    repeated = [len(own) - len(np.unique(own)) for own in held]
    assert np.median(repeated) == 0  # within a bin without replacement; with, only where a bin runs out
    assert len(np.unique(np.concatenate(held))) < 40 * 150


def test_a_bin_that_runs_out_is_drawn_with_replacement() -> None:
    held = dirichlet(concentration=0.01)(TABLE, 4, 1500, rng())  # nearly one bin of 200 rows a client
    assert all(len(own) == 1500 and len(np.unique(own)) < 1500 for own in held)


def spread_of_levels(concentration: float) -> float:
    held = dirichlet(concentration)(TABLE, 60, 200, rng())
    return float(np.std([TABLE.target[own].mean() for own in held]))


def test_a_smaller_concentration_makes_clients_differ_more() -> None:
    random = float(np.std([TABLE.target[own].mean() for own in iid()(TABLE, 10, 200, rng())]))
    assert spread_of_levels(0.1) > spread_of_levels(1.0) > spread_of_levels(100.0) > 0.3 * random


def test_the_mean_share_of_a_bin_is_one_tenth() -> None:
    """Dirichlet(0.5) over ten bins: a share's mean is 0.1, its variance 0.1·0.9/6 plus the multinomial's."""
    members = quantile_bins(TABLE.target, 10)
    label = np.empty(2000, int)
    for place, own in enumerate(members):
        label[own] = place
    held = dirichlet(0.5, 10)(TABLE, 600, 100, rng())
    shares = np.array([np.bincount(label[own], minlength=10) / 100 for own in held])
    np.testing.assert_allclose(shares.mean(axis=0), 0.1, atol=4 * shares.std() / np.sqrt(600))
    wanted = 0.1 * 0.9 / 6 + (0.1 - 0.1 * 0.9 / 6 - 0.01) / 100
    assert abs(shares.var(axis=0).mean() / wanted - 1) < 0.1


def test_quantile_bins_are_ordered_and_even() -> None:
    bins = quantile_bins(TABLE.target, 7)
    assert max(map(len, bins)) - min(map(len, bins)) <= 1
    assert all(TABLE.target[a].max() <= TABLE.target[b].min() for a, b in zip(bins, bins[1:], strict=False))


def test_clusters_are_those_of_the_features() -> None:
    middle = np.repeat([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]], [30, 50, 20], axis=0)
    features = middle + rng().standard_normal((100, 2))
    held = cluster()(Table(features, rng().random(100), ("a", "b")), 3, None, rng())
    assert sorted(map(len, held)) == [20, 30, 50]
    assert all(len(np.unique(middle[own], axis=0)) == 1 for own in held)


def test_a_column_gives_each_name_its_rows_in_the_names_order() -> None:
    held = PARTITIONERS["column"]()(OWNED, 5, None, rng())
    assert OWNED.owners is not None
    assert [set(OWNED.owners[own]) for own in held] == [{f"site {k}"} for k in range(5)]


@pytest.mark.parametrize(
    ("make", "clients", "samples", "message"),
    [
        (lambda: dirichlet(0), 5, 10, r"concentration=0; must be positive"),
        (lambda: dirichlet(float("nan")), 5, 10, "concentration"),
        (lambda: dirichlet(bins=0), 5, 10, "bins=0; must be at least 1"),
        (lambda: cluster(0), 5, 10, "rounds=0; must be at least 1"),
        (iid, 5, 401, "client 0 has 400 rows of the 401 asked for; ask for fewer, take fewer clients, or let rows"),
        (PARTITIONERS["column"], 4, 10, "5 clients in the table, but num_clients=4; make it 5"),
        (cluster, 2001, None, "2001 clients for 2000 rows; take fewer clients"),
    ],
)  # fmt: skip
def test_refusals(make, clients, samples, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises((SettingError, DataError), match=message):
        make()(OWNED, clients, samples, rng())


def test_a_column_that_was_not_read() -> None:
    with pytest.raises(SettingError, match='the table names no clients; give client = "COLUMN"'):
        PARTITIONERS["column"]()(TABLE, 5, None, rng())


def test_a_client_with_too_few_rows_is_named() -> None:
    check_sizes([np.arange(LEAST)] * 3)
    with pytest.raises(DataError, match="client 'east' has 9 rows; at least 10 are needed .* merge it with another"):
        check_sizes([np.arange(30), np.arange(9)], ["west", "east"])
    with pytest.raises(DataError, match="client 1 has 0 rows"):
        check_sizes([np.arange(30), np.arange(0)])
