"""The wheel holds exactly what the rooms hold, under m3probe, and what is installed is this tree."""

import importlib.util
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tree import ROOMS, ROOT, installed_names, modules

AGAIN = "install it again: pip install '.[test]'"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """A wheel of a copy of the tree in which an earlier build left a module that is gone since."""
    copy = tmp_path_factory.mktemp("tree")
    for folder in ROOMS.values():
        if (ROOT / folder).is_dir():
            shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    ghost = copy / "build/lib/m3probe/analyzers/ghost.py"
    ghost.parent.mkdir(parents=True)
    ghost.write_text("ANALYZER = None\n")
    out = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(out), str(copy)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return zipfile.ZipFile(next(out.glob("*.whl")))


def packaged(wheel: zipfile.ZipFile) -> set[str]:
    """The wheel's files without its own metadata."""
    return {name for name in wheel.namelist() if ".dist-info/" not in name}


def metadata(wheel: zipfile.ZipFile, ending: str) -> str:
    """The one metadata file whose name has this ending."""
    return wheel.read(next(name for name in wheel.namelist() if name.endswith(f".dist-info/{ending}"))).decode()


def test_wheel_holds_the_files_of_the_rooms_and_no_others(wheel: zipfile.ZipFile) -> None:
    assert packaged(wheel) == set(installed_names())


def test_everything_in_the_wheel_is_imported_as_m3probe(wheel: zipfile.ZipFile) -> None:
    assert {name.partition("/")[0] for name in packaged(wheel)} == {"m3probe"}
    assert metadata(wheel, "top_level.txt").split() == ["m3probe"]


def test_licence_travels_with_the_wheel(wheel: zipfile.ZipFile) -> None:
    assert metadata(wheel, "licenses/LICENSE") == (ROOT / "LICENSE").read_text()
    assert "License-Expression: Apache-2.0" in metadata(wheel, "METADATA").splitlines()


def test_wheel_never_asks_for_what_the_serving_image_brings(wheel: zipfile.ZipFile) -> None:
    asked = [line for line in metadata(wheel, "METADATA").splitlines() if line.startswith("Requires-Dist:")]
    assert asked
    assert not [line for line in asked if line.split()[1].startswith(("torch", "vllm"))]


def test_every_folder_with_modules_is_a_package() -> None:
    """A folder without ``__init__.py`` imports from the tree and is missing from the wheel."""
    folders = {path.parent for path in modules().values()}
    assert [folder for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []


def installed_root() -> Path:
    """The folder that ``import m3probe`` finds."""
    spec = importlib.util.find_spec("m3probe")
    assert spec is not None, AGAIN
    assert spec.origin is not None, AGAIN
    return Path(spec.origin).parent


def test_installed_code_is_this_tree() -> None:
    """An old install would let every other test judge code that is no longer here."""
    installed = installed_root()
    if installed == ROOT / "m3probe":
        mapped = importlib.util.find_spec("m3probe.analyzers")
        assert mapped is not None, "the root is on sys.path, where m3probe has no mapped rooms: run `pytest` as it is"
        pytest.skip("an editable install is the tree")
    here = {name.removeprefix("m3probe/"): path.read_bytes() for name, path in installed_names().items()}
    files = (path for path in installed.rglob("*") if path.is_file() and path.suffix != ".pyc")
    there = {str(path.relative_to(installed)): path.read_bytes() for path in files}
    assert sorted(there) == sorted(here), AGAIN
    assert [name for name in here if here[name] != there[name]] == [], AGAIN
