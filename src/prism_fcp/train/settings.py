"""The settings of training: `Federation` is what all arms of a table share, `Arm` is where they differ."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, get_args

from prism_fcp.errors import SettingError, did_you_mean, need_number
from prism_fcp.train.attack import UPDATE_ATTACKS
from prism_fcp.types import Choice

Coordination: TypeAlias = Literal["client", "common"]
Download: TypeAlias = Literal["same", "previous", "independent", "full", "never"]
MOST_POWER: Final = 16
MOST: Final = 2**31 - 1  # of anything that is counted
COORDINATIONS: Final[tuple[str, ...]] = get_args(Coordination)
DOWNLOADS: Final[tuple[str, ...]] = get_args(Download)


@dataclass(frozen=True, kw_only=True, slots=True)
class Masks:
    """Which coordinates travel: M of D (or M layers), drawn per client or in common, and how the download relates.

    Paper: Alg. 1, phase 1 (`same`); the preliminaries' recursion (`previous`).
    """

    num_shared: int  # M coordinates, or M layers when `layers` is given
    layers: tuple[int, ...] = ()  # sizes of consecutive groups of coordinates that travel together
    coordination: Coordination = "client"
    download: Download = "same"

    def __post_init__(self) -> None:
        """Refuse what fits a model of no dimension."""
        need_number("num_shared", self.num_shared, integer=True)
        for size in self.layers:
            need_number("layers", size, integer=True)
        for value, known, what in (
            (self.coordination, COORDINATIONS, "coordination"),
            (self.download, DOWNLOADS, "download mask"),
        ):
            if value not in known:
                raise SettingError(f"unknown {what} {value!r}{did_you_mean(value, known)}")
        if self.layers and min(self.layers) < 1:
            raise SettingError(f"layers={list(self.layers)}; every layer must be of a positive number of coordinates")
        if self.layers and not 1 <= self.num_shared <= len(self.layers):
            raise SettingError(
                f"num_shared={self.num_shared} layers; must lie in 1..{len(self.layers)}, the number of layers"
            )
        if self.num_shared < 1:
            raise SettingError(f"num_shared={self.num_shared} (M); must be at least 1")

    def check(self, dimension: int) -> None:
        """Raise `SettingError` unless these masks fit a model of this dimension."""
        if self.layers and sum(self.layers) != dimension:
            raise SettingError(
                f"layers={list(self.layers)} add up to {sum(self.layers)}; they must be positive and add up to "
                f"the model's dimension {dimension}"
            )
        if not self.layers and self.num_shared > dimension:
            raise SettingError(
                f"num_shared={self.num_shared} (M); must lie in 1..{dimension}, the model's dimension D; "
                f"M={dimension} shares everything"
            )

    def expected_coordinates(self, dimension: int) -> float:
        """Return how many coordinates an upload carries on average."""
        if self.layers:
            return self.num_shared * dimension / len(self.layers)
        return float(self.num_shared)


@dataclass(frozen=True, kw_only=True, slots=True)
class Arm:
    """One way of training: masks and rule. `exchange=False` is a client that learns alone."""

    masks: Masks
    rule: Choice = field(default_factory=lambda: Choice("mean"))  # a bare name will do
    exchange: bool = True
    mixing: float = 1.0  # how far a download moves the local model: 1 replaces it
    averaging: float = 0.0  # the global model kept at the end is the mean of its last such share of the rounds
    client_averaging: float = 0.0  # clients upload their models' mean so far, round n counting n**this; 0: the last one

    def __post_init__(self) -> None:
        """Take a rule by its name, and refuse shares that are none."""
        object.__setattr__(self, "rule", Choice.of(self.rule, "rule"))
        need_number("mixing", self.mixing)
        if not 0 < self.mixing <= 1:
            raise SettingError(f"mixing={self.mixing}; must lie in (0, 1]; a download that never comes is 'never'")
        need_number("averaging", self.averaging)
        if not 0 <= self.averaging <= 1:
            raise SettingError(f"averaging={self.averaging}; must lie in [0, 1], a share of the rounds")
        need_number("client_averaging", self.client_averaging)
        if not 0 <= self.client_averaging <= MOST_POWER:
            raise SettingError(
                f"client_averaging={self.client_averaging}; must lie in 0..{MOST_POWER}, the power of the round that "
                "weighs it; 0 uploads the model as it is"
            )

    def averaged_from(self, rounds: int) -> int:
        """Return the first round whose global model counts in the average; behind the last one: none is taken."""
        return rounds + 1 - round(self.averaging * rounds)


@dataclass(frozen=True, kw_only=True, slots=True)
class Federation:
    """What every arm of a comparison shares. Defaults are the paper's synthetic section.

    Paper: sec:synth.
    """

    num_clients: int = 100
    dimension: int = 50
    num_participants: int = 10
    num_byzantine: int = 20
    rounds: int = 1000
    step_size: float = 0.025
    attack: Choice = field(default_factory=lambda: Choice("gaussian"))
    window: int = 200  # the last rounds over which steady-state figures are averaged
    idle_learning: bool = True  # clients that are not selected still take a local step
    local_steps: int = 1  # gradient steps a client takes in a round, each on a batch of its own
    batch_size: int = 1  # samples in a batch
    momentum: float = 0.0  # of the local steps; a client keeps its own

    def __post_init__(self) -> None:
        """Take the attack by its name, and refuse settings that cannot work."""
        object.__setattr__(self, "attack", Choice.of(self.attack, "attack"))
        self.check()

    def check(self) -> None:
        """Raise `SettingError` for the first setting that cannot work, with its limit."""
        for name in ("num_clients", "dimension", "rounds", "window", "local_steps", "batch_size"):
            value = getattr(self, name)
            need_number(name, value, integer=True)
            if not 1 <= value <= MOST:
                raise SettingError(f"{name}={value}; must lie in 1..{MOST}")
        for name in ("num_participants", "num_byzantine"):
            need_number(name, getattr(self, name), integer=True)
        need_number("step_size", self.step_size)
        if not 1 <= self.num_participants <= self.num_clients:
            raise SettingError(
                f"num_participants={self.num_participants}; must lie in 1..{self.num_clients}, the number of clients"
            )
        if not 0 <= self.num_byzantine < self.num_clients:
            raise SettingError(
                f"num_byzantine={self.num_byzantine}; must lie in 0..{self.num_clients - 1}: "
                "at least one of the clients must be honest"
            )
        if not self.step_size > 0:
            raise SettingError(f"step_size={self.step_size}; must be positive")
        need_number("momentum", self.momentum)
        if not 0 <= self.momentum < 1:
            raise SettingError(f"momentum={self.momentum}; must lie in [0, 1)")
        self.attack.build(UPDATE_ATTACKS, "training attack")
