from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.calibrate.federation import draw

from prism_fcp.calibrate import RANGES, Span
from prism_fcp.calibrate.span import client_quantiles
from prism_fcp.errors import DataError, SettingError
from prism_fcp.types import Choice

ROBUST = ["high_quantile", "median_mad", "overflow"]


def test_golden() -> None:
    scores = [np.arange(1.0, 11.0), np.arange(2.0, 12.0), np.arange(3.0, 13.0)]
    # largest of all is 12
    assert RANGES["max"](factor=1.5)(scores) == Span(18.0)
    # ceil(.8·10) = 8th smallest: 8, 9, 10; their median 9, doubled
    assert RANGES["high_quantile"](level=0.8, factor=2.0)(scores) == Span(18.0)
    assert RANGES["overflow"](level=0.8, factor=2.0)(scores) == Span(18.0, overflow=True)
    # medians 5.5, 6.5, 7.5 -> 6.5; |x - median| is .5,.5,1.5,1.5,2.5,2.5,... -> MAD 2.5 for each
    assert RANGES["median_mad"](multiples=2.0)(scores).upper == pytest.approx(6.5 + 2 * 1.4826 * 2.5, rel=1e-15)


@pytest.mark.parametrize("name", sorted(RANGES))
def test_ragged_and_rectangular_agree(name: str) -> None:
    scores = draw(0, clients=11, samples=37).scores
    assert Choice(name).build(RANGES, "range")(scores) == RANGES[name]()(list(scores))


@pytest.mark.parametrize("name", ROBUST)
@pytest.mark.parametrize("forged", [0.0, 1e6])
def test_twenty_of_a_hundred_cannot_move_a_robust_range(name: str, forged: float) -> None:
    trial = draw(1)
    honest = RANGES[name]()(trial.scores).upper
    hostile = trial.scores.copy()
    hostile[trial.attackers] = forged
    # The median over clients moves to the 37.5 % or the 62.5 % client; those differ by some 25 % in this federation.
    assert RANGES[name]()(hostile).upper == pytest.approx(honest, rel=0.2)


@pytest.mark.parametrize("name", ROBUST)
def test_one_score_of_a_hundred_times_the_maximum(name: str) -> None:
    trial = draw(2)
    stretched = trial.scores.copy()
    stretched[0, 0] = 100 * stretched.max()
    assert RANGES[name]()(stretched).upper == pytest.approx(RANGES[name]()(trial.scores).upper, rel=0.01)
    assert RANGES["max"]()(stretched).upper == pytest.approx(100 * RANGES["max"]()(trial.scores).upper)


@pytest.mark.parametrize("name", ROBUST)
def test_a_client_counts_once_whatever_number_of_scores_it_claims(name: str) -> None:
    scores = list(draw(3, clients=9, samples=50).scores)
    heavy = [*scores[:-1], np.tile(scores[-1], 1000)]
    assert RANGES[name]()(heavy).upper == pytest.approx(RANGES[name]()(scores).upper, rel=0.05)


@given(st.integers(1, 300), st.integers(1, 1000))
def test_client_quantiles_are_order_statistics(n: int, thousandths: int) -> None:
    level = thousandths / 1000
    got = client_quantiles(np.arange(1.0, n + 1)[None], level)[0]
    assert got == max(-(-n * thousandths // 1000), 1)  # of 1..n, the ceil(level·n)-th smallest


def test_edges() -> None:
    np.testing.assert_array_equal(Span(2.0).edges(4), [0, 0.5, 1, 1.5, 2])
    np.testing.assert_array_equal(Span(2.0, overflow=True).edges(2), [0, 1, 2, np.inf])


@pytest.mark.parametrize("upper", [0.0, -1.0, np.nan, np.inf])
def test_a_range_nothing_can_be_divided_by(upper: float) -> None:
    with pytest.raises(DataError, match="score range: upper="):
        Span(upper)


@pytest.mark.parametrize("name", sorted(RANGES))
def test_errors(name: str) -> None:
    with pytest.raises(DataError, match="upper=0.0"):
        RANGES[name]()([np.zeros(5)])
    with pytest.raises(DataError, match="no client"):
        RANGES[name]()([])
    with pytest.raises(DataError, match="client 1 has no scores"):
        RANGES[name]()([np.ones(3), np.ones(0)])
    with pytest.raises(SettingError, match="must be positive"):
        RANGES[name](**{"multiples" if name == "median_mad" else "factor": -1.0})
    if name in ("high_quantile", "overflow"):
        with pytest.raises(SettingError, match=r"level=1.5; must lie in \(0, 1\]"):
            RANGES[name](level=1.5)
