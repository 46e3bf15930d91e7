"""thm:detection and what it is made of."""

from __future__ import annotations

from math import isnan, log, sqrt

import numpy as np
import pytest

from prism_fcp.errors import DataError, SettingError
from prism_fcp.theory.detection import (
    detection_condition,
    histogram_radius,
    honest_radius,
    margin,
    observed_detection,
)


def test_impossible_at_the_papers_settings() -> None:
    """READINGS.md: K = 100, B = 20, H = 100, n_b = 1000, delta = .05; no training error, Delta = sqrt 2, r_a = 0.

    r_b = sqrt(50)·sqrt(log(200·80/.05)/1000) = 7.0711·.11259 = .7961. gamma = .6181, Gamma = 2.2103.
    Left 79·.6181 = 48.8; right 20·2.2103 + 59·2·.7961 = 44.2 + 93.9 = 138.
    """
    radius = honest_radius(1000, 100, 80)
    assert radius == pytest.approx(0.7961, abs=5e-5)
    found = detection_condition(100, 20, sqrt(2), radius)
    assert (found.left, found.right) == (pytest.approx(48.83, abs=0.01), pytest.approx(138.15, abs=0.01))
    assert not found.holds
    assert found.sentence == "vacuous: the theorem needs 48.8 > 138, so it says nothing about this filtering"


def test_first_possible_between_a_thousand_and_ten_thousand() -> None:
    assert detection_condition(100, 20, sqrt(2), honest_radius(10**4, 100, 80)).holds


def test_the_parts() -> None:
    assert histogram_radius(200, 8, 0.1) == pytest.approx(2 * sqrt(log(160) / 200))
    assert honest_radius(200, 8, 5, 0.1, drift=0.25) == pytest.approx(2 * sqrt(log(800) / 200) + 0.25)
    assert margin(1.0, 0.3, 0.2) == pytest.approx(0.5)
    found = detection_condition(10, 2, 1.0, 0.05, 0.1)  # gamma .85, Gamma 1.15; 7·.85 = 5.95, 2·1.15 + 5·.1 = 2.8
    assert found.nearest == pytest.approx(0.85) and found.farthest == pytest.approx(1.15)
    assert found.left == pytest.approx(5.95) and found.right == pytest.approx(2.8) and found.holds


def test_too_many_attackers_are_outside_the_theorem() -> None:
    found = detection_condition(5, 2, 1.0, 0.0)  # B = 2 is not below K_b - 1 = 2, though 2·1 > 2·1 fails by itself
    assert not found.holds and "fewer attackers than 2" in found.sentence
    assert not detection_condition(4, 2, 5.0, 0.0).holds


@pytest.mark.statistical
def test_concentration_holds() -> None:
    """The lemma with delta = .5 over 2,000 histograms of 50 scores in 10 bins: not one strays by the radius, .6.

    The lemma is far from tight: the distances' root mean square is sqrt(.9/50) = .13. False alarms below 1e-12.
    """
    rng = np.random.default_rng(0)
    p = np.full(10, 0.1)
    gaps = np.linalg.norm(rng.multinomial(50, p, size=2000) / 50 - p, axis=1)
    assert gaps.max() < histogram_radius(50, 10, 0.5)


def test_observed_plug_in_golden() -> None:
    """Three honest clients at (1, 0), two left out at (0, 1) and (.2, .8): q = (.1, .9), Delta = .9·sqrt 2.

    r_a = .1·sqrt 2; N_min over the kept is 400, r_b = sqrt(1)·sqrt(log(4·3/.05)/400).
    """
    shares = np.array([[1.0, 0.0]] * 3 + [[0.0, 1.0], [0.2, 0.8]])
    kept = np.array([True] * 3 + [False] * 2)
    found = observed_detection(shares, kept, np.array([400, 500, 600, 5, 5]))
    assert found.separation == pytest.approx(0.9 * sqrt(2))
    assert found.attack_radius == pytest.approx(0.1 * sqrt(2))
    assert found.honest_radius == pytest.approx(sqrt(log(240) / 400))
    assert not found.holds  # B = 2 of K_b = 3


def test_observed_applies_with_many_scores_in_few_bins() -> None:
    shares = np.array([[0.9, 0.1]] * 20 + [[0.0, 1.0]] * 2)
    found = observed_detection(shares, np.arange(22) < 20, np.full(22, 10**5))
    assert found.holds and found.sentence.startswith("the theorem applies")


def test_observed_without_suspects_and_errors() -> None:
    shares, sizes = np.full((4, 2), 0.5), np.full(4, 10)
    found = observed_detection(shares, np.ones(4, bool), sizes)
    assert isnan(found.separation) and not found.holds and "no client was left out" in found.sentence
    with pytest.raises(DataError, match="every client was left out"):
        observed_detection(shares, np.zeros(4, bool), sizes)
    with pytest.raises(DataError, match="with 3 verdicts and 4 sizes"):
        observed_detection(shares, np.ones(3, bool), sizes)
    with pytest.raises(SettingError, match="size=0"):
        histogram_radius(0, 10)
    with pytest.raises(SettingError, match="num_honest=0"):
        honest_radius(10, 10, 0)
    with pytest.raises(SettingError, match="num_byzantine=4 of 4"):
        detection_condition(4, 4, 1.0, 0.1)
