"""The key pair by which a SuperNode shows the SuperLink who it is: ECDSA on P-384, in OpenSSH's format."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from prism_fcp.errors import MissingExtraError, OutputError
from prism_fcp.io import write_secret


@dataclass(frozen=True, slots=True)
class NodeKey:
    """Where the two halves lie: the private one stays at the site, the public one is registered at the SuperLink."""

    private: Path
    public: Path


def node_key_paths(private: Path) -> NodeKey:
    """Return where `make_node_key` puts its files."""
    return NodeKey(private, private.with_name(private.name + ".pub"))


def make_node_key(private: Path) -> NodeKey:
    """Make a key pair, `NAME` and `NAME.pub`; neither is overwritten."""
    try:
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
    except ImportError as error:
        raise MissingExtraError("node keys need the package cryptography: pip install 'prism-fcp[flower]'") from error
    places = node_key_paths(private)
    if places.public.exists():  # before the private half is written
        raise OutputError(f"{places.public} is there already and is never overwritten; choose another name")
    key = ec.generate_private_key(ec.SECP384R1())
    write_secret(places.private, key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    line = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    write_secret(places.public, line + b" " + private.name.encode() + b"\n")
    return places
