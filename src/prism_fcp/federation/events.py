"""What happens in a run, told once to everybody who listens: a file of JSON lines, the terminal, a tracker of yours.

A hook is any function of one dictionary: `hooks=[lambda event: run.log(event)]`. One that fails is told of, once, and
not asked again: a tracker must not stop a training of hours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

from prism_fcp import lines
from prism_fcp.errors import PrismError

Hook: TypeAlias = Callable[[Mapping[str, Any]], None]
FILE: Final = "events.jsonl"


_LISTENING: list[Hook] = []  # hooks of whoever runs an app in this process, beside the app's own


@contextmanager
def listening(hook: Hook) -> Iterator[None]:
    """Let a hook hear every run that begins in this process meanwhile."""
    _LISTENING.append(hook)
    try:
        yield
    finally:
        _LISTENING.remove(hook)


class Events:
    """Tells each event to the file and the hooks."""

    def __init__(self, path: Path | None = None, hooks: Sequence[Hook] = ()) -> None:
        """Name the file, where there is one; it only grows."""
        self._path, self._hooks = path, [*hooks, *_LISTENING]

    def tell(self, event: str, **facts: Any) -> None:
        """Tell that something happened."""
        body = {"at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"), "event": event, **facts}
        if self._path is not None:
            lines.append(self._path, body)
        for hook in list(self._hooks):
            try:
                hook(body)
            except PrismError:
                raise
            except Exception as error:
                self._hooks.remove(hook)
                name = getattr(hook, "__name__", type(hook).__name__)
                self.tell("hook failed", hook=name, reason=f"{type(error).__name__}: {error}"[:300])


def read(path: Path, since: int = 0) -> tuple[list[dict[str, Any]], int]:
    """Return the events behind a place in the file, and the place behind the last whole one."""
    return lines.read(path, since)
