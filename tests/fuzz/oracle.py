"""What a summary has to be, said a second time: a pattern, arithmetic and the safetensors library, not our code."""

from __future__ import annotations

import json
import re
import struct
import unicodedata
from datetime import datetime

import numpy as np
from safetensors.numpy import load

from prism_fcp.calibrate.names import check_name
from prism_fcp.calibrate.spec import CalibrationSpec
from prism_fcp.errors import DataError

WHOLE = "(0|[1-9][0-9]*)"
HEX = "[0-9a-f]"
HEADER = re.compile(
    rf'{{"__metadata__":{{"bins":"{WHOLE}","client":("(?:[ !#-\[\]-~]|\\"|\\u{HEX}{{4}})*"),'
    r'"created":"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)",'
    rf'"first":"{WHOLE}","format":"prism-fcp/summary",(?:"key":"SHA256:({HEX}{{32}})",)?"model":"({HEX}{{64}})",'
    rf'"n":"{WHOLE}","schema":"1",(?:"signature":"({HEX}{{128}})",)?"spec":"({HEX}{{64}})"}},'
    rf'"counts":{{"data_offsets":\[0,{WHOLE}\],"dtype":"U32","shape":\[{WHOLE}\]}}}}( *)'
)
MOST_BINS, MOST_HEADER = 1_000_000, 4096


def malformed(data: bytes) -> str:
    """Return why these bytes are no canonical summary of any spec, or nothing."""
    if len(data) < 8:
        return "no header length"
    length = struct.unpack("<Q", data[:8])[0]
    if length > MOST_HEADER or length > len(data) - 8 or length % 8:
        return "header length"
    match = HEADER.fullmatch(data[8 : 8 + length].decode("latin-1"))
    if not match:
        return "header"
    bins, client, created, first, key, _, n, signature, _, end, told, blanks = match.groups()
    if len(blanks) > 7 or (signature and not key):
        return "padding, or a signature without a key"
    if name_is_bad(client):
        return "name"
    try:
        if datetime.strptime(created, "%Y-%m-%dT%H:%M:%SZ").year < 1000:
            return "year"
    except ValueError:
        return "time"
    if max(map(len, (bins, first, n, end, told))) > 10:
        return "number"
    if not 2 <= int(bins) <= MOST_BINS or int(told) < 1 or int(first) + int(told) > int(bins):
        return "bins"
    if int(end) != 4 * int(told) or len(data) != 8 + length + int(end):
        return "extent"
    counts = load(data)["counts"]
    if counts.dtype != np.uint32 or counts.shape != (int(told),):
        return "tensor"
    if counts[0] == 0 or counts[-1] == 0:
        return "empty bins at an end"
    return "" if int(counts.sum(dtype=np.uint64)) == int(n) else "n"


def unfit(data: bytes, spec: CalibrationSpec) -> str:
    """Return why bytes that are well-formed do not belong to this spec, or nothing."""
    length = struct.unpack("<Q", data[:8])[0]
    metadata = json.loads(data[8 : 8 + length])["__metadata__"]
    if metadata["spec"] != spec.hash or metadata["model"] != spec.model:
        return "another spec or model"
    if int(metadata["bins"]) != len(spec.grid.edges) - 1 or int(metadata["n"]) > spec.most_scores:
        return "bins or n"
    if spec.clients and metadata["client"] not in spec.clients:
        return "client"
    counts = load(data)["counts"]
    small = counts[(counts > 0) & (counts < spec.least_count)]
    return "small counts" if small.size and np.count_nonzero(counts) > 1 else ""


def client_of(data: bytes) -> str:
    """Return the client that well-formed bytes name."""
    length = struct.unpack("<Q", data[:8])[0]
    name: str = json.loads(data[8 : 8 + length])["__metadata__"]["client"]
    return name


def name_is_bad(quoted: str) -> bool:
    name = json.loads(quoted)
    if '"' + "".join(escaped(letter) for letter in name) + '"' != quoted:  # an escape that was not needed
        return True
    hidden = any(unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") for letter in name)
    if hidden or not 0 < len(name) <= 100 or name[0] in ".-" or set(name) & set("/\\"):
        return True
    if name.strip() != name or unicodedata.normalize("NFKC", name) != name or len(name.encode()) > 200:
        return True
    try:
        check_name(name)  # its list of letters that nobody sees
    except DataError:
        return True
    return False


def escaped(letter: str) -> str:
    if letter == '"':
        return '\\"'
    if " " <= letter <= "~":
        return letter
    units = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
