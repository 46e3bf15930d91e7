"""A PyTorch module: its named parameters travel, a round is a few steps of an optimiser of your choice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prism_fcp import streams
from prism_fcp.errors import DataError, MissingExtraError, SettingError
from prism_fcp.federation.sites.learning import Lesson, Memory, RowsSite
from prism_fcp.federation.sites.rows import Predict, SiteRows
from prism_fcp.streams import Role
from prism_fcp.types import FloatArray, Layer


@dataclass(frozen=True, eq=False)
class TorchLearner:
    """A module, an optimiser made anew in every round, and a loss.

    Parameters that need no gradient do not travel, and so must be the same everywhere. Dropout and the like are drawn
    from the site's key and the round.
    """

    make: Callable[[], Any]
    optimizer: Callable[[Any], Any]
    loss: Callable[[Any, Any], Any] | None = None  # (predictions (n,), targets (n,)) -> number
    start_key: int = 0  # what the first parameters hang on, the same at every site
    device: str = "cpu"
    layers: tuple[Layer, ...] = field(init=False)  # the named parameters, each a layer
    _module: Any = field(init=False, repr=False)
    _first: NDArray[np.float32] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Make the module, and see that it can be used."""
        with _seeded(streams.child(self.start_key, Role.START), self.device):
            object.__setattr__(self, "_module", self.make().to(self.device))
        found, start = [], 0
        for name, own in self._named():
            found.append(Layer(name, start, start + own.numel()))
            start += own.numel()
        if not start:
            raise SettingError("the module has no parameters that need a gradient; there is nothing to share")
        object.__setattr__(self, "layers", tuple(found))
        object.__setattr__(self, "_first", self._flat())

    def start(self) -> FloatArray:
        """Return the parameters the module was made with."""
        return self._first.copy()

    def learn(self, parameters: NDArray[np.float32], memory: Memory, lesson: Lesson) -> tuple[FloatArray, Memory]:
        """Let the optimiser take a step on each batch."""
        self._put(parameters)
        before = [own.clone() for own in self._module.buffers()]
        optimiser = self.optimizer([own for _, own in self._named()])
        loss = self.loss or _torch().nn.functional.mse_loss
        with _seeded(lesson.key, self.device):
            self._module.train()
            for batch, wanted in zip(lesson.inputs, lesson.targets, strict=True):
                optimiser.zero_grad()
                loss(self._told(self._tensor(batch)), self._tensor(wanted)).backward()
                optimiser.step()
        self._check_buffers(before)
        return self._flat(), {}

    def predictor(self, parameters: NDArray[np.float32]) -> Predict:
        """Return the module's predictions, dropout switched off."""

        def predict(inputs: NDArray[np.float32]) -> NDArray[np.float64]:
            self._put(parameters)
            self._module.eval()
            with _torch().no_grad():
                return np.asarray(self._told(self._tensor(inputs)).double().cpu().numpy())

        return predict

    def _told(self, inputs: Any) -> Any:
        """Return one prediction a row; a column of them will do."""
        told = self._module(inputs)
        if tuple(told.shape) not in ((len(inputs),), (len(inputs), 1)):
            raise DataError(
                f"the module returned shape {tuple(told.shape)} for {len(inputs)} rows; one number a row is needed"
            )
        return told.reshape(-1)

    def _named(self) -> list[tuple[str, Any]]:
        return [(name, own) for name, own in self._module.named_parameters() if own.requires_grad]

    def _tensor(self, values: FloatArray) -> Any:
        like = self._named()[0][1]
        return _torch().tensor(values, dtype=like.dtype, device=like.device)

    def _flat(self) -> NDArray[np.float32]:
        parts = [own.detach().float().cpu().numpy().ravel() for _, own in self._named()]
        return np.concatenate(parts).astype(np.float32)

    def _put(self, parameters: NDArray[np.float32]) -> None:
        """Copy a flat vector into the module, which remembers nothing: whatever uses it begins with this."""
        flat = self._tensor(parameters)
        with _torch().no_grad():
            for layer, (_, own) in zip(self.layers, self._named(), strict=True):
                own.copy_(flat[layer.start : layer.stop].view_as(own))

    def _check_buffers(self, before: list[Any]) -> None:
        """Put buffers back and refuse a module that changes them: what is no parameter would never be shared."""
        changed = []
        for old, (name, now) in zip(before, self._module.named_buffers(), strict=True):
            if not _torch().equal(old, now):
                now.copy_(old)
                changed.append(name)
        if changed:
            raise SettingError(
                f"training changes the module's buffer {changed[0]!r}, which is no parameter and would differ between "
                "sites; use LayerNorm or GroupNorm, or track_running_stats=False"
            )


def torch_site(
    rows: SiteRows,
    make: Callable[[], Any],
    optimizer: Callable[[Any], Any],
    loss: Callable[[Any, Any], Any] | None = None,
    *,
    local_steps: int = 1,
    batch_size: int = 32,
    start_key: int = 0,
    device: str = "cpu",
) -> RowsSite:
    """Return a site that trains the module `make()` returns with `optimizer(parameters)`, by default on squared error.

    torch.optim.Adam will do for an optimiser, or `lambda parameters: torch.optim.SGD(parameters, lr=0.05)`. Where
    several sites share a machine set OMP_NUM_THREADS=1: torch's threads of one wait for those of another.
    """
    return RowsSite(rows, TorchLearner(make, optimizer, loss, start_key, device), local_steps, batch_size)


@contextmanager
def _seeded(key: int, device: str) -> Iterator[None]:
    """Draw from this key inside, and leave the process's own generators as they were."""
    torch = _torch()
    with torch.random.fork_rng([] if device == "cpu" else [torch.device(device)]):
        torch.manual_seed(key % 2**63)
        yield


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError("a PyTorch module needs torch: pip install torch") from error
    return torch
