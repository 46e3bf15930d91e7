"""Flower's messages with anything in them: our bytes, or a `DataError` in plain words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict  # noqa: E402
from flwr.supercore.task_identity import TaskIdentity  # noqa: E402

from prism_fcp.errors import DataError  # noqa: E402
from prism_fcp.federation.messages import LARGE, LONGEST_PROBLEM, unwrap, wrap, wrap_problem  # noqa: E402


@pytest.fixture(autouse=True, scope="module")
def _somebody() -> None:
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 0, 1


def message(content: RecordDict) -> Message:
    return Message(content, 1, "train")


NAMES = st.sampled_from(["p", "b", "e", "q", "\x1b[2J", ""])
ARRAYS = st.binary(max_size=9).map(lambda data: Array("uint8", (len(data),), "it", data))
CONFIGS = st.dictionaries(
    NAMES, st.binary(max_size=9) | st.text() | st.booleans() | st.lists(st.integers(0, 9)), max_size=3
)
RECORDS: Any = (
    CONFIGS.map(ConfigRecord)
    | st.dictionaries(NAMES, ARRAYS, max_size=3).map(ArrayRecord)
    | st.dictionaries(NAMES, st.floats() | st.integers(0, 9), max_size=3).map(MetricRecord)
)


@given(st.dictionaries(NAMES, RECORDS, max_size=3), st.integers(0, 8))
def test_any_records_are_bytes_or_a_data_error(records: dict[str, Any], most: int) -> None:
    try:
        found = unwrap(message(RecordDict(records)), most)
    except DataError as error:
        assert str(error).isprintable() and len(str(error)) < 500
    else:
        assert len(found) <= most and list(records) == ["p"] and list(records["p"]) == ["b"]


@pytest.mark.parametrize("size", [0, 1, LARGE - 1, LARGE, LARGE + 1])
def test_bytes_travel_in_either_kind_of_record(size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    assert unwrap(message(wrap(data[:size])), size) == data[:size]


@given(st.text())
def test_a_problem_is_one_printable_line(text: str) -> None:
    with pytest.raises(DataError) as told:
        unwrap(message(wrap_problem(text)), 10)
    assert str(told.value).isprintable() and len(str(told.value)) <= LONGEST_PROBLEM + 6


def test_the_engine_s_errors_are_told_with_their_number() -> None:
    asked = message(RecordDict())
    asked.metadata.__dict__["_message_id"] = "m1"
    reply = Message(Error(code=3, reason="no\x1b[31m\nanswer"), reply_to=asked)
    with pytest.raises(DataError, match=r"no answer: the engine says no\?\[31m answer \(3\)"):
        unwrap(reply, 10)
