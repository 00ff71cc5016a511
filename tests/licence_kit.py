"""What the installed metadata say of licences: of what pyproject.toml names, and of what that brings along."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata

from packaging.requirements import Requirement
from tree import ROOT

PAGE = ROOT / "docs" / "licences.md"
BEGIN, END = "<!-- begin: made by tests/test_licences.py -->", "<!-- end -->"
SPDX = {
    "Apache Software License": "Apache-2.0",
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "BSD 2-Clause License": "BSD-2-Clause",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
"""Names of licences in older metadata -> SPDX."""


def key(name: str) -> str:
    """A project's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def asked() -> dict[str, dict[str, frozenset[str]]]:
    """Group of pyproject.toml ("" is what every installation brings) -> project -> extras asked of it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = {"": project["dependencies"], **project["optional-dependencies"]}
    return {
        group: {key(one.name): frozenset(one.extras) for one in map(Requirement, texts)}
        for group, texts in groups.items()
    }


def licence_of(name: str) -> str | None:
    """SPDX where the metadata allow it; None where the project is not installed, "?" where it says nothing usable.

    The field License is free text, sometimes a whole licence: only its names above and SPDX words count.
    """
    try:
        said = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return None
    expression, text = said.get("License-Expression"), (said.get("License") or "").strip()
    if expression:
        return str(expression)
    if text in SPDX or re.fullmatch(r"[\w.+-]{2,20}", text):
        return SPDX.get(text, text)
    named = [line.rpartition(" :: ")[2] for line in said.get_all("Classifier") or [] if line.startswith("License :: ")]
    return " OR ".join(SPDX.get(name, name) for name in named) or "?"


def brings(name: str, extras: frozenset[str]) -> dict[str, frozenset[str]]:
    """What an installed project requires here: project -> extras asked of it."""
    try:
        texts = metadata.distribution(name).requires or []
    except metadata.PackageNotFoundError:
        return {}
    needs = map(Requirement, texts)
    here = [
        one for one in needs if not one.marker or any(one.marker.evaluate({"extra": extra}) for extra in ("", *extras))
    ]
    return {key(one.name): frozenset(one.extras) for one in here}


def all_of(group: dict[str, frozenset[str]]) -> dict[str, str]:
    """Every project that a group installs -> the one that brought it; "" for the group's own."""
    found: dict[str, str] = dict.fromkeys(group, "")
    left = list(group.items())
    seen = set()
    while left:
        name, extras = left.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        for other, more in brings(name, extras).items():
            found.setdefault(other, name)
            left.append((other, more))
    return found


def made() -> str:
    """The tables of the page; a group lists nothing that every installation has anyway."""
    parts, base = [], all_of(asked()[""])
    for group, direct in asked().items():
        title = f"Extra `{group}`" if group else "Every installation"
        rows = ["| project | licence | brought by |", "|---|---|---|"]
        for name, by in sorted(all_of(direct).items(), key=lambda row: (row[1] != "", row[0])):
            if group and by and name in base:
                continue
            rows.append(f"| {name} | {licence_of(name) or 'not installed where this was made'} | {by or 'm3probe'} |")
        parts.append(f"### {title}\n\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def listed() -> dict[str, dict[str, tuple[str, str]]]:
    """The tables of the page read back: group -> project -> (licence, who brought it)."""
    text = PAGE.read_text().partition(BEGIN)[2].partition(END)[0]
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for part in text.split("### ")[1:]:
        title, _, table = part.partition("\n")
        group = title.partition("`")[2].strip("`")
        lines = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")]
        found[group] = {name: (licence, by) for name, licence, by in lines[1:]}
    return found
