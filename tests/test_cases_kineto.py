"""Every known trouble of kineto traces (tests/data/cases, each from a public report): the facts, the outcome, the exit status and the matters to be told."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from command_kit import ran

CASES = Path(__file__).parent / "data" / "cases"
EXPECTED = sorted(CASES.glob("k*.expected.json"))
UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}

WORDS = {
    "graph launches without kernels (profiler loss likely)": "graph launches without kernels",
    "records without timestamps": "records without timestamps",
    "no GPU kernels in trace": "no GPU kernels in trace",
    "truncated file: figures cover only what was read": "truncated file",
}
"""Wording of a case -> the words of ours that must tell it; a case's own first words otherwise."""


def in_ns(key: str) -> tuple[str, int]:
    """(the key in ns, factor) of a case's time key: ``kernel_time_us`` -> (``kernel_time_ns``, 1000)."""
    for unit, factor in UNITS.items():
        if key.endswith(f"_{unit}"):
            return f"{key[: -len(unit)]}ns", factor
        if f"_{unit}_" in key:
            return key.replace(f"_{unit}_", "_ns_"), factor
    return key, 1


def same(found: Any, wanted: Any, factor: int) -> bool:
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(k in found and same(found[k], v, factor) for k, v in wanted.items())
    if isinstance(wanted, list):
        return (
            isinstance(found, list)
            and len(found) == len(wanted)
            and all(same(f, w, factor) for f, w in zip(found, wanted, strict=True))
        )
    if factor > 1:
        return found == round(wanted * factor)
    if isinstance(wanted, float):
        return math.isclose(found, wanted, rel_tol=1e-6)
    return bool(found == wanted)


@pytest.mark.parametrize("path", EXPECTED, ids=lambda p: p.name.removesuffix(".expected.json"))
def test_a_known_case_gives_its_facts(path: Path) -> None:
    wanted = json.loads(path.read_text())
    result = ran("inspect", "--json", str(path.with_name(wanted["case"])))
    assert "Traceback" not in result.stderr
    if wanted["outcome"] == "error":
        assert result.returncode == 3
        for word in wanted["checks"]["message_must_name"]:
            named = wanted["case"] if word == "file" else word
            assert named in result.stderr
        return
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["outcome"] == wanted["outcome"]
    for key, value in wanted["facts"].items():
        name, factor = in_ns(key)
        assert name in found["facts"], name
        assert same(found["facts"][name], value, factor), (name, found["facts"][name], value)
    told = " | ".join(found["warnings"])
    for matter in wanted["warn"]:
        assert WORDS.get(matter, matter) in told, (matter, told)
    if not wanted["warn"] and wanted["outcome"] == "ok":
        assert not told


@pytest.mark.parametrize("case", ["k10_unescaped_quotes.json", "k11_backslashes.json"])
def test_a_broken_event_is_told_with_its_line(case: str) -> None:
    found = json.loads(ran("inspect", "--json", str(CASES / case)).stdout)
    assert any("line 2" in text and case in text for text in found["warnings"])


@pytest.mark.parametrize("path", EXPECTED, ids=lambda p: p.name.removesuffix(".expected.json"))
def test_a_known_case_is_analyzed_without_a_raw_control_byte(path: Path) -> None:
    wanted = json.loads(path.read_text())
    for extra in ([], ["--json"]):
        result = ran("analyze", *extra, str(path.with_name(wanted["case"])))
        assert result.returncode == (3 if wanted["outcome"] == "error" else 0), result.stderr
        assert "Traceback" not in result.stderr
        assert not {c for c in result.stdout + result.stderr if ord(c) < 32 and c != "\n"}
        if extra and result.stdout:
            json.loads(result.stdout, parse_constant=lambda word: pytest.fail(f"{word} in our JSON"))
