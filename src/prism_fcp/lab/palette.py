"""Colours that colour-blind readers can tell apart (Okabe and Ito), by meaning, the same in every picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

HONEST: Final = "#0072B2"
BYZANTINE: Final = "#D55E00"
PAPER: Final = "#000000"
FLOOR: Final = "#555555"
LOCAL: Final = "#CC79A7"
OURS: Final = "#009E73"
BAD: Final = BYZANTINE
SERIES: Final = ("#009E73", "#0072B2", "#D55E00", "#E69F00", "#56B4E9", "#CC79A7", "#000000")
MARKS: Final = ("o", "s", "^", "D", "v", "P", "X")
KNOWN: Final = {
    "PRISM-FCP": OURS, "Rob-FCP": "#0072B2", "FCP": BYZANTINE, "PSO-FCP": "#E69F00", "Local": LOCAL, "Floor": FLOOR,
}  # fmt: skip


def attack_colour(attack: str) -> str:
    """Return an attack's colour."""
    return {"efficiency": "#0072B2", "coverage": "#E69F00", "random": "#009E73"}.get(attack, "#56B4E9")


def method_colour(method: str, place: int) -> str:
    """Return a method's colour; unknown ones take turns."""
    return KNOWN.get(method, SERIES[place % len(SERIES)])


def method_colours(methods: Sequence[str]) -> list[str]:
    """Return a colour for each of some names such as `FCP 1.0`: a known method keeps its own, others get one left.

    >>> method_colours(["PRISM-FCP 0.3", "FCP 1.0", "PRISM-FCP 0.5"])
    ['#009E73', '#D55E00', '#0072B2']
    """
    found: dict[int, str] = {}
    for place, method in enumerate(methods):
        own = KNOWN.get(method.split(" ")[0])
        if own is not None and own not in found.values():
            found[place] = own
    left = [colour for colour in SERIES if colour not in found.values()] or list(SERIES)
    others = [place for place in range(len(methods)) if place not in found]
    found |= {place: left[number % len(left)] for number, place in enumerate(others)}
    return [found[place] for place in range(len(methods))]
