"""Node keys are what Flower takes, the owner's alone, and never overwritten."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from prism_fcp.errors import OutputError
from prism_fcp.federation.deploy.nodekeys import make_node_key, node_key_paths

pytest.importorskip("flwr")


def test_flower_reads_both_halves(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key
    from flwr.cli.supernode.register import try_load_public_key
    from flwr.supercore.primitives.asymmetric import public_key_to_bytes

    made = make_node_key(tmp_path / "north")
    assert made == node_key_paths(tmp_path / "north")
    private = load_ssh_private_key(made.private.read_bytes(), password=None)
    assert isinstance(private, ec.EllipticCurvePrivateKey) and private.curve.name == "secp384r1"
    assert try_load_public_key(made.public) == public_key_to_bytes(private.public_key())
    assert made.public.read_text().startswith("ecdsa-sha2-nistp384 ")
    assert made.public.read_text().endswith(" north\n")


def test_keys_are_the_owners_alone_all_different_and_never_overwritten(tmp_path: Path) -> None:
    keys = [make_node_key(tmp_path / name) for name in ("north", "south")]
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
    assert keys[0].private.read_bytes() != keys[1].private.read_bytes()
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(OutputError, match="never overwritten"):
        make_node_key(tmp_path / "north")
    keys[0].private.unlink()
    with pytest.raises(OutputError, match="never overwritten"):  # the public half alone is enough to refuse
        make_node_key(tmp_path / "north")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == {
        path: kept for path, kept in before.items() if path != keys[0].private
    }
