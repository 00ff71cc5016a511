"""Hardware counters: a row for each counter and dispatch, in the columns of two eras, and rocprofv3's JSON of them."""

from __future__ import annotations

import csv
import io
from typing import Any

import counter_kit as kit
from fuzz import damage
from fuzz.harness import Format, Sample, examine
from hypothesis import strategies as some
from hypothesis.strategies import DrawFn

COUNTERS = ("SQ_WAVES", "TCC_EA0_RDREQ_sum", "GRBM_COUNT")


def text(rows: list[list[str]]) -> bytes:
    """As CSV."""
    made = io.StringIO()
    csv.writer(made, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return made.getvalue().encode("utf-8", "surrogatepass")


@some.composite
def samples(draw: DrawFn) -> Sample:
    """Whole, or not."""
    header = draw(some.sampled_from((kit.HEADER_62, kit.HEADER_7)))
    chosen = draw(some.lists(some.sampled_from(COUNTERS), min_size=1, unique=True))
    sound = draw(some.booleans())
    rows, sums = [header], dict.fromkeys(chosen, 0)
    dispatches = draw(some.integers(1, 4))
    for dispatch in range(1, dispatches + 1):
        for counter in chosen:
            value = draw(some.integers(0, 2**40))
            sums[counter] += value
            name = "gemm" if sound else draw(damage.texts)
            row: dict[str, Any] = kit.row(dispatch, counter, value, name)
            rows.append([str(row[column]) for column in header])
    if sound:
        said = {"dispatches": dispatches, "counters": sums, "table_rows": len(rows) - 1}
        return Sample({"100_counter_collection.csv": text(rows)}, said)
    rows = draw(damage.spoilt_rows(rows))
    data = text(rows) if draw(some.booleans()) else draw(damage.spoilt_bytes(text(rows)))
    files = {"c/100_counter_collection.csv": data}
    if draw(some.booleans()):
        agents = kit.AGENTS.format(gfx="gfx950", product="AMD Instinct MI350X", units=256).encode()
        files["c/100_agent_info.csv"] = draw(damage.spoilt_bytes(agents))
    return Sample(files, folder=draw(some.booleans()))


FORMAT = Format("counter_table", samples(), examine)
