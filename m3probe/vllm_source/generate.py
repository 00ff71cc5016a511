"""Writes the bundled table of one release from its tree, and the table of ``docs/rules.md`` from the bundled ones.

``python -m m3probe.vllm_source.generate DIR VERSION [--out FOLDER]`` and
``python -m m3probe.vllm_source.generate --docs FILE``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from m3probe.errors import M3ProbeError, UnreadableInput, UsageError
from m3probe.schema.rules import RULES
from m3probe.schema.setup import Build, Rule, RuleStatus
from m3probe.vllm_source.build import TABLES, bundled, bundled_versions, read_build, summary
from m3probe.vllm_source.tree import release_of

BEGIN, END = "<!-- rules: begin -->", "<!-- rules: end -->"
_MOST = 8  # longer lists and objects are cut in the document, never in a table


def table_text(build: Build) -> str:
    """One release's table: one rule a line, so that a change shows as a line.

    Raises:
        UsageError: the build is no release, or one of its rules has moved.
    """
    if build.version is None:
        raise UsageError("a nightly gets no table", next_move="Name a tree that states a release")
    moved = summary(build).moved
    if moved:
        raise UsageError(f"rules that could not be read: {', '.join(moved)}", next_move="Mend their readers first")
    lines = [f"  {json.dumps(name)}: {json.dumps(_entry(build.rule(name)))}" for name in RULES]
    return f'{{\n "version": {json.dumps(build.version)},\n "rules": {{\n' + ",\n".join(lines) + "\n }\n}\n"


def _entry(rule: Rule) -> dict[str, Any]:
    return {"where": rule.where} if rule.status is RuleStatus.ABSENT else {"value": rule.value, "where": rule.where}


def write_table(tree: Path, version: str, folder: Path) -> Path:
    """Read a tree and write ``VERSION.json``.

    Raises:
        UnreadableInput: no vLLM there.
        UsageError: another version, no release, or a rule that has moved.
    """
    if release_of(version) != version:
        raise UsageError(f"{version} is no release", next_move="Name it as 0.33.0")
    target = folder / f"{version}.json"
    target.write_text(table_text(read_build(tree, version)), "utf-8")
    return target


def document_table() -> str:
    """Markdown: one row per rule and value, with the releases that hold it and the lines where it stands."""
    lines = ["| rule | releases | value in short | where |", "|--|--|--|--|"]
    for name in RULES:
        lines += _rows(name)
    return "\n".join(lines)


def _rows(name: str) -> list[str]:
    same: dict[str, list[tuple[str, Rule]]] = {}
    for version in bundled_versions():
        build = bundled(version)
        rule = build.rule(name) if build is not None else Rule(RuleStatus.UNKNOWN)
        key = "absent" if rule.status is RuleStatus.ABSENT else json.dumps(rule.value)
        same.setdefault(key, []).append((version, rule))
    rows = []
    for key, held in same.items():
        text = "absent" if key == "absent" else f"`{short(held[0][1].value)}`"
        rows.append(f"| `{name}` | {', '.join(version for version, _ in held)} | {text} | {_places(held)} |")
    return rows


def _places(held: Sequence[tuple[str, Rule]]) -> str:
    """``envs.py:1236, 1260``: each file once, with its line at every release; an absence has its reason."""
    if held[0][1].status is RuleStatus.ABSENT:
        return "; ".join(dict.fromkeys(rule.where.removeprefix("vllm/") for _, rule in held))
    lines: dict[str, list[str]] = {}
    for _, rule in held:
        file, _, line = rule.where.removeprefix("vllm/").partition(":")
        lines.setdefault(file, []).append(line)
    return "; ".join(f"{file}:{', '.join(numbers)}" for file, numbers in lines.items())


def short(value: Any) -> str:
    """A value on one line: long lists and objects are cut and counted."""
    if isinstance(value, list):
        shown = [short(item) for item in value[:_MOST]]
        return f"[{', '.join(shown)}{f', ... {len(value)} in all' if len(value) > _MOST else ''}]"
    if isinstance(value, dict):
        if len(value) > _MOST + 3:
            return f"{{{', '.join(list(value)[:_MOST])}, ... {len(value)} in all}}"
        return f"{{{', '.join(f'{key}: {short(item)}' for key, item in value.items())}}}"
    return json.dumps(value) if not isinstance(value, str) else value


def write_document(path: Path) -> None:
    """Replace what stands between the two marks of a document.

    Raises:
        UnreadableInput: the file cannot be read or has no marks.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableInput("the document cannot be read", where=str(path), next_move=str(error)) from None
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise UnreadableInput("no place for the table", where=str(path), next_move=f"Add {BEGIN} and {END}")
    head, tail = text.partition(BEGIN)[0], text.partition(END)[2]
    path.write_text(f"{head}{BEGIN}\n{document_table()}\n{END}{tail}", "utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0, or the error's own."""
    parser = argparse.ArgumentParser(prog="python -m m3probe.vllm_source.generate", description=__doc__)
    parser.add_argument("tree", nargs="?", type=Path, help="folder that holds vllm/")
    parser.add_argument("version", nargs="?", help="the release that it is")
    parser.add_argument("--out", type=Path, default=TABLES, help="folder of the table")
    parser.add_argument("--docs", type=Path, help="document to write the tables into")
    args = parser.parse_args(argv)
    if args.docs is None and args.version is None:
        parser.error("name a tree and its version, or --docs FILE")
    try:
        if args.version is not None:
            sys.stdout.write(f"{write_table(args.tree, args.version, args.out)}\n")
        if args.docs is not None:
            write_document(args.docs)
    except M3ProbeError as error:
        sys.stderr.write(f"{error.sentence()}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
