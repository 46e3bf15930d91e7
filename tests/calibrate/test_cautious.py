from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.calibrate.log_grid import counted, federation

from prism_fcp.calibrate import FilterContext, characterize
from prism_fcp.calibrate.cautious import cautious, distances_beyond_chance, typical_shares
from prism_fcp.calibrate.cells import cells, coarsen
from prism_fcp.errors import SettingError
from prism_fcp.types import Verdict


def judge(rows: list[Any]) -> Verdict:
    counts = counted(rows)
    return cautious()(coarsen(counts, cells(counts, counts.sum(axis=1))))


def left_out(rows: list[Any]) -> list[int]:
    return np.flatnonzero(~judge(rows).kept).tolist()


def forged(attack: str, own: Any, honest: list[Any], rng: np.random.Generator) -> Any:
    everybody = np.concatenate(honest)
    if attack == "zeros":
        return np.zeros_like(own)
    if attack == "large":
        return np.full_like(own, 10 * everybody.mean())
    return np.maximum(own + 0.5 * everybody.std() * rng.standard_normal(own.size), 0)


@pytest.mark.statistical
@pytest.mark.parametrize("attack", ["zeros", "large", "random"])
@pytest.mark.parametrize(("clients", "variety"), [(5, 0.1), (5, 0.3), (10, 0.3)])
def test_names_the_liar_and_nobody_else(attack: str, clients: int, variety: float) -> None:
    """Sites of 200 scores: at least 95 % of 40 seeds exactly right. At a true rate of 99 % fails once in 1,600."""
    exact = 0
    for seed in range(40):
        rng = np.random.default_rng([7, seed])
        rows = federation(seed, clients, 200, variety)
        liar = int(rng.integers(clients))
        rows[liar] = forged(attack, rows[liar], rows[:liar] + rows[liar + 1 :], rng)
        exact += left_out(rows) == [liar]
    assert exact >= 37 if clients == 5 and variety == 0.3 else exact >= 38


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("clients", "size", "variety"),
    [(3, 200, 0.3), (5, 50, 0.3), (5, (5, 5000), 0.3), (10, (5, 5000), 0.3), (30, 200, 0.3), (100, (5, 5000), 0.1)],
)
def test_nobody_is_named_where_nobody_lies(clients: int, size: Any, variety: float) -> None:
    """At most 3 of 40 federations lose anybody; measured 0 to 1.5 %, so it fails once in 300 at worst."""
    assert sum(bool(left_out(federation(seed, clients, size, variety))) for seed in range(40)) <= 3


@pytest.mark.parametrize("attack", ["zeros", "large"])
@pytest.mark.parametrize(("clients", "liars"), [(5, 1), (5, 2), (7, 3), (101, 50)])
def test_constants_are_found_up_to_just_under_half(attack: str, clients: int, liars: int) -> None:
    for seed in range(20):
        rows = federation(seed, clients, 50, 0.1)
        honest = rows[liars:]
        rng = np.random.default_rng(seed)
        assert left_out([forged(attack, own, honest, rng) for own in rows[:liars]] + honest) == list(range(liars))


def test_no_majority_no_verdict() -> None:
    """Two that differ accuse each other, so nobody is left out; three are two against one."""
    for rows in ([np.zeros(50)], federation(0, 1, 50) + [np.zeros(50)]):
        assert judge(rows).kept.all()
    assert left_out([*federation(0, 2, 50), np.zeros(50)]) == [2]
    assert judge([*federation(0, 2, 50), np.zeros(50), np.zeros(50)]).kept.all()  # two against two


def test_a_site_with_many_scores_is_not_accused_by_sites_with_few() -> None:
    for seed in range(20):
        rows = [*federation(seed, 4, 5), *federation(seed + 100, 1, 5000, 0.0)]
        assert judge(rows).kept.all()


def test_one_score_or_two_prove_nothing() -> None:
    for single in (0.0, 1e6):
        assert judge([*federation(1, 6, 200), np.array([single])]).kept.all()
        assert judge([np.array([single])] * 6).kept.all()
        assert judge([*federation(1, 100, 200), np.array([single, single])]).kept.all()


def test_what_everybody_has_is_nobodys_spike() -> None:
    rng = np.random.default_rng(4)
    rounded = [np.round(own * 2) / 2 for own in federation(2, 10, 200)]
    assert judge(rounded).kept.all()
    some_zeros = [np.where(rng.random(own.size) < 0.01, 0, own) for own in federation(3, 60, 50)]
    assert judge(some_zeros).kept.all()


def test_a_claimed_size_helps_no_liar() -> None:
    rows = federation(5, 9, 200)
    counts = counted([*rows, np.zeros(200)])
    counts[9] *= 5_000_000
    coarse = coarsen(counts, cells(counts, counts.sum(axis=1)))
    assert np.flatnonzero(~cautious()(coarse).kept).tolist() == [9]
    honest = counted(rows)
    honest[3] *= 5_000_000  # an honest histogram with a forged n
    assert cautious()(coarsen(honest, cells(honest, honest.sum(axis=1)))).kept.all()


def test_the_distance_is_unbiased_and_shrinks_with_nothing_but_evidence() -> None:
    rng = np.random.default_rng(6)
    centre = np.full(40, 1 / 40)
    sizes = np.repeat([10, 100, 1000], 2000)
    shares = np.array([rng.multinomial(n, centre) / n for n in sizes])
    squares = ((shares - centre) ** 2).sum(axis=1) - (1 - 1 / 40) / sizes
    for n in (10, 100, 1000):
        assert abs(squares[sizes == n].mean()) < 5 * np.sqrt(2 / 40) / n / np.sqrt(2000)  # five standard errors
    far, _ = distances_beyond_chance(shares, sizes, centre, 4.6)
    assert (far > 0).mean() < 0.005
    off = np.tile(np.concatenate((np.full(20, 0.03), np.full(20, 0.02))), (3, 1))
    further, _ = distances_beyond_chance(off, np.array([100, 10_000, 10**9]), centre, 4.6)
    assert further[0] == 0 < further[1] < further[2] == pytest.approx(0.2, rel=1e-3)  # |.005|/.025


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), clients=st.integers(1, 12), bins=st.integers(2, 60), mean=st.floats(0.02, 30))
def test_laws(seed: int, clients: int, bins: int, mean: float) -> None:
    """Finite, one weight of 0 or 1 each, and the order of clients means nothing."""
    rng = np.random.default_rng(seed)
    counts = rng.poisson(mean, size=(clients, bins))
    counts[np.arange(clients), rng.integers(bins, size=clients)] += 1
    verdict = cautious()(counts)
    assert np.isfinite(verdict.scores).all() and set(verdict.weights.tolist()) <= {0.0, 1.0}
    order = rng.permutation(clients)
    other = cautious()(counts[order])
    np.testing.assert_allclose(other.scores, verdict.scores[order], rtol=1e-9, atol=1e-12)
    assert all(reason.startswith(("kept: ", "left out: ")) for reason in verdict.reasons)
    weighed = cautious().weigh(characterize(counts), counts.sum(axis=1), FilterContext())
    np.testing.assert_array_equal(weighed.weights, verdict.weights)


def test_shares_without_sizes_accuse_nobody() -> None:
    shares = np.full((9, 7), 1 / 7)
    shares[4] = [1, 0, 0, 0, 0, 0, 0]
    assert cautious()(shares).kept.all()
    assert np.flatnonzero(~cautious()(shares, np.full(9, 500)).kept).tolist() == [4]


def test_all_alike() -> None:
    counts = np.full((7, 30), 5)
    verdict = cautious()(counts)
    assert verdict.kept.all() and verdict.scores.tolist() == [0] * 7 and verdict.threshold == 1
    assert cautious()(np.eye(1, 30, dtype=int).repeat(5, axis=0) * 9).kept.all()  # everybody in one bin
    assert typical_shares(characterize(counts)) == pytest.approx(np.full(30, 1 / 30))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ratio": 0.5}, "ratio=0.5; must be at least 1"),
        ({"ratio": -1.0}, "ratio=-1.0; must be positive"),
        ({"floor": 0.0}, "floor=0.0; must be positive"),
        ({"few": float("nan")}, "few=nan; must be a finite number"),
        ({"chance": 1.0}, "chance=1.0; must be below 1"),
        ({"chance": True}, "chance=True"),
    ],
)
def test_settings_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        cautious(**options)
