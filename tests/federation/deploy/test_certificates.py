"""The certificates make a TLS connection to the hosts they name, and to no others; nothing is overwritten."""

from __future__ import annotations

import socket
import ssl
import stat
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from prism_fcp.errors import OutputError, SettingError
from prism_fcp.federation.deploy.certificates import certificate_paths, make_certificates

cryptography = pytest.importorskip("cryptography")


def connect(server: Path, key: Path, authority: Path, host: str) -> str:
    """Return the TLS version of a real connection by this name, or raise what the client finds wrong."""
    inside = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    inside.load_cert_chain(server, key)
    with socket.create_server(("127.0.0.1", 0)) as door:

        def serve() -> None:
            peer, _ = door.accept()
            with peer:
                try:
                    inside.wrap_socket(peer, server_side=True).close()
                except (ssl.SSLError, ConnectionError):
                    return

        waiting = threading.Thread(target=serve)
        waiting.start()
        try:
            with (
                socket.create_connection(door.getsockname()) as raw,
                ssl.create_default_context(cafile=authority).wrap_socket(raw, server_hostname=host) as secure,
            ):
                return str(secure.version())
        finally:
            waiting.join()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_loopback_can_be_reached(tmp_path: Path, host: str) -> None:
    made = make_certificates(tmp_path)
    assert connect(made.server, made.server_key, made.authority, host) == "TLSv1.3"


def test_another_host_and_another_authority_are_refused(tmp_path: Path) -> None:
    made, other = make_certificates(tmp_path / "a", ["fed.example.org", "10.0.0.7"]), make_certificates(tmp_path / "b")
    assert connect(made.server, made.server_key, made.authority, "fed.example.org")
    assert connect(made.server, made.server_key, made.authority, "10.0.0.7")
    for host, authority in (("localhost", made.authority), ("fed.example.org", other.authority)):
        with pytest.raises(ssl.SSLCertVerificationError):
            connect(made.server, made.server_key, authority, host)


def test_the_server_cannot_sign_others_and_the_times_are_right(tmp_path: Path) -> None:
    from cryptography import x509

    made = make_certificates(tmp_path, days=7)
    root, server = (x509.load_pem_x509_certificate(path.read_bytes()) for path in (made.authority, made.server))
    assert root.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert not server.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    server.verify_directly_issued_by(root)
    for one in (root, server):
        assert one.not_valid_before_utc < datetime.now(UTC)
        assert timedelta(days=6) < one.not_valid_after_utc - datetime.now(UTC) < timedelta(days=7)


def test_files_are_the_owners_alone_and_never_overwritten(tmp_path: Path) -> None:
    made = make_certificates(tmp_path, authority_key=tmp_path / "ca.key")
    assert made == certificate_paths(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"ca.pem", "server.pem", "server.key", "ca.key"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(OutputError, match="never overwritten"):
        make_certificates(tmp_path)
    assert before == {path.name: path.read_bytes() for path in tmp_path.iterdir()}


def test_without_being_asked_the_authority_keeps_no_key(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"ca.pem", "server.pem", "server.key"}


@pytest.mark.parametrize(
    ("hosts", "days", "told"),
    [
        ([], 30, "hosts: none"),
        (["localhost"], 0, "days=0; must be from 1 to 3650"),
        (["localhost"], 4000, "days=4000"),
        (["https://fed.example.org"], 30, "without scheme or port"),
        (["fed.example.org:9092"], 30, "without scheme or port"),
        (["a b"], 30, "without scheme or port"),
        ([""], 30, "without scheme or port"),
    ],
)
def test_what_cannot_be_certified_is_one_line(tmp_path: Path, hosts: list[str], days: int, told: str) -> None:
    with pytest.raises(SettingError, match=told):
        make_certificates(tmp_path / "new", hosts, days=days)
    assert not (tmp_path / "new").exists()
