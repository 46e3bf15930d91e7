"""A federation in one process: the same client app, strategy and files as a deployment, without Ray or a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from prism_fcp.calibrate.trust import Trust
from prism_fcp.federation.agreement import Agreement
from prism_fcp.federation.apps import client_app
from prism_fcp.federation.client import MakeSite
from prism_fcp.federation.conduct import Conductor, Start
from prism_fcp.federation.drill import Drill
from prism_fcp.federation.events import Hook
from prism_fcp.federation.grid import InProcessGrid
from prism_fcp.federation.keys import Keys
from prism_fcp.federation.store import MemoryStore, State

EVERY: Final = 5.0  # seconds between checkpoints: rounds take milliseconds here


def run_in_process(
    agreement: Agreement,
    make_site: MakeSite,
    folder: Path | str,
    *,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    keys: Keys | None = None,
    start: Start | None = None,
    trust: Trust | None = None,
    drills: Mapping[str, Drill] | None = None,
    hooks: Sequence[Hook] = (),
    fresh: bool = False,
    every: float = EVERY,
) -> dict[str, Any]:
    """Run a federation whose sites are all in this process, and return what it came to.

    Stopped by Ctrl-C or killed, it goes on from the folder's checkpoint when it is called again.
    """
    stores = {name: MemoryStore() for name in agreement.clients}

    def restore(states: Mapping[str, State]) -> None:
        for name, state in states.items():
            stores[name].save(state)

    def states() -> Mapping[str, State]:
        return {name: store.state for name, store in stores.items() if store.state is not None}

    own = settings or {}
    app = client_app(make_site, settings=lambda name, context: own.get(name, {}), stores=stores, drills=drills)
    grid = InProcessGrid(app, [{"client": name} for name in agreement.clients], {})
    conductor = Conductor(
        agreement, Path(folder), keys=keys, start=start, trust=trust, hooks=hooks, fresh=fresh, states=states,
        restore=restore, every=every,
    )  # fmt: skip
    return conductor.run(grid)
