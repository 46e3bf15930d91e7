"""Ways to spoil a summary. Each takes a random generator, a world and the place of a client in it, and returns bytes.

Some give another valid summary, as anybody can who signs nothing: the oracle says which.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from prism_fcp.calibrate.keys import PREFIX
from tests.fuzz.parts import Parts, Raw, text
from tests.fuzz.worlds import NAMES, World, signer, worlds

Mutation = Callable[[random.Random, World, int], bytes]
MUTATIONS: dict[str, Mutation] = {}
L = 2**252 + 27742317777372353535851937790883648493  # the order of Ed25519's base point
NUMBERS = (
    "-1", "-0", "00", "01", "+5", " 5", "5 ", "5\n", "1e3", "1.0", "0x10", "1_000", "NaN", "Infinity", "-Infinity", "",
    "\u0663", "\uff11\uff12", "\u00b2", "\u2155", "2147483647", "2147483648", "4294967295", "4294967296",
    str(2**63 - 1), str(2**63), str(2**64 - 1), str(2**64), "9" * 10, "9" * 11, "9" * 1000, "1" + "0" * 3000, "None",
)  # fmt: skip
RAW = (
    "null", "true", "false", "0", "-1", "1.5", "1e999", "-1e999", "NaN", "Infinity", "-Infinity", str(2**63), "-0.0",
    "[]", "{}", '[""]', "9" * 3500, "1" + "0" * 400 + ".5", "[[]]", '{"a":{}}', "'n'", "\\u0031", "0x1", "",
)  # fmt: skip
TEXTS = (
    "", " ", ".", "..", "../x", "a/b", "a\\b", "-rf", "\0", "a\nb", "a\rb", "\x1b[2J", "\x7f", "\u200b", "a\u202eb",
    "\ufeffx", "\ud800", "\udfff\ud800", "\u0301x", "e\u0301", "\ufb01", "\uff0f", "\u2024", "\u00a0", "x\u3164",
    "x" * 101, "\u5ca1" * 67, "\U0001f600" * 51, "site-0 ", "SITE-0", "s\u0456te-0", "None", "0", "%s%n", "${x}",
    "'; DROP TABLE accepted; --", "<script>alert(1)</script>", "CON", "a" * 100, "\U0001d54f", "\ufffe", "\U0010ffff",
)  # fmt: skip
TIMES = (
    "2026-11-19T12:00:00+00:00", "2026-11-19T13:00:00+01:00", "2026-11-19T12:00:00.000Z", "2026-11-19 12:00:00Z",
    "20261119T120000Z", "2026-W47-4T12:00:00Z", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59Z", "9999-12-31T23:59:59-23:59", "2026-11-19T12:00:60Z", "2026-11-19T24:00:00Z",
    "2026-02-30T00:00:00Z", "2026-11-19t12:00:00z", "\u0662026-11-19T12:00:00Z", "now", "", "1e9", "2026-11-19",
    "2026-11-19T12:00:00Z\n", "-2026-11-19T12:00:00Z", "2026-11-19T12:00:00ZZ", "2027-01-01T00:00:00Z",
    "10000-01-01T00:00:00Z", "0999-01-01T00:00:00Z", "2026-11-19T12:00:00\u221201:00",
)  # fmt: skip
ENTRIES = ("bins", "client", "created", "first", "format", "key", "model", "n", "schema", "signature", "spec")


def mutation(make: Mutation) -> Mutation:
    MUTATIONS[make.__name__] = make
    return make


def on_parts(change: Callable[[random.Random, Parts, World], None]) -> Mutation:
    """Lift a change of one part to a mutation; `several` puts such changes together."""
    CHANGES.append(change)

    def mutate(rng: random.Random, world: World, place: int) -> bytes:
        parts = Parts.of(pick(rng, world, place))
        change(rng, parts, world)
        return parts.bytes()

    mutate.__name__ = change.__name__
    return mutation(mutate)


CHANGES: list[Callable[[random.Random, Parts, World], None]] = []


def pick(rng: random.Random, world: World, place: int) -> bytes:
    return (world.signed if rng.random() < 0.5 else world.plain)[place]


# ---- bytes, blindly


@mutation
def unchanged(rng: random.Random, world: World, place: int) -> bytes:
    return pick(rng, world, place)


@mutation
def bits(rng: random.Random, world: World, place: int) -> bytes:
    data = bytearray(pick(rng, world, place))
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8, 64))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


@mutation
def bits_of_header(rng: random.Random, world: World, place: int) -> bytes:
    data = bytearray(pick(rng, world, place))
    data[rng.randrange(8 + struct.unpack("<Q", data[:8])[0])] ^= 1 << rng.randrange(8)
    return bytes(data)


@mutation
def chunks(rng: random.Random, world: World, place: int) -> bytes:
    data = pick(rng, world, place)
    start = rng.randrange(len(data))
    end = min(len(data), start + rng.choice((1, 2, 4, 8, 100, 1000)))
    piece = data[start:end]
    new = rng.choice((b"", piece * 2, piece[::-1], bytes(len(piece)), b"\xff" * len(piece), rng.randbytes(len(piece))))
    return data[:start] + new + data[end:]


@mutation
def truncated(rng: random.Random, world: World, place: int) -> bytes:
    data = pick(rng, world, place)
    return data[: rng.choice((rng.randrange(len(data)), rng.randrange(16), len(data) - rng.randrange(1, 9)))]


@mutation
def extended(rng: random.Random, world: World, place: int) -> bytes:
    more = rng.choice((1, 3, 4, 8, 100, 4096)) if rng.random() < 0.98 else 5_000_000
    return pick(rng, world, place) + rng.choice((bytes(more), b" " * more, b"[" * more, rng.randbytes(more)))


@mutation
def garbage(rng: random.Random, world: World, place: int) -> bytes:
    body = rng.choice((rng.randbytes(rng.randrange(300)), b"[" * 4088, b'{"a":' * 800, b"\x80\x04." * 9, b"PK\x03\x04"))
    return body if rng.random() < 0.5 else struct.pack("<Q", len(body)) + body


@mutation
def spliced(rng: random.Random, world: World, place: int) -> bytes:
    other = rng.choice(worlds()[:-1]) if rng.random() < 0.5 else world
    first, second = pick(rng, world, place), pick(rng, other, rng.randrange(len(NAMES)))
    cut = rng.randrange(min(len(first), len(second)))
    return first[:cut] + second[cut:]


@mutation
def header_of_another(rng: random.Random, world: World, place: int) -> bytes:
    parts = Parts.of(pick(rng, world, place))
    parts.payload = Parts.of(pick(rng, world, rng.randrange(len(NAMES)))).payload
    return parts.bytes()


@mutation
def other_round(rng: random.Random, world: World, place: int) -> bytes:
    return pick(rng, rng.choice(worlds()[:-1]), place)


# ---- frame


@on_parts
def header_length(rng: random.Random, parts: Parts, world: World) -> None:
    right = struct.unpack("<Q", parts.bytes()[:8])[0]
    forged = (right + rng.randrange(-9, 10), 0, 1, 2, 4095, 4096, 4097, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1)
    parts.length = rng.choice((*forged, right + 2**32, right << 56, len(parts.bytes()), len(parts.bytes()) - 8))


@on_parts
def padding(rng: random.Random, parts: Parts, world: World) -> None:
    parts.pad = rng.choice((b"", b" ", b" " * 8, b" " * 64, b"\n", b"\t" * 3, b"\0" * 4, b" " * 4096, b"{}", b","))


@on_parts
def blanks(rng: random.Random, parts: Parts, world: World) -> None:
    parts.blank = rng.choice((" ", "\n", "\t", "  ", "\r\n", "/**/", "\u00a0"))


@on_parts
def order(rng: random.Random, parts: Parts, world: World) -> None:
    parts.keep_order = True
    rng.shuffle(parts.metadata)
    rng.shuffle(parts.tensor)


@on_parts
def more_in_header(rng: random.Random, parts: Parts, world: World) -> None:
    key = rng.choice(("counts", "counts2", "", "__metadata__", "a" * 100, "__proto__"))
    value = rng.choice((dict(parts.tensor), {}, [], 0, "x", dict(parts.metadata), Raw("NaN")))
    parts.top.append((key, value))


# ---- metadata


@on_parts
def number(rng: random.Random, parts: Parts, world: World) -> None:
    field = rng.choice(("n", "first", "bins"))
    old = str(parts.get(field))[:50]
    right = int(old) if old.isdecimal() else 0
    near = (right + 1, right - 1, right * 10, right + 2**32, -right, right + rng.randrange(1000), right + 2**64)
    parts.put(field, rng.choice((*NUMBERS, *map(str, near))))


@on_parts
def no_text(rng: random.Random, parts: Parts, world: World) -> None:
    parts.put(rng.choice(ENTRIES), Raw(rng.choice(RAW)))


@on_parts
def odd_text(rng: random.Random, parts: Parts, world: World) -> None:
    parts.put(rng.choice(ENTRIES), rng.choice(TEXTS))


@on_parts
def name(rng: random.Random, parts: Parts, world: World) -> None:
    parts.put("client", rng.choice((*TEXTS, *NAMES, "".join(chr(rng.randrange(0x3000)) for _ in range(3)))))


@on_parts
def time(rng: random.Random, parts: Parts, world: World) -> None:
    parts.put("created", rng.choice(TIMES))


@on_parts
def hexes(rng: random.Random, parts: Parts, world: World) -> None:
    field = rng.choice(("spec", "model", "signature", "key"))
    old = str(parts.get(field))
    other = str(Parts.of(rng.choice(rng.choice(worlds()[:-1]).signed)).get(field))
    new = (old.upper(), old[:-1], old + "0", old + "\n", old[::-1], " " + old, other, "0" * len(old), "g" + old[1:])
    parts.put(field, rng.choice(new))


@on_parts
def dropped(rng: random.Random, parts: Parts, world: World) -> None:
    gone = rng.choice(ENTRIES)
    parts.metadata = [pair for pair in parts.metadata if pair[0] != gone]


@on_parts
def added(rng: random.Random, parts: Parts, world: World) -> None:
    parts.metadata.append(
        (rng.choice(("x", "", "N", "n ", "clients", "\0", "weight")), rng.choice(("", "1", "x" * 99)))
    )


@on_parts
def twice(rng: random.Random, parts: Parts, world: World) -> None:
    key, value = rng.choice(parts.metadata)
    parts.metadata.insert(rng.randrange(len(parts.metadata) + 1), (key, rng.choice((value, "0", "site-9", value))))
    parts.keep_order = rng.random() < 0.5


@on_parts
def escapes(rng: random.Random, parts: Parts, world: World) -> None:
    """Write some letter of a value another way JSON allows, or in raw UTF-8."""
    key, value = rng.choice([pair for pair in parts.metadata if isinstance(pair[1], str) and pair[1]] or [("n", "1")])
    at = rng.randrange(len(value))
    units = value[at].encode("utf-16-be", "surrogatepass")
    code = "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
    letter = rng.choice((code, code.upper().replace("\\U", "\\u"), value[at], "\\/", "\\x41", "\\", '\\"'))
    quoted = "".join(letter if i == at else (c if c != '"' else '\\"') for i, c in enumerate(value))
    parts.put(key, Raw(f'"{quoted}"'))


@on_parts
def bomb(rng: random.Random, parts: Parts, world: World) -> None:
    depth = rng.choice((10, 500, 990, 2000, 4000, 100_000))
    size = rng.choice((4096, 100_000, 1_000_000))
    value = rng.choice((
        "[" * depth, "[" * depth + "]" * depth, '{"a":' * depth + "0" + "}" * depth, '"' + "x" * size + '"', "9" * size,
        "[" + "0," * size + "0]", '"' + "\\u0041" * (size // 6) + '"', "-" * depth, '"' + "\\" * depth + '"',
    ))  # fmt: skip
    where = rng.randrange(4)
    if where == 0:
        parts.put(rng.choice(ENTRIES), Raw(value))
    elif where == 1:
        parts.top.append(("x", Raw(value)))
    elif where == 2:
        parts.put_tensor(rng.choice(("shape", "dtype", "data_offsets")), Raw(value))
    else:
        parts.metadata += [(f"k{i}", "") for i in range(min(size, 5000))]


# ---- tensor


@on_parts
def dtype(rng: random.Random, parts: Parts, world: World) -> None:
    forged = ("U8", "I32", "F32", "U64", "I64", "F64", "BOOL", "BF16", "u32", "U32 ", "", None, 0, [], ["U32"], {})
    parts.put_tensor("dtype", rng.choice(forged))


@on_parts
def shape(rng: random.Random, parts: Parts, world: World) -> None:
    n = len(parts.payload) // 4
    forged = (
        [n + 1], [n - 1], [0], [-1], [-n], [2**31], [2**32], [2**62], [2**63], [2**64], [n, 1], [1, n], [], n, str(n),
        [str(n)], [float(n)], [True], [None], [[n]], {"0": n}, None, [Raw("NaN")], [Raw("1e999")], [Raw("-0")],
        [n] * 99,
    )  # fmt: skip
    parts.put_tensor("shape", Raw(listed(rng.choice(forged))))


@on_parts
def offsets(rng: random.Random, parts: Parts, world: World) -> None:
    end = len(parts.payload)
    forged = (
        [0, end + 1], [0, end - 1], [1, end], [-1, end], [end, 0], [0, 0], [0, 2**63], [0, 2**64], [2**63, 2**63 + end],
        [0], [], [0, end, 0], [0.0, end], [0, float(end)], ["0", str(end)], [False, end], None, end, "x", {},
        [0, Raw("NaN")], [Raw("-0"), end], [0, Raw("1e999")],
    )  # fmt: skip
    parts.put_tensor("data_offsets", Raw(listed(rng.choice(forged))))


def listed(value: Any) -> str:
    return "[" + ",".join(text(item) for item in value) + "]" if isinstance(value, list) else text(value)


@on_parts
def tensor_entry(rng: random.Random, parts: Parts, world: World) -> None:
    action = rng.randrange(4)
    if action == 0:
        parts.tensor.append((rng.choice(("x", "name", "strides", "dtype", "shape")), rng.choice(("U32", [1], 0, None))))
    elif action == 1:
        parts.tensor = parts.tensor[1:] if rng.random() < 0.5 else parts.tensor[:-1]
    elif action == 2:
        parts.tensor = []
    else:
        parts.tensor += parts.tensor[:1]


# ---- counts


@on_parts
def count_bits(rng: random.Random, parts: Parts, world: World) -> None:
    counts = parts.counts
    if len(counts):
        counts[rng.randrange(len(counts))] ^= np.uint32(1 << rng.randrange(32))
        parts.put_counts(counts)
        if rng.random() < 0.5:
            parts.put("n", str(int(counts.sum(dtype=np.uint64))))


@on_parts
def count_moved(rng: random.Random, parts: Parts, world: World) -> None:
    """Keep the sum: what only a signature can tell from the truth."""
    counts = parts.counts
    told = np.flatnonzero(counts)
    if len(told):
        less, more = int(told[rng.randrange(len(told))]), rng.randrange(len(counts))
        counts[less] -= 1
        counts[more : more + 1] += 1  # a slice wraps around in silence
        parts.put_counts(counts)


@on_parts
def overflow(rng: random.Random, parts: Parts, world: World) -> None:
    counts = parts.counts
    counts[:] = rng.choice((2**32 - 1, 2**31, 2**31 - 1, 2**30))
    total = int(counts.sum(dtype=np.uint64))
    parts.put_counts(counts)
    parts.put("n", str(rng.choice((total, total % 2**32, total % 2**31, total - 2**32, 2**63, len(counts)))))


@on_parts
def inflated(rng: random.Random, parts: Parts, world: World) -> None:
    """An honest shape, and a claim of very many scores, with an n that fits or not."""
    factor = rng.choice((2, 10, 1000, 100_000, 10_000_000))
    counts = parts.counts.astype(np.uint64) * np.uint64(factor)
    parts.put_counts(counts % 2**32)
    parts.put("n", str(rng.choice((int(counts.sum()), int((counts % 2**32).sum())))))


@on_parts
def zeros(rng: random.Random, parts: Parts, world: World) -> None:
    counts = parts.counts
    more, front = np.zeros(rng.randrange(1, 9), dtype=np.uint32), rng.random() < 0.5
    action = rng.randrange(3)
    if action == 0:
        parts.put_counts(np.concatenate((more, counts) if front else (counts, more)))
        first = str(parts.get("first"))
        if front and first.isdecimal():
            parts.put("first", str(int(first[:9]) - len(more)))
    elif action == 1 and len(counts):
        counts[0 if front else -1] = 0
        parts.put_counts(counts)
        parts.put("n", str(int(counts.sum(dtype=np.uint64))))
    else:
        parts.put_counts(counts * np.uint32(0))
        parts.put("n", "0")


@on_parts
def extent(rng: random.Random, parts: Parts, world: World) -> None:
    """Other numbers of counts, with a header that agrees or not."""
    counts = parts.counts
    size = rng.choice((0, 1, 2, len(counts) + 1, max(len(counts) - 1, 0), 3842, 3843, 10_000, 200_000))
    parts.put_counts(np.resize(counts if len(counts) else np.ones(1, dtype=np.uint32), size), rng.random() < 0.7)
    parts.put("n", str(int(parts.counts.sum(dtype=np.uint64))))
    if rng.random() < 0.3:
        parts.put("first", str(rng.randrange(5)))
    if rng.random() < 0.2:
        parts.put("bins", rng.choice(("2", "3842", "1000000", "1000001", "1000002", "10000000", "4294967296")))


@on_parts
def big_endian(rng: random.Random, parts: Parts, world: World) -> None:
    parts.payload = parts.counts.byteswap().tobytes()
    if rng.random() < 0.5:
        parts.put("n", str(int(parts.counts.sum(dtype=np.uint64))))


# ---- signatures


@on_parts
def signature(rng: random.Random, parts: Parts, world: World) -> None:
    """Take a signature off, spoil it, or take another's."""
    old = bytes.fromhex(str(Parts.of(world.signed[0]).get("signature")))
    own = str(parts.get("signature"))
    if len(own) == 128 and set(own) <= set("0123456789abcdef"):
        old = bytes.fromhex(own)
    s = int.from_bytes(old[32:], "little")
    parts.put("signature", rng.choice((
        "00" * 64, (old[:32] + ((s + L) % 2**256).to_bytes(32, "little")).hex(), (old[:32] + bytes(32)).hex(),
        (old[32:] + old[:32]).hex(), (bytes([1]) + bytes(63)).hex(), old.hex().upper(), old.hex()[:-2],
        old.hex() + "00", str(Parts.of(rng.choice(world.signed)).get("signature")),
        (bytes([old[0] ^ 1]) + old[1:]).hex(), old.hex(), "",
        (old[:31] + bytes([old[31] ^ 128]) + old[32:]).hex(), rng.randbytes(64).hex(),
    )))  # fmt: skip
    if rng.random() < 0.3:
        parts.put("key", rng.choice((signer(rng.randrange(8)).fingerprint, "", "SHA256:" + "0" * 32, "MD5:x")))


@mutation
def replayed(rng: random.Random, world: World, place: int) -> bytes:
    """A signed summary, one signed thing in it changed."""
    parts = Parts.of(world.signed[place])
    change = rng.randrange(4)
    if change == 0:
        parts.put("created", f"2026-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}T12:00:00Z")
    elif change == 1:
        parts.put("client", rng.choice(NAMES))
    elif change == 2:
        parts.put("spec", rng.choice(worlds()[:-1]).spec.hash)
    else:
        parts.put("key", signer(rng.randrange(8)).fingerprint)
    return parts.bytes()


@mutation
def signed_by_another(rng: random.Random, world: World, place: int) -> bytes:
    """Well signed, by a key that is not this client's, under either fingerprint, or with other words in front."""
    parts = Parts.of(world.plain[place])
    number = rng.choice([other for other in range(8) if other != place])
    prefix = rng.choice((PREFIX, PREFIX, b"", PREFIX[:-1]))
    if prefix != PREFIX:
        number = place
    parts.put("key", signer(rng.choice((number, place))).fingerprint)
    parts.put("signature", signer(number)._secret.sign(prefix + parts.bytes()).hex())
    return parts.bytes()


@mutation
def several(rng: random.Random, world: World, place: int) -> bytes:
    parts = Parts.of(pick(rng, world, place))
    for change in rng.choices(CHANGES, k=rng.randrange(2, 5)):
        change(rng, parts, world)
    return parts.bytes()
