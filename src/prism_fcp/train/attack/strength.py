"""What all attacks ask of the number that says how strong they are."""

from __future__ import annotations

from typing import Final

from prism_fcp.errors import SettingError, need_number

MOST: Final = 1e15  # its square is a finite float32


def strength_of(attack: str, name: str, value: float) -> None:
    """Raise `SettingError` for a strength that is no number, or overflows."""
    need_number(f"{attack} attack: {name}", value)
    if abs(value) > MOST:
        raise SettingError(f"{attack} attack: {name}={value}; must lie in -{MOST:g}..{MOST:g}")
