"""A guest needs the standard library and msgspec: from a mounted folder, in an interpreter that has nothing else."""

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from guest_kit import copied_tree
from tree import modules

GUEST_ROOMS = ("m3probe.schema", "m3probe.fastpaths", "m3probe.gates", "m3probe.collectors")
SHOW = """
import importlib, json, sys
sys.path[:0] = [{mounted!r}, {msgspec!r}]
failed = {{}}
for name in {names!r}:
    try:
        importlib.import_module(name)
    except BaseException as error:
        failed[name] = repr(error)
stdlib = set(sys.stdlib_module_names) | {{"__main__", "m3probe", "msgspec"}}
print(json.dumps([failed, sorted({{m.partition(".")[0] for m in sys.modules}} - stdlib)]))
"""


@pytest.fixture(scope="module")
def mounted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """m3probe installed without its dependencies, and a folder that holds msgspec alone."""
    folder, beside = tmp_path_factory.mktemp("mounted"), tmp_path_factory.mktemp("msgspec")
    copy = copied_tree(tmp_path_factory.mktemp("tree") / "tree")
    install = ["-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", str(folder), str(copy)]
    done = subprocess.run([sys.executable, *install], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (beside / "msgspec").symlink_to(Path(msgspec.__file__).parent)
    return folder, beside


def test_every_module_of_a_guest_is_imported_where_nothing_else_is_installed(mounted: tuple[Path, Path]) -> None:
    names = sorted(name for name in modules() if name.startswith(GUEST_ROOMS))
    assert "m3probe.collectors._plugin" in names
    script = SHOW.format(mounted=str(mounted[0]), msgspec=str(mounted[1]), names=names)
    done = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True)
    failed, others = json.loads(done.stdout)
    assert failed == {}
    assert others == []


def test_a_mounted_folder_brings_its_entry_points(mounted: tuple[Path, Path]) -> None:
    """vLLM finds plugins by installed metadata: a folder on PYTHONPATH must hold it."""
    script = (
        f"import sys; sys.path[:0] = [{str(mounted[0])!r}, {str(mounted[1])!r}]\n"
        "from importlib.metadata import entry_points\n"
        "(point,) = entry_points(group='vllm.general_plugins'); print(point.name, point.load().__name__)"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["m3probe", "register"]
