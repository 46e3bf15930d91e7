"""Numbers as a reader wants them: few digits, no exponents where none are needed, percent from shares."""

from __future__ import annotations

from html import escape
from math import inf
from typing import Any, Final

GAP: Final = "\u00a0"  # a number and its unit stay on one line
_RAISED: Final = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def value(raw: Any) -> float | None:
    """Return a number as our files hold it: the text "inf" is infinite, null is none."""
    return inf if raw == "inf" else None if raw is None else float(raw)


def number(raw: Any, digits: int = 4) -> str:
    r"""Return a number with so many significant digits.

    >>> number(1.65625), number(1234567), number(2e-7), number("inf"), number(None), number(1800)
    ('1.656', '1,234,567', '2\xa0×\xa010⁻⁷', 'infinite', 'none', '1,800')
    """
    found = value(raw)
    if found is None or abs(found) == inf:
        return "none" if found is None else "infinite"
    if found == int(found) and abs(found) < 1e9:
        return f"{int(found):,}"
    if 1e-3 <= abs(found) < 1e6:
        return f"{float(f'{found:.{digits}g}'):,.10g}" if abs(found) < 10**digits else f"{found:,.0f}"
    mantissa, _, power = f"{found:.{digits - 1}e}".partition("e")
    return f"{float(mantissa):g} × 10{str(int(power)).translate(_RAISED)}".replace(" ", GAP)


def percent(raw: Any, digits: int = 1) -> str:
    r"""Return a share in percent.

    >>> percent(0.9), percent(0.9953), percent(None)
    ('90\xa0%', '99.5\xa0%', 'none')
    """
    found = value(raw)
    if found is None or abs(found) == inf:
        return number(raw)
    return f"{round(100 * found, digits):.10g}{GAP}%"


def text(raw: Any) -> str:
    """Return a foreign text so that HTML shows it and does nothing else with it."""
    return escape(str(raw), quote=True)


def sentence(raw: Any) -> str:
    """Return a reason or finding as a sentence, escaped."""
    words = str(raw).strip()
    if not words:
        return ""
    return text(words[0].upper() + words[1:] + ("" if words[-1] in ".!?" else "."))
