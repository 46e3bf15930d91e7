"""Several files that appear together: made in a folder of their own, moved when all are whole."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prism_fcp.errors import OutputError


@contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """Give an empty folder whose files move into `folder` when the block ends well; else none of them does."""
    try:
        with tempfile.TemporaryDirectory(prefix=".prism-fcp-", dir=folder) as name:
            place = Path(name)
            yield place
            for path in sorted(place.iterdir()):
                os.replace(path, folder / path.name)
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror or error}; choose another --out") from error
