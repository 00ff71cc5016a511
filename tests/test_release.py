"""One version everywhere, and a changelog that a reader of a release can trust."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path

import pytest
from tree import ROOT, modules

from m3probe import __version__, cli
from m3probe.collectors import _folder, _process

CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
HEADING = re.compile(r"^## \[([^\]]+)\](?: - (\d{4}-\d{2}-\d{2}))?$", re.MULTILINE)
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def faults(changelog: str, version: str, verbs: list[str]) -> list[str]:
    """What keeps a changelog from being one of this version and these verbs."""
    found = []
    headings = HEADING.findall(changelog)
    names = [name for name, _ in headings]
    numbers = [tuple(map(int, name.split("."))) for name in names[1:]]
    if names[:1] != ["Unreleased"]:
        found.append("the first section is not Unreleased")
    if numbers != sorted(set(numbers), reverse=True):
        found.append("the newest release is not first")
    found += [f"{name} has no date" for name, date in headings[1:] if not date]
    if ".dev" not in version and version not in names:
        found.append(f"{version} is no development version and has no section")
    if ".dev" in version and version.partition(".dev")[0] in names:
        found.append(f"{version} comes before a release that has been")
    kinds = set(re.findall(r"^### (.+)$", changelog, re.MULTILINE))
    found += [f"{kind} is no kind of change" for kind in sorted(kinds - KINDS)]
    return found + [f"m3probe {verb} is not told" for verb in verbs if not re.search(rf"`m3probe {verb}\b", changelog)]


def test_the_changelog_tells_every_verb_and_this_version() -> None:
    assert len(re.findall("^## ", CHANGELOG, re.MULTILINE)) == len(HEADING.findall(CHANGELOG))
    assert faults(CHANGELOG, __version__, list(cli.VERBS)) == []


GOOD = "## [Unreleased]\n\n## [0.2.0] - 2026-02-03\n\n### Added\n\n- `m3probe read PATH`.\n\n## [0.1.0] - 2026-01-02\n"


@pytest.mark.parametrize(
    ("text", "version", "said"),
    [
        (GOOD, "0.2.0", []),
        (GOOD, "0.3.0.dev0", []),
        (GOOD, "0.3.0", ["0.3.0 is no development version and has no section"]),
        (GOOD, "0.2.0.dev0", ["0.2.0.dev0 comes before a release that has been"]),
        (GOOD.replace("`m3probe read", "`m3probe ready"), "0.2.0", ["m3probe read is not told"]),
        (GOOD.replace(" - 2026-02-03", ""), "0.2.0", ["0.2.0 has no date"]),
        (GOOD.replace("Added", "New"), "0.2.0", ["New is no kind of change"]),
        (GOOD.replace("[0.1.0]", "[0.10.0]"), "0.2.0", ["the newest release is not first"]),
        (GOOD.replace("## [Unreleased]\n", ""), "0.2.0", ["the first section is not Unreleased"]),
    ],
)
def test_a_fault_of_a_changelog_is_seen(text: str, version: str, said: list[str]) -> None:
    assert faults(text, version, ["read"]) == said


def test_the_version_is_written_once() -> None:
    holders = [
        name for name, path in modules().items() if re.search(rf"[\"']{re.escape(__version__)}[\"']", path.read_text())
    ]
    assert holders == ["m3probe"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "m3probe.__version__"}


def test_the_command_a_recording_and_a_guest_tell_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["m3probe", "--version"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert (ended.value.code, capsys.readouterr().out) == (0, f"m3probe {__version__}\n")
    _folder.claim(tmp_path / "recording", "an id")
    assert json.loads((tmp_path / "recording" / "manifest.json").read_text())["m3probe"] == __version__
    assert _process.m3probe() == __version__
