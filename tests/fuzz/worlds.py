"""Servers to attack: specs, honest summaries for each, their keys, and who is to be believed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from types import MappingProxyType

import numpy as np

from prism_fcp.calibrate.grid import AnyGrid, LinearGrid, LogGrid
from prism_fcp.calibrate.server import CalibrationServer
from prism_fcp.calibrate.signing import Signer
from prism_fcp.calibrate.spec import CalibrationSpec
from prism_fcp.calibrate.summary import summarize
from prism_fcp.calibrate.trust import Revocation, Trust
from prism_fcp.calibrate.wire import encode, sign

NOW = datetime(2026, 11, 19, 12, 0, 0, tzinfo=UTC)
NAMES = ("site-0", "Universitätsspital Zürich", "岡山大学病院", 'a "b" c', "Αθήνα", "بيمارستان")
# What the server has to refuse although the signature fits; the keys of these belong to clients of the same number.
EXPIRED, REVOKED, STRANGER = 3, 4, 5


@dataclass(frozen=True)
class World:
    """One spec with its honest summaries; `believed` are the signed ones whose key is good."""

    spec: CalibrationSpec
    plain: tuple[bytes, ...]
    signed: tuple[bytes, ...]
    believed: frozenset[bytes]
    trust: Trust

    def server(self, signed: bool, path: Path | None = None) -> CalibrationServer:
        return CalibrationServer(self.spec, trust=self.trust if signed else None, path=path, now=lambda: NOW)


@cache
def signer(number: int) -> Signer:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Signer(Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"fuzz %d" % number).digest()))


def spec(grid: AnyGrid, **settings: object) -> CalibrationSpec:
    return CalibrationSpec(title="fuzz", model="ab" * 32, grid=grid, **settings)  # type: ignore[arg-type]


def trust() -> Trust:
    keys = [signer(number).public for number in range(len(NAMES))]
    keys[EXPIRED] = replace(keys[EXPIRED], not_after=NOW - timedelta(seconds=1))
    clients = {name: (key,) for name, key in zip(NAMES, keys, strict=True) if name != NAMES[STRANGER]}
    revoked = {keys[REVOKED].fingerprint: Revocation(NOW, "lost")}
    return Trust(Path("trust"), MappingProxyType(clients), MappingProxyType(revoked))


def world(agreed: CalibrationSpec, seed: int) -> World:
    rng = np.random.default_rng(seed)
    made = []
    for place, name in enumerate(NAMES):
        own = np.abs(rng.standard_normal((1, 60, 200, 200, 3000, 50)[place]))
        made.append(summarize(own, agreed, name, created=NOW - timedelta(minutes=place)))
    signed = tuple(encode(sign(summary, signer(place))) for place, summary in enumerate(made))
    good = frozenset(data for place, data in enumerate(signed) if place not in (EXPIRED, REVOKED, STRANGER))
    return World(agreed, tuple(map(encode, made)), signed, good, trust())


@cache
def worlds() -> tuple[World, ...]:
    """Return the default grid first, the largest one last."""
    agreed = (
        spec(LogGrid()),
        spec(LogGrid(), round=2),
        spec(LinearGrid(3.0, 100, overflow=True), most_scores=2**32 - 1),
        spec(LinearGrid(1.0, 2), most_scores=5000),
        spec(LogGrid(8, -4, 4), clients=NAMES[:4], least_count=5),
        spec(LinearGrid(4.0, 1_000_000)),
    )
    return tuple(world(one, seed) for seed, one in enumerate(agreed))
