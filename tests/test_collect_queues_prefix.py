"""What an infinite prefix cache would have hit, worked out by hand for blocks of 4 tokens."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from m3probe.collectors import _prefix_cache as prefix_cache
from m3probe.collectors._prefix_cache import Cached, Lookup, PrefixTap, Replay, Tokens

A = ("a0", "a1", "a2")
"""Block hashes of a prompt of 12 to 15 tokens; a hash stands for its block and all before it."""


def asked(request: str, tokens: int, hashes: tuple[str, ...], hit: int = 0, held: int | None = None) -> Lookup:
    return Lookup(request, tokens, hit, hit // 4 if held is None else held, hashes)


def replayed(*events: Lookup | Cached, most: int = 1_000) -> Replay:
    replay = Replay(4, most)
    for event in events:
        if isinstance(event, Lookup):
            replay.lookup(event)
        else:
            replay.cached(event)
    return replay


def test_a_first_prompt_hits_nothing_and_a_repeated_one_all_full_blocks() -> None:
    total = replayed(asked("1", 14, A), Cached(A), asked("2", 14, A, hit=12)).total
    assert total == Tokens(queries=28, hits=12, infinite=12)


def test_the_last_token_is_computed_so_a_prompt_of_full_blocks_loses_most_of_the_last_one() -> None:
    # 12 tokens are 3 blocks; at most 11 tokens can be hits, and blocks are whole: 8 found, 3 lost to rounding
    total = replayed(asked("1", 12, A), Cached(A), asked("2", 12, A, hit=8, held=3)).total
    assert total == Tokens(24, 8, 11, rounding=3)


def test_the_part_of_a_last_block_is_rounding_even_where_it_was_evicted() -> None:
    # blocks a1 and a2 were evicted: a1 is lost to that (4 tokens); of a2 only 3 tokens could never be taken as a block
    total = replayed(asked("1", 12, A), Cached(A), asked("2", 12, A, hit=4)).total
    assert total == Tokens(24, 4, 11, rounding=3, eviction=4)


def test_blocks_that_were_cached_and_are_gone_are_evictions() -> None:
    total = replayed(asked("1", 14, A), Cached(A), asked("2", 14, A, hit=4)).total
    assert total == Tokens(28, 4, 12, eviction=8)


def test_blocks_that_the_first_request_has_not_computed_yet() -> None:
    # chunked prefill: one block of the first request is there, two are to come
    total = replayed(asked("1", 14, A), Cached(A[:1]), asked("2", 14, A, hit=4)).total
    assert total == Tokens(28, 4, 12, not_computed=8)


def test_a_block_that_is_held_and_not_taken_is_rounding() -> None:
    # EAGLE drops the last block found; groups of other block sizes align to theirs
    total = replayed(asked("1", 14, A), Cached(A), asked("2", 14, A, hit=8, held=3)).total
    assert total == Tokens(28, 8, 12, rounding=4)


def test_only_a_common_beginning_counts() -> None:
    other = ("a0", "b1", "a2")
    total = replayed(asked("1", 14, A), Cached(A), asked("2", 14, other, hit=4)).total
    assert total == Tokens(28, 4, 4)


def test_answers_are_part_of_the_stream() -> None:
    # the second turn of a conversation begins with the first prompt and its answer, which was cached while it grew
    total = replayed(asked("1", 5, A[:1]), Cached(A[:1]), Cached(A[1:]), asked("2", 15, A, hit=0)).total
    assert total == Tokens(20, 0, 12, eviction=12)


def test_a_later_lookup_of_the_same_request_replaces_the_first_and_does_not_hit_itself() -> None:
    # the request could not be scheduled; meanwhile another one computed the blocks that it waits for
    first = [asked("0", 14, A), asked("1", 14, A)]
    assert replayed(*first).total == Tokens(28, 0, 12, not_computed=12)
    assert replayed(*first, Cached(A), asked("1", 14, A, hit=12)).total == Tokens(28, 12, 12)
    assert replayed(asked("1", 14, A), asked("1", 14, A)).total == Tokens(14)


def test_what_was_cached_before_recording_began_is_known_by_being_held() -> None:
    replay = replayed(asked("1", 14, A, hit=12))
    assert replay.total == Tokens(14, 12, 12)
    replay.lookup(asked("2", 14, A))
    assert replay.total == Tokens(28, 12, 24, eviction=12)


def test_the_hashes_kept_are_bounded_and_the_least_used_go_first() -> None:
    others = [asked(f"x{n}", 5, (f"x{n}",)) for n in range(4)]
    replay = replayed(asked("1", 14, A), *others[:2], Cached(A), *others[2:], asked("2", 14, A), most=5)
    assert replay.total.infinite == 12  # a0..a2 were used between, so x0 and x1 went
    assert replay.forgotten == 2
    replay.lookup(asked("y", 5, ("x0",)))
    assert replay.total.infinite == 12


class Pool:
    """Stands for BlockPool; ``held``: hashes that can be found."""

    hash_block_size = 4

    def __init__(self, *held: str) -> None:
        self.held = set(held)

    def get_cached_block(self, block_hash: str, kv_cache_group_ids: list[int]) -> list[str] | None:
        assert kv_cache_group_ids == [1]
        return [block_hash] if block_hash in self.held else None


class SlidingWindowSpec: ...


class FullAttentionSpec: ...


def tapped(pool: Pool, block_size: int = 4) -> PrefixTap:
    groups = [SimpleNamespace(kv_cache_spec=SlidingWindowSpec()), SimpleNamespace(kv_cache_spec=FullAttentionSpec())]
    manager = SimpleNamespace(block_pool=pool, kv_cache_config=SimpleNamespace(kv_cache_groups=groups))
    return PrefixTap(SimpleNamespace(kv_cache_manager=manager, block_size=block_size))


def request(name: str, tokens: int, hashes: tuple[str, ...], **other: Any) -> Any:
    return SimpleNamespace(
        **{"num_preemptions": 0, "skip_reading_prefix_cache": False}
        | {"request_id": name, "num_tokens": tokens, "block_hashes": list(hashes)}
        | other
    )


def look_up(tap: PrefixTap, of: Any, hit: int) -> None:
    tap.looked_up(None, ("blocks", hit, 0), tap._manager, of)


def test_the_taps_see_lookups_and_new_blocks_in_order() -> None:
    pool = Pool()
    tap, one, two = tapped(pool), request("1", 12, A), request("2", 12, A)
    look_up(tap, one, 0)
    tap.cached(None, None, pool, one, "blocks", 0, 3, 4, 1, None)
    pool.held |= set(A)
    look_up(tap, two, 8)
    assert tap.drain()
    assert tap.replay.total == Tokens(24, 8, 11, rounding=3)
    assert not tap.drain()


def test_groups_that_keep_few_blocks_and_other_pools_do_not_count() -> None:
    pool = Pool()
    tap, one = tapped(pool), request("1", 14, A)
    tap.cached(
        None, None, pool, one, blocks=[], num_cached_blocks=0, num_full_blocks=3, block_size=4, kv_cache_group_id=0
    )
    tap.cached(None, None, Pool(), one, [], 0, 3, 4, 1)
    tap.looked_up(None, ((), 0, 0), SimpleNamespace(), one)
    assert not tap.drain()


@pytest.mark.parametrize("other", [{"num_preemptions": 1}, {"skip_reading_prefix_cache": True}])
def test_requests_that_vllm_does_not_count_are_left_out(other: dict[str, Any]) -> None:
    tap = tapped(Pool())
    look_up(tap, request("1", 14, A, **other), 0)
    assert not tap.drain()


def test_blocks_of_several_hashes_count_as_the_schedulers_blocks() -> None:
    # hashes of 4 tokens, blocks of 8: the hash at the end of a block stands for it
    pool, hashes = Pool(), ("h0", "h1", "h2", "h3", "h4")
    tap, one = tapped(pool, block_size=8), request("1", 22, hashes)
    look_up(tap, one, 0)
    tap.cached(None, None, pool, one, [], 0, 2, 8, 1)
    look_up(tap, request("2", 22, hashes), 8)
    tap.drain()
    assert tap.replay.total == Tokens(44, 8, 16, eviction=8)


def test_a_full_queue_counts_what_it_drops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefix_cache, "MOST_QUEUED", 1)
    tap = tapped(Pool())
    look_up(tap, request("1", 14, A), 0)
    look_up(tap, request("2", 14, A), 0)
    assert tap.dropped == 1
