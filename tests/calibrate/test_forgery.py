"""One client that forges its summary: what it can move, in numbers.

100 clients of the paper's federation with 200 scores each, 0 or 20 of them lying with a known attack, and one more, the
forger. Nothing here is drawn anew, so the numbers are exact for these seeds.
"""

from __future__ import annotations

import json
import struct
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.calibrate.federation import Trial, draw
from tests.calibrate.sites import NOW, spec

from prism_fcp.calibrate import (
    RANGES,
    SCORE_ATTACKS,
    Calibration,
    Filter,
    cautious,
    keep_all,
    known_count,
    mad,
)
from prism_fcp.calibrate.combine import calibrate_summaries
from prism_fcp.calibrate.grid import AnyGrid, LinearGrid, LogGrid
from prism_fcp.calibrate.server import CalibrationServer
from prism_fcp.calibrate.spec import CalibrationSpec
from prism_fcp.calibrate.summary import ClientSummary, summarize
from prism_fcp.calibrate.wire import check_against, decode, encode
from prism_fcp.errors import DataError
from prism_fcp.theory.contamination import coverage_bounds

LEVEL = 0.9
BILLION = 10**9
Forgery = Callable[[NDArray[np.int64]], NDArray[np.int64]]


def all_in(place: int) -> Forgery:
    def forge(counts: NDArray[np.int64]) -> NDArray[np.int64]:
        forged = np.zeros_like(counts)
        forged[place] = BILLION
        return forged

    return forge


FORGERIES: dict[str, Forgery] = {
    "1e9 scores of an honest shape": lambda counts: counts * (BILLION // 200),
    "1e9 zeros": all_in(0),
    "1e9 at the top": all_in(-1),
    "an honest histogram times 1e5": lambda counts: counts * 100_000,
}
FILTERS = (keep_all(), mad(), known_count(21), cautious())


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of radii in the last bin: unfiltered attacks put them there
        yield


def sent_by(trial: Trial, attack: str) -> NDArray[np.float64]:
    sent: NDArray[np.float64] = trial.scores.copy()
    if len(trial.attackers):
        sent[trial.attackers] = trial.report(SCORE_ATTACKS[attack]())
    return sent


def reported(sent: NDArray[np.float64], grid: AnyGrid) -> tuple[CalibrationSpec, list[ClientSummary]]:
    agreed = spec(grid=grid, most_scores=2**32 - 1)
    return agreed, [summarize(own, agreed, str(client), created=NOW) for client, own in enumerate(sent)]


def combined(
    made: tuple[CalibrationSpec, list[ClientSummary]], filter: Filter, forger: int = 0, forge: Forgery | None = None
) -> Calibration:
    """Calibrate, after one client forged its counts (and its n to match) and its summary travelled as bytes."""
    agreed, told = made[0], list(made[1])
    if forge:
        told[forger] = decode(encode(replace(told[forger], counts=forge(told[forger].counts))))
    return calibrate_summaries(told, agreed, filter=filter)


def kept_share(told: Calibration, liars: NDArray[np.int64]) -> float:
    """Return b: the share of the kept mass that hostile clients hold, each counting for at most 3 medians of 200."""
    mass = told.weights * told.sizes
    assert mass.max() <= 600 * (1 + 1e-3)
    return float(mass[liars].sum() / mass.sum())


def assert_within_bound(told: Calibration, trial: Trial, forger: int) -> float:
    """Check the coverage of the kept honest clients' scores against `coverage_bounds(b)`; return b.

    With m of the mass M hostile, the rank's mass is T in [c(M+1), c(M+1) + 1). Of the n honest scores at least T - m
    lie up to the radius: a share of (c - b)/(1 - b) or more. Fewer than T lie below the radius's bin: a share of less
    than c/(1 - b) + (c + 1)/n.
    """
    liars = np.append(trial.attackers, forger)
    b = kept_share(told, liars)
    low, high = coverage_bounds(b, LEVEL)
    kept = [client for client in np.flatnonzero(told.weights) if client not in liars]
    own = trial.scores[kept].ravel()
    assert len(own) >= 75 * 200  # honest clients lost by a filter are few
    assert np.mean(own <= told.radius) >= low - 1e-9
    assert np.mean(own < told.bracket[0]) <= high + 2 / len(own)
    return b


@pytest.mark.parametrize("attack", ["none", "efficiency", "coverage", "random"])
@pytest.mark.parametrize("grid", ["log", "linear"])
def test_a_forged_claim_moves_neither_recall_nor_the_radius_beyond_the_bound(grid: str, attack: str) -> None:
    """Radius 0.90 and recall 1.00 with a filter, b up to 0.04; with nobody filtered, b up to 0.23.

    `cautious` overlooks noise on some linear grids; what it catches without a forger it catches with one.
    """
    trial = draw(0, samples=200, hostile=0 if attack == "none" else 20)
    sent, forger = sent_by(trial, attack), int(trial.honest[0])
    made = reported(sent, LogGrid() if grid == "log" else LinearGrid.measured(sent, RANGES["overflow"]()))
    for filter in FILTERS:
        before = combined(made, filter)
        catches = filter.name != "keep_all" and not before.weights[trial.attackers].any()
        assert catches or filter.name == "keep_all" or (filter.name, grid) == ("cautious", "linear")
        for forge in FORGERIES.values():
            told = combined(made, filter, forger, forge)
            np.testing.assert_array_equal(told.weights[trial.attackers], before.weights[trial.attackers])
            if catches:
                assert not told.weights[trial.attackers].any()
                assert 0.85 < told.radius < 0.97
            assert told.weights[forger] * told.sizes[forger] in (0, pytest.approx(600, rel=1e-3))
            assert assert_within_bound(told, trial, forger) <= (0.04 if catches else 0.23)


@pytest.mark.parametrize(
    ("forgery", "radius"),
    [
        (None, 0.90625),
        ("1e9 scores of an honest shape", 0.90625),
        ("1e9 zeros", 0.8984375),
        ("1e9 at the top", 1.015625),
        ("an honest histogram times 1e5", 0.90625),
    ],
)
def test_the_radius_that_one_forger_among_honest_clients_gets(forgery: str | None, radius: float) -> None:
    """Nobody filtered: b = 600/20,400 = 2.9 %, so the honest clients' coverage lies in [0.897, 0.927], not at 0.9.

    The lower end is (0.9 - b)/(1 - b), the upper 0.9/(1 - b).
    """
    trial = draw(0, samples=200, hostile=0)
    told = combined(reported(trial.scores, LogGrid()), keep_all(), 0, FORGERIES[forgery] if forgery else None)
    assert told.radius == radius
    if forgery:
        assert kept_share(told, np.array([0])) == pytest.approx(600 / 20_400, rel=1e-3)
        own = trial.scores[1:].ravel()
        assert 0.8969 <= np.mean(own <= told.radius) and np.mean(own < told.bracket[0]) <= 0.9274


def test_without_a_cap_a_forger_owns_the_quantile() -> None:
    """What the cap is for: 1e9 scores at the top, nobody filtered, and the radius is infinite."""
    trial = draw(0, samples=200, hostile=0)
    agreed = spec(most_scores=2**32 - 1, cap=None)
    made = agreed, [summarize(own, agreed, str(client), created=NOW) for client, own in enumerate(trial.scores)]
    assert combined(made, keep_all(), 0, all_in(-1)).radius == np.inf
    assert combined(made, keep_all(), 0, all_in(0)).radius == 2.0**-30


@pytest.mark.parametrize("attack", ["none", "random"])
def test_one_huge_score_is_one_score(attack: str) -> None:
    """A score of 1e6 times the maximum, on the default grid: recall as before, the radius at most one bin away.

    It is one score more in the overflow cell, so at most one other client at a filter's edge changes sides.
    """
    trial = draw(0, samples=200, hostile=0 if attack == "none" else 20)
    sent, forger = sent_by(trial, attack), int(trial.honest[0])
    calm = reported(sent, LogGrid())
    sent[forger, 0] = 1e6 * sent.max()
    wild = reported(sent, LogGrid())
    for filter in FILTERS:
        before, told = combined(calm, filter), combined(wild, filter)
        np.testing.assert_array_equal(told.weights[trial.attackers], before.weights[trial.attackers])
        assert np.count_nonzero(told.weights != before.weights) <= 2  # known count: one in, one out
        assert before.radius <= told.radius <= before.radius * (1 + 1 / 64)
        assert_within_bound(told, trial, forger)


@pytest.mark.parametrize(
    ("range", "before", "after", "widest"),
    [
        ("max", 1.00, 0.20, np.inf),
        ("high_quantile", 1.00, 1.00, 0.94),
        ("median_mad", 1.00, 1.00, 0.94),
        ("overflow", 1.00, 1.00, 0.94),
    ],
)
def test_a_range_measured_from_hostile_reports(range: str, before: float, after: float, widest: float) -> None:
    """One score of 1e6 times the maximum in the pilot pass, 20 liars with clipped noise, known count, 5 seeds.

    With the paper's `max` all 100 bins but the first are empty afterwards: recall of the 20 falls from 1.00 to 0.20,
    which is chance (21 of 100 are left out), and the radius rises from 0.92 to 34,000. The robust ranges keep both.
    """
    recall: dict[bool, list[float]] = {False: [], True: []}
    radii = []
    for seed in (0, 1, 2, 3, 4):
        trial = draw(seed, samples=200)
        sent = sent_by(trial, "random")
        for hostile in (False, True):
            if hostile:
                sent[trial.honest[0], 0] = 1e6 * sent.max()
            told = combined(reported(sent, LinearGrid.measured(sent, RANGES[range]())), known_count(21))
            recall[hostile].append(float(np.mean(told.weights[trial.attackers] == 0)))
        radii.append(told.radius)
    assert np.mean(recall[False]) == pytest.approx(before, abs=0.005)
    assert np.mean(recall[True]) == pytest.approx(after, abs=0.005)
    assert 3e4 < np.mean(radii) < 4e4 if range == "max" else np.mean(radii) < widest


def with_metadata(data: bytes, **entries: Any) -> bytes:
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    header["__metadata__"].update(entries)
    plain = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    plain += b" " * (-len(plain) % 8)
    return struct.pack("<Q", len(plain)) + plain + data[8 + length :]


@pytest.mark.parametrize("claimed", [199, 201, BILLION, 2**32 + 200, 2**63, 2**64 + 200])
def test_an_honest_histogram_with_a_forged_n_is_refused(claimed: int) -> None:
    agreed = spec(most_scores=2**32 - 1)
    data = encode(summarize(draw(0, samples=200).scores[0], agreed, "site", created=NOW))
    assert with_metadata(data, n="200") == data
    with pytest.raises(DataError, match="but its counts make 200|no whole number within bounds"):
        decode(with_metadata(data, n=str(claimed)))
    with CalibrationServer(agreed) as desk:
        assert desk.submit(with_metadata(data, n=str(claimed))).status == "refused"
        assert desk.submit(data).status == "accepted"


def test_a_billion_scores_are_refused_unless_the_spec_believes_them() -> None:
    agreed = spec()
    own = summarize(draw(0, samples=200).scores[0], agreed, "site", created=NOW)
    assert "believes no client more than 100,000,000" in check_against(
        replace(own, counts=own.counts * (BILLION // 200)), agreed
    )


def test_no_scores_or_negative_ones_are_no_summary() -> None:
    agreed = spec()
    own = summarize(draw(0, samples=200).scores[0], agreed, "site", created=NOW)
    for counts in (own.counts * 0, -own.counts):
        assert "at least one score" in check_against(replace(own, counts=counts), agreed)
