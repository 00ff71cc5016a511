"""Pages of the JSON Schemas: every field with its type, and what it means where the schema or the code says so."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from words import code, page, plain, table, toctree

ROOT = Path(__file__).parents[2]
_PAGE = re.compile(r"docs/([a-z-]+)\.md")
_ARG = re.compile(r"^ {4}(\w+): (.*(?:\n {8,}.*)*)", re.MULTILINE)


def pages() -> dict[str, str]:
    """Markdown by file name of the site."""
    found = {path.name.partition(".")[0]: path for path in sorted((ROOT / "docs").glob("*.schema.json"))}
    loaded = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in found.items()}
    made = {f"schemas/{name}.md": _page(name, schema) for name, schema in loaded.items()}
    rows = [[f"[{plain(schema['title'])}]({name}.md)", f"[{name}.schema.json](../{name}.schema.json)"]
            for name, schema in loaded.items()]  # fmt: skip
    made["schemas/index.md"] = page(
        "# JSON Schemas",
        "What `--json` prints, and what a rules file may hold, as JSON Schema 2020-12. Tests hold them against the "
        "program. `null` is not known, never 0; keys that end in `_ns` are whole nanoseconds.",
        table(["document", "schema"], rows),
        toctree(loaded),
    )
    return made


def _page(name: str, schema: Mapping[str, Any]) -> str:
    objects = schema.get("$defs", {})
    described = {each: str(body["description"]) for each, body in objects.items() if "description" in body}
    parts = [_object("The document", schema, {}, described)]
    parts += [_object(each, body, meanings().get(each, {}), described) for each, body in objects.items()]
    return page(
        f"# {plain(schema['title'])}",
        _PAGE.sub(r"[\1](../\1.md)", plain(schema.get("description", ""))),
        f"The schema itself: [{name}.schema.json](../{name}.schema.json).",
        *parts,
    )


def _object(title: str, body: Mapping[str, Any], told: Mapping[str, str], described: Mapping[str, str]) -> str:
    """One object with a row for each key, or one named value."""
    fields: Mapping[str, Any] = body.get("properties", {})
    required = set(body.get("required", ()))
    rows = [
        [code(key), _type(value), "" if key in required else "may be absent", _meaning(key, value, told, described)]
        for key, value in fields.items()
    ]
    head = ["key", "value", "", "meaning"] if set(fields) - required else ["key", "value", "meaning"]
    kept = rows if len(head) == 4 else [[row[0], row[1], row[3]] for row in rows]
    return page(
        f"## {title}",
        plain(body.get("description", "")) if title != "The document" else "",
        table(head, kept) if rows else _type(body),
    ).rstrip()


def _meaning(key: str, value: Mapping[str, Any], told: Mapping[str, str], described: Mapping[str, str]) -> str:
    """What the schema says of a key, else the record's docstring, else what the object is that it holds."""
    said = value.get("description") or told.get(key)
    if not said:
        names = {name for name in re.findall(r"#/\$defs/(\w+)", json.dumps(value)) if name in described}
        said = " ".join(described[name] for name in sorted(names))
    said = said or shared().get(key)
    return plain(said.replace("``", "")) if said else "—"


def _type(value: Any) -> str:
    """A value in words: its type, its words, or a link to the object that it is."""
    if not isinstance(value, dict) or not value:
        return "anything" if value is not False else "nothing"
    if "$ref" in value:
        name = str(value["$ref"]).rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "const" in value:
        return code(json.dumps(value["const"]))
    if "enum" in value:
        return ", ".join(code(json.dumps(each)) for each in value["enum"])
    for word in ("anyOf", "oneOf"):
        if word in value and "properties" not in value:
            return " or ".join(dict.fromkeys(_type(each) for each in value[word]))
    return " or ".join(_simple(str(kind), value) for kind in _kinds(value))


def _kinds(value: Mapping[str, Any]) -> Iterator[str]:
    kind = value.get("type", "object" if "properties" in value or "additionalProperties" in value else "anything")
    yield from (kind if isinstance(kind, list) else [kind])


def _simple(kind: str, value: Mapping[str, Any]) -> str:
    if kind == "array":
        return f"list of {_type(value.get('items', {}))}"
    if kind == "object" and isinstance(value.get("additionalProperties"), dict):
        return f"key → {_type(value['additionalProperties'])}"
    low, high = value.get("minimum"), value.get("maximum")
    bounds = [f"from {low:,}" if low is not None else "", f"to {high:,}" if high is not None else ""]
    return " ".join([kind, *filter(None, bounds)]) if kind in ("integer", "number") else kind


@cache
def shared() -> Mapping[str, str]:
    """Key -> meaning, of keys that mean the same in every document (keys.toml)."""
    table: Mapping[str, str] = tomllib.loads((Path(__file__).parent / "keys.toml").read_text(encoding="utf-8"))["any"]
    return table


@cache
def meanings() -> dict[str, dict[str, str]]:
    """Class name -> field -> meaning, from the docstrings of the records that the documents are made from."""
    found: dict[str, dict[str, str]] = {}
    for room in ("model", "schema", "rules"):
        for path in sorted((ROOT / "m3probe" / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    found.setdefault(node.name, {}).update(_fields(node))
    return found


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """``name: text`` of the docstring's ``Args``, lines that begin with a name, and the string below a field."""
    said = ast.get_docstring(node) or ""
    yield from _ARG.findall(said.partition("Args:\n")[2])
    for line in said.partition("Args:\n")[0].splitlines():
        names, colon, text = line.partition(": ")
        if colon and names.startswith("``"):
            yield from ((name, text) for name in re.findall(r"``(\w+)``", names))
    before: ast.stmt | None = None
    for stmt in node.body:
        below = stmt.value.value if isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Constant) else None
        if isinstance(below, str) and isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name):
            yield before.target.id, below
        before = stmt
