"""Whose reply is whose, and nodes that come, go, double and stay silent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr")

import httpx  # noqa: E402
from flwr.app import Error, Message, RecordDict  # noqa: E402

from prism_fcp.federation.agreement import Patience  # noqa: E402
from prism_fcp.federation.grid import InProcessGrid, WaitingGrid  # noqa: E402
from prism_fcp.federation.messages import wrap  # noqa: E402
from prism_fcp.federation.strategy import QuorumError  # noqa: E402
from tests.federation.small import NAMES, agreement, events, play, worth  # noqa: E402

PATIENCE = Patience(wait=0.0, deadline=0.2, offences=2, aside=2)


def agreed(**changes: Any) -> Any:
    from dataclasses import replace

    made = agreement(patience=PATIENCE)
    return replace(made, training=replace(made.training, participants=None), **changes)


def changed(change: Callable[[list[Message], int], list[Message]]) -> type[InProcessGrid]:
    """Return a grid that changes the replies of training rounds as a list."""

    class Changed(InProcessGrid):
        number = 0

        def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
            asked = list(messages)
            replies = list(super().send_and_receive(asked, timeout=timeout))
            if asked and asked[0].metadata.message_type == "train":
                type(self).number += 1
                replies = change(replies, self.number)
            return replies

    return Changed


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("clean")
    play(agreed(), folder)
    return worth(folder)


def test_the_order_of_replies_means_nothing(tmp_path: Path, clean: dict[str, Any]) -> None:
    play(agreed(), tmp_path, grid=changed(lambda replies, number: replies[::-1]))
    assert worth(tmp_path) == clean


def test_a_reply_that_comes_twice_counts_once(tmp_path: Path, clean: dict[str, Any]) -> None:
    play(agreed(), tmp_path, grid=changed(lambda replies, number: [*replies, *replies[:2]]))
    assert worth(tmp_path) == clean
    assert sum(one["event"] == "stray reply" for one in events(tmp_path)) == 2 * 9


def test_a_reply_of_an_earlier_round_is_a_stray(tmp_path: Path, clean: dict[str, Any]) -> None:
    kept: list[Message] = []

    def late(replies: list[Message], number: int) -> list[Message]:
        old, kept[:] = list(kept), replies[:1]
        return [*old, *replies]

    play(agreed(), tmp_path, grid=changed(late))
    assert worth(tmp_path) == clean
    assert sum(one["event"] == "stray reply" for one in events(tmp_path)) == 8


def test_a_reply_to_nothing_is_a_stray(tmp_path: Path, clean: dict[str, Any]) -> None:
    def forged(replies: list[Message], number: int) -> list[Message]:
        question = Message(RecordDict(), 1, "train")
        question.metadata.__dict__["_message_id"] = f"forged-{number}"
        return [Message(wrap(bytes(12)), reply_to=question), *replies]

    play(agreed(), tmp_path, grid=changed(forged))
    assert worth(tmp_path) == clean


def test_who_a_reply_says_it_comes_from_is_not_looked_at(tmp_path: Path, clean: dict[str, Any]) -> None:
    def from_another(replies: list[Message], number: int) -> list[Message]:
        for reply in replies:
            reply.metadata.__dict__["_src_node_id"] = 1
        return replies

    play(agreed(), tmp_path, grid=changed(from_another))
    assert worth(tmp_path) == clean


def failing(replies: list[Message], number: int) -> list[Message]:
    """The engine answers in place of the second client in rounds 2 and 3, and nothing comes in round 8."""
    if number in (2, 3):
        question = Message(RecordDict(), 2, "train")
        question.metadata.__dict__["_message_id"] = replies[1].metadata.reply_to_message_id
        replies[1] = Message(Error(code=3, reason="node unavailable"), reply_to=question)
    return replies if number != 6 else [*replies[:1], *replies[2:]]


def test_errors_of_the_engine_are_silence_and_put_aside(tmp_path: Path) -> None:
    told = play(agreed(), tmp_path, grid=changed(failing))
    east = told["roster"][1]
    # Asked in 1, silent in 2 and 3, aside in 4 and 5, silent in 6, back in 7 to 9.
    assert (east["answers"], east["silent"], east["refused"], east["times_aside"]) == (4, 3, 0, 1)
    assert "no answer: the engine says node unavailable (3)" in east["reasons"][0]
    assert "no answer within 0.2 s" in east["reasons"][2]
    asked = [one["asked"] for one in events(tmp_path) if one["event"] == "round"]
    assert asked == [6, 6, 6, 5, 5, 6, 6, 6, 6]


def test_messages_that_cannot_be_sent_are_silence_for_each(tmp_path: Path) -> None:
    class Unsent(InProcessGrid):
        complete = False

        def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
            pushed = []
            for message in messages:
                lost = message.metadata.message_type == "train" and message.metadata.dst_node_id in (2, 5)
                pushed += [""] if lost else list(super().push_messages([message]))
            return pushed

    class Waiting(WaitingGrid):
        def __init__(self, *told: Any) -> None:
            super().__init__(Unsent(*told))

    told = play(agreed(), tmp_path, grid=Waiting)  # type: ignore[arg-type]
    assert [row["silent"] for row in told["roster"]] == [0, 4, 0, 0, 4, 0]


class Coming(InProcessGrid):
    """Nodes that are there in some rounds only: a round is counted by the times the nodes are asked for."""

    complete = False
    away: Mapping[int, range] = {}
    looks = 0

    def get_node_ids(self) -> Iterable[int]:
        type(self).looks += 1
        return [node for node in super().get_node_ids() if self.looks not in self.away.get(node, range(0))]


def test_a_node_that_goes_and_comes_back(tmp_path: Path) -> None:
    class Once(Coming):
        away = {3: range(4, 7), 6: range(5)}  # noqa: RUF012

    told = play(agreed(), tmp_path, grid=Once)
    names = [(one["event"], one["client"]) for one in events(tmp_path) if one["event"] in ("joined", "left")]
    assert names.count(("joined", "south")) == 2 and names.count(("left", "south")) == 1
    south, coast = told["roster"][2], told["roster"][5]
    assert south["silent"] == south["refused"] == coast["silent"] == 0 and set(told["kept"]) == set(NAMES)
    assert 0 < coast["answers"] < 9 and 0 < south["answers"] < 9


def test_a_refused_node_that_goes_and_comes_again_is_no_new_one(tmp_path: Path) -> None:
    asked = list[int]()

    class Blinking(Coming):
        """Node 6 is there at every other look, and answers no hello: each one costs everybody a deadline."""

        away = {6: range(1, 10**9, 2)}  # noqa: RUF012

        def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
            kept = list(messages)
            hellos = [one for one in kept if one.metadata.message_type == "query.hello"]
            asked.extend(one.metadata.dst_node_id for one in hellos)
            return super().send_and_receive([one for one in kept if one.metadata.dst_node_id != 6], timeout=timeout)

    told = play(agreed(), tmp_path, grid=Blinking)
    assert told["rounds"] == 9 and told["turned_away"] == ["no answer within 0.2 s"]
    assert asked.count(6) <= 3  # of the five times it was seen to come


def test_with_too_few_nodes_a_round_waits_and_the_run_stops_where_it_goes_on(tmp_path: Path) -> None:
    class Gone(Coming):
        away = dict.fromkeys((1, 2, 3, 4), range(4, 10**9))  # noqa: RUF012

    impatient = Patience(wait=0.0, deadline=0.1, void_rounds=3)
    with pytest.raises(QuorumError, match="3 rounds in a row had fewer answers than the quorum of 4; the last good"):
        play(agreed(patience=impatient), tmp_path, grid=Gone)
    rounds = [one for one in events(tmp_path) if one["event"] == "round"]
    assert [one["counted"] for one in rounds][-3:] == [False] * 3
    told = play(agreed(patience=impatient), tmp_path)
    assert told["rounds"] == 9 and set(told["kept"]) == set(NAMES)


def test_too_few_clients_do_not_begin(tmp_path: Path) -> None:
    class Three(InProcessGrid):
        def get_node_ids(self) -> Iterable[int]:
            return [1, 2, 3]

    with pytest.raises(QuorumError, match="3 of 6 clients came within 0 s, and 4 are needed; not there: west, centre"):
        play(agreed(), tmp_path, grid=Three)
    assert not (tmp_path / "checkpoint.npz").exists()


def test_a_second_node_of_one_name_is_refused_and_told_of_once(tmp_path: Path, clean: dict[str, Any]) -> None:
    play(agreed(), tmp_path, nodes=(*NAMES, "north", "nobody"))
    assert worth(tmp_path) == clean
    told = [one["reason"] for one in events(tmp_path) if one["event"] == "node refused"]
    assert len(told) == 2
    assert any("a second node says it is 'north'; the first stays" in one for one in told)
    assert any("'nobody' is not among the declared clients" in one or "site" in one for one in told)


def test_the_waiting_grid_returns_what_comes_in_time() -> None:
    class Slow(InProcessGrid):
        looks = 0

        def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
            self.looks += 1
            names = sorted(message_ids)
            return super().pull_messages(names[:1] if self.looks > 2 else [])

    from flwr.clientapp import ClientApp

    app = ClientApp()

    @app.train()
    def train(message: Message, context: Any) -> Message:
        return Message(RecordDict(), reply_to=message)

    slow = Slow(app, [{}, {}, {}], {})
    replies = list(WaitingGrid(slow).send_and_receive([Message(RecordDict(), k, "train") for k in (1, 2, 3)]))
    assert len(replies) == 3 and slow.looks == 5
    late = WaitingGrid(Slow(app, [{}], {}))
    assert list(late.send_and_receive([Message(RecordDict(), 1, "train")], timeout=0.0)) == []


def test_a_reply_that_flower_cannot_put_together_is_its_senders_fault_alone(tmp_path: Path) -> None:
    class Broken(InProcessGrid):
        """A reply of node 3 raises, and, as in Flower, what was fetched with it is lost."""

        complete = False

        def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
            found = list(super().pull_messages(message_ids))
            if any(one.metadata.src_node_id == 3 and one.metadata.message_type == "train" for one in found):
                raise KeyError("an object of another type")
            return found

    class Waiting(WaitingGrid):
        def __init__(self, *told: Any) -> None:
            super().__init__(Broken(*told))

    told = play(agreed(patience=Patience(wait=0.0, deadline=0.3, offences=2, aside=2)), tmp_path, grid=Waiting)  # type: ignore[arg-type]
    south = told["roster"][2]
    assert told["rounds"] == 9 and south["answers"] == 0 and south["times_aside"] >= 1
    assert any("its reply cannot be put together (KeyError)" in one for one in south["reasons"])
    # The others lost the round in which it first happened, and no other.
    assert [row["silent"] for place, row in enumerate(told["roster"]) if place != 2] == [1] * 5
    assert [row["refused"] for row in told["roster"]] == [0] * 6


def test_a_superlink_that_is_gone_is_no_reply() -> None:
    class Gone(InProcessGrid):
        def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
            raise httpx.ConnectError("refused")

    from flwr.clientapp import ClientApp

    with pytest.raises(httpx.ConnectError):
        WaitingGrid(Gone(ClientApp(), [{}], {})).send_and_receive([Message(RecordDict(), 1, "train")], timeout=1.0)
