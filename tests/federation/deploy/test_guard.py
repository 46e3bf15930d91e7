"""The guard lets this user's processes through, and nobody else's."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from typing import Any

import pytest

from prism_fcp.federation.deploy.guard import Guard, owner, seeing

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/net")
KNOCK = """
import encodings.idna, os, socket, sys  # all before: another user may not read this interpreter's files
os.setuid(65534)
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as out:
    out.sendall(b"x")
    out.recv(1)
"""


def ask(scope: dict[str, Any], **settings: bool) -> list[dict[str, Any]]:
    """Return what a guarded application sends to a request of this scope; the application itself sends `passed`."""
    sent: list[dict[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "passed"})

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(Guard(app, **settings)(scope, None, send))  # type: ignore[arg-type]
    return sent


def test_our_own_connection_passes_and_a_closed_one_does_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        with socket.create_connection(door.getsockname()) as out:
            inside, client = door.accept()
            scope = {"type": "http", "client": client, "server": door.getsockname()}
            assert owner(client[1], door.getsockname()[1]) == os.getuid()
            assert ask(scope) == [{"type": "passed"}]
            out.close()
            assert owner(client[1], door.getsockname()[1]) is None
            assert ask(scope)[0]["status"] == 403
            inside.close()
    assert seeing()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can play another user")
def test_another_user_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        door.settimeout(20.0)
        port = str(door.getsockname()[1])
        with subprocess.Popen([sys.executable, "-I", "-c", KNOCK, port]) as stranger:
            inside, client = door.accept()
            with inside:
                inside.recv(1)
                assert owner(client[1], int(port)) == 65534
                scope = {"client": client, "server": door.getsockname()}
                assert ask({"type": "http", **scope})[0]["status"] == 403
                assert ask({"type": "websocket", **scope}) == [{"type": "websocket.close", "code": 1008}]
                inside.sendall(b"x")
            assert stranger.wait(10) == 0


@pytest.mark.parametrize("client", [("192.0.2.7", 4711), None])
@pytest.mark.parametrize("sees", [True, False])
def test_what_comes_from_elsewhere_is_refused(client: tuple[str, int] | None, sees: bool) -> None:
    scope = {"type": "http", "client": client, "server": ("127.0.0.1", 9)}
    assert ask(scope, seeing=sees)[0]["status"] == 403


def test_where_nobody_can_be_seen_the_loopback_address_is_enough() -> None:
    scope = {"type": "http", "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 9)}
    assert ask(scope)[0]["status"] == 403
    assert ask(scope, seeing=False) == [{"type": "passed"}]


def test_the_start_of_a_server_is_no_request() -> None:
    assert ask({"type": "lifespan"}) == [{"type": "passed"}]
