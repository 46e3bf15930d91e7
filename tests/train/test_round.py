"""The four steps of Algorithm 1's box as functions of arrays: by hand, and called by one client alone."""

from __future__ import annotations

import numpy as np

from prism_fcp.train.aggregate import mean
from prism_fcp.train.attack import gaussian
from prism_fcp.train.round import Round, aggregate, learn, receive, upload
from prism_fcp.types import Choice

LOCAL, PREVIOUS = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), np.array([10.0, 20.0])
SENT = np.array([[True, False], [False, True], [True, True]])
INPUTS, TARGETS = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), np.array([2.0, 2.0, 2.0])
PUSHES = np.array([[0.5, 0.5], [0.25, 0.25]])


def a_round(places=(0, 1, 2), ids=(4, 7, 9), attacking=(False, True, True)):
    """Deal one round to the clients at these places; the second and third attack."""
    places, acting = list(places), np.array(attacking)
    return Round(
        number=3,
        selected=np.array(ids)[places],
        honest=~acting[places],
        attacking=acting[places],
        perturbations=PUSHES[[p - 1 for p in places if acting[p]]],
        inputs=INPUTS[places],
        targets=TARGETS[places],
        rule_key=1,
        steady=False,
    )


def test_by_hand():
    """Client 4 sends 1 for the first entry, 7 sends 4 + 0.5 for the second, 9 sends 5 + 0.25 and 6 + 0.25."""
    assert receive(LOCAL, PREVIOUS, SENT).tolist() == [[10, 2], [3, 20], [10, 20]]
    # errors 2-1, 2-4, 2-11 along the inputs, at step size 0.5
    assert learn(LOCAL, a_round(), 0.5, idle_learning=True).tolist() == [[1.5, 2], [3, 3], [0.5, 1.5]]
    uploads = upload(LOCAL, SENT, PREVIOUS, a_round(), gaussian(variance=1.0), Choice("mean"))
    assert uploads.client_ids.tolist() == [4, 7, 9]
    assert uploads.values.tolist() == [1, 4.5, 5.25, 6.25] and uploads.coordinates.tolist() == [0, 1, 0, 1]
    _, model, info = aggregate(mean(), None, uploads, key=1)
    assert model.tolist() == [(1 + 10 + 5.25) / 3, (20 + 4.5 + 6.25) / 3] and info.weakened is None


def test_only_participants_learn_where_idle_clients_rest():
    now = a_round()._replace(selected=np.array([1]))
    assert learn(LOCAL, now, 0.5, idle_learning=False).tolist() == [[1, 2], [3, 3], [5, 6]]


def test_a_client_alone_uploads_what_it_uploads_among_others():
    attack = gaussian(variance=0.3)
    together = upload(LOCAL, SENT, PREVIOUS, a_round(), attack, Choice("mean"))
    for place in range(3):
        alone = upload(LOCAL[[place]], SENT[[place]], PREVIOUS, a_round([place]), attack, Choice("mean"))
        theirs = together.select(np.arange(3) == place)
        assert (alone.values == theirs.values).all() and (alone.coordinates == theirs.coordinates).all()
        assert alone.client_ids == theirs.client_ids
