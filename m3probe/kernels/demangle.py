"""Demangling of C++ kernel names, loaded only when a trace has mangled ones."""

from collections.abc import Callable
from functools import cache, lru_cache

# Why pycxxfilt (LLVM 23 behind a 0.4 MB abi3 module, typed, no dependencies). Measured over the 14 mangled names of
# the sample traces:
#   pycxxfilt 1.2.0      14 of 14, 13 us a name, 5.5 ms to import
#   cpp_demangle 0.1.3   13 of 14 (fails on the newer ``Tn`` in vLLM's scaled_act_and_mul_kernel), 72 us, 0.5 ms
#   cxxfilt 0.3.0        0 of the 5 bfloat16 names (libstdc++ here does not know ``DF16b``), 15 ms
NAMES_KEPT = 2**20
"""Distinct names whose reading is kept. Every analyzer walks through all names in the same order, so that a smaller
store than the names of a trace would have forgotten each of them just before it is asked for again."""

_SUFFIXES = (" [clone .kd]", " (.kd)", ".kd")


@cache
def _library() -> Callable[[str], str | None] | None:
    """The demangler, or None where it is not installed (a guest image without extras)."""
    try:
        from pycxxfilt import itanium_demangle
    except (ImportError, OSError):  # a missing or broken binary costs the names only, never the report
        return None
    return itanium_demangle


@lru_cache(maxsize=NAMES_KEPT)
def demangle(name: str) -> str:
    """Readable form of a kernel name; the name itself where there is none. Never raises.

    The kernel descriptor's suffix, in any of its three writings, is stripped: with and without it is one kernel. Names
    that do not begin with ``_Z`` are not C++-mangled and stay as they are.
    """
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    if not name.startswith("_Z"):
        return name
    library = _library()
    if library is None:
        return name
    try:
        return library(name) or name
    except ValueError:  # malformed, or (UnicodeError) bytes that were no UTF-8
        return name
