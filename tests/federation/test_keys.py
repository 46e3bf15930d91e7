"""Keys of masks: none leads to another, to the secret, or to a coming round."""

from __future__ import annotations

import hmac
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_fcp import streams
from prism_fcp.errors import SettingError
from prism_fcp.federation.keys import SecretKeys, SimulatedKeys
from prism_fcp.streams import GOLDEN, Role

MASK = 2**64 - 1


def unmixed(word: int) -> int:
    """Return what `streams` mixed into this word: splitmix64 is a bijection."""
    word ^= (word >> 31) ^ (word >> 62)
    word = word * pow(0x94D049BB133111EB, -1, 2**64) & MASK
    word ^= (word >> 27) ^ (word >> 54)
    word = word * pow(0xBF58476D1CE4E5B9, -1, 2**64) & MASK
    return word ^ (word >> 30) ^ (word >> 60)


def told_by(key: int, step: int) -> int:
    """Return the parent from which `streams.child(parent, step)` would give this key."""
    return (unmixed(key) - (step + 1) * GOLDEN) & MASK


@given(st.integers(0, MASK), st.integers(0, 2**32))
def test_the_inversion_is_one(parent: int, step: int) -> None:
    assert told_by(streams.child(parent, step), step) == parent


def test_a_simulation_s_key_tells_all_others_and_a_federation_s_none() -> None:
    simulated, secret = SimulatedKeys(streams.key(3)), SecretKeys.seeded(3)
    address = (Role.UPLOAD_MASK, 5, 2)

    def guesses(key: int) -> set[int]:
        """Return the keys that whoever holds client 2's of round 5 can work out by inverting streams."""
        level, found = key, set()
        for step in reversed(address):
            level = told_by(level, step)
            for length in (1, 2, 3):
                for path in itertools.product(range(8), repeat=length - 1):
                    found |= {streams.child(level, Role.UPLOAD_MASK, *path), streams.child(level, *path)}
        return found

    others = [(Role.UPLOAD_MASK, number, client) for number in range(8) for client in range(8)]
    assert {simulated.of(*other) for other in others} <= guesses(simulated.of(*address))
    assert not {secret.of(*other) for other in others if other != address} & guesses(secret.of(*address))


@given(st.lists(st.tuples(st.sampled_from(Role), st.integers(0, 99), st.integers(0, 99)), unique=True, max_size=40))
def test_no_two_addresses_have_one_key(addresses: list[tuple[Role, int, int]]) -> None:
    keys = SecretKeys.seeded(1)
    found = [keys.of(*address) for address in addresses] + [keys.of(role, number) for role, number, _ in addresses]
    assert len(set(found)) == len(addresses) + len({address[:2] for address in addresses})


def test_keys_repeat_with_the_secret_alone() -> None:
    address = b"prism-fcp/federation/1\0" + bytes([Role.RULE, *bytes(7), 7, *bytes(7)])
    wanted = hmac.new(bytes(32), address, "sha256").digest()[:8]
    assert SecretKeys(bytes(32)).of(Role.RULE, 7) == int.from_bytes(wanted, "little")
    assert SecretKeys(bytes(32)).of(Role.RULE, 7) != SecretKeys(bytes(31) + b"\1").of(Role.RULE, 7)


def test_a_secret_is_not_shown_and_has_32_bytes() -> None:
    assert "secret" not in repr(SecretKeys(b"x" * 32)) and "xxx" not in repr(SecretKeys(b"x" * 32))
    with pytest.raises(SettingError, match="federation secret of 5 bytes; must be 32"):
        SecretKeys(b"short")
