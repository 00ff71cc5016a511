"""Prefix-cache tokens achieved, and those an infinite cache would have had, with the gap by cause.

The engine's thread only queues what it saw: a lookup (``KVCacheManager.get_computed_blocks``) with its block hashes, and
blocks that became findable (``BlockPool.cache_full_blocks``). ``Replay`` walks through both in order, in the writer's thread.

Counted as vLLM counts: tokens of requests that looked up, preempted ones left out. A request that could not be scheduled
looks up again; its last lookup holds (0.24 and 0.25.1 count each, later ones the last).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MOST_BLOCKS = 500_000
"""Hashes remembered, about 100 bytes each; beyond it the oldest are forgotten and the infinite cache is a large one."""
MOST_REQUESTS = 4_096
"""Requests whose last lookup can still be replaced by a later one."""
MOST_QUEUED = 50_000


@dataclass(frozen=True, slots=True)
class Lookup:
    """One lookup. ``tokens``: of the request; ``hit``: found; ``held``: leading blocks that the cache held, found or not."""

    request: str
    tokens: int
    hit: int
    held: int
    hashes: Sequence[Any]


@dataclass(frozen=True, slots=True)
class Cached:
    """Blocks that can be found from now on."""

    hashes: Sequence[Any]


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of lookups: asked for, found, and what an infinite cache had found; the rest is the gap by cause."""

    queries: int = 0
    hits: int = 0
    infinite: int = 0
    rounding: int = 0
    eviction: int = 0
    not_computed: int = 0

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(*(a + b for a, b in zip(self.all(), other.all(), strict=True)))

    def __sub__(self, other: Tokens) -> Tokens:
        return Tokens(*(a - b for a, b in zip(self.all(), other.all(), strict=True)))

    def all(self) -> tuple[int, ...]:
        """The figures in order."""
        return self.queries, self.hits, self.infinite, self.rounding, self.eviction, self.not_computed


class Replay:
    """The request stream through a cache that forgets nothing.

    Args:
        block_tokens: tokens of one block hash.
        most: hashes remembered.
    """

    def __init__(self, block_tokens: int, most: int = MOST_BLOCKS) -> None:
        self.total = Tokens()
        self.forgotten = 0
        """Hashes dropped because there were too many."""
        self._block, self._most = block_tokens, most
        self._known: dict[int, bool] = {}
        self._last: OrderedDict[str, tuple[int, Tokens]] = OrderedDict()

    def cached(self, seen: Cached) -> None:
        """Blocks became findable: from now on a miss of them is an eviction."""
        for block in seen.hashes:
            self._learn(hash(block), computed=True)

    def lookup(self, seen: Lookup) -> None:
        """A request looked up. Its own blocks are known afterwards, so a second lookup keeps the first one's measure."""
        keys = [hash(block) for block in seen.hashes]
        before = self._last.pop(seen.request, None)
        if before is None:
            infinite = self._leading(keys, seen)
            for block, key in enumerate(keys):
                self._learn(key, computed=block < seen.held)
        else:
            infinite, counted = before
            self.total -= counted
        tokens = self._split(keys, seen, infinite)
        self.total += tokens
        self._last[seen.request] = infinite, tokens
        if len(self._last) > MOST_REQUESTS:
            self._last.popitem(last=False)

    def _leading(self, keys: list[int], seen: Lookup) -> int:
        """Leading blocks that were asked for or cached before; what the cache holds was, even before recording began."""
        blocks = max(seen.held, seen.hit // self._block)
        while blocks < len(keys) and keys[blocks] in self._known:
            blocks += 1
        return blocks

    def _split(self, keys: list[int], seen: Lookup, blocks: int) -> Tokens:
        """``blocks`` leading ones as tokens; the last token is always computed, so at most all but one can be a hit."""
        blocks = max(blocks, seen.held, seen.hit // self._block)
        end = max(min(blocks * self._block, seen.tokens - 1), seen.hit)
        lost = {"rounding": 0, "eviction": 0, "not_computed": 0}
        for block in range(seen.hit // self._block, blocks):
            first, last = max(block * self._block, seen.hit), min((block + 1) * self._block, end)
            lost[self._cause(keys, block, seen.held, end)] += max(last - first, 0)
        return Tokens(seen.tokens, seen.hit, end, **lost)

    def _cause(self, keys: list[int], block: int, held: int, end: int) -> str:
        if block < held or (block + 1) * self._block > end:
            return "rounding"  # held and not taken: the last token's rule, or an alignment of cache groups
        return "eviction" if self._known.get(keys[block]) else "not_computed"

    def _learn(self, key: int, *, computed: bool) -> None:
        known = self._known
        known[key] = known.pop(key, False) or computed  # to the end: what is used last is forgotten last
        if len(known) > self._most:
            del known[next(iter(known))]
            self.forgotten += 1


class PrefixTap:
    """The two hooks, and the replay behind them.

    Args:
        scheduler: the engine's.
    """

    def __init__(self, scheduler: Any) -> None:
        manager = scheduler.kv_cache_manager
        pool = manager.block_pool
        self.dropped = 0
        self._manager, self._pool = manager, pool
        self._hash_tokens = int(pool.hash_block_size)
        self._stride = max(int(scheduler.block_size) // self._hash_tokens, 1)
        """Hashes per block of the scheduler: cache groups of several block sizes share hashes of the smallest."""
        self._groups = _full_attention(manager)
        self.replay = Replay(self._hash_tokens * self._stride)
        self._queue: deque[Lookup | Cached] = deque()

    def looked_up(self, _token: Any, result: Any, manager: Any, request: Any, *_args: Any, **_kwargs: Any) -> None:
        """After ``get_computed_blocks``: its second value is the number of tokens found, in all four versions."""
        if manager is not self._manager or request.num_preemptions or request.skip_reading_prefix_cache:
            return
        hashes = request.block_hashes[self._stride - 1 :: self._stride]
        tokens, hit = request.num_tokens, result[1]
        held = self._held(hashes, hit // (self._hash_tokens * self._stride))
        self._put(Lookup(request.request_id, tokens, hit, held, hashes))

    def cached(self, _token: Any, _result: Any, pool: Any, request: Any, *args: Any, **kwargs: Any) -> None:
        """After ``cache_full_blocks(request, blocks, num_cached_blocks, num_full_blocks, block_size, group, ...)``."""
        if pool is not self._pool:
            return
        first, last, size, group = _cached_range(args, kwargs)
        if group in self._groups and first < last:
            scale = size // self._hash_tokens
            hashes = request.block_hashes[first * scale : last * scale]
            self._put(Cached([h for i, h in enumerate(hashes, first * scale + 1) if i % self._stride == 0]))

    def drain(self) -> bool:
        """Replay what was queued; whether there was anything."""
        count = len(self._queue)
        for _ in range(count):
            seen = self._queue.popleft()
            if isinstance(seen, Lookup):
                self.replay.lookup(seen)
            else:
                self.replay.cached(seen)
        return count > 0

    def _held(self, hashes: Sequence[Any], found: int) -> int:
        """Leading blocks that the cache holds now: as a rule those found and none more, so one question is asked."""
        while found < len(hashes) and self._pool.get_cached_block(hashes[found], self._groups):
            found += 1
        return found

    def _put(self, seen: Lookup | Cached) -> None:
        if len(self._queue) < MOST_QUEUED:
            self._queue.append(seen)
        else:
            self.dropped += 1


def _cached_range(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, int, int, int]:
    names = ("blocks", "num_cached_blocks", "num_full_blocks", "block_size", "kv_cache_group_id")
    given = dict(zip(names, args, strict=False)) | kwargs
    return given["num_cached_blocks"], given["num_full_blocks"], given["block_size"], given["kv_cache_group_id"]


def _full_attention(manager: Any) -> list[int]:
    """Cache groups that keep every block; sliding-window and state-space groups hold few by design."""
    groups = getattr(getattr(manager, "kv_cache_config", None), "kv_cache_groups", None) or ()
    partial = ("SlidingWindow", "Chunked", "Mamba")
    kept = [i for i, g in enumerate(groups) if not any(word in type(g.kv_cache_spec).__name__ for word in partial)]
    return kept or [0]
