"""Colours that colour-blind readers can tell apart (Okabe and Ito), by meaning, the same in every picture."""

from __future__ import annotations

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


def attack_colour(attack: str) -> str:
    """Return an attack's colour."""
    return {"efficiency": "#0072B2", "coverage": "#E69F00", "random": "#009E73"}.get(attack, "#56B4E9")


def method_colour(method: str, place: int) -> str:
    """Return a method's colour; unknown ones take turns."""
    known = {
        "PRISM-FCP": OURS,
        "Rob-FCP": "#0072B2",
        "FCP": BYZANTINE,
        "PSO-FCP": "#E69F00",
        "Local": LOCAL,
        "Floor": FLOOR,
    }
    return known.get(method, SERIES[place % len(SERIES)])
