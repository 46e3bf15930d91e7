"""Bytes from outside: either what they should be, or a `DataError`."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from prism_fcp.errors import DataError
from prism_fcp.federation.arrays import pack_arrays, unpack_arrays
from prism_fcp.federation.payload import (
    MOST_HEADER,
    TrainTask,
    pack_document,
    pack_task,
    pack_values,
    unpack_document,
    unpack_task,
    unpack_values,
)
from prism_fcp.federation.store import State, pack, unpack
from prism_fcp.types import FloatArray

FLOATS = arrays(np.float32, st.integers(0, 30), elements=st.floats(width=32, allow_nan=False, allow_infinity=False))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
TABLES = st.dictionaries(st.text(), JSON, max_size=5)


@given(FLOATS)
def test_values_travel_as_they_are(values: FloatArray) -> None:
    data = pack_values(values)
    assert len(data) == 4 * len(values)
    assert unpack_values(data, len(values), "it").tobytes() == values.tobytes()


@given(st.binary(max_size=200), st.integers(0, 50))
def test_bytes_are_values_or_a_data_error(data: bytes, count: int) -> None:
    try:
        values = unpack_values(data, count, "north: upload")
    except DataError as error:
        assert str(error).startswith("north: upload: ")
    else:
        assert values.shape == (count,) and values.dtype == np.float32 and np.isfinite(values).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_counted(bad: float) -> None:
    with pytest.raises(DataError, match="it: 2 of 3 values are NaN or Inf"):
        unpack_values(pack_values(np.array([bad, 1, bad], np.float32)), 3, "it")


@given(
    st.binary(min_size=8, max_size=8), st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1),
    st.none() | st.integers(0, 2**64 - 1), FLOATS,
)  # fmt: skip
def test_a_task_comes_back(experiment: bytes, number: int, up: int, down: int | None, values: FloatArray) -> None:
    found, tail = unpack_task(pack_task(TrainTask(experiment, number, up, down, values)))
    assert found[:4] == (experiment, number, up, down) and tail == pack_values(values)


@given(st.binary(max_size=100))
def test_bytes_are_a_task_or_a_data_error(data: bytes) -> None:
    try:
        task, tail = unpack_task(data)
    except DataError:
        assert len(data) < 29 or data[28] > 1
    else:
        assert len(tail) == len(data) - 29 and task.round == struct.unpack_from("<I", data, 8)[0]


@given(TABLES, st.binary(max_size=40))
def test_a_document_comes_back(body: dict[str, object], tail: bytes) -> None:
    assert unpack_document(pack_document(body, tail), "it") == (body, tail)


@given(st.binary(max_size=300) | st.binary(max_size=60).map(lambda data: len(data).to_bytes(4, "little") + data))
def test_bytes_are_a_document_or_a_data_error(data: bytes) -> None:
    try:
        body, _ = unpack_document(data, "it")
    except DataError as error:
        assert str(error).startswith("it: ") and len(str(error)) < 300
    else:
        assert isinstance(body, dict)


@pytest.mark.parametrize(
    "text", ["[1]", "3", '{"a": NaN}', '{"a": -Infinity}', "{", '{"a":' + "[" * 100_000, '{"a": ' + "9" * 5000 + "}"]
)
def test_a_header_that_is_no_table_of_json(text: str) -> None:
    data = text.encode()
    with pytest.raises(DataError, match="it: the header is no JSON"):
        unpack_document(len(data).to_bytes(4, "little") + data, "it")


def test_a_header_may_not_be_larger_than_agreed() -> None:
    data = json.dumps({"a": "x" * MOST_HEADER}).encode()
    with pytest.raises(DataError, match=r"must be at most 8,000,000"):
        unpack_document(len(data).to_bytes(4, "little") + data, "it")
    with pytest.raises(DataError, match="a header of 4,294,967,295 bytes"):
        unpack_document(b"\xff" * 90, "it")


@given(st.dictionaries(st.sampled_from(["file", "allow_pickle", "a/b", "x.npy", "ü"]), FLOATS, max_size=4))
def test_arrays_come_back_whatever_they_are_called(told: dict[str, FloatArray]) -> None:
    found = unpack_arrays(pack_arrays(told), "it")
    assert {name: value.tobytes() for name, value in found.items()} == {
        name: value.tobytes() for name, value in told.items()
    }


STATE = pack(State(b"12345678", {"a": [1, None]}, np.arange(9, dtype=np.float32), 4, {"speed": np.ones(2)}))


@given(st.integers(0, len(STATE) - 1), st.integers(1, 255))
def test_a_damaged_state_is_a_data_error_or_whole(place: int, flip: int) -> None:
    data = bytearray(STATE)
    data[place] ^= flip
    try:
        found = unpack(bytes(data), "north.npz")
    except DataError as error:
        assert str(error).startswith("north.npz: ")
    else:  # a byte that means nothing, such as an entry's date
        assert found.parameters.tolist() == list(range(9)) and found.round == 4


@given(st.integers(0, len(STATE) - 1))
def test_half_a_state_is_a_data_error(length: int) -> None:
    with pytest.raises(DataError, match="no whole"):
        unpack(STATE[:length], "north.npz")


@given(st.binary(max_size=200))
def test_no_bytes_are_a_state_by_chance(data: bytes) -> None:
    with pytest.raises(DataError):
        unpack(data, "it")
