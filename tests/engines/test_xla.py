"""The engine `xla` for itself: its words and normals, memory that does not suffice, and what it can do without."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from prism_fcp import streams
from prism_fcp.data.synthetic import SyntheticLinear
from prism_fcp.errors import DeviceMemoryError
from prism_fcp.train.settings import Arm, Federation, Masks

jax = pytest.importorskip("jax")

from prism_fcp.engines import device_words, xla  # noqa: E402

FEDERATION = Federation(num_clients=9, dimension=4, num_participants=7, num_byzantine=2, rounds=5)
ARMS = [Arm(masks=Masks(num_shared=2)), Arm(masks=Masks(num_shared=4))]
KEYS = np.array([streams.key(3, k) for k in range(40)], np.uint64)


def population() -> Any:
    return SyntheticLinear().draw(9, 4, 2, 1)


def smallest(units: int, count: int) -> Any:
    found = np.zeros((len(KEYS), units), bool)
    np.put_along_axis(found, streams.order(streams.words(KEYS, units))[:, :count], True, axis=1)
    return found


@pytest.mark.parametrize("way", ["as on a CPU", "as on a GPU", "given up"])
@pytest.mark.parametrize(("units", "count"), [(257, 1), (700, 250), (700, 699), (4929, 1479)])
def test_the_search_finds_what_a_sort_finds(units: int, count: int, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "as on a GPU":
        monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    if way == "given up":
        monkeypatch.setattr(device_words, "LOOKS", 0)
    with jax.enable_x64(True):
        assert (device_words._searched(KEYS, units, count) == smallest(units, count)).all()


@pytest.mark.parametrize("look", [device_words._look, device_words._look_around])
def test_looks_are_few_and_end_at_the_count(look: Any) -> None:
    with jax.enable_x64(True):
        upper = (streams.words(KEYS, 4929) >> np.uint64(32)).astype(np.uint32)
        edge = np.zeros((len(KEYS), 1), np.int64)
        state, looks = (edge, edge + (2**32 - 1), edge, edge + 4929), 0
        while (state[3] != 1479).any():
            state, looks = look(upper, 1479, state), looks + 1
        assert looks <= (6 if look is device_words._look_around else 16)
        assert ((upper <= state[1]).sum(1) == 1479).all()


@pytest.mark.statistical
def test_the_devices_normals_are_normal() -> None:
    """400,000 of them: mean, variance, kurtosis, tail and neighbours within 5 standard errors: false alarm 3e-6."""
    with jax.enable_x64(True):
        drawn = np.asarray(device_words.normals(KEYS, 10_001), np.float64)
    assert drawn.shape == (40, 10_001) and np.isfinite(drawn).all() and np.abs(drawn).max() < 5.4
    n = drawn.size
    assert abs(drawn.mean()) < 5 / np.sqrt(n)
    assert abs(drawn.var() - 1) < 5 * np.sqrt(2 / n)
    assert abs((drawn**4).mean() - 3) < 5 * np.sqrt(96 / n)
    assert abs((np.abs(drawn) > 3).mean() - 0.0026998) < 5 * np.sqrt(0.0027 / n)
    for other in (drawn[:, 1:] * drawn[:, :-1], drawn[1:] * drawn[:-1], drawn[:, 5001:] * drawn[:, :5000]):
        assert abs(other.mean()) < 5 / np.sqrt(other.size)


def test_it_runs_without_numba() -> None:
    code = (
        "import sys; sys.modules['numba'] = sys.modules['llvmlite'] = None\n"
        "import prism_fcp.engines.xla\n"
        "from prism_fcp.engines import ENGINES\n"
        "from tests.engines.test_xla import ARMS, FEDERATION, population\n"
        "print(len(ENGINES['xla'](population(), FEDERATION, ARMS)))\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert told.stdout == "2\n", told.stderr


@pytest.mark.parametrize("trials", [1, 3])
def test_too_little_memory_is_said_with_the_size_and_the_remedy(trials: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 64 bytes.")

    monkeypatch.setattr(xla, "play_all", fail)
    size = f"{trials} trials x 2 arms x 9 clients x 4 parameters are {trials * 2 * 10 * 4 * 4 / 1e9:.3g} GB"
    remedy = f"fewer than {trials} trials" if trials > 1 else "take fewer arms, fewer clients or a smaller model"
    with pytest.raises(DeviceMemoryError, match=f"the cpu is out of memory: {size}.*{remedy}"):
        xla.train_many([population()] * trials, FEDERATION, ARMS)


def test_another_error_of_the_device_stays_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise jax.errors.JaxRuntimeError("INTERNAL: something else")

    monkeypatch.setattr(xla, "play_all", fail)
    with pytest.raises(jax.errors.JaxRuntimeError, match="something else"):
        xla.train_many([population()], FEDERATION, ARMS)


def test_local_models_are_left_where_they_are_unless_asked_for() -> None:
    (all_of_them,) = xla.train_many([population()], FEDERATION, ARMS)
    ((one, other),) = xla.train_many([population()], FEDERATION, ARMS, local_of=ARMS[1:])
    assert one.local_models.shape == (0, 4) and (one.global_model == all_of_them[0].global_model).all()
    assert (other.local_models == all_of_them[1].local_models).all()


def test_a_gpu_is_given_many_trials_and_a_cpu_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert xla.trials_at_once(FEDERATION, 2) == 1
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert xla.trials_at_once(FEDERATION, 2) == xla.MOST_AT_ONCE
    assert xla.trials_at_once(Federation(dimension=1_000_000, step_size=1e-7), 3) == 3  # 1.2 GB each
    assert xla.trials_at_once(Federation(dimension=50_000_000, step_size=1e-9), 3) == 1
