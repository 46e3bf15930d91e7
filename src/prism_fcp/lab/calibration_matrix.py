"""What the calibration gauntlet runs: score attacks at several strengths, filters told the number of liars or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from prism_fcp.calibrate.attack import SCORE_ATTACKS, ScoreAttack
from prism_fcp.calibrate.filter import FILTERS
from prism_fcp.calibrate.judgement import Filter
from prism_fcp.errors import SettingError, did_you_mean
from prism_fcp.lab.scenes import REGIMES
from prism_fcp.registry import find, names
from prism_fcp.types import Choice

# name -> what is built, and whether the default matrix has it
ATTACKS: Final[dict[str, tuple[Choice, bool]]] = {
    "none": (Choice("none"), True),
    "all zero": (Choice("efficiency"), True),
    "all 10x mean": (Choice("coverage"), True),
    "noise .5, cut": (Choice("random"), True),
    "noise .5, reflected": (Choice("random", {"fold": "reflect"}), True),
    "collude 3.5": (Choice("collusion"), True),
    "collude 8": (Choice("collusion", {"shape": 8.0}), True),
    "30 % zeros": (Choice("partial"), True),
    "10 % 10x mean": (Choice("partial", {"fraction": 0.1, "multiple": 10.0}), True),
    "tail x 3": (Choice("tail"), True),
    "copy x 1.2": (Choice("copy", {"factor": 1.2}), True),
    "all at 5 % of range": (Choice("efficiency", {"level": 0.05}), False),
    "all 2x mean": (Choice("coverage", {"multiple": 2.0}), False),
    "noise .1, cut": (Choice("random", {"sd": 0.1}), False),
    "noise .1, reflected": (Choice("random", {"sd": 0.1, "fold": "reflect"}), False),
    "noise 1, cut": (Choice("random", {"sd": 1.0}), False),
    "noise 1, reflected": (Choice("random", {"sd": 1.0, "fold": "reflect"}), False),
    "collude 3": (Choice("collusion", {"shape": 3.0}), False),
    "collude 4": (Choice("collusion", {"shape": 4.0}), False),
    "5 % zeros": (Choice("partial", {"fraction": 0.05}), False),
    "tail x 1.5": (Choice("tail", {"factor": 1.5}), False),
    "copy": (Choice("copy"), False),
}
RULES: Final[dict[str, tuple[Choice, bool]]] = {
    "keep_all": (Choice("keep_all"), True),
    "cautious": (Choice("cautious"), True),
    "mad": (Choice("mad"), True),
    "ordered": (Choice("ordered"), True),
    "mixture": (Choice("mixture"), True),
    "vigilant": (Choice("vigilant"), True),
    "known_count": (Choice("known_count"), True),
    "ordered, told": (Choice("ordered", {"suspects": "told"}), True),
    "mixture, told": (Choice("mixture", {"suspects": "told"}), True),
    "vigilant, told": (Choice("vigilant", {"suspects": "told"}), True),
    "estimated_count": (Choice("estimated_count"), False),
}


@dataclass(frozen=True, slots=True)
class Matrix:
    """What is run: names of regimes, attacks and filters, in order."""

    regimes: tuple[str, ...]
    attacks: tuple[str, ...]
    filters: tuple[str, ...]
    plugins: tuple[str, ...] = ()

    @classmethod
    def chosen(
        cls,
        full: bool = False,
        regimes: Sequence[str] = (),
        attacks: Sequence[str] = (),
        filters: Sequence[str] = (),
        plugins: Sequence[str] = (),
    ) -> Matrix:
        """Return the core matrix, or all of it, or the names given; names in the registries join as they are."""
        return cls(
            _names("regime", regimes, {k: regime.core or full for k, regime in REGIMES.items()}),
            _names(
                "attack", attacks, {k: core or full for k, (_, core) in ATTACKS.items()}, "score attack", SCORE_ATTACKS
            ),
            _names("filter", filters, {k: core or full for k, (_, core) in RULES.items()}, "filter", FILTERS),
            tuple(plugins),
        )

    def built(self) -> tuple[list[ScoreAttack], list[Filter]]:
        """Return the attacks and filters; a setting that cannot work is said now."""
        return (
            [choice.build(SCORE_ATTACKS, "score attack") for choice in self._attacks()],
            [choice.build(FILTERS, "filter") for choice in self._filters()],
        )

    def members(self) -> list[tuple[str, str]]:
        """Return (kind, name) of the attacks and filters, of which some may be other packages'."""
        found = [member for choice in self._attacks() for member in choice.members("score attack")]
        return found + [member for choice in self._filters() for member in choice.members("filter")]

    def _attacks(self) -> list[Choice]:
        return [ATTACKS.get(name, (Choice(name), True))[0] for name in self.attacks]

    def _filters(self) -> list[Choice]:
        return [RULES.get(name, (Choice(name), True))[0] for name in self.filters]


def listing() -> str:
    """Return the names there are, each in quotation marks and on its own line, with what it stands for."""
    told = ["regimes:"]
    told += [f"  {name!r}: {title}{'' if core else ' (--full)'}" for name, (title, _, core) in REGIMES.items()]
    for what, kind, usual, registry in (
        ("attacks", "score attack", ATTACKS, SCORE_ATTACKS),
        ("filters", "filter", RULES, FILTERS),
    ):
        told.append(f"{what}:")
        for name, (choice, core) in usual.items():
            options = ", ".join(f"{key}={value!r}" for key, value in choice.options.items())
            told.append(f"  {name!r}: {choice.name}({options}){'' if core else ' (--full)'}")
        rest = [name for name in names(registry, kind) if name not in usual]
        told += [f"  {name!r}: as registered (when named)" for name in rest]
    return "\n".join(told)


def _names(
    what: str,
    wanted: Sequence[str],
    usual: Mapping[str, bool],
    kind: str = "",
    registry: Mapping[str, Callable[..., Any]] | None = None,
) -> tuple[str, ...]:
    """Return the names wanted, or the usual ones; those of the registry join as they are."""
    own = list(usual)
    for name in wanted:
        if name in usual or find(registry or {}, kind, name) is not None:
            continue
        known = own + [other for other in names(registry or {}, kind) if other not in usual]
        raise SettingError(f"unknown {what} {name!r}{did_you_mean(name, known)}")
    twice = {name for name in wanted if wanted.count(name) > 1}
    if twice:
        raise SettingError(f"{what}s: {sorted(twice)} asked for more than once; name each once")
    return tuple(wanted) or tuple(name for name, takes_part in usual.items() if takes_part)
