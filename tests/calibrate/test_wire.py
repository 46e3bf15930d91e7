from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load as load_safetensors
from tests.calibrate.sites import MODEL, NOW, scores, spec, summaries

from prism_fcp.calibrate.grid import LinearGrid, LogGrid
from prism_fcp.calibrate.summary import ClientSummary, summarize
from prism_fcp.calibrate.wire import MOST_HEADER, check_against, decode, encode
from prism_fcp.errors import DataError

AGREED = spec()
ONE = summaries(scores(1), AGREED)[0]


def same(first: ClientSummary, second: ClientSummary) -> bool:
    plain = [{**vars(summary), "counts": summary.counts.tolist()} for summary in (first, second)]
    return plain[0] == plain[1]


@given(
    client=st.text(min_size=1, max_size=100),
    values=st.lists(st.floats(0, 1e300), min_size=1, max_size=50),
    grid=st.sampled_from([LogGrid(), LogGrid(1, 0, 1), LinearGrid(2.0, 2), LinearGrid(1e-5, 999, True)]),
)
def test_what_is_written_is_read(client: str, values: list[float], grid: Any) -> None:
    agreed = spec(grid=grid)
    try:
        made = summarize(np.array(values), agreed, client, created=NOW)
    except DataError as error:
        assert "client" in str(error)
        return
    data = encode(made)
    assert same(decode(data), made) and encode(decode(data)) == data
    assert check_against(decode(data), agreed) == ""


def test_any_safetensors_library_reads_it(tmp_path: Path) -> None:
    from safetensors import safe_open

    data = encode(replace(ONE, key="SHA256:" + "0" * 32, signature="ab" * 64))
    told = load_safetensors(data)["counts"]
    assert told.dtype == np.uint32 and told.sum() == ONE.size and told[0] > 0 and told[-1] > 0
    (tmp_path / "one.safetensors").write_bytes(data)
    with safe_open(tmp_path / "one.safetensors", framework="numpy") as file:
        metadata = file.metadata()
    assert metadata["client"] == "site-0" and metadata["n"] == str(ONE.size)
    first = int(metadata["first"])
    assert ONE.counts[first : first + len(told)].tolist() == told.tolist()


def rewritten(change: Any, payload: bytes | None = None) -> bytes:
    """Return ONE's bytes with its header changed, well-formed otherwise."""
    data = encode(ONE)
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    change(header)
    plain = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    plain += b" " * (-len(plain) % 8)
    return struct.pack("<Q", len(plain)) + plain + (data[8 + length :] if payload is None else payload)


def meta(**entries: Any) -> Any:
    return lambda header: header["__metadata__"].update(entries)


def without(name: str) -> Any:
    return lambda header: header["__metadata__"].pop(name)


def tensor(**entries: Any) -> Any:
    return lambda header: header["counts"].update(entries)


def test_a_header_written_anew_is_the_same() -> None:
    assert rewritten(lambda header: None) == encode(ONE)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "0 bytes"),
        (b"12345678", "8 bytes"),
        (b"\xff" * 100, "a header of"),
        (struct.pack("<Q", 50) + b"{}", "a header of 50"),
        (struct.pack("<Q", MOST_HEADER + 8) + b" " * 9000, "at most 4,096"),
        (struct.pack("<Q", 2**63) + b"{}" * 90, "a header of"),
        (struct.pack("<Q", 2) + b"{}", "__metadata__"),
        (struct.pack("<Q", 2) + b"[]", "not a summary"),
        (struct.pack("<Q", 4000) + b"[" * 4000, "not a summary"),
        (struct.pack("<Q", 4) + b"\xff\xff\xff\xff", "not a summary"),
        (struct.pack("<Q", 4000) + b"1" * 4000, "not a summary"),
        (encode(ONE) + b"\0", "do not fit"),
        (encode(ONE)[:-1], "do not fit"),
        (encode(ONE)[:-4], "do not fit"),
        (rewritten(meta(n=str(ONE.size + 1))), "claims 201 scores, but its counts make 200"),
        (rewritten(meta(n=str(2**63))), "no whole number"),
        (rewritten(meta(n="-200")), "no whole number"),
        (rewritten(meta(n="0200")), "no whole number"),
        (rewritten(meta(n="2e2")), "no whole number"),
        (rewritten(meta(n=200)), "no texts"),
        (rewritten(meta(bins="1")), "1 bins"),
        (rewritten(meta(bins="9999999999")), "bins; must lie in"),
        (rewritten(meta(first="3841")), "do not fit"),
        (rewritten(meta(client="")), "1 to 100"),
        (rewritten(meta(client="a/b")), "without /"),
        (rewritten(meta(client="x" * 1000)), "has 1000 characters"),
        (rewritten(meta(spec="0" * 63)), "spec"),
        (rewritten(meta(model="G" * 64)), "model"),
        (rewritten(meta(created="yesterday")), "ISO 8601"),
        (rewritten(meta(created="2026-11-19T13:00:00+01:00")), "no moment in UTC"),
        (rewritten(meta(format="prism-fcp/spec")), "format"),
        (rewritten(meta(schema="2")), "schema '2'"),
        (rewritten(meta(extra="1")), "unknown ones"),
        (rewritten(without("n")), "entries are missing"),
        (rewritten(meta(signature="ab" * 64)), "without its key"),
        (rewritten(meta(key="SHA256:zz")), "key"),
        (rewritten(tensor(dtype="I32")), "canonical form"),
        (rewritten(tensor(shape=[2**40])), "do not fit"),
        (rewritten(tensor(shape=[True])), "do not fit"),
        (rewritten(tensor(shape=[1.0])), "do not fit"),
        (rewritten(tensor(shape=[])), "not a summary"),
        (rewritten(tensor(data_offsets=[0, 2**62])), "canonical form"),
        (rewritten(lambda header: header.update(other=header["counts"])), "canonical form"),
        (rewritten(lambda header: header.pop("counts")), "counts"),
        (rewritten(meta(n="0"), bytes(len(encode(ONE)) - 8 - struct.unpack("<Q", encode(ONE)[:8])[0])), "canonical"),
    ],
)
def test_bytes_that_are_no_summary(data: bytes, said: str) -> None:
    with pytest.raises(DataError, match=said) as told:
        decode(data)
    assert "\n" not in str(told.value) and len(str(told.value)) < 300


def test_nothing_hides_in_the_header() -> None:
    data = encode(ONE)
    length = struct.unpack("<Q", data[:8])[0]
    header, payload = data[8 : 8 + length], data[8 + length :]
    for other in (header + b" " * 8, header.replace(b'"n"', b' "n"', 1), header.rstrip() + b"\n" * 8):
        with pytest.raises(DataError):
            decode(struct.pack("<Q", len(other)) + other + payload)
    twice = header.rstrip().replace(b'"__metadata__":{', b'"__metadata__":{"client":"site-9",', 1)
    with pytest.raises(DataError):
        decode(struct.pack("<Q", len(twice)) + twice + payload)


@settings(max_examples=500)
@given(position=st.integers(0, len(encode(ONE)) - 1), value=st.integers(1, 255))
def test_a_changed_byte_is_refused_or_is_another_valid_summary(position: int, value: int) -> None:
    """Unsigned, some changes make another summary in good form (another name, a moved count is caught by n)."""
    data = bytearray(encode(ONE))
    data[position] ^= value
    try:
        changed = decode(bytes(data))
    except DataError:
        return
    assert encode(changed) == bytes(data) and not same(changed, ONE)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"spec": "0" * 64}, "made for another calibration"),
        ({"model": "0" * 64}, "made of another model"),
        ({"counts": np.ones(7, dtype=np.int64)}, "7 bins; the spec's grid has 3,842"),
        ({"counts": np.full(3842, 10**6)}, "claims 3,842,000,000"),
        ({"client": "stranger"}, "unknown client 'stranger'"),
    ],
)
def test_a_summary_of_something_else(change: dict[str, Any], said: str) -> None:
    agreed = spec(clients=("site-0", "site-1"))
    own = replace(ONE, spec=agreed.hash)
    assert check_against(own, agreed) == ""
    assert said in check_against(replace(own, **change), agreed)


def test_counts_that_should_have_been_merged() -> None:
    agreed = spec(least_count=5)
    assert "counts below 5 merged" in check_against(replace(ONE, spec=agreed.hash), agreed)
    assert check_against(summarize(np.ones(3), agreed, "a"), agreed) == ""
    assert MODEL == agreed.model
