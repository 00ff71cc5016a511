"""Our parser of metrics pages against the client library's, on whole pages of a real server."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from m3probe.schema.exposition import SERIES, labels_of
from m3probe.sources import open_recording

PAGES = sorted((Path(__file__).parent / "data" / "metrics").glob("*.prom.gz"))
HOSTILE = """# HELP vllm:x text with {braces} and "quotes"
# TYPE vllm:x gauge
vllm:x{a="b c",d="}{",e="with \\"quotes\\" and \\\\ and \\n end"} 1.5e-3
vllm:x{a=""} +Inf
vllm:x{a="2"} NaN
vllm:x{a="3",} -7
vllm:x 3 1764000000000
# TYPE vllm:iteration_tokens_total histogram
vllm:iteration_tokens_total_bucket{le="1.0"} 2
vllm:iteration_tokens_total_bucket{le="+Inf"} 3
vllm:iteration_tokens_total_count 3
vllm:iteration_tokens_total_sum 9
"""


def theirs(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def ours(path: Path) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    rec = open_recording([path])
    assert [(f.kind, f.role) for f in rec.files] == [("prometheus", "metrics")]
    assert rec.notes == ()
    found = {}
    for series, value in zip(
        rec.tables["metrics"]["series"].tolist(), rec.tables["metrics"]["value"].tolist(), strict=True
    ):
        said = SERIES.fullmatch(rec.strings[series])
        assert said is not None
        found[said[1], frozenset(labels_of(said[2] or "").items())] = value
    return found


def equal(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_a_real_page_gives_the_samples_that_the_client_library_gives(path: Path) -> None:
    wanted, found = theirs(gzip.decompress(path.read_bytes()).decode()), ours(path)
    assert len(wanted) > 300
    assert found == wanted


def test_odd_labels_and_values_are_read_as_the_client_library_reads_them(tmp_path: Path) -> None:
    (tmp_path / "odd.prom").write_text(HOSTILE)
    wanted, found = theirs(HOSTILE), ours(tmp_path / "odd.prom")
    assert found.keys() == wanted.keys()
    assert all(equal(found[key], value) for key, value in wanted.items())
    text = next(dict(labels)["e"] for name, labels in found if dict(labels).get("d") == "}{")
    assert text == 'with "quotes" and \\ and \n end'
