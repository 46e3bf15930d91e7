"""A real federation on Flower: partial sharing on the wire, robust rounds, calibration, resume.

A project's two apps are `server_app()` and `client_app()`; `run_in_process` runs the same without a network. Only this
room imports flwr, and only in the files that speak to it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prism_fcp.federation.agreement import Agreement, Calibrating, Common, Patience, Training
    from prism_fcp.federation.apps import client_app, server_app
    from prism_fcp.federation.local import run_in_process
    from prism_fcp.federation.site import Describing, Keyed, Remembering, Site

__all__ = [
    "Agreement",
    "Calibrating",
    "Common",
    "Describing",
    "Keyed",
    "Patience",
    "Remembering",
    "Site",
    "Training",
    "client_app",
    "run_in_process",
    "server_app",
]
_WHERE = {
    **dict.fromkeys(("Agreement", "Calibrating", "Common", "Patience", "Training"), "agreement"),
    **dict.fromkeys(("Describing", "Keyed", "Remembering", "Site"), "site"),
    **dict.fromkeys(("client_app", "server_app"), "apps"),
    "run_in_process": "local",
}


def __getattr__(name: str) -> Any:
    """Load a name when it is asked for: the command line reads this package's arguments and nothing else of it."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(needs_flower(f"{__name__}.{_WHERE[name]}"), name)


def needs_flower(module: str) -> Any:
    """Return a module of this room; without Flower the error says what to install."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "flwr":
            raise
        from prism_fcp.errors import MissingExtraError

        raise MissingExtraError("federations need the package flwr: pip install 'prism-fcp[flower]'") from error
