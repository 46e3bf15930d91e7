"""Common units: medians over clients, columns that most have, and nothing taken on trust."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_fcp.errors import DataError
from prism_fcp.federation.sites import Agreed, Description, agree, agree_on, describe
from prism_fcp.federation.sites.agree import LARGEST, NORMAL

NAMES = ("age", "dose")


def told(mean: float = 0.0, sd: float = 1.0, names: tuple[str, ...] = NAMES, target: str = "y") -> Description:
    size = len(names) + 1
    return Description(50, names, target, np.full(size, mean), np.full(size, sd))


def body(**changes: Any) -> dict[str, Any]:
    return {**told().to_json(), **changes}


def test_a_description_is_of_its_rows() -> None:
    rng = np.random.default_rng(1)
    features, target = rng.normal(1e6, 2, (500, 2)), rng.normal(-3, 0.5, 500)
    made = describe(features, target, NAMES, "y")
    columns = np.column_stack([features, target])
    np.testing.assert_allclose(made.mean, columns.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(made.sd, columns.std(axis=0), rtol=1e-10)
    assert (made.count, made.names, made.target) == (500, NAMES, "y")


def test_a_column_that_does_not_vary_has_a_spread_of_zero() -> None:
    features = np.column_stack([np.full(7, 0.1), np.arange(7.0)])
    assert describe(features, np.arange(7.0), NAMES).sd[0] == 0


def test_values_too_large_to_describe_are_refused_by_column() -> None:
    features = np.column_stack([np.arange(3.0), np.array([1e200, 0, -1e200])])
    with pytest.raises(DataError, match="'dose'.*too large"):
        describe(features, np.arange(3.0), NAMES)


def test_json_keeps_every_digit() -> None:
    made = Description(3, NAMES, "y", np.array([0.1, 1 / 3, -2e-17]), np.array([1e-9, 2 / 3, 5.0]))
    again = Description.of_json(json.loads(json.dumps(made.to_json())))
    np.testing.assert_array_equal(again.mean, made.mean)
    np.testing.assert_array_equal(again.sd, made.sd)
    agreed = agree({"a": made})
    back = Agreed.of_json(json.loads(json.dumps(agreed.to_json())))
    np.testing.assert_array_equal(back.scaler.mean, made.mean)
    np.testing.assert_array_equal(back.scaler.sd, made.sd)
    assert (back.names, back.target) == (NAMES, "y")


def test_units_are_medians_with_the_spread_between_clients() -> None:
    """Means 1, 2, 6 and spreads 3, 4, 5: median 2 and 4; deviations 1, 0, 4, their median 1."""
    made = agree({"a": told(1, 3), "b": told(2, 4), "c": told(6, 5)})
    np.testing.assert_allclose(made.scaler.mean, 2)
    np.testing.assert_allclose(made.scaler.sd, np.hypot(4, NORMAL))
    assert made.refused == {}


def test_a_feature_constant_at_each_client_is_spread_by_their_means_or_only_shifted() -> None:
    apart = {name: told(mean, 0.0) for name, mean in (("a", 1.0), ("b", 2.0), ("c", 4.0))}
    assert agree(apart).scaler.sd[0] == pytest.approx(NORMAL)
    alike = {name: Description(9, NAMES, "y", np.ones(3), np.array([0.0, 1, 1])) for name in "abc"}
    assert agree(alike).scaler.sd[0] == 1
    with pytest.raises(DataError, match="target 'y' is constant"):
        agree({name: told(1.0, 0.0) for name in "abc"})


moderate = st.floats(-1e6, 1e6)


@given(
    honest=st.lists(st.tuples(moderate, st.floats(1e-3, 1e6)), min_size=2, max_size=9),
    lies=st.lists(st.tuples(st.floats(-LARGEST, LARGEST), st.floats(0, LARGEST)), max_size=8),
)
def test_fewer_than_half_liars_move_nothing_far(
    honest: list[tuple[float, float]], lies: list[tuple[float, float]]
) -> None:
    """With an honest majority a median lies between honest values, and a median deviation within their range."""
    clients = {f"h{k}": told(*one) for k, one in enumerate(honest)}
    clients |= {f"l{k}": told(*one) for k, one in enumerate(lies[: len(honest) - 1])}
    made = agree(clients).scaler
    means, sds = zip(*honest, strict=True)
    slack = 1 + 1e-12
    assert (made.mean >= min(means) - 1e-9).all() and (made.mean <= max(means) + 1e-9).all()
    assert (made.sd >= min(sds) / slack).all()
    assert (made.sd <= slack * np.hypot(max(sds), NORMAL * (max(means) - min(means)))).all()


def test_columns_in_another_order_are_the_same_columns() -> None:
    one = Description(9, NAMES, "y", np.array([1.0, 2, 3]), np.array([4.0, 5, 6]))
    turned = Description(9, NAMES[::-1], "y", np.array([2.0, 1, 3]), np.array([5.0, 4, 6]))
    made = agree({"a": one, "b": turned, "c": one})
    assert made.names == NAMES
    np.testing.assert_allclose(made.scaler.mean, [1, 2, 3])
    np.testing.assert_allclose(made.scaler.sd, [4, 5, 6])


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (told(names=("age",)), r"lacks column 'dose' \(1 such column\)"),
        (told(names=("age", "dose", "ward")), "most clients have no column 'ward': leave it out with drop"),
        (told(names=("age", "Dose")), r"lacks column 'dose'; most clients have no column 'Dose'.*\(2 such columns\)"),
        (told(target="days"), "its target is 'days'; most clients have 'y'"),
    ],
)
def test_other_columns_are_refused_by_client(other: Description, reason: str) -> None:
    clients = {"north": told(1), "south": told(2), "east": other}
    made = agree(clients)
    assert made.names == NAMES and list(made.refused) == ["east"]
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(made.refused["east"])
    units, refused = agree_on({name: one.to_json() for name, one in clients.items()})
    assert refused == made.refused and units == made.to_json()
    with pytest.raises(DataError, match="of 2 clients at most 1"):
        agree({"north": told(), "east": other})


def test_one_broken_description_refuses_its_client_and_no_other() -> None:
    units, refused = agree_on({"a": told(1).to_json(), "b": body(count=-1), "c": told(2).to_json()})
    assert "count=-1" in refused.pop("b") and not refused
    assert units["mean"] == [1.5, 1.5, 1.5]
    with pytest.raises(DataError, match="no client's description can be used: .*count=0"):
        agree_on({"a": body(count=0)})
    with pytest.raises(DataError, match="no client"):
        agree({})


HOSTILE: list[Any] = [
    None, [], "description", {}, {**body(), "more": 1}, {key: value for key, value in body().items() if key != "sd"},
    body(count=0), body(count=1.0), body(count=True), body(count=10**15), body(count="5"), body(count=10**400),
    body(names=[]), body(names="age"), body(names=["age", 3]), body(names=["age", "age"]), body(names=["age", "y"]),
    body(names=["age", ""]), body(names=["age", "x" * 101]), body(names=["age", ["dose"]]), body(names=["age"]),
    body(names=[f"x{k}" for k in range(10_001)]), body(target=None), body(target=["y"]), body(target=""),
    body(mean=[0.0, 0.0]), body(mean=[0.0, 0.0, None]), body(mean=[0.0, 0.0, float("nan")]), body(mean=[0, 0, "0"]),
    body(mean=[0.0, 0.0, float("inf")]), body(mean=[0.0, 0.0, 1e31]), body(mean=[0, 0, 10**400]), body(mean={}),
    body(mean=[0.0, 0.0, True]), body(mean=[[0.0], 0.0, 0.0]), body(sd=[1.0, 1.0, -1.0]), body(sd=[1.0, 1.0]),
    body(sd=[1.0, 1.0, float("nan")]), body(sd=None),
]  # fmt: skip


@pytest.mark.parametrize("sent", HOSTILE, ids=range(len(HOSTILE)))
def test_what_is_no_description_is_one_line(sent: Any) -> None:
    before = copy.deepcopy(sent)
    with pytest.raises(DataError) as caught:
        Description.of_json(sent)
    assert len(str(caught.value)) < 200 and "\n" not in str(caught.value)
    assert repr(sent) == repr(before)


def test_units_must_be_positive() -> None:
    sent = {key: value for key, value in body(sd=[1.0, 0.0, 1.0]).items() if key != "count"}
    with pytest.raises(DataError, match="sd must be positive"):
        Agreed.of_json(sent)
