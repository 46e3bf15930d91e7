"""How far along a run is: a live bar on a terminal, a line now and then elsewhere, nothing when asked for nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, Final, Protocol, TextIO

EVERY: Final = 15.0  # seconds between lines where there is no terminal; shorter jobs print none


class Progress(Protocol):
    """What a run tells while it works."""

    def start(self, name: str, total: int, done: int) -> None:
        """Begin an experiment of `total` trials, `done` of them found finished."""

    def advance(self) -> None:
        """Count one more trial."""

    def stop(self) -> None:
        """End the experiment, finished or not."""


class Quiet:
    """Says nothing."""

    def start(self, name: str, total: int, done: int) -> None:
        """Say nothing."""

    def advance(self) -> None:
        """Say nothing."""

    def stop(self) -> None:
        """Say nothing."""


class Lines:
    """A plain line every `EVERY` seconds."""

    def __init__(self, stream: TextIO | None = None, every: float = EVERY) -> None:
        """Write to `stream`, standard error unless told."""
        self._stream, self._every = stream or sys.stderr, every
        self._name, self._total, self._done, self._resumed = "", 0, 0, 0
        self._begun = self._last = 0.0

    def start(self, name: str, total: int, done: int) -> None:
        """Note the time; a resumed run is worth a line at once."""
        self._name, self._total, self._done, self._resumed = name, total, done, done
        self._begun = self._last = time.monotonic()
        if 0 < done < total:
            self._say(f"{name}: {done} of {total} trials were finished before; continuing")

    def advance(self) -> None:
        """Count, and say so when the last line is old."""
        self._done += 1
        now = time.monotonic()
        if now - self._last >= self._every and self._done < self._total:
            self._last = now
            left = (now - self._begun) / (self._done - self._resumed) * (self._total - self._done)
            self._say(f"{self._name}: {self._done} of {self._total} trials, about {left:.0f} s left")

    def stop(self) -> None:
        """Say nothing more."""

    def _say(self, text: str) -> None:
        print(text, file=self._stream, flush=True)


class Bar:
    """A live bar with the time left, for terminals."""

    def __init__(self) -> None:
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
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("trials"),
            TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(),
        )  # fmt: skip
        self._make: Callable[[], RichProgress] = lambda: RichProgress(
            *columns, console=Console(stderr=True), transient=True
        )
        self._bar: Any = None
        self._task: Any = None

    def start(self, name: str, total: int, done: int) -> None:
        """Show the bar."""
        self._bar = self._make()
        self._task = self._bar.add_task(name, total=total, completed=done)
        self._bar.start()

    def advance(self) -> None:
        """Move the bar."""
        self._bar.advance(self._task)

    def stop(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def automatic() -> Progress:
    """Return the bar on a terminal and lines elsewhere."""
    return Bar() if sys.stderr.isatty() else Lines()
