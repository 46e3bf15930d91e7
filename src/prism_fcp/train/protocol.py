"""Protocols: whole ways of training by name, and the choice between them from what is known beforehand.

`paper` reproduces the tables. `stay` never downloads before the end: nothing a server sends can come back as a vote for
itself. `follow` downloads, for clients that cannot learn the model alone. `default` takes one of the two and says why.
The evidence is in docs/protocol.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from prism_fcp.errors import SettingError, did_you_mean, need_number
from prism_fcp.train.settings import Arm, Federation, Masks
from prism_fcp.types import Choice

ENOUGH_LEARNING: Final = 8.0  # rounds x step size x input variance from which clients arrive on their own
SAMPLES_A_PARAMETER: Final = 4.0  # below which a client overfits when it never hears of the others
ENOUGH_DOWNLOADS: Final = 25.0  # of each coordinate, from which half a step towards the download arrives in time
TOO_FEW_DOWNLOADS: Final = 10.0  # of each coordinate, below which clients that overfit are not pulled together
FULL_MIXING: Final = 0.2  # how far a client that overfits moves to a model it downloads whole
ALIGNED: Final = 4.0  # spreads in the common direction beyond which a row is left out


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """What can be known before training, and decides which protocol to use."""

    num_shared: int  # M
    dimension: int
    rounds: int
    step_size: float
    participation: float  # share of the clients in a round
    input_variance: float = 1.0  # of an input's entry, about its mean; 1 for standardised data
    local_steps: int = 1  # a client's, between two downloads
    momentum: float = 0.0  # of these: each counts 1 / (1 - momentum) times in the end
    samples: int | None = None  # a client's own; None: new ones every round
    idle_learning: bool = True
    layers: tuple[int, ...] = ()
    linear: bool = True
    correlated: bool = False  # columns of a table: in some directions inputs vary far less than an entry does

    def __post_init__(self) -> None:
        """Refuse what nothing can be concluded from."""
        need_number("input_variance", self.input_variance)
        need_number("participation", self.participation)
        if not self.input_variance > 0 or not 0 < self.participation <= 1:
            raise SettingError(
                f"input_variance={self.input_variance}, participation={self.participation}; the first must be "
                "positive, the second in (0, 1]"
            )

    @classmethod
    def of(
        cls,
        federation: Federation,
        masks: Masks,
        *,
        input_variance: float = 1.0,
        samples: int | None = None,
        linear: bool = True,
        correlated: bool = False,
    ) -> Known:
        """Take what the settings tell."""
        return cls(
            num_shared=masks.num_shared,
            dimension=federation.dimension,
            rounds=federation.rounds,
            step_size=federation.step_size,
            local_steps=federation.local_steps,
            momentum=federation.momentum,
            participation=federation.num_participants / federation.num_clients,
            input_variance=input_variance,
            samples=samples,
            idle_learning=federation.idle_learning,
            layers=masks.layers,
            linear=linear,
            correlated=correlated,
        )

    @property
    def learning(self) -> float:
        """Return how far a client comes alone: exp(-learning) of its first error is left in a direction of variance."""
        taking_part = 1 if self.idle_learning else self.participation
        steps = self.rounds * self.local_steps * taking_part
        return steps * self.step_size / (1 - self.momentum) * self.input_variance

    @property
    def learning_told(self) -> str:
        """Return `learning` in words: what was multiplied, and what it comes to."""
        factors = ["rounds"]
        factors += ["participation"] if not self.idle_learning else []
        factors += ["local steps"] if self.local_steps != 1 else []
        factors += ["step size / (1 - momentum)" if self.momentum else "step size", "input variance"]
        return f"{' x '.join(factors)} = {self.learning:.3g}"

    @property
    def overfits(self) -> bool:
        """Return whether a client's own samples are too few for a model of its own."""
        return self.samples is not None and self.samples < SAMPLES_A_PARAMETER * self.dimension

    @property
    def downloads(self) -> float:
        """Return how often a client downloads each coordinate, if it downloads what is shared."""
        units = len(self.layers) or self.dimension
        return self.rounds * self.participation * self.num_shared / units


class Protocol(NamedTuple):
    """A way of training, the model that scores, and why it was taken."""

    name: str
    arm: Arm
    scoring_model: Literal["local", "global"]
    why: str


def paper(known: Known) -> Protocol:
    """Return the published protocol: one mask a client both ways, the mean, local models.

    Paper: Alg. 1, phase 1.
    """
    return Protocol("paper", Arm(masks=Masks(num_shared=known.num_shared, layers=known.layers)), "local", "asked for")


def stay(known: Known) -> Protocol:
    """Return the protocol that never downloads before the end: a median over the server table, with its ledger.

    Clients upload their averaged models, which are quieter than any of their models; the table then needs the latest.
    Those that learn only when selected upload as often as they learn: there the table alone averages.
    """
    power, averaging = (8.0, 3.0) if known.idle_learning else (3.0, 0.0)
    rule = Choice("table", {"power": power, "aligned": ALIGNED})
    arm = Arm(masks=_masks(known, "never"), rule=rule, client_averaging=averaging)
    return Protocol("stay", arm, "global", "asked for")


def follow(known: Known) -> Protocol:
    """Return the protocol that downloads last round's mask: a clipped median of those the ledger trusts.

    With many downloads a client goes half the way only, which halves what an undetected attacker's echo is worth, and
    the last tenth of the rounds is averaged. With few the model is on its way to the end, and an average would lag.
    Where few are too few to pull clients together, nets or clients that overfit, they download all of the model: nets
    take it, the others go a fifth of the way.
    """
    rule = Choice("table", {"power": 3.0, "aligned": ALIGNED, "vote": "round", "clip": 2.0})
    few = known.downloads < ENOUGH_DOWNLOADS
    full = known.downloads < TOO_FEW_DOWNLOADS if known.linear and known.overfits else few and not known.linear
    lagging = few and (full or not known.overfits)
    arm = Arm(
        masks=_masks(known, "full" if full else "previous"),
        rule=rule,
        mixing=FULL_MIXING if full and known.linear else 1.0 if few else 0.5,
        averaging=0.0 if lagging else 0.1,
    )
    return Protocol("follow", arm, "global", "asked for")


def default(known: Known) -> Protocol:
    """Return `stay` where clients learn the model on their own, else `follow`, with the reason."""
    following = follow(known)
    whole = ""
    if following.arm.masks.download == "full":
        times = f"{known.downloads:.3g} times only"
        whole = f"; each coordinate would be downloaded {times}, so all of the model is, every time"
    if not known.linear:
        return following._replace(
            why=f"follow: nets that never download do not average; their units stand in another order{whole}"
        )
    if known.overfits:
        return following._replace(
            why=f"follow: {known.samples} samples a client for {known.dimension} parameters are below "
            f"{SAMPLES_A_PARAMETER:g} a parameter; a client alone overfits{whole}"
        )
    if known.correlated:
        return following._replace(
            scoring_model="local",
            why="follow: columns of a table go together; where inputs vary little a client alone does not arrive; "
            "scored with clients' own models, which suit them if they are unlike and lose little if they are not",
        )
    told = known.learning_told
    if known.learning < ENOUGH_LEARNING:
        return following._replace(why=f"follow: {told} is below {ENOUGH_LEARNING:g}; a client alone does not arrive")
    return stay(known)._replace(
        why=f"stay: {told} reaches {ENOUGH_LEARNING:g} and samples suffice; nothing downloaded, nothing echoed"
    )


def overridden(why: str, names: Iterable[str]) -> str:
    """Return why a protocol was taken, with the settings that somebody chose otherwise: of these it says nothing true.

    >>> overridden("stay: nothing downloaded", ["download"])
    'stay: nothing downloaded; as set by hand: download'
    """
    own = ", ".join(names)
    return f"{why}; as set by hand: {own}" if own else why


def _masks(known: Known, download: Literal["never", "previous", "full"]) -> Masks:
    return Masks(num_shared=known.num_shared, layers=known.layers, coordination="common", download=download)


PROTOCOLS: dict[str, Callable[[Known], Protocol]] = {
    "default": default,
    "paper": paper,
    "stay": stay,
    "follow": follow,
}


def protocol(name: str, known: Known) -> Protocol:
    """Return the protocol of this name for what is known.

    >>> known = Known(num_shared=10, dimension=50, rounds=1000, step_size=0.025, participation=0.1, input_variance=0.7)
    >>> protocol("default", known).name
    'stay'
    """
    if name not in PROTOCOLS:
        raise SettingError(f"unknown protocol {name!r}{did_you_mean(name, PROTOCOLS)}")
    return PROTOCOLS[name](known)
