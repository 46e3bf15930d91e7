"""Each kind of model learns what it should: LMS and gradient descent, the same in every framework."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from prism_fcp.errors import DataError, MissingExtraError, SettingError
from prism_fcp.federation.sites import SiteRows, estimator_site, jax_site, table_site, torch_site
from prism_fcp.models import linear, mlp
from prism_fcp.train.local import lms_step, sgd_steps
from prism_fcp.types import Choice
from tests.federation.sites.cases import rows


def begin(site: Any) -> Any:
    return np.random.default_rng(3).normal(0, 0.3, site.layers[-1].stop).astype(np.float32)


def test_one_row_a_round_and_a_linear_model_are_lms() -> None:
    own = rows()
    site = table_site(own, "linear", step_size=0.1)
    model = expected = begin(site)
    for number in range(1, 40):
        inputs, targets = own.batches(number, 1, 1)
        expected = lms_step(expected[None], inputs[0], targets[0], 0.1)[0]
        model = site.step(model, number)
    np.testing.assert_allclose(model, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_step_is_the_simulators(momentum: float) -> None:
    own = rows()
    site = table_site(
        own, Choice("mlp", {"hidden": (6,)}), step_size=0.05, local_steps=3, batch_size=8, momentum=momentum
    )
    learner = mlp(10, (6,))
    model = site.start()
    expected, speeds = model[None], np.zeros((1, len(model)), np.float32)
    for number in (1, 2, 3):
        inputs, targets = own.batches(number, 3, 8)
        expected, speeds = sgd_steps(learner, expected, speeds, inputs[None], targets[None], 0.05, momentum)
        model = site.step(model, number)
    np.testing.assert_array_equal(model, expected[0])
    assert set(site.memory()) == ({"speed"} if momentum else set())


def test_without_momentum_nothing_may_be_remembered() -> None:
    site = table_site(rows(), step_size=0.1)
    site.recall({"speed": np.zeros(10, np.float32)})
    with pytest.raises(DataError, match=r"site 'north': \['speed'\] is remembered"):
        site.step(site.start(), 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step_size": 0.0}, "step_size=0.0; must be positive"), ({"step_size": "1"}, "step_size='1'"),
        ({"step_size": 1.0, "momentum": 1.0}, "momentum=1.0"), ({"step_size": 1.0, "local_steps": 0}, "local_steps=0"),
        ({"step_size": 1.0, "batch_size": 2.5}, "batch_size=2.5"),
        ({"step_size": 1.0, "model": "liner"}, "did you mean 'linear'"),
    ],
)  # fmt: skip
def test_settings_that_cannot_work_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        table_site(rows(), **options)


def test_a_model_of_ones_own_will_do() -> None:
    own = rows()
    by_name, made = table_site(own, step_size=0.1), table_site(own, linear(10), step_size=0.1)
    np.testing.assert_array_equal(by_name.step(begin(by_name), 2), made.step(begin(by_name), 2))


# scikit-learn


def sgd(**options: Any) -> Any:
    return pytest.importorskip("sklearn.linear_model").SGDRegressor(**options)


def test_sgd_without_penalty_is_lms() -> None:
    own = rows()
    plain = table_site(own, step_size=0.05)
    site = estimator_site(
        own,
        lambda: sgd(penalty=None, learning_rate="constant", eta0=0.05, fit_intercept=False),
        batch_size=1,
    )
    assert site.layers == (("coef_", 0, 10),)
    ours = theirs = begin(plain)
    for number in range(1, 30):
        ours, theirs = plain.step(ours, number), site.step(theirs, number)
    np.testing.assert_allclose(theirs, ours, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(site.scores(ours), plain.scores(ours), rtol=1e-5, atol=1e-6)


def test_a_step_size_that_falls_goes_on_falling() -> None:
    """With 'invscaling' the step is eta0 / t^power_t, and round n begins at t = 1 + (n - 1) rows."""
    own = rows()
    site = estimator_site(own, lambda: sgd(penalty=None, eta0=0.05, power_t=0.5, fit_intercept=False), batch_size=1)
    model = begin(site)
    for number in (1, 9, 100):
        inputs, targets = own.batches(number, 1, 1)
        expected = lms_step(model[None], inputs[0], targets[0], 0.05 / number**0.5)[0]
        np.testing.assert_allclose(site.step(model, number), expected, rtol=1e-5, atol=1e-6)


def test_the_intercept_is_a_layer_of_its_own() -> None:
    site = estimator_site(rows(), sgd)
    assert [layer.name for layer in site.layers] == ["coef_", "intercept_"] and site.layers[-1].stop == 11
    shifted = np.zeros(11, np.float32)
    shifted[-1] = 2
    own = site.rows
    np.testing.assert_allclose(site.scores(shifted), np.abs(own.table.target[own.calibration] - 2))


class Plain:
    """An estimator that knows nothing of scikit-learn: one exponential step towards the mean."""

    def partial_fit(self, features: Any, target: Any) -> None:
        if not hasattr(self, "coef_"):
            self.coef_, self.intercept_ = np.zeros((1, features.shape[1])), 0.0
        self.intercept_ += 0.5 * (target.mean() - self.intercept_)

    def predict(self, features: Any) -> Any:
        return features @ self.coef_.T + self.intercept_


def test_any_object_with_these_names_will_do() -> None:
    own = rows()
    site = estimator_site(own, Plain, batch_size=4)
    made = site.step(site.start(), 1)
    assert made[-1] == pytest.approx(0.5 * own.batches(1, 1, 4)[1].mean())
    assert not made[:-1].any()
    assert site.scores(made).shape == (50,)


class Wide(Plain):
    def partial_fit(self, features: Any, target: Any) -> None:
        self.coef_, self.intercept_ = np.zeros((2, features.shape[1])), np.zeros(2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: object(), "object has no partial_fit"),
        (lambda: sgd(average=True), "average=True.*write average=False"),
        (lambda: pytest.importorskip("sklearn.linear_model").LinearRegression(), "LinearRegression has no partial_fit"),
        (lambda: pytest.importorskip("sklearn.linear_model").SGDClassifier(), "take a regressor"),
        (
            lambda: pytest.importorskip("sklearn.neural_network").MLPRegressor(batch_size=2),
            r"MLPRegressor.coef_ has 0 numbers",
        ),
        (Wide, "Wide.coef_ has 20 numbers after partial_fit on 10 features"),
    ],
)
def test_estimators_that_cannot_be_shared_are_refused(make: Any, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        estimator_site(rows(), make)


# JAX


def test_a_jax_tree_learns_what_our_model_learns() -> None:
    pytest.importorskip("jax")
    own = rows()
    plain = table_site(own, step_size=0.05, local_steps=2, batch_size=8, momentum=0.5)
    site = jax_site(
        own, {"w": np.zeros(10, np.float32)}, lambda tree, inputs: inputs @ tree["w"],
        step_size=0.05, local_steps=2, batch_size=8, momentum=0.5,
    )  # fmt: skip
    ours = theirs = plain.start()
    for number in range(1, 8):
        ours, theirs = plain.step(ours, number), site.step(theirs, number)
    np.testing.assert_allclose(theirs, ours, rtol=1e-4, atol=1e-6)


def test_each_array_of_a_jax_tree_is_a_layer_and_the_loss_is_used() -> None:
    jnp = pytest.importorskip("jax.numpy")
    tree = {"bias": np.zeros((), np.float32), "w": np.zeros(10, np.float32)}

    def predict(own: Any, inputs: Any) -> Any:
        return inputs @ own["w"] + own["bias"]

    own = rows()
    site = jax_site(own, tree, predict, lambda told, wanted: jnp.abs(told - wanted).mean(), step_size=0.1, batch_size=4)
    assert [(layer.name, layer.size) for layer in site.layers] == [("['bias']", 1), ("['w']", 10)]
    signs = np.sign(own.batches(1, 1, 4)[1])
    assert site.step(site.start(), 1)[0] == pytest.approx(0.1 * signs.mean(), abs=1e-6)


# PyTorch


def tensors() -> Any:
    return pytest.importorskip("torch")


def test_a_torch_module_learns_what_our_model_learns() -> None:
    torch, own = tensors(), rows()
    plain = table_site(own, step_size=0.05, local_steps=2, batch_size=8)
    site = torch_site(
        own, lambda: torch.nn.Linear(10, 1, bias=False), lambda own: torch.optim.SGD(own, lr=0.05),
        lambda told, wanted: 0.5 * ((told - wanted) ** 2).mean(), local_steps=2, batch_size=8,
    )  # fmt: skip
    ours = theirs = begin(plain)
    for number in range(1, 8):
        ours, theirs = plain.step(ours, number), site.step(theirs, number)
    np.testing.assert_allclose(theirs, ours, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(site.scores(ours), plain.scores(ours), rtol=1e-5, atol=1e-6)


def test_named_parameters_are_layers_and_frozen_ones_stay() -> None:
    torch = tensors()

    def make() -> Any:
        net = torch.nn.Sequential(torch.nn.Linear(10, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
        net[0].bias.requires_grad_(False)
        return net

    site = torch_site(rows(), make, torch.optim.Adam)
    assert [tuple(layer) for layer in site.layers] == [("0.weight", 0, 30), ("2.weight", 30, 33), ("2.bias", 33, 34)]
    assert site.step(site.start(), 1).shape == (34,)


def test_torchs_own_generator_is_left_alone() -> None:
    torch = tensors()
    state = torch.random.get_rng_state()
    site = torch_site(rows(), lambda: torch.nn.Linear(10, 1), torch.optim.Adam)
    site.step(site.start(), 1)
    assert torch.equal(state, torch.random.get_rng_state())
    other = torch_site(rows(), lambda: torch.nn.Linear(10, 1), torch.optim.Adam, start_key=1)
    assert not np.array_equal(site.start(), other.start())


def test_running_statistics_are_refused_and_put_back() -> None:
    torch = tensors()

    def make(tracked: bool) -> Any:
        return torch.nn.Sequential(torch.nn.BatchNorm1d(10, track_running_stats=tracked), torch.nn.Linear(10, 1))

    site = torch_site(rows(), lambda: make(True), torch.optim.Adam)
    before = site.scores(site.start())
    with pytest.raises(SettingError, match="site 'north': .*'0.running_mean'.*use LayerNorm"):
        site.step(site.start(), 1)
    np.testing.assert_array_equal(site.scores(site.start()), before)
    fine = torch_site(rows(), lambda: make(False), torch.optim.Adam)
    assert np.isfinite(fine.step(fine.start(), 1)).all()


def test_a_module_that_answers_more_than_one_number_is_refused() -> None:
    torch = tensors()
    site = torch_site(rows(), lambda: torch.nn.Linear(10, 2), torch.optim.Adam)
    for call in (lambda: site.step(site.start(), 1), lambda: site.scores(site.start())):
        with pytest.raises(DataError, match=r"site 'north': the module returned shape \((32|50), 2\)"):
            call()
    with pytest.raises(SettingError, match="no parameters"):
        torch_site(rows(), torch.nn.ReLU, torch.optim.Adam)


def test_without_torch_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match="pip install torch"):
        torch_site(rows(), lambda: None, lambda own: None)


def test_the_sites_load_no_framework() -> None:
    probe = (
        "import sys, prism_fcp.federation.sites; print({'torch', 'jax', 'sklearn', 'flwr', 'numba'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True, text=True)
    assert run.stdout.strip() == "set()"


def test_two_sites_of_one_process_do_not_mix() -> None:
    """A module, an estimator or compiled code behind one site is not another's, whoever steps in between."""
    north, south = rows("north", seed=1), rows("south", seed=2)

    def make(own: SiteRows) -> Any:
        return table_site(own, step_size=0.05, momentum=0.9, batch_size=4)

    one, other, alone = make(north), make(south), make(north)
    for number in (1, 2, 3):
        mixed = one.step(one.start(), number)
        other.step(other.start(), number)
        np.testing.assert_array_equal(mixed, alone.step(alone.start(), number))
    one.draw_from(4)
    assert replace(north).key == one.rows.key  # which row is for what stays as it is
