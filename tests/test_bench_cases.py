"""Every known trouble of benchmark results (tests/data/cases): the facts, the outcome and the matters to be told."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from bench_kit import CASES

from m3probe import pipeline
from m3probe.errors import UnreadableInput
from m3probe.present.json import inspect_json
from m3probe.sources import open_recording

EXPECTED = sorted([*CASES.glob("b*.expected.json"), *CASES.glob("l14*.expected.json")])
UNITS = {"_ms": 1_000_000, "_us": 1_000}
BY_METRICS = {"prefix_cache_hit_rate", "recompute_factor", "kv_cache_usage", "kv_capacity_tokens", "kv_used_tokens"}
"""Facts of case b22 that need the /metrics page beside the result."""


def inspected(path: Path) -> dict[str, Any]:
    found = pipeline.inspect(pipeline.read([path]))
    document: dict[str, Any] = json.loads(
        inspect_json(found.kind, found.outcome, found.facts, [note.text for note in found.warnings])
    )
    return document


def in_ns(key: str, value: Any) -> tuple[str, Any]:
    unit = next((unit for unit in UNITS if key.endswith(unit)), None)
    if unit is None:
        return key, value
    factor = UNITS[unit]
    if isinstance(value, dict):
        return f"{key.removesuffix(unit)}_ns", {name: round(one * factor) for name, one in value.items()}
    return f"{key.removesuffix(unit)}_ns", None if value is None else round(value * factor)


def same(found: Any, wanted: Any, tolerance: float) -> bool:
    if isinstance(wanted, float):
        return math.isclose(found, wanted, rel_tol=tolerance)
    return bool(found == wanted) and type(found) is type(wanted)


def compare(found: dict[str, Any], wanted: dict[str, Any], tolerances: dict[str, float]) -> None:
    for key, value in wanted.items():
        if key == "by_run":
            assert len(found["by_run"]) == len(value)
            for one, other in zip(found["by_run"], value, strict=True):
                compare(one, other, tolerances)
            continue
        name, ns = in_ns(key, value)
        assert name in found, name
        assert same(found[name], ns, tolerances.get(key, 1e-6)), (name, found[name], ns)


@pytest.mark.parametrize("path", EXPECTED, ids=lambda p: p.name.removesuffix(".expected.json"))
def test_a_known_case_gives_its_facts(path: Path) -> None:
    wanted = json.loads(path.read_text())
    found = inspected(path.with_name(wanted["case"]))
    assert found["outcome"] == wanted["outcome"]
    assert wanted["kind"] in found["kind"]
    facts = {key: value for key, value in wanted["facts"].items() if key not in BY_METRICS}
    compare(found["facts"], facts, wanted.get("tolerance", {}))
    said = " | ".join(found["warnings"])
    for matter in wanted["warn"]:
        assert matter in said
    if wanted["outcome"] == "ok":
        assert not said


def test_there_are_cases() -> None:
    assert len(EXPECTED) == 11


def test_nothing_that_is_no_number_reaches_json() -> None:
    found = json.dumps(inspected(CASES / "b05_infinity_nan.json"))
    assert "NaN" not in found
    assert "Infinity" not in found


def test_what_was_not_measured_is_not_known() -> None:
    facts = inspected(CASES / "b05_infinity_nan.json")["facts"]
    assert facts["mean_itl_ns"] is None  # the file says 0.0 for it
    assert inspected(CASES / "b09_all_failed_means_zero.json")["facts"]["mean_tpot_ns"] is None


def test_a_page_of_text_is_no_result(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"mean_height": 3, "duration": 5}')
    with pytest.raises(UnreadableInput):
        open_recording([tmp_path / "a.json"])
