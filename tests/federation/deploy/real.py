"""Projects for real deployments, and what to look for when they are over."""

from __future__ import annotations

import json
import os
import re
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prism_fcp.calibrate.signing import generate
from prism_fcp.calibrate.trust import Trust
from prism_fcp.federation.scaffold import scaffold
from prism_fcp.federation.sites.example import write_example

SITES = ("north", "east", "south", "west")
# A client's half that does what a file tells it to, once: a site's own code can fail in any way.
CLIENT_APP = """
import os, signal, time
from pathlib import Path
from prism_fcp.federation import client_app
from prism_fcp.federation.project import file_site

def make_site(name, settings, agreement):
    order = Path({orders!r}) / name
    if order.exists():
        word = order.read_text()
        order.unlink()
        if word == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(float(word))
    return file_site(name, settings, agreement)

app = client_app(make_site)
"""


def project(folder: Path, *, rounds: int, deadline: float = 60.0, quorum: int = 3) -> Path:
    """Write a project of four sites; `folder/orders/NAME` will be obeyed by NAME's client."""
    made = scaffold(folder / "demo", write_example, clients=SITES, rounds=rounds)
    (folder / "orders").mkdir()
    code = CLIENT_APP.format(orders=str(folder / "orders"))
    (made.folder / made.package / "client_app.py").write_text(code)
    text = (made.folder / "federation.toml").read_text()
    text = re.sub(r"deadline = .*", f"deadline = {deadline}\nquorum = {quorum}", text)
    (made.folder / "federation.toml").write_text(text)
    return made.folder


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def sign(project: Path) -> None:
    """Give every site a key that the project's trust folder knows, and ask for signatures."""
    (project / "trust").mkdir()
    for path in sorted((project / "sites").iterdir()):
        made = generate(project / "keys" / f"{path.stem}.pem", path.stem)
        Trust.add(project / "trust", path.stem, made.line)
        change(path, "# key =", "key =")
    change(project / "federation.toml", "[calibration]", "[calibration]\nsigned = true")
    change(project / "pyproject.toml", 'trust = ""', 'trust = "trust"')


def sites(folder: Path) -> dict[str, Path]:
    return {name: folder / "sites" / f"{name}.toml" for name in SITES}


def events(run: Path, *names: str) -> list[dict[str, Any]]:
    """Return a run's events of these names, all without."""
    path = run / "events.jsonl"
    told = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [one for one in told if not names or one["event"] in names]


def processes(folder: Path, word: str = "") -> list[int]:
    """Return the living processes whose command line or environment names something in this folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            command, environment = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
        except OSError:
            continue
        mine = str(folder).encode() in command or str(folder).encode() in environment
        if mine and command and word.encode() in command:
            found.append(int(entry.name))
    return found


def ports(run: Path) -> list[int]:
    """Return the ports that the logs of a run name."""
    texts = [path.read_text(errors="replace") for path in (run / "logs").rglob("*.log")]
    return sorted({int(port) for text in texts for port in re.findall(r"127\.0\.0\.1:(\d+)", text)})


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def until(true: Callable[[], object], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.1)
    return bool(true())


def nothing_left(folder: Path, run: Path) -> None:
    """Assert that of a deployment no process and no listening port is left, nor its keys and state."""
    assert until(lambda: not processes(folder), 15.0), processes(folder)
    assert {path.name for path in (run / "deploy").glob("*")} <= {".lock", ".programs"}
    # Ports of the range for outgoing connections are reused by others; only those that listen now and are ours count,
    # and no process of ours is left. What the logs name must at least not be a SuperLink any more.
    assert ports(run)
