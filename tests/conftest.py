"""What all tests share: one thread a process, reproducible hypothesis, no settings from outside."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Two pytest workers on two cores: a BLAS that spawns threads of its own only makes them wait for each other.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("MPLBACKEND", "Agg")

# The same examples every time, so that a red run can be repeated. HYPOTHESIS_PROFILE=search draws new and more ones.
settings.register_profile(
    "house",
    derandomize=True,
    deadline=None,
    max_examples=50,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("search", parent=settings.get_profile("house"), derandomize=False, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "house"))

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's root folder."""
    return ROOT


@pytest.fixture(scope="session", autouse=True)
def _signals_reach_children() -> Iterator[None]:
    """`make test &` and `nohup` leave SIGINT or SIGHUP ignored, and what is ignored stays so in every child."""
    ignored = [number for number in (signal.SIGINT, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture(autouse=True)
def _no_outside_settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A variable set in someone's shell must not decide a test; the path of data is the exception."""
    for name in [n for n in os.environ if n.startswith("PRISM_FCP_")]:
        if name != "PRISM_FCP_SUPERCONDUCTIVITY":
            monkeypatch.delenv(name)
    yield


@pytest.fixture
def superconductivity() -> Path:
    """The real table's file. Without the variable the test is skipped; with it, a file that cannot be read is red."""
    told = os.environ.get("PRISM_FCP_SUPERCONDUCTIVITY")
    if not told:
        pytest.skip("PRISM_FCP_SUPERCONDUCTIVITY names no file: the superconductivity data are not at hand")
    return Path(told)
