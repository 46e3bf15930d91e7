"""Flower's strategy around the coordinator: who hears which message, and whose reply is whose.

A reply belongs to the client that was asked with the message it answers (`reply_to_message_id`); what it says of its
sender is not looked at, for the engine itself answers in place of nodes that do not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from prism_fcp.errors import DataError, PrismError, counted
from prism_fcp.federation.coordinator import Closed, Coordinator
from prism_fcp.federation.events import Events
from prism_fcp.federation.messages import unwrap, wrap
from prism_fcp.federation.payload import AGAIN, MOST_HEADER

ASK_AGAIN: Final = 5  # rounds until a node whose hello was refused is asked again; twice as many each further time
MOST_DOUBLINGS: Final = 10
MOST_REASONS: Final = 20
MOST_GONE: Final = 10_000  # refused nodes remembered that are not there


class QuorumError(PrismError):
    """Too few answers for too many rounds: the run stops where it can be resumed."""


class _Refusal(NamedTuple):
    """When a node is asked again, how often it was refused, and why last."""

    until: int  # the round
    times: int
    reason: str


class PrismStrategy(Strategy):
    """Partial sharing and robust aggregation as a Flower strategy; `kept` is called whenever a round is closed."""

    def __init__(self, coordinator: Coordinator, events: Events, kept: Callable[[], None] = lambda: None) -> None:
        """Take a coordinator; nodes are met when the run begins."""
        self.coordinator, self.events, self._kept = coordinator, events, kept
        self.nodes: dict[int, int] = {}  # node id -> client
        self._refused: dict[int, _Refusal] = {}  # by node id
        self._last_refusal = ""
        self._pending: list[tuple[Message, int]] = []
        self._began = time.monotonic()
        self._bytes_down = 0

    # Meeting clients

    def gather(self, grid: Grid) -> None:
        """Wait for the declared clients: until all are there, or until patience ends with a quorum of them."""
        patience, clients = self.coordinator.agreement.patience, self.coordinator.agreement.clients
        until, pause = time.monotonic() + patience.wait, 0.05
        while True:
            self.greet(grid, again=True)
            if len(self.nodes) == len(clients) or time.monotonic() >= until or getattr(grid, "complete", False):
                break
            time.sleep(pause)
            pause = min(1.0, 1.5 * pause)
        missing = [name for k, name in enumerate(clients) if not self.coordinator.roster[k].joined]
        if len(self.nodes) < min(self.coordinator.agreement.quorum, len(clients)):
            raise QuorumError(
                f"{len(self.nodes)} of {counted(len(clients), 'client')} came within {patience.wait:g} s, and "
                f"{self.coordinator.agreement.quorum} are needed; not there: {', '.join(missing[:10])}"
                f"{self._last_refusal}"
            )
        if missing:
            self.events.tell("missing", clients=missing)

    def greet(self, grid: Grid, again: bool = False) -> None:
        """Ask nodes that are new who they are, and tell those that begin what was agreed."""
        present = set(grid.get_node_ids())
        for node in [node for node in self.nodes if node not in present]:
            client = self.nodes.pop(node)
            self.coordinator.leave(client)
            self.events.tell("left", client=self.coordinator.name(client))
        now = self.coordinator.round + 1
        self._forget_some(present)
        new = [
            node for node in sorted(present)
            if node not in self.nodes and (again or node not in self._refused or self._refused[node].until <= now)
        ]  # fmt: skip
        if not new:
            return
        nonces = {node: self.coordinator.nonce() for node in new}
        asked = {node: self.coordinator.hello(nonces[node]) for node in new}
        for node, reply in self.ask(grid, "query.hello", asked).items():
            try:
                if isinstance(reply, DataError):
                    raise reply
                hello = self.coordinator.read_hello(reply, nonces[node])
                if self.coordinator.roster[hello.client].joined:
                    raise DataError(
                        f"a second node says it is {self.coordinator.name(hello.client)!r}; the first stays"
                    )
                self.coordinator.join(hello)
            except DataError as error:
                self._turn_away(node, now, str(error), not again)
                continue
            self._refused.pop(node, None)
            self.nodes[node] = hello.client
            self.coordinator.roster[hello.client].node = str(node)
            self.events.tell("joined", client=self.coordinator.name(hello.client), node=str(node), round=hello.round)
            if self.coordinator.terms is not None and hello.round is None:
                self.set_up(grid, [hello.client])

    def set_up(self, grid: Grid, clients: Iterable[int]) -> None:
        """Tell clients what was agreed; one that cannot follow is not asked further."""
        wanted = set(clients)
        asked = {node: self.coordinator.setup(client) for node, client in self.nodes.items() if client in wanted}
        for node, reply in self.ask(grid, "query.setup", asked).items():
            if isinstance(reply, DataError):
                client = self.nodes.pop(node)
                self.coordinator.leave(client)
                self.coordinator.roster.note(client, self.coordinator.round, f"setup: {reply}")
                self._turn_away(node, self.coordinator.round + 1, f"setup: {reply}", True, tell=False)
                self.events.tell("refused", client=self.coordinator.name(client), what="setup", reason=str(reply))

    def _turn_away(self, node: int, number: int, reason: str, count: bool, tell: bool = True) -> None:
        """Ask a node less often the more often it was refused: each time it stays silent costs everybody a wait."""
        before = self._refused.get(node, _Refusal(0, 0, ""))
        times = before.times + count
        until = number + ASK_AGAIN * 2 ** min(max(0, times - 1), MOST_DOUBLINGS)
        self._refused[node], self._last_refusal = _Refusal(until, times, reason), f"; refused last: {reason}"
        if tell and reason != before.reason:
            self.events.tell("node refused", node=str(node), reason=reason)

    def turned_away(self) -> list[str]:
        """Return why nodes that nobody could be told to be were refused last, each reason once."""
        return sorted({told.reason for told in self._refused.values()})[:MOST_REASONS]

    def _forget_some(self, present: Collection[int]) -> None:
        """Forget refused nodes that are gone, but not the latest: one that goes and comes again is no new one."""
        gone = [node for node in self._refused if node not in present]
        for node in gone[: max(0, len(gone) - MOST_GONE)]:
            del self._refused[node]

    def ask(
        self, grid: Grid, kind: str, asked: Mapping[int, bytes], most: int = MOST_HEADER
    ) -> dict[int, bytes | DataError]:
        """Send each node its bytes, and return each one's answer, or why there is none."""
        patience = self.coordinator.agreement.patience.deadline
        sent = [(Message(wrap(data), node, kind, ttl=patience), node) for node, data in asked.items()]
        replies = grid.send_and_receive([message for message, _ in sent], timeout=patience) if sent else []
        nodes = {message.metadata.message_id: node for message, node in sent}
        found: dict[int, bytes | DataError] = {}
        for reply in replies:
            node = nodes.get(reply.metadata.reply_to_message_id)
            if node is None or node in found:
                continue
            try:
                found[node] = unwrap(reply, most)
            except DataError as error:
                found[node] = error
        for node in asked:
            found.setdefault(node, DataError(f"no answer within {patience:g} s"))
        return found

    # Rounds

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Open a round: a task for each client it asks."""
        deadline = self.coordinator.agreement.patience.deadline
        self.greet(grid)
        self._await_quorum(grid, deadline)
        asked, places = self.coordinator.begin(), {client: node for node, client in self.nodes.items()}
        self._began, self._pending, self._bytes_down = time.monotonic(), [], 0
        group = str(self.coordinator.round + 1)
        last, content = b"", RecordDict()
        for client in asked:
            data = self.coordinator.task(client)
            self._bytes_down += len(data)
            if data != last:  # with a common mask everybody is told the same, and the engine takes it apart once
                last, content = data, wrap(data)
            message = Message(content, places[client], "train", ttl=deadline, group_id=group)
            self._pending.append((message, client))
        return [message for message, _ in self._pending]

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Take what can be believed, close the round, and keep where the run stands."""
        number = self.coordinator.round + 1
        # A message that could not be sent has no id: nothing answers it, and its client is a silent one.
        waiting = {message.metadata.message_id: client for message, client in self._pending}
        heard, up = set[int](), 0
        for reply in replies:
            client = waiting.pop(reply.metadata.reply_to_message_id, None)
            if client is None:
                self.events.tell("stray reply", round=number, reason="it answers nothing that is waited for")
                continue
            heard.add(client)
            try:
                data = unwrap(reply, 4 * len(self.coordinator.model))
                self.coordinator.take(client, data)
                up += len(data)
            except DataError as error:
                self._blame(client, number, str(error), reply.has_error())
                if str(error).endswith(AGAIN):
                    self._forget(client)
        for client in [client for _, client in self._pending if client not in heard]:
            self._blame(client, number, f"no answer within {self.coordinator.agreement.patience.deadline:g} s", True)
        self._pending = []
        closed = self.coordinator.close()
        self._told(closed, up)
        self._kept()
        if self.coordinator.void >= self.coordinator.agreement.patience.void_rounds:
            raise QuorumError(
                f"{self.coordinator.void} rounds in a row had fewer answers than the quorum of "
                f"{self.coordinator.agreement.quorum}; the last good model is kept, and resume goes on from it"
            )
        return None, None

    def _await_quorum(self, grid: Grid, deadline: float) -> None:
        """Wait as long as for answers for clients to come back, where too few are connected for a round to count."""
        until = time.monotonic() + deadline
        while len(self.nodes) < self.coordinator.agreement.quorum and not getattr(grid, "complete", False):
            left = until - time.monotonic()
            if left <= 0:
                break
            time.sleep(min(1.0, left))
            self.greet(grid)

    def _forget(self, client: int) -> None:
        """Let a client that has lost its state be met anew."""
        self.nodes = {node: k for node, k in self.nodes.items() if k != client}
        self.coordinator.leave(client)

    def _blame(self, client: int, number: int, reason: str, silent: bool) -> None:
        roster = self.coordinator.roster
        aside = (roster.silence if silent else roster.refuse)(client, number, reason)
        what = "silent" if silent else "refused"
        self.events.tell(what, client=self.coordinator.name(client), round=number, reason=reason)
        if aside:
            self.events.tell("put aside", client=self.coordinator.name(client), round=number, reason=aside)

    def _told(self, closed: Closed, bytes_up: int) -> None:
        left_out: list[str] = []
        if closed.ledger is not None:
            ids = closed.ledger.client_ids[closed.ledger.excluded]
            left_out = [self.coordinator.name(int(client)) for client in ids]
        self.events.tell(
            "round", round=closed.number, of=self.coordinator.agreement.training.rounds, asked=closed.asked,
            accepted=closed.accepted, counted=closed.counted, weakened=closed.weakened, left_out=left_out,
            bytes_up=bytes_up, bytes_down=self._bytes_down, seconds=round(time.monotonic() - self._began, 4),
        )  # fmt: skip

    # What the base class asks for, and this strategy does in its own way after training

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask nothing between rounds; coverage is measured once, after calibration."""
        return []

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Return nothing."""
        return None

    def summary(self) -> None:
        """Tell what is about to begin."""
        terms = self.coordinator.settled
        self.events.tell(
            "training", rounds=self.coordinator.agreement.training.rounds, since=self.coordinator.round,
            clients=len(self.nodes), parameters=len(self.coordinator.model), rule=terms.arm.rule.name,
            num_shared=terms.arm.masks.num_shared, why=terms.why,
        )  # fmt: skip
