"""Rules of one vLLM build: hand-made trees whose values are not vLLM's.

The mini trees repeat a few guards of vLLM (Apache-2.0) with other numbers in them: a guard is read only in its own shape.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from m3probe.errors import UnreadableInput, UsageError
from m3probe.schema.rules import RULES
from m3probe.schema.setup import Build, Rule, RuleStatus
from m3probe.vllm_source import bundled, bundled_versions, read_build, read_tree, summary
from m3probe.vllm_source.look import Moved, bindings, evaluate, integer, members, text, texts
from m3probe.vllm_source.tree import release_of

QUICK = "vllm/distributed/device_communicators/quick_all_reduce.py"
NATIVE = "vllm/model_executor/kernels/linear/mxfp8/rocm_native.py"
QUICK_TEXT = """
class QuickReduceRegime(Enum):
    FP = 0
    INT4 = 1
    INT3 = 2
    NONE = 3

MB = 1024 * 1024

class QuickAllReduce:
    _SUPPORTED_WORLD_SIZES = [2, 16]
    _SUPPORTED_DTYPES = [torch.bfloat16]
    _QR_MIN_SIZE = {
        (torch.float16, 2): [3 * MB, 5 * MB, 7 * MB],
        (torch.bfloat16, 16): [1024 * 1024 * 9, 11 * MB, 2 * (MB + 5 * MB)],
    }

    def init_quick_all_reduce(self):
        if self.qr_quant_level == QuickReduceRegime.INT3 and self.world_size != 16:
            return

    def _rocm_arch_available(self):
        if not current_platform.is_rocm():
            return False
        try:
            props = torch.cuda.get_device_properties(0)
            gcn_arch = getattr(props, "gcnArchName", "")
            supported_archs = ["gfx12"]
            return any(gfx in gcn_arch for gfx in supported_archs)
        except Exception as e:
            return False

    def should_quick_allreduce(self, inp: torch.Tensor):
        if self.disabled:
            return False
        if inp.dtype not in self._SUPPORTED_DTYPES:
            return False
        inp_size = inp.numel() * inp.element_size()
        if inp_size % 16 != 0:
            return False
        if not is_weak_contiguous(inp):
            return False
        dtype = inp.dtype
        if self.use_fp16_kernels:
            dtype = torch.float16
        min_size = self.qr_min_size
        if min_size is None:
            min_size = self._QR_MIN_SIZE[(dtype, self.world_size)][
                self.qr_quant_level.value
            ]
        return inp_size <= self.qr_max_size and inp_size >= min_size

    def quick_all_reduce(self, inp):
        return inp
"""
ENVS_TEXT = """
environment_variables = {
    "VLLM_B": lambda: os.getenv("VLLM_B", "x"),
    "CUDA_HOME": lambda: os.environ.get("CUDA_HOME", None),
    "VLLM_ROCM_QUICK_REDUCE_CAST_BF16_TO_FP16": lambda: (
        os.getenv("VLLM_ROCM_QUICK_REDUCE_CAST_BF16_TO_FP16", "False").lower() in ("true", "1")
    ),
    "VLLM_A": lambda: None,
}
"""
TILES_TEXT = """
def _mxfp8_dot_scaled_linear(x, w, w_scale):
    M, K = x.shape
    if M >= 1024:  # the split of 0.24.0 and 0.25.1
        BLOCK_M, BLOCK_N, num_warps, num_stages = 128, 256, 8, 2
    else:
        BLOCK_M, BLOCK_N, num_warps, num_stages = 64, 64, 4, 2
    BLOCK_K = 128
"""
CLI = {
    "vllm/entrypoints/cli/serve.py": "from vllm.entrypoints.new.place import make_arg_parser\n",
    "vllm/entrypoints/new/place.py": """
class Base:
    host: str | None = None
    disable_log: bool = False
class Front(Base):
    api_key: list[str] | None = None
    hf_token: bool | str | None = None
    seen: ClassVar[int] = 1
    def add_cli_args(cls, parser): ...
def make_arg_parser(parser):
    parser.add_argument("model_tag", nargs="?")
    parser.add_argument("--headless", action="store_true")
    parser.add_argument("--api-server-count", "-asc", type=int)
    parser = Front.add_cli_args(parser)
    parser = AsyncEngineArgs.add_cli_args(parser)
""",
    "vllm/engine/arg_utils.py": """
class EngineArgs:
    def add_cli_args(parser):
        p = get_kwargs(ParallelConfig)
        group = parser.add_argument_group(title="x")
        group.add_argument("--tensor-parallel-size", "-tp", **p["tensor_parallel_size"])
        group.add_argument("--enable-expert-parallel", "-ep", **p["enable_expert_parallel"])
        group.add_argument("--chunked", **{**p["chunked"], "default": None})
        own = p["lazy"]
        group.add_argument("--lazy", **own)
        group.add_argument("--lora", action=argparse.BooleanOptionalAction)
        group.add_argument("--log-file", action=DeprecatedAction)
class AsyncEngineArgs(EngineArgs):
    def add_cli_args(parser):
        parser.add_argument("--enable-log-requests", action=argparse.BooleanOptionalAction)
""",
    "vllm/config/parallel.py": """
Flag = bool
class ParallelConfig:
    tensor_parallel_size: int = 1
    enable_expert_parallel: bool = False
    chunked: bool | None = None
    lazy: Annotated[Flag, 3] = False
""",
    "vllm/utils/argparse_utils.py": 'class FlexibleArgumentParser:\n    def f(arg): return arg == "-O"\n',
}


def make(root: Path, files: dict[str, str], version: str | None = None) -> Path:
    """A tree that vLLM is found in, with these files."""
    stated = {"vllm/_version.py": f"__version__ = version = '{version}'\n"} if version else {}
    for name, held in ({"vllm/__init__.py": "", "vllm/envs.py": ENVS_TEXT} | stated | files).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(held, "utf-8")
    return root


def rule(root: Path, name: str) -> Rule:
    return read_tree(root).rule(name)


# --- values out of hand-made trees -------------------------------------------------------------------------------


def test_another_size_table_is_read_as_it_stands(tmp_path: Path) -> None:
    build = read_tree(make(tmp_path, {QUICK: QUICK_TEXT}))
    sizes = {"float16": {"2": [3, 5, 7]}, "bfloat16": {"16": [9, 11, 12]}}
    assert build.rule("qr_min_size_mb") == Rule(RuleStatus.CONFIRMED, sizes, f"{QUICK}:13")
    assert build.rule("qr_codecs") == Rule(RuleStatus.CONFIRMED, ["FP", "INT4", "INT3"], f"{QUICK}:2")
    assert build.rule("qr_world_sizes").value == [2, 16]
    assert build.rule("qr_archs").value == ["gfx12"]
    assert build.rule("qr_int3_worlds").value == [16]
    assert build.rule("qr_dtypes").value == ["bfloat16"]
    assert build.rule("qr_cast_default").value is False
    assert build.rule("qr_flydsl_int4").status is RuleStatus.ABSENT


@pytest.mark.parametrize(
    ("old", "new", "lost"),
    [
        ("class QuickReduceRegime", "class Regime", {"qr_codecs", "qr_min_size_mb", "qr_int3_worlds"}),
        ("INT4 = 1\n", "INT4 = 7\n", {"qr_codecs", "qr_min_size_mb", "qr_int3_worlds"}),
        ("def should_quick_allreduce", "def wants", {"qr_min_size_mb"}),
        ("inp_size >= min_size", "inp_size > min_size", {"qr_min_size_mb"}),
        ("% 16 != 0", "% 32 != 0", {"qr_min_size_mb"}),
        ("[3 * MB, 5 * MB, 7 * MB]", "[3 * MB, 5 * MB]", {"qr_min_size_mb"}),
        ("7 * MB", "7 * MB + 1", {"qr_min_size_mb"}),
        ("INT3 and", "INT3 or", {"qr_int3_worlds"}),
        ("if not current_platform.is_rocm()", "if current_platform.is_rocm()", {"qr_archs"}),
        ("return any(gfx in", "return all(gfx in", {"qr_archs"}),
        ("def quick_all_reduce", "def quick_aiter_reduce", {"qr_flydsl_int4"}),
        ("return inp\n", "return aiter.quick(inp)\n", {"qr_flydsl_int4"}),
    ],
)
def test_a_guard_of_another_shape_has_moved_and_the_rules_beside_it_have_not(
    tmp_path: Path, old: str, new: str, lost: set[str]
) -> None:
    assert QUICK_TEXT.count(old) == 1
    build = read_tree(make(tmp_path, {QUICK: QUICK_TEXT.replace(old, new)}))
    mine = [name for name in RULES if name.startswith("qr_")]
    assert {name for name in mine if build.rule(name).status is RuleStatus.MOVED} == lost
    assert all(build.rule(name).value is None and build.rule(name).where for name in lost)


def test_comments_docstrings_prose_and_line_breaks_are_no_shape(tmp_path: Path) -> None:
    other = QUICK_TEXT.replace("inp_size % 16 != 0:", "(inp_size\n % 16) != 0:  # bytes")
    other = other.replace(
        "        if self.disabled:",
        '        """Whether to."""\n        logger.info("asked")\n        if self.disabled:',
    )
    assert rule(make(tmp_path, {QUICK: other}), "qr_min_size_mb").status is RuleStatus.CONFIRMED


def test_the_two_bucket_tiles_are_known_by_their_numbers(tmp_path: Path) -> None:
    assert rule(make(tmp_path / "a", {NATIVE: TILES_TEXT}), "tile_selector").value == "two_bucket"
    other = TILES_TEXT.replace("64, 64, 4, 2", "64, 64, 8, 2")
    assert rule(make(tmp_path / "b", {NATIVE: other}), "tile_selector").status is RuleStatus.MOVED


def test_flags_and_switches_come_from_calls_and_fields(tmp_path: Path) -> None:
    build = read_tree(make(tmp_path, CLI))
    switches = "--chunked --disable-log --enable-expert-parallel --enable-log-requests --headless --lazy --lora -ep"
    valued = "--api-key --api-server-count --hf-token --host --log-file --tensor-parallel-size -O -asc -tp"
    assert build.rule("cli_switches").value == switches.split()
    assert build.rule("cli_flags").value == sorted(f"{switches} {valued}".split())


def test_a_flag_made_in_another_way_loses_the_rule_and_nothing_else(tmp_path: Path) -> None:
    name = "vllm/engine/arg_utils.py"
    built = CLI[name].replace('"--lora", action', 'f"--{lora}", action')
    build = read_tree(make(tmp_path, CLI | {name: built}))
    assert [build.rule(flag).status for flag in ("cli_flags", "cli_switches")] == [RuleStatus.MOVED] * 2
    assert build.rule("env_registry").value == ["VLLM_A", "VLLM_B", "VLLM_ROCM_QUICK_REDUCE_CAST_BF16_TO_FP16"]


# --- trees that are damaged or strange ---------------------------------------------------------------------------


def _link(path: Path) -> None:
    path.symlink_to(path)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "does not parse": lambda path: path.write_text("def f(:\n"),
    "null byte": lambda path: path.write_bytes(b"x = 1\0"),
    "brackets": lambda path: path.write_text("x = " + "(" * 100_000),
    "larger than 2,000,000 B": lambda path: path.write_bytes(b"#" * 10_000_000),
    "no such file": lambda _path: None,
    "a loop of links": _link,
    "a folder": lambda path: path.mkdir(),
    "a pipe": os.mkfifo,
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_file_loses_its_own_rules_and_raises_nothing(tmp_path: Path, kind: str) -> None:
    make(tmp_path, {QUICK: ""})
    (tmp_path / QUICK).unlink()
    DAMAGE[kind](tmp_path / QUICK)
    build = read_tree(tmp_path)
    assert build.rule("qr_codecs").status is RuleStatus.MOVED
    assert QUICK in build.rule("qr_codecs").where
    assert build.rule("env_registry").status is RuleStatus.CONFIRMED


def test_bytes_that_are_no_utf8_stand_in_comments_and_do_no_harm(tmp_path: Path) -> None:
    make(tmp_path, {QUICK: ""})
    (tmp_path / QUICK).write_bytes(b"# \xff\xfe caf\xe9\n" + QUICK_TEXT.encode())
    assert rule(tmp_path, "qr_world_sizes").value == [2, 16]


@pytest.mark.parametrize("text", ["", "x = 1\n", "class A: pass\n", "environment_variables = {1: 2, **x}\n"])
def test_nothing_is_absent_in_a_tree_that_holds_nothing(tmp_path: Path, text: str) -> None:
    """What is missing together with the code that would use it was renamed or torn out: moved, never absent."""
    names = {
        where.split(":")[0]
        for v in bundled_versions()
        if (b := bundled(v))
        for where in (r.where for r in b.rules.values())
    }
    build = read_tree(make(tmp_path, dict.fromkeys(names, text)))
    assert {build.rule(name).status for name in RULES} == {RuleStatus.MOVED}
    assert all("\n" not in build.rule(name).where and len(build.rule(name).where) <= 200 for name in RULES)


@pytest.mark.parametrize(
    "source",
    ["UNBOUND", "[UNBOUND]", "f()", "1 if x else 2", "{**a}", "-'a'", "2 ** 9", "[*a]", "True + 1", "x[0]"],
)
def test_what_is_no_constant_is_no_value(source: str) -> None:
    node = ast.parse(source, mode="eval").body
    for read in (text, texts, integer):
        with pytest.raises(Moved):
            read(node)


def test_constants_are_followed_through_names_and_arithmetic() -> None:
    names = bindings(ast.parse("KB = 1 << 10\nMB = KB * 1024\nARCHS = frozenset({'a', 'b'})\nA = A"))
    assert integer(ast.parse("2 * (MB - KB) // 4", mode="eval").body, names) == 523_776
    assert texts(ast.parse("tuple(ARCHS)", mode="eval").body, names) == ["a", "b"]
    assert members(evaluate(ast.parse("[E.X, E.Y]", mode="eval").body), "E") == ["X", "Y"]
    for strange in ("[E.X, 'Y']", "[F.X]", "[]"):
        with pytest.raises(Moved):
            members(evaluate(ast.parse(strange, mode="eval").body), "E")
    with pytest.raises(Moved):
        integer(ast.parse("A", mode="eval").body, names)


# --- which build is meant ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("0.33.0", "0.33.0"),
        ("v0.33.0", "0.33.0"),
        ("0.33.0+rocm721", "0.33.0"),
        ("0.33.0+rocm7.2.1", "0.33.0"),
        ("0.33.0+cu129", "0.33.0"),
        ("0.33.1.dev5+g123", None),
        ("0.33.0rc1", None),
        ("0.33.0+g123abc", None),
        ("0.33", None),
        ("nightly", None),
        ("", None),
    ],
)
def test_only_a_release_is_a_release(version: str, release: str | None) -> None:
    assert release_of(version) == release
    found = bundled(version)
    assert (found.version if found else None) == release
    build = read_build(version=version)
    assert build.version == release
    assert build.rule("qr_codecs").status is (RuleStatus.BUNDLED if release else RuleStatus.UNKNOWN)


def test_a_release_without_a_table_is_unknown() -> None:
    assert bundled("0.31.0") is None
    assert read_build(version="0.31.0") == Build()
    assert summary(Build()).counts[RuleStatus.UNKNOWN] == len(RULES)


@pytest.mark.parametrize("inner", [".", "vllm"])
def test_a_tree_speaks_for_itself(tmp_path: Path, inner: str) -> None:
    make(tmp_path, {QUICK: QUICK_TEXT}, "0.33.0+rocm721")
    for version in (None, "0.33.0", "0.33.0+cu129"):
        build = read_build(tmp_path / inner, version)
        assert build.version == "0.33.0"
        assert build.rule("qr_world_sizes").value == [2, 16], "the tree, not the table"
    with pytest.raises(UsageError, match=r"the vLLM here is 0\.33\.0\+rocm721, not 0\.32\.0"):
        read_build(tmp_path / inner, "0.32.0")


def test_a_nightly_tree_is_read_and_is_no_release(tmp_path: Path) -> None:
    make(tmp_path, {QUICK: QUICK_TEXT}, "0.33.1.dev5+g123")
    assert read_build(tmp_path).version is None
    assert read_build(tmp_path, "0.33.1.dev5+g123").rule("qr_world_sizes").value == [2, 16]
    with pytest.raises(UsageError):
        read_build(tmp_path, "0.33.0")


def test_a_tree_that_states_no_version_takes_the_users(tmp_path: Path) -> None:
    assert read_build(make(tmp_path, {})).version is None
    assert read_build(tmp_path, "0.32.0").version == "0.32.0"


@pytest.mark.parametrize("kind", ["missing", "empty", "file", "other"])
def test_a_path_without_vllm_is_exit_3_with_the_next_move(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    if kind == "file":
        path.write_text("")
    elif kind != "missing":
        (path / "vllm").mkdir(parents=True)
    with pytest.raises(UnreadableInput) as caught:
        read_build(path)
    assert caught.value.exit_code == 3
    assert "Name the folder that holds vllm/" in caught.value.sentence()


def test_the_environments_vllm_is_found_and_never_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, {QUICK: QUICK_TEXT, "vllm/__init__.py": "raise SystemExit\n"})
    spec = ModuleSpec("vllm", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path / "vllm")]
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: spec)
    assert read_build().rule("qr_world_sizes").value == [2, 16]
    assert "vllm" not in sys.modules
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    assert read_build() == Build()


def test_a_summary_counts_every_status_and_names_what_moved(tmp_path: Path) -> None:
    lost = dict.fromkeys(set(RULES) - {"qr_codecs", "router_gemm"}, Rule(RuleStatus.CONFIRMED, 1))
    build = Build("0.33.0", lost | {"qr_codecs": Rule(RuleStatus.MOVED), "router_gemm": Rule(RuleStatus.ABSENT)})
    found = summary(build)
    assert found.counts[RuleStatus.CONFIRMED] == len(RULES) - 2
    assert (found.counts[RuleStatus.MOVED], found.counts[RuleStatus.ABSENT]) == (1, 1)
    assert (found.counts[RuleStatus.BUNDLED], found.counts[RuleStatus.UNKNOWN]) == (0, 0)
    assert found.moved == ("qr_codecs",)
