"""Prefill on one server, decode on another: KV bytes of both sides, and the end of a server that is stopped in order."""

import pytest
from guest_kit import files, only, read
from live_starts import Live

from m3probe.schema import records

LAYERS, KV_HEADS, HEAD, F32 = 2, 2, 64, 4
PER_TOKEN = LAYERS * 2 * KV_HEADS * HEAD * F32
"""Keys and values of both layers, from config.json by hand: 2,048 bytes."""
MOVED = 128
"""Of 160 prompt tokens, in blocks of 32: the last one is computed by the decode server, so its block is not moved."""


def transfers(live: Live, direction: str) -> list[records.KvTransfer]:
    """What one side's worker moved, by any seam that knows the bytes."""
    (kept,) = live.records("worker").values()
    found = only(records.KvTransfer, kept)
    return [t for t in found if t.direction == direction and t.payload_bytes > 0]  # type: ignore[union-attr]


def test_the_decode_server_took_its_prompt_from_the_other_one(pair: dict[str, Live]) -> None:
    """The premise, by vLLM's own counters."""
    metrics = pair["kv_consumer"].metrics
    assert metrics["vllm:external_prefix_cache_hits_total"] == MOVED
    assert metrics["vllm:prompt_tokens_by_source_total:external_kv_transfer"] == MOVED
    assert metrics["vllm:prompt_tokens_by_source_total:local_compute"] == 160 - MOVED


@pytest.mark.parametrize(("role", "direction"), [("kv_producer", "save"), ("kv_consumer", "load")])
def test_kv_bytes_are_tokens_times_bytes_per_token(pair: dict[str, Live], role: str, direction: str) -> None:
    assert sum(t.payload_bytes for t in transfers(pair[role], direction)) == MOVED * PER_TOKEN


@pytest.mark.parametrize("role", ["kv_producer", "kv_consumer"])
def test_rows_of_each_side_are_what_its_counters_say(pair: dict[str, Live], role: str) -> None:
    (kept,) = pair[role].records("worker").values()
    steps = [s for record in only(records.StepCounts, kept) for s in record.steps]  # type: ignore[union-attr]
    rows = {"kv_producer": 160, "kv_consumer": 160 - MOVED + 8 - 1}[role]
    assert sum(s.rows_sum for s in steps if s.role == "worker") == rows


def test_a_server_that_is_given_time_to_stop_ends_every_file(pair: dict[str, Live]) -> None:
    """SIGTERM to the API server, with --shutdown-timeout: vLLM ends its engine and workers in order."""
    assert ends(pair["kv_consumer"]) == {"api": True, "engine": True, "worker": True}


def test_a_server_that_is_stopped_as_vllm_does_by_default_kills_two_of_its_processes(pair: dict[str, Live]) -> None:
    """Without time vLLM kills engine and worker at once: what they had flushed is there, whole, and has no end."""
    assert ends(pair["kv_producer"]) == {"api": True, "engine": False, "worker": False}
    assert [read(path)[1].why for path in files(pair["kv_producer"].folder)] == ["", "", ""]


def ends(live: Live) -> dict[str, bool]:
    found = {path.name.split("-")[0]: read(path)[0][-1] for path in files(live.folder)}
    return {name: isinstance(last, records.End) for name, last in found.items()}
