"""Which coordinates travel: M of D, for each client or in common, by coordinate or by layer; and who participates."""

from __future__ import annotations

import numpy as np

from prism_fcp import streams
from prism_fcp.errors import SettingError, did_you_mean
from prism_fcp.streams import EVERYONE, Role
from prism_fcp.train.settings import COORDINATIONS, DOWNLOADS, Masks
from prism_fcp.types import BoolArray, IntArray


class MaskDeck:
    """Deals the masks of one trial. A mask depends only on (trial key, direction, round, client) and M.

    Masks of the same address are nested in M, so methods that share more coordinates share a superset.

    Paper: Alg. 1, phase 1.
    """

    def __init__(self, trial_key: int, dimension: int) -> None:
        """Deal for one trial's key and a model of this dimension."""
        self._trial_key = trial_key
        self._dimension = dimension
        self._orders: dict[tuple[int, int, int, bytes], IntArray] = {}

    def upload(self, masks: Masks, round_number: int, clients: IntArray) -> BoolArray:
        """Return the upload masks (n, D) of these clients in this round."""
        return self._deal(masks, Role.UPLOAD_MASK, round_number, clients)

    def download(self, masks: Masks, round_number: int, clients: IntArray) -> BoolArray:
        """Return the download masks (n, D): the upload's, last round's, a draw of its own, all, nothing."""
        match masks.download:
            case "same":
                return self._deal(masks, Role.UPLOAD_MASK, round_number, clients)
            case "previous":
                return self._deal(masks, Role.UPLOAD_MASK, round_number - 1, clients)
            case "independent":
                return self._deal(masks, Role.DOWNLOAD_MASK, round_number, clients)
            case "full":
                return np.ones((len(clients), self._dimension), dtype=np.bool_)
            case "never":
                return np.zeros((len(clients), self._dimension), dtype=np.bool_)
        raise SettingError(f"unknown download mask {masks.download!r}{did_you_mean(masks.download, DOWNLOADS)}")

    def _deal(self, masks: Masks, role: Role, round_number: int, clients: IntArray) -> BoolArray:
        units = len(masks.layers) or self._dimension
        chosen = np.ones((len(clients), units), dtype=np.bool_)
        if masks.num_shared < units:
            chosen[:] = False
            order = self._order(role, round_number, _dealt_to(masks, clients), units)
            np.put_along_axis(
                chosen, np.broadcast_to(order, (len(clients), units))[:, : masks.num_shared], True, axis=1
            )
        return np.repeat(chosen, masks.layers, axis=1) if masks.layers else chosen

    def _order(self, role: Role, round_number: int, clients: IntArray, units: int) -> IntArray:
        # All arms of a round ask for the same few orders.
        address = (role, round_number, units, clients.tobytes())
        if address not in self._orders:
            self._orders = {a: o for a, o in self._orders.items() if a[1] >= round_number - 1}
            keys = streams.keys(streams.child(self._trial_key, role, round_number), clients)
            self._orders[address] = streams.order(streams.words(keys, units))
        return self._orders[address]


def _dealt_to(masks: Masks, clients: IntArray) -> IntArray:
    match masks.coordination:
        case "client":
            return clients
        case "common":
            return np.array([EVERYONE])
    raise SettingError(f"unknown coordination {masks.coordination!r}{did_you_mean(masks.coordination, COORDINATIONS)}")


def participants(trial_key: int, round_number: int, num_clients: int, num_participants: int) -> IntArray:
    """Return the ids of this round's participants, ascending: a uniform subset."""
    chosen = streams.subset(streams.child(trial_key, Role.PARTICIPANTS, round_number), num_clients, num_participants)
    return np.flatnonzero(chosen)


def hits(trial_key: int, round_number: int, clients: IntArray, probability: float) -> BoolArray:
    """Return which of these clients would attack in this round (Bernoulli, keyed by client and round).

    Paper: sec:training_attack.
    """
    keys = streams.keys(streams.child(trial_key, Role.HITS, round_number), clients)
    return streams.uniforms(streams.words(keys, 1))[:, 0] < probability
