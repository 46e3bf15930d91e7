"""A run as people watch it: how many rounds, who was refused and why, how long it still takes."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any, Final

from prism_fcp.lab.progress import Progress, automatic

TOLD: Final = {
    "missing": "not there, going on without: {clients}",
    "node refused": "a node was refused: {reason}",
    "left": "{client} is gone",
    "refused": "{client} refused: {reason}",
    "silent": "{client} did not answer: {reason}",
    "put aside": "{reason}",
    "stopped": "stopped after round {round}: {reason}",
    "hook failed": "the hook {hook} failed and is not called again: {reason}",
}
MOST_LINES: Final = 20  # of one kind; the file of events has them all


class Watcher:
    """A hook that shows a bar, or lines, and says what went wrong beside it."""

    def __init__(self, progress: Progress | None = None) -> None:
        """Show progress as a terminal or a log can."""
        self._progress = progress or automatic("rounds")
        self._running, self._said = False, dict[str, int]()

    def __call__(self, event: Mapping[str, Any]) -> None:
        """Take an event."""
        kind = event["event"]
        if kind == "training":
            self._say(f"training {event['clients']} clients, {event['parameters']:,} parameters ({event['why']})")
            self._progress.start("training", int(event["rounds"]), int(event["since"]))
            self._running = True
        elif kind == "round":
            if self._running:
                self._progress.advance()
            if event["weakened"]:
                self._once("weakened", f"round {event['round']}: {event['weakened']}")
        elif kind in TOLD:
            where = f"round {event['round']}: " if "round" in event and kind not in ("stopped", "joined") else ""
            told = {key: ", ".join(map(str, one)) if isinstance(one, list) else one for key, one in event.items()}
            self._once(kind, where + TOLD[kind].format(**told))
        if kind in ("calibrated", "stopped", "finished"):
            self.close()
        if kind == "calibrated":
            self._say(
                f"calibrated {event['clients']} clients, {event['left_out']} left out, {event['refused']} refused"
            )

    def close(self) -> None:
        """Take the bar away."""
        if self._running:
            self._progress.stop()
            self._running = False

    def _once(self, kind: str, text: str) -> None:
        self._said[kind] = self._said.get(kind, 0) + 1
        if self._said[kind] < MOST_LINES:
            self._say(text)
        elif self._said[kind] == MOST_LINES:
            self._say(f"{text}; more of this kind stands in events.jsonl")

    @staticmethod
    def _say(text: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)
