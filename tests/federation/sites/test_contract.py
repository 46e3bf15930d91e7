"""What every site keeps, whatever its model is written in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from prism_fcp.data.table import Table
from prism_fcp.errors import DataError, DivergedError, SettingError
from prism_fcp.federation.site import Describing, Keyed, Remembering, Site
from prism_fcp.federation.sites import RowsSite, agree_on
from tests.federation.sites.cases import SITES, error, rows

pytestmark = pytest.mark.parametrize("kind", SITES)


def made(kind: str, name: str = "north", seed: int = 1) -> RowsSite:
    return SITES[kind](rows(name, seed=seed))


def trained(site: RowsSite, rounds: int, first: int = 1, begin: Any = None) -> Any:
    model = site.start() if begin is None else begin
    for number in range(first, first + rounds):
        model = site.step(model, number)
    return model


def test_it_is_a_site_in_every_respect(kind: str) -> None:
    site = made(kind)
    for protocol in (Site, Remembering, Describing, Keyed):
        assert isinstance(site, protocol)
    stops = [0, *(layer.stop for layer in site.layers)]
    assert [layer.start for layer in site.layers] == stops[:-1]
    assert len({layer.name for layer in site.layers}) == len(site.layers)
    assert site.start().shape == (stops[-1],) and site.start().dtype == np.float32
    assert site.samples == 100


def test_everybody_starts_alike_and_the_start_is_a_copy(kind: str) -> None:
    one, other = made(kind, "north", 1), made(kind, "south", 2)
    np.testing.assert_array_equal(one.start(), other.start())
    one.start()[:] = 7
    np.testing.assert_array_equal(one.start(), other.start())


def test_a_step_depends_on_rows_key_and_round_alone(kind: str) -> None:
    one, again = made(kind), made(kind)
    begin = one.start() + np.float32(0.01)
    first = one.step(begin, 3)
    again.scores(begin)  # what was asked before does not matter
    again.evaluate(begin, 1.0)
    np.testing.assert_array_equal(first, again.step(begin, 3))
    assert first.dtype == np.float32 and first.flags.owndata
    assert not np.array_equal(first, made(kind).step(begin, 4))
    keyed = made(kind)
    keyed.draw_from(99)
    assert not np.array_equal(first, keyed.step(begin, 3))


def test_an_argument_is_never_changed_nor_kept(kind: str) -> None:
    site = made(kind)
    begin = site.start() + np.float32(0.01)
    frozen = begin.copy()
    frozen.flags.writeable = False
    result = site.step(frozen, 1)
    site.scores(frozen)
    site.evaluate(frozen, 1.0)
    np.testing.assert_array_equal(frozen, begin)
    kept = result.copy()
    site.step(begin, 2)
    np.testing.assert_array_equal(result, kept)
    result[:] = 0
    np.testing.assert_array_equal(made(kind).step(begin, 1), kept)


def test_learning_lowers_the_error(kind: str) -> None:
    """A linear model explains most of Friedman's function: 0.8 of the start's error is left at most."""
    site = made(kind)
    assert error(site, trained(site, 150)) < 0.8 * error(site, site.start())


def test_memory_carries_over_a_restart(kind: str) -> None:
    whole = made(kind)
    expected = trained(whole, 6)
    before, after = made(kind), made(kind)
    half = trained(before, 3)
    after.recall(before.memory())
    np.testing.assert_array_equal(trained(after, 3, 4, half), expected)
    for kept in before.memory().values():
        assert kept.shape == half.shape and kept.dtype == np.float32
        kept[:] = np.nan  # a copy: the site's own stays
    before.step(half, 4)


def test_units_agreed_on_change_what_is_learnt_and_not_the_unit_of_scores(kind: str) -> None:
    sites = [made(kind, name, seed) for seed, name in enumerate(["a", "b", "c"], 1)]
    units, refused = agree_on({site.rows.name: site.describe() for site in sites})
    assert not refused
    site = sites[0]
    raw = site.scores(site.start())
    site.standardise(units)
    site.standardise(units)  # again: the units are of the raw rows, not of those before
    scores = site.scores(site.start())
    assert scores.dtype == np.float64 and scores.shape == raw.shape == (50,)
    zero = site.rows.table.target[site.rows.calibration] - units["mean"][-1]
    if not site.start().any():
        np.testing.assert_allclose(scores, np.abs(zero))
    assert error(site, trained(site, 150)) < 0.8 * error(site, site.start())


def test_coverage_counts_the_rows_within_the_radius(kind: str) -> None:
    site = made(kind)
    model = trained(site, 5)
    covered, count, mean = site.evaluate(model, 0.0)
    assert (covered, count) == (0, 50)
    covered, count, again = site.evaluate(model, np.inf)
    assert (covered, count, again) == (50, 50, mean) and mean > 0
    half = site.evaluate(model, mean)[0]
    assert 0 < half < 50
    for radius in (-1.0, np.nan):
        with pytest.raises(SettingError, match="radius"):
            site.evaluate(model, radius)


@pytest.mark.parametrize(
    "hostile", ["nan", "inf", "short", "long", "column", "whole numbers", "text", "beyond float32"]
)
def test_parameters_that_cannot_be_used_are_refused_by_name(kind: str, hostile: str) -> None:
    site = made(kind)
    good = site.start()
    bad: Any = {
        "nan": np.where(np.arange(len(good)) == 1, np.nan, good), "inf": np.full_like(good, np.inf),
        "short": good[:-1], "long": np.append(good, good[:1]), "column": good[:, None],
        "whole numbers": good.astype(int), "text": np.array(["0"] * len(good)),
        "beyond float32": good.astype(float) + 1e300,
    }[hostile]  # fmt: skip
    for call in (site.scores, lambda own: site.step(own, 1), lambda own: site.evaluate(own, 1.0)):
        with pytest.raises(DataError, match="site 'north': .*parameters"):
            call(bad)


def test_a_step_that_diverges_names_the_site_and_leaves_its_memory(kind: str) -> None:
    own = rows()
    table = Table(1e29 * own.table.features, own.table.target, own.table.names, own.table.target_name)
    site = SITES[kind](replace(own, table=table))
    model, number, kept = site.start(), 0, {}
    with pytest.raises(DivergedError, match="site 'north'.*lower the step size"):
        for number in range(1, 200):
            kept = site.memory()
            model = site.step(model, number)
    assert {name: value.tolist() for name, value in site.memory().items()} == {
        name: value.tolist() for name, value in kept.items()
    }


@pytest.mark.parametrize("number", [0, -1, 1.5, True, "1"])
def test_rounds_count_from_one(kind: str, number: Any) -> None:
    with pytest.raises(SettingError, match="round"):
        made(kind).step(made(kind).start(), number)


@pytest.mark.parametrize("memory", [{"speed": np.zeros(3)}, {"speed": np.array("x")}, {"other": np.zeros(3)}])
def test_a_memory_of_another_model_is_refused(kind: str, memory: Any) -> None:
    with pytest.raises(DataError, match="site 'north'"):
        made(kind).recall(memory)
