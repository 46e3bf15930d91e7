"""The command lines of `prism-fcp federate`; nothing of the method is loaded to read them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

ABOUT: Final = "a real federation on Flower: a project, in one process, on a deployment of its own, and resumed"
EXAMPLES: Final = """examples:
  prism-fcp federate init hospitals                      a project of four sites with example data
  prism-fcp federate run hospitals                       train and calibrate it in this process, in seconds
  prism-fcp federate local hospitals                     the same on a deployment on this machine, with TLS and keys
  prism-fcp federate resume hospitals                    go on where a run was stopped
  prism-fcp federate show hospitals                      what a run came to, or where it stands
  flwr run hospitals                                     Flower's own simulation, or a deployment of yours

docs/federation.md goes from nothing to four sites with TLS and keys.
"""
_JSON: Final = "as JSON (to FILE, or standard output)"
_PROJECT: Final = "the project's folder (default: here)"


def add_commands(add: Callable[..., argparse.ArgumentParser], style: dict[str, Any], parser_class: Any) -> None:
    """Add `federate` and what it can do."""
    federate = add("federate", help=ABOUT, description=ABOUT, epilog=EXAMPLES, **style)
    actions = federate.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=parser_class)

    def action(name: str, told: str, example: str, project: bool = True) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = actions.add_parser(
            name, help=told, description=told, epilog=f"example:\n  {example}", **style
        )
        if project:
            parser.add_argument("project", nargs="?", type=Path, default=Path(), metavar="DIR", help=_PROJECT)
            parser.add_argument(
                "--folder", type=Path, metavar="RUN", help="where the run's files lie (default: runs/NAME)"
            )
        parser.add_argument("--json", nargs="?", const="-", metavar="FILE", help=_JSON)
        return parser

    init = action("init", "write a new project that runs at once", "prism-fcp federate init hospitals --sites 4", False)
    init.add_argument("project", type=Path, metavar="DIR", help="a new or empty folder")
    init.add_argument("--client", action="append", metavar="NAME", help="a site's name; repeat for each")
    init.add_argument("--sites", type=int, metavar="N", help="so many sites with names of ours (default 4)")
    init.add_argument("--rounds", type=int, default=10, metavar="N", help="rounds of training (default 10)")
    init.add_argument("--seed", type=int, default=1, help="seed of the example data (default 1)")

    run = action("run", "run a project in this process, without a network", "prism-fcp federate run hospitals --fresh")
    _add_run(run)
    local = action(
        "local", "raise a deployment on this machine, run the project on it, and take it down",
        "prism-fcp federate local hospitals",
    )  # fmt: skip
    _add_run(local)
    local.add_argument("--sites", type=int, metavar="N", help="the first N clients only (default: all)")
    local.add_argument("--plain", action="store_true", help="without TLS and keys, to find out what those cost")

    action("resume", "go on with a run that was stopped, as it was begun", "prism-fcp federate resume hospitals")
    action("show", "what a run came to, or where it stands", "prism-fcp federate show hospitals --json")


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fresh", action="store_true", help="forget the run that is there and begin anew")
