"""Standard normals, float32, from the counter-based words of a key: no state, any key at any time.

One 64-bit word gives two normals by Box and Muller's transform: the upper half the radius, the lower half the angle.
Logarithm, sine and cosine are polynomials, so that the whole loop becomes vector instructions on any machine.
The radius has 32 bits: |z| reaches 6.7, beyond which a float64 normal would go once in 10^11 draws.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from prism_fcp import streams
from prism_fcp.kernels._jit import inlined, kernel, part
from prism_fcp.kernels.words import extend


def normals_numpy(key: int, half: int) -> NDArray[np.float64]:
    """Return `2 * half` standard normals of this key: the lines `fill_normals` must equal to float32 precision."""
    drawn = streams.words(key, half)
    radius = np.sqrt(-2 * np.log((drawn >> np.uint64(32)) * 2.0**-32 + 2.0**-33))
    turn = drawn & np.uint64(0xFFFFFFFF)
    angle = (turn & np.uint64(0x1FFFFFFF)) * (math.pi / 4 * 2.0**-29)  # an eighth of the circle; bits choose which
    swap = (turn >> np.uint64(29)) & np.uint64(1) == 1
    across, up = np.cos(angle), np.sin(angle)
    across, up = np.where(swap, up, across), np.where(swap, across, up)
    across = np.where(turn >> np.uint64(31) & np.uint64(1) == 1, -across, across)
    up = np.where(turn >> np.uint64(30) & np.uint64(1) == 1, -up, up)
    return np.concatenate([radius * across, radius * up])


@inlined
def _log(u):
    """Equal `np.log(u)` for float32 u > 0: log(1+f) = f - f^2/2 + f^3 p(f), p a minimax fit (3e-8 relative)."""
    bits = np.float32(u).view(np.int32)
    exponent = np.int32(np.int32(bits - np.int32(0x3F3504F3)) >> np.int32(23))  # leaves 1+f in sqrt(1/2)..sqrt(2)
    f = np.int32(bits - np.int32(exponent << np.int32(23))).view(np.float32) - np.float32(1)
    p = np.float32(0.08917868)
    p = p * f + np.float32(-0.143502012)
    p = p * f + np.float32(0.148769617)
    p = p * f + np.float32(-0.165656343)
    p = p * f + np.float32(0.199653983)
    p = p * f + np.float32(-0.250017464)
    p = p * f + np.float32(0.333338588)
    return f + f * f * (p * f - np.float32(0.5)) + np.float32(exponent) * np.float32(math.log(2))


@inlined
def _sine(angle):
    """Equal `np.sin(angle)` for 0 <= angle <= pi/4, a minimax fit (4e-9)."""
    q = angle * angle
    s = (np.float32(-1.95172989e-4) * q + np.float32(8.33217815e-3)) * q + np.float32(-0.166666549)
    return angle + angle * q * s


@inlined
def _cosine(angle):
    """Equal `np.cos(angle)` for 0 <= angle <= pi/4, a minimax fit (7e-8)."""
    q = angle * angle
    return np.float32(1) - np.float32(0.5) * q + q * q * (np.float32(-1.36524502e-3) * q + np.float32(0.0416612786))


@part
def fill_normals(key, half, out):
    """Equal `out[:2 * half] = normals_numpy(key, half)`."""
    for i in range(half):
        word = extend(key, i)
        high, low = np.uint32(word >> np.uint64(32)), np.uint32(word)
        logarithm = _log(np.float32(high) * np.float32(2.0**-32) + np.float32(2.0**-33))
        radius = np.sqrt(max(np.float32(-2) * logarithm, np.float32(0)))
        angle = np.float32(np.int32(low & np.uint32(0x1FFFFFFF))) * np.float32(math.pi / 4 * 2.0**-29)
        sine, cosine = _sine(angle), _cosine(angle)
        swap = np.uint32(low & np.uint32(0x20000000)) != np.uint32(0)
        across, up = (sine, cosine) if swap else (cosine, sine)
        # The sign bits of the two are bits 31 and 30 of the turn.
        signed = np.uint32(np.float32(across).view(np.uint32) ^ np.uint32(low & np.uint32(0x80000000)))
        out[i] = radius * np.uint32(signed).view(np.float32)
        signed = np.uint32(np.float32(up).view(np.uint32) ^ np.uint32((low << np.uint32(1)) & np.uint32(0x80000000)))
        out[half + i] = radius * np.uint32(signed).view(np.float32)


@kernel
def normals(key, half):
    """Equal `normals_numpy(key, half)`, as float32."""
    out = np.empty(2 * half, np.float32)
    fill_normals(key, half, out)
    return out
