"""Where the fault tests write what they saw, for the table in the documentation."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("flwr")

Saw = Callable[[str, str, float], None]


@pytest.fixture
def saw() -> Saw:
    """Note a fault, what was seen, and after how many seconds; FAULTS_SEEN names the file, if there is one."""

    def note(fault: str, seen: str, seconds: float) -> None:
        path = os.environ.get("FAULTS_SEEN")
        if path:
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(json.dumps({"fault": fault, "seen": seen, "seconds": round(seconds, 2)}) + "\n")

    return note
