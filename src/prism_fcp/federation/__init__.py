"""A real federation on Flower: partial sharing on the wire, robust rounds, calibration, resume.

A project's two apps are `server_app()` and `client_app()`; `run_in_process` runs the same without a network. Only this
room imports flwr, and only in the files that speak to it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from prism_fcp.errors import MissingExtraError
from prism_fcp.federation.agreement import Agreement, Calibrating, Patience, Training
from prism_fcp.federation.site import Describing, Keyed, Remembering, Site

if TYPE_CHECKING:
    from prism_fcp.federation.apps import client_app, server_app
    from prism_fcp.federation.local import run_in_process

_FLOWER = {"client_app": "apps", "server_app": "apps", "run_in_process": "local"}

__all__ = [
    "Agreement",
    "Calibrating",
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


def __getattr__(name: str) -> Any:
    """Load what needs Flower when it is asked for."""
    if name not in _FLOWER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_FLOWER[name]}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "flwr":
            raise
        raise MissingExtraError("federations need the package flwr: pip install 'prism-fcp[flower]'") from error
