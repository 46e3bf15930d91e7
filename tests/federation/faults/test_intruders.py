"""Who has no business at a SuperLink with TLS and keys does not get in."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from prism_fcp.federation.deploy import Deployment, make_certificates, make_node_key
from prism_fcp.federation.deploy.program import Program, environment, find, free_ports
from tests.federation.deploy.real import nothing_left, until
from tests.federation.faults.conftest import Saw

pytestmark = [
    pytest.mark.faults,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
]
PATIENCE = 25.0  # seconds an intruder is given to get in


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    folder = tmp_path_factory.mktemp("guarded")
    with Deployment(folder, {"north": {"client": "north", "site": "/nowhere"}}, tell=print) as made:
        assert until(lambda: states(made) == ["online"], 60.0)
        yield made
    nothing_left(folder, folder)


def states(deployment: Deployment) -> list[str]:
    """Return the states of the nodes that the SuperLink knows."""
    command = [find("flwr"), "supernode", "list", "federation", "--format", "json"]
    home = deployment.place / "control"
    env = environment(home, deployment.place / "tmp")
    done = subprocess.run(command, env=env, cwd=home, capture_output=True, text=True, check=True)
    told = json.loads(done.stdout[done.stdout.index("{") :])
    return sorted(str(one["status"]) for one in told["nodes"])


def intrude(deployment: Deployment, name: str, *secure: str) -> tuple[str, float]:
    """Start a SuperNode with these papers and return what it logged, and when it gave up (or was given up on)."""
    home = deployment.place / "nodes" / name
    home.mkdir(parents=True, exist_ok=True)
    log = deployment.logs / f"{name}.log"
    command = [
        find("flower-supernode"), "--superlink", deployment.address, "--host", "127.0.0.1",
        "--port", str(free_ports(1)[0]), "--max-wait-time", "10", "--node-config", 'client="north"', *secure,
    ]  # fmt: skip
    env = environment(home, deployment.place / "tmp")
    before = states(deployment)
    began = time.monotonic()
    program = Program(name, command, log, env, cwd=home, hold=deployment.hold)
    try:
        program.wait(PATIENCE)
        seconds = time.monotonic() - began
        assert states(deployment) == before and before.count("online") == 1  # the one that belongs here alone
        text = log.read_text(errors="replace")
        assert "SuperNode ID" not in text
        return text, seconds
    finally:
        program.stop()


def last(text: str) -> str:
    """Return the line that says why."""
    told = [re.sub(r"\x1b\[\d+m", "", line).strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in told if any(word in line.lower() for word in ("error", "exit code", "fail", "refus"))]
    return (telling or told)[-1][:200]


def trusting(authority: Path) -> tuple[str, str]:
    return "--root-certificates", str(authority)


def holding(key: Path) -> tuple[str, str]:
    return "--auth-supernode-private-key", str(key)


def ours(deployment: Deployment) -> tuple[str, str]:
    assert deployment.certificates is not None
    return trusting(deployment.certificates.authority)


def test_an_unknown_key(deployment: Deployment, saw: Saw) -> None:
    key = make_node_key(deployment.place / "keys" / "eve")
    text, seconds = intrude(deployment, "unknown", *ours(deployment), *holding(key.private))
    saw("unknown key", last(text), seconds)


def test_no_key_at_all(deployment: Deployment, saw: Saw) -> None:
    text, seconds = intrude(deployment, "keyless", *ours(deployment))
    saw("no key", last(text), seconds)


def test_a_key_that_is_in_use(deployment: Deployment, saw: Saw) -> None:
    text, seconds = intrude(deployment, "double", *ours(deployment), *holding(deployment.place / "keys" / "north"))
    saw("duplicate key", last(text), seconds)


def test_another_authority(deployment: Deployment, saw: Saw, tmp_path: Path) -> None:
    other = make_certificates(tmp_path / "other")
    key = make_node_key(deployment.place / "keys" / "lost")
    deployment.control.register(key.public)  # the SuperLink knows it, but it cannot tell the SuperLink
    text, seconds = intrude(deployment, "lost", *trusting(other.authority), *holding(key.private))
    saw("wrong CA", last(text), seconds)


def test_plain_text(deployment: Deployment, saw: Saw) -> None:
    text, seconds = intrude(deployment, "plain", "--insecure")
    saw("plain-text client", last(text), seconds)


STRANGER = """
import encodings.idna, http.client, os, ssl, sys  # all before: another user may not read this interpreter's files
context = ssl._create_unverified_context()
os.setuid(65534)
line = http.client.HTTPSConnection(sys.argv[1], context=context, timeout=20)
line.request("POST", "/v1/" + sys.argv[2], b"")
print(line.getresponse().status)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can play another user")
def test_another_user_of_this_machine(deployment: Deployment, saw: Saw) -> None:
    """Flower itself has no login where runs are started, nodes registered and tasks fetched."""
    asked = ("control/list-runs", "control/register-node", "runtime/acquire-task", "fleet/activate-node")
    began = time.monotonic()
    command = [sys.executable, "-I", "-c", STRANGER, deployment.address]
    told = {path: subprocess.run([*command, path], capture_output=True, text=True).stdout.strip() for path in asked}
    assert set(told.values()) == {"403"}, told
    ours = [word.replace("os.setuid(65534)", "pass") for word in command]
    passed = subprocess.run([*ours, asked[0]], capture_output=True, text=True).stdout.strip()
    assert passed not in ("", "403")  # it is the user that is refused, not the question
    saw("another user of the machine", "403 for runs, registrations and tasks", time.monotonic() - began)
