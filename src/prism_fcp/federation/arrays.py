"""Named arrays as the bytes of an npz file, and back; nothing in them is ever run."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prism_fcp.errors import DataError


def pack_arrays(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the bytes of an npz file."""
    made = io.BytesIO()
    np.savez(made, **arrays)  # type: ignore[arg-type]
    return made.getvalue()


def unpack_arrays(data: bytes, what: str) -> dict[str, NDArray[Any]]:
    """Return the arrays of such bytes; what is no such file is a `DataError`."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise DataError(f"{what}: no whole npz file ({str(error)[:80]})") from error
