"""What a client says on joining, checked: its name, its key's signature, its model's stretches, its claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from prism_fcp.calibrate.trust import Trust
from prism_fcp.errors import DataError
from prism_fcp.federation.client import hello_message
from prism_fcp.federation.payload import unpack_document
from prism_fcp.types import Layer

MOST_LAYERS: Final = 10_000
MOST_PARAMETERS: Final = 2**31 - 1
MOST_SAMPLES: Final = 10**12  # a client claims; what is beyond it is no claim


@dataclass
class Hello:
    """What a client said on joining, checked."""

    client: int
    layers: tuple[Layer, ...]
    samples: int
    description: Mapping[str, Any] | None
    round: int | None  # the last round it learned in, where it knows the experiment


def read_hello(data: bytes, nonce: str, experiment: str, places: Mapping[str, int], trust: Trust | None) -> Hello:
    """Return what a client said of itself; what cannot be believed is a `DataError`."""
    told, _ = unpack_document(data, "hello")
    name = told.get("client")
    if not isinstance(name, str) or name not in places:
        raise DataError(f"hello: {name!r:.80} is not among the declared clients")
    if trust is not None:
        _verify(name, told, hello_message(nonce, experiment, name), trust)
    samples, known = told.get("samples"), told.get("round")
    if not isinstance(samples, int) or isinstance(samples, bool) or not 0 < samples <= MOST_SAMPLES:
        raise DataError(f"hello of {name!r}: samples={samples!r:.40}; must lie in 1..{MOST_SAMPLES:,}")
    if known is not None and (not isinstance(known, int) or isinstance(known, bool) or known < 0):
        raise DataError(f"hello of {name!r}: round={known!r:.40}; must be a round, or nothing")
    description = told.get("description")
    if description is not None and not isinstance(description, dict):
        raise DataError(f"hello of {name!r}: its description is no table")
    return Hello(places[name], _layers(told.get("layers"), name), samples, description, known)


def _verify(name: str, told: Mapping[str, Any], message: bytes, trust: Trust) -> None:
    key, signature = told.get("key"), told.get("signature")
    if not isinstance(key, str) or not isinstance(signature, str):
        raise DataError(f"hello of {name!r}: not signed; this federation takes signed clients only")
    try:
        raw = bytes.fromhex(signature)
    except ValueError:
        raise DataError(f"hello of {name!r}: its signature is no hex") from None
    problem = trust.verify(name, key, message, raw, datetime.now(UTC))
    if problem:
        raise DataError(f"hello of {name!r}: {problem}")


def _layers(told: Any, name: str) -> tuple[Layer, ...]:
    """Return the stretches a client tells, as names and sizes."""
    good = isinstance(told, list) and 0 < len(told) <= MOST_LAYERS
    good = good and all(
        isinstance(row, list) and len(row) == 2 and isinstance(row[0], str) and len(row[0]) <= 200
        and row[0].isprintable() and type(row[1]) is int and 0 < row[1] <= MOST_PARAMETERS
        for row in told
    )  # fmt: skip
    if not good:
        raise DataError(f"hello of {name!r}: its model's stretches are no list of names and sizes")
    if len({row[0] for row in told}) < len(told):
        raise DataError(f"hello of {name!r}: two of its model's stretches have one name; name them apart")
    found, stop = [], 0
    for label, size in told:
        found.append(Layer(label, stop, stop + size))
        stop += size
    if stop > MOST_PARAMETERS:
        raise DataError(f"hello of {name!r}: a model of {stop:,} parameters; at most {MOST_PARAMETERS:,}")
    return tuple(found)
