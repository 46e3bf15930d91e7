"""A Flower grid in one process, and one that waits for replies without idling.

`InProcessGrid` runs the same client app and the same strategy as a deployment, without Ray and without a network: for
tests, for drills, and for federations that fit one machine.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Mapping
from itertools import count
from typing import Any, Final

import httpx
from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

_LOG: Final = logging.getLogger("prism_fcp")
FIRST_PAUSE: Final = 0.02  # seconds between looks for replies
LONGEST_PAUSE: Final = 1.0
_UNUSABLE: Final = 4  # Flower's code for a reply that is not to be had


class InProcessGrid(Grid):
    """Nodes 1..K in this process, each with a context of its own; `nodes` are their node configs."""

    complete = True  # no other node will ever come: nobody waits for one

    def __init__(self, app: ClientApp, nodes: Iterable[Mapping[str, Any]], run_config: Mapping[str, Any]) -> None:
        """Make the nodes. Flower's messages want to know who makes them: the server of run 1."""
        self._app, self._numbers = app, count(1)
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 0, 1
        self._contexts = {
            place: Context(1, place, dict(config), RecordDict(), dict(run_config))
            for place, config in enumerate(nodes, 1)
        }
        self._replies: dict[str, Message] = {}

    def set_run(self, run: Run) -> None:
        """Take a run; there is one only."""

    @property
    def run(self) -> Run:
        """Return a run without a record of its own."""
        return Run.create_empty(1)

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """Make a message as Flower's constructor does."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """Return the nodes."""
        return list(self._contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Deliver messages, each answered before the next."""
        pushed = []
        for message in messages:
            name = f"m{next(self._numbers)}"
            message.metadata.__dict__["_message_id"] = name
            self._replies[name] = self._answer(message)
            pushed.append(name)
        return pushed

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the answers."""
        return [self._replies.pop(name) for name in message_ids if name in self._replies]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Deliver messages and return the answers."""
        return self.pull_messages(self.push_messages(messages))

    def _answer(self, message: Message) -> Message:
        context = self._contexts.get(message.metadata.dst_node_id)
        if context is None:
            return Message(Error(code=1, reason="no such node"), reply_to=message)
        try:
            return self._app(message, context)
        except Exception as error:  # as a client's process does: the reply tells it
            return Message(Error(code=2, reason=f"{type(error).__name__}: {error}"), reply_to=message)


class WaitingGrid(Grid):
    """Another grid whose replies are looked for often at first and rarely later, not every three seconds.

    Flower puts a reply together from what a site stored for it. One that cannot be put together raises, and takes the
    replies fetched with it along; from the first such on each is fetched by itself, and the bad one stands as an error.
    """

    def __init__(self, grid: Grid) -> None:
        """Take the grid of a run."""
        self._grid, self._singly = grid, False
        self.complete = bool(getattr(grid, "complete", False))

    def set_run(self, run: Run) -> None:
        """Pass it on."""
        self._grid.set_run(run)

    @property
    def run(self) -> Run:
        """Return the grid's run."""
        return self._grid.run

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """Pass it on."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """Return the nodes that are there."""
        return self._grid.get_node_ids()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Pass them on."""
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Pass it on."""
        return self._grid.pull_messages(message_ids)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Send messages and return the replies that come in time."""
        asked = list(messages)
        sent = {name: message for name, message in zip(self.push_messages(asked), asked, strict=False) if name}
        waiting = set(sent)  # without those that could not be sent: they have no name
        until = time.monotonic() + (timeout if timeout is not None else float("inf"))
        replies: list[Message] = []
        pause = FIRST_PAUSE
        while waiting:
            came = self._pulled(waiting, sent)
            replies += came
            waiting -= {reply.metadata.reply_to_message_id for reply in came}
            left = until - time.monotonic()
            if not waiting or left <= 0:
                break
            pause = FIRST_PAUSE if came else min(1.5 * pause, LONGEST_PAUSE)
            time.sleep(min(pause, left))
        return replies

    def _pulled(self, names: Collection[str], sent: Mapping[str, Message]) -> list[Message]:
        """Return what has come."""
        if not self._singly:
            try:
                return list(self.pull_messages(names))
            except (httpx.HTTPError, OSError):  # the way to the SuperLink, and no reply's fault
                raise
            except Exception as error:
                _LOG.warning("a reply cannot be put together (%s); each is fetched alone now", type(error).__name__)
                self._singly = True
        return [reply for name in names for reply in self._alone(name, sent[name])]

    def _alone(self, name: str, message: Message) -> list[Message]:
        try:
            return list(self.pull_messages([name]))
        except (httpx.HTTPError, OSError):
            raise
        except Exception as error:  # its text may be of a client's making: the kind says enough
            told = Error(code=_UNUSABLE, reason=f"its reply cannot be put together ({type(error).__name__})")
            return [Message(told, reply_to=message)]
