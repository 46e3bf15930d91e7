"""What a newcomer types by mistake, or somebody on purpose: always our own error, one line, with the remedy."""

import math

import numpy as np
import pytest

from prism_fcp import (
    Arm,
    CalibrationSettings,
    Choice,
    Federation,
    Masks,
    Method,
    Predictor,
    Setup,
    SyntheticLinear,
)
from prism_fcp.calibrate import FILTERS, RANGES, SCORE_ATTACKS, Span, calibrate, keep_all
from prism_fcp.engines import train
from prism_fcp.errors import PrismError

GOOD = [np.random.default_rng(k).exponential(size=40) for k in range(6)]
WRONG_NUMBERS = ["a", None, math.nan, math.inf, -1, True, [1.0], 1e400]


@pytest.mark.parametrize("scores", [None, 3, "abc", np.float64(1), np.array(2.0), object(), b"1"])
def test_scores_that_are_no_collection(scores):
    with pytest.raises(PrismError, match="give one array a client"):
        calibrate(scores)


@pytest.mark.parametrize(
    "options",
    [
        *({"bins": b} for b in (2.5, "a", 10**10, 10**30, 1, True)),
        *({"cap": c} for c in ("a", 0, math.nan, [3])),
        *({"confidence_level": c} for c in (None, "a", 0, 1, math.nan, [], [0.9, 2], object())),
        {"range": "maximum"},
        {"range": 3},
        {"filter": "madd"},
        {"filter": "known_count"},
        {"filter": 3},
        {"correction": None},
        {"beyond_range": None},
    ],
)
def test_options_of_calibrate(options):
    with pytest.raises(PrismError) as caught:
        calibrate(GOOD, **options)
    assert "\n" not in str(caught.value)


def test_names_stand_for_factories_without_options():
    named, built = (
        calibrate(GOOD, filter="keep_all", range="max"),
        calibrate(GOOD, filter=keep_all(), range=RANGES["max"]()),
    )
    assert named.radius == built.radius and named.edges.tolist() == built.edges.tolist()


def test_a_masked_array_is_refused_rather_than_unmasked():
    own = np.ma.masked_array(GOOD[0], mask=np.arange(40) == 3)
    assert "masked" in calibrate({"a": own, "b": GOOD[1], "c": GOOD[2], "d": GOOD[3]}).refused["a"]


@pytest.mark.parametrize("value", WRONG_NUMBERS)
@pytest.mark.parametrize(
    ("registry", "name", "option"),
    [
        (FILTERS, "known_count", "suspects"),
        (FILTERS, "mad", "threshold"),
        (FILTERS, "mad", "scale"),
        (FILTERS, "estimated_count", "threshold"),
        (FILTERS, "down_weight", "threshold"),
        (RANGES, "max", "factor"),
        (RANGES, "high_quantile", "level"),
        (RANGES, "median_mad", "multiples"),
        (RANGES, "overflow", "level"),
        (SCORE_ATTACKS, "coverage", "multiple"),
        (SCORE_ATTACKS, "random", "sd"),
        (SCORE_ATTACKS, "efficiency", "level"),
    ],
)
def test_numbers_of_factories(registry, name, option, value):
    if value is None and option == "suspects":
        return  # None means: as the context says
    with pytest.raises(PrismError, match=option):
        registry[name](**{option: value})


@pytest.mark.parametrize("predict", [None, 3, "model"])
def test_a_predictor_needs_a_function(predict):
    with pytest.raises(PrismError, match="give a function"):
        Predictor(predict)


@pytest.mark.parametrize("radius", ["a", math.nan, -1.0, [1, 2], True])
def test_a_predictor_needs_a_radius(radius):
    with pytest.raises(PrismError, match="radius"):
        Predictor(lambda x: x).conformalize(radius)


@pytest.mark.parametrize("inputs", [["a"], np.array([object()]), [None]])
def test_predictions_must_be_numbers(inputs):
    with pytest.raises(PrismError, match="must be real numbers"):
        Predictor(lambda x: x, 1.0).predict_interval(inputs)


def test_a_radius_may_be_infinite():
    assert Predictor(lambda x: x).conformalize(math.inf).predict_interval([1]).upper == math.inf


def test_a_span_is_a_range():
    assert calibrate(GOOD, range=Span(9.0)).edges.tolist() == Span(9.0).edges(100).tolist()


MASKS = Masks(num_shared=2)


@pytest.mark.parametrize("value", ["a", None, math.nan, -1, True, 2.5, 10**400])
@pytest.mark.parametrize(
    "name", ["num_clients", "dimension", "num_participants", "num_byzantine", "rounds", "window", "step_size"]
)
def test_numbers_of_a_federation(name, value):
    if name == "step_size" and value == 2.5:
        return
    with pytest.raises(PrismError, match=name):
        Federation(**{name: value})


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("gaussian", {"variance": 1e31}),
        ("gaussian", {"variance": "a"}),
        ("alie", {"z": 1e300}),
        ("alie", {"z": None}),
    ],
)
def test_numbers_of_training_attacks(name, options):
    with pytest.raises(PrismError, match=name):
        Federation(attack=Choice(name, options))


@pytest.mark.parametrize(
    "sizes",
    [
        {"num_clients": 0},
        {"dimension": 0},
        {"num_byzantine": 11},
        {"num_byzantine": -1},
        {"seed": "a"},
        {"seed": 2**64},
    ],
)
def test_populations_that_cannot_be(sizes):
    with pytest.raises(PrismError, match=next(iter(sizes))):
        SyntheticLinear().draw(**{"num_clients": 10, "dimension": 3, "num_byzantine": 2, "seed": 0, **sizes})


def test_names_stand_for_choices():
    assert Arm(masks=MASKS, rule="median") == Arm(masks=MASKS, rule=Choice("median"))
    assert Federation(attack="alie") == Federation(attack=Choice("alie"))
    with pytest.raises(PrismError, match="rule=3; give a name"):
        Arm(masks=MASKS, rule=3)


def test_a_trial_no_memory_holds_is_refused_before_it_starts():
    whole = Setup(
        population=SyntheticLinear(),
        federation=Federation(),
        calibration=CalibrationSettings(samples=10**9),
        attacks=(("efficiency", Choice("efficiency")),),
        methods=(Method(name="m", arm=Arm(masks=MASKS), filter="keep_all"),),
    )
    with pytest.raises(PrismError, match=r"make 1\.0e\+11 a trial; at most 5e\+08: lower one of them"):
        whole.check()


def test_training_wants_the_federations_population():
    population = SyntheticLinear().draw(10, 50, 2, 0)
    with pytest.raises(PrismError, match="the population has 10 clients, but num_clients=100"):
        train(population, Federation(), [Arm(masks=MASKS)])
