"""The model hash: which model a summary, a calibration and a predictor belong to, as 64 hex digits (sha256).

- A file (`Path`): the sha256 of its bytes. Saving the same model twice gives the same hash only if the format writes
  the same bytes twice, as safetensors and ONNX do; so hash the file that is sent round, not one saved again.
- Parameters (a mapping name -> array): the sha256 of `prism-fcp/parameters/1` and a zero byte, the number of arrays,
  and for each array in the order of its name: length of the name and its UTF-8 bytes, length of the dtype and its
  ASCII letters (`<f4`, `<i8`, `|u1`: always little-endian), number of dimensions, each dimension, and the values,
  little-endian, in C order. Every length and number is 8 bytes, unsigned, little-endian. Values are compared bit by
  bit: -0.0 is not 0.0.
- Anything else has no bytes that mean the same on two machines, so its owner gives the 64 hex digits.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from prism_fcp import io
from prism_fcp.errors import DataError, SettingError

Hashable: TypeAlias = "str | Path | Mapping[str, ArrayLike]"


def model_hash(model: Hashable) -> str:
    """Return the hash of a model file, of named parameters, or the 64 hex digits that were given.

    >>> model_hash({"weights": np.array([1.0, -2.0])})[:16]
    '029a19ed4c4b71a2'
    """
    if isinstance(model, Path):
        return io.file_digest(model)
    if isinstance(model, Mapping):
        return _of_parameters(model)
    if isinstance(model, str):
        if not re.fullmatch("[0-9a-fA-F]{64}", model):
            raise SettingError(f"model hash {model[:80]!r}; must be 64 hex digits; for a file give a Path to it")
        return model.lower()
    raise SettingError(
        f"model hash of a {type(model).__name__}: it has no bytes that are the same everywhere; "
        "give its file (a Path), its parameters by name, or 64 hex digits of your own"
    )


def _of_parameters(parameters: Mapping[str, ArrayLike]) -> str:
    if not parameters:
        raise DataError("model hash: no parameters; at least one named array is needed")
    for name in parameters:
        if not isinstance(name, str):
            raise DataError(f"model hash: parameter name {name!r} is no text; name every array by a string")
    told = hashlib.sha256(b"prism-fcp/parameters/1\0" + _number(len(parameters)))
    for name in sorted(parameters):
        array = np.asarray(parameters[name])
        if array.dtype.kind not in "biufc":
            raise DataError(f"model hash: parameter {name!r} has dtype {array.dtype}; it must hold numbers")
        kind = array.dtype.newbyteorder("<")
        for text in (name.encode("utf-8", "surrogatepass"), kind.str.encode("ascii")):
            told.update(_number(len(text)) + text)
        told.update(b"".join(map(_number, (array.ndim, *array.shape))))
        told.update(np.ascontiguousarray(array, dtype=kind).data)
    return told.hexdigest()


def _number(value: int) -> bytes:
    return value.to_bytes(8, "little")
