"""What a checkpoint holds comes back to the last bit and type; another's, or half of one, is a `DataError`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_fcp import streams
from prism_fcp.errors import DataError, PrismError, SettingError
from prism_fcp.federation import checkpoint
from prism_fcp.federation.agreement import Agreement, Training
from prism_fcp.federation.arrays import pack_arrays, unpack_arrays
from prism_fcp.federation.checkpoint import freeze, thaw
from prism_fcp.federation.coordinates import shared
from prism_fcp.federation.coordinator import Coordinator
from prism_fcp.federation.keys import SecretKeys
from prism_fcp.federation.payload import pack_document, pack_values, unpack_task
from prism_fcp.train.aggregate import RULES
from prism_fcp.types import Choice
from tests.contracts.cases import RULE_ROWS
from tests.federation.small import zeros

CLIENTS, DIMENSION = tuple(f"c{k}" for k in range(9)), 7
HELLO: dict[str, Any] = {"layers": [["one", 3], ["two", 4]], "samples": 9, "description": None, "round": None}


def agreed(rule: Choice = Choice("mean"), **training: Any) -> Agreement:  # noqa: B008
    told: dict[str, Any] = {"rounds": 20, "share": 0.5, "rule": rule, "averaging": 0.5, "protocol": "follow"} | training
    return Agreement(name="trial", clients=CLIENTS, training=Training(**told))


def begun(agreement: Agreement) -> Coordinator:
    made = Coordinator(agreement, SecretKeys.seeded(1), b"12345678", zeros)
    for name in CLIENTS:
        nonce = made.nonce()
        made.join(made.read_hello(pack_document(HELLO | {"client": name}), nonce))
    assert made.prepare() == {}
    return made


def played(made: Coordinator, rounds: int) -> None:
    for _ in range(rounds):
        for client in made.begin():
            up = unpack_task(made.task(client))[0].up
            place = shared(up, made.settled.arm.masks, DIMENSION)
            rng = streams.generator(streams.key(made.round, client))
            made.take(client, pack_values(rng.standard_normal(len(place), dtype=np.float32)))
        assert made.close().counted


def equal(one: Any, other: Any) -> bool:
    """Are these the same values of the same types, to the last bit?"""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray | np.generic):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(equal(one[key], other[key]) for key in one)
    return bool(one == other or one != one)


@pytest.mark.parametrize("rule", [row.choice for row in RULE_ROWS], ids=[row.label for row in RULE_ROWS])
def test_every_rule_goes_on_from_a_checkpoint_as_if_nothing_had_been(rule: Choice, tmp_path: Path) -> None:
    straight = begun(agreed(rule))
    played(straight, 9)
    checkpoint.save(tmp_path / "it.npz", straight)
    again = Coordinator(agreed(rule), SecretKeys.seeded(1), b"xxxxxxxx", zeros)
    assert checkpoint.restore(tmp_path / "it.npz", again) == {}
    for name in ("experiment", "round", "void", "layers", "samples", "first", "model", "averaged", "rule_state",
                 "ledger"):  # fmt: skip
        assert equal(getattr(again, name), getattr(straight, name)), name
    for entry in again.roster.entries:
        entry.joined = True
    played(straight, 11)
    played(again, 11)
    assert equal(again.final, straight.final) and equal(again.rule_state, straight.rule_state)
    assert equal(again.ledger, straight.ledger)


def test_every_registered_rule_is_among_them() -> None:
    assert {row.choice.name for row in RULE_ROWS} == set(RULES)


class Remembered(NamedTuple):
    """A rule's state."""

    values: Any
    count: Any


LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.floats(width=32).map(np.float32) | st.integers(0, 99).map(np.int64) | st.booleans().map(np.bool_)
    | st.floats().map(np.float64) | st.lists(st.floats(width=32), max_size=4).map(lambda v: np.array(v, np.float32))
    | st.just(np.zeros((0, 3), np.int8))
)  # fmt: skip
STATES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple)
    | st.dictionaries(st.integers() | st.text(max_size=3) | st.tuples(st.integers(), st.integers()), inner, max_size=3)
    | st.tuples(inner, inner).map(lambda pair: Remembered(*pair)),
    max_leaves=8,
)  # fmt: skip


@given(STATES)
def test_a_state_comes_back_as_it_was(state: Any) -> None:
    import json
    import sys

    arrays: dict[str, Any] = {}
    frozen = json.loads(json.dumps(freeze(state, arrays)))
    kept = unpack_arrays(pack_arrays(arrays), "it")
    assert equal(thaw(frozen, kept, {__name__: sys.modules[__name__]}), state)


@pytest.mark.parametrize("state", [object(), {1, 2}, np.array([object()]), 1j, b"x", [lambda: None]])
def test_what_is_no_data_is_refused_when_it_is_saved(state: Any) -> None:
    with pytest.raises(SettingError, match="checkpoints hold numbers"):
        freeze(state, {})


@pytest.mark.parametrize(
    "frozen", [{"named": ["os", "system"], "of": []}, {"named": ["builtins", "tuple"], "of": []}, {"run": "x"}]
)
def test_only_named_tuples_of_the_rule_are_made(frozen: Any) -> None:
    import os

    with pytest.raises(DataError, match="begin anew with --fresh"):
        thaw(frozen, {}, {"os": os})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "it.npz"
    made = begun(agreed(Choice("table")))
    played(made, 5)
    checkpoint.save(path, made)
    return path.read_bytes()


@settings(max_examples=120)
@given(data=st.data())
def test_a_damaged_checkpoint_is_a_data_error_or_whole(
    data: st.DataObject, whole: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("damaged") / "it.npz"
    bent = bytearray(whole)
    place = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        bent[place] ^= data.draw(st.integers(1, 255))
    else:
        bent = bent[:place]
    path.write_bytes(bytes(bent))
    again = Coordinator(agreed(Choice("table")), SecretKeys.seeded(1), b"xxxxxxxx", zeros)
    try:
        checkpoint.restore(path, again)
    except PrismError as error:
        assert isinstance(error, DataError) and str(path) in str(error)
    else:
        assert again.round == 5 and again.model.shape == (DIMENSION,)


HEADS = [b"", b"[]", b"3", b"{}", b'{"version": 1}', b'{"version": 9}', b"\xff", b'{"version": 1, "agreement": 3}']


@pytest.mark.parametrize("head", HEADS)
def test_another_s_file_is_none(head: bytes, tmp_path: Path) -> None:
    path = tmp_path / "it.npz"
    path.write_bytes(pack_arrays({"head": np.frombuffer(head, np.uint8)}))
    with pytest.raises(DataError, match="begin anew with --fresh"):
        checkpoint.restore(path, Coordinator(agreed(), SecretKeys.seeded(1), b"xxxxxxxx", zeros))


def test_other_settings_are_not_gone_on_with(tmp_path: Path, whole: bytes) -> None:
    (tmp_path / "it.npz").write_bytes(whole)
    other = Coordinator(agreed(Choice("table"), rounds=21), SecretKeys.seeded(1), b"xxxxxxxx", zeros)
    with pytest.raises(DataError, match="belongs to other settings; restore federation.toml, or begin anew"):
        checkpoint.restore(tmp_path / "it.npz", other)
    assert other.terms is None and other.experiment == b"xxxxxxxx"
    assert checkpoint.head(tmp_path / "it.npz")["round"] == 5
