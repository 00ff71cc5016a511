"""Tables of ``key_averages().table()``: names, own time in its units, calls; several in one file."""

from __future__ import annotations

from fuzz import damage
from fuzz.harness import Format, Sample, examine
from hypothesis import strategies as some
from hypothesis.strategies import DrawFn

HEAD = ("Name", "Self CUDA", "CUDA total", "# of Calls")
UNITS = {"us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
NAMES = (
    "demo_fmoe_k",
    "Cijk_Ailk_Bljk",
    "void at::native::copy_kernel<float>(int)",
    "ncclDevKernel_AllReduce",
    "große",
)


@some.composite
def rows(draw: DrawFn, hostile: bool = False) -> list[tuple[str, int, str, int]]:
    """(name, thousandths of the unit, unit, calls)."""
    names = damage.texts if hostile else some.sampled_from(NAMES)
    row = some.tuples(names, some.integers(1, 999_999), some.sampled_from(sorted(UNITS)), some.integers(1, 10**9))
    return draw(some.lists(row, min_size=1, max_size=5, unique_by=None if hostile else lambda one: one[0]))


def table(found: list[tuple[str, int, str, int]]) -> list[str]:
    """Lines as torch prints them."""
    cells = [(name, *[f"{time // 1000}.{time % 1000:03}{unit}"] * 2, str(calls)) for name, time, unit, calls in found]
    width = max(18, *(len(row[0]) for row in cells))
    dashes = "  ".join(["-" * width, *["-" * 12] * 3])

    def line(row: tuple[str, ...]) -> str:
        return "  ".join([row[0].rjust(width), *(cell.rjust(12) for cell in row[1:])])

    total = f"Self CUDA time total: {cells[0][1]}"
    return [dashes, line(HEAD), dashes, *(line(row) for row in cells), dashes, total]


@some.composite
def samples(draw: DrawFn) -> Sample:
    """A table that is whole, or some that are not."""
    if draw(some.booleans()):
        found = draw(rows())
        times = {name: time * UNITS[unit] // 1000 for name, time, unit, _ in found}
        said = {
            "self_ns": times,
            "self_total_ns": sum(times.values()),
            "calls": {row[0]: row[3] for row in found},
            "table_rows": len(found),
        }
        return Sample({"profiler_out_0.txt": "\n".join([*table(found), ""]).encode()}, said)
    lines = [line for _ in range(draw(some.integers(1, 2))) for line in table(draw(rows(hostile=True)))]
    data = "\n".join(lines).encode("utf-8", "surrogatepass")
    return Sample({"profiler_out_0.txt": draw(damage.spoilt_bytes(data)) if draw(some.booleans()) else data})


FORMAT = Format("kernel_table", samples(), examine)
