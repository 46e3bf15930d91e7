"""What training's ledger tells calibration."""

import numpy as np
import pytest

from prism_fcp.data.synthetic import SyntheticLinear
from prism_fcp.engines import train
from prism_fcp.pipeline import explain_trial
from prism_fcp.setup import CalibrationSettings, Method, Setup
from prism_fcp.train.settings import Federation, Masks
from prism_fcp.types import Choice, Ledger


def ledger(distance: list[float], aligned: list[float], excluded: tuple[int, ...] = ()) -> Ledger:
    clients = len(distance)
    out, none = np.isin(np.arange(clients), excluded), np.zeros(clients, np.int64)
    return Ledger(np.arange(10, 10 + clients), out, np.array(distance), 9.0, np.array(aligned), none, none, 1)


def test_suspicion_by_hand() -> None:
    nan = float("nan")
    found = ledger(
        [np.exp(-2), np.exp(-1), 1.0, np.exp(1), np.exp(3), np.exp(8), nan], [0.5, 4, nan, 0.1, 0, nan, nan], (5,)
    ).suspicion()
    # logs -2, -1, 0, 1, 3, 8: median .5, deviations 2.5, 1.5, .5, .5, 2.5, 7.5, their median 2
    assert found == pytest.approx(
        {10: 0.5, 11: 4, 12: -0.5 / (1.4826 * 2), 13: 0.5 / (1.4826 * 2), 14: 2.5 / (1.4826 * 2), 15: np.inf}
    )


def test_before_the_first_look_nobody_is_suspect_and_equal_distances_tell_nothing() -> None:
    nan = float("nan")
    assert ledger([nan, nan], [nan, nan]).suspicion() == {}
    assert ledger([2.0, 2.0, 2.0], [nan, 3.0, nan]).suspicion() == {10: 0, 11: 3, 12: 0}
    assert ledger([0.0, 1.0, 1.0], [nan, nan, nan]).suspicion()[10] == 0  # half lie at one distance: no spread to go by


def test_the_pipeline_hands_the_ledger_to_filters() -> None:
    """Noise of variance 1 in every round: training leaves out all liars, who then report the truth."""
    law, masks = SyntheticLinear(), Masks(num_shared=4)
    size = Federation(
        num_clients=30, num_participants=6, num_byzantine=6, dimension=10, rounds=400,
        attack=Choice("gaussian", {"variance": 1.0, "probability": 1.0}),
    )  # fmt: skip
    methods = tuple(
        Method.of(protocol, law, size, masks, name=f"{protocol}, {rule}", filter=rule)
        for protocol in ("stay", "paper")
        for rule in ("cautious", "vigilant")
    )
    setup = Setup(
        population=law, federation=size, calibration=CalibrationSettings(samples=200, test_samples=50),
        attacks=(("none", Choice("none")),), methods=methods,
    )  # fmt: skip
    found = {one.cell.method: one for one in explain_trial(setup, 4, 0, train, 1)}
    seen = found["stay, vigilant"]
    assert seen.cell.true_positives == 6 and seen.cell.false_positives == 0
    assert all("training left it out" in seen.verdict.reasons[k] for k in np.flatnonzero(seen.byzantine))
    for name in ("stay, cautious", "paper, cautious", "paper, vigilant"):  # no evidence taken; no ledger
        assert found[name].cell.true_positives == 0
