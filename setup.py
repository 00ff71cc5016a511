"""What pyproject.toml cannot say: packages found on both sides of a mapping, and a build that starts empty."""

import shutil
import tomllib
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
ROOMS: dict[str, str] = PROJECT["tool"]["setuptools"]["package-dir"]


def packages() -> list[str]:
    """Every package of the tree by its installed name; a room without ``__init__.py`` has no code yet and is left out."""
    found = find_packages(str(ROOT), include=["m3probe", "m3probe.*"])
    for package, folder in ROOMS.items():
        if (ROOT / folder / "__init__.py").is_file():
            found += [package, *(f"{package}.{inner}" for inner in find_packages(str(ROOT / folder)))]
    return found


class BuildFromEmpty(build_py):
    """setuptools never removes from ``build/lib`` what the tree has lost, and a folder scan would load such a ghost as a plug."""

    def run(self) -> None:
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


setup(packages=packages(), cmdclass={"build_py": BuildFromEmpty})
