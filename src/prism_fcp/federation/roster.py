"""Who takes part, who was refused or silent when and why, and who is put aside for it. It is saved with the run."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from prism_fcp.federation.agreement import Patience

MOST_REASONS: Final = 20  # kept a client: the latest
LONGEST_REASON: Final = 300


@dataclass(slots=True)
class Entry:
    """What is known of one client."""

    client: str
    joined: bool = False
    node: str = ""  # what the engine calls it at present
    samples: int = 0  # as it says
    answers: int = 0
    refused: int = 0
    silent: int = 0
    streak: int = 0  # refused or missing answers in a row
    times_aside: int = 0
    aside_until: int = 0  # it is not asked before this round
    bytes_up: int = 0
    bytes_down: int = 0
    reasons: list[str] = field(default_factory=list)


class Roster:
    """An entry for each declared client, by its place in the agreement."""

    def __init__(self, clients: tuple[str, ...], patience: Patience) -> None:
        """Begin with nobody there."""
        self.entries = [Entry(client) for client in clients]
        self.places = {client: place for place, client in enumerate(clients)}
        self._patience = patience
        self._held: list[Entry] | None = None

    def hold(self) -> None:
        """Remember the entries as they are: what is begun now is begun anew after a stop, and must not count twice."""
        self._held = [copy.copy(entry) for entry in self.entries]

    def release(self) -> None:
        """Let what was begun count."""
        self._held = None

    def kept(self) -> list[dict[str, Any]]:
        """Return the entries to save: those of before, where something has begun and not ended."""
        return self.to_json() if self._held is None else [asdict(entry) for entry in self._held]

    def __getitem__(self, index: int) -> Entry:
        """Return a client's entry."""
        return self.entries[index]

    def asked(self, index: int, round_number: int) -> bool:
        """Return whether a client is asked in this round: it has joined, and is not put aside."""
        entry = self.entries[index]
        return entry.joined and round_number >= entry.aside_until

    def answered(self, index: int, size: int) -> None:
        """Note an answer that counts."""
        entry = self.entries[index]
        entry.answers, entry.streak, entry.bytes_up = entry.answers + 1, 0, entry.bytes_up + size

    def refuse(self, index: int, round_number: int, reason: str) -> str | None:
        """Note an answer that was refused; return a sentence if the client is put aside for it."""
        self.entries[index].refused += 1
        return self._offence(index, round_number, reason)

    def silence(self, index: int, round_number: int, reason: str) -> str | None:
        """Note that no answer came; return a sentence if the client is put aside for it."""
        self.entries[index].silent += 1
        return self._offence(index, round_number, reason)

    def note(self, index: int, round_number: int, reason: str) -> None:
        """Keep a reason that is no offence."""
        entry = self.entries[index]
        entry.reasons = [*entry.reasons, f"round {round_number}: {reason}"[:LONGEST_REASON]][-MOST_REASONS:]

    def to_json(self) -> list[dict[str, Any]]:
        """Return all entries."""
        return [asdict(entry) for entry in self.entries]

    def restore(self, rows: list[Mapping[str, Any]]) -> None:
        """Take up saved entries; nobody is connected yet."""
        self.entries = [Entry(**{**row, "node": ""}) for row in rows]

    def _offence(self, index: int, round_number: int, reason: str) -> str | None:
        entry = self.entries[index]
        self.note(index, round_number, reason)
        entry.streak += 1
        if entry.streak < self._patience.offences:
            return None
        rounds = self._patience.aside * 2 ** min(entry.times_aside, 20)
        entry.times_aside, entry.streak = entry.times_aside + 1, 0
        entry.aside_until = round_number + 1 + rounds
        return (
            f"{entry.client}: put aside for {rounds} rounds after {self._patience.offences} refused or missing answers "
            f"in a row; last: {reason}"
        )
