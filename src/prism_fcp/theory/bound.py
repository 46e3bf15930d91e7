"""A bound, and whether it says anything."""

from __future__ import annotations

from typing import NamedTuple

from prism_fcp.errors import SettingError, need_number


class Bound(NamedTuple):
    """At most `value`, of a thing that is never above `most` anyway, or of which nothing is promised beyond it."""

    value: float
    most: float
    what: str

    @property
    def vacuous(self) -> bool:
        """Return whether it says nothing."""
        return not self.value < self.most

    @property
    def sentence(self) -> str:
        """Return it in words."""
        if self.vacuous:
            return (
                f"vacuous: {self.what} is at most {self.value:.3g}, and a bound of {self.most:.3g} or more says nothing"
            )
        return f"{self.what} is at most {self.value:.3g}"


def need_at_least(what: str, least: float, **values: float) -> None:
    """Raise `SettingError` unless each value is a finite number of at least `least`."""
    for name, value in values.items():
        need_number(f"{what}: {name}", value)
        if value < least:
            raise SettingError(f"{what}: {name}={value}; must be {least:g} or more")


def need_share(what: str, **values: float) -> None:
    """Raise `SettingError` unless each value lies strictly between 0 and 1."""
    for name, value in values.items():
        need_number(f"{what}: {name}", value)
        if not 0 < value < 1:
            raise SettingError(f"{what}: {name}={value}; must lie strictly between 0 and 1")
