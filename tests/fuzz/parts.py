"""A summary taken apart, so that pieces can be forged, and put together again as well-formed as its forger likes."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

JSON = json.JSONEncoder(separators=(",", ":")).encode


class Raw(str):
    """JSON text that is written as it stands."""


@dataclass
class Parts:
    """Metadata and tensor as lists of pairs, so that a key may stand twice; `top` are more entries of the header."""

    metadata: list[tuple[Any, Any]]
    tensor: list[tuple[Any, Any]]
    payload: bytes
    top: list[tuple[Any, Any]]
    length: int | None = None  # forged length of the header
    pad: bytes | None = None
    blank: str = ""  # between the tokens of the header
    keep_order: bool = False

    @classmethod
    def of(cls, data: bytes) -> Parts:
        length = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8 : 8 + length])
        return cls(list(header["__metadata__"].items()), list(header["counts"].items()), data[8 + length :], [])

    def get(self, name: str) -> Any:
        return next((value for key, value in self.metadata if key == name), "")

    def put(self, name: str, value: Any) -> None:
        """Set a metadata entry, or add it."""
        self.metadata = [pair for pair in self.metadata if pair[0] != name] + [(name, value)]

    def put_tensor(self, name: str, value: Any) -> None:
        self.tensor = [pair for pair in self.tensor if pair[0] != name] + [(name, value)]

    @property
    def counts(self) -> NDArray[np.uint32]:
        return np.frombuffer(self.payload[: len(self.payload) // 4 * 4], dtype="<u4").copy()

    def put_counts(self, counts: NDArray[Any], fit: bool = True) -> None:
        """Set the counts, with what the header says of their extent (not of their sum)."""
        self.payload = counts.astype("<u4").tobytes()
        if fit:
            self.put_tensor("shape", [len(counts)])
            self.put_tensor("data_offsets", [0, len(self.payload)])

    def bytes(self) -> bytes:
        entries = [("__metadata__", self._dict(self.metadata)), ("counts", self._dict(self.tensor)), *self.top]
        header = self._dict(entries).encode("utf-8", "surrogatepass")
        header += b" " * (-len(header) % 8) if self.pad is None else self.pad
        length = len(header) if self.length is None else self.length
        return struct.pack("<Q", length % 2**64) + header + self.payload

    def _dict(self, pairs: list[tuple[Any, Any]]) -> Raw:
        ordered = pairs if self.keep_order else sorted(pairs, key=lambda pair: str(pair[0]))
        gap = self.blank
        return Raw(
            f"{{{gap}" + f",{gap}".join(f"{text(key)}:{gap}{text(value)}" for key, value in ordered) + f"{gap}}}"
        )


def text(value: Any) -> str:
    return value if isinstance(value, Raw) else JSON(value)
