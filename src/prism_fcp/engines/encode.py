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
}
_ATTACKS: Final[dict[Callable[..., Any], int]] = {
    attack.none: codes.NO_ATTACK,
    attack.gaussian: codes.GAUSSIAN,
    attack.alie: codes.ALIE,
}
_DOWNLOADS: Final = {
    "same": codes.SEND_THIS_ROUND,
    "previous": codes.SEND_LAST_ROUND,
    "independent": codes.RECEIVE,
    "full": codes.EVERYTHING,
}
_COMMON: Final = {"client": False, "common": True}
_ALL_IT_CAN: Final = 2**31 - 1


class EncodedArms(NamedTuple):
    """The arms as the kernel's tables; `kernels/training.py` explains them."""

    table: NDArray[np.int64]
    decks: NDArray[np.int64]
    unit_of: NDArray[np.int64]


def foreign(federation: Federation, arms: Sequence[Arm]) -> str | None:
    """Return which rule or attack is not the package's own, or None: those have a form in Python alone."""
    if attack.UPDATE_ATTACKS.get(federation.attack.name, attack.none) not in _ATTACKS:
        return f"training attack {federation.attack.name!r} is not one of the package's own"
    for arm in arms:
        if aggregate.RULES.get(arm.rule.name, aggregate.mean) not in _RULES:
            return f"rule {arm.rule.name!r} is not one of the package's own"
    return None


def obstacle(federation: Federation, arms: Sequence[Arm]) -> str | None:
    """Return what in these settings the compiled engine does not know, or None."""
    if federation.local_steps != 1 or federation.batch_size != 1 or federation.momentum:
        return "steps on batches, or with momentum, are not what the compiled engine knows"
    if attack.UPDATE_ATTACKS.get(federation.attack.name, attack.none) not in _ATTACKS:
        return f"training attack {federation.attack.name!r} is not one the compiled engine knows"
    for arm in arms:
        if aggregate.RULES.get(arm.rule.name, aggregate.mean) not in _RULES:  # an unknown name is another check's
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


def encode_attack(choice: Choice) -> tuple[int, float, float]:
    """Return (code, probability, strength) of a training attack."""
    factory = attack.UPDATE_ATTACKS[choice.name]
    options = _options(factory, choice)
    code = _ATTACKS[factory]
    strength = math.sqrt(options["variance"]) if code == codes.GAUSSIAN else options.get("z", 0.0)
    return code, options.get("probability", 0.0), strength


def encode_arms(arms: Sequence[Arm], dimension: int) -> EncodedArms:
    """Return the tables of these arms. Arms that deal masks the same way share a deck."""
    deals: dict[tuple[int, bool, tuple[int, ...]], int] = {}
    table = np.full((len(arms), codes.ARM_COLUMNS), codes.DEFAULT, np.int64)
    for row, arm in zip(table, arms, strict=True):
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
    decks = [(kind, common, len(layers) or dimension) for kind, common, layers in deals]
    units = [np.repeat(np.arange(len(la)), la) if la else np.arange(dimension) for _, _, la in deals]
    shape = (len(decks), dimension)
    return EncodedArms(table, np.array(decks, np.int64).reshape(-1, 3), np.array(units, np.int64).reshape(shape))


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
