"""One of Flower's servers, open to this user's processes alone: `python guard.py flower-superlink ARGUMENTS...`.

A SuperLink asks a SuperNode for its key, but one who starts a run, which is code to be executed here, for nothing; nor
does a SuperNode ask who fetches its tasks. On one machine that would hand this account to whoever has another. So each
connection's owner is looked up (Linux: /proc/net), and others are answered 403. Elsewhere, and where the table cannot
be read, only the loopback address is asked for; the log says so.

A program by itself, run by its path: Flower's own entry point, with the servers that uvicorn makes wrapped.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from importlib.metadata import entry_points
from typing import Any

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_ESTABLISHED = "01"  # one that is closed already has no owner any more
_Scope = MutableMapping[str, Any]
_App = Callable[[_Scope, Callable[..., Any], Callable[..., Any]], Awaitable[None]]


class Guard:
    """An ASGI application that passes on what this user asks, and refuses the rest."""

    def __init__(self, app: _App, *, seeing: bool = True) -> None:
        """Take the application; `seeing`: can the owners of connections be looked up?"""
        self._app, self._seeing = app, seeing

    async def __call__(self, scope: _Scope, receive: Callable[..., Any], send: Callable[..., Any]) -> None:
        """Answer, pass on, or refuse."""
        if scope["type"] == "lifespan" or self._ours(scope):
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await send({"type": "http.response.start", "status": 403, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})
        else:
            await send({"type": "websocket.close", "code": 1008})

    def _ours(self, scope: _Scope) -> bool:
        client, server = scope.get("client"), scope.get("server")
        if not client or not server or client[0] not in ("127.0.0.1", "::1"):
            return False
        return not self._seeing or owner(int(client[1]), int(server[1])) == os.getuid()


def owner(port: int, to: int) -> int | None:
    """Return the user at the far end of a loopback connection from one port to another, or None if it is not found."""
    for table in _TABLES:
        try:
            with open(table, encoding="ascii") as file:
                rows = [line.split() for line in file.readlines()[1:]]
        except OSError:
            continue
        for row in rows:
            ends = [int(end.rpartition(":")[2], 16) for end in row[1:3]]
            if ends == [port, to] and row[3] == _ESTABLISHED:
                return int(row[7])
    return None


def seeing() -> bool:
    """Return whether owners can be looked up here, by looking up our own."""
    with socket.create_server(("127.0.0.1", 0)) as door, socket.create_connection(door.getsockname()) as out:
        inside, (_, port) = door.accept()
        with inside:
            return owner(port, out.getpeername()[1]) == os.getuid()


def main(program: str, arguments: list[str]) -> None:
    """Run one of Flower's programs with its servers guarded."""
    import uvicorn

    sees, load = seeing(), uvicorn.Config.load
    if not sees:
        print("guard: who connects cannot be seen here; every user of this machine can", file=sys.stderr, flush=True)

    def guarded(self: uvicorn.Config) -> None:
        load(self)
        self.loaded_app = Guard(self.loaded_app, seeing=sees)

    uvicorn.Config.load = guarded  # type: ignore[method-assign]
    (found,) = entry_points(group="console_scripts", name=program)
    sys.argv = [program, *arguments]
    found.load()()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
