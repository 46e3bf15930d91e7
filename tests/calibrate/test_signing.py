"""A private key stays private, a signature fits what was signed and nothing else."""

from __future__ import annotations

import builtins
import os
import pickle
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_fcp import io
from prism_fcp.errors import DataError, MissingExtraError, OutputError, SettingError

pytest.importorskip("cryptography")

from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from prism_fcp.calibrate.keys import PREFIX, PublicKey, is_fingerprint, parse_line, parse_time, told_time
from prism_fcp.calibrate.signing import Signer, generate
from prism_fcp.calibrate.trust import Trust

SECRET = bytes(range(32))
SIGNER = Signer(Ed25519PrivateKey.from_private_bytes(SECRET))
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493  # of the base point, RFC 8032


def test_a_new_key_signs_and_its_line_verifies(tmp_path: Path) -> None:
    made = generate(tmp_path / "site.pem", "site-07")
    signer = Signer.load(made.path)
    key = parse_line(made.line)
    assert made.path == tmp_path / "site.pem" and os.listdir(tmp_path) == ["site.pem"]
    assert made.fingerprint == signer.fingerprint == key.fingerprint and is_fingerprint(made.fingerprint)
    assert key.comment == "# site-07" and signer.line("site-07") == made.line
    signature = signer.sign(b"counts")
    assert len(signature) == 64 and key.fits(b"counts", signature) and not key.fits(b"count", signature)
    assert signer.sign(b"counts") == signature  # Ed25519 draws nothing: the same bytes give the same file


def test_in_a_folder_the_key_has_the_clients_name(tmp_path: Path) -> None:
    assert generate(tmp_path, "St. Mary").path == tmp_path / "St. Mary.pem"
    assert generate(tmp_path, "a=b").line.endswith(" # a=b")  # an = in a name is no option of the line
    with pytest.raises(DataError, match="client name"):
        generate(tmp_path, "../x")
    assert sorted(os.listdir(tmp_path)) == ["St. Mary.pem", "a=b.pem"]


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_only_the_owner_may_read_it_from_the_first_moment(
    tmp_path: Path, umask: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (seen.append(os.fstat(handle).st_mode), real(handle)))
    before = os.umask(umask)
    try:
        made = generate(tmp_path / "deep" / "k.pem", "a")
    finally:
        os.umask(before)
    assert seen == [0o100600] and made.path.stat().st_mode == 0o100600


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    made = generate(tmp_path, "a")
    before = made.path.read_bytes()
    with pytest.raises(OutputError, match="never overwritten; choose another name"):
        generate(tmp_path, "a")
    assert made.path.read_bytes() == before
    (tmp_path / "link.pem").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OutputError, match="never overwritten"):
        generate(tmp_path / "link.pem", "a")
    assert not (tmp_path / "elsewhere").exists()


def test_half_a_key_is_not_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="No space left"):
        generate(tmp_path, "a")
    assert os.listdir(tmp_path) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="choose another place"):
        generate(tmp_path / "file" / "k.pem", "a")


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o777])
def test_a_key_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    made = generate(tmp_path, "a")
    made.path.chmod(mode)
    with pytest.raises(OutputError, match=f"mode {mode:04o}.*chmod 600"):
        Signer.load(made.path)
    made.path.chmod(0o400)
    assert Signer.load(made.path).fingerprint == made.fingerprint


def test_a_passphrase_is_needed_and_must_fit(tmp_path: Path) -> None:
    made = generate(tmp_path, "a", passphrase="correct horse")
    assert b"ENCRYPTED" in made.path.read_bytes()
    assert Signer.load(made.path, "correct horse").fingerprint == made.fingerprint
    for passphrase, kind, said in [
        (None, SettingError, "give its passphrase"),
        ("", SettingError, "give its passphrase"),
        ("wrong zebra", DataError, "wrong passphrase"),
    ]:
        with pytest.raises(kind, match=said) as told:
            Signer.load(made.path, passphrase)
        assert not {"horse", "zebra"} & set("".join(traceback.format_exception(told.value)).split())
    with pytest.raises(SettingError, match="passphrase is empty"):
        generate(tmp_path / "b.pem", "b", passphrase="")
    assert not (tmp_path / "b.pem").exists()
    plain = generate(tmp_path / "c.pem", "c")
    with pytest.raises(SettingError, match="not protected"):
        Signer.load(plain.path, "correct horse")


def pem(secret: Any, layout: form.PrivateFormat = form.PrivateFormat.PKCS8) -> bytes:
    whole: bytes = secret.private_bytes(form.Encoding.PEM, layout, form.NoEncryption())
    return whole


def test_a_file_that_is_no_such_key_is_refused(tmp_path: Path) -> None:
    good = pem(Ed25519PrivateKey.from_private_bytes(SECRET))
    for content, said in [
        (b"", "not a PEM private key"),
        (b"\xff\x00" * 50, "not a PEM private key"),
        (good[:60], "not a PEM private key"),
        (good.replace(b"M", b"!", 1), "not a PEM private key"),
        (SIGNER.line("a").encode(), "not a PEM private key"),
        (good + b"\n" * 20_000, "longer than 16,384 bytes"),
        (pem(rsa.generate_private_key(65537, 2048)), "another kind"),
        (pem(ec.generate_private_key(ec.SECP256R1())), "another kind"),
        (pem(Ed25519PrivateKey.generate(), form.PrivateFormat.OpenSSH), "not a PEM private key"),
        (b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n", "give its passphrase"),
    ]:
        path = tmp_path / "k.pem"
        path.write_bytes(content)
        path.chmod(0o600)
        with pytest.raises((DataError, SettingError), match=said) as told:
            Signer.load(path)
        assert "\n" not in str(told.value) and str(path) in str(told.value)
    with pytest.raises(OutputError, match="nowhere"):
        Signer.load(tmp_path / "nowhere")
    with pytest.raises(OutputError, match="directory"):
        Signer.load(tmp_path)


def test_no_more_of_a_file_is_read_than_allowed(tmp_path: Path) -> None:
    path = tmp_path / "k"
    path.write_bytes(b"12345")
    assert io.read_bytes(path, 5) == b"12345"
    with pytest.raises(DataError, match="longer than 4 bytes"):
        io.read_bytes(path, 4)
    with pytest.raises(DataError, match="longer than 1,000"):  # endless
        io.read_bytes(Path("/dev/zero"), 1000)


def test_no_secret_is_shown_or_copied(tmp_path: Path) -> None:
    made = generate(tmp_path, "a", passphrase="correct horse")
    signer = Signer.load(made.path, "correct horse")
    raw = signer._secret.private_bytes_raw()
    body = pem(signer._secret).split(b"\n")[1].decode()
    for shown in (repr(signer), str(signer), f"{signer}", repr([signer]), repr(made), repr(signer.public), made.line):
        assert "horse" not in shown and raw.hex() not in shown.lower() and body not in shown and repr(raw) not in shown
    assert repr(signer) == f"Signer({made.fingerprint})"
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(signer)
    with pytest.raises(TypeError):
        vars(signer)


def test_an_error_while_loading_quotes_nothing_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "k.pem"
    body = pem(Ed25519PrivateKey.from_private_bytes(SECRET)).replace(b"PRIVATE KEY", b"PRIVATE THING")
    path.write_bytes(body)
    path.chmod(0o600)
    with pytest.raises(DataError) as told:
        Signer.load(path)
    everything = "".join(traceback.format_exception(told.value))
    assert body.split(b"\n")[1].decode() not in everything and SECRET.hex() not in everything


@pytest.mark.parametrize("call", ["generate", "load", "trust", "fits"])
def test_the_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    signature = SIGNER.sign(b"x")
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] == "cryptography":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    calls = {
        "generate": lambda: generate(tmp_path, "a"),
        "load": lambda: Signer.load(tmp_path / "a.pem"),
        "trust": lambda: Trust.load(tmp_path),
        "fits": lambda: SIGNER.public.fits(b"x", signature),
    }
    with pytest.raises(MissingExtraError, match=r"pip install 'prism-fcp\[signing\]'"):
        calls[call]()
    assert os.listdir(tmp_path) == []


# -- what fits -----------------------------------------------------------------------------------------------------


def test_what_is_signed_begins_with_the_prefix() -> None:
    raw = SIGNER.sign(b"payload")
    Ed25519PublicKey.from_public_bytes(SIGNER.public.raw).verify(raw, b"prism-fcp summary v1\0payload")
    bare = Ed25519PrivateKey.from_private_bytes(SECRET).sign(b"payload")  # signed for some other purpose
    assert not SIGNER.public.fits(b"payload", bare)
    assert PREFIX == b"prism-fcp summary v1\0"


def test_every_flipped_bit_of_a_signature_and_of_a_message_is_seen() -> None:
    message = b"\x00\xffcounts 1 2 3"
    signature = SIGNER.sign(message)
    assert SIGNER.public.fits(message, signature)
    for bit in range(len(signature) * 8):
        assert not SIGNER.public.fits(message, flipped(signature, bit)), f"signature, bit {bit}"
    for bit in range(len(message) * 8):
        assert not SIGNER.public.fits(flipped(message, bit), signature), f"message, bit {bit}"


def flipped(told: bytes, bit: int) -> bytes:
    return (int.from_bytes(told, "little") ^ (1 << bit)).to_bytes(len(told), "little")


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_a_signature_fits_its_own_message_alone(one: bytes, other: bytes) -> None:
    assert SIGNER.public.fits(one, SIGNER.sign(one))
    assert SIGNER.public.fits(other, SIGNER.sign(one)) == (one == other)


@given(st.binary(max_size=100), st.integers(0, 2**512 - 1))
def test_no_other_64_bytes_fit(message: bytes, noise: int) -> None:
    good = int.from_bytes(SIGNER.sign(message), "little")
    assert SIGNER.public.fits(message, (good ^ noise).to_bytes(64, "little")) == (noise == 0)


def test_a_signature_has_one_form() -> None:
    """S + order would be the same number modulo the order: accepted, it gives one summary two byte strings."""
    signature = SIGNER.sign(b"x")
    again = int.from_bytes(signature[32:], "little") + ORDER
    assert again < 2**256
    assert not SIGNER.public.fits(b"x", signature[:32] + again.to_bytes(32, "little"))


# -- lines ---------------------------------------------------------------------------------------------------------


def test_a_line_comes_back() -> None:
    key = PublicKey(SIGNER.public.raw, NOW, datetime(2027, 1, 1, tzinfo=UTC), "laptop of # the=study")
    assert key.line.startswith("ed25519 A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg= not-before=2026-06-01T12:00:00Z ")
    assert parse_line(key.line) == key


def test_fingerprint_of_a_known_key() -> None:
    """RFC 8032, section 7.1, test 1; the digest by `printf ... | xxd -r -p | sha256sum`."""
    raw = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
    secret = Ed25519PrivateKey.from_private_bytes(
        bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    )
    assert Signer(secret).public.raw == raw
    assert PublicKey(raw).fingerprint == "SHA256:21fe31dfa154a261626bf854046fd227"


B64 = "A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg="


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "a line is: ed25519"),
        (" \t ", "a line is: ed25519"),
        ("ed25519", "a line is: ed25519"),
        (f"ssh-ed25519 {B64}", "a line is: ed25519"),
        (f"ED25519 {B64}", "a line is: ed25519"),
        ("ed25519 hello", "not the base64 of 32 bytes"),
        ("ed25519 " + B64[:-1], "not the base64 of 32 bytes"),
        ("ed25519 " + B64.replace("bg=", "bh="), "not the base64 of 32 bytes"),  # a second spelling of the same bytes
        ("ed25519 " + B64.replace("/", "_"), "not the base64 of 32 bytes"),
        ("ed25519 " + B64 + B64, "not the base64 of 32 bytes"),
        ("ed25519 ü" + B64[1:], "not the base64 of 32 bytes"),
        (f"ed25519 {B64} not-after=2026-12-31", "must be like 2026-12-31T23:59:59Z"),
        (f"ed25519 {B64} not-after=2026-12-31T23:59:59", "must be like"),
        (f"ed25519 {B64} not-after=2026-02-30T00:00:00Z", "must be like"),
        (f"ed25519 {B64} not-after=0001-01-01T00:00:00+23:59", "must be like"),
        (f"ed25519 {B64} not-after=", "must be like"),
        (f"ed25519 {B64} not-after=٢٠٢٦-12-31T23:59:59Z", "must be like"),
        (f"ed25519 {B64} not-after=2026-12-31T23:59:59Z not-after=2027-12-31T23:59:59Z", "said twice"),
        (f"ed25519 {B64} not-before=2027-01-01T00:00:00Z not-after=2026-01-01T00:00:00Z", "never be valid"),
        (f"ed25519 {B64} not-afer=2026-12-31T23:59:59Z", "'not-afer=2026-12-31T23:59:59Z' is not known"),
        (f"ed25519 {B64} Not-After=2026-12-31T23:59:59Z", "is not known"),
        (f"ed25519 {B64} laptop not-after=2026-12-31T23:59:59Z", "right after the key"),
    ],
)
def test_a_broken_line_is_refused(line: str, said: str) -> None:
    with pytest.raises(DataError, match=said) as told:
        parse_line(line)
    assert "\n" not in str(told.value)


def test_times_are_moments() -> None:
    assert parse_time("2026-06-01T14:00+02:00") == NOW
    assert told_time(parse_time("2026-06-01T14:00+02:00")) == "2026-06-01T12:00:00Z"
    assert told_time(datetime(999, 1, 1, tzinfo=UTC)) == "0999-01-01T00:00:00Z"
    assert parse_time("0999-01-01T00:00:00Z") == datetime(999, 1, 1, tzinfo=UTC)
    with pytest.raises(SettingError, match="no offset"):
        told_time(datetime(2026, 1, 1))


# -- degenerate keys -----------------------------------------------------------------------------------------------


def add(one: tuple[int, int], two: tuple[int, int]) -> tuple[int, int]:
    """Add two points of the curve: RFC 8032, section 5.1.4, in affine form."""
    d = -121665 * pow(121666, -1, P) % P
    (x1, y1), (x2, y2) = one, two
    k = d * x1 * x2 * y1 * y2
    return (x1 * y2 + x2 * y1) * pow(1 + k, -1, P) % P, (y1 * y2 + x1 * x2) * pow(1 - k, -1, P) % P


def small_order_points() -> set[tuple[int, int]]:
    """Return the eight points, found as order·Q for points Q of the whole curve."""
    d = -121665 * pow(121666, -1, P) % P
    found: set[tuple[int, int]] = set()
    for y in range(2, 60):
        square = (y * y - 1) * pow(d * y * y + 1, -1, P) % P
        x = pow(square, (P + 3) // 8, P)
        if (x * x - square) % P:
            x = x * pow(2, (P - 1) // 4, P) % P
        if (x * x - square) % P:
            continue  # no point with this y
        point, power, left = (0, 1), (x, y), ORDER
        while left:
            if left & 1:
                point = add(point, power)
            power, left = add(power, power), left >> 1
        found.add(point)
    return found


def test_points_of_small_order_are_refused_in_every_spelling() -> None:
    points = small_order_points()
    assert len(points) == 8 and (0, 1) in points
    spellings = {y | (sign << 255) for _, y in points for sign in (0, 1)}
    spellings |= {y + P | (sign << 255) for _, y in points for sign in (0, 1) if y + P < 2**255}
    assert len(spellings) == 14  # the 14 known to other libraries' deny lists
    for number in spellings:
        with pytest.raises(DataError, match=r"small order|no Ed25519 key"):
            PublicKey(number.to_bytes(32, "little"))
    with pytest.raises(DataError, match="small order"):
        parse_line("ed25519 " + "A" * 43 + "=")  # all zero
    with pytest.raises(DataError, match="no Ed25519 key"):
        PublicKey(b"\xff" * 32)
    with pytest.raises(DataError, match="no Ed25519 key"):
        PublicKey(b"\x02" * 31)


def test_why_they_are_refused() -> None:
    """cryptography 50 loads the neutral point, for which one signature fits every message."""
    neutral = (1).to_bytes(32, "little")
    for message in (b"a", b"b"):
        Ed25519PublicKey.from_public_bytes(neutral).verify(neutral + bytes(32), message)


@given(st.binary(min_size=32, max_size=32))
def test_bytes_off_the_curve_fit_nothing(raw: bytes) -> None:
    try:
        key = PublicKey(raw)
    except DataError:
        return
    assert not key.fits(b"x", SIGNER.sign(b"x"))
