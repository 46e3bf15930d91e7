"""Named arrays as the bytes of an npz file, and back; nothing in them is ever run."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from prism_fcp.errors import DataError

SUFFIX: Final = ".npy"
# What the standard library and NumPy raise over a damaged file.
_BROKEN: Final = (
    ValueError, OSError, EOFError, LookupError, RuntimeError, SyntaxError, MemoryError, TypeError, OverflowError,
    struct.error, zlib.error, zipfile.BadZipFile,
)  # fmt: skip


def pack_arrays(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the bytes of an npz file."""
    made = io.BytesIO()
    # Not np.savez: it takes names as arguments, and two of them, file and allow_pickle, are its own.
    with zipfile.ZipFile(made, "w") as archive:
        for name, array in arrays.items():
            entry = io.BytesIO()
            np.lib.format.write_array(entry, np.asanyarray(array), allow_pickle=False)
            # Whole: an archive with an entry half written raises an error of its own over Ctrl-C.
            archive.writestr(f"{name}{SUFFIX}", entry.getbuffer())
    return made.getvalue()


def unpack_arrays(data: bytes, what: str) -> dict[str, NDArray[Any]]:
    """Return the arrays of such bytes; what is no such file is a `DataError`."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return {name.removesuffix(SUFFIX): _array(archive.read(name)) for name in archive.namelist()}
    except _BROKEN as error:
        raise DataError(f"{what}: no whole npz file ({str(error)[:80]})") from error


def _array(data: bytes) -> NDArray[Any]:
    """Return the array of a whole entry: its checksum was seen to be right before its header is believed."""
    entry = io.BytesIO(data)
    found: NDArray[Any] = np.lib.format.read_array(entry, allow_pickle=False)
    if entry.read(1):
        raise ValueError("bytes behind an array")
    return found
