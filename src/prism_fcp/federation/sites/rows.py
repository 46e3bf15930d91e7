"""The rows of one site, cut once into those it trains on, calibrates with and is tested on.

Models see standardised float32 and answer in standardised units; scores and errors are in the target's own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import Any, Final, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prism_fcp import streams
from prism_fcp.calibrate.score import absolute_residual
from prism_fcp.data.partition import LEAST, Rows
from prism_fcp.data.standardise import Scaler
from prism_fcp.data.table import Table
from prism_fcp.errors import DataError, PrismError, SettingError, counted, did_you_mean, need_number
from prism_fcp.federation.sites.agree import Agreed, Description, describe
from prism_fcp.streams import Role
from prism_fcp.types import FloatArray, IntArray

SHARE: Final = 0.25  # of a site's rows: for calibration, and again for the test
BLOCK: Final = 16_384  # rows predicted at once
Order: TypeAlias = Literal["shuffled", "in turn"]
Predict: TypeAlias = Callable[[NDArray[np.float32]], Any]  # inputs (n, D) -> predictions (n,)
Pair: TypeAlias = tuple[ArrayLike, ArrayLike]  # features (n, D), targets (n,)


@dataclass(frozen=True, eq=False)
class SiteRows:
    """A site's rows and what each is for.

    Training goes through the training rows again and again: shuffled anew in each pass, from `key` alone, or in turn as
    they stand.
    """

    name: str
    table: Table
    train: Rows
    calibration: Rows
    test: Rows
    key: int
    scaler: Scaler | None = None  # of the features, and of the target last; None: the rows' own units
    order: Order = "shuffled"
    _passes: dict[int, IntArray] = field(default_factory=dict, init=False, repr=False)  # the latest orders

    def __post_init__(self) -> None:
        """Refuse a part without rows."""
        for part in ("train", "calibration", "test"):
            if not len(getattr(self, part)):
                raise DataError(f"site {self.name!r}: no rows for {part}; at least 1 is needed")
        if self.order not in ("shuffled", "in turn"):
            raise SettingError(f"order={self.order!r}{did_you_mean(self.order, ('shuffled', 'in turn'))}")

    @classmethod
    def cut(
        cls,
        name: str,
        table: Table,
        *,
        calibration_share: float = SHARE,
        test_share: float = SHARE,
        key: int | None = None,
    ) -> Self:
        """Cut a table at random. Without a key, name and rows decide: the same after every restart, and private."""
        check_shares(calibration_share, test_share)
        count = len(table.target)
        if count < LEAST:
            raise DataError(
                f"site {name!r}: {counted(count, 'row')}; at least {LEAST} are needed to train, calibrate and test"
            )
        key = site_key(name, table) if key is None else key
        mixed = streams.order(streams.words(streams.child(key, Role.PARTITION), count))
        sizes = [max(1, round(share * count)) for share in (calibration_share, test_share)]
        calibration, test, train = np.split(mixed, np.cumsum(sizes))
        if not len(train):
            raise DataError(
                f"site {name!r}: of its {count} rows {sizes[0]} go to calibration and {sizes[1]} to the test, and none "
                "is left to train on; lower calibration_share or test_share"
            )
        return cls(name, table, train, calibration, test, key)

    @classmethod
    def parts(
        cls, name: str, train: Pair, calibration: Pair, test: Pair, *, key: int, order: Order = "in turn"
    ) -> Self:
        """Take rows that are cut already, in the order given."""
        tables = [as_table(name, *pair) for pair in (train, calibration, test)]
        widths = [own.features.shape[1] for own in tables]
        if len(set(widths)) > 1:
            raise DataError(f"site {name!r}: the parts have {widths} features; they must have the same")
        whole = Table(
            np.concatenate([own.features for own in tables]), np.concatenate([own.target for own in tables]),
            tables[0].names, tables[0].target_name, constant=True,
        )  # fmt: skip
        rows = np.split(np.arange(len(whole.target)), np.cumsum([len(own.target) for own in tables])[:-1])
        return cls(name, whole, rows[0], rows[1], rows[2], key, order=order)

    @property
    def width(self) -> int:
        """Return the number of features."""
        return len(self.table.names)

    def describe(self) -> Description:
        """Describe the training rows, as they are in the site's own units."""
        own = self.table
        with naming(self.name):
            return describe(own.features[self.train], own.target[self.train], own.names, own.target_name)

    def standardised(self, agreed: Agreed) -> Self:
        """Return the rows in the units agreed on, their columns in the order agreed on."""
        own = self.table
        if agreed.target != own.target_name or set(agreed.names) != set(own.names):
            lacking = [name for name in agreed.names if name not in own.names]
            raise DataError(
                f"site {self.name!r}: its columns are not those agreed on (target {agreed.target!r}; "
                f"{f'no column {lacking[0]!r}' if lacking else 'too many columns'}); mend target or drop in its file"
            )
        features = own.features[:, [own.names.index(name) for name in agreed.names]]
        table = Table(features, own.target, agreed.names, own.target_name, constant=True)
        return replace(self, table=table, scaler=agreed.scaler)

    def batches(self, round_number: int, steps: int, size: int) -> tuple[FloatArray, FloatArray]:
        """Return inputs (steps, size, D) and targets (steps, size) of a round."""
        need_number("round_number", round_number, integer=True)
        if round_number < 1:
            raise SettingError(f"site {self.name!r}: round {round_number}; rounds count from 1")
        inputs, targets = self._units
        rows = self.train[self._places(round_number, steps * size)]
        return inputs[rows].reshape(steps, size, -1), targets[rows].reshape(steps, size)

    def scores(self, predict: Predict) -> NDArray[np.float64]:
        """Return the absolute residuals of the calibration rows."""
        return self._residuals(predict, self.calibration)

    def evaluate(self, predict: Predict, radius: float) -> tuple[int, int, float]:
        """Return how many test rows lie within the radius, of how many, and their mean absolute error."""
        if not 0 <= radius <= inf:
            raise SettingError(f"site {self.name!r}: radius={radius}; must be 0 or more")
        missed = self._residuals(predict, self.test)
        return int((missed <= radius).sum()), len(missed), float(missed.mean())

    def _places(self, round_number: int, count: int) -> IntArray:
        """Return which of the training rows a round learns from; each pass takes every row once."""
        passes, places = np.divmod((round_number - 1) * count + np.arange(count), len(self.train))
        if self.order == "in turn":
            return np.asarray(places)
        met = np.unique(passes)
        for number in [old for old in self._passes if old < met[0]]:
            del self._passes[number]
        orders = np.stack([self._shuffled(int(number)) for number in met])
        return np.asarray(orders[passes - met[0], places])

    def _shuffled(self, number: int) -> IntArray:
        """Return the order of one pass through the training rows; kept, for a round takes but a few of them."""
        if number not in self._passes:
            drawn = streams.words(streams.child(self.key, Role.SAMPLES, 0, number), len(self.train))
            self._passes[number] = streams.order(drawn)
        return self._passes[number]

    def _residuals(self, predict: Predict, rows: Rows) -> NDArray[np.float64]:
        inputs, shift, scale = self._units[0], 0.0, 1.0
        if self.scaler is not None:
            shift, scale = float(self.scaler.mean[-1]), float(self.scaler.sd[-1])
        told = np.concatenate([self._told(predict, inputs[own]) for own in _blocks(rows)])
        with naming(self.name):
            return np.asarray(absolute_residual(self.table.target[rows], told * scale + shift), dtype=np.float64)

    def _told(self, predict: Predict, inputs: NDArray[np.float32]) -> NDArray[np.float64]:
        with np.errstate(over="ignore", invalid="ignore"), naming(self.name):  # the score refuses what is not finite
            told = np.asarray(predict(inputs), dtype=np.float64)
        if told.shape != (len(inputs),):
            raise DataError(
                f"site {self.name!r}: the model returned shape {told.shape} for {len(inputs)} rows; one number a row "
                "is needed"
            )
        return told

    @cached_property
    def _units(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        columns = np.column_stack([self.table.features, self.table.target])
        told = columns if self.scaler is None else self.scaler.apply(columns)
        with np.errstate(over="ignore"):
            units = told.astype(np.float32)
        bad = np.argwhere(~np.isfinite(units))
        if len(bad):
            row, column = bad[0]
            name = (*self.table.names, self.table.target_name)[column]
            raise DataError(
                f"site {self.name!r}: column {name!r}, row {row + 1}: {columns[row, column]:g} is too large once "
                "standardised; give it a larger unit"
            )
        return np.ascontiguousarray(units[:, :-1]), np.ascontiguousarray(units[:, -1])


def as_table(
    name: str, features: ArrayLike, target: ArrayLike, names: Sequence[str] | None = None, target_name: str = "target"
) -> Table:
    """Make a table of arrays, or of what a function returned: `as_table("north", *load())`."""
    try:
        values, wanted = np.asarray(features, dtype=np.float64), np.asarray(target, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"site {name!r}: features and target must be arrays of numbers ({error!s:.80})") from error
    if values.ndim != 2 or wanted.shape != values.shape[:1]:
        raise DataError(
            f"site {name!r}: features of shape {values.shape}, targets {wanted.shape}; must be (rows, columns), (rows,)"
        )
    called = tuple(names) if names is not None else tuple(f"x{place + 1}" for place in range(values.shape[1]))
    with naming(name):
        return Table(values, wanted, called, target_name, constant=True)


def site_key(name: str, table: Table) -> int:
    """Return a key only who holds these rows can work out: 64 bits of a hash of name, columns and rows."""
    told = hashlib.sha256(json.dumps([name, *table.names, table.target_name]).encode())
    for values in (table.features, table.target):
        told.update(np.ascontiguousarray(values, dtype="<f8").tobytes())
    return int.from_bytes(told.digest()[:8], "little")


def check_shares(calibration_share: float, test_share: float) -> None:
    """Refuse shares that leave nothing to train on, calibrate with or be tested on."""
    for what, share in (("calibration_share", calibration_share), ("test_share", test_share)):
        need_number(what, share)
    if not (calibration_share > 0 and test_share > 0 and calibration_share + test_share < 1):
        raise SettingError(
            f"calibration_share={calibration_share:g}, test_share={test_share:g}; both must be positive, and their sum "
            "below 1"
        )


@contextmanager
def naming(site: str) -> Iterator[None]:
    """Let errors that name no site name this one."""
    try:
        yield
    except PrismError as error:
        raise type(error)(f"site {site!r}: {error}") from error


def _blocks(rows: Rows) -> Iterator[Rows]:
    for first in range(0, len(rows), BLOCK):
        yield rows[first : first + BLOCK]
