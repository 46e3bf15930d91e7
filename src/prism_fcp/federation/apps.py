"""Flower's two apps, as a project's files make them: `app = server_app()` and `app = client_app()`.

They are found by Flower in a deployment and in its simulation, and by `federate run` in one process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from prism_fcp.calibrate.signing import Signer
from prism_fcp.calibrate.trust import Trust
from prism_fcp.errors import DataError, PrismError, SettingError
from prism_fcp.federation.agreement import Agreement
from prism_fcp.federation.client import ClientWork, MakeSite
from prism_fcp.federation.conduct import Conductor, Start
from prism_fcp.federation.drill import Drill
from prism_fcp.federation.events import Hook
from prism_fcp.federation.grid import WaitingGrid
from prism_fcp.federation.messages import unwrap, wrap, wrap_problem
from prism_fcp.federation.project import AGREEMENT, file_site, folder_of, name_of, settings_of
from prism_fcp.federation.store import FileStore, MemoryStore, Store

MOST_BYTES: Final = 2**34  # of a message from the server, whose model may be large
QUERIES: Final = ("hello", "setup", "calibrate", "evaluate")


def client_app(
    make_site: MakeSite = file_site,
    *,
    settings: Callable[[str, Context], Mapping[str, Any]] = settings_of,
    stores: Mapping[str, Store] | None = None,
    drills: Mapping[str, Drill] | None = None,
) -> ClientApp:
    """Return the app of a client whose node config names it: `client="north" site="/data/north.toml"`.

    `make_site(name, settings, agreement)` makes its site; without one it trains the agreement's model on the rows its
    site's file names. `settings` finds what is the client's own: `state` (the file of what it remembers), `key` with
    `passphrase`, and `drill`. `stores` and `drills` are for clients of one process.
    """
    app, known = ClientApp(), dict[str, ClientWork]()

    def work_of(context: Context) -> ClientWork:
        try:
            name = name_of(context)
            if name not in known:
                known[name] = _work(name, make_site, settings(name, context), stores, drills)
            return known[name]
        except Exception as error:  # its text may name the site's files: that is for the site's own log
            logging.getLogger("prism_fcp").error(
                "the site's settings: %s", error, exc_info=None if isinstance(error, PrismError) else error
            )
            raise DataError(
                f"the site's settings cannot be used ({type(error).__name__}); its own log says why"
            ) from error

    def answer(kind: str) -> Callable[[Message, Context], Message]:
        def handle(message: Message, context: Context) -> Message:
            try:
                reply = wrap(work_of(context).handle(kind, unwrap(message, MOST_BYTES)))
            except PrismError as error:
                reply = wrap_problem(str(error))
            return Message(reply, reply_to=message)

        return handle

    app.train()(answer("train"))
    for query in QUERIES:
        app.query(query)(answer(query))
    return app


def server_app(
    agreement: Agreement | Path | str | None = None,
    *,
    folder: Path | str | None = None,
    start: Start | None = None,
    hooks: tuple[Hook, ...] = (),
) -> ServerApp:
    """Return the server's app. It reads federation.toml in the project's folder and writes into runs/NAME there.

    The run config may name another `federation`, another `folder`, and a `trust` folder: whose keys clients sign with.

    `start` gives the first parameters of models that sites bring; `hooks` hear every event.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        told = {key: str(value) for key, value in context.run_config.items() if value}
        home = folder_of(context)
        agreed = agreement
        if not isinstance(agreed, Agreement):
            path = home / (told.get("federation") or agreed or AGREEMENT)
            if not path.exists():
                raise SettingError(
                    f"{path.absolute()}: no such file; say where the project lies on this machine: "
                    "flwr run ... --run-config 'project=\"/srv/hospitals\"'"
                )
            agreed = Agreement.load(path)
        place = home / (told.get("folder") or folder or Path("runs") / agreed.name)
        trust = Trust.load(home / told["trust"]) if "trust" in told else None
        Conductor(agreed, place, start=start, hooks=hooks, trust=trust).run(WaitingGrid(grid))

    return app


def _work(
    name: str,
    make_site: MakeSite,
    settings: Mapping[str, Any],
    stores: Mapping[str, Store] | None,
    drills: Mapping[str, Drill] | None,
) -> ClientWork:
    if stores is not None:
        store = stores[name]
    else:
        store = FileStore(Path(settings["state"])) if settings.get("state") else MemoryStore()
    signer = Signer.load(Path(settings["key"]), settings.get("passphrase")) if settings.get("key") else None
    drill = drills.get(name) if drills else settings.get("drill")
    return ClientWork(name, make_site, store, settings, signer, drill)
