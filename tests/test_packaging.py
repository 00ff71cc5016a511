"""The source archive is the tree, the wheel made from it holds exactly what the rooms hold, and what is installed is this tree.

``M3PROBE_DIST=FOLDER`` looks at the two files of a release in that folder instead of building them (.ci/release).
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from tree import ROOT, installed_names, kept_files, modules

import m3probe

AGAIN = "install it again: pip install '.[test]'"
SDIST = "import sys; from setuptools.build_meta import build_sdist; build_sdist(sys.argv[1])"
MADE = {"PKG-INFO", "setup.cfg", "m3probe.egg-info"}
"""What setuptools adds to the source archive."""


def done(command: list[object], cwd: Path) -> None:
    """A command that must end well."""
    said = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with a source archive of a copy of the tree, and a wheel made from the archive.

    An earlier build left a module in the copy that is gone since, in a folder that also names it as a source.
    """
    if "M3PROBE_DIST" in os.environ:
        return Path(os.environ["M3PROBE_DIST"])
    copy, out = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("dist")
    for name in kept_files():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name)
    for junk in ("build/lib/m3probe/analyzers/ghost.py", "docs/_build/page.html", "tests/__pycache__/ghost.pyc"):
        (copy / junk).parent.mkdir(parents=True, exist_ok=True)
        (copy / junk).write_text("ANALYZER = None\n")
    done([sys.executable, "-c", SDIST, out], copy)
    unpacked = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(next(out.glob("*.tar.gz"))) as archive:
        archive.extractall(unpacked)  # our own; `filter` came with 3.11.4, and Debian 12 has 3.11.2
    made = next(unpacked.iterdir())
    ghost = made / "build/lib/m3probe/analyzers/ghost.py"
    ghost.parent.mkdir(parents=True)
    ghost.write_text("ANALYZER = None\n")
    done([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", out, made], made)
    return out


@pytest.fixture(scope="module")
def wheel(dist: Path) -> zipfile.ZipFile:
    """The wheel."""
    (path,) = dist.glob("*.whl")
    return zipfile.ZipFile(path)


@pytest.fixture(scope="module")
def archive(dist: Path) -> dict[str, bytes]:
    """Path inside the source archive, below its one folder -> content."""
    (path,) = dist.glob("*.tar.gz")
    top = f"m3probe-{m3probe.__version__}/"
    with tarfile.open(path) as opened:
        files = [(member.name, opened.extractfile(member)) for member in opened if member.isfile()]
        held = {name: file.read() for name, file in files if file is not None}
    assert [name for name in held if not name.startswith(top)] == []
    return {name.removeprefix(top): content for name, content in held.items()}


def packaged(wheel: zipfile.ZipFile) -> set[str]:
    """The wheel's files without its own metadata."""
    return {name for name in wheel.namelist() if ".dist-info/" not in name}


def metadata(wheel: zipfile.ZipFile, ending: str) -> str:
    """The one metadata file whose name has this ending."""
    return wheel.read(next(name for name in wheel.namelist() if name.endswith(f".dist-info/{ending}"))).decode()


def test_wheel_holds_the_files_of_the_rooms_and_no_others(wheel: zipfile.ZipFile) -> None:
    assert packaged(wheel) == set(installed_names())


def test_the_wheel_made_from_the_archive_is_the_tree_byte_for_byte(wheel: zipfile.ZipFile) -> None:
    assert [name for name, path in installed_names().items() if wheel.read(name) != path.read_bytes()] == []


def test_the_source_archive_is_what_git_keeps_and_nothing_else(archive: dict[str, bytes]) -> None:
    """Tests, documents and samples too: a packager runs the tests from it."""
    assert {name for name in archive if name.partition("/")[0] not in MADE} == set(kept_files())
    assert [name for name in kept_files() if archive[name] != (ROOT / name).read_bytes()] == []


def test_the_version_of_both_is_the_one_in_the_code(dist: Path, wheel: zipfile.ZipFile) -> None:
    version = m3probe.__version__
    names = {f"m3probe-{version}.tar.gz", f"m3probe-{version}-py3-none-any.whl"}
    assert {path.name for path in dist.iterdir()} == names
    assert f"Version: {version}" in metadata(wheel, "METADATA").splitlines()


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
    if installed == ROOT / "build" / "linked" / "m3probe":
        pytest.skip("the links of .ci/link are the tree")
    here = {name.removeprefix("m3probe/"): path.read_bytes() for name, path in installed_names().items()}
    files = (path for path in installed.rglob("*") if path.is_file() and path.suffix != ".pyc")
    there = {str(path.relative_to(installed)): path.read_bytes() for path in files}
    assert sorted(there) == sorted(here), AGAIN
    assert [name for name in here if here[name] != there[name]] == [], AGAIN
