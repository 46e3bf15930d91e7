"""cor:coverage-bounds as printed."""

from __future__ import annotations

import pytest
from scipy import stats

from prism_fcp.errors import SettingError
from prism_fcp.theory.coverage import paper_bounds


def test_vacuous_at_the_papers_settings() -> None:
    """H = 100, n_b = 1000, K = 100, B = 20: z(1 - .05/16000) = 4.518, tau = 1/4.

    The common term is 100·4.518/(2·31.62)·(1.25/.75) = 11.905; delta_L adds 1/1080, delta_U 80/1080.
    """
    bounds = paper_bounds(100, 20, 1000, 100)
    z = float(stats.norm.isf(0.05 / 16000))
    assert z == pytest.approx(4.518, abs=5e-4)
    term = 100 * z / (2 * 1000**0.5) * 1.25 / 0.75
    assert term == pytest.approx(11.905, abs=5e-3)
    assert bounds.delta_lower == pytest.approx(term + 1 / 1080)
    assert bounds.delta_upper == pytest.approx(term + 80 / 1080)
    assert bounds.vacuous and bounds.sentence.startswith("vacuous: the paper's corollary promises coverage between -11")


def test_still_vacuous_with_a_hundred_times_the_samples() -> None:
    assert paper_bounds(100, 20, 10**5, 100).vacuous  # the term falls tenfold, to 1.19


def test_the_bounds_can_say_something() -> None:
    # Two bins, no attackers, a million samples: z(1 - .05/8) = 2.498, term 2·2.498/2000 = .0025; +1e-6, +2e-6.
    bounds = paper_bounds(2, 0, 10**6, 2)
    assert bounds.least == pytest.approx(0.9 - 0.0025, abs=1e-5) and bounds.most == pytest.approx(0.9025, abs=1e-5)
    assert not bounds.vacuous and "says nothing" not in bounds.sentence
    half = paper_bounds(2, 0, 3000, 2)  # .0456 above .9 stays below 1; at 200 samples .177 does not
    assert not half.vacuous and "says nothing" not in half.sentence
    assert "the upper bound says nothing" in paper_bounds(2, 0, 200, 2).sentence
    assert "the lower one says nothing" in paper_bounds(2, 0, 200, 2, 0.1).sentence


def test_filter_failure_widens_both() -> None:
    least, worse = paper_bounds(10, 1, 1000, 2), paper_bounds(10, 1, 1000, 2, filter_failure=0.1)
    assert worse.delta_lower - least.delta_lower == pytest.approx(0.1 * 1000 / 1009)
    assert worse.delta_upper - least.delta_upper == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((10, 5, 100, 10), {}, "num_byzantine=5 of 10 clients; must be fewer than half"),
        ((10, 1, 0, 10), {}, "samples_per_client=0"),
        ((10, 1, 10, 10, 1.0), {}, "confidence_level=1.0"),
        ((10, 1, 10, 10), {"failure_probability": 0}, "failure_probability=0"),
        ((10, 1, 10, 10), {"filter_failure": 1}, "filter_failure=1"),
        ((10.5, 1, 10, 10), {}, "num_clients=10.5; must be an integer"),
    ],
)
def test_errors(arguments: tuple[float, ...], options: dict[str, float], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        paper_bounds(*arguments, **options)  # type: ignore[arg-type]
