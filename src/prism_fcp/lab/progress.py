"""How far along a run is: a live bar on a terminal, a line now and then elsewhere, nothing when asked for nothing."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable
from typing import Any, Final, Protocol, TextIO

COMPILING: Final = "compiling (first use, about 15 s)"  # later uses take a second
EVERY: Final = 15.0  # seconds between lines where there is no terminal; shorter jobs print none


class Progress(Protocol):
    """What a run tells while it works."""

    def start(self, name: str, total: int, done: int) -> None:
        """Begin an experiment of `total` trials, `done` of them found finished."""

    def wait(self, why: str) -> None:
        """Say why the first trial takes longer than the others."""

    def advance(self) -> None:
        """Count one more trial."""

    def stop(self) -> None:
        """End the experiment, finished or not."""


class Quiet:
    """Says nothing."""

    def start(self, name: str, total: int, done: int) -> None:
        """Say nothing."""

    def wait(self, why: str) -> None:
        """Say nothing."""

    def advance(self) -> None:
        """Say nothing."""

    def stop(self) -> None:
        """Say nothing."""


class Lines:
    """A plain line every `EVERY` seconds."""

    def __init__(self, stream: TextIO | None = None, every: float = EVERY, what: str = "trials") -> None:
        """Write to `stream`, standard error unless told."""
        self._stream, self._every, self._what = stream or sys.stderr, every, what
        self._name, self._total, self._done, self._resumed = "", 0, 0, 0
        self._begun = self._first = self._last = 0.0
        self._waited = False

    def start(self, name: str, total: int, done: int) -> None:
        """Note the time; a resumed run is worth a line at once."""
        self._name, self._total, self._done, self._resumed = name, total, done, done
        self._begun = self._first = self._last = time.monotonic()
        self._waited = False
        if 0 < done < total:
            were = "trial was" if done == 1 else "trials were"
            self._say(f"{name}: {done} of {total} {were} finished before; continuing")

    def wait(self, why: str) -> None:
        """Say it; the first trial is then none to judge the others by."""
        self._waited = True
        self._say(f"{self._name}: {why}")

    def advance(self) -> None:
        """Count, and say so when the last line is old."""
        self._done += 1
        now = time.monotonic()
        new = self._done - self._resumed
        if new == 1 and self._waited:
            self._first = now  # what came before was compiling
        if now - self._last >= self._every and self._done < self._total:
            self._last = now
            told, counted = f"{self._name}: {self._done} of {self._total} {self._what}, ", new - self._waited
            if counted < 1:
                self._say(f"{told}{now - self._begun:.0f} s elapsed")
                return
            left = (now - self._first) / counted * (self._total - self._done)
            self._say(f"{told}{now - self._begun:.0f} s elapsed, about {left:.0f} s left")

    def stop(self) -> None:
        """Say nothing more."""

    def _say(self, text: str) -> None:
        print(text, file=self._stream, flush=True)


class Bar:
    """A live bar with the time left, for terminals."""

    def __init__(self, what: str = "trials") -> None:
        """Load rich, which only a terminal needs."""
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as RichProgress

        columns = (
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn(what),
            TextColumn("elapsed"), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(),
        )  # fmt: skip
        self._make: Callable[[], RichProgress] = lambda: RichProgress(
            *columns, console=Console(stderr=True), transient=True
        )
        self._bar: Any = None
        self._task: Any = None
        self._name, self._waits = "", False

    def start(self, name: str, total: int, done: int) -> None:
        """Show the bar."""
        self._bar = self._make()
        self._task = self._bar.add_task(name, total=total, completed=done)
        self._name, self._waits = name, False
        self._bar.start()

    def wait(self, why: str) -> None:
        """Say it beside the name until the first trial is finished."""
        self._waits = True
        self._bar.update(self._task, description=f"{self._name}: {why}")

    def advance(self) -> None:
        """Move the bar; what it says is left counts from the first trial on, so that compiling is not in it."""
        if self._waits:
            self._waits = False
            self._bar.update(self._task, description=self._name)
        self._bar.advance(self._task)

    def stop(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def automatic(what: str = "trials") -> Progress:
    """Return the bar on a terminal and lines elsewhere."""
    return Bar(what) if sys.stderr.isatty() else Lines(what=what)


class Clock:
    """Wall seconds between trials, CPU seconds of this process and its ended children."""

    def __init__(self) -> None:
        """Begin now."""
        self._last, self._cpu = time.perf_counter(), self._used()

    def lap(self) -> float:
        """Return the seconds since the last lap."""
        now = time.perf_counter()
        lap, self._last = now - self._last, now
        return lap

    def cpu(self) -> float:
        """Return the CPU seconds since the beginning."""
        return self._used() - self._cpu

    @staticmethod
    def _used() -> float:
        return math.fsum(os.times()[:4])
