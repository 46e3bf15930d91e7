"""Start a program again when it ends, with longer and longer pauses.

A SuperNode that was killed is taken for present by the SuperLink for up to a minute, and its key with it: until then
each new one exits (error 2004). So one restart is not enough, and nobody should count them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from prism_fcp.federation.deploy.program import Program

FIRST_PAUSE: Final = 1.0  # seconds
LONGEST_PAUSE: Final = 10.0
HEALTHY: Final = 90.0  # after so many seconds without an end the pauses begin anew

Tell = Callable[[str], None]


@dataclass(slots=True)
class Supervised:
    """A program and how to start it; `tend` does what is due."""

    name: str
    start: Callable[[], Program]
    tell: Tell
    clock: Callable[[], float] = time.monotonic
    program: Program | None = None
    restarts: int = 0
    _failures: int = 0
    _due: float | None = field(default=None)

    def begin(self) -> None:
        """Start it for the first time."""
        self.program = self.start()

    def tend(self) -> bool:
        """Start it again if that is due; return whether it was found to have ended."""
        now = self.clock()
        if self._due is not None:
            if now >= self._due:
                self._due = None
                self.restarts += 1
                self.program = self.start()
            return False
        assert self.program is not None
        status = self.program.poll()
        if status is None:
            return False
        lasted = now - self.program.started
        self._failures = 1 if lasted > HEALTHY else self._failures + 1
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (self._failures - 1))
        self._due = now + pause
        signal = status - 128 if status > 128 else -status  # negative: the leash itself was killed
        how = f"killed by signal {signal}" if signal > 0 else f"exit status {status}"
        self.tell(f"{self.name} ended after {lasted:.0f} s ({how}: {self.program.last_words()}); again in {pause:g} s")
        return True
