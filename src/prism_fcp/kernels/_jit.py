"""How a kernel is compiled: without the GIL, cached on disk, and forgotten when any kernel source changes.

numba's cache looks at the file of the cached function only. A function it calls may change in another file and the
stale machine code is used in silence. So the digest of every source a kernel is built from goes into the cache file's
name: another version of the sources is another file, and no two versions ever share one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from importlib.resources import files
from typing import Any, Final, TypeAlias, cast

import numba

Function: TypeAlias = Callable[..., Any]  # numba finds the types itself

# Sums may be reordered and multiply-adds contracted, so that loops fill the vector registers. Never plain
# `fastmath=True`: it lets the compiler assume that no NaN or Inf exists, and the kernels must see them.
# A loop that sums floats must not store as well: whether arrays lie close in memory would then decide between its
# vector and its scalar form, which add in different orders, and a trial's last digits would depend on the allocator.
FLAGS: Final = frozenset({"reassoc", "contract", "nsz"})


def sources_digest() -> str:
    """Return a digest of every source that ends up in a kernel: this package's files and `streams.py`."""
    sources = [f for f in files("prism_fcp.kernels").iterdir() if f.name.endswith(".py")]
    sources.append(files("prism_fcp").joinpath("streams.py"))
    digest = hashlib.sha256()
    for source in sorted(sources, key=lambda f: f.name):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


DIGEST: Final = sources_digest()


def kernel(function: Function) -> Function:
    """Compile an entry point on first call and cache it on disk, beside the source or in the user's cache folder."""
    name = function.__qualname__
    function.__qualname__ = f"{name}-{DIGEST}"  # numba names the cache file after it
    try:
        compiled = _compile(function, cache=True)
    except RuntimeError:  # there is no folder to write to: compile in every process
        compiled = _compile(function)
    finally:
        function.__qualname__ = name
    compiled.__qualname__ = name
    return compiled


def part(function: Function) -> Function:
    """Compile a piece that only kernels call; it is cached inside them."""
    return _compile(function)


def inlined(function: Function) -> Function:
    """Compile a piece that is copied to where it is called: for one-liners, and for long argument lists."""
    return _compile(function, forceinline=True)


def _compile(function: Function, cache: bool = False, forceinline: bool = False) -> Function:
    compiled: Any = numba.njit(
        function, nogil=True, error_model="numpy", fastmath=set(FLAGS), cache=cache, forceinline=forceinline
    )
    return cast(Function, compiled)
