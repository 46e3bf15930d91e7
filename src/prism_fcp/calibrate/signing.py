"""The secret half of a signing key: making one, and signing summaries with it.

Optional: the package cryptography comes with the extra `signing`. Whom a server believes stands in `trust.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, final

from prism_fcp import io
from prism_fcp.calibrate.keys import PREFIX, PublicKey, library
from prism_fcp.calibrate.names import check_name
from prism_fcp.errors import DataError, SettingError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

MOST_KEY_BYTES: Final = 16_384  # ours have 119, and 300 with a passphrase


class NewKey(NamedTuple):
    """Where a new private key lies, and what its owner sends to the coordinator."""

    path: Path
    line: str  # a public line for the trust folder, with the client's name as its comment
    fingerprint: str


def generate(path: Path, client: str, *, passphrase: str | None = None) -> NewKey:
    """Make a key for a client: the private half in a new file (PEM, PKCS #8, mode 0600), the public one as a line.

    In a folder the file is called CLIENT.pem. A file that is there is never overwritten.
    """
    check_name(client)
    secret = library().Ed25519PrivateKey.generate()
    place = path / f"{client}.pem" if path.is_dir() else path
    io.write_secret(place, _pem(secret, passphrase))
    signer = Signer(secret)
    return NewKey(place, signer.line(client), signer.fingerprint)


@final
class Signer:
    """A private key that signs summaries. It shows its fingerprint and nothing else."""

    __slots__ = ("_secret", "public")

    public: PublicKey

    def __init__(self, secret: Ed25519PrivateKey) -> None:
        """Take a private key of the package cryptography."""
        self._secret = secret
        self.public = PublicKey(secret.public_key().public_bytes_raw())

    @classmethod
    def load(cls, path: Path, passphrase: str | None = None) -> Signer:
        """Read a private key, as `generate` or openssl wrote it; one that others may read is refused."""
        private = library().Ed25519PrivateKey
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        whole = io.read_bytes(path, MOST_KEY_BYTES, secret=True)
        protected = b"ENCRYPTED" in whole
        if protected and not passphrase:
            raise SettingError(f"{path}: the key is protected; give its passphrase")
        if passphrase and not protected:
            raise SettingError(f"{path}: the key is not protected by a passphrase; leave it out, or make a new key")
        try:
            secret = load_pem_private_key(whole, passphrase.encode() if passphrase else None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            # What the library says may quote the file: it is not passed on.
            wrong = "cannot be opened: wrong passphrase, or a broken file" if protected else "is not a PEM private key"
            raise DataError(f"{path}: {wrong}; give the file that keygen made") from None
        if not isinstance(secret, private):
            raise DataError(f"{path}: a private key of another kind; summaries are signed with Ed25519: use keygen")
        return cls(secret)

    @property
    def fingerprint(self) -> str:
        """Return what the key is called: `SHA256:` and 32 hex digits."""
        return self.public.fingerprint

    def line(self, client: str) -> str:
        """Return the public line for the trust folder."""
        return PublicKey(self.public.raw, comment=f"# {check_name(client)}").line

    def sign(self, message: bytes) -> bytes:
        """Return the 64 bytes that prove who sent the message; they fit summaries and nothing else (`PREFIX`)."""
        return self._secret.sign(PREFIX + message)

    def __repr__(self) -> str:
        """Name the key by its fingerprint."""
        return f"Signer({self.fingerprint})"


def _pem(secret: Ed25519PrivateKey, passphrase: str | None) -> bytes:
    from cryptography.hazmat.primitives import serialization as form

    if passphrase is None:
        lock: form.KeySerializationEncryption = form.NoEncryption()
    elif passphrase:
        lock = form.BestAvailableEncryption(passphrase.encode())
    else:
        raise SettingError("keygen: the passphrase is empty; give one of some length, or none")
    return secret.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, lock)
