"""Interleaved measurements in process CPU time: what is compared runs turn by turn, so a busy machine slows both."""

from __future__ import annotations

import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Line:
    """One measured line of the report."""

    name: str
    measured: str
    value: float
    unit: str
    limit: float | None = None  # the value may not be above it, or, with `at_least`, below it
    at_least: bool = False
    note: str = ""

    @property
    def verdict(self) -> str:
        if self.limit is None:
            return ""
        return "ok" if (self.value >= self.limit if self.at_least else self.value <= self.limit) else "MISSED"


def cpu_seconds(task: Callable[[], object]) -> float:
    """Return the CPU seconds this process spends on the task."""
    start = time.process_time()
    task()
    return time.process_time() - start


def turns(tasks: Sequence[Callable[[int], object]], rounds: int) -> list[float]:
    """Return each task's CPU seconds, summed over `rounds` in which they take turns."""
    spent = [0.0] * len(tasks)
    for i in range(rounds):
        for k, task in enumerate(tasks):
            spent[k] += cpu_seconds(lambda task=task, i=i: task(i))
    return spent


def medians(measure: Callable[[], Sequence[float]], repeats: int) -> list[float]:
    """Return the median of each number over repeated measurements."""
    return [statistics.median(column) for column in zip(*(measure() for _ in range(repeats)), strict=True)]


def child(arguments: Sequence[str], environment: dict[str, str] | None = None) -> tuple[float, float, float]:
    """Run a Python process; return (CPU seconds, wall seconds, peak GB of the largest process started so far)."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)}\n{done.stderr[-2000:]}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, wall, after.ru_maxrss / 1e6


def machine() -> str:
    """Describe the machine and what runs on it."""
    import numba
    import numpy

    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    flags = next((line for line in lines if line.startswith("flags")), "")
    width = "AVX-512" if "avx512f" in flags else "AVX2" if "avx2" in flags else "no AVX2"
    cpu = f"{models[0]} x {len(models)} ({width})" if models else platform.processor() or platform.machine()
    return (
        f"{cpu}, {platform.system()}, Python {platform.python_version()}, "
        f"NumPy {numpy.__version__}, numba {numba.__version__}"
    )


def table(lines: Sequence[Line]) -> str:
    """Return the report as a table that reads as text and as Markdown."""
    rows = [("what", "measured", "value", "limit", "", "note")]
    for line in lines:
        limit = "" if line.limit is None else f"{'>=' if line.at_least else '<='} {line.limit:g} {line.unit}"
        rows.append((line.name, line.measured, f"{line.value:.3g} {line.unit}", limit, line.verdict, line.note))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    text = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(text)
