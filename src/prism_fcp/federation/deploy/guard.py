"""One of Flower's servers, open to this user's processes alone: `python guard.py flower-superlink ARGUMENTS...`.

A SuperLink asks a SuperNode for its key, but one who starts a run, which is code to be executed here, for nothing; nor
does a SuperNode ask who fetches its tasks. On one machine that would hand this account to whoever has another. So each
connection's owner is looked up (on Linux), and others are answered 403. Elsewhere, and where the table cannot
be read, only the loopback address is asked for; the log says so.

A program by itself, run by its path: Flower's own entry point, with the servers that uvicorn makes wrapped.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from importlib.metadata import entry_points
from typing import Any

_LOOPBACK = "127.0.0.1"
_ESTABLISHED = 1  # a socket that is closed already has no owner any more
_SOCK_DIAG, _BY_FAMILY, _REQUEST = 4, 20, 1  # linux/netlink.h, linux/sock_diag.h
_HEADER, _ASKED, _FOUND = struct.Struct("=IHHII"), struct.Struct("=BBBBI"), struct.Struct("=BBBB")
_ENDS, _ANY = struct.Struct("!HH4s12x4s12x"), struct.Struct("=III")
_Scope = MutableMapping[str, Any]
_App = Callable[[_Scope, Callable[..., Any], Callable[..., Any]], Awaitable[None]]
Look = Callable[[int, int], "int | None"]


class Guard:
    """An ASGI application that passes on what this user asks, and refuses the rest."""

    def __init__(self, app: _App, look: Look | None) -> None:
        """Take the application, and what looks up who is at the far end of a connection, if anything can."""
        self._app, self._look = app, look

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
        if not client or not server or client[0] != _LOOPBACK:
            return False
        return self._look is None or self._look(int(client[1]), int(server[1])) == os.getuid()


def by_kernel(port: int, to: int) -> int | None:
    """Return the user whose connection goes from one loopback port to another, or None; the kernel finds the one."""
    here = socket.inet_aton(_LOOPBACK)
    ends = _ENDS.pack(port, to, here, here) + _ANY.pack(0, 0xFFFFFFFF, 0xFFFFFFFF)
    asked = _ASKED.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF) + ends
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        kernel.send(_HEADER.pack(_HEADER.size + len(asked), _BY_FAMILY, _REQUEST, 1, 0) + asked)
        told = kernel.recv(4096)
    if _HEADER.unpack_from(told)[1] != _BY_FAMILY:
        return None
    _, state, _, _ = _FOUND.unpack_from(told, _HEADER.size)
    at = _HEADER.size + _FOUND.size
    same = _ENDS.unpack_from(told, at)[:2] == (port, to)  # and not one that merely listens there
    (user,) = struct.unpack_from("=I", told, at + len(ends) + 12)
    return int(user) if same and state == _ESTABLISHED else None


def by_table(port: int, to: int) -> int | None:
    """Return the same from the table of all connections, which takes a hundred times as long."""
    with open("/proc/net/tcp", encoding="ascii") as file:
        rows = [line.split() for line in file.readlines()[1:]]
    for row in rows:
        ends = [int(end.rpartition(":")[2], 16) for end in row[1:3]]
        if ends == [port, to] and int(row[3], 16) == _ESTABLISHED:
            return int(row[7])
    return None


def looking() -> Look | None:
    """Return what can look up owners here: it was tried on a connection of our own."""
    with socket.create_server((_LOOPBACK, 0)) as door, socket.create_connection(door.getsockname()) as out:
        inside, (_, port) = door.accept()
        with inside:
            for look in (by_kernel, by_table):
                try:
                    if look(port, out.getpeername()[1]) == os.getuid():
                        return look
                except (OSError, AttributeError, struct.error):  # no such socket, file or answer on this system
                    continue
    return None


def main(program: str, arguments: list[str]) -> None:
    """Run one of Flower's programs with its servers guarded."""
    import uvicorn

    look, load = looking(), uvicorn.Config.load
    if look is None:
        print("guard: who connects cannot be seen here; every user of this machine can", file=sys.stderr, flush=True)

    def guarded(self: uvicorn.Config) -> None:
        load(self)
        self.loaded_app = Guard(self.loaded_app, look)

    uvicorn.Config.load = guarded  # type: ignore[method-assign]
    (found,) = entry_points(group="console_scripts", name=program)
    sys.argv = [program, *arguments]
    found.load()()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
