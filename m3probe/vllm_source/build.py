"""From a tree or a table to a ``Build``: every rule has a status, and no tree can raise out of a rule."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from m3probe.errors import UsageError
from m3probe.schema.rules import RULES
from m3probe.schema.setup import Build, Rule, RuleStatus
from m3probe.vllm_source.look import Absent, Moved
from m3probe.vllm_source.rules import READERS
from m3probe.vllm_source.tree import Tree, installed_tree, release_of, tree_at

TABLES = Path(__file__).parent / "tables"
_SPACES = re.compile(r"\s+")


def read_tree(path: Path) -> Build:
    """The rules of the vLLM in a folder, read by ``ast``; each is confirmed, absent or moved.

    Raises:
        UnreadableInput: no vLLM lies there.
    """
    return _read(tree_at(path))


def bundled(version: str) -> Build | None:
    """The table of exactly this release, each rule bundled or absent.

    ``0.33.0+rocm721`` is release 0.33.0; a nightly or a release candidate is none. None: no table.
    """
    release = release_of(version)
    table = _table(release) if release in bundled_versions() else None
    return Build(release, table) if table is not None else None


def bundled_versions() -> tuple[str, ...]:
    """Releases with a table, oldest first."""
    names = [path.name.removesuffix(".json") for path in TABLES.iterdir() if path.name.endswith(".json")]
    return tuple(sorted(names, key=lambda name: [int(part) for part in re.findall(r"\d+", name)]))


def read_build(path: Path | None = None, version: str | None = None) -> Build:
    """The build a user means: the tree at ``path``, else the table of ``version``, else the environment's vLLM.

    A version without a table has no known rule: a nightly is never taken for a release.

    Raises:
        UnreadableInput: ``path`` holds no vLLM.
        UsageError: the tree at ``path`` states another version than ``version``.
    """
    if path is not None:
        tree = tree_at(path)
        _same_version(tree, path, version)
        found = _read(tree)
        return found if tree.version is not None or version is None else Build(release_of(version), found.rules)
    if version is not None:
        return bundled(version) or Build()
    installed = installed_tree()
    return _read(installed) if installed is not None else Build()


def stated_version(path: Path | None = None) -> str:
    """What the tree at ``path``, else the environment's vLLM, states as its version; empty where nothing does.

    Raises:
        UnreadableInput: ``path`` holds no vLLM.
    """
    tree = tree_at(path) if path is not None else installed_tree()
    return (tree.version or "") if tree is not None else ""


def _same_version(tree: Tree, path: Path, version: str | None) -> None:
    if version is None or tree.version is None:
        return
    named, stated = version.strip().removeprefix("v"), tree.version
    if (release_of(named) or named) != (release_of(stated) or stated):
        raise UsageError(
            f"the vLLM here is {stated}, not {named}",
            where=str(path),
            next_move=f"Leave the version out, or name the folder of vLLM {named}",
        )


def _read(tree: Tree) -> Build:
    return Build(tree.release, {name: _rule(tree, name) for name in RULES})


def _rule(tree: Tree, name: str) -> Rule:
    try:
        found = READERS[name](tree)
        return Rule(RuleStatus.CONFIRMED, _plain(found.value), found.where)
    except Absent as absent:
        return Rule(RuleStatus.ABSENT, None, _line(str(absent)))
    except Moved as moved:
        return Rule(RuleStatus.MOVED, None, _line(str(moved)))
    except Exception as error:  # noqa: BLE001 - foreign source can be anything; what a reader trips over has moved
        return Rule(RuleStatus.MOVED, None, _line(f"{type(error).__name__}: {error}"))


def _line(text: str) -> str:
    """A reason is one line of at most 200 characters, whatever the source holds."""
    return _SPACES.sub(" ", text).strip()[:200]


def _plain(value: Any) -> Any:
    """JSON data alone: names become text, tuples lists."""
    return json.loads(json.dumps(value))


@cache
def _table(release: str | None) -> Mapping[str, Rule] | None:
    raw = json.loads((TABLES / f"{release}.json").read_text("utf-8"))
    if raw["version"] != release or set(raw["rules"]) != set(RULES):
        return None
    return {name: _from_table(entry) for name, entry in raw["rules"].items()}


def _from_table(entry: Mapping[str, Any]) -> Rule:
    if "value" not in entry:
        return Rule(RuleStatus.ABSENT, None, entry["where"])
    return Rule(RuleStatus.BUNDLED, entry["value"], entry["where"])


@dataclass(frozen=True, slots=True)
class Summary:
    """How many of the rules have which status.

    Args:
        counts: of every status, 0 included.
        total: rules that there are.
        moved: ids of the rules whose source looks different.
    """

    counts: Mapping[RuleStatus, int]
    total: int
    moved: tuple[str, ...]


def summary(build: Build) -> Summary:
    """Counts per status over all rules."""
    statuses = {name: build.rule(name).status for name in RULES}
    counted = Counter(statuses.values())
    moved = tuple(name for name, status in statuses.items() if status is RuleStatus.MOVED)
    return Summary({status: counted[status] for status in RuleStatus}, len(RULES), moved)
