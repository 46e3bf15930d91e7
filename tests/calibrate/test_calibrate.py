from __future__ import annotations

import dataclasses
import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.calibrate.federation import draw

from prism_fcp.calibrate import (
    FILTERS,
    RANGES,
    SCORE_ATTACKS,
    Calibration,
    ClippedScoresWarning,
    Span,
    TooFewScoresWarning,
    calibrate,
    down_weight,
    histogram,
    keep_all,
    known_count,
    mad,
)
from prism_fcp.errors import DataError, SettingError
from prism_fcp.theory.contamination import coverage_bounds


def test_golden() -> None:
    # Four clients hold 1..19 each, a fifth reports zeros. The 4·19 = 76 kept scores ask for rank
    # ceil(77·.9) = ceil(69.3) = 70. Each value stands four times, so the 70th is ceil(70/4) = 18.
    honest = np.arange(1.0, 20.0)
    scores = {"a": honest, "b": honest, "liar": np.zeros(19), "c": honest, "d": honest}
    result = calibrate(scores, filter=known_count(1), range=Span(20.0), bins=20)
    assert (result.radius, result.width, result.rank, result.num_scores) == (18.0, 36.0, 70, 76)
    assert result.bracket == (18.0, 19.0)  # bins of width 1
    assert result.client_ids == ("a", "b", "liar", "c", "d")
    assert list(result.left_out) == ["liar"]
    # shares differ from zeros' by 1 in bin 0 and 1/19 in nineteen bins: sqrt(1 + 1/19) = 1.026, three of them 3.078
    assert "left out: sum of distances to the farthest clients 3.078 is above" in result.left_out["liar"]
    unfiltered = calibrate(scores, filter=keep_all(), range=Span(20.0))
    # 95 scores, rank ceil(96·.9) = 87; 19 zeros first, so the 68th honest one: ceil(68/4) = 17
    assert unfiltered.radius == 17.0 and unfiltered.left_out == {}
    assert calibrate(scores, filter=known_count(1), range=Span(20.0), correction="n+K").rank == 72  # ceil(80·.9)
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.radius = 1.0  # type: ignore[misc]


def test_the_default_needs_no_setting() -> None:
    trial = draw(0)
    sent = trial.scores.copy()
    sent[trial.attackers] = trial.report(SCORE_ATTACKS["random"]())
    result = calibrate(sent)
    assert set(trial.attackers.tolist()) <= set(result.left_out)
    assert calibrate(list(sent)).radius == result.radius
    clean = calibrate(trial.scores, filter=keep_all()).radius
    assert result.radius == pytest.approx(clean, rel=0.05)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99, 0.999])
def test_the_default_range_leaves_room_for_the_level(level: float) -> None:
    result = calibrate(draw(8).scores, confidence_level=level, filter=keep_all())  # no warning
    assert result.radius <= result.edges[-1]


def test_one_absurd_score_stops_the_paper_range_with_a_remedy_and_no_other() -> None:
    sent = [*draw(9, clients=10, samples=100).scores, np.array([1e300] * 5)]
    with pytest.raises(DataError, match="absurdly large. Then use a robust range"):
        calibrate(sent, range=RANGES["max"]())
    assert 10 in calibrate(sent).left_out


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ([0.1, float("nan"), float("inf")], "refused: 2 of 3 scores are NaN or infinite, the first at position 1"),
        ([0.1, -0.1], "refused: 1 of 2 scores are negative, the first at position 1"),
        ([], "refused: there are no scores; at least one is needed"),
        ([[0.1, 0.2]], "refused: scores have 2 dimensions; one is needed"),
        (0.5, "refused: scores have 0 dimensions; one is needed"),
        (["a"], "refused: scores have dtype <U1; real numbers are needed"),
        ([True], "refused: scores have dtype bool; real numbers are needed"),
        ([None], "refused: scores have dtype object; real numbers are needed"),
        ([1 + 1j], "refused: scores have dtype complex128; real numbers are needed"),
        ([[1.0], [1.0, 2.0]], "refused: scores are ragged; one array of numbers is needed"),
    ],
)
def test_one_bad_client_is_named_and_the_rest_carry_on(sent: object, reason: str) -> None:
    honest = {f"c{k}": np.random.default_rng(k).exponential(size=100) for k in range(6)}
    result = calibrate({"broken": sent, **honest}, filter=keep_all(), range=Span(20.0))  # type: ignore[dict-item]
    assert result.left_out == {"broken": reason} == dict(result.refused)
    assert result.client_ids == tuple(honest)
    assert result.radius == calibrate(honest, filter=keep_all(), range=Span(20.0)).radius


def test_nobody_usable() -> None:
    with pytest.raises(DataError, match="none of 2 clients .* client 'a' was refused: there are no scores"):
        calibrate({"a": [], "b": [math.nan]})
    with pytest.raises(DataError, match="none of 0 clients .* no client sent any"):
        calibrate([])
    with pytest.raises(DataError, match="scores have 0 dimensions"):
        calibrate(np.ones(5))


def test_settings_errors() -> None:
    with pytest.raises(SettingError, match="confidence_level=90"):
        calibrate([np.ones(5)], confidence_level=90)
    with pytest.raises(SettingError, match="cap=0.5; must be at least 1"):
        calibrate([np.ones(5)], cap=0.5)
    with pytest.raises(SettingError, match="unknown correction"):
        calibrate([np.ones(50)], correction="n")  # type: ignore[arg-type]


def test_integers_and_float32_are_numbers() -> None:
    scores = [np.arange(100), np.arange(100, dtype=np.float32), list(range(100))]
    assert calibrate(scores, filter=keep_all()).radius == 90  # 300 scores, rank ceil(270.9) = 271: ceil(271/3) - 1


def test_too_few_scores() -> None:
    with pytest.warns(TooFewScoresWarning, match="8 scores cannot give confidence 0.9: rank 9"):
        result = calibrate([np.ones(4), np.ones(4)], filter=keep_all())
    assert result.radius == result.width == math.inf and result.bracket == (math.inf, math.inf)


@pytest.mark.parametrize("span", [Span(2.0), Span(2.0, overflow=True)])
def test_a_rank_among_clipped_scores_is_never_silent(span: Span) -> None:
    scores = [np.concatenate([np.ones(80), np.full(20, 9.0)])] * 3
    options = {"filter": keep_all(), "range": span, "bins": 10}
    with pytest.warns(ClippedScoresWarning, match="above the range 2: the radius is that score, 9"):
        exact = calibrate(scores, **options)  # type: ignore[arg-type]
    assert exact.radius == 9.0 and exact.bracket == (2.0, math.inf)
    with pytest.warns(ClippedScoresWarning, match="the radius is infinite"):
        infinite = calibrate(scores, beyond_range="infinite", **options)  # type: ignore[arg-type]
    assert infinite.radius == math.inf and infinite.bracket == (2.0, math.inf)
    with pytest.warns(
        ClippedScoresWarning, match="range 2: the radius is cut to it and intervals may cover too little"
    ):
        clipped = calibrate(scores, beyond_range="clip", **options)  # type: ignore[arg-type]
    assert clipped.radius == 2.0
    assert clipped.bracket[0] <= 2.0 <= clipped.bracket[1]


KEEPS = {"keep_all", "mixture"}  # not told how many, mixture names no group of six: it takes eight to show a valley


@pytest.mark.parametrize("name", sorted(RANGES))
@pytest.mark.parametrize("filter", sorted(FILTERS))
def test_every_range_with_every_filter(name: str, filter: str) -> None:
    trial = draw(3, clients=30, samples=150, hostile=6)
    sent = trial.scores.copy()
    sent[trial.attackers] = trial.report(SCORE_ATTACKS["coverage"]())
    with warnings.catch_warnings():
        if filter in KEEPS:  # a fifth of the mass lies far up, so the radius does too
            warnings.simplefilter("ignore", ClippedScoresWarning)
        result = calibrate(sent, filter=FILTERS[filter](), range=RANGES[name](), suspects=6)
    assert result.bracket[0] <= result.radius <= result.bracket[1]
    assert result.counts.shape == (30, 100 + (name == "overflow"))
    if filter not in KEEPS:
        clean = np.sort(trial.scores[trial.honest].ravel())
        assert result.radius == pytest.approx(clean[int(0.9 * clean.size)], rel=0.15)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 60), st.sampled_from([0.5, 0.8, 0.9, 0.95]), st.booleans())
def test_the_bracket_holds_the_radius(seed: int, bins: int, level: float, weighted: bool) -> None:
    rng = np.random.default_rng(seed)
    scores = [rng.exponential(size=int(n)) for n in rng.integers(20, 80, size=8)]
    rule = down_weight(threshold=0.5) if weighted else mad()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = calibrate(scores, confidence_level=level, filter=rule, bins=bins, range=RANGES["overflow"]())
    assert result.bracket[0] <= result.radius <= result.bracket[1]


def test_permuting_names_changes_nothing() -> None:
    trial = draw(4, clients=15, samples=60, hostile=3)
    named = {f"c{k}": own for k, own in enumerate(trial.scores)}
    turned = dict(reversed(named.items()))
    one, other = calibrate(named), calibrate(turned)
    assert one.radius == other.radius and set(one.left_out) == set(other.left_out)


def test_a_client_that_sends_a_million_scores_does_not_own_the_quantile() -> None:
    honest = [np.random.default_rng(k).exponential(size=200) for k in range(20)]
    owner = np.full(1_000_000, 4.0)
    taken = calibrate([*honest, owner], filter=keep_all(), range=Span(20.0), cap=None)
    assert taken.radius == 4.0  # asked for: every score counts
    capped = calibrate([*honest, owner], filter=keep_all(), range=Span(20.0), cap=1)
    clean = calibrate(honest, filter=keep_all(), range=Span(20.0))
    assert clean.radius <= capped.radius < 1.35 * clean.radius  # one client in 21 can move .9 to at most .945
    assert capped.rank == math.ceil(4201 * 0.9)
    # Unless told otherwise it counts for three clients of 23, whatever it sends: 600 of a mass of 4,600.
    usual = calibrate([*honest, owner], filter=keep_all(), range=Span(20.0))
    assert usual.weights[-1] == pytest.approx(3 * 200 / 1_000_000) and (usual.weights[:-1] == 1).all()
    honest_scores = np.sort(np.concatenate(honest))
    assert usual.radius in (4.0, honest_scores[math.ceil(4601 * 0.9) - 600 - 1])


def test_one_array_for_each_client_and_none_is_changed() -> None:
    scores = [np.random.default_rng(k).exponential(size=50) for k in range(5)]
    before = [own.copy() for own in scores]
    calibrate(scores)
    calibrate(scores, filter=down_weight(0.1))
    for own, copy in zip(scores, before, strict=True):
        np.testing.assert_array_equal(own, copy)


@pytest.mark.parametrize(("fraction", "forged"), [(0.2, 0.0), (0.1, 0.0), (0.05, 1e3)])
def test_coverage_under_a_contaminated_fraction(fraction: float, forged: float) -> None:
    """Unfiltered, a hostile fraction b of zeros leaves coverage (c - b)/(1 - b); far above, it is c/(1 - b).

    Uniform scores, so that a radius q covers q exactly. 2,000 scores in all, 20 clients; the radius is then an order
    statistic of the honest ones with a Beta law: sd at most .0084. Mean over 300 trials: sd .00048. Tolerance .0025,
    over 5 sd: false-alarm rate below 1e-6 (seed fixed).
    """
    rng, hostile = np.random.default_rng(6), round(20 * fraction)
    radii = []
    for _ in range(300):
        scores = rng.uniform(size=(20, 100))
        scores[:hostile] = forged
        radii.append(calibrate(scores, filter=keep_all(), range=Span(2.0)).radius)
    low, high = coverage_bounds(fraction, 0.9)
    assert np.mean(radii) == pytest.approx(low if forged == 0 else high, abs=0.0025)


def test_fcp_under_the_efficiency_attack_covers_as_published() -> None:
    """87.5 % (tab:synthetic, FCP): b = .2 of zeros. Test scores are the same clients', fresh halves of 2,000.

    sd of coverage over a trial is about .002 (160,000 test scores, 100,000 calibration scores); tolerance .006.
    """
    trial = draw(7, samples=2000)
    sent, test = trial.scores[:, :1000].copy(), trial.scores[trial.honest, 1000:]
    sent[trial.attackers] = 0
    fcp = calibrate(sent, filter=keep_all(), range=RANGES["max"]())
    robust = calibrate(sent, filter=known_count(20), range=RANGES["max"]())
    assert (test <= fcp.radius).mean() == pytest.approx(0.875, abs=0.006)
    assert (test <= robust.radius).mean() == pytest.approx(0.9, abs=0.006)
    assert isinstance(robust, Calibration)


def test_the_filter_and_the_quantile_read_the_same_scores() -> None:
    """PEERS' trap: an honest histogram beside a poisoned sketch. There is one report, and both come from it."""
    reports = {name: np.random.default_rng(k).exponential(size=200) for k, name in enumerate("abcdefgh")}
    honest = calibrate(reports, range=Span(9.0))
    poisoned = calibrate({**reports, "h": reports["h"] * 4}, range=Span(9.0))
    assert "h" in poisoned.left_out and "h" not in honest.left_out
    np.testing.assert_array_equal(
        poisoned.counts, histogram([*list(reports.values())[:-1], reports["h"] * 4], Span(9.0), 100)
    )
    kept = np.sort(np.concatenate([own for name, own in reports.items() if name not in poisoned.left_out]))
    assert poisoned.radius == kept[poisoned.rank - 1]


@pytest.mark.parametrize("correction", ["n+1", "n+K"])
@pytest.mark.parametrize(
    "own",
    [
        np.linspace(0, 2, 50),
        np.linspace(0, 2, 50, dtype=np.float32)[::2],
        np.arange(40) % 5,
        np.array([-0.0, 0.0, 1e-300, 1e200]),
        np.ones(3),
    ],
    ids=["plain", "strided float32", "integers", "far apart", "too few"],
)
@pytest.mark.filterwarnings("ignore::prism_fcp.calibrate.TooFewScoresWarning")
def test_one_client_that_is_kept_unseen_is_counted_when_somebody_asks(own: np.ndarray, correction: str) -> None:
    levels = ["0.9", "0.5", "0.95"]
    looking = dataclasses.replace(keep_all(), keeps_all=False)
    now = calibrate({"a": own}, confidence_level=levels, filter=looking, correction=correction)
    mine = own.copy()
    later = calibrate({"a": mine}, confidence_level=levels, filter=keep_all(), correction=correction)
    mine[:] = 7  # what the caller does with its array afterwards
    assert later.levels == now.levels and later.verdict.reasons == now.verdict.reasons
    assert later.weights == now.weights and (later.edges == now.edges).all()
    for told in (later, later.with_version(2)):
        assert told.counts.dtype == now.counts.dtype and (told.counts == now.counts).all()


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_one_client_alone_is_checked_too(bad: float, kind: type) -> None:
    own = np.ones(100_000, dtype=kind)
    own[70_000] = bad
    with pytest.raises(DataError, match="1 of 100000 scores are .*, the first at position 70000"):
        calibrate([own], filter=keep_all())
