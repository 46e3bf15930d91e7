"""A certificate authority and a server's certificate for the SuperLink, without any other program.

The authority's certificate is the one file that a site needs (`--root-certificates`). Its key signs one server and is
then forgotten unless it is asked for, so that nobody can sign another in its name.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prism_fcp.errors import MissingExtraError, OutputError, SettingError
from prism_fcp.io import write_secret

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_BACKDATED: Final = timedelta(minutes=5)  # for clocks that are a little behind
_MOST_DAYS: Final = 3650


@dataclass(frozen=True, slots=True)
class Certificates:
    """Where the authority's certificate and the server's certificate and key lie."""

    authority: Path
    server: Path
    server_key: Path


def certificate_paths(folder: Path) -> Certificates:
    """Return where `make_certificates` puts its files."""
    return Certificates(folder / "ca.pem", folder / "server.pem", folder / "server.key")


def make_certificates(
    folder: Path, hosts: Sequence[str] = LOOPBACK, *, days: int = 30, authority_key: Path | None = None
) -> Certificates:
    """Make an authority and a certificate of a server for these host names and addresses, valid for so many days.

    No file that is there is overwritten. The authority's key is kept only where `authority_key` says.
    """
    if not hosts:
        raise SettingError("hosts: none; name the host, or its address, by which the sites reach the server")
    if not 1 <= days <= _MOST_DAYS:
        raise SettingError(f"days={days}; must be from 1 to {_MOST_DAYS}")
    names = [_host(host) for host in hosts]
    try:
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError as error:
        raise MissingExtraError(
            "certificates need the package cryptography: pip install 'prism-fcp[flower]'"
        ) from error
    places = certificate_paths(folder)
    for place in (places.authority, places.server):  # before the first of them is written
        if place.exists():
            raise OutputError(f"{place} is there already and is never overwritten; choose another folder")
    signer, key = ec.generate_private_key(ec.SECP384R1()), ec.generate_private_key(ec.SECP384R1())
    root = _certificate("prism-fcp authority", None, signer, signer.public_key(), None, days)
    server = _certificate("prism-fcp server", root, signer, key.public_key(), names, days)
    if authority_key is not None:
        write_secret(authority_key, _private_pem(signer))
    write_secret(places.server_key, _private_pem(key))
    write_secret(places.server, _pem(server))
    write_secret(places.authority, _pem(root))
    return places


def _certificate(
    name: str,
    issuer: x509.Certificate | None,
    signer: ec.EllipticCurvePrivateKey,
    public: ec.EllipticCurvePublicKey,
    hosts: list[x509.GeneralName] | None,
    days: int,
) -> x509.Certificate:
    """Sign a server's certificate, or without hosts an authority's own."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    own = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(own)
        .issuer_name(own if issuer is None else issuer.subject)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .add_extension(x509.BasicConstraints(ca=hosts is None, path_length=0 if hosts is None else None), critical=True)
        .add_extension(_usage(authority=hosts is None), critical=True)
    )
    if hosts is not None:
        builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    return builder.sign(signer, hashes.SHA384())


def _usage(*, authority: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _host(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    if not host.isascii() or not host or any(sign.isspace() or sign in "/:@" for sign in host):
        raise SettingError(f"host {host!r}; must be a host's name or address, without scheme or port")
    return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
