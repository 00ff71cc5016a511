"""The MXFP8 tile of each regime, worked out by hand one below, at and above every threshold."""

import pytest

from m3probe.model.m3_shapes import local_shapes
from m3probe.model.model_config import minimax_m3
from m3probe.model.tiles import Tile, k_loops, native_refusal, programs, select_tile


@pytest.mark.parametrize(
    ("shape", "tile"),
    [
        # rows up to 64: depth decides, columns do not
        ((1, 6144, 6144), (16, 16, 1024, 2, 2)),
        ((64, 6144, 1024), (16, 16, 1024, 2, 2)),
        ((64, 6144, 1536), (16, 16, 512, 2, 3)),
        ((64, 6144, 768), (16, 32, 256, 4, 3)),
        ((64, 6144, 384), (16, 32, 128, 4, 3)),
        ((65, 6144, 768), (64, 64, 256, 8, 2)),
        # narrow N keeps 16 columns: up to 1536 while M <= 128, up to 1280 while M <= 256
        ((65, 1536, 768), (16, 16, 256, 2, 3)),
        ((65, 1536, 384), (16, 16, 128, 2, 3)),
        ((128, 1535, 6144), (16, 16, 1024, 2, 2)),
        ((128, 1536, 6144), (16, 16, 1024, 2, 2)),
        ((128, 1537, 6144), (64, 64, 512, 8, 2)),
        ((129, 1536, 6144), (64, 64, 512, 8, 2)),
        ((129, 1280, 6144), (16, 16, 1024, 2, 2)),
        ((256, 1279, 1536), (16, 16, 512, 2, 3)),
        ((256, 1280, 1536), (16, 16, 512, 2, 3)),
        ((256, 1281, 1536), (64, 64, 512, 8, 2)),
        ((257, 1280, 1536), (128, 64, 256, 8, 3)),
        # 65 to 256 rows on wide N: depth 512 only above K 1024
        ((256, 6144, 1024), (64, 64, 256, 8, 2)),
        ((256, 6144, 896), (64, 64, 128, 8, 2)),
        ((256, 6144, 1152), (64, 64, 128, 8, 2)),
        ((256, 6144, 1280), (64, 64, 256, 8, 2)),
        ((256, 6144, 1536), (64, 64, 512, 8, 2)),
        # prefill, K up to 1024: block 256 in K wants K 1024, 4096 rows and 256 programs of 256 x 128
        ((257, 6144, 1024), (128, 128, 128, 8, 3)),
        ((4095, 6144, 1024), (128, 128, 128, 8, 3)),
        ((4096, 6144, 1024), (128, 128, 256, 8, 2)),
        ((4097, 6144, 1024), (128, 128, 256, 8, 2)),
        ((4096, 2048, 1024), (128, 128, 256, 8, 2)),  # 16 x 16 = 256 programs
        ((4096, 1920, 1024), (128, 128, 128, 8, 3)),  # 16 x 15 = 240
        ((4096, 1921, 1024), (128, 128, 256, 8, 2)),  # 16 x 16 again, the last one nearly empty
        ((4096, 6144, 768), (128, 128, 128, 8, 3)),
        ((4096, 6144, 1152), (128, 256, 128, 8, 3)),
        # prefill, K above 1024, up to 1024 rows
        ((1023, 6144, 6144), (128, 64, 256, 8, 3)),
        ((1024, 6144, 6144), (128, 64, 256, 8, 3)),
        ((1024, 6144, 1152), (128, 64, 128, 8, 3)),
        # prefill, K above 1024, more rows: narrow band of N, or full device with depth or rows
        ((1025, 6144, 6144), (128, 128, 256, 8, 2)),
        ((1025, 1280, 6144), (128, 128, 256, 8, 2)),
        ((1025, 1536, 2048), (128, 128, 256, 8, 2)),
        ((1025, 1024, 6144), (128, 64, 256, 8, 3)),
        ((1025, 1025, 6144), (128, 128, 256, 8, 2)),
        ((4096, 1024, 6144), (128, 128, 256, 8, 2)),  # 16 x 8 = 128 programs
        ((4096, 896, 6144), (128, 64, 256, 8, 3)),  # 16 x 7 = 112
        ((4096, 1024, 2048), (128, 128, 256, 8, 2)),
        ((4095, 1024, 4096), (128, 128, 256, 8, 2)),
        ((4095, 1024, 3840), (128, 64, 256, 8, 3)),
        ((32768, 6144, 6144), (128, 128, 256, 8, 2)),
        ((2048, 6144, 1152), (128, 256, 128, 8, 3)),
    ],
)
def test_tile_at_each_threshold(shape: tuple[int, int, int], tile: tuple[int, int, int, int, int]) -> None:
    assert select_tile(*shape) == Tile(*tile)


def test_two_stages_are_a_matter_of_gfx950() -> None:
    """The branches that ask for the target differ, the last one always takes two."""
    assert select_tile(4096, 6144, 6144, gfx="gfx951").stages == 3
    assert select_tile(4096, 2048, 1024, gfx="gfx951").stages == 3
    assert select_tile(2048, 1536, 6144, gfx="gfx951").stages == 3
    assert select_tile(1025, 1280, 6144, gfx="gfx951").stages == 2


def test_decode_of_a_tp4_rank() -> None:
    """8 rows: the sparse QKV gives 160 programs with 6 turns, the shared down 192 with 3."""
    qkv = select_tile(8, 2560, 6144)
    assert (programs(8, 2560, qkv), k_loops(6144, qkv)) == (160, 6)
    down = select_tile(8, 6144, 768)
    assert (programs(8, 6144, down), k_loops(768, down)) == (192, 3)


@pytest.mark.parametrize(
    ("M", "N", "expected"),
    [(1, 16, 1), (16, 16, 1), (17, 16, 2), (17, 17, 4), (64, 2560, 640), (65, 1536, 480)],
)
def test_programs_round_up(M: int, N: int, expected: int) -> None:
    assert programs(M, N, Tile(16, 16, 1024, 2, 2)) == expected


def test_depths_that_never_reach_the_kernel() -> None:
    assert native_refusal(192) == "K 192 is not a multiple of 128"
    assert native_refusal(128) is None
    with pytest.raises(ValueError, match="does not divide K 192"):
        k_loops(192, select_tile(8, 6144, 192))
    with pytest.raises(ValueError, match="at least 1"):
        select_tile(0, 16, 128)


@pytest.mark.parametrize("tp", [1, 2, 4, 8])
@pytest.mark.parametrize("rows", [1, 64, 65, 128, 129, 256, 257, 1024, 1025, 4096, 32768])
def test_the_block_divides_every_depth_of_the_model(tp: int, rows: int) -> None:
    for gemm in local_shapes(minimax_m3(), tp):
        if gemm.kind == "linear":
            assert k_loops(gemm.K, select_tile(rows, gemm.N, gemm.K)) >= 1


def test_tp16_leaves_the_native_path() -> None:
    """The shared down of a TP16 rank has depth 192."""
    refused = [gemm.module for gemm in local_shapes(minimax_m3(), 16) if gemm.kind == "linear" and gemm.K % 128]
    assert refused == ["shared_down"]
