"""The sizes in tokens that graphs are captured at: the grid, a user's own list, and whole requests with drafts.

Sources, at 0.24, 0.25.1, 0.32 and 0.33: ``_set_cudagraph_sizes`` (config/vllm.py),
``adjust_cudagraph_sizes_for_spec_decode`` (config/compilation.py), ``_init_candidates`` of Model Runner V2
(v1/worker/gpu/cudagraph_utils.py) and ``initialize_cudagraph_keys`` of V1 (v1/cudagraph_dispatcher.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from m3probe.fastpaths._m3 import flag, number, option, v2_runner
from m3probe.schema.setup import Setup

CEILING, CEILING_SM100 = 512, 1024
"""Largest default size in tokens; the second on SM100 of 0.32 and 0.33."""
SIZES, MOST = "cudagraph_capture_sizes", "max_cudagraph_capture_size"


@dataclass(frozen=True, slots=True)
class Sizes:
    """Captured sizes in tokens, ascending.

    Args:
        why: where the largest is from.
        exact: False where the build's treatment of drafts is not known: then the largest is one request's too high at
            most, and sizes between are not known.
    """

    tokens: tuple[int, ...]
    why: str
    exact: bool = True

    def holding(self, rows: int) -> int | None:
        """The smallest size that holds so many rows; None above the largest."""
        return next((size for size in self.tokens if size >= rows), None)

    @property
    def largest(self) -> int:
        """Tokens of the largest size; 0 without one."""
        return self.tokens[-1] if self.tokens else 0


def said(setup: Setup, key: str) -> object:
    """A key of ``--compilation-config``, or the flag of the same name."""
    found = option(setup, "compilation-config", key)
    return flag(setup, key.replace("_", "-")) if found is None else found


def listed(setup: Setup) -> tuple[int, ...] | None:
    """The user's own sizes; None without any."""
    sizes = said(setup, SIZES)
    if isinstance(sizes, str):
        sizes = sizes.replace(",", " ").split()
    if not isinstance(sizes, list | tuple):
        return None
    return tuple(size for size in (number(entry) for entry in sizes) if size is not None)


def queries(setup: Setup) -> int:
    """Rows of one request in a uniform decode step: its token and the drafted ones."""
    return 1 + setup.spec_tokens


def general(setup: Setup) -> Sizes:
    """The list that ``_set_cudagraph_sizes`` writes: what prefill and mixed batches are padded to."""
    budget = number(flag(setup, "max-num-batched-tokens"))
    own = listed(setup)
    if own:
        return Sizes(tuple(sorted({size for size in own if budget is None or size <= budget})), SIZES)
    most = number(said(setup, MOST))
    limit, why = _default_limit(setup) if most is None else (most, MOST)
    sizes = set() if most is not None else set(_whole_requests(setup, limit))
    if budget is not None and budget <= limit:
        limit, why = budget, f"--max-num-batched-tokens {budget}"
        sizes = {size for size in sizes if size <= budget} | {budget}
    fine = flag(setup, "performance-mode") == "interactivity"
    sizes |= set(_grid(limit, fine=fine))
    return Sizes(tuple(sorted(sizes)), why)


def uniform(setup: Setup, *, full: bool) -> Sizes:
    """Sizes of uniform decode: whole requests, at most ``--max-num-seqs`` of them.

    Args:
        full: decode is captured as FULL graphs; PIECEWISE alone keeps the list as it is.
    """
    if not full:
        return general(setup)
    sizes, each = whole(setup), queries(setup)
    seqs = number(flag(setup, "max-num-seqs"))
    held = sizes.tokens if seqs is None else tuple(size for size in sizes.tokens if size <= seqs * each)
    return sizes if held == sizes.tokens else Sizes(held, f"at most {seqs} requests x {each}", sizes.exact)


def whole(setup: Setup) -> Sizes:
    """The list rounded up to whole requests; what passes its largest is dropped, in V1 and in V2."""
    plain, each = general(setup), queries(setup)
    if each == 1:
        return plain
    rounded = sorted({up for size in plain.tokens if (up := -(-size // each) * each) <= plain.largest})
    rule, v2 = setup.build.rule("graph_sizes"), v2_runner(setup)
    by_itself = bool(v2 and (rule.value or {}).get("v2_rounds"))
    if not rounded and each <= plain.largest and not by_itself:  # the list's own rounding keeps one request's graph
        rounded = [each]
    tiers = (setup.draft or {}).get("num_speculative_tokens_per_batch_size")
    exact = rule.known and v2 is not None and not tiers
    return Sizes(tuple(rounded), f"{plain.why}, in whole requests of {each}", exact)


def _ceiling(setup: Setup) -> int:
    return CEILING_SM100 if setup.gfx and setup.gfx.startswith("sm10") and _adds(setup) else CEILING


def _default_limit(setup: Setup) -> tuple[int, str]:
    """min(max_num_seqs x tokens per request x 2, 512); without --max-num-seqs vLLM's own is 256 or more."""
    seqs, each, ceiling = number(flag(setup, "max-num-seqs")), queries(setup), _ceiling(setup)
    if seqs is None:
        return ceiling, f"default {ceiling}"
    return min(seqs * each * 2, ceiling), f"min({seqs} x {each} x 2, {ceiling})"


def _adds(setup: Setup) -> bool:
    return bool((setup.build.rule("graph_sizes").value or {}).get("decode_sizes"))


def _whole_requests(setup: Setup, limit: int) -> Iterable[int]:
    """0.32 and 0.33 put sizes of whole requests beside the grid; without drafts the most requests alone."""
    if not _adds(setup):
        return ()
    seqs, each = number(flag(setup, "max-num-seqs")), queries(setup)
    if each == 1:
        return (seqs,) if seqs is not None and seqs <= limit else ()
    most = _ceiling(setup) if seqs is None else min(seqs, _ceiling(setup))
    return (count * each for count in (*_grid(most, fine=False), most) if count * each <= limit)


def _grid(limit: int, *, fine: bool) -> list[int]:
    """1, 2, 4 (fine: every one up to 32), every 8 below 256, every 16 from there."""
    first = range(1, min(limit, 32) + 1) if fine else [size for size in (1, 2, 4) if size <= limit]
    return [*first, *range(8, min(limit + 1, 256), 8), *range(256, limit + 1, 16)]
