"""The values that masks, participants and a client's own draws hang on: one for each (role, round, client).

The server alone holds the secret. What it tells a client is a keyed hash for that client and round, so nobody can work
out another client's mask, nor its own of a coming round (assumption A3): the words of `prism_fcp.streams` can be
inverted, but lead back to the hash and no further.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import Final, Protocol

from prism_fcp import streams
from prism_fcp.errors import SettingError
from prism_fcp.streams import Role

SECRET_BYTES: Final = 32
_DOMAIN: Final = b"prism-fcp/federation/1\0"


class Keys(Protocol):
    """Where the keys of a federation come from."""

    def of(self, role: Role, *path: int) -> int:
        """Return the 64-bit key of this address: a round, and for most roles a client in it."""
        ...


@dataclass(frozen=True, slots=True)
class SecretKeys:
    """Keys of a real federation: HMAC-SHA256 of the address under a secret of 32 bytes."""

    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        """Refuse a secret of another length."""
        if len(self.secret) != SECRET_BYTES:
            raise SettingError(f"federation secret of {len(self.secret)} bytes; must be {SECRET_BYTES}")

    @classmethod
    def seeded(cls, seed: int) -> SecretKeys:
        """Return the keys of a seed, for runs that others shall repeat; who knows the seed knows every mask."""
        return cls(hashlib.sha256(_DOMAIN + b"seed\0" + str(int(seed)).encode()).digest())

    def of(self, role: Role, *path: int) -> int:
        """Return the first 64 bits of the hash."""
        address = b"".join(int(step).to_bytes(8, "little") for step in (role, *path))
        return int.from_bytes(hmac.digest(self.secret, _DOMAIN + address, "sha256")[:8], "little")


@dataclass(frozen=True, slots=True)
class SimulatedKeys:
    """The keys a simulation of this trial draws from, so that a federation can be compared with it number by number."""

    trial: int

    def of(self, role: Role, *path: int) -> int:
        """Return the simulation's key; whoever is told one can work out the trial's."""
        return streams.child(self.trial, role, *path)
