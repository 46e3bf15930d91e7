from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest

from prism_fcp.calibrate import absolute_residual, calibrate, keep_all
from prism_fcp.calibrate.calibration import Calibration
from prism_fcp.calibrate.model_hash import model_hash
from prism_fcp.calibrate.radius_table import RadiusTable
from prism_fcp.calibrate.score import normalised_residual
from prism_fcp.calibrate.span import Span
from prism_fcp.errors import DataError, PrismError, SettingError
from prism_fcp.predict import Predictor, precomputed

GOLDEN = calibrate([np.arange(100.0)], filter=keep_all())  # rank ceil(101·.9) = 91: the radius is 90


def levelled(scores, *levels: float, model: str = "") -> Calibration:
    return dataclasses.replace(
        calibrate(scores, confidence_level=levels, filter=keep_all(), range="max"), model=model, spec="cd" * 32
    )


def test_life_cycle() -> None:
    predictor = Predictor(lambda x: x @ np.array([1.0, 2.0]))
    with pytest.raises(SettingError, match="predict_interval before calibration; call predictor.conformalize"):
        predictor.predict_interval([[1.0, 1.0]])
    calibrated = predictor.conformalize(GOLDEN)
    intervals = calibrated.predict_interval([[1.0, 1.0], [0.0, 2.0]])
    told = (intervals.point.tolist(), intervals.lower.tolist(), intervals.upper.tolist())
    assert told == ([3, 4], [-87, -86], [93, 94])
    point, bounds = intervals
    assert bounds.tolist() == [[[-87], [93]], [[-86], [94]]] and point is intervals.point
    assert predictor.radius is None and predictor.confidence_levels == ()  # a predictor never changes
    with pytest.raises(dataclasses.FrozenInstanceError):
        calibrated.radius = 1.0  # type: ignore[misc]


@pytest.mark.parametrize("action", ["save", "evaluate"])
def test_nothing_works_before_calibration(action: str, tmp_path: Path) -> None:
    predictor = Predictor(lambda x: x)
    with pytest.raises(SettingError, match="before calibration"):
        predictor.save(tmp_path / "p.json") if action == "save" else predictor.evaluate({"a": ([1.0], [1.0])})


def test_several_levels_from_one_calibration() -> None:
    # ranks ceil(101·c) of 0..99: 51, 91 and 96, so radii 50, 90 and 95, in the order given
    calibration = levelled([np.arange(100.0)], 0.9, 0.5, 0.95)
    predictor = Predictor(precomputed).conformalize(calibration)
    assert predictor.confidence_levels == (0.9, 0.5, 0.95) and predictor.radius == 90
    point, bounds = predictor.predict_interval([0.0, 1000.0])
    assert point.shape == (2,) and bounds.shape == (2, 2, 3)
    assert bounds[0].tolist() == [[-90, -50, -95], [90, 50, 95]]
    assert predictor.predict_interval([0.0], 0.95).bounds.tolist() == [[[-95], [95]]]
    assert predictor.predict_interval([0.0], [0.95, "0.5"]).bounds.tolist() == [[[-95, -50], [95, 50]]]
    assert predictor.predict_interval([], (0.95, 0.5)).bounds.shape == (0, 2, 2)
    with pytest.raises(
        SettingError, match=r"confidence_level=0.8 was not calibrated; levels there are: 0.9, 0.5, 0.95"
    ):
        predictor.predict_interval([0.0], 0.8)
    with pytest.raises(SettingError, match="confidence_level is empty"):
        predictor.predict_interval([0.0], [])


@pytest.mark.parametrize("levels", [0.9, [0.8, 0.95]])
def test_shapes_types_and_ends_are_mapies(levels) -> None:
    regression = pytest.importorskip("mapie.regression")
    linear = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 2))
    y = x[:, 0] + rng.standard_normal(300)
    model = linear.LinearRegression().fit(x[:100], y[:100])
    theirs = regression.SplitConformalRegressor(model, levels, prefit=True).conformalize(x[100:200], y[100:200])
    scores = absolute_residual(y[100:200], model.predict(x[100:200]))
    ours = Predictor(model).conformalize(levelled([scores], *np.atleast_1d(levels)))
    for own, other in zip(ours.predict_interval(x[200:]), theirs.predict_interval(x[200:]), strict=True):
        assert own.shape == other.shape and own.dtype == other.dtype
        np.testing.assert_allclose(own, other, rtol=1e-12)


def test_models_of_every_kind_agree() -> None:
    class Model:
        def predict(self, x):
            return 2 * x[:, 0]

        def __call__(self, x):
            raise AssertionError("predict comes first")

    x = np.array([[1.0], [3.0]])
    for predictor, inputs in (
        (Predictor(Model()), x),
        (Predictor(lambda x: 2 * x[:, 0]), x),
        (Predictor(), [2.0, 6.0]),
    ):
        assert predictor.conformalize(1.0).predict_interval(inputs).bounds[:, :, 0].tolist() == [[1, 3], [5, 7]]


def test_a_data_frame_reaches_the_model_as_it_is() -> None:
    frame = pytest.importorskip("pandas").DataFrame({"a": [1.0, 2.0]})
    assert Predictor(lambda rows: rows["a"], 1.0).predict_interval(frame).lower.tolist() == [0, 1]


def test_bounds_are_not_rounded_to_the_models_float32() -> None:
    intervals = Predictor(radii=1e-9).predict_interval(np.ones(1, dtype=np.float32))
    assert intervals.point.dtype == np.float32 and intervals.bounds.dtype == np.float64
    assert intervals.lower[0] < 1 < intervals.upper[0]


def test_an_infinite_radius_gives_honest_infinite_intervals() -> None:
    intervals = Predictor(lambda x: x).conformalize(math.inf).predict_interval([1.0])
    assert intervals.lower[0] == -math.inf and intervals.upper[0] == math.inf
    wide = Predictor(radii=1e308).predict_interval([1e308])
    assert wide.upper[0] == math.inf and wide.lower[0] == 0


@pytest.mark.parametrize("radius", [-1.0, math.nan, {0.9: -1.0}, {}, {1.5: 1.0}, {0.9: 2.0, 0.95: 1.0}, "1", [1.0]])
def test_radii_that_are_none(radius) -> None:
    with pytest.raises(SettingError, match="must be|must lie|at least one|cannot fall"):
        Predictor(lambda x: x, radius)


@pytest.mark.parametrize("model", [None, "model", 3, dict])
def test_models_that_are_none(model) -> None:
    with pytest.raises(SettingError, match="give a function"):
        Predictor(model)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda x: x[:1], r"predictions have shape \(1,\); must be \(2,\)"),
        (lambda x: x[:, None], r"predictions have shape \(2, 1\); must be \(2,\)"),
        (lambda x: 1.0, r"predictions have shape \(\); must be \(2,\)"),
        (lambda x: [[1.0], [1.0, 2.0]], "predictions are ragged"),
        (lambda x: np.ma.masked_less(x, 1.5), "some predictions are masked"),
        (lambda x: x + 1j, "dtype complex128"),
        (lambda x: np.array([1.0, math.nan]), "1 of 2 predictions are NaN or infinite"),
    ],
)
def test_a_broken_model_is_said(answer, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Predictor(answer, 1.0).predict_interval([1.0, 2.0])


def test_ragged_inputs() -> None:
    with pytest.raises(DataError, match="inputs are ragged"):
        Predictor(lambda x: x, 1.0).predict_interval([[1.0], [1.0, 2.0]])


class TestSigma:
    """Normalised scores: the interval is prediction ± radius·sigma."""

    @pytest.mark.parametrize("sigma", [lambda x: x, np.array([1.0, 2.0]), [1, 2]])
    def test_golden(self, sigma) -> None:
        predictor = Predictor(lambda x: 10 * x, sigma=sigma).conformalize({0.9: 3.0, 0.95: math.inf})
        _, bounds = predictor.predict_interval([1.0, 2.0])
        assert bounds[:, :, 0].tolist() == [[7, 13], [14, 26]]
        assert bounds[:, :, 1].tolist() == [[-math.inf, math.inf]] * 2

    @pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
    def test_values_that_are_none(self, bad: float) -> None:
        predictor = Predictor(sigma=[1.0, bad], radii=1.0)
        with pytest.raises(
            DataError, match=f"1 of 2 values of sigma are not positive and finite, the first {bad} in row 1"
        ):
            predictor.predict_interval([1.0, 2.0])

    def test_one_for_each_row(self) -> None:
        with pytest.raises(DataError, match=r"sigma have shape \(3,\); must be \(2,\)"):
            Predictor(sigma=np.ones(3), radii=1.0).predict_interval([1.0, 2.0])
        with pytest.raises(SettingError, match="sigma='a'; give a function"):
            Predictor(sigma="a")

    def test_scores_and_sigma_go_together(self) -> None:
        table = RadiusTable.of(1.0, score="normalised_residual")
        with pytest.raises(SettingError, match="'normalised_residual'; give sigma, too"):
            Predictor(radii=table)
        with pytest.raises(SettingError, match="'absolute_residual'; leave sigma out"):
            Predictor(sigma=np.ones(1), radii=RadiusTable.of(1.0))

    @pytest.mark.statistical
    def test_coverage_where_the_noise_varies(self) -> None:
        """Normalising keeps coverage at 901/1001 and, with the true sigma, at any sigma: no trend.

        200 trials of 1,000 test samples: sd of the mean below sqrt(2·.09/1000/200) = .00095 overall and .0013 for the
        noisy half; tolerance .008: 6 sd, false alarm below 1e-8. Without normalising the noisy half is at 82 %.
        """
        rng, covered, noisy, plain = np.random.default_rng(0), [], [], []
        for _ in range(200):
            sigma = rng.uniform(0.5, 2, 2000)
            y = sigma * rng.standard_normal(2000)
            zeros = np.zeros(1000)
            radius = calibrate([normalised_residual(y[:1000], zeros, sigma[:1000])], filter=keep_all()).radius
            intervals = Predictor(sigma=sigma[1000:], radii=radius).predict_interval(zeros)
            hit = (intervals.lower <= y[1000:]) & (y[1000:] <= intervals.upper)
            covered.append(hit.mean())
            noisy.append(hit[sigma[1000:] > 1.25].mean())
            plain.append((np.abs(y[1000:]) <= np.quantile(np.abs(y[:1000]), 0.9))[sigma[1000:] > 1.25].mean())
        assert np.mean(covered) == pytest.approx(901 / 1001, abs=0.008)
        assert np.mean(noisy) == pytest.approx(901 / 1001, abs=0.008)
        assert np.mean(plain) < 0.86


class TestClients:
    """Clients' own radii."""

    SCORES = {"small": np.arange(10.0), "large": 10 * np.arange(10.0), "few": np.ones(3)}

    def test_exact_from_scores(self) -> None:
        # rank ceil(11·.5) = 6: the 6th of 0..9 is 5; of three scores the 2nd, ceil(4·.5)
        calibration = levelled(list(self.SCORES.values()), 0.5, 0.9)
        predictor = Predictor().conformalize(calibration, per_client=self.SCORES)
        for name, radii in (("small", [5, 9]), ("large", [50, 90]), ("few", [1, math.inf])):
            assert predictor.predict_interval([0.0], client=name).bounds[0, 1].tolist() == radii
        # of all 23, 0 0 1 1 1 1 2 3 4 5 6 7 8 9 10 20 ... 90, the 12th and the 22nd
        assert predictor.predict_interval([0.0]).bounds[0, 1].tolist() == [7, 80]
        assert predictor.predict_interval([0.0], client="few", confidence_level=0.5).upper.tolist() == [1]

    def test_from_counts_never_smaller(self) -> None:
        rng = np.random.default_rng(3)
        scores = {name: rng.exponential(scale, 200) for name, scale in (("a", 1.0), (5, 3.0), ("c", 0.2))}
        calibration = calibrate(scores, filter=keep_all(), bins=1000)
        exact = Predictor().conformalize(calibration, per_client=scores)
        binned = Predictor().conformalize(calibration, per_client=True)
        width = calibration.edges[1]
        for name in scores:
            ends = [p.predict_interval([0.0], client=name).upper[0] for p in (exact, binned)]
            assert ends[0] < ends[1] <= ends[0] + width or (ends[1] == math.inf and ends[0] >= calibration.edges[-2])
        assert np.isfinite(binned.predict_interval([0.0], client="a").upper).all()

    def test_a_clipped_last_bin_says_infinite(self) -> None:
        scores = {i: np.linspace(0, 1, 100) for i in range(9)} | {9: np.full(100, 50.0)}
        calibration = calibrate(scores, filter=keep_all(), range=Span(1.0), confidence_level=0.5)
        predictor = Predictor().conformalize(calibration, per_client=True)
        assert predictor.predict_interval([0.0], client=9).upper[0] == math.inf
        assert predictor.predict_interval([0.0], client=0).upper[0] == pytest.approx(0.51)

    def test_unknown_and_left_out(self) -> None:
        liars = {f"site{i}": np.arange(40.0) for i in range(6)} | {"lake": np.zeros(40), "broken": [math.nan]}
        calibration = calibrate(liars)
        assert sorted(calibration.left_out) == ["broken", "lake"]
        everybody = Predictor().conformalize(calibration)
        with pytest.raises(
            SettingError, match="no guarantee for client 'lake', which has no radius of its own .left out"
        ):
            everybody.predict_interval([0.0], client="lake")
        with pytest.raises(SettingError, match="no client has a radius of its own; conformalize with per_client"):
            everybody.predict_interval([0.0], client="site1")
        own = everybody.conformalize(calibration, per_client=True)
        assert own.predict_interval([0.0], client="lake").upper[0] <= calibration.edges[1]  # its own, zeros
        with pytest.raises(SettingError, match="no guarantee for client 'broken'.*refused"):
            own.predict_interval([0.0], client="broken")
        with pytest.raises(SettingError, match="'site9' has no radius of its own; did you mean 'site"):
            own.predict_interval([0.0], client="site9")
        bounds = own.predict_interval([0.0], client="site9", unknown="global").bounds
        assert bounds.tolist() == own.predict_interval([0.0]).bounds.tolist()
        with pytest.raises(SettingError, match="unknown='all'"):
            own.predict_interval([0.0], client="site1", unknown="all")

    @pytest.mark.parametrize("scores", [[1.0, math.nan], [-1.0], [], ["a"], [[1.0]]])
    def test_scores_that_are_none(self, scores) -> None:
        with pytest.raises(DataError, match="own radius of client 'a'"):
            Predictor().conformalize(GOLDEN, per_client={"a": scores})

    def test_what_per_client_needs(self) -> None:
        with pytest.raises(SettingError, match="per_client=True needs a calibration"):
            Predictor().conformalize(1.0, per_client=True)
        with pytest.raises(SettingError, match="give a mapping confidence level"):
            Predictor().conformalize(1.0, per_client={"a": [1.0]})

    @pytest.mark.statistical
    def test_each_client_is_covered_where_the_common_radius_covers_none_rightly(self) -> None:
        """Own radii of n = 99 cover 90/100 at each of two clients, one with ten times the noise of the other.

        400 trials: sd of a client's mean sqrt(.09/100 + .09/100)/20 = .0021; tolerance .011: 5 sd, below 1e-6. The
        common radius covers the quiet client always and the noisy one in about 80 %.
        """
        rng, noise = np.random.default_rng(1), np.array([[0.1], [1.0]])
        own, common = [], []
        for _ in range(400):
            scores = np.abs(noise * rng.standard_normal((2, 199)))
            told = {"quiet": scores[0, :99], "noisy": scores[1, :99]}
            predictor = Predictor().conformalize(calibrate(told, filter=keep_all(), range="max"), per_client=told)
            test = {name: (np.zeros(100), row[99:]) for name, row in zip(told, scores, strict=True)}
            own.append([one.coverage for one in predictor.evaluate(test, per_client=True).clients])
            common.append([one.coverage for one in predictor.evaluate(test).clients])
        assert np.mean(own, axis=0) == pytest.approx([0.9, 0.9], abs=0.011)
        quiet, noisy = np.mean(common, axis=0)
        assert quiet > 0.999 and noisy < 0.83


class TestFile:
    """Save and load, checked against the model hash."""

    HASH = model_hash({"w": np.array([1.0])})

    def test_round_trip(self, tmp_path: Path) -> None:
        scores = {"a": np.arange(40.0), 7: np.arange(3.0), "left": [math.nan]}
        predictor = Predictor(lambda x: x).conformalize(
            levelled(scores, 0.5, 0.9), per_client=True, model=self.HASH, provenance={"by": "me"}
        )
        predictor.save(tmp_path / "p.json")
        again = Predictor.load(tmp_path / "p.json", lambda x: x, model_hash={"w": np.array([1.0])})
        assert again.radii == predictor.radii and predictor.radii.spec_hash == "cd" * 32
        assert "Infinity" not in (tmp_path / "p.json").read_text()

    def test_normalised_needs_its_sigma(self, tmp_path: Path) -> None:
        Predictor(sigma=[1.0]).conformalize(2.0).save(tmp_path / "p.json")
        with pytest.raises(SettingError, match="give sigma, too"):
            Predictor.load(tmp_path / "p.json")
        assert Predictor.load(tmp_path / "p.json", sigma=[2.0]).predict_interval([0.0]).upper.tolist() == [4]

    def test_the_model_must_be_the_one(self, tmp_path: Path) -> None:
        path = tmp_path / "p.json"
        Predictor().conformalize(1.0, model=self.HASH).save(path)
        with pytest.raises(
            DataError, match="made for model 8f9f2fd535e9..., this is .*use that model, or calibrate this one"
        ):
            Predictor.load(path, model_hash={"w": np.array([2.0])})
        with pytest.raises(DataError, match="give model_hash"):
            Predictor.load(path)
        Predictor().conformalize(1.0).save(path)
        with pytest.raises(DataError, match="names no model"):
            Predictor.load(path, model_hash=self.HASH)
        assert Predictor.load(path).radius == 1

    def test_the_calibrations_model_is_the_one_that_counts(self) -> None:
        calibration = levelled([np.arange(100.0)], 0.9, model="ab" * 32)
        with pytest.raises(DataError, match="the calibration is of model abababababab..., this model is"):
            Predictor().conformalize(calibration, model=self.HASH)
        table = Predictor().conformalize(calibration).radii
        assert isinstance(table, RadiusTable) and table.model_hash == "ab" * 32

    def test_a_missing_file(self, tmp_path: Path) -> None:
        with pytest.raises(PrismError, match="cannot read"):
            Predictor.load(tmp_path / "none.json")


@pytest.mark.statistical
def test_coverage_at_the_asked_level() -> None:
    """Split conformal covers ceil((n+1)·c)/(n+1) on average: 901/1001 for n = 1000, c = .9.

    300 trials, each with sd sqrt(.09/1000 + .09/1000) = .0134; mean sd .00078; tolerance .004: 5 sd, below 1e-6.
    """
    rng, covered = np.random.default_rng(0), []
    for _ in range(300):
        scores = np.abs(rng.standard_normal((10, 200)))
        predictor = Predictor().conformalize(calibrate(scores[:, :100], filter=keep_all()))
        covered.append(predictor.evaluate({0: (np.zeros(1000), scores[:, 100:].ravel())}).overall.coverage)
    assert np.mean(covered) == pytest.approx(901 / 1001, abs=0.004)
