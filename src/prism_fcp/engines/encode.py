"""From settings to the compiled engine's numbers, and what it does not know. Does not import numba."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prism_fcp.errors import SettingError
from prism_fcp.kernels import codes
from prism_fcp.registry import find
from prism_fcp.train import aggregate, attack
from prism_fcp.train.settings import Arm, Federation
from prism_fcp.types import Choice

# Looked up by the factory itself, not by its name: a user may have put a rule of their own under a known name.
_RULES: Final[dict[Callable[..., Any], int]] = {
    aggregate.mean: codes.MEAN,
    aggregate.mean_of_sharers: codes.MEAN_OF_SHARERS,
    aggregate.median: codes.TRIMMED_MEAN,
    aggregate.trimmed_mean: codes.TRIMMED_MEAN,
    aggregate.krum: codes.KRUM,
    aggregate.multi_krum: codes.KRUM,
    aggregate.clipped_median: codes.TRIMMED_MEAN,
    aggregate.table: codes.TABLE,
}
_ATTACKS: Final[dict[Callable[..., Any], int]] = {
    attack.none: codes.NO_ATTACK,
    attack.gaussian: codes.GAUSSIAN,
    attack.alie: codes.ALIE,
    attack.sign_flip: codes.SIGN_FLIP,
    attack.shift: codes.SHIFT,
    attack.sleeper: codes.SHIFT,
    attack.concentrate: codes.CONCENTRATE,
    attack.push: codes.PUSH,
    attack.label_flip: codes.LABEL_FLIP,
    attack.inner_product: codes.INNER_PRODUCT,
    attack.mimic: codes.FIRST,
    attack.edge: codes.HIGHEST,
    attack.min_max: codes.MIN_MAX,
    attack.min_sum: codes.MIN_SUM,
}
# What the engine `xla` has a form for, beside the masks it knows.
_DEVICE_RULES: Final = (
    aggregate.mean, aggregate.mean_of_sharers, aggregate.median, aggregate.trimmed_mean, aggregate.krum,
    aggregate.multi_krum,
)  # fmt: skip
_DEVICE_ATTACKS: Final = (attack.none, attack.gaussian, attack.alie)
_STRENGTHS: Final = ("z", "strength", "scale", "size")  # what attacks call the number that says how strong they are
_DOWNLOADS: Final = {
    "same": codes.SEND_THIS_ROUND,
    "previous": codes.SEND_LAST_ROUND,
    "independent": codes.RECEIVE,
    "full": codes.EVERYTHING,
    "never": codes.EVERYTHING,  # of which nothing is taken
}
_COMMON: Final = {"client": False, "common": True}
_ALL_IT_CAN: Final = 2**31 - 1


class EncodedArms(NamedTuple):
    """The arms as the kernel's tables; `kernels/training.py` explains them."""

    table: NDArray[np.int64]
    decks: NDArray[np.int64]
    unit_of: NDArray[np.int64]
    numbers: NDArray[np.float64]


def foreign(federation: Federation, arms: Sequence[Arm]) -> str | None:
    """Return what in these settings the engine `xla` has no form for, or None: the readable engine has them all."""
    if (find(attack.UPDATE_ATTACKS, "training attack", federation.attack.name) or attack.none) not in _DEVICE_ATTACKS:
        return f"training attack {federation.attack.name!r} is not one it knows"
    for arm in arms:
        if (find(aggregate.RULES, "rule", arm.rule.name) or aggregate.mean) not in _DEVICE_RULES:
            return f"rule {arm.rule.name!r} is not one it knows"
        if arm.masks.download == "never" or arm.mixing != 1 or arm.averaging or arm.client_averaging:
            return "a download that never comes or is mixed in, or an averaged model, is not one it knows"
    return None


def obstacle(federation: Federation, arms: Sequence[Arm]) -> str | None:
    """Return what in these settings the compiled engine does not know, or None."""
    if federation.local_steps != 1 or federation.batch_size != 1 or federation.momentum:
        return "steps on batches, or with momentum, are not what the compiled engine knows"
    if (find(attack.UPDATE_ATTACKS, "training attack", federation.attack.name) or attack.none) not in _ATTACKS:
        return f"training attack {federation.attack.name!r} is not one the compiled engine knows"
    for arm in arms:
        if (find(aggregate.RULES, "rule", arm.rule.name) or aggregate.mean) not in _RULES:  # unknown: another check's
            return f"rule {arm.rule.name!r} is not one the compiled engine knows"
        if arm.masks.download not in _DOWNLOADS:
            return f"download mask {arm.masks.download!r} is not one the compiled engine knows"
        if arm.masks.coordination not in _COMMON:
            return f"coordination {arm.masks.coordination!r} is not one the compiled engine knows"
    return None


def check_known(federation: Federation, arms: Sequence[Arm]) -> None:
    """Raise `SettingError` for a rule, attack or mask the compiled engine does not know."""
    problem = obstacle(federation, arms)
    if problem is not None:
        raise SettingError(f"engine 'compiled': {problem}; use engine 'readable' or 'auto'")


class EncodedAttack(NamedTuple):
    """A training attack as the kernel's numbers."""

    code: int
    probability: float
    strength: float
    asleep: int
    target_factor: float


def encode_attack(choice: Choice) -> EncodedAttack:
    """Return the numbers of a training attack."""
    factory = attack.UPDATE_ATTACKS[choice.name]
    options, made = _options(factory, choice), choice.build(attack.UPDATE_ATTACKS, "training attack")
    code = _ATTACKS[factory]
    strength = math.sqrt(options["variance"]) if code == codes.GAUSSIAN else 0.0
    strength = next((options[name] for name in _STRENGTHS if name in options), strength)
    if options.get("whom") == "noisiest":
        code = codes.NOISIEST
    if options.get("side") == "lowest":
        code = codes.LOWEST
    return EncodedAttack(code, made.probability, strength, options.get("after", 0), made.target_factor)


def encode_arms(arms: Sequence[Arm], dimension: int, rounds: int) -> EncodedArms:
    """Return the tables of these arms. Arms that deal masks the same way share a deck."""
    deals: dict[tuple[int, bool, tuple[int, ...]], int] = {}
    table = np.full((len(arms), codes.ARM_COLUMNS), codes.DEFAULT, np.int64)
    numbers = np.zeros((len(arms), codes.NUMBERS))
    slots, means = itertools.count(), itertools.count()
    for row, number, arm in zip(table, numbers, arms, strict=True):
        row[codes.DOWN_SHARED] = 0 if arm.masks.download == "never" else arm.masks.num_shared
        row[codes.AVERAGED_FROM] = arm.averaged_from(rounds)
        number[codes.MIXING] = arm.mixing
        if arm.client_averaging and arm.exchange:
            row[codes.MEAN_SLOT], number[codes.CLIENT_POWER] = next(means), arm.client_averaging
        row[codes.EXCHANGE] = arm.exchange
        row[codes.NUM_SHARED] = arm.masks.num_shared
        for column, kind in ((codes.UPLOAD, codes.SEND_THIS_ROUND), (codes.DOWNLOAD, _DOWNLOADS[arm.masks.download])):
            deal = _deal(arm, kind, dimension)
            row[column] = deals.setdefault(deal, len(deals))
        factory = aggregate.RULES[arm.rule.name]
        options = _options(factory, arm.rule)
        row[codes.RULE] = _RULES[factory]
        row[codes.TRIM] = options.get("trim", _ALL_IT_CAN)
        row[codes.SUSPECTS] = options.get("suspects", 0)
        for column, name in ((codes.CLOSEST, "closest"), (codes.SELECTED, "selected")):
            if options.get(name) is not None:
                row[column] = options[name]
        if factory is aggregate.krum:
            row[codes.SELECTED] = 1
        row[codes.LEAST] = _least(arm.rule)
        if factory is aggregate.table:
            row[codes.SLOT], row[codes.FIRST_LOOK], row[codes.EVERY] = (
                next(slots), options["first_look"], options["every"],
            )  # fmt: skip
            number[codes.POWER], number[codes.CUTOFF] = options["power"], options["cutoff"]
            number[codes.ALIGNED], number[codes.CLIP] = options["aligned"], options["clip"]
            if options["vote"] == "round":
                row[codes.RULE] = codes.TRIMMED_MEAN
        if factory is aggregate.clipped_median:
            number[codes.CLIP] = options["factor"]
    decks = [(kind, common, len(layers) or dimension) for kind, common, layers in deals]
    units = [np.repeat(np.arange(len(la)), la) if la else np.arange(dimension) for _, _, la in deals]
    shape = (len(decks), dimension)
    return EncodedArms(
        table, np.array(decks, np.int64).reshape(-1, 3), np.array(units, np.int64).reshape(shape), numbers
    )


def _least(rule: Choice) -> int:
    """Return the smallest number of uploads the rule's check accepts: it does accept all the participants'."""
    check = rule.build(aggregate.RULES, "rule").check
    for number in itertools.count(1):
        with contextlib.suppress(SettingError):
            check(number)
            break
    return number


def _deal(arm: Arm, kind: int, dimension: int) -> tuple[int, bool, tuple[int, ...]]:
    masks = arm.masks
    if not arm.exchange or kind == codes.EVERYTHING or masks.num_shared == (len(masks.layers) or dimension):
        return codes.EVERYTHING, False, ()
    return kind, _COMMON[masks.coordination], masks.layers


def _options(factory: Callable[..., Any], choice: Choice) -> dict[str, Any]:
    bound = inspect.signature(factory).bind(**choice.options)
    bound.apply_defaults()
    return bound.arguments
