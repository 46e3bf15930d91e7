"""What is asked of a SuperLink by Flower's own command line: who may join, start this app, how is it getting on.

The command line is slower than a call (a second each), but it is what Flower documents and keeps.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from prism_fcp.federation.deploy.program import DeploymentError, Program, environment, find, run_to_end
from prism_fcp.io import write_text

CONNECTION: Final = "federation"
PATIENCE: Final = 120.0  # seconds a command may take


class RunStatus(NamedTuple):
    """How a run is getting on, in Flower's words."""

    status: str  # such as "running", "finished:completed", "finished:failed"
    details: str
    bytes_in: int  # what the SuperLink received for the run, and sent
    bytes_out: int

    @property
    def finished(self) -> bool:
        """Return whether it is over, well or not."""
        return self.status.startswith("finished")

    @property
    def completed(self) -> bool:
        """Return whether it ended as it should."""
        return self.status == "finished:completed"


def write_settings(path: Path, settings: Mapping[str, str | int | float | bool]) -> Path:
    """Write settings as TOML, where Flower would else cut a command line at spaces and quotes."""
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in settings.items()]
    write_text(path, "\n".join([*lines, ""]))
    return path


@dataclass(frozen=True, slots=True)
class Control:
    """A connection to a SuperLink, kept in a home of its own."""

    home: Path
    temporary: Path
    log: Path

    @classmethod
    def connect(cls, home: Path, temporary: Path, log: Path, address: str, authority: Path | None) -> Control:
        """Write the connection down; without an authority's certificate it is in plain text."""
        trust = "insecure = true" if authority is None else f"root-certificates = {json.dumps(str(authority))}"
        lines = [f"[superlink.{CONNECTION}]", f"address = {json.dumps(address)}", trust, ""]
        write_text(home / "config.toml", "\n".join(lines))
        return cls(home, temporary, log)

    def register(self, public_key: Path) -> str:
        """Let the owner of this key join, and return the node's id."""
        return str(self._ask("supernode", "register", str(public_key), CONNECTION)["node-id"])

    def start(self, app: Path, config: Mapping[str, str | int | float | bool]) -> str:
        """Start a run of the app with these settings, and return its id."""
        options = ["--run-config", str(write_settings(self.home / "run.toml", config))] if config else []
        return str(self._ask("run", str(app), CONNECTION, *options)["run-id"])

    def status(self, run: str) -> RunStatus:
        """Return how a run is getting on."""
        found = self._ask("ls", "--run-id", run, CONNECTION)["runs"][0]
        traffic = found.get("network-traffic", {})
        return RunStatus(
            found["status"], str(found.get("status-details", "")), int(traffic.get("inbound-bytes", 0)),
            int(traffic.get("outbound-bytes", 0)),
        )  # fmt: skip

    def cancel(self, run: str) -> None:
        """Stop a run."""
        self._ask("stop", run, CONNECTION)

    def follow(self, run: str, log: Path, hold: Path) -> Program:
        """Start a program that copies the server app's messages to a file and ends when the run ends."""
        command = [find("flwr"), "log", run, CONNECTION, "--stream"]
        return Program("flwr log", command, log, self._env, cwd=self.home, hold=hold)

    @property
    def _env(self) -> dict[str, str]:
        return environment(self.home, self.temporary)

    def _ask(self, *words: str) -> dict[str, Any]:
        command = [find("flwr"), *words, "--format", "json"]
        answer = run_to_end(command, self.log, self._env, cwd=self.home, seconds=PATIENCE)
        try:
            told = json.loads(answer[answer.index("{") :])
        except ValueError:
            raise DeploymentError(f"flwr {' '.join(words[:2])} said no JSON; see {self.log}") from None
        if not isinstance(told, dict) or not told.get("success"):
            why = " ".join(str(told.get("error-message", "no reason")).split())
            raise DeploymentError(f"flwr {' '.join(words[:2])} failed: {why[:400]}")
        return told
