"""Every known trouble of metrics pages (tests/data/cases, each from a public report): facts, outcome, what is told."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from command_kit import ran

CASES = Path(__file__).parent / "data" / "cases"
EXPECTED = [*sorted(CASES.glob("p*.expected.json")), *sorted(CASES.glob("b2*.expected.json"))]
UNITS = {"_s": 1_000_000_000, "_ms": 1_000_000}


def in_ns(key: str, value: Any) -> tuple[str, Any]:
    """A case's times in s or ms as our whole ns."""
    for unit, factor in UNITS.items():
        if key.endswith(unit):
            many = isinstance(value, list)
            scaled = [None if v is None else round(v * factor) for v in (value if many else [value])]
            return f"{key.removesuffix(unit)}_ns", scaled if many else scaled[0]
    return key, value


def check(found: Any, wanted: Any, share: float, at: str) -> None:
    if isinstance(wanted, dict):
        for key, said in wanted.items():
            name, value = in_ns(key, said)
            assert name in found, (at, name, found)
            check(found[name], value, share, f"{at}.{name}")
    elif isinstance(wanted, float) or (isinstance(wanted, int) and share):
        assert math.isclose(found, wanted, rel_tol=share or 1e-6), (at, found, wanted)
    else:
        assert found == wanted, (at, found, wanted)


@pytest.mark.parametrize("path", EXPECTED, ids=lambda p: p.name.removesuffix(".expected.json"))
def test_a_known_case_gives_its_facts(path: Path) -> None:
    wanted = json.loads(path.read_text())
    result = ran("inspect", "--json", str(path.with_name(wanted["case"])))
    assert "Traceback" not in result.stderr
    if wanted["outcome"] == "error":
        assert result.returncode == 3
        assert all(word in result.stderr for word in wanted["checks"]["message_must_name"])
        return
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout, parse_constant=lambda word: pytest.fail(f"{word} in our JSON"))
    assert found["outcome"] == wanted["outcome"]
    for key, value in wanted["facts"].items():
        check(found["facts"], {key: value}, wanted.get("tolerance", {}).get(key, 0.0), "facts")
    told = " | ".join(found["warnings"])
    for matter in wanted["warn"]:
        # ours names the engine in between
        assert all(part.strip() in told for part in matter.split(";")), (matter, told)
    assert wanted["warn"] or not told


@pytest.mark.parametrize("path", EXPECTED, ids=lambda p: p.name.removesuffix(".expected.json"))
def test_a_known_case_is_analyzed(path: Path) -> None:
    wanted = json.loads(path.read_text())
    for extra in ([], ["--json"]):
        result = ran("analyze", *extra, str(path.with_name(wanted["case"])))
        assert result.returncode == (3 if wanted["outcome"] == "error" else 0), result.stderr
        assert "Traceback" not in result.stderr


def test_no_observation_has_no_mean_and_no_quantile() -> None:
    facts = json.loads(ran("inspect", "--json", str(CASES / "p06_no_observations_nan.prom")).stdout)["facts"]
    assert facts["e2e"] == {
        "type": "histogram",
        "count": 0,
        "sum_ns": 0,
        "mean_ns": None,
        "p50_ns": None,
        "p99_ns": None,
        "buckets": {"1": 0, "+Inf": 0},
    }


def test_a_time_that_was_never_taken_has_no_mean() -> None:
    facts = json.loads(ran("inspect", "--json", str(CASES / "p08_flat_buckets.prom")).stdout)["facts"]
    assert facts["ttft"]["mean_ns"] is None
