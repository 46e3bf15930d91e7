"""How the commands of this room speak: plain lines and tables on standard output, progress on standard error."""

from __future__ import annotations

import sys
import time
import warnings
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TextIO

from prism_fcp import io

EVERY: Final = 15.0  # seconds between lines where there is no terminal
OTHER_FILE: Final = "name another file"


class Reading:
    """Says how much of a file has been read: on a terminal in place, elsewhere a line now and then."""

    def __init__(self, name: str, stream: TextIO | None = None) -> None:
        """Begin; short files are never spoken of."""
        self._name, self._stream = name, stream or sys.stderr
        self._begun = self._last = time.monotonic()
        self._shown = False

    def __call__(self, done: int, total: int) -> None:
        """Tell how far along the file is."""
        now, terminal = time.monotonic(), self._stream.isatty()
        if now - self._last < (0.5 if terminal else EVERY) or not 0 < done < total:
            return
        self._last, self._shown = now, terminal
        left = (now - self._begun) * (total - done) / done
        text = f"{self._name}: {done / 1e6:,.0f} of {total / 1e6:,.0f} MB, about {left:.0f} s left"
        self._stream.write(f"\r{text}\x1b[K" if terminal else f"{text}\n")
        self._stream.flush()

    def end(self) -> None:
        """Leave the line as it was found."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


@contextmanager
def reading(path: Path) -> Iterator[Reading]:
    """Show progress through a file, and clean up whatever happens."""
    told = Reading(path.name)
    try:
        yield told
    finally:
        told.end()


@contextmanager
def warnings_told() -> Iterator[list[str]]:
    """Collect warnings as sentences; each is printed on standard error as it comes, once."""
    told: list[str] = []

    def tell(message: Warning | str, *rest: Any) -> None:
        if str(message) not in told:
            told.append(str(message))
            print(f"prism-fcp: warning: {message}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = tell  # type: ignore[assignment]  # the rest of what it is given is not told
        yield told


def say(options: Namespace, text: str, body: Any) -> None:
    """Print the text, or, where JSON goes to standard output, that alone; to a file, both."""
    if options.json == "-":
        sys.stdout.write(io.to_json(body, ascii_only=(sys.stdout.encoding or "").lower().replace("-", "") != "utf8"))
        return
    if options.json is not None:
        io.write_text(Path(options.json), io.to_json(body), OTHER_FILE)
    print(text)


def table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Return rows under a header, columns as wide as they must be; those in `right` are aligned there.

    >>> print(table(("who", "n"), [("a", "10")], right=[1]))
    who   n
    a    10
    """
    lines = [header, *rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(header))]
    told = []
    for line in lines:
        cells = [f"{cell:>{width}}" if place in right else f"{cell:<{width}}" for place, (cell, width) in
                 enumerate(zip(line, widths, strict=True))]  # fmt: skip
        told.append("  ".join(cells).rstrip())
    return "\n".join(told)


def number(value: Any, digits: int = 4) -> str:
    """Return a number of a file of ours in words.

    >>> number(1.23456), number("inf"), number(None)
    ('1.235', 'infinite', '-')
    """
    if value is None:
        return "-"
    return "infinite" if value in ("inf", float("inf")) else f"{value:.{digits}g}"


def percent(value: float) -> str:
    """Return a share in percent.

    >>> percent(0.9)
    '90.0 %'
    """
    return f"{100 * value:.1f} %"


def within(low: float, high: float, width: int = 40) -> str:
    """Return a line that shows where an interval of shares lies between 0 and 1."""
    first, last = (min(int(place * width), width - 1) for place in (low, high))
    return "." * first + "=" * (last - first + 1) + "." * (width - last - 1)


def plain(body: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return part of a table."""
    return {name: body[name] for name in names}
