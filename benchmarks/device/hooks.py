"""us that each hook of an armed probe takes in a step, in place: in a serving engine, where caches are cold.

    python benchmarks/device/hooks.py --model FOLDER --out DIR [--eager] [--batch 8] [--prompt 60]

``bench_collectors.py`` has the same hooks on stand-ins in a loop, where they cost a third of this. The clock around each
hook is in its figure (about 0.1 us).
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path
from typing import Any

STEPS = 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--prompt", type=int, default=60)
    given = parser.parse_args()
    took: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    watch(took, calls)

    import guests
    from engine import Engine

    engine = Engine(given.model, eager=given.eager)
    engine.run(given.batch, given.prompt, STEPS)
    guests.arm(given.out / f"hooks-{time.time_ns()}")
    took.clear()
    calls.clear()
    engine.run(given.batch, given.prompt, STEPS)
    steps = STEPS + 1  # and the prefill
    print(f"{took.total() / steps / 1e3:.1f} us a step in {calls.total() / steps:.0f} calls")
    for seam, spent in took.most_common():
        each = spent / calls[seam] / 1e3
        print(f"{seam:28} {spent / steps / 1e3:8.2f} us a step {calls[seam] / steps:7.1f} calls {each:7.2f} us each")
    guests.disarm()


def watch(took: Counter[str], calls: Counter[str]) -> None:
    """Put a clock around what every later hook calls before and after vLLM's own function."""
    from m3probe.collectors import _patch

    made = _patch.around

    def around(patches: Any, seam: str, *, before: Any = None, after: Any = None, traced: bool = False) -> Any:
        def timed(hook: Any) -> Any:
            def call(*args: Any, **kwargs: Any) -> Any:
                begun = time.perf_counter_ns()
                try:
                    return hook(*args, **kwargs)
                finally:
                    took[seam] += time.perf_counter_ns() - begun
                    calls[seam] += 1

            return call

        clocks = {name: timed(hook) for name, hook in (("before", before), ("after", after)) if hook is not None}
        return made(patches, seam, traced=traced, **clocks)

    _patch.around = around


if __name__ == "__main__":
    main()
