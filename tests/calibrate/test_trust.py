"""A trust folder says who may sign, from when and until when; a mistake in it is never trust."""

from __future__ import annotations

import os
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_fcp import io
from prism_fcp.errors import DataError, OutputError, PrismError, SettingError

pytest.importorskip("cryptography")

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from prism_fcp.calibrate.keys import PublicKey, parse_line
from prism_fcp.calibrate.signing import Signer
from prism_fcp.calibrate.trust import LONGEST_REASON, MOST_BYTES, Revocation, Trust

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)
FIRST, SECOND_KEY, THIRD = (Signer(Ed25519PrivateKey.from_private_bytes(bytes([k]) * 32)) for k in (1, 2, 3))
MESSAGE = b"counts"


def verify(trust: Trust, client: str, signer: Signer, at: datetime = NOW) -> str | None:
    return trust.verify(client, signer.fingerprint, MESSAGE, signer.sign(MESSAGE), at)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A trust folder with one key of client a."""
    Trust.add(tmp_path / "trust", "a", FIRST.line("a"))
    return tmp_path / "trust"


# -- verifying -----------------------------------------------------------------------------------------------------


def test_a_known_client_with_its_own_key_is_believed(folder: Path) -> None:
    trust = Trust.load(folder)
    assert verify(trust, "a", FIRST) is None
    assert list(trust.clients) == ["a"] and trust.clients["a"] == (parse_line(FIRST.line("a")),)
    assert (folder / "a.keys").read_text() == FIRST.line("a") + "\n"


def test_every_refusal_has_its_reason(folder: Path) -> None:
    trust = Trust.add(folder, "b", SECOND_KEY.line("b"))
    good = FIRST.sign(MESSAGE)
    name = FIRST.fingerprint
    for client, key, message, signature, said in [
        ("c", name, MESSAGE, good, "unknown client 'c'"),
        ("A", name, MESSAGE, good, "unknown client 'A'"),
        ("../a", name, MESSAGE, good, "client name '../a'; must be usable"),
        ("a\u202e", name, MESSAGE, good, r"client name 'a\u202e'"),
        ("x" * 10**6, name, MESSAGE, good, "has 1000000 characters"),
        ("b", name, MESSAGE, good, f"unknown key {name}; the trust folder has no such key of client 'b'"),
        ("a", SECOND_KEY.fingerprint, MESSAGE, SECOND_KEY.sign(MESSAGE), f"unknown key {SECOND_KEY.fingerprint}"),
        ("a", "", MESSAGE, good, "names no key"),
        ("a", name.upper(), MESSAGE, good, "names no key"),
        ("a", name + "\n", MESSAGE, good, "names no key"),
        ("a", "SHA256:" + "0" * 10**6, MESSAGE, good, "names no key"),
        ("a", name, MESSAGE + b"\0", good, "does not fit"),
        ("a", name, MESSAGE, SECOND_KEY.sign(MESSAGE), "does not fit"),
        ("a", name, MESSAGE, bytes(64), "does not fit"),
        ("a", name, MESSAGE, b"", "0 bytes; it must have 64"),
        ("a", name, MESSAGE, good + b"\0", "65 bytes; it must have 64"),
    ]:
        told = trust.verify(client, key, message, signature, NOW)
        assert told is not None and said in told, (told, said)
        assert told.isprintable() and len(told) < 500


@given(st.text(max_size=200), st.text(max_size=200), st.binary(max_size=100), st.binary(max_size=70))
def test_whatever_is_sent_gets_one_line(client: str, fingerprint: str, message: bytes, signature: bytes) -> None:
    key = parse_line(FIRST.line("a"))
    trust = Trust(Path("."), {"a": (key,)}, {})
    for name, mark in ((client, fingerprint), ("a", fingerprint), ("a", key.fingerprint)):
        told = trust.verify(name, mark, message, signature, NOW)
        assert told is not None and told.isprintable() and len(told) < 1500


@pytest.mark.parametrize("bit", [0, 7, 255, 256, 503, 511])
def test_a_flipped_bit_is_refused(folder: Path, bit: int) -> None:
    bent = (int.from_bytes(FIRST.sign(MESSAGE), "little") ^ (1 << bit)).to_bytes(64, "little")
    told = Trust.load(folder).verify("a", FIRST.fingerprint, MESSAGE, bent, NOW)
    assert told is not None and "does not fit" in told


def test_a_key_holds_from_its_first_moment_to_its_last(tmp_path: Path) -> None:
    line = f"{FIRST.public.line} not-before=2026-06-01T12:00:00Z not-after=2026-06-02T14:00:00+02:00 spring"
    trust = Trust.add(tmp_path, "a", line)
    for at, said in [
        (NOW - SECOND, "is not valid before 2026-06-01T12:00:00Z"),
        (NOW, None),
        (NOW + DAY, None),
        (NOW + DAY + SECOND, "expired at 2026-06-02T12:00:00Z"),
    ]:
        told = verify(trust, "a", FIRST, at)
        assert told is None if said is None else told is not None and said in told
    assert verify(trust, "a", FIRST, NOW.astimezone().astimezone(UTC)) is None
    with pytest.raises(SettingError, match="no offset"):
        verify(trust, "a", FIRST, datetime(2026, 6, 1, 12))


def test_nothing_of_it_can_be_changed_in_passing(folder: Path) -> None:
    trust = Trust.load(folder)
    with pytest.raises(FrozenInstanceError):
        trust.folder = Path()  # type: ignore[misc]
    with pytest.raises(TypeError):
        trust.clients["b"] = ()  # type: ignore[index]
    with pytest.raises(TypeError):
        trust.revoked[FIRST.fingerprint] = Revocation(NOW, "x")  # type: ignore[index]


# -- adding, rotating, revoking ------------------------------------------------------------------------------------


def test_adding_keeps_what_was_there(folder: Path) -> None:
    (folder / "a.keys").write_text(f"# site A, by telephone on May 4\n\n{FIRST.line('a')}")  # an editor's last line
    trust = Trust.add(folder, "a", f"  {SECOND_KEY.line('a')}\n")
    assert verify(trust, "a", FIRST) is None and verify(trust, "a", SECOND_KEY) is None
    assert (folder / "a.keys").read_text() == (
        f"# site A, by telephone on May 4\n\n{FIRST.line('a')}\n{SECOND_KEY.line('a')}\n"
    )
    assert sorted(os.listdir(folder)) == [".lock", "a.keys"]


@pytest.mark.parametrize(
    ("client", "line", "said"),
    [
        ("a", FIRST.line("a"), "is client 'a''s already"),
        ("b", FIRST.line("b"), "is client 'a''s already"),
        ("A", SECOND_KEY.line("A"), "differs from 'a' in upper and lower case only"),
        ("../b", SECOND_KEY.line("b"), "client name"),
        ("b", "", "must be one line"),
        ("b", SECOND_KEY.line("b") + "\n" + THIRD.line("b"), "must be one line"),
        ("b", SECOND_KEY.line("b") + "\u202e", "must be one line"),
        ("b", "ed25519 " + "A" * 43 + "=", "small order"),
        ("b", "-----BEGIN PRIVATE KEY-----", "a line is: ed25519"),
    ],
)
def test_what_cannot_be_added_changes_nothing(folder: Path, client: str, line: str, said: str) -> None:
    before = {path: path.read_text() for path in folder.iterdir()}
    with pytest.raises(PrismError, match=said) as told:
        Trust.add(folder, client, line)
    assert "\n" not in str(told.value)
    assert {path: path.read_text() for path in folder.iterdir()} == before


def test_a_name_that_is_refused_makes_no_folder(tmp_path: Path) -> None:
    for change in (Trust.add, lambda *rest: Trust.rotate(*rest, NOW)):
        with pytest.raises(DataError, match="client name"):
            change(tmp_path / "trust", "../b", FIRST.line("b"))
    assert os.listdir(tmp_path) == []


def test_rotation_lets_the_old_key_end_and_the_new_one_hold(folder: Path) -> None:
    text = f"# site A\r\n{FIRST.line('a')}\r\n{THIRD.public.line} not-after=2026-01-01T00:00:00Z old\r\n"
    (folder / "a.keys").write_bytes(text.encode())
    trust = Trust.rotate(folder, "a", SECOND_KEY.line("a"), NOW + DAY)
    assert (folder / "a.keys").read_text() == (
        f"# site A\n{FIRST.public.line} not-after=2026-06-02T12:00:00Z # a\n"
        f"{THIRD.public.line} not-after=2026-01-01T00:00:00Z old\n{SECOND_KEY.line('a')}\n"
    )
    assert verify(trust, "a", FIRST, NOW + DAY) is None
    assert "expired" in str(verify(trust, "a", FIRST, NOW + DAY + SECOND))
    assert "expired" in str(verify(trust, "a", THIRD))
    assert verify(trust, "a", SECOND_KEY, NOW - 100 * DAY) is None
    assert verify(trust, "a", SECOND_KEY, NOW + 100 * DAY) is None


def test_a_rotation_that_leaves_nothing_to_sign_with_is_refused(folder: Path) -> None:
    before = (folder / "a.keys").read_text()
    ending = f"{SECOND_KEY.public.line} not-after=2026-06-01T12:00:00Z"
    for client, line, until, said in [
        ("a", ending, NOW, "nothing would be left"),
        ("a", FIRST.line("a"), NOW, "already"),
        ("b", SECOND_KEY.line("b"), NOW, "no key yet"),
        ("a", SECOND_KEY.line("a"), datetime(2026, 6, 1), "no offset"),
    ]:
        with pytest.raises(SettingError, match=said):
            Trust.rotate(folder, client, line, until)
    assert (folder / "a.keys").read_text() == before
    (folder / "a.keys").write_text(f"{FIRST.public.line} not-before=2027-01-01T00:00:00Z\n")
    with pytest.raises(SettingError, match="valid from 2027-01-01T00:00:00Z only"):
        Trust.rotate(folder, "a", SECOND_KEY.line("a"), NOW)


def test_a_revoked_key_fits_nothing_at_any_time(folder: Path) -> None:
    Trust.add(folder, "a", SECOND_KEY.line("a"))
    trust = Trust.revoke(folder, FIRST.fingerprint, "laptop  stolen\n", NOW)
    for at in (NOW - 100 * DAY, NOW, NOW + DAY):  # what was signed and accepted before included
        assert verify(trust, "a", FIRST, at) == (
            f"key {FIRST.fingerprint} of client 'a' was revoked at 2026-06-01T12:00:00Z: laptop stolen"
        )
    assert verify(trust, "a", SECOND_KEY) is None
    assert trust.revoked == {FIRST.fingerprint: Revocation(NOW, "laptop stolen")}
    assert (folder / "revoked").read_text() == f"{FIRST.fingerprint} 2026-06-01T12:00:00Z laptop stolen\n"
    again = Trust.revoke(folder, SECOND_KEY.fingerprint, "left the study", NOW)
    assert list(again.revoked) == [FIRST.fingerprint, SECOND_KEY.fingerprint]
    (folder / "a.keys").write_text(THIRD.line("a"))  # the old lines removed by hand
    with pytest.raises(SettingError, match="was revoked; make a new one"):
        Trust.add(folder, "a", FIRST.line("a"))
    with pytest.raises(SettingError, match="was revoked; make a new one"):
        Trust.rotate(folder, "a", FIRST.line("a"), NOW)


@pytest.mark.parametrize(
    ("fingerprint", "reason", "said"),
    [
        (FIRST.fingerprint, "", "a line is: FINGERPRINT TIME REASON"),
        (FIRST.fingerprint, " \n ", "a line is: FINGERPRINT TIME REASON"),
        (FIRST.fingerprint, "x" * (LONGEST_REASON + 1), "at most 200"),
        (FIRST.fingerprint, "x\u202ey", "printable"),
        (FIRST.fingerprint[:-1], "lost", "is no fingerprint"),
        (FIRST.fingerprint.upper(), "lost", "is no fingerprint"),
        (SECOND_KEY.fingerprint, "lost", "is a digit wrong"),
    ],
)
def test_what_cannot_be_revoked_changes_nothing(folder: Path, fingerprint: str, reason: str, said: str) -> None:
    with pytest.raises(PrismError, match=said):
        Trust.revoke(folder, fingerprint, reason, NOW)
    assert not (folder / "revoked").exists()


def test_a_key_is_revoked_once(folder: Path) -> None:
    Trust.revoke(folder, FIRST.fingerprint, "lost", NOW)
    with pytest.raises(SettingError, match="was revoked at 2026-06-01T12:00:00Z: lost"):
        Trust.revoke(folder, FIRST.fingerprint, "lost again", NOW + DAY)
    with pytest.raises(SettingError, match="no offset"):
        Trust.revoke(folder, FIRST.fingerprint, "lost", datetime(2026, 6, 1))


def test_two_who_change_the_folder_do_not_mix(folder: Path) -> None:
    with io.locked(folder), pytest.raises(OutputError, match="being changed by another command"):
        Trust.revoke(folder, FIRST.fingerprint, "lost", NOW)
    assert Trust.revoke(folder, FIRST.fingerprint, "lost", NOW).revoked  # and the lock ends with its holder


def test_a_failed_write_leaves_what_was_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = (folder / "a.keys").read_text()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for change in (
        lambda: Trust.add(folder, "a", SECOND_KEY.line("a")),
        lambda: Trust.rotate(folder, "a", SECOND_KEY.line("a"), NOW),
        lambda: Trust.revoke(folder, FIRST.fingerprint, "lost", NOW),
    ):
        with pytest.raises(OutputError, match="No space left"):
            change()
    assert (folder / "a.keys").read_text() == before and sorted(os.listdir(folder)) == [".lock", "a.keys"]


# -- reading -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("b.keys", "# fine\n\nhello\n", r"b\.keys, line 3: no key"),
        ("b.keys", f"{SECOND_KEY.public.line} not-afer=2026-12-31T23:59:59Z", r"line 1: option 'not-afer="),
        ("b.keys", f"{SECOND_KEY.public.line}\n{SECOND_KEY.public.line}", "line 2: key .* is there already"),
        ("b.keys", FIRST.public.line, r"line 1: key .* is there already, for client 'a'"),
        ("b.keys", f"# note\u2028{SECOND_KEY.public.line}", "line 1: has characters that cannot be seen"),
        ("b.keys", f"# \u202e note\n{SECOND_KEY.public.line}", "line 1: has characters that cannot be seen"),
        ("b.keys", f"{SECOND_KEY.public.line}\r# note", "line 1: has characters that cannot be seen"),
        ("b.keys", "\0", "line 1: has characters"),
        ("b.keys", "\udcff", "not a UTF-8 text file"),
        ("b.keys", "#" * (MOST_BYTES + 1), "longer than 1,048,576 bytes"),
        ("revoked", "hello", "revoked, line 1: no revocation"),
        ("revoked", FIRST.fingerprint, "line 1: no revocation"),
        ("revoked", f"{FIRST.fingerprint} 2026-06-01T12:00:00Z", "line 1: no revocation"),
        ("revoked", f"{FIRST.fingerprint} yesterday lost", "line 1: time 'yesterday'"),
        ("revoked", f"{FIRST.fingerprint[:-1]} 2026-06-01T12:00:00Z lost", "line 1: no revocation"),
        ("revoked", f"{FIRST.fingerprint} 2026-06-01T12:00:00Z lost\n" * 2, "line 2: .* revoked twice"),
        ("revoked.txt", "", "move it away"),
        ("Revoked", "", "move it away"),
        ("b.key", SECOND_KEY.public.line, "move it away"),
        ("b.keys~", SECOND_KEY.public.line, "move it away"),
        ("-b.keys", SECOND_KEY.public.line, "client name '-b'"),
        ("\u202eb.keys", SECOND_KEY.public.line, r"client name '\\u202eb'"),
        ("b\nc.keys", SECOND_KEY.public.line, r"client name 'b\\nc'"),
    ],
)
def test_a_mistake_is_named_with_its_file_and_line(folder: Path, name: str, text: str, said: str) -> None:
    (folder / name).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(DataError, match=said) as told:
        Trust.load(folder)
    assert str(told.value).isprintable() and str(folder) in str(told.value)


def test_a_mistake_stops_changes_too(folder: Path) -> None:
    (folder / "revoked").write_text("hello\n")
    with pytest.raises(DataError, match="revoked, line 1"):
        Trust.add(folder, "b", SECOND_KEY.line("b"))
    assert not (folder / "b.keys").exists()


def test_folders_and_pipes_in_it_are_refused(folder: Path) -> None:
    os.mkfifo(folder / "b.keys")  # opening it would wait for ever
    with pytest.raises(DataError, match="move it away"):
        Trust.load(folder)
    os.unlink(folder / "b.keys")
    (folder / "revoked").mkdir()
    with pytest.raises(DataError, match="move it away"):
        Trust.load(folder)


def test_free_lines_windows_ends_and_hidden_files(folder: Path) -> None:
    (folder / "b.keys").write_bytes(
        b"\xef\xbb\xbf# B\r\n \t\r\n  # more\r\n\t" + SECOND_KEY.line("b").replace(" ", "\t").encode() + b"\r\n"
    )
    (folder / ".b.keys.swp").write_bytes(b"\0")
    (folder / "c.keys").write_text("# left the study\n")
    trust = Trust.load(folder)
    assert verify(trust, "b", SECOND_KEY) is None
    assert trust.clients["c"] == () and "unknown key" in str(verify(trust, "c", THIRD))


def test_no_folder_is_an_error_and_an_empty_one_trusts_nobody(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="nowhere"):
        Trust.load(tmp_path / "nowhere")
    assert "unknown client" in str(verify(Trust.load(tmp_path), "a", FIRST))


def test_a_file_has_a_size_it_cannot_outgrow(folder: Path) -> None:
    (folder / "a.keys").write_text("#" * (MOST_BYTES - 10) + "\n")
    with pytest.raises(DataError, match="would be longer than 1,048,576 bytes"):
        Trust.add(folder, "a", SECOND_KEY.line("a"))
    assert Trust.load(folder).clients == {"a": ()}


PIECES = st.sampled_from(
    [
        "ed25519", "A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=", " ", "\t", "\n", "\r\n", "#", "=", "not-before=",
        "not-after=", "2026-06-01T12:00:00Z", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00+23:59", FIRST.public.line,
        FIRST.fingerprint, "SHA256:", "lost", "\0", "\u202e", "\ud800", "\ufeff", "A" * 44,
    ]
)  # fmt: skip
TEXTS = st.one_of(st.lists(PIECES, max_size=20).map("".join), st.text(max_size=300))


@given(st.sampled_from(["a.keys", "revoked"]), TEXTS)
def test_any_text_is_read_or_refused_by_file(tmp_path_factory: pytest.TempPathFactory, name: str, text: str) -> None:
    check_any_bytes(tmp_path_factory, name, text.encode(errors="surrogatepass"))


@given(st.sampled_from(["a.keys", "revoked"]), st.binary(max_size=300))
def test_any_bytes_are_read_or_refused_by_file(
    tmp_path_factory: pytest.TempPathFactory, name: str, content: bytes
) -> None:
    check_any_bytes(tmp_path_factory, name, content)


def check_any_bytes(factory: pytest.TempPathFactory, name: str, content: bytes) -> None:
    """Read: each line that says something became one entry. Refused: a DataError of one line with the file."""
    folder = factory.getbasetemp() / "any"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    (folder / name).write_bytes(content)
    try:
        trust = Trust.load(folder)
    except DataError as error:
        assert name in str(error) and str(error).isprintable() and len(str(error)) < 1000
        return
    lines = [line.strip() for line in content.decode("utf-8-sig").split("\n")]
    said = [line for line in lines if line and not line.startswith("#")]
    assert len(said) == len(trust.clients.get("a", ())) + len(trust.revoked)
    for key in trust.clients.get("a", ()):
        assert parse_line(key.line) == key


@pytest.mark.parametrize("filler", ["#\n", "\n", " ", "\t", "#", "ed25519 ", "a=", "\ud7ff", "=" * 63 + "\n"])
def test_the_largest_file_is_read_or_refused_in_a_moment(tmp_path: Path, filler: str) -> None:
    content = (filler.encode() * (MOST_BYTES // len(filler.encode())))[:MOST_BYTES]
    for name in ("a.keys", "revoked"):
        (tmp_path / name).write_bytes(content)
        before = os.times().user
        try:
            Trust.load(tmp_path)
        except DataError as error:
            assert len(str(error)) < 1000
        assert os.times().user - before < 2  # measured: 0.2 s at most
        (tmp_path / name).unlink()


def test_a_file_full_of_keys_is_read_in_a_moment(tmp_path: Path) -> None:
    many = MOST_BYTES // (len(FIRST.public.line) + 1) - 1
    keys = [PublicKey(k.to_bytes(32, "big")) for k in range(10**6, 10**6 + many)]
    (tmp_path / "a.keys").write_text("".join(f"{key.line}\n" for key in [*keys, FIRST.public]))
    before = os.times().user
    trust = Trust.load(tmp_path)
    assert len(trust.clients["a"]) == many + 1 and verify(trust, "a", FIRST) is None
    assert os.times().user - before < 2  # measured: 0.4 s
