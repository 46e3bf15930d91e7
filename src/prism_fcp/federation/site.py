"""What a client brings: a model as one flat vector, a step on its own data, and the scores of its calibration rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from numpy.typing import NDArray

from prism_fcp.types import FloatArray, Layer


@runtime_checkable
class Site(Protocol):
    """A client's own side. Parameters are flat float32 vectors; a site never changes one that it is given."""

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Return the stretches of the flat vector, in order; the last one's stop is its length."""
        ...

    @property
    def samples(self) -> int:
        """Return how many rows it trains on."""
        ...

    def step(self, parameters: FloatArray, round_number: int) -> FloatArray:
        """Return the parameters after one round's local learning; the same for the same round, whenever it is asked."""
        ...

    def scores(self, parameters: FloatArray) -> NDArray[Any]:
        """Return the conformal scores (n,) of its calibration rows, in the target's own units."""
        ...

    def evaluate(self, parameters: FloatArray, radius: float) -> tuple[int, int, float]:
        """Return how many test rows lie within the radius, how many there are, and the mean absolute error."""
        ...


@runtime_checkable
class Remembering(Protocol):
    """A site with a memory beyond its parameters, such as momentum; it is kept with them."""

    def memory(self) -> dict[str, FloatArray]:
        """Return what the next step needs."""
        ...

    def recall(self, memory: Mapping[str, FloatArray]) -> None:
        """Take it up again."""
        ...


@runtime_checkable
class Describing(Protocol):
    """A site that reads a table: it tells its columns, and is told the units all sites train in."""

    def describe(self) -> dict[str, Any]:
        """Return what the server needs to agree on units: columns, their means and standard deviations, in JSON."""
        ...

    def standardise(self, units: Mapping[str, Any]) -> None:
        """Take the units the server agreed on."""
        ...


@runtime_checkable
class Keyed(Protocol):
    """A site that draws: batches, a split of its rows. All of it hangs on the key it is told on joining."""

    def draw_from(self, key: int) -> None:
        """Take the 64-bit key."""
        ...
