"""The bundled tables of four vLLM releases: whole, of the promised forms, and what was read by hand and by other means.

Where M3PROBE_VLLM_TREES names a folder that holds one folder per release (0.33.0/vllm/...), all of them are read again.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from m3_setups import ABSENT
from m3_setups import RULES as BY_HAND
from tree import ROOT

from m3probe.schema.rules import RULES
from m3probe.schema.setup import Build, Rule, RuleStatus
from m3probe.vllm_source import bundled, bundled_versions, read_tree, summary
from m3probe.vllm_source.generate import document_table, main, short, table_text
from m3probe.vllm_source.rules import READERS
from m3probe.vllm_source.rules._known import KNOWN

VERSIONS = ("0.24.0", "0.25.1", "0.32.0", "0.33.0")
TABLES = ROOT / "m3probe" / "vllm_source" / "tables"


def table(version: str) -> Build:
    build = bundled(version)
    assert build is not None
    return build


def value(version: str, name: str) -> Any:
    return table(version).rule(name).value


def test_every_rule_has_one_reader_and_every_release_a_whole_table() -> None:
    assert set(READERS) == set(RULES)
    assert bundled_versions() == VERSIONS
    for version in VERSIONS:
        build = table(version)
        assert list(build.rules) == list(RULES)
        assert {found.status for found in build.rules.values()} <= {RuleStatus.BUNDLED, RuleStatus.ABSENT}
        assert all(re.match(r"vllm/[\w/]+\.py:", found.where) for found in build.rules.values())
        counts = summary(build).counts
        assert counts[RuleStatus.BUNDLED] + counts[RuleStatus.ABSENT] == len(RULES)


# Of these the hand-read tables hold the part that a ROCm path asks for, in the same order where the order counts.
IN_PART = {"kv_connectors", "breakable_rocm", "linear_backend_map", "moe_backend_names", "moe_backend_order", "fse"} | {
    "env_int",
    "env_float",
    "env_choices",
}


def hand_checks() -> list[tuple[str, str]]:
    return [(version, name) for version in VERSIONS for name in BY_HAND[version]]


def within(part: Any, whole: Any) -> bool:
    if isinstance(part, dict):
        return all(key in whole and within(part[key], whole[key]) for key in part)
    if isinstance(part, list):
        return set(part) <= set(whole)
    return bool(part == whole)


@pytest.mark.parametrize(("version", "name"), hand_checks())
def test_a_table_says_what_was_read_by_hand(version: str, name: str) -> None:
    found, expected = table(version).rule(name), BY_HAND[version][name]
    if expected is ABSENT:
        assert found == Rule(RuleStatus.ABSENT, None, found.where)
    elif name in IN_PART:
        assert within(expected, found.value)
    else:
        assert found.value == expected
    if name == "moe_backend_order":
        assert all([m for m in found.value[q] if m in expected[q]] == expected[q] for q in ("mxfp8", "mxfp4"))
    if name == "breakable_rocm":
        assert [arch for arch in found.value if "MiniMax" in arch] == [arch for arch in expected if "MiniMax" in arch]


# rule -> its form, as a type that every value in every table must have
NUMBER_LISTS = {"float16": {"2": [int], "4": [int], "8": [int]}, "bfloat16": {"2": [int], "4": [int], "8": [int]}}
FORMS: dict[str, Any] = {
    "qr_min_size_mb": NUMBER_LISTS,
    "custom_ar": {"worlds": [int], "most_world": int, "max_bytes": int, "strict": bool, "align": int},
    "aiter_ar": {"env": str},
    "fused_ar_norm": {"max_rows": int, "max_packs": int, "pack_bytes": int, "max_bytes": {str: (int, type(None))}},
    "mxfp8_linear": {"order": [str], "k_align": int, "archs": [str]},
    "linear_backend_map": {"names": [str], "mxfp8": [str], "unmatched": str, "per_quant": bool},
    "router_gemm": {"max_rows": int, "shapes": ([[int]], type(None))},
    "moe_backend_order": {"mxfp8": [str], "mxfp4": [str]},
    "moe_backend_names": {"mxfp8": {str: [str]}, "mxfp4": {str: [str]}},
    "mxfp8_moe_aiter": {"archs": [str], "aiter_env": bool, "gate_mode": bool, "activation_checked": bool}
    | dict.fromkeys(("alpha", "beta"), (float, type(None))),
    "fse": {"check": bool, "accepts": [str], "refusal": (str, type(None)), "no_ep": bool},
    "monokernel": {"rows": [int], "tp": int, "units": int, "kv_dtypes": [str], "block": int, "refusals": [str]}
    | dict.fromkeys(("index_dtype", "draft_method", "moe_backend"), str),
    "qr_flydsl_int4": {"dtype": str, "align": int},
    "env_choices": {str: {"words": [str], "case": bool, "many": bool}},
    "sparse_pa": {"one_kv_head": bool, "raises": bool, "table_from": str},
    "fp8_indexer": {"name": str, "gfx": str, "score": str, "topk": int, "block": int, "dim": int, "max_blocks": int}
    | {"mfma_columns": (int, type(None))},
    "indexer_cp": {"flag": str},
    "index_reuse": {"flat": str},
    "index_dtypes": {"words": [str], "open": bool, "reaches": bool},
    "graph_sizes": {"decode_sizes": bool, "v2_rounds": bool},
    "index_skip_branch": {"skips": bool},
    "qknorm_aiter": {"dtypes": [str]},
    "draft_backend": {"v1_inherits": bool, "v2_inherits": bool, "v2_override": bool},
    "moriio": {"equal_pages_with_hma": bool},
    "qr_world_sizes": [int],
    "qr_int3_worlds": [int],
    **dict.fromkeys(("qr_cast_default", "runner_v2_m3", "piecewise_refused"), bool),
    **dict.fromkeys(("tile_selector", "block_size_pick"), str),
}


def fits(held: Any, form: Any) -> bool:
    if isinstance(form, tuple):
        return any(fits(held, one) for one in form)
    if isinstance(form, list):
        return isinstance(held, list) and bool(held) and all(fits(item, form[0]) for item in held)
    if isinstance(form, dict) and str in form:
        return isinstance(held, dict) and all(fits(item, form[str]) for item in held.values())
    if isinstance(form, dict):
        return isinstance(held, dict) and held.keys() == form.keys() and all(fits(held[k], form[k]) for k in form)
    return type(held) is form


@pytest.mark.parametrize("name", RULES)
def test_a_value_has_the_form_of_its_rule(name: str) -> None:
    for version in VERSIONS:
        found = table(version).rule(name)
        if name == "fse" and found.value and not found.value["check"]:
            assert found.value == {"check": False, "accepts": [], "refusal": None, "no_ep": True}
        elif found.status is not RuleStatus.ABSENT:
            assert fits(found.value, FORMS.get(name, [str])), found.value


# --- the same facts by another reader, or by eye ------------------------------------------------------------------


def test_numbers_read_by_eye() -> None:
    for version in VERSIONS:
        sizes = value(version, "qr_min_size_mb")
        by_codec = {codec: at for at, codec in enumerate(value(version, "qr_codecs"))}
        # issue 53136, InferenceX 2333: INT4 at TP4 from 16 MiB in BF16, from 2 MiB when cast; FP at TP8 from 16 MiB
        assert sizes["bfloat16"]["4"][by_codec["INT4"]] == 16
        assert sizes["float16"]["4"][by_codec["INT4"]] == 2
        assert sizes["float16"]["8"][by_codec["FP"]] == sizes["bfloat16"]["8"][by_codec["FP"]] == 16
        assert min(size for dtype in sizes.values() for row in dtype.values() for size in row) == 1
        order = value(version, "all_reduce_order")
        assert order[:3] == ["nccl_symm_mem", "quick_reduce", "flashinfer"]
        assert order[-3:] == ["custom", "symm_mem", "pynccl"]
        assert ("aiter_custom" in order) is (version != "0.24.0")
    assert [len(value(version, "env_registry")) for version in VERSIONS] == [251, 256, 301, 303]
    new = set(value("0.25.1", "env_registry")) - set(value("0.24.0", "env_registry"))
    assert "VLLM_ROCM_USE_AITER_CUSTOM_AR" in new


def test_experts_read_by_eye() -> None:
    vendor = ["FLASHINFER_TRTLLM", "DEEPGEMM", "MARLIN", "XPU"]
    last = ["TRITON_MXFP8", "EMULATION"]
    assert value("0.24.0", "moe_backend_order")["mxfp8"] == [*vendor, "NATIVE_MXFP8", "EMULATION"]
    for version in VERSIONS[1:]:
        assert value(version, "moe_backend_order")["mxfp8"] == [*vendor, "AITER_MXFP8", "HUMMING", *last]
    triple = ["AITER_MXFP4_BF16", "AITER_MXFP4_FP8", "AITER_MXFP4_MXFP4"]
    assert value("0.24.0", "moe_backend_names")["mxfp4"]["aiter"] == triple
    assert value("0.25.1", "moe_backend_names")["mxfp4"]["aiter"] == triple
    assert "aiter" not in value("0.24.0", "moe_backend_names")["mxfp8"]
    assert [value(version, "linear_backend_map")["unmatched"] for version in VERSIONS] == ["error"] * 2 + [
        "fallback"
    ] * 2
    assert all(value(version, "linear_backend_map")["mxfp8"] == ["emulation"] for version in VERSIONS)
    assert [6144, 128] in value("0.32.0", "router_gemm")["shapes"]
    assert "ModelOptMxFp8Config" not in value("0.32.0", "fse")["accepts"]
    assert {"ModelOptMxFp8Config", "QuarkConfig"} <= set(value("0.33.0", "fse")["accepts"])
    assert len(value("0.33.0", "monokernel")["refusals"]) == 25


FLAGS = [
    "--tensor-parallel-size",
    "--enable-expert-parallel",
    "--block-size",
    "--hf-overrides",
    "--speculative-config",
    "--max-num-seqs",
    "--compilation-config",
    "--kv-transfer-config",
    "--attention-config",
    "--max-model-len",
    "--host",
    "--port",
    "--api-key",
    "--model",
    "--config",
    "--kv-cache-dtype",
    "--linear-backend",
    "--moe-backend",
    "--enforce-eager",
    "--gpu-memory-utilization",
    "--trust-remote-code",
    "--headless",
    "--max-num-batched-tokens",
    "--served-model-name",
    "--disable-custom-all-reduce",
    "--data-parallel-size",
    "--pipeline-parallel-size",
    "--enable-prefix-caching",
    "--disable-hybrid-kv-cache-manager",
    "--async-scheduling",
    "--tool-call-parser",
    "--load-format",
    "--dtype",
    "--quantization",
    "--enable-log-requests",
    "--disable-log-stats",
    "--cudagraph-capture-sizes",
    "-tp",
    "-pp",
    "-dp",
    "-dcp",
    "-q",
    "-cc",
    "-ac",
    "-O",
]
VALUED = [
    "--tensor-parallel-size",
    "--model",
    "--port",
    "--hf-overrides",
    "--hf-token",
    "--api-key",
    "-O",
    "-tp",
    "-cc",
    "--config",
    "--dtype",
    "--max-model-len",
    "--kv-cache-dtype",
    "--middleware",
    "--lora-modules",
    "--attention-backend",
    "--served-model-name",
]
SWITCHES = [
    "--enforce-eager",
    "--enable-expert-parallel",
    "--trust-remote-code",
    "--headless",
    "--disable-log-stats",
    "--enable-lora",
    "--enable-prefix-caching",
    "--async-scheduling",
    "--disable-custom-all-reduce",
    "--disable-hybrid-kv-cache-manager",
]


@pytest.mark.parametrize("version", VERSIONS)
def test_flags_of_a_serve_command_by_eye(version: str) -> None:
    flags, switches = value(version, "cli_flags"), value(version, "cli_switches")
    assert set(FLAGS) <= set(flags)
    assert set(switches) <= set(flags)
    assert set(SWITCHES) <= set(switches)
    assert not set(VALUED) & set(switches)
    assert not [flag for flag in flags if flag.startswith("--no-") or "_" in flag]
    assert ("--monokernel" in flags) is ("--monokernel" in switches) is (version == "0.33.0")


def trees() -> Path:
    named = os.environ.get("M3PROBE_VLLM_TREES")
    if not named:
        pytest.skip("M3PROBE_VLLM_TREES names no folder of vLLM trees")
    return Path(named)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_tree_gives_its_table_again(version: str) -> None:
    build = read_tree(trees() / version)
    assert summary(build).moved == ()
    assert table_text(build) == (TABLES / f"{version}.json").read_text("utf-8")


@pytest.mark.parametrize("version", VERSIONS)
def test_another_reader_finds_the_same_names(version: str) -> None:
    source = trees() / version / "vllm"
    names = re.findall(r'^    "(VLLM_\w+)":', (source / "envs.py").read_text("utf-8"), re.MULTILINE)
    assert sorted(names) == value(version, "env_registry")
    read = (source / "envs.py").read_text("utf-8")
    for kind, least in (("int", 100), ("float", 4)):
        by_text = re.findall(
            rf'"(\w+)": lambda: \(?\s*(?:bool\(\s*)?{kind}\(\s*os\.(?:getenv|environ\.get)\(\s*"\1"', read
        )
        assert len(by_text) >= least
        assert set(by_text) <= set(value(version, f"env_{kind}"))
    assert set(re.findall(r'"(\w+)": env_\w*with_choices\(', read)) == set(value(version, "env_choices"))
    text = (source / "engine" / "arg_utils.py").read_text("utf-8")
    named = re.findall(r'^ +(?:\w+\.add_argument\( *)?"(--?[a-z][\w-]*)",', text, re.MULTILINE)
    assert set(named) <= set(value(version, "cli_flags"))
    assert len(set(named)) > 150
    rows = re.search(r"_QR_MIN_SIZE = \{(.*?)\n    \}", (source / QUICK).read_text("utf-8"), re.DOTALL)
    assert rows is not None
    sizes = [int(size) for size in re.findall(r"(\d+) \* MB", rows[1])]
    assert sizes == [s for dtype in value(version, "qr_min_size_mb").values() for row in dtype.values() for s in row]


# --- what writes them ---------------------------------------------------------------------------------------------

QUICK = "distributed/device_communicators/quick_all_reduce.py"


def test_the_generator_refuses_what_is_no_release_or_not_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "vllm").mkdir()
    for name in ("__init__.py", "envs.py"):
        (tmp_path / "vllm" / name).write_text("")
    assert main([str(tmp_path), "0.33.1.dev5+g1", "--out", str(tmp_path)]) == 2
    assert "is no release" in capsys.readouterr().err
    assert main([str(tmp_path), "0.33.0", "--out", str(tmp_path)]) == 2
    assert "rules that could not be read: qr_min_size_mb, qr_codecs" in capsys.readouterr().err
    assert main([str(tmp_path / "none"), "0.33.0"]) == 3
    assert not list(tmp_path.glob("*.json"))
    assert main(["--docs", str(tmp_path / "vllm" / "envs.py")]) == 3
    assert "no place for the table" in capsys.readouterr().err


def test_a_table_is_written_as_it_is_read_back() -> None:
    for version in bundled_versions():
        text = (TABLES / f"{version}.json").read_text("utf-8")
        assert table_text(table(version)) == text
        assert len(text.splitlines()) == len(RULES) + 5, "one rule a line"
        assert json.loads(text)["version"] == version


def test_the_document_holds_the_generated_table_and_every_guard() -> None:
    document = (ROOT / "docs" / "rules.md").read_text("utf-8")
    assert document_table() in document
    assert all(f"| `{name}` |" in document for name in RULES)
    assert "Not checkable here" in document
    assert all(set(re.findall(r"\d+\.\d+\.\d+", held)) <= set(VERSIONS) for g in KNOWN.values() for held in g.values())


def test_long_values_are_cut_and_counted_in_the_document_alone() -> None:
    assert short([1, 2, 3]) == "[1, 2, 3]"
    assert short(["a"] * 9) == "[a, a, a, a, a, a, a, a, ... 9 in all]"
    assert short({"a": None, "b": [True]}) == "{a: null, b: [true]}"
    assert short({str(n): n for n in range(12)}) == "{0, 1, 2, 3, 4, 5, 6, 7, ... 12 in all}"
