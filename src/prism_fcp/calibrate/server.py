"""The coordinator's side: takes summaries in any order, keeps each on the disk before it says so, and concludes.

Everything stands in one SQLite file, so that no accepted summary is lost whenever the process ends. Accepting a
summary and writing its receipt is one transaction.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, NamedTuple

from prism_fcp import io
from prism_fcp.calibrate import wire
from prism_fcp.calibrate.calibration import Calibration, ClientId
from prism_fcp.calibrate.combine import calibrate_summaries
from prism_fcp.calibrate.judgement import Filter
from prism_fcp.calibrate.spec import CalibrationSpec, read_time, stamp
from prism_fcp.calibrate.summary import ClientSummary
from prism_fcp.calibrate.trust import Trust
from prism_fcp.errors import DataError, SettingError

KIND: Final = "calibration-state"
MOST_REFUSALS: Final = 10_000  # receipts kept of what was turned away, so that nobody can fill the disk with them
Status = Literal["accepted", "repeated", "refused"]
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS accepted (
    client TEXT PRIMARY KEY, digest TEXT NOT NULL, at TEXT NOT NULL, late INTEGER NOT NULL, data BLOB NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS withdrawn (
    digest TEXT PRIMARY KEY, client TEXT NOT NULL, at TEXT NOT NULL, why TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS receipts (
    number INTEGER PRIMARY KEY AUTOINCREMENT, status TEXT NOT NULL, client TEXT NOT NULL, digest TEXT NOT NULL,
    at TEXT NOT NULL, late INTEGER NOT NULL, reason TEXT NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS others ON receipts (number) WHERE status != 'accepted';
CREATE TABLE IF NOT EXISTS results (version INTEGER PRIMARY KEY, of TEXT NOT NULL, at TEXT NOT NULL) STRICT;
"""


class Receipt(NamedTuple):
    """What became of a submission."""

    status: Status  # "repeated": these very bytes were accepted before, and nothing changed
    client: str  # whom the bytes name; empty where they could not be read
    digest: str  # SHA-256 of the bytes
    at: str
    late: bool
    reason: str

    @property
    def accepted(self) -> bool:
        """Return whether the summary counts."""
        return self.status != "refused"

    def to_json(self) -> dict[str, Any]:
        """Return the receipt as a table."""
        return self._asdict()


class CalibrationServer:
    """Collects the summaries of one spec. With `trust`, only those signed by a key of their client's are accepted.

    `path` names the SQLite file; without one nothing outlives the object. Several processes may use one file.
    """

    def __init__(
        self,
        spec: CalibrationSpec,
        *,
        filter: Filter | None = None,
        suspects: int | None = None,
        evidence: Mapping[ClientId, float] | None = None,
        trust: Trust | None = None,
        path: Path | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Open the file, or make it; one that was made for another spec is refused."""
        self.spec, self._filter, self._suspects, self._evidence = spec, filter, suspects, evidence
        self._trust, self._now = trust, now
        self._file = io.database(path, _TABLES)
        with self._writing():
            self._claim()

    def __enter__(self) -> CalibrationServer:
        """Return itself; leaving closes the file."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the file."""
        self.close()

    def close(self) -> None:
        """Close the file. What was accepted is in it."""
        self._file.close()

    def submit(self, data: bytes) -> Receipt:
        """Take a summary's bytes, whoever sent them, and say what became of them."""
        at, digest = self._now(), wire.digest(data)
        late = bool(self.spec.deadline) and at > read_time(self.spec.deadline)
        try:
            summary = wire.decode(data)
        except DataError as error:
            return self._record(Receipt("refused", "", digest, stamp(at), late, str(error)), None)
        problem = self._problem(summary, at, late)
        status: Status = "refused" if problem else "accepted"
        reason = problem or (f"accepted late: {self._due()}" if late else "accepted")
        return self._record(Receipt(status, summary.client, digest, stamp(at), late, reason), data)

    def refuse(self, client: str, why: str) -> Receipt:
        """Note that a client sent nothing that could be a summary of its own: the result names it, with the reason."""
        at = stamp(self._now())
        return self._record(Receipt("refused", client, wire.digest(b""), at, False, why), None)

    def withdraw(self, client: str, why: str) -> None:
        """Take an accepted summary back, so that its client may send another; the same bytes stay refused."""
        with self._writing():
            found = self._file.execute("SELECT digest FROM accepted WHERE client = ?", (client,)).fetchone()
            if found is None:
                raise SettingError(f"withdraw: no summary of client {client!r:.60} was accepted")
            self._file.execute("DELETE FROM accepted WHERE client = ?", (client,))
            row = (found[0], client, stamp(self._now()), why)
            self._file.execute("INSERT OR REPLACE INTO withdrawn VALUES (?, ?, ?, ?)", row)

    def finalise(self) -> Calibration:
        """Return the calibration of what was accepted so far; with other summaries than before it has a new version."""
        turned_away: dict[ClientId, str] = {}
        summaries, digests = [], []
        query = "SELECT client, digest, at, data FROM accepted ORDER BY client"
        for client, digest, at, data in self._file.execute(query).fetchall():
            summary = wire.decode(data)
            problem = self._distrust(summary, read_time(at))
            if problem:  # a key was revoked since
                turned_away[client] = f"refused: {problem}"
            else:
                summaries.append(summary)
                digests.append(digest)
        counted = {summary.client for summary in summaries}
        for receipt in self.receipts("refused"):
            if receipt.client and receipt.client not in counted:
                turned_away.setdefault(receipt.client, f"refused: {receipt.reason}")
        calibration = calibrate_summaries(
            summaries, self.spec, filter=self._filter, suspects=self._suspects, evidence=self._evidence,
            refused=turned_away,
        )  # fmt: skip
        of = hashlib.sha256("".join(digests).encode()).hexdigest()
        with self._writing():
            last = self._file.execute("SELECT version, of FROM results ORDER BY version DESC LIMIT 1").fetchone()
            version = last[0] if last and last[1] == of else (last[0] if last else 0) + 1
            row = (version, of, stamp(self._now()))
            self._file.execute("INSERT OR IGNORE INTO results VALUES (?, ?, ?)", row)
        return calibration.with_version(version)

    def receipts(self, status: Status | None = None) -> list[Receipt]:
        """Return the receipts given so far, in order; of the refused ones the latest."""
        query = "SELECT status, client, digest, at, late, reason FROM receipts"
        rows = self._file.execute(f"{query} WHERE ? IS NULL OR status = ? ORDER BY number", (status, status))
        return [Receipt(*row)._replace(late=bool(row[4])) for row in rows.fetchall()]

    @property
    def clients(self) -> tuple[str, ...]:
        """Return whose summaries were accepted."""
        return tuple(row[0] for row in self._file.execute("SELECT client FROM accepted ORDER BY client"))

    @property
    def awaited(self) -> tuple[str, ...]:
        """Return which clients the spec names that have not been heard of."""
        known = set(self.clients)
        return tuple(client for client in self.spec.clients if client not in known)

    def _problem(self, summary: ClientSummary, at: datetime, late: bool) -> str:
        problem = wire.check_against(summary, self.spec) or self._distrust(summary, at)
        if not problem and late and self.spec.late == "refuse":
            problem = f"too late: {self._due()}, and the spec refuses what comes later"
        return problem

    def _due(self) -> str:
        return f"summaries were due by {self.spec.deadline}"

    def _distrust(self, summary: ClientSummary, at: datetime) -> str:
        if self._trust is None:
            return ""
        if not summary.signature:
            return "not signed; this server accepts signed summaries only"
        message, signature = wire.signed_message(summary), bytes.fromhex(summary.signature)
        return self._trust.verify(summary.client, summary.key, message, signature, at) or ""

    def _record(self, receipt: Receipt, data: bytes | None) -> Receipt:
        """Keep an accepted summary and the receipt together, or neither; what is there already decides."""
        with self._writing():
            if receipt.status == "accepted":
                receipt = self._compare(receipt)
            if receipt.status == "accepted":
                row = (receipt.client, receipt.digest, receipt.at, receipt.late, data)
                self._file.execute("INSERT INTO accepted VALUES (?, ?, ?, ?, ?)", row)
            columns = "(status, client, digest, at, late, reason)"
            self._file.execute(f"INSERT INTO receipts {columns} VALUES (?, ?, ?, ?, ?, ?)", receipt)
            if receipt.status != "accepted":
                self._file.execute(
                    "DELETE FROM receipts WHERE status != 'accepted' AND number <= "
                    "(SELECT number FROM receipts WHERE status != 'accepted' ORDER BY number DESC LIMIT 1 OFFSET ?)",
                    (MOST_REFUSALS,),
                )
        return receipt

    def _compare(self, receipt: Receipt) -> Receipt:
        gone = self._file.execute("SELECT at, why FROM withdrawn WHERE digest = ?", (receipt.digest,)).fetchone()
        if gone:
            return receipt._replace(status="refused", reason=f"a replay: withdrawn at {gone[0]} ({gone[1]})")
        held = self._file.execute("SELECT digest, at FROM accepted WHERE client = ?", (receipt.client,)).fetchone()
        if held is None:
            return receipt
        if held[0] == receipt.digest:
            return receipt._replace(status="repeated", reason=f"the same was accepted at {held[1]}; nothing changed")
        return receipt._replace(
            status="refused",
            reason=f"a second summary: another one of this client was accepted at {held[1]}; withdraw that one first",
        )

    def _claim(self) -> None:
        """Write whose file this is, or check it."""
        body = {"format": f"prism-fcp/{KIND}", "schema": str(io.SCHEMA), "spec": self.spec.hash}
        found = dict(self._file.execute("SELECT name, value FROM about").fetchall())
        if not found:
            rows = [*body.items(), ("settings", json.dumps(self.spec.to_json()))]
            self._file.executemany("INSERT INTO about VALUES (?, ?)", rows)
        elif {name: found.get(name) for name in body} != body:
            raise DataError(
                f"the state file belongs to another calibration (spec {found.get('spec', '?')[:12]}, this is "
                f"{self.spec.hash[:12]}); choose another file"
            )

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the file's only write lock; an error takes everything back."""
        with io.database_errors():
            self._file.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._file.execute("COMMIT")
            except BaseException:
                self._file.execute("ROLLBACK")
                raise
