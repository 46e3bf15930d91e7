"""The bytes of every message: strict in what is read, small in what is sent.

Values are little-endian float32 and nothing else: an upload is 4 bytes a coordinate, since both sides know from the key
which coordinates they stand for. What is not an upload begins with a header in JSON. Nothing is ever unpickled.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from prism_fcp.errors import DataError
from prism_fcp.types import FloatArray

VALUE_BYTES: Final = 4
MOST_VALUE: Final = float(np.finfo(np.float32).max)
AGAIN: Final = "set this client up again"  # ends what a client says that has lost its state, or never had one
MOST_HEADER: Final = 8_000_000  # bytes of JSON: names of columns, a calibration spec with all its clients
_TASK: Final = struct.Struct("<8sIQQB")  # experiment, round, upload key, download key, is there a download key?


class TrainTask(NamedTuple):
    """What the server asks of a client in a round: where its masks hang, and the values of the download."""

    experiment: bytes  # 8 bytes that tell this federation from others
    round: int
    up: int  # key of the upload's coordinates
    down: int | None  # key of the download's; None: all of them, or none, as was agreed
    values: FloatArray


def pack_values(values: FloatArray) -> bytes:
    """Return values as they travel."""
    return np.ascontiguousarray(values, dtype="<f4").tobytes()


def unpack_values(data: bytes | memoryview, count: int, what: str, largest: float = MOST_VALUE) -> FloatArray:
    """Return exactly `count` finite values of at most `largest`; anything else is a `DataError` that says why.

    They are looked at where they lie: nothing is copied.
    """
    if len(data) != VALUE_BYTES * count:
        raise DataError(f"{what}: {len(data):,} bytes; {count:,} float32 values are {VALUE_BYTES * count:,}")
    values = np.frombuffer(data, dtype="<f4").astype(np.float32, copy=False)
    peak = float(np.abs(values).max(initial=0.0))  # NaN if one is
    if not peak <= largest:
        bad = int((~np.isfinite(values)).sum())
        found = f"{bad:,} of {count:,} values are NaN or Inf" if bad else f"a value beyond {largest:g}"
        raise DataError(f"{what}: {found}")
    return values


def pack_task(task: TrainTask) -> bytes:
    """Return a task's bytes."""
    head = _TASK.pack(task.experiment, task.round, task.up, task.down or 0, task.down is not None)
    return head + pack_values(task.values)


def unpack_task(data: bytes) -> tuple[TrainTask, memoryview]:
    """Return a task without its values, and the values' bytes: how many they must be depends on its key."""
    if len(data) < _TASK.size:
        raise DataError(f"a task of {len(data)} bytes; must have at least {_TASK.size}")
    experiment, number, up, down, told = _TASK.unpack_from(data)
    if told not in (0, 1):
        raise DataError("a task whose flag for the download is neither 0 nor 1")
    return TrainTask(experiment, number, up, down if told else None, np.zeros(0, np.float32)), memoryview(data)[
        _TASK.size :
    ]


def pack_document(body: Mapping[str, Any], tail: bytes = b"") -> bytes:
    """Return a JSON header, its length before it, and what follows it."""
    head = json.dumps(body, separators=(",", ":"), allow_nan=False).encode()
    return len(head).to_bytes(4, "little") + head + tail


def unpack_document(data: bytes, what: str) -> tuple[dict[str, Any], bytes]:
    """Return header and tail; what is no JSON object of bounded size is a `DataError`."""
    length = int.from_bytes(data[:4], "little")
    if len(data) < 4 or length > min(MOST_HEADER, len(data) - 4):
        raise DataError(f"{what}: a header of {length:,} bytes in {len(data):,}; must be at most {MOST_HEADER:,}")
    try:
        body = json.loads(data[4 : 4 + length].decode(), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{what}: the header is no JSON ({str(error)[:60]})") from error
    if not isinstance(body, dict):
        raise DataError(f"{what}: the header is no JSON object")
    return body, data[4 + length :]


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")
