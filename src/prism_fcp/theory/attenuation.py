"""How much of an attack's energy enters the aggregate when only M of D coordinates travel."""

from __future__ import annotations

from prism_fcp.errors import SettingError


def injected_energy(num_shared: float, variance: float, probability: float = 1.0) -> float:
    """Return the expected squared norm of what one Byzantine upload adds in a round: p_a * M * sigma_B^2.

    With `probability=1` it is the energy given that the attack occurs. White noise is assumed, and masks that do
    not depend on it: an attacker that knows its mask can put all its energy on the shared coordinates.

    >>> injected_energy(15, 0.1) / injected_energy(50, 0.1)
    0.3

    Paper: eq:per-iteration-attenuation; eq:md_ratio.
    """
    if num_shared < 0 or variance < 0 or not 0 <= probability <= 1:
        raise SettingError(
            f"injected_energy: num_shared={num_shared}, variance={variance}, probability={probability}; the first two "
            "must be 0 or more and the last must lie in [0, 1]"
        )
    return probability * num_shared * variance
