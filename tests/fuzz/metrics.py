"""Pages of /metrics: gauges, counters and histograms of one or two engines, alone or as a log of scrapes."""

from __future__ import annotations

from fuzz import damage
from fuzz.harness import Format, Sample, examine
from hypothesis import strategies as some
from hypothesis.strategies import DrawFn

GAUGES = ("vllm:num_requests_running", "vllm:num_requests_waiting")
COUNTERS = ("vllm:prompt_tokens_total", "vllm:generation_tokens_total")
BOUNDS = ("0.01", "0.1", "1.0", "+Inf")
HOSTILE = ("NaN", "+Inf", "-5", "1e400", "0x10", "", "१२", "9" * 400, "1_0", "-", "1 2 3")


@some.composite
def page(draw: DrawFn, hostile: bool = False) -> tuple[list[str], dict[str, int]]:
    """Lines of one page, and what they say."""
    engines = [f'engine="{number}"' for number in range(draw(some.integers(1, 2)))]
    if hostile:
        engines.append(f'engine="{draw(damage.texts)}",model_name="{draw(damage.texts)}"')
    lines: list[str] = []
    said: dict[str, int] = {}
    for name in (*GAUGES, *COUNTERS):
        lines.append(f"# TYPE {name} {'gauge' if name in GAUGES else 'counter'}")
        for engine in engines:
            value = draw(some.integers(0, 2**40))
            said[name] = said.get(name, 0) + value
            lines.append(f"{name}{{{engine}}} {draw(some.sampled_from(HOSTILE)) if hostile else value}")
    name, total = "vllm:time_to_first_token_seconds", 0
    lines.append(f"# TYPE {name} histogram")
    for bound in BOUNDS:
        total += draw(some.integers(0, 9))
        lines.append(f'{name}_bucket{{{engines[0]},le="{bound}"}} {total}')
    lines += [f"{name}_sum{{{engines[0]}}} {total * 0.05}", f"{name}_count{{{engines[0]}}} {total}"]
    said["samples"] = sum(not line.startswith("#") for line in lines)
    return lines, said


@some.composite
def samples(draw: DrawFn) -> Sample:
    """A page that is whole, or pages that are not."""
    if draw(some.booleans()):
        lines, said = draw(page())
        told = {
            "samples": said["samples"],
            "running": said[GAUGES[0]],
            "waiting": said[GAUGES[1]],
            "prompt_tokens": said[COUNTERS[0]],
        }
        return Sample({"m.prom": "\n".join([*lines, ""]).encode()}, told)
    lines = [line for _ in range(draw(some.integers(1, 3))) for line in draw(page(hostile=draw(some.booleans())))[0]]
    data = "\n".join(lines).encode("utf-8", "surrogatepass")
    data = draw(damage.spoilt_bytes(data)) if draw(some.booleans()) else data
    if not draw(some.integers(0, 3)):
        return Sample({"m.prom.gz": draw(damage.packed(data, sound=False))})
    return Sample({"scrapes/m.prom": data, "scrapes/n.prom": "\n".join(lines[:9]).encode("utf-8", "surrogatepass")})


FORMAT = Format("metrics", samples(), examine)
