"""What it adds that a client downloads, a round later, the very mask it uploaded with.

Where masks are drawn for each client and the previous one comes down, what a participant of the last round holds is
correlated with the mask of its own contribution to the server. The recursion treats that mask as a fresh one; here
are the exact differences, of order 1/|S_n|. docs/theory.md has the expansion.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from prism_fcp.theory.modes import Real, Shape, weigh


class Moves(NamedTuple):
    """Moments of a round's participants: d is by how much learning, and an attack, took one from the server."""

    dd: Real  # (2, G) one client, the attack included
    dy: Real  # (2, G) with what it learnt
    d0: Real  # (2, G) with the server before
    pair_dd: Real  # (2, G, G) two clients
    pair_dy: Real
    pair_du: Real  # with what one learnt that did not participate


class Echo(NamedTuple):
    """What is to be added to the moments of what clients hold."""

    to_held: Real
    own_held: Real
    pair_mixed: Real
    pair_held: Real


def echo(moves: Moves, counts: Real, participants: int, shape: Shape) -> Echo:
    """Return the differences between the mask of the last round and a fresh one.

    Paper: the preliminaries' recursion.
    """
    n, clients, m, d = participants, float(counts.sum()), shape.one, shape.dimension
    chosen = n / clients
    both = n * (n - 1) / (clients * max(clients - 1, 1))
    spread, cross = m * (1 - m), shape.two - m * m

    def centred(modes: Real) -> Real:
        return weigh(modes, spread, cross, d)

    def twice(modes: Real) -> Real:
        return weigh(modes, spread**2, cross**2, d)

    others = counts[:, None] - np.eye(len(counts))
    sum_dd = np.einsum("cik,ik->ck", moves.pair_dd, others)
    own_square = centred(moves.dd) / n**2

    beside = (n - 1) / max(clients - 1, 1)
    far_d = moves.d0 + m / n * (moves.dd + beside * sum_dd)  # d with the server, were this client's mask its mean
    base_d = m * far_d + (1 - m) * moves.dy
    to_held = spread / n * far_d + centred(far_d - moves.dy) / n + (1 - 2 * m) * own_square
    own_held = 2 * spread / n * base_d + spread**2 / n**2 * moves.dd - twice(moves.dd) / n**2
    own_held = own_held + 2 * (1 - m) / n * centred(far_d - moves.dy) + (1 - 2 * m) * own_square

    swapped_du = np.swapaxes(moves.pair_du, 1, 2)  # (u_k, d_j)
    swapped_dy = np.swapaxes(moves.pair_dy, 1, 2)
    pair_mixed = spread / n * (both * swapped_dy + (chosen - both) * swapped_du)

    def seen(rate: float, own: float) -> Real:
        """Return (server without masks, d_k) given k participates and j does, or not, as (2, k, j)."""
        rest = sum_dd[:, :, None] - moves.pair_dd
        return np.asarray((moves.d0 + m / n * moves.dd)[:, :, None] + m / n * (own * moves.pair_dd + rate * rest))

    def half(server_d: Real, other: Real) -> Real:
        gap = centred(server_d - moves.dy[:, :, None])
        return np.asarray(
            spread / n * (m * server_d + (1 - m) * other) + m / n * gap + (spread - m * m) * own_square[:, :, None]
        )

    left = max(clients - 2, 1)
    joint = half(seen(max(n - 2, 0) / left, 1.0), moves.pair_dy)
    joint = joint + np.swapaxes(joint, 1, 2) + (spread**2 * moves.pair_dd + twice(moves.pair_dd)) / n**2
    single = half(seen((n - 1) / left, 0.0), moves.pair_du)
    pair_held = both * joint + (chosen - both) * (single + np.swapaxes(single, 1, 2))
    return Echo(chosen * to_held, chosen * own_held, pair_mixed, pair_held)
