from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.report.browser import Browser, chromium


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = chromium()
    if program is None:
        if os.environ.get("PRISM_FCP_NEED_BROWSER"):
            pytest.fail("PRISM_FCP_NEED_BROWSER is set and there is no Chromium: apt-get install chromium")
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, Browser(program, Path(folder)) as found:
        yield found
