from __future__ import annotations

import json
import math

import numpy as np
import pytest

from prism_fcp import io
from prism_fcp.calibrate import calibrate, keep_all
from prism_fcp.calibrate.radius_table import RadiusTable
from prism_fcp.errors import DataError, SettingError
from prism_fcp.evaluation import evaluate, text_table
from prism_fcp.predict import Predictor

RESIDUALS = {"a": [0.5, 1.0, 1.5, -2.0], "b": [0.0, 0.1, 0.2, 0.3]}


def test_golden_by_hand() -> None:
    """Intervals ±1: a covers 0.5 and 1.0 (a tie counts), misses by 0.5 and 1.0; b covers all.

    At level 0.8 a miss costs 2/0.2 = 10 times its distance: a's scores are 2, 2, 2 + 5, 2 + 10, mean 5.75; b's are 2.
    Clopper-Pearson at 95 % for 4 of 4: low = 0.025^(1/4) = 0.39764.
    """
    result = evaluate(RESIDUALS, {0.8: 1.0})
    a, b = result.clients
    assert (a.name, a.num_samples, a.coverage, a.width, a.winkler) == ("a", 4, 0.5, 2, pytest.approx(5.75))
    assert (b.coverage, b.high, b.winkler) == (1, 1, 2) and b.low == pytest.approx(0.025**0.25)
    assert result.overall.coverage == 0.75 and result.overall.winkler == pytest.approx(3.875)
    assert result.worst is a
    assert (result.levels[0].share_under, result.levels[0].share_clearly_under) == (0.5, 0)


def test_asymmetric_errors_and_sigma_by_hand() -> None:
    # y - prediction = 3, -1 with sigma 2, 0.5 and radius 1: half-widths 2 and 0.5, both missed, by 1 and 0.5; scores
    # at level 0.9: 4 + 20·1 and 1 + 20·0.5
    one = evaluate({"a": ([3.0, 0.0], [0.0, 1.0], [2.0, 0.5])}, {0.9: 1.0}).overall
    assert (one.coverage, one.width) == (0, 2.5) and one.winkler == pytest.approx((24 + 11) / 2)


def test_winkler_is_mapies() -> None:
    metrics = pytest.importorskip("mapie.metrics.regression")
    y = np.random.default_rng(0).standard_normal(500)
    bounds = Predictor(radii={0.9: 1.2}).predict_interval(np.zeros(500)).bounds
    theirs = metrics.regression_mwi_score(y, bounds, 0.9)
    assert evaluate({0: (y, np.zeros(500))}, {0.9: 1.2}).overall.winkler == pytest.approx(theirs, rel=1e-12)


def test_the_intervals_of_counts_are_scipys() -> None:
    stats = pytest.importorskip("scipy.stats")
    residuals = [np.r_[np.zeros(k), np.full(50 - k, 2.0)] for k in (0, 1, 25, 49, 50)]
    for k, one in zip((0, 1, 25, 49, 50), evaluate(residuals, 1.0, confidence=0.9).clients, strict=True):
        wanted = stats.binomtest(k, 50).proportion_ci(0.9)
        assert (one.low, one.high) == (pytest.approx(wanted.low), pytest.approx(wanted.high))


def test_levels_groups_and_a_sequence_of_clients() -> None:
    groups = {0: ["f", "m", "f", "m"], 1: ["f", "f", "f", "x"]}
    result = evaluate(list(RESIDUALS.values()), {0.5: 0.25, 0.9: 1.2}, groups=groups)
    assert [level.confidence_level for level in result.levels] == [0.5, 0.9]
    second = result.levels[1]
    assert [(one.name, one.num_samples, one.coverage) for one in second.groups] == [
        ("f", 5, 0.8),
        ("m", 2, 0.5),
        ("x", 1, 1),
    ]
    assert [one.name for one in second.clients] == [0, 1] and second.worst.name == 0
    assert sum(one.coverage * one.num_samples for one in second.groups) == pytest.approx(8 * second.overall.coverage)
    only = evaluate(list(RESIDUALS.values()), {0.5: 0.25, 0.9: 1.2}, confidence_level=0.9, groups=groups)
    assert only.levels == result.levels[1:]


def test_clients_own_radii() -> None:
    table = RadiusTable(RadiusTable.of({0.5: 0.25, 0.9: 1.2}).levels, own={"a": (1.5, 2.0)})
    result = evaluate(RESIDUALS, table, per_client=True, unknown="global")
    assert [(one.coverage, one.width) for one in result.clients] == [(0.75, 3), (0.75, 0.5)]
    assert result.levels[1].clients[0].coverage == 1 and result.overall.width == 1.75
    with pytest.raises(SettingError, match="client 'b' has no radius of its own"):
        evaluate(RESIDUALS, table, per_client=True)


def test_an_infinite_radius() -> None:
    result = evaluate(RESIDUALS, {0.8: 1.0, 0.9: math.inf}, groups={name: ["g"] * 4 for name in RESIDUALS})
    overall = result.levels[1].overall
    assert (overall.coverage, overall.width, overall.winkler) == (1, math.inf, math.inf)
    told = json.loads(io.to_json(result.to_json()))
    assert told["levels"][1]["overall"]["width"] == "inf" and told["levels"][0]["overall"]["width"] == 2
    assert told["levels"][0]["worst"] == "a" and "inf" in text_table(result)


def test_a_bare_radius_has_no_winkler_score() -> None:
    result = evaluate(RESIDUALS, 1.0)
    assert (result.overall.winkler, result.levels[0].share_under) == (None, None)
    assert text_table(result).startswith("a radius without a confidence level")
    assert json.loads(io.to_json(result.to_json()))["levels"][0]["confidence_level"] is None


def test_text() -> None:
    clients = {f"site{i}": [0.0] * 9 + [float(i > 6)] for i in range(12)}
    text = text_table(evaluate(clients, {0.95: 0.5}, groups={name: ["x"] * 10 for name in clients}), most=3)
    lines = text.split("\n")
    assert lines[0] == "confidence level 0.95" and lines[3].startswith("group x")
    assert [line.split()[:4] for line in lines[4:7]] == [["client", f"site{i}", "10", "90.0%"] for i in (7, 8, 9)]
    assert lines[7:] == [
        "and 9 clients that are covered at least as often",
        "clients under 0.95: 41.7%, clearly (the whole interval): 0.0%",
    ]


@pytest.mark.parametrize(
    ("clients", "radii", "options", "message"),
    [
        ({}, 1.0, {}, "no client; at least one"),
        ({"a": [1.0, math.nan]}, 1.0, {}, "client 'a': absolute_residual: 1 of 2 entries of y are NaN"),
        ({"a": []}, 1.0, {}, "client 'a': absolute_residual: y is empty"),
        ({"a": ["x"]}, 1.0, {}, "client 'a': .*dtype"),
        ({"a": [[1.0]]}, 1.0, {}, r"client 'a': y has shape \(1, 1\)"),
        ({"a": ([1.0], [1.0, 2.0])}, 1.0, {}, "client 'a': absolute_residual: y has shape"),
        ({"a": ([1.0], [1.0], [0.0])}, 1.0, {}, "client 'a': normalised_residual: 1 of 1 entries of sigma"),
        ({"a": ([1.0], [1.0], [1.0]), "b": [1.0]}, 1.0, {}, "client 'b': .* give .y, prediction, sigma"),
        ({"a": ([1.0], [1.0], [1.0])}, RadiusTable.of(1.0), {}, "client 'a' has 3 arrays; absolute_residual needs 2"),
        ({"a": [1.0]}, 1.0, {"groups": {}}, "no labels of client 'a'"),
        ({"a": [1.0]}, 1.0, {"groups": {"a": ["x", "y"]}}, r"labels of client 'a' have shape \(2,\); must be \(1,\)"),
    ],
)
def test_data_that_are_none(clients, radii, options, message: str) -> None:
    with pytest.raises(DataError, match=message):
        evaluate(clients, radii, **options)


def test_settings_that_are_none() -> None:
    with pytest.raises(SettingError, match="confidence=1"):
        evaluate(RESIDUALS, 1.0, confidence=1)
    with pytest.raises(SettingError, match="levels there are: 0.8"):
        evaluate(RESIDUALS, {0.8: 1.0}, confidence_level=0.9)


def test_a_predictor_evaluates_inputs_and_targets() -> None:
    predictor = Predictor(lambda x: 2 * x[:, 0], sigma=lambda x: 1 + x[:, 0]).conformalize({0.8: 1.0})
    x = np.array([[0.0], [1.0]])
    told = predictor.evaluate({"a": (x, [0.5, 5.0])}, groups={"a": ["low", "high"]})
    assert told == evaluate({"a": ([0.5, 5.0], [0.0, 2.0], [1.0, 2.0])}, {0.8: 1.0}, groups={"a": ["low", "high"]})
    assert told.overall.coverage == 0.5 and told.overall.width == 3


@pytest.mark.statistical
def test_the_clopper_pearson_interval_holds() -> None:
    """The true coverage of a fixed radius lies in a client's 95 % interval for at least 95 % of clients.

    4,000 clients of 60 samples, coverage 0.9: at least .95 by design, in truth .9716 (binomial sum over the counts
    whose interval holds 0.9; sd .0026), and .0146 clearly under (sd .0019). The bounds are 5 sd away: below 1e-6.
    """
    rng = np.random.default_rng(0)
    calibration = calibrate([np.arange(1.0, 1001)], filter=keep_all())
    assert calibration.radius == 901  # ceil(1001·.9)
    result = evaluate(list(rng.uniform(0, 901 / 0.9, (4000, 60))), calibration)
    held = [one.low <= 0.9 <= one.high for one in result.clients]
    assert 0.955 < np.mean(held) < 0.99
    assert result.levels[0].share_clearly_under < 0.025
