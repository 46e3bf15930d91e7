"""A summary as bytes: a safetensors file with one tensor, in one canonical form only.

One content has one byte string, so that a signature covers every byte and nothing can hide in blanks, key order or
unused space. Reading therefore ends with writing again what was read and comparing. Everything is bounded before it is
parsed. Any safetensors library reads these files; docs/choices.md says why none of them writes them.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from dataclasses import replace
from typing import Any, Final

import numpy as np

from prism_fcp.calibrate.grid import MOST_BINS
from prism_fcp.calibrate.keys import is_fingerprint
from prism_fcp.calibrate.names import check_name
from prism_fcp.calibrate.signing import Signer
from prism_fcp.calibrate.spec import CalibrationSpec, read_time, stamp
from prism_fcp.calibrate.summary import ClientSummary
from prism_fcp.errors import DataError

FORMAT: Final = "prism-fcp/summary"
SCHEMA: Final = "1"
MOST_HEADER: Final = 4096
MOST_BYTES: Final = 8 + MOST_HEADER + 4 * MOST_BINS
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_SIGNATURE: Final = re.compile(r"[0-9a-f]{128}")
_WHOLE: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_ENTRIES: Final = {"format", "schema", "client", "spec", "model", "created", "first", "bins", "n"}


def encode(summary: ClientSummary) -> bytes:
    """Return a summary's bytes: the bins from the first to the last that is not empty, 32 bits each."""
    told = np.flatnonzero(summary.counts)
    first, end = (int(told[0]), int(told[-1]) + 1) if told.size else (0, 0)
    payload = summary.counts[first:end].astype("<u4").tobytes()
    metadata = {
        "format": FORMAT, "schema": SCHEMA, "client": summary.client, "spec": summary.spec, "model": summary.model,
        "created": summary.created, "first": str(first), "bins": str(len(summary.counts)), "n": str(summary.size),
    }  # fmt: skip
    if summary.key:
        metadata["key"] = summary.key
    if summary.signature:
        metadata["signature"] = summary.signature
    tensor = {"dtype": "U32", "shape": [end - first], "data_offsets": [0, len(payload)]}
    header = json.dumps({"__metadata__": metadata, "counts": tensor}, sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header + payload


def decode(data: bytes) -> ClientSummary:
    """Return the summary these bytes are, or raise `DataError`: nothing that is not canonical is let through."""
    try:
        summary = _decode(data)
        canonical = encode(summary)
    except DataError:
        raise
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
        raise DataError(f"not a summary: {str(error)[:100] or type(error).__name__}") from error
    if canonical != data:
        raise DataError("not a summary in canonical form: made by another program, or altered")
    return summary


def sign(summary: ClientSummary, signer: Signer) -> ClientSummary:
    """Return the summary with the signature of its client's key."""
    named = replace(summary, key=signer.fingerprint, signature="")
    return replace(named, signature=signer.sign(signed_message(named)).hex())


def signed_message(summary: ClientSummary) -> bytes:
    """Return what is signed: the summary's bytes without the signature, with the name of the key."""
    return encode(replace(summary, signature=""))


def digest(data: bytes) -> str:
    """Return the name of these bytes in receipts."""
    return hashlib.sha256(data).hexdigest()


def _decode(data: bytes) -> ClientSummary:
    if not 8 < len(data) <= MOST_BYTES:
        raise DataError(f"not a summary: {len(data):,} bytes; must be 9 to {MOST_BYTES:,}")
    length = int.from_bytes(data[:8], "little")
    if not 2 <= length <= min(MOST_HEADER, len(data) - 8):
        raise DataError(f"not a summary: a header of {length:,} bytes; must be at most {MOST_HEADER:,}, and be there")
    header = json.loads(data[8 : 8 + length].decode("ascii"), parse_constant=_no_constant)
    payload = data[8 + length :]
    metadata, tensor = header["__metadata__"], header["counts"]
    _check_format(metadata)
    first, bins, n = (_whole(metadata, name) for name in ("first", "bins", "n"))
    if not 2 <= bins <= MOST_BINS:
        raise DataError(f"not a summary: {bins:,} bins; must lie in 2..{MOST_BINS:,}")
    (told,) = tensor["shape"]
    if type(told) is not int or not 1 <= told <= bins - first or len(payload) != 4 * told:
        raise DataError(f"not a summary: {len(payload):,} bytes of counts do not fit bins {first:,} to {bins:,}")
    counts = np.zeros(bins, dtype=np.int64)
    counts[first : first + told] = np.frombuffer(payload, dtype="<u4")
    if int(counts.sum()) != n:
        raise DataError(f"it claims {n:,} scores, but its counts make {int(counts.sum()):,}")
    return ClientSummary(
        metadata["client"], metadata["spec"], metadata["model"], counts, metadata["created"],
        metadata.get("key", ""), metadata.get("signature", ""),
    )  # fmt: skip


def _check_format(metadata: Any) -> None:
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise DataError("not a summary: its metadata are no texts")
    if metadata.get("format") != FORMAT:
        raise DataError(f"not a summary: format {metadata.get('format')!r:.60}; must be {FORMAT!r}")
    if metadata.get("schema") != SCHEMA:
        raise DataError(f"a summary of schema {metadata.get('schema')!r:.20}; this version reads {SCHEMA}")
    if not _ENTRIES <= set(metadata) <= _ENTRIES | {"key", "signature"}:
        raise DataError("not a summary: entries are missing, or there are unknown ones")
    check_name(metadata["client"])
    if stamp(read_time(metadata["created"])) != metadata["created"]:
        raise DataError(f"not a summary: created {metadata['created']!r:.40} is no moment in UTC, whole seconds")
    if "key" in metadata and not is_fingerprint(metadata["key"]):
        raise DataError(f"not a summary: key {metadata['key']!r:.40} is no fingerprint")
    for name, pattern in (("spec", _HASH), ("model", _HASH), ("signature", _SIGNATURE)):
        if name in metadata and not pattern.fullmatch(metadata[name]):
            raise DataError(f"not a summary: {name} {metadata[name]!r:.40} is none")
    if "signature" in metadata and "key" not in metadata:
        raise DataError("not a summary: a signature without its key's fingerprint")


def check_against(summary: ClientSummary, spec: CalibrationSpec) -> str:
    """Return why this summary is none for this spec, in one line, or nothing."""
    if summary.spec != spec.hash:
        return (
            f"made for another calibration (spec {summary.spec[:12]}, this is {spec.hash[:12]}): another round, model "
            "or grid; summarize again with this spec"
        )
    if summary.model != spec.model:
        return f"made of another model ({summary.model[:12]}, this round calibrates {spec.model[:12]})"
    if len(summary.counts) != len(spec.grid.edges) - 1:
        return f"{len(summary.counts):,} bins; the spec's grid has {len(spec.grid.edges) - 1:,}"
    if summary.counts.min() < 0 or summary.size == 0:
        return "no scores, or a negative count; at least one score is needed"
    if summary.size > spec.most_scores:
        return f"it claims {summary.size:,} scores; the spec believes no client more than {spec.most_scores:,}"
    told = summary.counts[summary.counts > 0]
    if told.min() < spec.least_count and len(told) > 1:
        return f"a count of {told.min()}; the spec has counts below {spec.least_count} merged"
    if spec.clients and summary.client not in spec.clients:
        return f"unknown client {summary.client!r}: the spec names who may take part"
    return ""


def _whole(metadata: dict[str, str], name: str) -> int:
    if not _WHOLE.fullmatch(metadata[name]):
        raise DataError(f"not a summary: {name} {metadata[name]!r:.30} is no whole number within bounds")
    return int(metadata[name])


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")
