"""Which engine runs, and why."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys

import numpy as np
import pytest

from prism_fcp import engines
from prism_fcp.data.synthetic import SyntheticLinear
from prism_fcp.engines import COMPILE_FROM, ENGINES, amount_of_work, choose
from prism_fcp.errors import MissingExtraError, SettingError
from prism_fcp.train.aggregate import RULES
from prism_fcp.train.attack import UPDATE_ATTACKS, none
from prism_fcp.train.loop import train_readable
from prism_fcp.train.settings import Arm, Federation, Masks
from prism_fcp.types import Choice

FEDERATION = Federation(num_clients=9, dimension=4, num_participants=7, num_byzantine=2, rounds=5)
ARMS = [Arm(masks=Masks(num_shared=2))]


def no_numba(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "numba" else real(name, *rest))


def test_small_jobs_stay_readable_and_large_ones_are_compiled():
    pytest.importorskip("numba")
    assert choose("auto", COMPILE_FROM - 1).name == "readable"
    assert choose("auto", COMPILE_FROM).name == "compiled"
    assert choose("auto", COMPILE_FROM, FEDERATION, ARMS).name == "compiled"


def test_the_paper_table_is_compiled_and_a_trial_of_it_is_not():
    pytest.importorskip("numba")
    assert choose("auto", amount_of_work(Federation(), 2, 100)).name == "compiled"
    assert choose("auto", amount_of_work(Federation(), 2, 1)).name == "readable"


def test_work_counts_coordinate_steps():
    assert amount_of_work(FEDERATION, 3, 10) == 5 * 9 * 4 * 3 * 10


def test_a_name_given_is_taken_whatever_the_work():
    pytest.importorskip("numba")
    assert choose("readable", 10**12) == ("readable", "asked for")
    assert choose("compiled", 1) == ("compiled", "asked for")


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(SettingError, match="unknown engine 'compield'; did you mean 'compiled'"):
        choose("compield", 1)


def test_without_numba(monkeypatch):
    no_numba(monkeypatch)
    chosen = choose("auto", COMPILE_FROM)
    assert chosen.name == "readable" and "pip install 'prism-fcp[fast]'" in chosen.reason
    for asked in (
        lambda: choose("compiled", 1),
        lambda: ENGINES["compiled"](SyntheticLinear().draw(9, 4, 2, 1), FEDERATION, ARMS),
    ):
        with pytest.raises(MissingExtraError, match=r"needs numba: pip install 'prism-fcp\[fast\]'"):
            asked()


@pytest.mark.parametrize("name", ["ours", "mean"])  # a new name, or a known one with something else behind it
def test_a_rule_of_the_users_own_runs_readable(monkeypatch, name):
    pytest.importorskip("numba")
    monkeypatch.setitem(RULES, name, lambda: RULES["median"]())
    arms = [*ARMS, Arm(masks=Masks(num_shared=4), rule=Choice(name))]
    chosen = choose("auto", COMPILE_FROM, FEDERATION, arms)
    assert chosen.name == "readable" and f"rule {name!r}" in chosen.reason
    for asked in (
        lambda: choose("compiled", 1, FEDERATION, arms),
        lambda: ENGINES["compiled"](SyntheticLinear().draw(9, 4, 2, 1), FEDERATION, arms),
    ):
        with pytest.raises(SettingError, match=f"rule '{name}' is not one the compiled engine knows; use engine"):
            asked()


def test_an_attack_of_the_users_own_runs_readable(monkeypatch):
    pytest.importorskip("numba")
    monkeypatch.setitem(UPDATE_ATTACKS, "silence", lambda: none())
    federation = Federation(attack=Choice("silence"))
    assert "training attack 'silence'" in choose("auto", COMPILE_FROM, federation, ARMS).reason
    with pytest.raises(SettingError, match="training attack 'silence'"):
        choose("compiled", 1, federation, ARMS)


def test_an_unknown_rule_is_left_to_the_settings_check():
    arms = [Arm(masks=Masks(num_shared=2), rule=Choice("maen"))]
    choose("auto", 1, FEDERATION, arms)
    with pytest.raises(SettingError, match="unknown rule 'maen'; did you mean 'mean'"):
        ENGINES["readable"](SyntheticLinear().draw(9, 4, 2, 1), FEDERATION, arms)


def test_train_in_one_call():
    pytest.importorskip("numba")
    population = SyntheticLinear().draw(9, 4, 2, 1)
    by_work, readable, compiled = (
        engines.train(population, FEDERATION, ARMS, engine=name)[0].global_model
        for name in ("auto", "readable", "compiled")
    )
    assert (by_work == readable).all() and (by_work != compiled).any()
    with pytest.raises(SettingError, match="unknown engine"):
        engines.train(population, FEDERATION, ARMS, engine="fast")


def test_the_readable_engine_is_the_loop_itself():
    assert ENGINES["readable"] is train_readable is engines.train_readable


def test_a_small_job_never_imports_numba():
    probe = (
        "import sys; from prism_fcp.engines import *; from prism_fcp.train.settings import *;"
        "from prism_fcp.data.synthetic import SyntheticLinear;"
        "f = Federation(num_clients=9, dimension=4, num_participants=7, num_byzantine=2, rounds=5);"
        "arms = [Arm(masks=Masks(num_shared=2))];"
        "name = choose('auto', amount_of_work(f, 1, 3), f, arms).name;"
        "ENGINES[name](SyntheticLinear().draw(9, 4, 2, 1), f, arms);"
        "print(name, 'numba' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True, text=True)
    assert run.stdout.split() == ["readable", "False"]


def test_engines_refuse_the_same_settings():
    pytest.importorskip("numba")
    population = SyntheticLinear().draw(9, 4, 2, 1)
    for arm, message in (
        (Arm(masks=Masks(num_shared=5)), "num_shared=5"),
        (Arm(masks=Masks(num_shared=2), rule=Choice("krum", {"suspects": 4})), "suspects=4 of 7"),
    ):
        for engine in ENGINES.values():
            with pytest.raises(SettingError, match=message):
                engine(population, FEDERATION, [arm])
    assert {name: len(engine(population, FEDERATION, [])) for name, engine in ENGINES.items()} == dict.fromkeys(
        ENGINES, 0
    )
    assert np.isfinite(ENGINES["compiled"](population, FEDERATION, ARMS)[0].global_model).all()


def test_a_jax_that_is_there_and_broken(monkeypatch):
    pytest.importorskip("jax")
    real = importlib.import_module

    def broken(name, *rest):
        if name == "jax":
            raise ImportError("libcudart.so.13: cannot open shared object file")
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", broken)
    with pytest.raises(MissingExtraError, match="jax is installed but cannot be imported .libcudart.*use engine 'read"):
        choose("xla", 1)
