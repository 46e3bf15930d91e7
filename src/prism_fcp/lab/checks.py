"""What an experiment's values must be beside their type: names, limits, and what the method itself refuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias

from prism_fcp.errors import PrismError, SettingError, need_number
from prism_fcp.lab.typed import shown
from prism_fcp.setup import CalibrationSettings, Method, Setup
from prism_fcp.tables import FRIEDMAN, TableData
from prism_fcp.train.aggregate import RULES
from prism_fcp.train.settings import Federation
from prism_fcp.types import Choice

Figure: TypeAlias = Literal[
    "widths", "histograms", "scores", "intervals", "quantile", "energy", "count", "noise", "tradeoff", "missed",
    "layers", "learning", "partition",
]  # fmt: skip

MAX_TRIALS: Final = 10_000_000
MAX_SIZE: Final = 1_000_000_000  # of whatever an array is as long as
_MAX_NAME: Final = 100
_SIZES: Final = ("num_clients", "dimension", "rounds", "samples", "test_samples", "bins")


def name(value: str, where: str) -> None:
    """Raise `SettingError` unless `value` can be a folder's name that commands and people can handle."""
    if len(value) > _MAX_NAME:
        raise SettingError(
            f"{where}: name = {value[:20]!r}... has {len(value)} characters; must have at most {_MAX_NAME}: "
            "shorten the name"
        )
    bad = any(letter in "/\\" or not letter.isprintable() for letter in value)
    if bad or value != value.strip() or not value or value[0] in ".-":
        raise SettingError(
            f"{where}: name = {value!r}; must be usable as a folder's name: printable, without / and \\, not beginning "
            "with . or -, no blanks around it"
        )


def head(numbers: Mapping[str, int], where: str) -> None:
    """Raise `SettingError` for a count or a seed out of its range."""
    for key, least in (("trials", 1), ("explain", 0), ("predict_samples", 1)):
        if numbers[key] < least:
            raise SettingError(f"{where}: {key} = {numbers[key]}; must be at least {least}")
    for key in ("trials", "explain"):
        if numbers[key] > MAX_TRIALS:
            raise SettingError(f"{where}: {key} = {numbers[key]}; must be at most {MAX_TRIALS:,}")
    try:
        seed(numbers["seed"])
    except SettingError as error:
        raise SettingError(f"{where}: {error}") from error


def seed(value: int) -> None:
    """Raise `SettingError` for a seed that would be taken for another one."""
    if isinstance(value, int) and value.bit_length() > 1000:
        raise SettingError(f"seed={shown(value)}; must lie in 0..2^64-1")
    need_number("seed", value, integer=True)
    if not 0 <= value < 2**64:
        raise SettingError(f"seed={value}; must lie in 0..2^64-1")


def sizes(sections: Sequence[Federation | CalibrationSettings], where: str) -> None:
    """Raise `SettingError` for a size beyond all memory."""
    for section in sections:
        for key in _SIZES:
            if getattr(section, key, 0) > MAX_SIZE:
                raise SettingError(f"{where}: {key} = {getattr(section, key)}; must be at most {MAX_SIZE:,}")


def within(numbers: Mapping[str, Any], federation: Federation, calibration: CalibrationSettings, where: str) -> None:
    """Raise `SettingError` for a part that is larger than its whole."""
    for key, value, whole, limit in (
        ("window", federation.window, "rounds", federation.rounds),
        ("predict_samples", numbers["predict_samples"], "test_samples", calibration.test_samples),
        ("explain", numbers["explain"], "trials", numbers["trials"]),
    ):
        if value > limit:
            raise SettingError(f"{where}: {key} = {value}; must be at most {whole} = {limit}")


def setup(made: Setup, where: str) -> None:
    """Let the method itself refuse what cannot work, in its own words, before anything runs."""
    with enough_memory(made, where):
        try:
            made.check()
        except PrismError as error:
            raise type(error)(f"{where}{_of_method(made)}: {error}{_more_participants(made)}") from error


def figures(wanted: Sequence[Figure], made: Setup, where: str) -> None:
    """Refuse a picture that would have nothing in it."""
    federated = any(method.arm is not None and method.arm.exchange for method in made.methods)
    random = any(attack.name == "random" for _, attack in made.attacks)
    for figure in wanted:
        if figure not in ("widths", "partition") and not federated:
            raise SettingError(f"{where}: figure {figure!r} needs a method with training = 'federated'")
        if figure == "partition" and not (isinstance(made.population, TableData) and made.population.name != FRIEDMAN):
            raise SettingError(f"{where}: figure 'partition' needs [data] with a table")
        if figure == "noise" and not random:
            raise SettingError(f"{where}: figure 'noise' needs attacks of name 'random' with several sd")


@contextmanager
def enough_memory(made: Setup, where: str) -> Iterator[None]:
    """Say which setting is large where the memory does not suffice."""
    try:
        yield
    except (MemoryError, ValueError) as error:
        words = ("array is too big", "maximum allowed dimension", "maximum supported dimension")
        if not isinstance(error, MemoryError) and not any(word in str(error).lower() for word in words):
            raise
        raise SettingError(f"{where}: not enough memory; {_largest(made)}") from error


def _largest(made: Setup) -> str:
    found = {
        key: getattr(part, key) for part in (made.federation, made.calibration) for key in _SIZES if hasattr(part, key)
    }
    key = max(found, key=lambda key: found[key])
    return f"the largest setting is {key} = {found[key]}: lower it, or take fewer jobs"


def _of_method(made: Setup) -> str:
    """Name the method that is refused, unless the setup is refused whatever its methods."""
    alone = [replace(made, methods=(method,)) for method in made.methods]
    neutral = Method(name="neutral", arm=None, filter=Choice("keep_all"))
    if _refused(replace(made, methods=(neutral,))):
        return ""
    for number, one in enumerate(alone, 1):
        if _refused(one):
            return f" [[methods]] {number} ({one.methods[0].name})"
    return ""


def _more_participants(made: Setup) -> str:
    for arm in made.arms():
        try:
            arm.rule.build(RULES, "rule").check(made.federation.num_participants)
        except PrismError:
            return "; or more participants (num_participants)"
    return ""


def _refused(made: Setup) -> bool:
    try:
        made.check()
    except PrismError:
        return True
    return False
